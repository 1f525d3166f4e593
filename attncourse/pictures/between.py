"""Pictures of attention between two texts, or between new tokens and a longer past: rectangles."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from attncourse.pictures.cells import Cell, grid
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import QUIET, text_color, weight_color
from attncourse.pictures.scene import Item, Scene, Words

LEAST = 0.05  # a smaller weight has no line
CELL = 38.0  # of a map, in pixels


def rectangle_picture(
    queries: Sequence[str],
    keys: Sequence[str],
    weights: Tensor,
    title: str,
    is_masked: Tensor | None = None,
) -> Scene:
    """Draw the weights of queries on keys that are not the same tokens: queries down, keys across.

    Args:
        queries: the names of the rows.
        keys: the names of the columns.
        weights: (num_queries, num_keys).
        title: what is drawn, above the map and in the alt text.
        is_masked: bool, of the same shape: these cells are flat gray. None: no cell is.

    Raises:
        ValueError: If the weights do not fit the names.
    """
    if tuple(weights.shape) != (len(queries), len(keys)):
        raise ValueError(
            f"weights must be ({len(queries)}, {len(keys)}), a row for each query and a column "
            f"for each key, got {tuple(weights.shape)}: pass as many names"
        )
    left = max(map(text_width, queries)) + 16
    longest = max(map(text_width, keys))
    slanted = longest > CELL
    top = 34.0 + (0.72 * longest if slanted else 14.0)
    items: list[Item] = [Words(4, 11, title, "start", bold=True)]
    for c, name in enumerate(keys):
        middle = left + (c + 0.5) * CELL
        if slanted:
            items.append(Words(middle, top - 6, name, "start", angle=45))
        else:
            items.append(Words(middle, top - 11, name))
    for q, name in enumerate(queries):
        items.append(Words(left - 8, top + (q + 0.5) * CELL, name, "end"))

    def look(weight: float, q: int, k: int) -> Cell:
        if is_masked is not None and is_masked[q, k]:
            return Cell(QUIET, stroke=QUIET)
        fill = weight_color(weight)
        return Cell(fill, f"{weight:.2f}" if weight >= 0.005 else "", text_color(fill), QUIET)

    items += grid(left, top, weights, look, CELL, CELL, Words(CELL / 2, CELL / 2, ""))
    said = []
    for name, row in zip(queries, weights.tolist(), strict=True):
        seen = [key for key, weight in zip(keys, row, strict=True) if weight >= LEAST]
        said.append(f"{name} looks at {', '.join(seen) if seen else 'nothing'}")
    right = left + len(keys) * CELL
    hang = 0.72 * longest - CELL / 2 if slanted else 0.0
    width = max(right + 4, 8 + text_width(title, bold=True), right + hang)
    alt = f"{title}, queries down, keys across: {'; '.join(said)}."
    return Scene(width, top + len(queries) * CELL + 4, alt, tuple(items))
