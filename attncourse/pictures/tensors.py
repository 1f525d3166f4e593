"""Pictures of tensors: attention weights, matrices, tensors of any rank; and of source code.

In a map of attention weights queries go down and keys go across, the names of the keys on top. A
weight has the color of its head, the stronger the larger; 0 is white. What a query may not see is
flat gray. A hatched cell has no value: it is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.pictures.letters import SIZE, text_width
from attncourse.pictures.palette import (
    FAINT,
    INK,
    PAPER,
    QUIET,
    amount_color,
    head_color,
    on_white,
    strength_color,
    text_color,
    tint,
    weight_color,
)
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words, moved
from attncourse.pictures.seen import largest_weights, number, told_apart

LABEL = 72.0  # room for the names of rows, in pixels
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
                items += moved([number._replace(text=text, color=ink)], x, y)
    return items


def head_tag(x: float, y: float, width: float, head: int, name: str = "") -> list[Item]:
    """Return a strip in the color of a head, counted from 0, with its name or its number."""
    color = head_color(head)
    text = name or f"head {head}"
    if not name and text_width(text, bold=True) > width - 2:
        text = f"{head}"
    words = Words(x + width / 2, y + 9, text, color=text_color(color), bold=True)
    return [Box(x, y, width, 18, fill=color), words]


def _titled(
    title: str, items: Sequence[Item], left: float, right: float, bottom: float, alt: str
) -> Scene:
    """Return items under a title that begins where they do, at left."""
    heading = Words(left, 10, title, "start", bold=True)
    return Scene(_width(left, right, title), bottom + 4, alt, (heading, *items))


def _width(left: float, right: float, title: str) -> float:
    """Return the width of a sheet with room for a body that ends at right, and for a title."""
    return max(right, left + text_width(title, bold=True)) + 4


# Attention weights


def weights_picture(
    attn_weights: Tensor,
    tokens: Sequence[str],
    is_hidden: Tensor | None = None,
    cell: float = 40.0,
    title: str = "attention weights",
    row_notes: Sequence[str] = (),
    columns: int | None = None,
    names: Sequence[str] = (),
    hues: Sequence[int] | None = None,
    marked: Tensor | None = None,
    upright: bool = False,
    sums: bool = False,
) -> Scene:
    """Draw the weights of one head or of several, side by side, on one scale from 0 to 1.

    Args:
        attn_weights: (num_tokens, num_tokens) or (num_heads, num_tokens, num_tokens).
        tokens: the names of the tokens.
        is_hidden: bool, as attn_weights or (num_tokens, num_tokens): these cells are flat gray.
            None: no cell is.
        cell: pixels per cell; the values are written in from 34 pixels on.
        title: what is drawn, for the alt text and, with a single head, above it.
        row_notes: words to the right of each row of the last map, such as the row's sum.
        columns: so many heads stand beside each other. None: as many as a page is wide.
        names: of the heads. None given: head 0, head 1 and so on.
        hues: whose color each head has, counted from 0. None: its own.
        marked: bool, as attn_weights or (num_tokens, num_tokens): these cells are framed in red.
        upright: whether long names of keys stand upright, for cells too small for slanting ones.
        sums: whether each row has its sum beside it, and each hidden cell a 0; the heads are then
            drawn on the scale of the first one's color.

    Returns:
        A Scene; each of several heads stands under a strip in its own color. A weight above 1,
        which no scale from 0 to 1 has, has the strongest color and a frame, inside a red one.
    """
    single = attn_weights.ndim == 2
    heads = attn_weights[None] if single else attn_weights  # (num_heads, num_tokens, num_tokens)
    hidden = heads.new_zeros(heads.shape, dtype=torch.bool)
    hidden = hidden if is_hidden is None else is_hidden.expand(heads.shape)
    number = Words(cell / 2, cell / 2, "") if cell >= 34 else None
    wrong = torch.zeros_like(hidden) if marked is None else marked.expand(heads.shape)
    hues = hues or range(len(heads))
    side, longest = len(tokens) * cell, max(text_width(token) for token in tokens)
    every = math.ceil((SIZE + 0.5) / cell)  # where cells are small not every token has a name
    level = longest <= cell * every or len(tokens) == 1
    rise = 0.0 if level else longest if upright else 0.71 * longest  # what the names take up
    left, top = max(longest, 56.0) + 14, 24.0 + max(rise, 18.0) + 8  # tag; names of the keys
    over = 0.0 if upright else rise  # slanting names hang over
    gap, below = max(10.0 if upright else 18.0, over - cell / 2 + 6), 18.0
    gap = max(gap, 64.0) if sums else gap
    notes = max((text_width(note, mono=True) for note in row_notes), default=-12.0) + 12
    if columns is None:
        columns = int((BOOK - left - notes - 36 + gap) // (side + gap)) or 1
        columns = math.ceil(len(heads) / math.ceil(len(heads) / columns))  # rows alike
    columns = min(len(heads), columns)
    items: list[Item] = []
    for h, weights in enumerate(heads):
        x, y = left + (h % columns) * (side + gap), (h // columns) * (top + side + below)
        if single:
            items.append(Words(x - left, y + 10, title, "start", bold=True))
        else:
            items += head_tag(x, y, side, hues[h], names[h] if names else f"head {h}")
        items += moved(_map(weights, hidden[h], wrong[h], hues[h], cell, number), x, y + top)
        if sums:
            items += moved(_sums(weights, hidden[h], cell), x + side, y + top)
            items.append(Words(x + side + 8, y + 9, "sum", "start"))
        for i, token in enumerate(tokens):
            if i % every:
                continue
            middle = (i + 0.5) * cell
            if h % columns == 0:
                items.append(Words(x - 6, y + top + middle, token, "end"))
            if level:
                items.append(Words(x + middle, y + top - 11, token))
            elif upright:
                items.append(Words(x + middle, y + top - 4, token, "start", angle=90))
            else:
                foot = (x + middle + 2, y + top - 6)
                items.append(Words(*foot, token, "start", angle=45))
        if h % columns == 0:
            items.append(Words(x - 10, y + top - 23, "key →", "end", FAINT))
            items.append(Words(x - 10, y + top - 8, "query ↓", "end", FAINT))
        for q, k in wrong[h].nonzero().tolist():
            place = (x + k * cell + 1.5, y + top + q * cell + 1.5, cell - 3, cell - 3)
            items.append(Box(*place, stroke=WRONG, stroke_width=3.0))
    width = left + columns * (side + gap) - gap + max(over - cell / 2, 48.0 if sums else 0.0)
    for i, note in enumerate(row_notes):
        middle = top + (i + 0.5) * cell
        items.append(Words(width + 8, middle, note, "start", mono=True))
    width += max(notes, 0.0)
    items += moved(_scale(hues[0] if single or sums else None, heads, side), width + 12, top)
    height = math.ceil(len(heads) / columns) * (top + side + below) - below + 6
    alt = f"{title}, queries down, keys across. {_said(heads, hidden, tokens, names)}"
    right = max(width + 52, text_width(title, bold=True) + 4 if single else 0.0)
    return Scene(right, max(height, top + SHORTEST + 10), alt, tuple(items))


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
    names = ("right", "wrong")
    hidden = torch.stack([future, future & ~leaks])  # (2, num_tokens, num_tokens)
    marked = torch.stack([torch.zeros_like(leaks), leaks])
    both = weights_picture(
        torch.stack([right, wrong]),
        tokens,
        hidden,
        cell,
        columns=2,
        names=names,
        hues=(0, 0),
        marked=marked,
        sums=True,
    )
    seen = told_apart(tokens)
    places = leaks.nonzero().tolist()
    cells = [f"{seen[q]} sees {seen[k]} ({number(wrong[q, k].item())})" for q, k in places]
    more = f", and {len(cells) - 6} more" if len(cells) > 6 else ""
    alt = f"Right and wrong weights side by side. {len(cells)} cells leak, framed in red"
    told = f": {', '.join(cells[:6])}{more}" if cells else ""
    return both.described(f"{alt}{told}.")


WRONG = "#c0002a"  # what frames a cell that must not be as it is


def _map(
    weights: Tensor, hidden: Tensor, wrong: Tensor, hue: int, cell: float, number: Words | None
) -> list[Item]:
    """Return one map, starting at the origin."""
    gone = hidden.tolist()

    def look(weight: float, q: int, k: int) -> Cell:
        return Cell(QUIET, stroke=QUIET) if gone[q][k] else _weight_cell(weight, hue)

    items = _grid(weights, look, cell, cell, number)
    for q, k in ((weights > 1 + 1e-4) & ~hidden).nonzero().tolist():
        inset = 4 if wrong[q, k] else 1  # inside the frame of what is wrong
        place = (k * cell + inset, q * cell + inset, cell - 2 * inset, cell - 2 * inset)
        items.append(Box(*place, stroke=INK, stroke_width=2.0))
    return items


def _sums(weights: Tensor, hidden: Tensor, cell: float) -> list[Item]:
    """Return the sum of each row to the right of a map that ends at the origin, and the zeros."""
    items: list[Item] = []
    for q, row in enumerate(weights):
        middle = (q + 0.5) * cell
        items.append(Words(8, middle, f"{row.sum():.2f}", "start", bold=True))
        for k in hidden[q].nonzero().flatten().tolist():
            items.append(Words((k + 0.5 - len(weights)) * cell, middle, "0", color=FAINT))
    return items


def _weight_cell(weight: float, hue: int) -> Cell:
    """Return the cell of a weight; NaN is hatched, and says so where there is room."""
    if math.isnan(weight):
        return Cell(PAPER, "NaN", stroke=QUIET, hatched=True)
    fill = weight_color(weight, hue)
    return Cell(fill, f"{weight:.2f}", text_color(fill), QUIET)


SHORTEST = 48.0  # of a scale, in pixels


def _scale(hue: int | None, heads: Tensor, side: float) -> list[Item]:
    """Return the scale of attention weights, in the color of a head, or in gray for several.

    It is as high as a map of this side.
    """
    items: list[Item] = []
    high = max(side, SHORTEST)
    for i in range(12):
        share = 1 - (i + 0.5) / 12
        fill = amount_color(share) if hue is None else weight_color(share, hue)
        items.append(Box(0, i * high / 12, 12, high / 12 + 0.5, fill))
    items.append(Box(0, 0, 12, high, None, FAINT))
    items += [Words(16, y, end, "start") for end, y in (("1", 5), ("0", high - 5))]
    if (heads > 1 + 1e-4).any():  # such a weight is framed
        items.append(Box(0, -16, 12, 12, head_color(hue or 0), INK, 2.0))
        items.append(Words(16, -10, "> 1", "start"))
    return items


def _said(heads: Tensor, hidden: Tensor, tokens: Sequence[str], names: Sequence[str]) -> str:
    """Return what is to be seen in maps of weights: where each query looks, what is 0."""
    said = []
    for h, weights in enumerate(heads):
        name = names[h] if names else f"Head {h}" if len(heads) > 1 else ""
        clause = largest_weights(weights.masked_fill(hidden[h], 0.0), tokens)
        said.append(f"{name}: {clause}." if name else f"{clause[:1].upper()}{clause[1:]}.")
    future = torch.ones_like(hidden).triu(diagonal=1)
    if hidden.any() and hidden.equal(future):
        said.append("The future, above the diagonal, is gray.")
    elif len(tokens) > 1:
        leaks = int(((heads != 0) & future & ~hidden).sum())
        said.append(f"Above the diagonal {leaks or 'no'} weights are not 0.")
    if heads[~hidden].isnan().any():
        said.append("Hatched cells are NaN.")
    return " ".join(said)


def heads_picture(
    maps: Tensor,
    chosen: tuple[int, int] | None = None,
    cell: float | None = None,
    framed: Collection[tuple[int, int]] = (),
) -> Scene:
    """Draw the maps of all heads as one picture: a row for each layer, a column for each head.

    Args:
        maps: (num_layers, num_heads, num_tokens, num_tokens).
        chosen: the layer and the head that have a thick frame, counted from 0.
        cell: pixels per weight; what lies above the diagonal is flat gray. None: as wide as a page.
        framed: layers and heads that have a thin frame.

    Returns:
        A Scene; the color of a head is in the bar above its column. In all maps the same weight is
        the same gray, so that heads can be compared.
    """
    num_layers, num_heads, num_tokens, _ = maps.shape
    left, top = 68.0, 46.0  # names of the layers; title and numbers of the heads
    if cell is None:
        cell = min(8.0, round(((BOOK - left - 8) / num_heads - 6) / num_tokens, 2))
    side = num_tokens * cell
    step = side + 6
    items: list[Item] = []
    for h in range(num_heads):
        x = left + h * step
        items.append(Words(x + side / 2, 28, f"{h}"))
        items.append(Line(((x, 40), (x + side, 40)), head_color(h), 4))
    for layer, heads in enumerate(maps.tolist()):
        y = top + layer * step
        items.append(Words(left - 6, y + side / 2, f"layer {layer}", "end"))
        for h, weights in enumerate(heads):
            x = left + h * step
            items.append(Box(x, y, side, side, fill=QUIET))
            for q, row in enumerate(weights):
                for k, weight in enumerate(row[: q + 1]):
                    place = (round(x + k * cell, 2), round(y + q * cell, 2), cell, cell)
                    items.append(Box(*place, fill=strength_color(weight)))
    title = f"all {num_layers * num_heads} heads"
    before = maps.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=-1) if num_tokens > 1 else maps
    sink = maps[:, :, 1:, 0].mean(dim=-1)  # (num_layers, num_heads)
    alt = f"{title}: {num_layers} layers (down) by {num_heads} heads (across)."
    if num_tokens > 1:
        layer, head = divmod(int(before.argmax()), num_heads)
        alt += (
            f" Most weight on the token before: layer {layer}, head {head}, with "
            f"{number(before.max().item())}. More than 0.9 of the weight on the first token: "
            f"{int((sink > 0.9).sum())} heads."
        )
    for layer, head in framed:
        corner = (left + head * step - 2, top + layer * step - 2)
        items.append(Box(*corner, side + 4, side + 4, stroke=INK, stroke_width=1.5))
    if framed:
        alt += f" Framed: {', '.join(f'{layer}.{head}' for layer, head in framed)}."
    if chosen is not None:
        layer, head = chosen
        corner = (left + head * step - 2, top + layer * step - 2)
        items.append(Box(*corner, side + 4, side + 4, stroke=INK, stroke_width=2.5))
        alt += f" Layer {layer}, head {head} is framed."
    return _titled(title, items, left, left + num_heads * step, top + num_layers * step, alt)


# Matrices


def matrix_picture(
    matrix: Tensor,
    rows: Sequence[str],
    column_heads: Sequence[int] | None = None,
    title: str = "",
    digits: int = 4,
    names: Sequence[str] = (),
) -> Scene:
    """Draw a matrix with its values written in, each column in the color of its head.

    Where columns have heads they have their numbers too, counted from 0.

    Args:
        matrix: (num_rows, num_columns).
        rows: the names of the rows.
        column_heads: for each column its head, counted from 0. None: no heads.
        title: what is drawn, above the matrix and in the alt text.
        digits: decimals of the values.
        names: of the heads. None given: head 0, head 1 and so on.
    """
    num_rows, num_columns = matrix.shape
    width, height, top = 30.0 + 8.0 * digits, 24.0, TOP
    fills = [QUIET] * num_columns
    items: list[Item] = []
    if column_heads is not None:
        fills = [tint(head_color(head), 0.22) for head in column_heads]
        for head in sorted(set(column_heads)):
            owned = [c for c, owner in enumerate(column_heads) if owner == head]
            place, name = LABEL + owned[0] * width + 1, names[head] if names else ""
            items += head_tag(place, top, len(owned) * width - 2, head, name)
        for column in range(num_columns):
            middle = LABEL + (column + 0.5) * width
            items.append(Words(middle, top + 28, str(column), color=FAINT, mono=True))
        top += 38

    def look(value: float, _row: int, column: int) -> Cell:
        return Cell(fills[column], f"{value:.{digits}f}", text_color(fills[column]))

    number = Words(width - 5, height / 2, "", "end", mono=True)
    row_names = [Words(-6, height / 2, name, "end") for name in rows]
    items += moved(_grid(matrix, look, width, height, number, row_names), LABEL, top)
    alt = f"{title}: {num_rows} rows by {num_columns} columns."
    if column_heads is not None:
        counts = [(head, column_heads.count(head)) for head in sorted(set(column_heads))]
        called = [(names[head] if names else f"head {head}", n) for head, n in counts]
        alt += f" Columns: {', '.join(f'{n} of {name}' for name, n in called)}."
    right, bottom = LABEL + num_columns * width, top + num_rows * height
    return _titled(title, items, LABEL, right, bottom, alt)


def difference_picture(
    difference: Tensor, rows: Sequence[str], title: str, changed: int | None = None
) -> Scene:
    """Draw how far each number moved: exact zeros are white cells, all others colored.

    Args:
        difference: (num_rows, num_columns), the absolute differences; NaN is hatched.
        rows: the names of the rows.
        title: what is drawn, above the picture and in the alt text.
        changed: the row whose input was changed, if any: it is marked.
    """
    width, height, left = 54.0, 26.0, 84.0
    num_rows, num_columns = difference.shape
    largest = difference.nan_to_num(0.0).max().item()
    look = partial(_difference_cell, largest)
    number = Words(width / 2, height / 2, "", mono=True)
    names = [Words(-6, height / 2, name, "end") for name in rows]
    if changed is not None:
        names[changed] = names[changed]._replace(text=f"changed: {rows[changed]}", bold=True)
    left = max(left, *(text_width(name.text, bold=name.bold) + 12 for name in names))
    items = moved(_grid(difference, look, width, height, number, names), left, TOP)
    still = [name for name, row in zip(rows, difference.tolist(), strict=True) if not any(row)]
    alt = f"{title}: {len(still)} of {num_rows} rows did not move at all"
    alt += f" ({', '.join(still)})." if 0 < len(still) < num_rows else "."
    right, bottom = left + num_columns * width, TOP + num_rows * height
    return _titled(title, items, left, right, bottom, alt)


def _difference_cell(largest: float, value: float, *_place: int) -> Cell:
    """Return the cell of a difference; a tiny one has a color too, because it is not zero."""
    if math.isnan(value):
        return Cell(PAPER, "NaN", stroke=QUIET, hatched=True)
    if value == 0:
        return Cell(amount_color(0.0), "0", on_white(FAINT), stroke=QUIET)
    fill = amount_color(0.15 + 0.85 * value / largest)
    text = f"{value:.3f}" if largest < 100 else f"{value:.1f}"  # as much as a cell has room for
    return Cell(fill, text, text_color(fill), stroke=QUIET)


# A tensor of any rank, and the source that makes it

VALUE_WIDTH, VALUE_HEIGHT = 56.0, 22.0
ONE_OF = {"num_heads": "head", "num_tokens": "token", "num_queries": "query", "": "row"}


def tensor_picture(
    name: str,
    values: Tensor,
    dims: Sequence[str] = (),
    num_heads: int | None = None,
    room: float = 820,
) -> Scene:
    """Draw a tensor as blocks, its first batch item only.

    Args:
        name: what the tensor is called. What is called attn_weights is colored as weights are:
            0 white, 1 the color of the head, a 0 in the future gray.
        values: 1 to 4 dimensions.
        dims: the name of each dimension, such as ("b", "num_heads", "num_tokens", "head_dim").
            Along num_heads, and along columns named num_heads * ..., cells take the color of
            their head. Without names nothing is colored. A dimension without a name has "".
        num_heads: how many heads, for columns named num_heads * ...
        room: pixels across; blocks that do not fit in it stand in a second row.

    Returns:
        A Scene: a title with the names and sizes, and a block for each index of the dimension
        that comes before the last two. Whole numbers have no decimals, others two, or one where
        they are large. A gray cell is -inf, True in a mask, or a weight on the future.
    """
    title = f"{name}: {_shape(values, dims)}"
    row_names, weights = values.ndim > 1, name == "attn_weights"
    if values.ndim == 4 or dims[:1] == ("b",) or (not dims and values.ndim == 3):
        values, dims = values[0], tuple(dims[1:])
    while values.ndim < 3:
        values = values[None]
        dims = ("", *dims) if dims else ()
    block_dim, row_dim = dims[:2] or ("", "")
    num_blocks, num_rows, num_columns = values.shape
    width, height = num_columns * VALUE_WIDTH, num_rows * VALUE_HEIGHT
    top = 48 if num_blocks > 1 else 28  # room for a heading above each block
    across = max(1, min(num_blocks, int(room // (width + LABEL))))
    whole = values.dtype == torch.bool or torch.equal(values, values.round())
    large = not whole and bool((values.isfinite() & (values.abs() >= 100)).any())
    digits = 0 if whole else 1 if large else 2
    number = Words(VALUE_WIDTH - 5, VALUE_HEIGHT / 2, "", "end", mono=True)
    items: list[Item] = [Words(16, 10, title, "start", bold=True)]
    hidden = _hidden(values, weights)
    cells = zip(values, _owners(values, dims, num_heads), hidden, strict=True)
    for i, (block, owners, gone) in enumerate(cells):
        x = LABEL + (i % across) * (width + LABEL)
        y = top + (i // across) * (height + 44)
        if num_blocks > 1:
            items.append(Words(x, y - 12, _label(block_dim, i), "start", bold=True))
        for row in range(num_rows if row_names else 0):
            middle = y + (row + 0.5) * VALUE_HEIGHT
            items.append(Words(x - 5, middle, _label(row_dim, row), "end"))
        look = partial(_value_cell, owners.tolist(), gone.tolist(), weights, digits)
        items += moved(_grid(block, look, VALUE_WIDTH, VALUE_HEIGHT, number), x, y)
    right = across * (width + LABEL) + 12
    bottom = top + math.ceil(num_blocks / across) * (height + 44)
    alt = f"{title}."
    if weights:
        alt += f" {_said(values, hidden, [f'token {i}' for i in range(num_columns)], ())}"
    right = max(right, text_width(title, bold=True) + 24)
    return Scene(right, bottom - 36, alt, tuple(items))


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


def _hidden(values: Tensor, weights: bool) -> Tensor:
    """Return for each entry whether it is gray: -inf, True, or a weight of 0 on the future."""
    if values.dtype == torch.bool:
        return values
    if weights:  # the last query sees the last key
        return (values == 0).triu(diagonal=1 + values.shape[2] - values.shape[1])
    return values == -math.inf


def _value_cell(
    owners: list[list[int]],
    hidden: list[list[bool]],
    weights: bool,
    digits: int,
    value: float,
    row: int,
    column: int,
) -> Cell:
    head = owners[row][column]
    text = str(value) if isinstance(value, int) else f"{value:.{digits}f}"  # a bool is an int
    if hidden[row][column]:
        return Cell(QUIET, "0" if value == 0 else text, FAINT, QUIET)
    if math.isnan(value):
        return Cell(PAPER, text, INK, QUIET, hatched=True)
    fill = PAPER if head < 0 else tint(head_color(head), 0.3)
    fill = weight_color(value, max(head, 0)) if weights else fill
    return Cell(fill, text, text_color(fill), QUIET)


def _label(dim: str, index: int) -> str:
    return f"{ONE_OF.get(dim, dim)} {index}"


def _shape(values: Tensor, dims: Sequence[str]) -> str:
    sizes = str(tuple(values.shape))
    names = [dim or str(size) for dim, size in zip(dims, values.shape, strict=False)]
    return f"({', '.join(names)}) = {sizes}" if any(dims) else sizes
