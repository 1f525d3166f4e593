"""Pictures of attention between two texts, or between new tokens and a longer past: rectangles."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, QUIET, head_color, text_color, tint, weight_color
from attncourse.pictures.scene import Box, Item, Line, Scene, Words

LEAST = 0.05  # a smaller weight has no line
CELL = 38.0  # of a map, in pixels


def rectangle_picture(
    queries: Sequence[str],
    keys: Sequence[str],
    weights: Tensor,
    title: str,
    is_hidden: Tensor | None = None,
    hue: int = 0,
    cell: float = CELL,
) -> Scene:
    """Draw the weights of queries on keys that are not the same tokens: queries down, keys across.

    Args:
        queries: the names of the rows.
        keys: the names of the columns.
        weights: (num_queries, num_keys).
        title: what is drawn, above the map and in the alt text.
        is_hidden: bool, of the same shape: these cells are flat gray. None: no cell is.
        hue: whose color the weights have, counted from 0.
        cell: pixels per cell.

    Raises:
        ValueError: If the weights do not fit the names.
    """
    _require_fit(queries, keys, weights)
    left = max(text_width(name) for name in queries) + 16
    longest = max(text_width(name) for name in keys)
    slanted = longest > cell
    top = 34.0 + (0.72 * longest if slanted else 14.0)
    items: list[Item] = [Words(4, 11, title, "start", bold=True)]
    for c, name in enumerate(keys):
        middle = left + (c + 0.5) * cell
        if slanted:
            items.append(Words(middle, top - 6, name, "start", angle=45))
        else:
            items.append(Words(middle, top - 11, name))
    said = []
    for q, row in enumerate(weights.tolist()):
        y = top + q * cell
        items.append(Words(left - 8, y + cell / 2, queries[q], "end"))
        for c, weight in enumerate(row):
            x = left + c * cell
            if is_hidden is not None and bool(is_hidden[q, c]):
                items.append(Box(x, y, cell, cell, QUIET, QUIET))
                continue
            fill = weight_color(weight, hue)
            items.append(Box(x, y, cell, cell, fill, QUIET))
            if weight >= 0.005:
                text, ink = f"{weight:.2f}", text_color(fill)
                items.append(Words(x + cell / 2, y + cell / 2, text, color=ink))
        seen = [key for key, weight in zip(keys, row, strict=True) if weight >= LEAST]
        said.append(f"{queries[q]} looks at {', '.join(seen) if seen else 'nothing'}")
    right = left + len(keys) * cell
    right = max(right, 4 + text_width(title, bold=True)) + 4
    hang = 0.72 * longest - cell / 2 if slanted else 0.0
    alt = f"{title}, queries down, keys across: {'; '.join(said)}."
    return Scene(
        max(right, left + len(keys) * cell + hang), top + len(queries) * cell + 4, alt, tuple(items)
    )


def cross_picture(
    queries: Sequence[str],
    keys: Sequence[str],
    weights: Tensor,
    names: tuple[str, str],
    hue: int = 0,
) -> Scene:
    """Draw two texts, one above the other, with a line from each query down to what it looks at.

    Args:
        queries: the words of the text that looks, drawn below.
        keys: the words of the text that is looked at, drawn above.
        weights: (num_queries, num_keys).
        names: what the two texts are called: the one that looks, the one that is looked at.
        hue: whose color the lines have, counted from 0.

    Returns:
        A Scene: the more weight, the thicker the line.

    Raises:
        ValueError: If the weights do not fit the words.
    """
    _require_fit(queries, keys, weights)
    left = max(text_width(name, bold=True) for name in names) + 28
    width = 680.0 - left
    upper, lower = 30.0, 150.0
    color = head_color(hue)
    items: list[Item] = []

    def places(words: Sequence[str]) -> list[float]:
        return [left + (i + 0.5) * width / len(words) for i in range(len(words))]

    above, below = places(keys), places(queries)
    said = []
    for q, row in enumerate(weights.tolist()):
        for k, weight in enumerate(row):
            if weight >= LEAST:
                ends = ((below[q], lower - 14), (above[k], upper + 14))
                items.append(Line(ends, color, 1.0 + 4.0 * weight, opacity=0.35 + 0.65 * weight))
                said.append(f"{queries[q]} to {keys[k]} ({weight:.2f})")
    rows = ((names[1], keys, above, upper), (names[0], queries, below, lower))
    for name, words, middles, y in rows:
        items.append(Words(4, y, name, "start", FAINT, bold=True))
        for word, x in zip(words, middles, strict=True):
            wide = text_width(word, 14) + 14
            items.append(Box(x - wide / 2, y - 13, wide, 26, tint(color, 0.12), radius=5))
            items.append(Words(x, y, word, size=14))
    alt = f"Lines from {names[0]} to {names[1]}: {', '.join(said)}."
    return Scene(700.0, lower + 22, alt, tuple(items))


def _require_fit(queries: Sequence[str], keys: Sequence[str], weights: Tensor) -> None:
    if tuple(weights.shape) != (len(queries), len(keys)):
        raise ValueError(
            f"weights must be ({len(queries)}, {len(keys)}), a row for each query and a column "
            f"for each key, got {tuple(weights.shape)}: pass as many names"
        )
