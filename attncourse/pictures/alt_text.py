"""What attention weights show, in words: the default alt texts of the pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torch import Tensor

MOST_ROWS = 12  # so many rows are told one by one


def format_number(value: float, digits: int = 2) -> str:
    """Return a number as an alt text says it: with so many decimals, or one or two more.

    More are needed where a value lies close to a rounding boundary: another machine, whose last
    bits differ, would round it the other way.

    >>> format_number(0.2468), format_number(0.2451), format_number(0.625)
    ('0.25', '0.245', '0.625')
    """
    more = digits
    while more < digits + 2 and abs(abs(value) * 10**more % 1 - 0.5) < 0.05:
        more += 1
    return f"{value:.{more}f}"


def unique_names(words: Sequence[str]) -> list[str]:
    """Return the words without spaces around them, those that come again with their number.

    >>> unique_names(["the", " cat", " the"])
    ['the', 'cat', 'the (2)']
    """
    seen: Counter[str] = Counter()
    names = []
    for word in (word.strip() for word in words):
        seen[word] += 1
        names.append(word if seen[word] == 1 else f"{word} ({seen[word]})")
    return names


def describe_weights(
    weights: Tensor, words: Sequence[str], queries: Sequence[str] | None = None
) -> str:
    """Return what each query attends to most, as a clause without a full stop.

    Args:
        weights: (num_queries, num_keys); rows of NaN have nothing to say.
        words: the names of the keys.
        queries: the names of the queries. None: they are the last of the words.

    Returns:
        One clause for all queries if they follow one pattern, else one for each, MOST_ROWS at the
        most.
    """
    names, first = unique_names(words), len(words) - len(weights)
    asking = names if queries is None else [""] * first + unique_names(queries)
    rows = []
    for q, row in enumerate(weights.nan_to_num(0.0)):
        weight, key = row.max(dim=0)
        if weight > 0 and not (first + q == 0 and weight == 1):  # the first word has no choice
            rows.append((first + q, int(key), format_number(weight.item())))
    if not rows:
        return (
            "no weights"
            if not weights.nan_to_num(0.0).any()
            else "one word, which attends to itself"
        )
    patterns = {
        "the word just before it": all(key == query - 1 for query, key, _ in rows),
        "itself": all(key == query for query, key, _ in rows),
        f"{names[0]}, the first": all(key == 0 for _, key, _ in rows),
    }
    for pattern, holds in patterns.items():
        if holds and queries is None and len(rows) > 1:
            low, high = min(weight for *_, weight in rows), max(weight for *_, weight in rows)
            between = low if low == high else f"{low} to {high}"
            return f"each word attends most to {pattern}, with {between}"
    told = [
        f"{asking[query]} attends most to {names[key]} ({weight})" for query, key, weight in rows
    ]
    more = f", and {len(told) - MOST_ROWS} more" if len(told) > MOST_ROWS else ""
    return ", ".join(told[:MOST_ROWS]) + more


def describe_row(row: Tensor, words: Sequence[str], query: int, least: float) -> str:
    """Return what one query attends to: every key with at least so much weight, largest first."""
    names = unique_names(words)
    order = sorted(range(len(row)), key=lambda key: -row[key].item())
    told = [
        f"{names[key]} ({format_number(row[key].item())})" for key in order if row[key] >= least
    ]
    return f"{names[query]} attends to {', '.join(told) or 'nothing'}"
