"""Pictures of matrices and tensors, their numbers written in."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attncourse.pictures.cells import Cell, grid, head_tag, titled
from attncourse.pictures.letters import SIZE, text_width, wrap
from attncourse.pictures.palette import (
    FAINT,
    PAPER,
    QUIET,
    amount_color,
    head_color,
    on_white,
    text_color,
    tint,
    weight_color,
)
from attncourse.pictures.scene import Item, Scene, Words
from attncourse.pictures.weights import say_maps

LABEL = 72.0  # room for the names of rows, in pixels
TOP = 24.0  # room for a title or for a strip with the name of a head


def matrix_picture(
    matrix: Tensor,
    rows: Sequence[str],
    column_heads: Sequence[int],
    title: str,
    digits: int,
    wide: float | None = None,
) -> Scene:
    """Draw a matrix with its values written in, each column in the color of its head.

    Columns have their numbers too, counted from 0.

    Args:
        matrix: (num_rows, num_columns).
        rows: the names of the rows.
        column_heads: for each column its head, counted from 0.
        title: what is drawn, above the matrix and in the alt text.
        digits: decimals of the values.
        wide: of a cell, in pixels. None: as much as a number with a sign takes.

    Returns:
        A Scene; the first cell is a box named "matrix".
    """
    num_rows, num_columns = matrix.shape
    width, height, top = wide or 30.0 + 8.0 * digits, 24.0, TOP + 38
    owned = {head: column_heads.count(head) for head in sorted({*column_heads})}
    fills = [tint(head_color(head), 0.22) for head in column_heads]
    items: list[Item] = []
    for head, count in owned.items():
        x = LABEL + column_heads.index(head) * width + 1
        items += head_tag(x, TOP, count * width - 2, head)
    for column in range(num_columns):
        x = LABEL + (column + 0.5) * width
        items.append(Words(x, TOP + 28, str(column), color=FAINT, mono=True))

    def look(value: float, row: int, column: int) -> Cell:
        fill, name = fills[column], "" if row or column else "matrix"
        return Cell(fill, f"{value:.{digits}f}", text_color(fill), name=name)

    size, free = (12.0, 3.0) if wide else (SIZE, 5.0)
    words = Words(width - free, height / 2, "", "end", size=size, mono=True)
    items += grid(LABEL, top, matrix, look, width, height, words)
    items += _row_names(LABEL, top, height, rows)
    alt = f"{title}: {num_rows} rows by {num_columns} columns."
    alt += f" Columns: {', '.join(f'{count} of head {head}' for head, count in owned.items())}."
    right, bottom = LABEL + num_columns * width, top + num_rows * height
    return titled(title, items, LABEL, right, bottom, alt)


def _row_names(x: float, y: float, height: float, names: Sequence[str]) -> list[Words]:
    return [Words(x - 6, y + (r + 0.5) * height, name, "end") for r, name in enumerate(names)]


def difference_picture(
    difference: Tensor, rows: Sequence[str], title: str, narrow: bool = False
) -> Scene:
    """Draw how far each number moved: exact zeros are white cells, all others colored.

    Args:
        difference: (num_rows, num_columns), the absolute differences; NaN is hatched.
        rows: the names of the rows.
        title: what is drawn, above the picture and in the alt text.
        narrow: whether a number has four letters at most.
    """
    width, height = 35.0 if narrow else 54.0, 26.0
    num_rows, num_columns = difference.shape
    largest = difference.nan_to_num(0.0).max().item()
    digits = 3 if largest < 100 else 1  # as much as a cell has room for

    def look(value: float, *_place: int) -> Cell:
        if math.isnan(value):
            return Cell(PAPER, "NaN", stroke=QUIET, hatched=True)
        if value == 0:
            return Cell(amount_color(0.0), "0", on_white(FAINT), QUIET)
        fill = amount_color(0.15 + 0.85 * value / largest)  # a tiny one too: it is not zero
        text = brief(value) if narrow else f"{value:.{digits}f}"
        return Cell(fill, text, text_color(fill), QUIET)

    left = max(0.0 if narrow else 84.0, *(text_width(name) + 12 for name in rows))
    words = Words(width / 2, height / 2, "", size=12 if narrow else SIZE, mono=True)
    items = grid(left, TOP, difference, look, width, height, words)
    items += _row_names(left, TOP, height, rows)
    still = [name for name, row in zip(rows, difference.tolist(), strict=True) if not any(row)]
    alt = f"{title}: {len(still)} of {num_rows} rows did not move at all"
    alt += f" ({', '.join(still)})." if 0 < len(still) < num_rows else "."
    right, bottom = left + num_columns * width, TOP + num_rows * height
    return titled(title, items, left, right, bottom, alt)


def brief(value: float) -> str:
    """Return a positive number in four letters at most.

    >>> [brief(value) for value in (0.0004, 0.006, 8.488, 21.27, 640.2)]
    ['<.01', '0.01', '8.49', '21.3', '640']
    """
    if value < 0.005:
        return "<.01"
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


VALUE_WIDTH, VALUE_HEIGHT = 56.0, 22.0
ACROSS = 820.0  # pixels; blocks that do not fit in it stand in a second row
ONE_OF = {"num_heads": "head", "num_tokens": "token"}


def tensor_picture(
    name: str,
    values: Tensor,
    dims: Sequence[str],
    num_heads: int,
    wide: float = VALUE_WIDTH,
    most: float = ACROSS,
) -> Scene:
    """Draw a tensor as blocks, its first batch item only.

    Args:
        name: what the tensor is called. What is called attn_weights is colored as weights are:
            0 white, 1 the color of the head, a 0 in the future gray.
        values: 1 to 4 dimensions.
        dims: the name of each dimension, such as ("b", "num_heads", "num_tokens", "head_dim").
            Along num_heads, and along columns named num_heads * ..., cells take the color of
            their head.
        num_heads: how many heads, for columns named num_heads * ...
        wide: of a cell, in pixels.
        most: blocks that do not fit into so many pixels stand in a row of their own.

    Returns:
        A Scene: a title with the names and sizes, and a block for each index of the dimension
        that comes before the last two. Whole numbers have no decimals, others two, or one where
        they are large. A gray cell is -inf, or a weight on the future.
    """
    title = f"{name}: ({', '.join(dims)}) = {tuple(values.shape)}"
    are_weights, several_rows = name == "attn_weights", values.ndim > 1
    if dims[0] == "b":
        values, dims = values[0], dims[1:]
    while values.ndim < 3:
        values, dims = values[None], ("", *dims)
    (num_blocks, num_rows, num_columns), (block_dim, row_dim, _) = values.shape, dims
    width, height = num_columns * wide, num_rows * VALUE_HEIGHT
    across = max(1, min(num_blocks, int(most // (width + LABEL))))
    lines = wrap(title, 0.8 * most)  # it is bold
    below = 19.0 * (len(lines) - 1)
    items: list[Item] = [
        Words(16, 10 + 19 * i, line, "start", bold=True) for i, line in enumerate(lines)
    ]
    hidden = (values == 0).triu(diagonal=1) if are_weights else values == -math.inf
    owners, digits = _owners(values, dims, num_heads), _digits(values)
    top = below + (48 if num_blocks > 1 else 28)  # room for a heading above each block
    size, free = (SIZE, 5.0) if wide == VALUE_WIDTH else (12.0, 3.0)
    words = Words(wide - free, VALUE_HEIGHT / 2, "", "end", size=size, mono=True)
    for i, block in enumerate(values):
        x = LABEL + (i % across) * (width + LABEL)
        y = top + (i // across) * (height + 44)
        if num_blocks > 1:
            items.append(Words(x, y - 12, f"{ONE_OF[block_dim]} {i}", "start", bold=True))
        for row in range(num_rows if several_rows else 0):
            said = f"{ONE_OF.get(row_dim, row_dim)} {row}"
            items.append(Words(x - 5, y + (row + 0.5) * VALUE_HEIGHT, said, "end"))

        def look(value: float, row: int, column: int, i: int = i) -> Cell:
            if hidden[i, row, column]:
                return Cell(QUIET, "0" if value == 0 else f"{value}", FAINT, QUIET)
            head = int(owners[i, row, column])
            fill = PAPER if head < 0 else tint(head_color(head), 0.3)
            fill = weight_color(value, head) if are_weights else fill
            return Cell(fill, f"{value:.{digits}f}", text_color(fill), QUIET)

        items += grid(x, y, block, look, wide, VALUE_HEIGHT, words)
    said_wide = max(text_width(line, bold=True) for line in lines) + 24
    right = max(across * (width + LABEL) + (12 if most == ACROSS else 0), said_wide)
    bottom = top + math.ceil(num_blocks / across) * (height + 44)
    tokens, names = (
        [f"{what} {i}" for i in range(n)]
        for what, n in (("token", num_columns), ("Head", num_blocks))
    )
    said = f" {say_maps(values, hidden, tokens, names)}" if are_weights else ""
    return Scene(right, bottom - 36, f"{title}.{said}", tuple(items))


def _digits(values: Tensor) -> int:
    """Return how many decimals numbers have: none if they are whole, fewer if one is large."""
    if values.equal(values.round()):
        return 0
    return 1 if (values.isfinite() & (values.abs() >= 100)).any() else 2


def _owners(values: Tensor, dims: Sequence[str], num_heads: int) -> Tensor:
    """Return for each entry the head that it belongs to, or -1."""
    owners = torch.full(values.shape, -1)
    for axis, dim in enumerate(dims):
        if dim.startswith("num_heads"):  # alone, or times the columns of each
            size = values.shape[axis]
            heads = torch.arange(size) // (size // num_heads)
            owners[:] = heads.view([-1 if i == axis else 1 for i in range(3)])
    return owners
