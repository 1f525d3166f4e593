"""Figures of tensors: attention weights, matrices, blocks of weights, differences, any rank.

Every figure is a Scene: queries go down, keys go across, a hatched cell has no value because the
query may not see that key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlib.pictures.palette import (
    FAINT,
    INK,
    MARKED,
    PAPER,
    QUIET,
    head_color,
    signed_color,
    text_color,
    tint,
    weight_color,
)
from attnlib.pictures.scene import Box, Item, Line, Scene, Words, moved


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
    side = len(tokens) * cell
    label, strip, gap, below = 64.0, 24.0, 20.0, 56.0
    items: list[Item] = []
    columns = min(len(heads), 4)
    for h, weights in enumerate(heads.tolist()):
        x = label + (h % columns) * (side + gap)
        y = (h // columns) * (strip + side + below)
        color = FAINT if single else head_color(h)
        name = title if single else f"head {h + 1}"
        if single:
            items.append(Words(x, y + strip / 2, name, 12, INK, "start", bold=True))
        else:
            items.append(Box(x, y, side, strip - 6, fill=color))
            items.append(Words(x + side / 2, y + 9, name, 11, text_color(color), bold=True))
        items += moved(_cells(weights, is_hidden, cell), x, y + strip)
        for i, token in enumerate(tokens):
            middle = (i + 0.5) * cell
            if h % columns == 0:
                items.append(Words(x - 6, y + strip + middle, token, 11, INK, "end"))
            items.append(
                Words(x + middle + 4, y + strip + side + 8, token, 10, INK, "end", angle=45)
            )
    width = label + columns * (side + gap)
    for i, note in enumerate(row_notes):
        items.append(Words(width - 8, strip + (i + 0.5) * cell, note, 11, INK, "start", mono=True))
    width += 80 if row_notes else 0
    height = -(-len(heads) // columns) * (strip + side + below)
    items += moved(_scale(), width, strip)
    maps = "1 map" if len(heads) == 1 else f"{len(heads)} maps"
    alt = f"{title}: {maps} of {len(tokens)} queries (down) by {len(tokens)} keys (across)."
    return Scene(_width(label, width + 36 - label, title), height, alt, tuple(items))


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
    width, height, label, top = 26.0 + 8.0 * digits, 24.0, 64.0, 24.0
    items: list[Item] = [Words(label, 10, title, 12, INK, "start", bold=True)]
    if column_heads is not None:
        for head in sorted(set(column_heads)):
            owned = [c for c, owner in enumerate(column_heads) if owner == head]
            x, across = label + owned[0] * width, len(owned) * width
            color = head_color(head)
            items.append(Box(x + 1, top, across - 2, 18, fill=color))
            name = f"head {head + 1}"
            items.append(Words(x + across / 2, top + 9, name, 11, text_color(color), bold=True))
        top += 22
    for r, values in enumerate(matrix.tolist()):
        y = top + r * height
        items.append(Words(label - 6, y + height / 2, rows[r], 11, INK, "end"))
        for c, value in enumerate(values):
            fill = QUIET if column_heads is None else tint(head_color(column_heads[c]), 0.22)
            x = label + c * width
            items.append(Box(x, y, width, height, fill=fill, stroke=PAPER))
            text = f"{value:.{digits}f}"
            items.append(Words(x + width - 6, y + height / 2, text, 11, INK, "end", mono=True))
    num_rows, num_columns = matrix.shape
    alt = f"{title}: {num_rows} rows by {num_columns} columns."
    size = (_width(label, num_columns * width, title), top + num_rows * height + 4)
    return Scene(*size, alt, tuple(items))


def blocks_picture(weight: Tensor, num_heads: int, title: str, cell: float = 26.0) -> Scene:
    """Draw the weight of a projection, (d_out, d_in), its rows coloured by the head they feed.

    The stronger the colour, the larger the entry. num_heads divides d_out.
    """
    d_out, d_in = weight.shape
    head_dim = d_out // num_heads
    largest = weight.abs().max().item()
    label, top = 64.0, 24.0
    items: list[Item] = [Words(label, 10, title, 12, INK, "start", bold=True)]
    for r, row in enumerate(weight.tolist()):
        for c, value in enumerate(row):
            fill = tint(head_color(r // head_dim), 0.2 + 0.8 * abs(value) / largest)
            place = (label + c * cell, top + r * cell)
            items.append(Box(*place, cell, cell, fill=fill, stroke=PAPER))
    for h in range(num_heads):
        y = top + h * head_dim * cell
        items.append(Box(label, y, d_in * cell, head_dim * cell, stroke=INK))
        name = f"head {h + 1}"
        items.append(Words(label - 6, y + head_dim * cell / 2, name, 11, INK, "end"))
    size = (_width(label, d_in * cell, title), top + d_out * cell + 4)
    alt = f"{title}: {num_heads} blocks of {head_dim} rows by {d_in} columns."
    return Scene(*size, alt, tuple(items))


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
    width, height, label, top = 54.0, 26.0, 92.0, 24.0
    largest = difference.nan_to_num(0.0).max().item()
    items: list[Item] = [Words(label, 10, title, 12, INK, "start", bold=True)]
    for r, values in enumerate(difference.tolist()):
        y = top + r * height
        name = f"changed: {rows[r]}" if r == changed else rows[r]
        items.append(Words(label - 6, y + height / 2, name, 10, INK, "end", bold=r == changed))
        for c, value in enumerate(values):
            is_nan = value != value
            is_number = value and not is_nan
            fill = weight_color(0.15 + 0.85 * value / largest) if is_number else PAPER
            x = label + c * width
            items.append(Box(x, y, width, height, fill=fill, stroke=QUIET, hatched=is_nan))
            text = f"{value:.3f}" if is_number else "NaN" if is_nan else "0"
            ink = text_color(fill) if value else FAINT
            items.append(Words(x + width / 2, y + height / 2, text, 10, ink, mono=True))
    num_rows, num_columns = difference.shape
    size = (_width(label, num_columns * width, title), top + num_rows * height + 4)
    still = sum(not any(row) for row in difference.tolist())
    alt = f"{title}: {still} of {num_rows} rows did not move at all."
    return Scene(*size, alt, tuple(items))


def signed_picture(
    matrix: Tensor, rows: Sequence[str], columns: Sequence[str], title: str
) -> Scene:
    """Draw a matrix of signed values: negative red, zero near white, positive blue."""
    width, height, label, top = 54.0, 26.0, 92.0, 44.0
    largest = matrix.abs().max().item()
    items: list[Item] = [Words(label, 10, title, 12, INK, "start", bold=True)]
    for c, name in enumerate(columns):
        items.append(Words(label + (c + 0.5) * width, 33, name, 10))
    for r, values in enumerate(matrix.tolist()):
        y = top + r * height
        items.append(Words(label - 6, y + height / 2, rows[r], 10, INK, "end"))
        for c, value in enumerate(values):
            fill = signed_color(value, largest)
            x = label + c * width
            items.append(Box(x, y, width, height, fill=fill, stroke=PAPER))
            text, ink = f"{value:.2f}", text_color(fill)
            items.append(Words(x + width / 2, y + height / 2, text, 10, ink, mono=True))
    num_rows, num_columns = matrix.shape
    size = (_width(label, num_columns * width, title), top + num_rows * height + 4)
    alt = f"{title}: {num_rows} rows by {num_columns} columns."
    return Scene(*size, alt, tuple(items))


def _cells(weights: list[list[float]], is_hidden: Tensor | None, cell: float) -> list[Item]:
    """Return the cells of one map of weights."""
    hidden = is_hidden.tolist() if is_hidden is not None else None
    items: list[Item] = []
    for q, row in enumerate(weights):
        for k, weight in enumerate(row):
            place = (k * cell, q * cell, cell, cell)
            if (hidden is not None and hidden[q][k]) or weight != weight:  # NaN
                items.append(Box(*place, fill=PAPER, stroke=QUIET, hatched=True))
                continue
            fill = weight_color(weight)
            items.append(Box(*place, fill=fill, stroke=PAPER))
            if cell >= 30:
                middle = ((k + 0.5) * cell, (q + 0.5) * cell)
                items.append(Words(*middle, f"{weight:.2f}", cell / 3.6, text_color(fill)))
    return items


def _width(label: float, body: float, title: str) -> float:
    """Return the width that holds the labels and, to their right, the body and the title."""
    return label + max(body, 8.6 * len(title)) + 4


def _scale() -> list[Item]:
    """Return the colour scale of attention weights."""
    items: list[Item] = [
        Box(0, i * 8, 12, 8.5, fill=weight_color(1 - (i + 0.5) / 12)) for i in range(12)
    ]
    items.append(Words(18, 4, "1", 10, INK, "start"))
    items.append(Words(18, 92, "0", 10, INK, "start"))
    return items


CELL, ROW, LABEL = 46.0, 22.0, 64.0


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
        values, dims = values[None], ("", *dims) if dims else ()
    owners = _owners(values, dims, num_heads)
    block_width, block_height = values.shape[2] * CELL, values.shape[1] * ROW
    items: list[Item] = [Words(16, 10, title, 12, INK, "start", bold=True)]
    top = 48 if len(values) > 1 else 28  # room for a heading above each block
    across = max(1, min(len(values), int(760 // (block_width + LABEL))))
    for i, block in enumerate(values):
        x = LABEL + (i % across) * (block_width + LABEL)
        y = top + (i // across) * (block_height + 44)
        if len(values) > 1:
            heading = _label(dims[0] if dims else "", i)
            items.append(Words(x, y - 12, heading, 11, INK, "start", bold=True))
        for row in range(block.shape[0]):
            label = _label(dims[1] if dims else "", row)
            items.append(Words(x - 5, y + (row + 0.5) * ROW, label, 9, INK, "end"))
        items += moved(_block(block, owners[i]), x, y)
    width = LABEL + across * (block_width + LABEL)
    height = top + math.ceil(len(values) / across) * (block_height + 44)
    return Scene(max(width, 7.8 * len(title) + 24), height - 36, f"{title}.", tuple(items))


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


def _block(block: Tensor, owners: Tensor) -> list[Item]:
    items: list[Item] = []
    for row, values in enumerate(block.tolist()):
        for column, value in enumerate(values):
            head = int(owners[row, column])
            hidden = value is True or value == -math.inf
            fill = PAPER if hidden else QUIET if head < 0 else tint(head_color(head), 0.3)
            x, y = column * CELL, row * ROW
            items.append(Box(x, y, CELL, ROW, fill=fill, stroke=PAPER, hatched=hidden))
            text = str(value) if isinstance(value, (bool, int)) else f"{value:.2f}"
            ink = text_color(fill)
            items.append(Words(x + CELL - 5, y + ROW / 2, text, 11, ink, "end", mono=True))
    return items


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


def _label(dim: str, index: int) -> str:
    names = {"num_heads": "head", "num_tokens": "token", "num_queries": "query", "": "row"}
    return f"{names.get(dim, dim)} {index + 1}"


def _shape(values: Tensor, dims: Sequence[str]) -> str:
    sizes = str(tuple(values.shape))
    return f"({', '.join(dims)}) = {sizes}" if all(dims) and dims else sizes


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
    title = f"all {num_layers * num_heads} heads"
    items: list[Item] = [Words(left, 10, title, 12, INK, "start", bold=True)]
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
    if chosen is not None:
        layer, head = chosen
        corner = (left + (head - 1) * step - 2, top + (layer - 1) * step - 2)
        items.append(Box(*corner, side + 4, side + 4, stroke=INK, stroke_width=2.5))
    alt = f"{title}: {num_layers} layers (down) by {num_heads} heads (across)."
    if chosen is not None:
        alt += f" Layer {chosen[0]}, head {chosen[1]} is framed."
    width = left + max(num_heads * step, 8.6 * len(title)) + 4
    return Scene(width, top + num_layers * step + 4, alt, tuple(items))
