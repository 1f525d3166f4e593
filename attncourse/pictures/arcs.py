"""Words in a row, with an arc from each word back to the words that it looks at."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, head_color, text_color
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words, shift
from attncourse.pictures.seen import largest_weights, whole_row

LEAST = 0.05  # a smaller weight has no arc
LETTERS = 14.0  # size of the words
GAP, WIDEST_GAP, STEP = 14.0, 40.0, 19.0  # between words in a row, and between words that slant
HIGHEST, LOWEST = 110.0, 16.0  # the top of the longest arc, and of a very short one
LOOP = 8.0  # radius of the loop of a word that looks at itself
APART = 4.0  # arcs leave a word so far left of its middle, and arrive so far right of it

Points = tuple[tuple[float, float], ...]


def arcs_picture(
    words: Sequence[str],
    weights: Tensor,
    names: Sequence[str] = (),
    hues: Sequence[int] = (),
    query: int | None = None,
) -> Scene:
    """Draw the words of a text, and an arc from each word to each word that it looks at.

    Args:
        words: the words or tokens; spaces around them are left out.
        weights: (num_tokens, num_tokens), or (num_heads, num_tokens, num_tokens): then the heads
            stand one above the other. NaN has no arc, nor a weight of less than LEAST.
        names: of the heads. None given: head 0, head 1 and so on; a single head has no name.
        hues: whose color each head has, counted from 0. None given: its own.
        query: the word whose arcs alone are colored, with their weights as numbers.

    Returns:
        A Scene: the more weight, the thicker and stronger the arc; a loop is a look at itself.

    Raises:
        ValueError: If the weights do not fit the words, or the query is none of them.
    """
    heads = weights[None] if weights.ndim == 2 else weights  # (num_heads, num_tokens, num_tokens)
    size = len(words)
    if heads.ndim != 3 or heads.shape[1:] != (size, size):
        raise ValueError(
            f"weights must be ({size}, {size}), or (num_heads, {size}, {size}), for {size} words, "
            f"got {tuple(weights.shape)}: pass as many words as tokens"
        )
    if query is not None and not 0 <= query < size:
        raise ValueError(f"query must be 0 to {size - 1}, the place of a word, got {query}")
    names = names or ([""] if weights.ndim == 2 else [f"head {h}" for h in range(len(heads))])
    hues = hues or range(len(heads))
    if not len(names) == len(hues) == len(heads):
        raise ValueError(
            f"names and hues must have an entry for each of the {len(heads)} heads, "
            f"got {len(names)} and {len(hues)}"
        )
    shown = [word.strip() for word in words]
    tag = max(text_width(name, bold=True) for name in names) + 12 if any(names) else 0.0
    places, width, slanted = _places(shown, tag + 10 if tag else 6.0)
    deep = 0.72 * max(text_width(word, LETTERS) for word in shown) + 16 if slanted else 24.0
    deep += 18 if query is not None else 0
    items: list[Item] = []
    bottom = 0.0
    for head, name, hue in zip(heads, names, hues, strict=True):
        color = head_color(hue)
        arcs = _arcs(head, places, color, query)
        base = bottom + 8 - min([-20, *(y for arc in arcs for _, y in arc.points)])
        bottom = base + deep + 4
        if name:
            items.append(Box(0, base - 10, tag, 20, color, radius=3))
            items.append(Words(tag / 2, base, name, color=text_color(color), bold=True))
        items += shift(arcs, 0, base)
        row = None if query is None else head[query].tolist()
        items += shift(_row(shown, places, slanted, query, row), 0, base)
    rule = f"An arc for each weight of at least {LEAST:g}."
    items.append(Words(max(tag, 6), bottom + 10, rule, "start", FAINT))
    width = max(width, tag + text_width(rule) + 8)
    return Scene(width, bottom + 22, _alt(words, heads, names, query), tuple(items))


def _places(words: Sequence[str], left: float) -> tuple[list[float], float, bool]:
    """Return the middle of each word, the width of the picture, and whether the words slant."""
    widths = [text_width(word, LETTERS, bold=True) for word in words]
    gap = (BOOK - left - 6 - sum(widths)) / max(len(words) - 1, 1)
    if gap >= GAP:
        gap = min(gap, WIDEST_GAP)
        starts = [left + sum(widths[:i]) + i * gap for i in range(len(words))]
        middles = [start + wide / 2 for start, wide in zip(starts, widths, strict=True)]
        return middles, starts[-1] + widths[-1] + 6, False
    reach = [0.72 * wide - left for wide in widths]  # what hangs out to the left of the picture
    step = max(STEP, (BOOK - left - 24) / len(words))
    start = left + max(12, *(out - i * step for i, out in enumerate(reach)))
    step = max(STEP, (BOOK - start - 12) / max(len(words) - 1, 1))
    middles = [start + i * step for i in range(len(words))]
    return middles, middles[-1] + 12, True


def _arcs(weights: Tensor, places: Sequence[float], color: str, query: int | None) -> list[Line]:
    """Return the arcs of one head over the line y = 0, the strong ones above the weak ones."""
    longest = max(max(places) - min(places), 1.0)
    high = max(min(HIGHEST, 0.45 * longest) - LOWEST, 0)
    rows = weights.tolist()
    found = [(q == query, rows[q][k], q, k) for q, k in (weights >= LEAST).nonzero().tolist()]
    arcs = []
    for chosen, weight, q, k in sorted(found):
        ink = color if chosen or query is None else FAINT
        opacity = round(0.3 + 0.7 * min(weight, 1.0), 2) if ink == color else 0.3
        if q == k:
            points = _ellipse(places[q], -2 - LOOP, LOOP, LOOP, 2.1)
        else:
            away = abs(places[q] - places[k])
            across = (places[q] - places[k]) / 2 - (APART if k < q else -APART)
            up = LOWEST + high * math.sqrt(away / longest)
            points = _ellipse((places[q] + places[k]) / 2, 0, across, up)
        arcs.append(Line(points, ink, 0.8 + 4.2 * min(weight, 1.0), opacity=opacity))
    return arcs


def _ellipse(x: float, y: float, across: float, up: float, half_turns: float = 1) -> Points:
    """Return points of an ellipse, counter-clockwise from its right end."""
    angles = [math.pi * half_turns * i / 32 for i in range(33)]
    return tuple(
        (round(x + across * math.cos(angle), 2), round(y - up * math.sin(angle), 2))
        for angle in angles
    )


def _row(
    words: Sequence[str],
    places: Sequence[float],
    slanted: bool,
    query: int | None,
    row: Sequence[float] | None,
) -> list[Item]:
    """Return the words under the line on which the arcs stand, and the weights of one query."""
    items: list[Item] = []
    below = 30.0 if slanted and row is not None else 12.0
    for i, (word, x) in enumerate(zip(words, places, strict=True)):
        bold = i == query
        if slanted:
            items.append(Words(x + 4, below, word, "end", size=LETTERS, bold=bold, angle=45))
        else:
            items.append(Words(x, 14, word, size=LETTERS, bold=bold))
        if row is not None and row[i] >= LEAST:
            items.append(Words(x, 12 if slanted else 32, f"{row[i]:.2f}"))
    return items


def _alt(words: Sequence[str], heads: Tensor, names: Sequence[str], query: int | None) -> str:
    """Return what is to be seen, head by head."""
    seen = []
    for head, name in zip(heads, names, strict=True):
        if query is None:
            clause = largest_weights(head, words)
        else:
            clause = whole_row(head[query], words, query, LEAST)
        seen.append(f"{name}: {clause}." if name else f"{clause}.")
    start = "Arcs from each word to the words it looks at"
    return f"{start}{'.' if any(names) else ':'} {' '.join(seen)}"


# A sentence with an arc for every pair of its words, so that all its pictures have equal items
