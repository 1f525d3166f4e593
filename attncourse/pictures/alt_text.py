"""What attention weights show, in words: the default alt texts of the pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torch import Tensor

MOST_ROWS = 12  # so many rows are told one by one


def say_number(value: float, digits: int = 2) -> str:
    """Return a number as an alt text says it: with so many decimals, or one or two more.

    More are needed where a value lies close to a rounding boundary: another machine, whose last
    bits differ, would round it the other way.

    >>> say_number(0.2468), say_number(0.2451), say_number(0.625)
    ('0.25', '0.245', '0.625')
    """
    more = digits
    while more < digits + 2 and abs(abs(value) * 10**more % 1 - 0.5) < 0.05:
        more += 1
    return f"{value:.{more}f}"


def tell_apart(words: Sequence[str]) -> list[str]:
    """Return the words without spaces around them, those that come again with their number.

    >>> tell_apart(["the", " cat", " the"])
    ['the', 'cat', 'the (2)']
    """
    seen: Counter[str] = Counter()
    names = []
    for word in (word.strip() for word in words):
        seen[word] += 1
        names.append(word if seen[word] == 1 else f"{word} ({seen[word]})")
    return names


def largest_weights(weights: Tensor, words: Sequence[str]) -> str:
    """Return what each query attends to most, as a clause without a full stop.

    Args:
        weights: (num_queries, num_keys); rows of NaN have nothing to say.
        words: the names of the keys; the queries are the last of them.

    Returns:
        One clause for all queries that do alike, if most do, and one for each other, MOST_ROWS at
        the most.
    """
    names = tell_apart(words)
    first = len(words) - len(weights)
    rows = []
    for q, row in enumerate(weights.nan_to_num(0.0)):
        weight, key = row.max(dim=0)
        if weight > 0 and not (first + q == 0 and weight == 1):  # the first word has no choice
            rows.append((first + q, int(key), say_number(weight.item())))
    if not rows:
        return (
            "no weights"
            if not weights.nan_to_num(0.0).any()
            else "one word, which attends to itself"
        )
    patterns = [
        ("the word just before it", [row for row in rows if row[1] == row[0] - 1]),
        ("itself", [row for row in rows if row[1] == row[0]]),
        (f"{names[0]}, the first", [row for row in rows if row[1] == 0]),
    ]
    pattern, alike = max(patterns, key=lambda found: len(found[1]))
    if len(rows) == 1 or 3 * len(alike) < 2 * len(rows):
        return _told(rows, names)
    low, high = min(weight for *_, weight in alike), max(weight for *_, weight in alike)
    between = low if low == high else f"{low} to {high}"
    clause = f"each word attends most to {pattern}, with {between}"
    others = [row for row in rows if row not in alike]
    return f"{clause}; but {_told(others, names)}" if others else clause


def _told(rows: Sequence[tuple[int, int, str]], names: Sequence[str]) -> str:
    """Return rows one by one: the query, the key it attends to most, and the weight."""
    told = [
        f"{names[query]} attends most to {names[key]} ({weight})" for query, key, weight in rows
    ]
    more = f", and {len(told) - MOST_ROWS} more" if len(told) > MOST_ROWS else ""
    return ", ".join(told[:MOST_ROWS]) + more


def whole_row(row: Tensor, words: Sequence[str], query: int, least: float) -> str:
    """Return what one query attends to: every key with at least so much weight, largest first."""
    names = tell_apart(words)
    order = sorted(range(len(row)), key=lambda key: -row[key].item())
    told = [f"{names[key]} ({say_number(row[key].item())})" for key in order if row[key] >= least]
    return f"{names[query]} attends to {', '.join(told) or 'nothing'}"
