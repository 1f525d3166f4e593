"""A sentence with an arc for every pair of its words, so that all its pictures have equal items."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import head_color
from attncourse.pictures.scene import Item, Line, Words

LEFT, GAP = 8.0, 11.0  # where a text begins; between two words
HIGHEST, LOWEST = 46.0, 12.0  # the longest arc, and a very short one
LEAST = 0.05  # a smaller weight cannot be seen


def arcs_in_place(tokens: Sequence[str], weights: Tensor, base: float, hue: int) -> list[Item]:
    """Return the words of a text on a line, and above each pair of them an arc.

    Args:
        tokens: of the text; spaces around them are left out.
        weights: (num_tokens, num_tokens), causal. The more weight, the thicker the arc; one of
            less than LEAST has no width, but it is there. A loop is a look at itself. The first
            word has no choice where to look, and no arc.
        base: the middle of the words, in pixels from the top.
        hue: the head, counted from 0, that gives the color.
    """
    words = [token.strip() for token in tokens]
    middles, x = [], LEFT
    for word in words:
        wide = text_width(word)
        middles.append(round(x + wide / 2, 1))
        x += wide + GAP
    longest = middles[-1] - middles[0]
    items: list[Item] = []
    for query, row in enumerate(weights.tolist()):
        for key, weight in enumerate(row[: query + 1] if query else []):
            points = _arc(middles[key], middles[query], base - 12, longest)
            wide = round(0.45 + 4.1 * weight, 1) + 0.05 if weight >= LEAST else 0  # never 1
            items.append(Line(points, head_color(hue), wide))
    items += [Words(at, base, word) for at, word in zip(middles, words, strict=True)]
    return items


def _arc(key: float, query: float, base: float, longest: float) -> tuple[tuple[float, float], ...]:
    """Return half an ellipse from a query back to a key; for a look at itself a small loop."""
    if key == query:
        angles = [math.pi * (2 * i / 12 - 0.5) for i in range(13)]
        across, up, middle, low = 6.0, 6.0, query, base - 6
    else:
        angles = [math.pi * i / 12 for i in range(13)]
        across, middle, low = (query - key) / 2 - 3, (query + key) / 2, base
        up = LOWEST + (HIGHEST - LOWEST) * math.sqrt((query - key) / longest)
    return tuple(
        (round(middle + across * math.cos(a), 1), round(low - up * math.sin(a), 1)) for a in angles
    )
