"""Which numbers are whose: products, blocks joined to their maps, and PyTorch's packed weight.

The first two show weights as x meets them, x @ W: a head is a block of columns of W.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attncourse.pictures.cells import Cell, grid, head_tag
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import (
    FAINT,
    INK,
    PAPER,
    QUIET,
    Themed,
    head_color,
    on_white,
    text_color,
    tint,
    weight_color,
)
from attncourse.pictures.scene import Box, Item, Line, Scene, Words, frame

LABEL = 70.0  # room for the names of rows, in pixels
NO_HEAD = -1
WIDE, HIGH = 46.0, 24.0  # a cell


def _numbers(x: float, y: float, matrix: Tensor, head: Callable[[int, int], int]) -> list[Item]:
    """Return a matrix with its numbers, each in the color of the head that owns (row, column)."""

    def look(value: float, row: int, column: int) -> Cell:
        owner = head(row, column)
        if owner == NO_HEAD:
            return Cell(QUIET, f"{value:.2f}")
        fill, line = (tint(head_color(owner), share) for share in (0.3, 0.6))
        # between cells white paper, in the dark a brighter line: dark paper would not be seen
        return Cell(fill, f"{value:.2f}", text_color(fill), Themed(on_white(PAPER), line.dark))

    words = Words(WIDE - 4, HIGH / 2, "", "end", mono=True)
    return grid(x, y, matrix, look, WIDE, HIGH, words)


def _tags(x: float, y: float, width: float, num_heads: int, gap: float = 0.0) -> list[Item]:
    """Return a strip for each head, side by side."""
    each = width / num_heads
    bare = text_width("head 10", bold=True) > each - 4
    tags = [
        head_tag(x + h * (each + gap) + 1, y, each - 2, h, f"{h}" if bare else "")
        for h in range(num_heads)
    ]
    return [item for tag in tags for item in tag]


# A product


def product_picture(
    left: Tensor,
    right: Tensor,
    rows: Sequence[str],
    names: tuple[str, str, str],
    num_heads: int,
    place: tuple[int, int],
    inner: bool = False,
) -> Scene:
    """Draw left @ right in Falk's scheme: each number of the result lies where its factors meet.

    Args:
        left: (num_rows, inner); no number of the three matrices reaches 10.
        right: (inner, num_columns), drawn above the result, column over column.
        rows: the names of the rows of left.
        names: what left, right and their product are called.
        num_heads: how many heads share the colored columns.
        place: the row and the column of a number of the product: it is framed, and so are the row
            of left and the column of right that meet in it.
        inner: False: heads own the columns of right, so those of the product too. True: heads own
            the columns of left, and the rows of right that these meet; the product is nobody's, and
            what each head adds to the framed number stands below.

    Returns:
        A Scene.
    """
    product = left @ right
    (num_rows, num_inner), num_columns = left.shape, right.shape[1]
    wide, tall, tag = num_inner * WIDE, num_inner * HIGH, 20.0
    x, top = LABEL + wide + 28, 16.0 if inner else 50.0
    y = top + tall + 28
    split = num_inner if inner else num_columns

    def by_column(_row: int, column: int) -> int:
        return column * num_heads // split

    def by_row(row: int, _column: int) -> int:
        return row * num_heads // split

    def nobody(_row: int, _column: int) -> int:
        return NO_HEAD

    items = _numbers(LABEL, y, left, by_column if inner else nobody)
    items += _numbers(x, top, right, by_row if inner else by_column)
    items += _numbers(x, y, product, nobody if inner else by_column)
    tagged, above = (LABEL, y) if inner else (x, top)
    items += _tags(tagged, above - tag, split * WIDE, num_heads)
    for i, name in enumerate(rows):
        items.append(Words(LABEL - 6, y + (i + 0.5) * HIGH, name, "end"))
    for i in range(0 if inner else num_columns):
        items.append(Words(x + (i + 0.5) * WIDE, top - tag - 10, f"{i}", color=FAINT))
    r, c = place
    across, down = x + c * WIDE, y + r * HIGH
    items.append(Box(LABEL, down, wide, HIGH, stroke=INK, stroke_width=1.5))
    items.append(Box(across, top, WIDE, tall, stroke=INK, stroke_width=1.5))
    items.append(Box(across, down, WIDE, HIGH, stroke=INK, stroke_width=2.5))
    shapes = [f"({a}, {b})" for a, b in (left.shape, right.shape, product.shape)]
    over = y - (tag if inner else 0) - 10
    items.append(Words(LABEL + wide / 2, over, f"{names[0]}  {shapes[0]}", bold=True))
    end, bottom = x + num_columns * WIDE, y + num_rows * HIGH
    for i, middle in ((1, top + tall / 2), (2, (y + bottom) / 2)):
        items.append(Words(end + 10, middle - 9, names[i], "start", bold=True))
        items.append(Words(end + 10, middle + 9, shapes[i], "start", FAINT))
    columns = "the columns of {} and the rows of {}" if inner else "the columns of {1} and of {2}"
    alt = (
        f"A product as three matrices: {names[0]}, {shapes[0]}, on the left, {names[1]}, "
        f"{shapes[1]}, above, and where they meet {names[2]}, {shapes[2]}, each column under the "
        f"column of {names[1]} that makes it. In {num_heads} colors, one for each head: "
        f"{columns.format(*names)}. Row {r} of {names[0]} and column {c} of {names[1]} are framed, "
        f"and the number of {names[2]} in which they meet."
    )
    if inner:
        parts = (left[r] * right[:, c]).view(num_heads, -1).sum(dim=1)
        items += _sum(LABEL, bottom + 22, parts.tolist(), product[r, c].item())
        bottom += 22 + HIGH
        said = " and ".join(f"{part:.2f} from head {h}" for h, part in enumerate(parts.tolist()))
        alt += f" It is the sum of {said}."
    beside = 14.0 + max(text_width(said, bold=True) for said in (*names[1:], *shapes[1:]))
    return Scene(end + beside, bottom + 4, alt, tuple(items))


def _sum(x: float, y: float, parts: Sequence[float], total: float) -> list[Item]:
    """Return a number of each head, in its color, and their sum, in a frame."""
    items: list[Item] = []
    for h, number in enumerate([*parts, total]):
        owner = h if h < len(parts) else NO_HEAD
        items += _numbers(x, y, torch.tensor([[number]]), lambda *_, owner=owner: owner)
        if h < len(parts):
            sign = "=" if h == len(parts) - 1 else "+"
            items.append(Words(x + WIDE + 14, y + HIGH / 2, sign, size=15))
            x += WIDE + 28
    return [*items, Box(x, y, WIDE, HIGH, stroke=INK, stroke_width=2.5)]


# Blocks and maps

SLIM = 38.0  # pixels of a number, so that six of them and a map are as wide as a phone
MOST = 6  # columns side by side; a wider block stands in several rows
JOINT, FOOT = 12.0, 24.0  # from a block to its map; below a map
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
    side, top = SIDES.get(size, SIDE), 40.0
    most = min(size, MOST)
    rows, deep = size // most, d_in * HIGH + top  # of numbers, and how high one row of them is
    right = most * SLIM + JOINT  # where the map begins
    tag = f"head {head}" if size > 1 else f"{head}"
    items: list[Item] = head_tag(1, 0, right + side - 2, head, tag)
    for c in range(size):
        x, y, column = c % most * SLIM, top + c // most * deep, head * size + c
        items += _slim_numbers(x, y, block[:, c : c + 1], head)
        items.append(Words(x + SLIM / 2, y - 9, f"{column}", color=FAINT))
        items.append(Box(x, y - 18, SLIM, d_in * HIGH + 18, name=f"column {column}"))
        if column == zeroed:
            items += frame(x, y, SLIM, d_in * HIGH)
    joint, end = right - JOINT + 1, right - 1
    band = (joint, top), (end, top), (end, top + side), (joint, rows * deep)
    items.append(Line(band, None, fill=head_color(head), opacity=0.18))
    items += _map(right, top, side, weights, head)
    alt = f"Head {head}: {size} columns of W_query beside its map"
    if moved is not None:
        said = "0" if moved == 0 else f"{moved:.2f}"
        items.append(Words(right + side / 2, top + side + 12, said, bold=moved > 0))
        alt += f"; a weight of the map changes by {said}"
    height = max(rows * deep, top + side + FOOT)
    return Scene(right + side, height, f"{alt}.", tuple(items))


def _slim_numbers(x: float, y: float, block: Tensor, head: int) -> list[Item]:
    """Return the numbers of a block in cells as narrow as they can be."""
    fill = tint(head_color(head), 0.3)
    words = Words(SLIM / 2, HIGH / 2, "", mono=True)

    def look(value: float, _row: int, _column: int) -> Cell:
        return Cell(fill, f"{value:.1f}", text_color(fill), PAPER)

    return grid(x, y, block, look, SLIM, HIGH, words)


def _map(x: float, y: float, side: float, weights: Tensor, head: int) -> list[Item]:
    """Return a causal map in its head's hue: 0 white, 1 the full color, the future pale gray."""
    cell = side / len(weights)
    items: list[Item] = [Box(x, y, side, side, QUIET)]
    line = on_white(QUIET)  # on a dark page too, where hues are as pale
    for q, row in enumerate(weights.tolist()):
        for k, weight in enumerate(row[: q + 1]):
            fill, name = weight_color(weight, head), "" if q else "map"
            items.append(Box(x + k * cell, y + q * cell, cell, cell, fill, line, 0.5, name=name))
    items.append(Box(x, y, side, side, stroke=head_color(head), stroke_width=1.5))
    return items
