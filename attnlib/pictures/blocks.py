"""A tensor of any rank as blocks of numbers, coloured by head wherever it has heads."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attnlib.pictures.palette import FAINT, INK, MARKED, PAPER, QUIET, head_color, text_color, tint
from attnlib.pictures.scene import Box, Item, Scene, Words, moved
from attnlib.tracing.source import numbered_lines

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


def listing_picture(text: str, first: int, last: int) -> Scene:
    """Draw source text with line numbers, docstrings cut, lines first to last highlighted."""
    lines = numbered_lines(text)
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
