"""Pictures of matrices and tensors, their numbers written in."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from attncourse.pictures.cells import Cell, grid, head_tag, with_title
from attncourse.pictures.letters import SIZE, text_width
from attncourse.pictures.palette import (
    FAINT,
    INK,
    PAPER,
    QUIET,
    amount_color,
    head_color,
    text_color,
    tint,
)
from attncourse.pictures.scene import Box, Scene, Text, shift

LABEL = 72.0  # pixels: room for the names of rows
TOP = 24.0  # room for a title
NUMBER = 46.0  # the width of a number of two decimals with a sign
HEIGHT = 24.0  # of a number
NO_HEAD = -1


def matrix_picture(
    matrix: Tensor,
    rows: Sequence[str],
    heads: Sequence[int],
    title: str,
    wide: float = NUMBER,
    by_row: bool = False,
) -> Scene:
    """Draw a matrix with its values written in, each column in the color of its head.

    Above the columns stand their numbers, counted from 0, and above these their heads.

    Args:
        matrix: (num_rows, num_columns).
        rows: the names of the rows; none: no room is left for them.
        heads: for each column its head, counted from 0, or NO_HEAD.
        title: what is drawn, above the matrix and in the alt text.
        wide: of a cell, in pixels.
        by_row: whether heads has the head of each row instead.

    Returns:
        A Scene; the first cell is a box named "matrix".
    """
    num_rows, num_columns = matrix.shape
    left, top = LABEL if rows else 1.0, TOP + 38

    def look(value: float, row: int, column: int) -> Cell:
        head = heads[row if by_row else column]
        fill = QUIET if head == NO_HEAD else tint(head_color(head), 0.22)
        name = "" if row or column else "matrix"
        return Cell(fill, f"{value:.2f}", text_color(fill), name=name)

    size, free = (SIZE, 4.0) if wide >= NUMBER else (12.0, 3.0)
    words = Text(wide - free, HEIGHT / 2, "", "end", size=size, mono=True)
    items = grid(left, top, matrix, look, wide, HEIGHT, words)
    items += _row_names(left, top, HEIGHT, rows)
    for column in range(num_columns):
        x = left + (column + 0.5) * wide
        items.append(Text(x, TOP + 28, str(column), color=FAINT, mono=True))
    owned = {head: heads.count(head) for head in sorted({*heads} - {NO_HEAD})}
    for head, count in owned.items() if not by_row else ():
        items += head_tag(left + heads.index(head) * wide + 1, TOP, count * wide - 2, head)
    told = ", ".join(f"{count} of head {head}" for head, count in owned.items())
    alt = f"{title}: {num_rows} rows by {num_columns} columns{told and ': '}{told}."
    return with_title(title, items, left, left + num_columns * wide, top + num_rows * HEIGHT, alt)


def _row_names(x: float, y: float, height: float, names: Sequence[str]) -> list[Text]:
    return [Text(x - 6, y + (r + 0.5) * height, name, "end") for r, name in enumerate(names)]


def matmul_picture(
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
            the columns of left, and the rows of right that these meet; the product is nobody's.
    """
    result = left @ right
    num_inner, num_columns = right.shape
    split = num_inner if inner else num_columns
    owners = [i * num_heads // split for i in range(split)]
    nobody = [NO_HEAD] * max(num_inner, num_columns)
    shapes = [tuple(matrix.shape) for matrix in (left, right, result)]
    titles = [f"{name}  {shape}" for name, shape in zip(names, shapes, strict=True)]
    factor = matrix_picture(left, rows, owners if inner else nobody, titles[0])
    over = matrix_picture(right, (), owners, titles[1], by_row=inner)
    under = matrix_picture(result, (), nobody if inner else owners, titles[2])
    x, y = factor.width + 24, over.height + 16
    items = [*shift(factor.items, 0, y), *shift(over.items, x, 0), *shift(under.items, x, y)]
    firsts = [item for item in items if isinstance(item, Box) and item.name == "matrix"]
    (r, c), widths = place, [NUMBER * num_inner, NUMBER, NUMBER]
    heights = HEIGHT, HEIGHT * num_inner, HEIGHT
    offsets = (0, r), (c, 0), (c, r)
    for box, (column, row), wide, high in zip(firsts, offsets, widths, heights, strict=True):
        corner = (box.x + column * NUMBER, box.y + row * HEIGHT)
        items.append(Box(*corner, wide, high, stroke=INK, stroke_width=2.0))
    owned = f"columns of {names[0]}, rows of {names[1]}" if inner else f"columns of {names[1]}"
    alt = (
        f"A product as three matrices: {titles[0]} on the left, {titles[1]} above, and where they "
        f"meet {titles[2]}. In {num_heads} colors, one for each head: {owned}. Row {r} of "
        f"{names[0]} and column {c} of {names[1]} are framed, and the number of {names[2]} in "
        "which they meet."
    )
    return Scene(x + max(over.width, under.width), y + factor.height, alt, tuple(items))


def difference_picture(difference: Tensor, rows: Sequence[str], title: str) -> Scene:
    """Draw how far each number moved: exact zeros are white cells, all others colored.

    Args:
        difference: (num_rows, num_columns), the absolute differences; NaN is hatched.
        rows: the names of the rows.
        title: what is drawn, above the picture and in the alt text.
    """
    width, height = 35.0, 26.0
    num_rows, num_columns = difference.shape
    largest = difference.nan_to_num(0.0).max().item()

    def look(value: float, *_place: int) -> Cell:
        if math.isnan(value):
            return Cell(PAPER, "NaN", stroke=QUIET, hatched=True)
        if value == 0:
            return Cell(amount_color(0.0), "0", FAINT, QUIET)
        fill = amount_color(0.15 + 0.85 * value / largest)  # a tiny one too: it is not zero
        return Cell(fill, short_number(value), text_color(fill), QUIET)

    left = max(map(text_width, rows)) + 12
    words = Text(width / 2, height / 2, "", size=12, mono=True)
    items = grid(left, TOP, difference, look, width, height, words)
    items += _row_names(left, TOP, height, rows)
    still = [name for name, row in zip(rows, difference.tolist(), strict=True) if not any(row)]
    alt = f"{title}: {len(still)} of {num_rows} rows did not move at all"
    alt += f" ({', '.join(still)})." if 0 < len(still) < num_rows else "."
    right, bottom = left + num_columns * width, TOP + num_rows * height
    return with_title(title, items, left, right, bottom, alt)


def short_number(value: float) -> str:
    """Return a positive number in four letters at most.

    >>> [short_number(value) for value in (0.0004, 0.006, 8.488, 21.27, 640.2)]
    ['<.01', '0.01', '8.49', '21.3', '640']
    """
    if value < 0.005:
        return "<.01"
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"
