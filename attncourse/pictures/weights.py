"""Maps of attention weights: queries go down and keys across, the names of the keys on top.

A weight has the color of its head, the stronger the larger; 0 is white. What a query may not attend
to is flat gray. A hatched cell has no value: it is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from attncourse.pictures.alt_text import describe_weights
from attncourse.pictures.cells import Cell, grid, head_tag
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import (
    FAINT,
    INK,
    PAPER,
    QUIET,
    WRONG,
    amount_color,
    head_color,
    text_color,
    weight_color,
)
from attncourse.pictures.scene import PAGE_WIDTH, Box, Item, Line, Scene, Text, shift

NUMBERED = 34.0  # pixels: a number of two decimals needs so much of a cell
SCALE = 48.0  # pixels: the least height of the color scale, so that its ends have room
ABOVE_ONE = 1 + 1e-4  # a weight that only rounding takes above 1 is none of those


def weights_picture(
    attn_weights: Tensor,
    tokens: Sequence[str],
    is_masked: Tensor | None = None,
    cell: float = 40.0,
    heads: Mapping[str, int] | None = None,
    columns: int | None = None,
    marked: Tensor | None = None,
    queries: Sequence[str] | None = None,
) -> Scene:
    """Draw the weights of heads, side by side, on one scale from 0 to 1.

    Args:
        attn_weights: (num_heads, num_queries, num_keys).
        tokens: the names of the keys.
        is_masked: bool, as attn_weights or (num_queries, num_keys): these cells are flat gray.
            None: no cell is.
        cell: pixels per cell; the values are written in from NUMBERED pixels on.
        heads: the names of the heads, and for each the head whose color it has, counted from 0.
            None: head 0, head 1 and so on.
        columns: so many heads stand beside each other. None: as many as a page is wide.
        marked: bool, as attn_weights or (num_queries, num_keys): these cells are framed in red.
        queries: the names of the queries. None: those of the keys.

    Returns:
        A Scene; each head stands under a strip in its own color. The first cell of its map is a box
        named "map". A weight above 1 has the strongest color and a frame.

    Raises:
        ValueError: the names do not fit the weights.
    """
    heads = heads or {f"head {h}": h for h in range(len(attn_weights))}
    rows = tokens if queries is None else queries
    if (shape := (len(heads), len(rows), len(tokens))) != tuple(attn_weights.shape):
        raise ValueError(
            f"attn_weights must be {shape}, for {shape[0]} heads, {shape[1]} queries and "
            f"{shape[2]} keys, got {tuple(attn_weights.shape)}"
        )
    masked, framed = (
        torch.zeros(shape, dtype=torch.bool) if cells is None else cells.expand(shape)
        for cells in (is_masked, marked)
    )
    wide, high, longest = shape[2] * cell, shape[1] * cell, max(map(text_width, tokens))
    left = max(*map(text_width, rows), 56.0) + 14
    top = 32 + (18.0 if longest <= cell else longest)
    columns = columns or max(1, int((PAGE_WIDTH - left - 34) // (wide + 14)))
    items: list[Item] = []
    for h, (name, hue) in enumerate(heads.items()):
        x, y = left + h % columns * (wide + 14), h // columns * (top + high + 18)
        items += head_tag(x, y, wide, hue, name)
        items += shift(_key_names(tokens, cell, upright=longest > cell), x, y + top)
        if h % columns == 0:
            items += shift(_query_names(rows, cell), x, y + top)
        items += shift(_map(attn_weights[h], masked[h], hue, cell), x, y + top)
        items += shift(_frames(framed[h], cell, 1.5, WRONG, 3.0), x, y + top)
        inside = 4.0 if framed[h].any() else 1.0  # a red frame stays in sight
        above = (attn_weights[h] > ABOVE_ONE) & ~masked[h]
        items += shift(_frames(above, cell, inside, INK, 2.0), x, y + top)
    right = left + min(columns, shape[0]) * (wide + 14)
    items += shift(_scale(attn_weights, [*heads.values()], max(high, SCALE)), right, top)
    height = (math.ceil(shape[0] / columns) - 1) * (top + high + 18) + top + max(high, SCALE) + 6
    said = describe_maps(attn_weights, masked, tokens, heads, queries)
    alt = f"attention weights, queries down, keys across. {said}"
    return Scene(right + 48, height, alt, tuple(items))


def _key_names(tokens: Sequence[str], cell: float, upright: bool) -> list[Item]:
    """Return the names of keys above a map that begins at the origin."""
    middles = [(k + 0.5) * cell for k in range(len(tokens))]
    if upright:
        return [Text(x, -4, t, "start", angle=90) for x, t in zip(middles, tokens, strict=True)]
    return [Text(x, -11, t) for x, t in zip(middles, tokens, strict=True)]


def _query_names(queries: Sequence[str], cell: float) -> list[Item]:
    axes = Text(-10, -23, "key →", "end", FAINT), Text(-10, -8, "query ↓", "end", FAINT)
    return [*axes, *(Text(-6, (q + 0.5) * cell, name, "end") for q, name in enumerate(queries))]


def _map(weights: Tensor, masked: Tensor, hue: int, cell: float) -> list[Item]:
    """Return one map, from the origin on."""
    gone = masked.tolist()

    def look(weight: float, q: int, k: int) -> Cell:
        name = "map" if q == k == 0 else ""
        if gone[q][k]:
            return Cell(QUIET, stroke=QUIET, name=name)
        if math.isnan(weight):
            return Cell(PAPER, "NaN", stroke=QUIET, hatched=True, name=name)
        fill = weight_color(weight, hue)
        return Cell(fill, f"{weight:.2f}", text_color(fill), QUIET, name=name)

    words = Text(cell / 2, cell / 2, "") if cell >= NUMBERED else None
    return [*grid(0, 0, weights, look, cell, cell, words), *_edge(masked, cell)]


def _edge(masked: Tensor, cell: float) -> list[Item]:
    """Return the line, seen from afar, between what a query may attend to and what comes after."""
    ends = (~masked).sum(dim=1)
    if not masked.any() or not masked.equal(torch.arange(masked.shape[1]) >= ends[:, None]):
        return []
    corners = [
        (cell * k, cell * (q + down)) for q, k in enumerate(ends.tolist()) for down in (0, 1)
    ]
    return [Line(tuple(corners), FAINT, 1.5)]


def _frames(cells: Tensor, cell: float, inset: float, color: str, width: float) -> list[Item]:
    side = cell - 2 * inset
    return [
        Box(k * cell + inset, q * cell + inset, side, side, stroke=color, stroke_width=width)
        for q, k in cells.nonzero().tolist()
    ]


def _scale(weights: Tensor, hues: Sequence[int], high: float) -> list[Item]:
    """Return the color scale: in the color of the heads, in gray if they have many."""
    step = high / 12
    items: list[Item] = []
    for i in range(12):
        share = 1 - (i + 0.5) / 12
        color = weight_color(share, hues[0]) if len({*hues}) == 1 else amount_color(share)
        items.append(Box(0, i * step, 12, step + 0.5, color))
    items.append(Box(0, 0, 12, high, None, FAINT))
    items += [Text(16, 5, "1", "start"), Text(16, high - 5, "0", "start")]
    if (weights > ABOVE_ONE).any():
        items.append(Box(0, -16, 12, 12, head_color(hues[0]), INK, 2.0))
        items.append(Text(16, -10, "> 1", "start"))
    return items


def describe_maps(
    attn_weights: Tensor,
    masked: Tensor,
    tokens: Sequence[str],
    names: Iterable[str],
    queries: Sequence[str] | None = None,
) -> str:
    """Return what maps of weights show: what each query attends to most, and what is 0."""
    said = [
        f"{name}: {describe_weights(weights.masked_fill(gone, 0.0), tokens, queries)}."
        for name, weights, gone in zip(names, attn_weights, masked, strict=True)
    ]
    future = torch.ones_like(masked).triu(diagonal=1)
    leaks = int(((attn_weights != 0) & future & ~masked).sum())
    if masked.any() and masked.equal(future):
        said.append("The future, above the diagonal, is gray.")
    elif len(tokens) > 1 and queries is None:
        said.append(f"Above the diagonal {leaks or 'no'} weights are not 0.")
    if attn_weights[~masked].isnan().any():
        said.append("Hatched cells are NaN.")
    return " ".join(said)
