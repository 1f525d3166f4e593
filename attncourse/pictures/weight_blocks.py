"""Which columns of a weight belong to which head: each block beside its head's map.

A weight is drawn as x meets it, x @ W: a head is a block of columns of W.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from attncourse.pictures.cells import Cell, grid, head_tag
from attncourse.pictures.palette import FAINT, QUIET, head_color, text_color, tint, weight_color
from attncourse.pictures.scene import Box, Item, Line, Scene, Text, frame

WIDE, HIGH = 38.0, 24.0  # pixels of a number, so that six and a map are as wide as a phone
MOST = 6  # columns side by side; a wider block stands in several rows
JOINT, FOOT, TOP = 12.0, 24.0, 40.0  # from a block to its map; below a map; above both
SIDES = {1: 52.0, 2: 74.0, 3: 74.0}  # pixels of a map beside so many columns
SIDE = 90.0  # and beside more


def weight_block_pictures(
    weight: Tensor,
    attn_weights: Tensor,
    zeroed: int | None = None,
    moved: Sequence[float] = (),
) -> list[Scene]:
    """Draw for each head its block of columns of W_query beside its map.

    Args:
        weight: (d_in, d_out), as x meets it.
        attn_weights: (num_heads, num_tokens, num_tokens), causal; num_heads divides d_out.
        zeroed: the column that was set to 0, framed. None: no column was.
        moved: for each head the largest change of one of its attention weights, if a column was
            set to 0; written below its map.

    Returns:
        A Scene for each head. The first cell of its map is named "map", the numbers of column c
        with what stands above them "column c".
    """
    blocks = weight.chunk(len(attn_weights), dim=1)
    return [
        _head_picture(block, h, weights, zeroed, moved[h] if moved else None)
        for h, (block, weights) in enumerate(zip(blocks, attn_weights, strict=True))
    ]


def _head_picture(
    block: Tensor, head: int, weights: Tensor, zeroed: int | None, moved: float | None
) -> Scene:
    d_in, size = block.shape
    side, most, deep = SIDES.get(size, SIDE), min(size, MOST), d_in * HIGH + TOP
    bottom, right = size // most * deep, most * WIDE + JOINT  # of the block; where the map begins
    fill = tint(head_color(head), 0.3)

    def number(value: float, _row: int, _column: int) -> Cell:
        return Cell(fill, f"{value:.1f}", text_color(fill))

    def weight_cell(value: float, q: int, k: int) -> Cell:
        color = weight_color(value, head) if k <= q else QUIET
        return Cell(color, stroke=QUIET, name="map" if q == k == 0 else "")

    tag = f"head {head}" if size > 1 else f"{head}"
    items: list[Item] = head_tag(1, 0, right + side - 2, head, tag)
    for c in range(size):
        x, y, column = c % most * WIDE, TOP + c // most * deep, head * size + c
        words = Text(WIDE / 2, HIGH / 2, "", mono=True)
        items += grid(x, y, block[:, c : c + 1], number, WIDE, HIGH, words)
        items.append(Text(x + WIDE / 2, y - 9, f"{column}", color=FAINT))
        items.append(Box(x, y - 18, WIDE, d_in * HIGH + 18, name=f"column {column}"))
        if column == zeroed:
            items += frame(x, y, WIDE, d_in * HIGH)
    joint, end = right - JOINT + 1, right - 1
    band = (joint, TOP), (end, TOP), (end, TOP + side), (joint, bottom)
    items.append(Line(band, None, fill=head_color(head), opacity=0.18))
    cell = side / len(weights)
    items += grid(right, TOP, weights, weight_cell, cell, cell)
    items.append(Box(right, TOP, side, side, stroke=head_color(head), stroke_width=1.5))
    alt = f"Head {head}: {size} columns of W_query beside its map"
    if moved is not None:
        said = "0" if moved == 0 else f"{moved:.2f}"
        items.append(Text(right + side / 2, TOP + side + 12, said, bold=moved > 0))
        alt += f"; a weight of the map changes by {said}"
    return Scene(right + side + 1, max(bottom, TOP + side + FOOT), f"{alt}.", tuple(items))
