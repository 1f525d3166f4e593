"""Which numbers are whose: products, blocks joined to their maps, and PyTorch's packed weight.

The first two show weights as x meets them, x @ W: a head is a block of columns of W.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attncourse.pictures.cells import Cell, grid, head_tag
from attncourse.pictures.letters import SIZE, text_width
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

LEFT = 64.0  # of the weight
MAP = 150.0  # the largest side of a map
NARROW = 80.0  # maps of narrower blocks stand in two rows
BAND = 24.0  # how wide what joins a block to a map of the second row is, between two of the first
FOOT = 24.0  # below a map
APART, FREE = 24.0, 72.0  # between two blocks, where there is room; all of the room


def _map_side(slot: float) -> float:
    """Return the side of a map below a block of this width, in pixels."""
    return min(MAP, 2 * slot - BAND - 8 if slot < NARROW else slot - 6)


def blocks_and_maps_picture(
    weight: Tensor,
    attn_weights: Tensor,
    tokens: Sequence[str],
    zeroed: int | None = None,
    moved: Sequence[float] = (),
) -> Scene:
    """Draw the columns of W_query, cut into blocks that stand apart, each joined to its head's map.

    Args:
        weight: (d_in, d_out), as x meets it.
        attn_weights: (num_heads, num_tokens, num_tokens), causal; num_heads divides d_out.
        tokens: the names of the tokens.
        zeroed: the column that was set to 0, framed. None: no column was.
        moved: for each head the largest change of one of its attention weights, if a column was
            set to 0; written below its map.

    Returns:
        A Scene, as large for any number of heads. The first cell of each map is named "map", the
        numbers of column c with what stands above them "column c".
    """
    (d_in, d_out), num_heads = weight.shape, len(attn_weights)
    wide, slot, size = d_out * WIDE, d_out * WIDE / num_heads, d_out // num_heads
    gap = min(APART, FREE / max(num_heads - 1, 1))
    first = LEFT + (FREE - (num_heads - 1) * gap) / 2  # where the first block begins
    across = [first + c * WIDE + c // size * gap for c in range(d_out)]  # where a column does
    side, narrow = _map_side(slot), slot < NARROW
    top, end, lower = 60.0, 60.0 + d_in * HIGH, 96.0 + d_in * HIGH
    legend = "maps: query ↓, key →; a weight of 0 has no color, 1 the full color"
    items: list[Item] = [
        Words(LEFT, 11, f"W_query  ({d_in}, {d_out})", "start", bold=True),
        Words(LEFT + wide + FREE, 11, legend, "end", FAINT),
        *_tags(first, top - 20, wide, num_heads, gap),
        Words(LEFT - 6, top - 29, "column", "end", FAINT),
    ]
    if narrow:  # then a tag has the number of its head alone
        items.append(Words(LEFT - 6, top - 11, "head", "end", bold=True))
    for c in range(d_out):
        items.append(Words(across[c] + WIDE / 2, top - 29, f"{c}", color=FAINT))
        items.append(Box(across[c], 20, WIDE, end - 20, name=f"column {c}"))
    for h, block in enumerate(weight.chunk(num_heads, dim=1)):
        items += _numbers(across[h * size], top, block, lambda *_, h=h: h)
    if zeroed is not None:
        items += frame(across[zeroed], top, WIDE, d_in * HIGH)
    every = math.ceil((SIZE + 3) / (side / len(tokens)))  # in small maps not every token has a name
    for h, weights in enumerate(attn_weights):
        middle, row = across[h * size] + slot / 2, h % 2 if narrow else 0
        down = lower + row * (side + FOOT)
        half = BAND / 2 - 1 if row else side / 2
        ends = [(middle + slot / 2 - 2, end + 2), (middle + half, lower - 3)]
        ends += [(middle + half, down - 3)] if row else []
        band = (*((2 * middle - x, y) for x, y in ends[::-1]), *ends)
        items.append(Line(band, None, fill=head_color(h), opacity=0.18))
        items += _map(middle - side / 2, down, side, weights, h)
        if moved:
            said = "0" if moved[h] == 0 else f"{moved[h]:.2f}"
            items.append(Words(middle, down + side + 12, said, bold=moved[h] > 0))
        for i in range(0, len(tokens) if h == row else 0, every):
            y = down + (i + 0.5) * side / len(tokens)
            items.append(Words(middle - side / 2 - 6, y, tokens[i], "end"))
    if moved:
        told = "below each map: the largest change of one of its weights"
        y = lower + (2 if narrow else 1) * (side + FOOT) + 8
        items.append(Words(LEFT, y, told, "start", FAINT))
    one = num_heads == 1
    alt = (
        f"W_query, {d_in} rows by {d_out} columns, cut into {num_heads} block{'' if one else 's'} "
        f"of {size}, each joined to the map of its head: {num_heads} "
        f"map{'' if one else 's'} of {len(tokens)} queries (down) by {len(tokens)} keys (across)."
    )
    if zeroed is not None and moved:
        owner = zeroed * num_heads // d_out
        alt += f" Column {zeroed} is 0: a weight of head {owner} changes by {moved[owner]:.2f}"
        alt += "." if one else ", no other map changes."
    height = lower + 2 * (_map_side(WIDE) + FOOT) + 30
    return Scene(LEFT + wide + FREE + 12, height, alt, tuple(items))


ACROSS = 332.0  # pixels that a phone has
SLIM = 38.0  # a cell there
JOINT = 12.0  # from a block to its map


def blocks_beside_maps_picture(
    weight: Tensor,
    attn_weights: Tensor,
    zeroed: int | None = None,
    moved: Sequence[float] = (),
) -> Scene:
    """Draw the same for a phone: each block beside its map, as many heads in a row as fit.

    A block of one head stands in two rows. Arguments and names are those of
    blocks_and_maps_picture.
    """
    (d_in, d_out), num_heads = weight.shape, len(attn_weights)
    size = d_out // num_heads
    most = min(size, 6)  # columns beside each other
    side = {1: 52.0, 2: 74.0, 3: 74.0}.get(size, 90.0)
    unit, top = most * SLIM + JOINT + side, 40.0
    tall = size // most * (d_in * HIGH + top)
    across = int((ACROSS + 8) // (unit + 8))
    down = max(tall, top + side + FOOT) + 6
    items: list[Item] = [Words(0, 11, f"W_query  ({d_in}, {d_out})", "start", bold=True)]
    for h, block in enumerate(weight.chunk(num_heads, dim=1)):
        x, y = (h % across) * (unit + 8), 24 + (h // across) * down
        items += head_tag(x + 1, y, unit - 2, h, f"{h}" if size == 1 else f"head {h}")
        for i, part in enumerate(block.chunk(size // most, dim=1)):
            above = y + top + i * (d_in * HIGH + top)
            items += _slim_numbers(x, above, part, h)
            for c in range(part.shape[1]):
                column, left = h * size + i * most + c, x + c * SLIM
                items.append(Words(left + SLIM / 2, above - 9, f"{column}", color=FAINT))
                room = Box(left, above - 18, SLIM, d_in * HIGH + 18, name=f"column {column}")
                items.append(room)
                if column == zeroed:
                    items += frame(left, above, SLIM, d_in * HIGH)
        right = x + unit - side
        joint, end = right - JOINT + 1, right - 1
        band = (joint, y + top), (end, y + top), (end, y + top + side), (joint, y + tall)
        items.append(Line(band, None, fill=head_color(h), opacity=0.18))
        items += _map(right, y + top, side, attn_weights[h], h)
        if moved:
            said = "0" if moved[h] == 0 else f"{moved[h]:.2f}"
            items.append(Words(right + side / 2, y + top + side + 12, said, bold=moved[h] > 0))
    height = 24 + math.ceil(num_heads / across) * down
    many = "1 block" if num_heads == 1 else f"{num_heads} blocks"
    alt = f"W_query cut into {many} of {size} columns, each beside the map of its head."
    return Scene(ACROSS, height, alt, tuple(items))


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
