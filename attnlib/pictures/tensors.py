"""Pictures of tensors: attention weights, matrices, tensors of any rank; and of source code.

In a map of attention weights queries go down and keys go across. A hatched cell has no value to
show: a query may not see that key, an entry is NaN or -inf, or a mask is True there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib.pictures.palette import (
    FAINT,
    INK,
    MARKED,
    PAPER,
    QUIET,
    head_color,
    text_color,
    tint,
    weight_color,
)
from attnlib.pictures.scene import Box, Item, Line, Scene, Words, moved

LABEL = 64.0  # room for the names of rows, in pixels
TOP = 24.0  # room for a title or for a strip with the name of a head


# Parts of several pictures


class Cell(NamedTuple):
    """How one number is shown."""

    fill: str
    text: str = ""
    ink: str = INK
    stroke: str = PAPER
    hatched: bool = False


def _grid(
    matrix: Tensor,
    look: Callable[[float, int, int], Cell],
    width: float,
    height: float,
    number: Words | None = None,
    names: Sequence[Words] = (),
) -> list[Item]:
    """Return a matrix as cells, starting at the origin; look(entry, row, column) gives each cell.

    number and names are placed for the first cell and the first row, and shifted for the others.
    """
    items: list[Item] = []
    for r, row in enumerate(matrix.tolist()):
        items += moved(names[r : r + 1], 0, r * height)
        for c, value in enumerate(row):
            fill, text, ink, stroke, hatched = look(value, r, c)
            x, y = c * width, r * height
            items.append(Box(x, y, width, height, fill, stroke, hatched=hatched))
            if number is not None and text:
                items += moved([replace(number, text=text, color=ink)], x, y)
    return items


def head_tag(x: float, y: float, width: float, head: int) -> list[Item]:
    """Return a strip in the colour of a head, counted from 0, with its name."""
    color = head_color(head)
    name = Words(x + width / 2, y + 9, f"head {head + 1}", 11, text_color(color), bold=True)
    return [Box(x, y, width, 18, fill=color), name]


def _titled(
    title: str, items: Sequence[Item], left: float, right: float, bottom: float, alt: str
) -> Scene:
    """Return items under a title that begins where they do, at left."""
    heading = Words(left, 10, title, 12, INK, "start", bold=True)
    return Scene(_width(left, right, title), bottom + 4, alt, (heading, *items))


def _width(left: float, right: float, title: str) -> float:
    """Return the width of a sheet with room for a body that ends at right, and for a title."""
    return max(right, left + 8.6 * len(title)) + 4


# Attention weights


def weights_picture(
    attn_weights: Tensor,
    tokens: Sequence[str],
    is_hidden: Tensor | None = None,
    cell: float = 40.0,
    title: str = "attention weights",
    row_notes: Sequence[str] = (),
) -> Scene:
    """Draw the weights of one head or of several, side by side, on one colour scale from 0 to 1.

    Args:
        attn_weights: (num_tokens, num_tokens) or (num_heads, num_tokens, num_tokens).
        tokens: the names of the tokens.
        is_hidden: bool, (num_tokens, num_tokens): these cells are hatched. None: no cell is.
        cell: pixels per cell; the values are written in from 30 pixels on.
        title: what is drawn, for the alt text and, with a single head, above it.
        row_notes: words to the right of each row of the last map, such as the row's sum.

    Returns:
        A Scene; a row holds up to four heads, each under a strip in its own colour.
    """
    single = attn_weights.ndim == 2
    heads = attn_weights[None] if single else attn_weights  # (num_heads, num_tokens, num_tokens)
    shown = heads if is_hidden is None else torch.where(is_hidden, torch.nan, heads)
    number = Words(cell / 2, cell / 2, "", cell / 3.6) if cell >= 30 else None
    side, gap, below = len(tokens) * cell, 20.0, 56.0
    columns = min(len(heads), 4)
    items: list[Item] = []
    for h, weights in enumerate(shown):
        x, y = LABEL + (h % columns) * (side + gap), (h // columns) * (TOP + side + below)
        if single:
            items.append(Words(x, y + TOP / 2, title, 12, INK, "start", bold=True))
        else:
            items += head_tag(x, y, side, h)
        items += moved(_grid(weights, _weight_cell, cell, cell, number), x, y + TOP)
        for i, token in enumerate(tokens):
            middle = (i + 0.5) * cell
            if h % columns == 0:
                items.append(Words(x - 6, y + TOP + middle, token, 11, INK, "end"))
            foot = (x + middle + 4, y + TOP + side + 8)
            items.append(Words(*foot, token, 10, INK, "end", angle=45))
    width = LABEL + columns * (side + gap)
    for i, note in enumerate(row_notes):
        items.append(Words(width - 8, TOP + (i + 0.5) * cell, note, 11, INK, "start", mono=True))
    width += 80 if row_notes else 0
    items += moved(_scale(), width, TOP)
    height = math.ceil(len(heads) / columns) * (TOP + side + below)
    maps = "1 map" if len(heads) == 1 else f"{len(heads)} maps"
    alt = f"{title}: {maps} of {len(tokens)} queries (down) by {len(tokens)} keys (across)."
    return Scene(_width(LABEL, width + 36, title), height, alt, tuple(items))


def _weight_cell(weight: float, *_place: int) -> Cell:
    """Return the cell of a weight; NaN is hatched."""
    if math.isnan(weight):
        return Cell(PAPER, stroke=QUIET, hatched=True)
    fill = weight_color(weight)
    return Cell(fill, f"{weight:.2f}", text_color(fill))


def _scale() -> list[Item]:
    """Return the colour scale of attention weights."""
    steps = [Box(0, i * 8, 12, 8.5, fill=weight_color(1 - (i + 0.5) / 12)) for i in range(12)]
    return [*steps, Words(18, 4, "1", 10, INK, "start"), Words(18, 92, "0", 10, INK, "start")]


def heads_picture(maps: Tensor, chosen: tuple[int, int] | None = None, cell: float = 8.0) -> Scene:
    """Draw the maps of all heads as one picture: a row for each layer, a column for each head.

    Args:
        maps: (num_layers, num_heads, num_tokens, num_tokens).
        chosen: the layer and the head, both from 1, that are framed.
        cell: pixels per weight; what lies above the diagonal of a map is hatched.

    Returns:
        A Scene; a bar above each column has the head's colour.
    """
    num_layers, num_heads, num_tokens, _ = maps.shape
    left, top = 62.0, 42.0  # names of the layers; title and numbers of the heads
    side = num_tokens * cell
    step = side + 6
    items: list[Item] = []
    for h in range(num_heads):
        x = left + h * step
        items.append(Words(x + side / 2, 26, f"{h + 1}", 10))
        items.append(Box(x, 35, side, 4, fill=head_color(h)))
    for layer, heads in enumerate(maps.tolist()):
        y = top + layer * step
        items.append(Words(left - 6, y + side / 2, f"layer {layer + 1}", 10, INK, "end"))
        for h, weights in enumerate(heads):
            x = left + h * step
            items.append(Box(x, y, side, side, fill=PAPER, stroke=QUIET, hatched=True))
            for q, row in enumerate(weights):
                for k, weight in enumerate(row[: q + 1]):
                    place = (x + k * cell, y + q * cell, cell, cell)
                    items.append(Box(*place, fill=weight_color(weight)))
    title = f"all {num_layers * num_heads} heads"
    alt = f"{title}: {num_layers} layers (down) by {num_heads} heads (across)."
    if chosen is not None:
        layer, head = chosen
        corner = (left + (head - 1) * step - 2, top + (layer - 1) * step - 2)
        items.append(Box(*corner, side + 4, side + 4, stroke=INK, stroke_width=2.5))
        alt += f" Layer {layer}, head {head} is framed."
    return _titled(title, items, left, left + num_heads * step, top + num_layers * step, alt)


LIGHTEST = 0.05  # weights below it are not drawn as lines


def lines_picture(attn_weights: Tensor, tokens: Sequence[str], row: float = 18.0) -> Scene:
    """Draw for each head a line from every query, on the left, to the keys that it reads.

    Args:
        attn_weights: (num_heads, num_tokens, num_tokens).
        tokens: the names of the tokens.
        row: pixels from token to token.

    Returns:
        A Scene: the more weight, the thicker and darker the line; below LIGHTEST there is none.
    """
    across, top = 92.0, 30.0
    label = 6.0 + 7.0 * max(map(len, tokens))
    items: list[Item] = []
    for h, weights in enumerate(attn_weights.tolist()):
        left = h * (across + 2 * label + 20) + label
        right = left + across
        items.append(Box(left, 18, across, 4, fill=head_color(h)))
        items.append(Words(left + across / 2, 9, f"head {h + 1}", 11, INK, bold=True))
        for i, token in enumerate(tokens):
            y = top + (i + 0.5) * row
            items.append(Words(left - 4, y, token, 11, INK, "end", mono=True))
            items.append(Words(right + 4, y, token, 11, INK, "start", mono=True))
        for q, keys in enumerate(weights):
            for k, weight in enumerate(keys):
                if weight >= LIGHTEST:
                    ends = ((left, top + (q + 0.5) * row), (right, top + (k + 0.5) * row))
                    opacity = round(0.15 + 0.85 * weight, 2)
                    items.append(Line(ends, head_color(h), 0.5 + 3 * weight, opacity=opacity))
    width = len(attn_weights) * (across + 2 * label + 20) - 20
    alt = (
        f"Lines from {len(tokens)} queries (left) to the keys that they read (right), "
        f"for {len(attn_weights)} heads."
    )
    return Scene(width, top + len(tokens) * row + 6, alt, tuple(items))


# Matrices


def matrix_picture(
    matrix: Tensor,
    rows: Sequence[str],
    column_heads: Sequence[int] | None = None,
    title: str = "",
    digits: int = 4,
) -> Scene:
    """Draw a matrix with its values written in, each column in the colour of its head.

    Args:
        matrix: (num_rows, num_columns).
        rows: the names of the rows.
        column_heads: for each column its head, counted from 0. None: no heads.
        title: what is drawn, above the matrix and in the alt text.
        digits: decimals of the values.
    """
    num_rows, num_columns = matrix.shape
    width, height, top = 26.0 + 8.0 * digits, 24.0, TOP
    fills = [QUIET] * num_columns
    items: list[Item] = []
    if column_heads is not None:
        fills = [tint(head_color(head), 0.22) for head in column_heads]
        for head in sorted(set(column_heads)):
            owned = [c for c, owner in enumerate(column_heads) if owner == head]
            items += head_tag(LABEL + owned[0] * width + 1, top, len(owned) * width - 2, head)
        top += 22

    def look(value: float, _row: int, column: int) -> Cell:
        return Cell(fills[column], f"{value:.{digits}f}", text_color(fills[column]))

    number = Words(width - 6, height / 2, "", 11, anchor="end", mono=True)
    names = [Words(-6, height / 2, name, 11, INK, "end") for name in rows]
    items += moved(_grid(matrix, look, width, height, number, names), LABEL, top)
    alt = f"{title}: {num_rows} rows by {num_columns} columns."
    right, bottom = LABEL + num_columns * width, top + num_rows * height
    return _titled(title, items, LABEL, right, bottom, alt)


def blocks_picture(weight: Tensor, num_heads: int, title: str, cell: float = 26.0) -> Scene:
    """Draw the weight of a projection, (d_out, d_in), its rows coloured by the head they feed.

    The stronger the colour, the larger the entry. num_heads divides d_out.
    """
    d_out, d_in = weight.shape
    head_dim = d_out // num_heads
    largest = weight.abs().max().item()

    def look(value: float, row: int, _column: int) -> Cell:
        return Cell(tint(head_color(row // head_dim), 0.2 + 0.8 * abs(value) / largest))

    items = moved(_grid(weight, look, cell, cell), LABEL, TOP)
    tall = head_dim * cell
    for h in range(num_heads):
        y = TOP + h * tall
        items.append(Box(LABEL, y, d_in * cell, tall, stroke=INK))
        items.append(Words(LABEL - 6, y + tall / 2, f"head {h + 1}", 11, INK, "end"))
    alt = f"{title}: {num_heads} blocks of {head_dim} rows by {d_in} columns."
    return _titled(title, items, LABEL, LABEL + d_in * cell, TOP + d_out * cell, alt)


def difference_picture(
    difference: Tensor, rows: Sequence[str], title: str, changed: int | None = None
) -> Scene:
    """Draw how far each number moved: exact zeros are empty cells, all others coloured.

    Args:
        difference: (num_rows, num_columns), the absolute differences; NaN is hatched.
        rows: the names of the rows.
        title: what is drawn, above the picture and in the alt text.
        changed: the row whose input was changed, if any: it is marked.
    """
    width, height, left = 54.0, 26.0, 92.0
    num_rows, num_columns = difference.shape
    largest = difference.nan_to_num(0.0).max().item()
    look = partial(_difference_cell, largest)
    number = Words(width / 2, height / 2, "", 10, mono=True)
    names = [Words(-6, height / 2, name, 10, INK, "end") for name in rows]
    if changed is not None:
        names[changed] = replace(names[changed], text=f"changed: {rows[changed]}", bold=True)
    items = moved(_grid(difference, look, width, height, number, names), left, TOP)
    still = sum(not any(row) for row in difference.tolist())
    alt = f"{title}: {still} of {num_rows} rows did not move at all."
    right, bottom = left + num_columns * width, TOP + num_rows * height
    return _titled(title, items, left, right, bottom, alt)


def _difference_cell(largest: float, value: float, *_place: int) -> Cell:
    """Return the cell of a difference; a tiny one has a colour too, because it is not zero."""
    if math.isnan(value):
        return Cell(PAPER, "NaN", stroke=QUIET, hatched=True)
    if value == 0:
        return Cell(PAPER, "0", FAINT, stroke=QUIET)
    fill = weight_color(0.15 + 0.85 * value / largest)
    return Cell(fill, f"{value:.3f}", text_color(fill), stroke=QUIET)


# A tensor of any rank, and the source that makes it

VALUE_WIDTH, VALUE_HEIGHT = 46.0, 22.0
ONE_OF = {"num_heads": "head", "num_tokens": "token", "num_queries": "query", "": "row"}


def tensor_picture(
    name: str, values: Tensor, dims: Sequence[str] = (), num_heads: int | None = None
) -> Scene:
    """Draw a tensor as blocks, its first batch item only.

    Args:
        name: what the tensor is called.
        values: 1 to 4 dimensions.
        dims: the name of each dimension, such as ("b", "num_heads", "num_tokens", "head_dim").
            Along num_heads, and along columns named num_heads * ..., cells take the colour of
            their head. Without names nothing is coloured.
        num_heads: how many heads, for columns named num_heads * ...

    Returns:
        A Scene: a title with the names and sizes, and a block for each index of the dimension
        that comes before the last two. A hatched cell is -inf, or True in a mask.
    """
    title = f"{name}: {_shape(values, dims)}"
    if values.ndim == 4 or dims[:1] == ("b",) or (not dims and values.ndim == 3):
        values, dims = values[0], tuple(dims[1:])
    while values.ndim < 3:
        values = values[None]
        dims = ("", *dims) if dims else ()
    block_dim, row_dim = dims[:2] or ("", "")
    num_blocks, num_rows, num_columns = values.shape
    width, height = num_columns * VALUE_WIDTH, num_rows * VALUE_HEIGHT
    top = 48 if num_blocks > 1 else 28  # room for a heading above each block
    across = max(1, min(num_blocks, int(760 // (width + LABEL))))
    number = Words(VALUE_WIDTH - 5, VALUE_HEIGHT / 2, "", 11, anchor="end", mono=True)
    items: list[Item] = [Words(16, 10, title, 12, INK, "start", bold=True)]
    for i, (block, owners) in enumerate(zip(values, _owners(values, dims, num_heads), strict=True)):
        x = LABEL + (i % across) * (width + LABEL)
        y = top + (i // across) * (height + 44)
        if num_blocks > 1:
            items.append(Words(x, y - 12, _label(block_dim, i), 11, INK, "start", bold=True))
        for row in range(num_rows):
            middle = y + (row + 0.5) * VALUE_HEIGHT
            items.append(Words(x - 5, middle, _label(row_dim, row), 9, INK, "end"))
        look = partial(_value_cell, owners.tolist())
        items += moved(_grid(block, look, VALUE_WIDTH, VALUE_HEIGHT, number), x, y)
    right = LABEL + across * (width + LABEL)
    bottom = top + math.ceil(num_blocks / across) * (height + 44)
    return Scene(max(right, 7.8 * len(title) + 24), bottom - 36, f"{title}.", tuple(items))


def _owners(values: Tensor, dims: Sequence[str], num_heads: int | None) -> Tensor:
    """Return for each entry the head that it belongs to, or -1."""
    owners = torch.full(values.shape, -1)
    for axis, dim in enumerate(dims):
        size = values.shape[axis]
        if dim == "num_heads":
            heads = torch.arange(size)
        elif dim.startswith("num_heads *") and num_heads:
            heads = torch.arange(size) // (size // num_heads)
        else:
            continue
        owners[:] = heads.view([-1 if i == axis else 1 for i in range(3)])
    return owners


def _value_cell(owners: list[list[int]], value: float, row: int, column: int) -> Cell:
    head = owners[row][column]
    hidden = value is True or value == -math.inf
    fill = PAPER if hidden else QUIET if head < 0 else tint(head_color(head), 0.3)
    text = str(value) if isinstance(value, int) else f"{value:.2f}"  # a bool is an int
    return Cell(fill, text, text_color(fill), hatched=hidden)


def _label(dim: str, index: int) -> str:
    return f"{ONE_OF.get(dim, dim)} {index + 1}"


def _shape(values: Tensor, dims: Sequence[str]) -> str:
    sizes = str(tuple(values.shape))
    return f"({', '.join(dims)}) = {sizes}" if all(dims) and dims else sizes


def listing_picture(lines: Sequence[tuple[int, str]], first: int, last: int) -> Scene:
    """Draw lines of source with their numbers, those from first to last highlighted."""
    width, height = 810.0, 17.0
    items: list[Item] = []
    for place, (number, line) in enumerate(lines):
        y = (place + 0.5) * height
        current = first <= number <= last
        if current:
            items.append(Box(0, place * height, width, height, fill=MARKED))
        items.append(Words(24, y, str(number), 11, FAINT, "end", mono=True))
        items.append(Words(36, y, line, 11, INK, "start", bold=current, mono=True))
    alt = f"Source of {len(lines)} lines, line {first} highlighted."
    return Scene(width, len(lines) * height + 4, alt, tuple(items))
