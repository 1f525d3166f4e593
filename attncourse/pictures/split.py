"""Pictures of the weight split: a product in Falk's scheme, and blocks joined to their maps.

Both show weights as x meets them, x @ W: a head is a block of columns of W.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attncourse.pictures.letters import SIZE, text_width
from attncourse.pictures.palette import (
    FAINT,
    INK,
    PAPER,
    QUIET,
    head_color,
    on_white,
    text_color,
    tint,
    weight_color,
)
from attncourse.pictures.scene import Box, Item, Line, Scene, Words, frame

LABEL = 70.0  # room for the names of rows, in pixels
NO_HEAD = -1


# A product


def product_picture(
    left: Tensor,
    right: Tensor,
    rows: Sequence[str],
    names: tuple[str, str, str],
    num_heads: int,
    place: tuple[int, int] | None = None,
    inner: bool = False,
) -> Scene:
    """Draw left @ right in Falk's scheme: each number of the result lies where its factors meet.

    Args:
        left: (num_rows, inner).
        right: (inner, num_columns), drawn above the result, column over column.
        rows: the names of the rows of left.
        names: what left, right and their product are called.
        num_heads: how many heads share the colored columns.
        place: the row and the column of a number of the product: it is framed, and so are the row
            of left and the column of right that meet in it. None: nothing is.
        inner: False: heads own the columns of right, so those of the product too. True: heads own
            the columns of left, and the rows of right that these meet; the product is nobody's, and
            what each head adds to the framed number stands below.

    Returns:
        A Scene.
    """
    product = left @ right
    width, height, gap, tag = 52.0, 24.0, 28.0, 20.0
    wide, tall = left.shape[1] * width, right.shape[0] * height
    x, top = LABEL + wide + gap, 16.0 if inner else 50.0
    y = top + tall + gap
    nobody = [NO_HEAD] * max(*left.shape, *right.shape)
    split_columns = left.shape[1] if inner else right.shape[1]
    owners = [c * num_heads // split_columns for c in range(split_columns)]
    left_owners, right_owners = (owners, nobody) if inner else (nobody, owners)

    items = _numbers(LABEL, y, left, left_owners, width, height)
    items += _numbers(x, top, right, right_owners, width, height, owners if inner else None)
    items += _numbers(x, y, product, right_owners, width, height)
    tagged, above = (LABEL, y) if inner else (x, top)
    items += _tags(tagged, above - tag, split_columns * width, num_heads)
    for r, name in enumerate(rows):
        items.append(Words(LABEL - 6, y + (r + 0.5) * height, name, "end"))
    for c in range(right.shape[1] if not inner else 0):
        items.append(Words(x + (c + 0.5) * width, top - tag - 10, f"{c}", color=FAINT))
    bottom = y + len(product) * height
    added: list[float] = []
    if place is not None:
        r, c = place
        across, down = x + c * width, y + r * height
        for frame in ((LABEL, down, wide, height), (across, top, width, tall)):
            items.append(Box(*frame, stroke=INK, stroke_width=1.5))
        items.append(Box(across, down, width, height, stroke=INK, stroke_width=2.5))
        if inner:
            every = len(right) // num_heads
            parts = (left[r] * right[:, c]).view(num_heads, every).sum(dim=1)
            added = parts.tolist()
            items += _sum(LABEL, bottom + 22, added, product[r, c].item(), width, height)
            bottom += 22 + height
    for name, matrix, across, down in (
        (names[0], left, LABEL + wide / 2, y - (tag if inner else 0) - 10),
        (names[1], right, x + right.shape[1] * width + 10, top + tall / 2),
        (names[2], product, x + right.shape[1] * width + 10, y + len(product) * height / 2),
    ):
        shape = f"({matrix.shape[0]}, {matrix.shape[1]})"
        if matrix is left:
            items.append(Words(across, down, f"{name}  {shape}", bold=True))
            continue
        items.append(Words(across, down - 9, name, "start", bold=True))
        items.append(Words(across, down + 9, shape, "start", FAINT))
    beside = 14.0 + max(text_width(name, bold=True) for name in names[1:])
    owned = (
        f"the columns of {names[0]} and the rows of {names[1]}"
        if inner
        else f"the columns of {names[1]} and of {names[2]}"
    )
    alt = (
        f"A product as three matrices: {names[0]}, {tuple(left.shape)}, on the left, {names[1]}, "
        f"{tuple(right.shape)}, above, and where they meet {names[2]}, {tuple(product.shape)}, "
        f"each column under the column of {names[1]} that makes it. In {num_heads} colors, one for "
        f"each head: {owned}."
    )
    if place is not None:
        alt += f" Row {place[0]} of {names[0]} and column {place[1]} of {names[1]} are framed, and "
        alt += f"the number of {names[2]} in which they meet."
    if added:
        said = " and ".join(f"{part:.2f} from head {h}" for h, part in enumerate(added))
        alt += f" It is the sum of {said}."
    sheet = (x + right.shape[1] * width + beside, bottom + 4)
    return Scene(*sheet, alt, tuple(items))


def _sum(
    x: float, y: float, parts: Sequence[float], total: float, width: float, height: float
) -> list[Item]:
    """Return a number of each head, in its color, and their sum, in a frame."""
    items: list[Item] = []
    for h, part in enumerate(parts):
        items += _numbers(x, y, torch.tensor([[part]]), [h], width, height)
        sign = "=" if h == len(parts) - 1 else "+"
        items.append(Words(x + width + 14, y + height / 2, sign, size=15))
        x += width + 28
    items += _numbers(x, y, torch.tensor([[total]]), [NO_HEAD], width, height)
    return [*items, Box(x, y, width, height, stroke=INK, stroke_width=2.5)]


def _numbers(
    x: float,
    y: float,
    matrix: Tensor,
    owners: Sequence[int],
    width: float,
    height: float,
    row_owners: Sequence[int] | None = None,
) -> list[Item]:
    """Return a matrix with its numbers, each cell in the color of the head that owns it."""
    items: list[Item] = []
    for r, row in enumerate(matrix.tolist()):
        for c, value in enumerate(row):
            head = owners[c] if row_owners is None else row_owners[r]
            fill = QUIET if head == NO_HEAD else tint(head_color(head), 0.3)
            place = (x + c * width, y + r * height)
            items.append(Box(*place, width, height, fill, PAPER))
            right, middle = place[0] + width - 7, place[1] + height / 2
            items.append(Words(right, middle, f"{value:.2f}", "end", text_color(fill), mono=True))
    return items


def _tags(x: float, y: float, width: float, num_heads: int) -> list[Item]:
    """Return a strip for each head, side by side, in its color and with its name or number."""
    long = text_width("head 10", bold=True) > width / num_heads - 4
    each = width / num_heads
    items: list[Item] = []
    for h in range(num_heads):
        color = head_color(h)
        items.append(Box(x + h * each + 1, y, each - 2, 18, color))
        name = f"{h}" if long else f"head {h}"
        middle = x + (h + 0.5) * each
        items.append(Words(middle, y + 9, name, color=text_color(color), bold=True))
    return items


# Blocks and maps

COLUMN, ROW = 52.0, 24.0  # a cell of the weight
LEFT = 64.0  # of the weight
MAP = 150.0  # the largest side of a map
NARROW = 80.0  # maps of narrower blocks stand in two rows
BAND = 24.0  # how wide what joins a block to a map of the second row is, between two of the first
FOOT = 24.0  # below a map


def _map_side(slot: float) -> float:
    """Return the side of a map below a block of this width, in pixels."""
    return min(MAP, 2 * slot - BAND - 8 if slot < NARROW else slot - 6)


def blocks_and_maps_picture(
    weight: Tensor,
    attn_weights: Tensor,
    tokens: Sequence[str],
    name: str = "W_query",
    zeroed: int | None = None,
    moved: Sequence[float] = (),
) -> Scene:
    """Draw the columns of a weight, cut into blocks, each joined to the map of its head.

    Args:
        weight: (d_in, d_out), as x meets it.
        attn_weights: (num_heads, num_tokens, num_tokens), causal; num_heads divides d_out.
        tokens: the names of the tokens.
        name: what the weight is called.
        zeroed: the column that was set to 0, framed. None: no column was.
        moved: for each head the largest change of one of its attention weights; written below its
            map. None of them if it is empty.

    Returns:
        A Scene, as large for any number of heads.
    """
    d_in, d_out = weight.shape
    num_heads = len(attn_weights)
    slot = d_out * COLUMN / num_heads
    side, narrow = _map_side(slot), slot < NARROW
    top, lower = 60.0, 60.0 + d_in * ROW + 36
    heading = f"{name}  ({d_in}, {d_out})"
    items: list[Item] = [Words(LEFT, 11, heading, "start", bold=True)]
    legend = "maps: query ↓, key →; a weight of 0 is white, 1 the full color"
    items.append(Words(LEFT + d_out * COLUMN, 11, legend, "end", FAINT))
    items += _tags(LEFT, top - 20, d_out * COLUMN, num_heads)
    items.append(Words(LEFT - 6, top - 29, "column", "end", FAINT))
    if narrow:  # then a tag has the number of its head alone
        items.append(Words(LEFT - 6, top - 11, "head", "end", bold=True))
    for c in range(d_out):
        items.append(Words(LEFT + (c + 0.5) * COLUMN, top - 29, f"{c}", color=FAINT))
    owners = [c * num_heads // d_out for c in range(d_out)]
    items += _numbers(LEFT, top, weight, owners, COLUMN, ROW)
    if zeroed is not None:
        items += frame(LEFT + zeroed * COLUMN, top, COLUMN, d_in * ROW)
    every = math.ceil((SIZE + 3) / (side / len(tokens)))  # in small maps not every token has a name
    for h, weights in enumerate(attn_weights):
        x, middle = LEFT + h * slot, LEFT + (h + 0.5) * slot
        row = h % 2 if narrow else 0
        down = lower + row * (side + FOOT)
        half = BAND / 2 - 1 if row else side / 2
        ends = [(x + slot - 2, top + d_in * ROW + 2), (middle + half, lower - 3)]
        if row:
            ends.append((middle + half, down - 3))
        band = (*((2 * middle - end, y) for end, y in ends[::-1]), *ends)
        items.append(Line(band, None, fill=head_color(h), opacity=0.18))
        items += _map(middle - side / 2, down, side, weights, h)
        if moved:
            said = "0" if moved[h] == 0 else f"{moved[h]:.2f}"
            foot = (middle, down + side + 12)
            items.append(Words(*foot, said, bold=moved[h] > 0))
        for i, token in enumerate(tokens if h == row else ()):
            if i % every == 0:
                y = down + (i + 0.5) * side / len(tokens)
                items.append(Words(middle - side / 2 - 6, y, token, "end"))
    if moved:
        told = "below each map: the largest change of one of its weights"
        y = lower + (2 if narrow else 1) * (side + FOOT) + 8
        items.append(Words(LEFT, y, told, "start", FAINT))
    maps = "1 map" if num_heads == 1 else f"{num_heads} maps"
    alt = (
        f"{name}, {d_in} rows by {d_out} columns, cut into {num_heads} "
        f"block{'s' if num_heads > 1 else ''} of {d_out // num_heads}, each joined to the map of "
        f"its head: {maps} of {len(tokens)} queries (down) by {len(tokens)} keys (across)."
    )
    if zeroed is not None and moved:
        owner = owners[zeroed]
        alt += f" Column {zeroed} is 0: a weight of head {owner} changes by {moved[owner]:.2f}"
        alt += ", no other map changes." if num_heads > 1 else "."
    height = lower + 2 * (_map_side(COLUMN) + FOOT) + 20
    return Scene(LEFT + d_out * COLUMN + 12, height, alt, tuple(items))


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
