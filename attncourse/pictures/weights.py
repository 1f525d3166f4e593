"""Maps of attention weights: queries go down and keys across, the names of the keys on top.

A weight has the color of its head, the stronger the larger; 0 is white. What a query may not see is
flat gray. A hatched cell has no value: it is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.pictures.cells import Cell, grid, head_tag, scale
from attncourse.pictures.letters import SIZE, text_width
from attncourse.pictures.palette import (
    FAINT,
    INK,
    PAPER,
    QUIET,
    WRONG,
    head_color,
    shades,
    text_color,
    weight_color,
)
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words, shift
from attncourse.pictures.seen import largest_weights, say_number, tell_apart

SHORTEST = 48.0  # of a scale, in pixels
SMALL = 20.0  # in smaller cells long names of keys stand upright, in larger ones they slant


class _Maps(NamedTuple):
    """Maps of one size: weights of heads, which cells are flat gray or framed, and the names."""

    weights: Tensor
    hidden: Tensor
    marked: Tensor
    tokens: Sequence[str]
    cell: float
    names: Sequence[str]
    hues: Sequence[int]


class _Sheet(NamedTuple):
    """Where the maps stand on their sheet."""

    side: float  # of a map
    left: float  # room for the names of queries
    top: float  # and for those of keys, above each map
    across: float  # from a map to the next
    down: float
    columns: int
    hang: float  # what slanting names of keys take up to the right of a map
    upright: bool
    level: bool
    every: int  # where cells are small not every token has a name


def weights_picture(
    attn_weights: Tensor,
    tokens: Sequence[str],
    is_masked: Tensor | None = None,
    cell: float = 40.0,
    names: Sequence[str] = (),
    hues: Sequence[int] = (),
    columns: int | None = None,
    marked: Tensor | None = None,
) -> Scene:
    """Draw the weights of heads, side by side, on one scale from 0 to 1.

    Args:
        attn_weights: (num_heads, num_tokens, num_tokens).
        tokens: the names of the tokens.
        is_masked: bool, as attn_weights or (num_tokens, num_tokens): these cells are flat gray.
            None: no cell is.
        cell: pixels per cell; the values are written in from 34 pixels on.
        names: of the heads. None given: head 0, head 1 and so on.
        hues: whose color each head has, counted from 0. None given: its own.
        columns: so many heads stand beside each other. None: as many as a page is wide.
        marked: bool, as attn_weights or (num_tokens, num_tokens): these cells are framed in red.

    Returns:
        A Scene; each head stands under a strip in its own color. The first cell of its map is a box
        named "map". A weight above 1, which no scale from 0 to 1 has, has the strongest color and a
        frame, inside a red one.
    """
    shape, heads = attn_weights.shape, range(len(attn_weights))
    hidden, framed = (
        torch.zeros(shape, dtype=torch.bool) if cells is None else cells.expand(shape)
        for cells in (is_masked, marked)
    )
    names = names or [f"head {h}" for h in heads]
    return _draw_maps(
        _Maps(attn_weights, hidden, framed, tokens, cell, names, hues or heads), columns
    )


def leaks_picture(right: Tensor, wrong: Tensor, tokens: Sequence[str], cell: float = 40.0) -> Scene:
    """Draw the right and the wrong weights of a head side by side, every leaking cell framed.

    Beside each row is its sum.

    Args:
        right: (num_tokens, num_tokens).
        wrong: (num_tokens, num_tokens).
        tokens: the names of the tokens.
        cell: pixels per cell.
    """
    future = torch.ones_like(right, dtype=torch.bool).triu(diagonal=1)
    leaks = future & (wrong != 0)
    hidden = torch.stack([future, future & ~leaks])  # (2, num_tokens, num_tokens)
    marked = torch.stack([torch.zeros_like(leaks), leaks])
    weights, names = torch.stack([right, wrong]), ("right", "wrong")
    both = _draw_maps(_Maps(weights, hidden, marked, tokens, cell, names, (0, 0)), 2, sums=True)
    seen = tell_apart(tokens)
    places = leaks.nonzero().tolist()
    cells = [f"{seen[q]} sees {seen[k]} ({say_number(wrong[q, k].item())})" for q, k in places]
    more = f", and {len(cells) - 6} more" if len(cells) > 6 else ""
    alt = f"Right and wrong weights side by side. {len(cells)} cells leak, framed in red"
    told = f": {', '.join(cells[:6])}{more}" if cells else ""
    return replace(both, alt=f"{alt}{told}.")


def _draw_maps(maps: _Maps, columns: int | None, sums: bool = False) -> Scene:
    """Draw maps; with sums each row has its sum beside it, and each hidden cell a 0."""
    sheet = _place_maps(maps, columns, room=48.0 if sums else 0.0)
    side, cell = sheet.side, maps.cell
    items: list[Item] = []
    for h, (weights, name) in enumerate(zip(maps.weights, maps.names, strict=True)):
        x = sheet.left + (h % sheet.columns) * sheet.across
        y = (h // sheet.columns) * sheet.down
        top = y + sheet.top
        items += head_tag(x, y, side, maps.hues[h], name)
        items += _draw_map(maps, h, x, top)
        if sums:
            items += shift(_sums(weights, maps.hidden[h], cell), x + side, top)
            items.append(Words(x + side + 8, y + 9, "sum", "start"))
        items += _name_tokens(maps, sheet, x, top, first=h % sheet.columns == 0)
        for q, k in maps.marked[h].nonzero().tolist():
            place = (x + k * cell + 1.5, top + q * cell + 1.5, cell - 3, cell - 3)
            items.append(Box(*place, stroke=WRONG, stroke_width=3.0))
    right = sheet.left + (sheet.columns - 1) * sheet.across + side + max(sheet.hang, sums * 48.0)
    items += _scale(maps, right + 12, sheet.top, side)
    bottom = top + side + 6
    said = say_maps(maps.weights, maps.hidden, maps.tokens, maps.names)
    alt = f"attention weights, queries down, keys across. {said}"
    return Scene(right + 52, max(bottom, sheet.top + SHORTEST + 10), alt, tuple(items))


def _place_maps(maps: _Maps, columns: int | None, room: float) -> _Sheet:
    """Return where maps stand, each with so much room to its right; as many rows as it takes."""
    num_heads, num_tokens, cell = len(maps.weights), len(maps.tokens), maps.cell
    side, longest = num_tokens * cell, max(map(text_width, maps.tokens))
    every = math.ceil((SIZE + 0.5) / cell)
    named = [i for i in range(0, num_tokens, every) if maps.tokens[i]]
    level = longest <= cell * min((b - a for a, b in pairwise(named)), default=math.inf)
    upright = not level and cell < SMALL
    rise = 0.0 if level else longest if upright else 0.71 * longest  # what the names take up
    hang = (0.0 if upright else rise) - cell / 2
    gap = max(10.0 if upright else 18.0, hang + 6, room and room + 16)
    left, top = max(longest, 56.0) + 14, 24.0 + max(rise, 18.0) + 8
    if columns is None:
        columns = int((BOOK - left - 36 + gap) // (side + gap)) or 1
        columns = math.ceil(num_heads / math.ceil(num_heads / columns))  # rows alike
    columns = min(num_heads, columns)
    down = top + side + 18
    return _Sheet(side, left, top, side + gap, down, columns, max(hang, 0.0), upright, level, every)


def _name_tokens(maps: _Maps, sheet: _Sheet, x: float, y: float, first: bool) -> list[Item]:
    """Return the names of keys above a map, and of queries beside it if it is first in its row."""
    items: list[Item] = []
    for i in range(0, len(maps.tokens), sheet.every):
        token, middle = maps.tokens[i], (i + 0.5) * maps.cell
        if first:
            items.append(Words(x - 6, y + middle, token, "end"))
        if sheet.level:
            items.append(Words(x + middle, y - 11, token))
        elif sheet.upright:
            items.append(Words(x + middle, y - 4, token, "start", angle=90))
        else:
            items.append(Words(x + middle + 2, y - 6, token, "start", angle=45))
    if first:
        items.append(Words(x - 10, y - 23, "key →", "end", FAINT))
        items.append(Words(x - 10, y - 8, "query ↓", "end", FAINT))
    return items


def _draw_map(maps: _Maps, h: int, x: float, y: float) -> list[Item]:
    """Return one map, from (x, y) on."""
    weights, cell, gone = maps.weights[h], maps.cell, maps.hidden[h].tolist()

    def look(weight: float, q: int, k: int) -> Cell:
        name = "map" if q == k == 0 else ""
        if gone[q][k]:
            return Cell(QUIET, stroke=QUIET, name=name)
        if math.isnan(weight):
            return Cell(PAPER, "NaN", stroke=QUIET, hatched=True, name=name)
        fill = weight_color(weight, maps.hues[h])
        return Cell(fill, f"{weight:.2f}", text_color(fill), QUIET, name=name)

    words = Words(cell / 2, cell / 2, "") if cell >= 34 else None
    items = grid(x, y, weights, look, cell, cell, words)
    items += _edge(maps.hidden[h], x, y, cell)
    for q, k in ((weights > 1 + 1e-4) & ~maps.hidden[h]).nonzero().tolist():
        inset = 4 if maps.marked[h, q, k] else 1  # inside the frame of what is wrong
        place = (x + k * cell + inset, y + q * cell + inset, cell - 2 * inset, cell - 2 * inset)
        items.append(Box(*place, stroke=INK, stroke_width=2.0))
    return items


def _edge(hidden: Tensor, x: float, y: float, cell: float) -> list[Item]:
    """Return the line, seen from afar, between what a query sees and what is hidden from it."""
    ends = hidden.int().argmax(dim=1).tolist()  # of each row the first hidden key
    if not hidden.equal(torch.ones_like(hidden).triu(diagonal=1)):
        return []
    ends[-1] = len(ends)
    corners = [(x + cell * k, y + cell * (q + down)) for q, k in enumerate(ends) for down in (0, 1)]
    return [Line(tuple(corners), FAINT, 1.5)]


def _sums(weights: Tensor, hidden: Tensor, cell: float) -> list[Item]:
    """Return the sum of each row to the right of a map that ends at the origin, and the zeros."""
    items: list[Item] = []
    for q, row in enumerate(weights):
        middle = (q + 0.5) * cell
        items.append(Words(8, middle, f"{row.sum():.2f}", "start", bold=True))
        for k in hidden[q].nonzero().flatten().tolist():
            items.append(Words((k + 0.5 - len(weights)) * cell, middle, "0", color=FAINT))
    return items


def _scale(maps: _Maps, x: float, y: float, side: float) -> list[Item]:
    """Return the scale, as high as a map: in the color of the heads, in gray if they have many."""
    high = max(side, SHORTEST)
    colors = shades([1 - (i + 0.5) / 12 for i in range(12)], maps.hues)
    items = scale(x, y, colors, high / 12, {"1": 5, "0": high - 5})
    items.append(Box(x, y, 12, high, None, FAINT))
    if (maps.weights > 1 + 1e-4).any():  # such a weight is framed
        items.append(Box(x, y - 16, 12, 12, head_color(maps.hues[0]), INK, 2.0))
        items.append(Words(x + 16, y - 10, "> 1", "start"))
    return items


def say_maps(
    attn_weights: Tensor, hidden: Tensor, tokens: Sequence[str], names: Sequence[str]
) -> str:
    """Return what is to be seen in maps of weights: where each query looks, what is 0."""
    said = [
        f"{name}: {largest_weights(weights.masked_fill(gone, 0.0), tokens)}."
        for name, weights, gone in zip(names, attn_weights, hidden, strict=True)
    ]
    future = torch.ones_like(hidden).triu(diagonal=1)
    if hidden.any() and hidden.equal(future):
        said.append("The future, above the diagonal, is gray.")
    elif len(tokens) > 1:
        leaks = int(((attn_weights != 0) & future & ~hidden).sum())
        said.append(f"Above the diagonal {leaks or 'no'} weights are not 0.")
    if attn_weights[~hidden].isnan().any():
        said.append("Hatched cells are NaN.")
    return " ".join(said)
