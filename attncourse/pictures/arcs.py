"""Words in a row, with an arc from each word back to the words that it attends to."""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from attncourse.pictures.alt_text import describe_row, describe_weights
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, head_color, text_color
from attncourse.pictures.scene import PAGE_WIDTH, Box, Item, Line, Scene, Text, shift

LEAST = 0.05  # a smaller weight has no arc
LETTERS = 14.0  # size of the words
GAP, WIDEST_GAP = 14.0, 40.0  # between two words
STEEP = 6.0  # so long arcs are higher than short ones, but not as much as they are longer
LOOP = 8.0  # radius of the loop of a word that attends to itself
APART = 4.0  # arcs leave a word so far left of its middle, and arrive so far right of it

Points = tuple[tuple[float, float], ...]


def arcs_picture(
    words: Sequence[str],
    weights: Tensor,
    heads: Mapping[str, int] | None = None,
    query: int | None = None,
) -> Scene:
    """Draw the words of a text, and an arc from each word to each word that it attends to.

    Args:
        words: the words or tokens; spaces around them are left out.
        weights: (num_tokens, num_tokens), or (num_heads, num_tokens, num_tokens): then the heads
            stand one above the other. NaN has no arc, nor a weight of less than LEAST.
        heads: the names of the heads, and for each the head whose color it has, counted from 0.
            None: head 0, head 1 and so on; a single head has no name.
        query: the word whose arcs alone are colored, with their weights as numbers.

    Returns:
        A Scene: the more weight, the thicker and stronger the arc; a loop is a word that attends
        to itself.

    Raises:
        ValueError: If the weights do not fit the words, or the query is none of them.
    """
    maps = weights[None] if weights.ndim == 2 else weights  # (num_heads, num_tokens, num_tokens)
    size = len(words)
    if heads is None:
        heads = {"": 0} if weights.ndim == 2 else {f"head {h}": h for h in range(len(maps))}
    if tuple(maps.shape) != (len(heads), size, size):
        raise ValueError(
            f"weights must be ({size}, {size}), or (num_heads, {size}, {size}), for {size} words "
            f"and {len(heads)} names, got {tuple(weights.shape)}: pass as many words as tokens"
        )
    if query is not None and not 0 <= query < size:
        raise ValueError(f"query must be 0 to {size - 1}, the place of a word, got {query}")
    shown = [word.strip() for word in words]
    tag = max(text_width(name, bold=True) for name in heads) + 12 if any(heads) else 0.0
    places, width = _places(shown, tag + 10 if tag else 6.0)
    deep = 24.0 if query is None else 42.0  # for the words, and the weights below them
    items: list[Item] = []
    told = ["Arcs from each word to the words it attends to:"]
    bottom = 0.0
    for head, (name, hue) in zip(maps, heads.items(), strict=True):
        color = head_color(hue)
        arcs = _arcs(head, places, color, query)
        base = bottom + 8 - min([-20, *(y for arc in arcs for _, y in arc.points)])
        bottom = base + deep + 4
        if name:
            items.append(Box(0, base - 10, tag, 20, color, radius=3))
            items.append(Text(tag / 2, base, name, color=text_color(color), bold=True))
        items += shift(arcs, 0, base)
        clause = (
            describe_weights(head, words)
            if query is None
            else describe_row(head[query], words, query, LEAST)
        )
        told.append(f"{name}: {clause}." if name else f"{clause}.")
        row = [0.0] * size if query is None else head[query].tolist()
        for i, (word, x, weight) in enumerate(zip(shown, places, row, strict=True)):
            items.append(Text(x, base + 14, word, size=LETTERS, bold=i == query))
            if weight >= LEAST:
                items.append(Text(x, base + 32, f"{weight:.2f}"))
    rule = f"An arc for each weight of at least {LEAST:g}."
    items.append(Text(max(tag, 6), bottom + 10, rule, "start", FAINT))
    width = max(width, tag + text_width(rule) + 8)
    return Scene(width, bottom + 22, " ".join(told), tuple(items))


def _places(words: Sequence[str], left: float) -> tuple[list[float], float]:
    """Return the middle of each word, and the width of the picture."""
    widths = [text_width(word, LETTERS, bold=True) for word in words]
    free = PAGE_WIDTH - left - 6 - sum(widths)
    gap = min(max(free / max(len(words) - 1, 1), GAP), WIDEST_GAP)
    middles, x = [], left
    for wide in widths:
        middles.append(x + wide / 2)
        x += wide + gap
    return middles, x - gap + 6


def _arcs(weights: Tensor, places: Sequence[float], color: str, query: int | None) -> list[Line]:
    """Return the arcs of one head over the line y = 0, the strong ones above the weak ones."""
    rows = weights.tolist()
    found = [(q == query, rows[q][k], q, k) for q, k in (weights >= LEAST).nonzero().tolist()]
    arcs = []
    for chosen, weight, q, k in sorted(found):
        ink = color if chosen or query is None else FAINT
        opacity = round(0.3 + 0.7 * min(weight, 1.0), 2) if ink == color else 0.3
        half = (places[q] - places[k]) / 2
        if q == k:
            points = _ellipse(places[q], -2 - LOOP, LOOP, LOOP, 2.1)
        else:
            across = half - (APART if k < q else -APART)
            points = _ellipse(places[q] - half, 0, across, STEEP * math.sqrt(abs(half)))
        arcs.append(Line(points, ink, 0.8 + 4.2 * min(weight, 1.0), opacity=opacity))
    return arcs


def _ellipse(x: float, y: float, across: float, up: float, half_turns: float = 1) -> Points:
    """Return points of an ellipse, counter-clockwise from its right end."""
    turns = [cmath.rect(1, math.pi * half_turns * i / 32) for i in range(33)]
    return tuple((round(x + across * t.real, 2), round(y - up * t.imag, 2)) for t in turns)
