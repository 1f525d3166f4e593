"""Pictures of PyTorch's packed projection, and of one number for each head of a model."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from attncourse.pictures.cells import Cell, grid
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, INK, amount_color, head_color, text_color, tint
from attncourse.pictures.scene import Box, Item, Line, Scene, Words


def stacked_weights_picture(
    weight: Tensor, num_heads: int, names: Sequence[str], made: Sequence[str]
) -> Scene:
    """Draw several projections as what PyTorch stores: one matrix, one below the other.

    Args:
        weight: (len(names) * d_out, d_in); num_heads divides d_out.
        num_heads: how many heads own the rows of each part, the first head the first ones.
        names: of the parts, from top to bottom.
        made: what each part makes.
    """
    num_rows, num_columns = weight.shape
    tall, wide, left, top = 24.0, 58.0, 112.0, 30.0
    rows = num_rows // len(names)
    head_dim = rows // num_heads
    right = left + num_columns * wide

    def look(value: float, row: int, _column: int) -> Cell:
        fill = tint(head_color(row % rows // head_dim), 0.3)
        return Cell(fill, f"{round(value, 2) + 0.0:.2f}")

    title = f"in_proj_weight  ({num_rows}, {num_columns})"
    items: list[Item] = [Words(left, 12, title, "start", bold=True)]
    number = Words(wide - 6, tall / 2, "", "end", mono=True)
    items += grid(left, top, weight, look, wide, tall, number)
    for row in range(0, num_rows, head_dim):
        head, y = row % rows // head_dim, top + row * tall
        color = head_color(head)
        items.append(Box(right + 8, y + 1, 56, head_dim * tall - 2, fill=color, radius=3))
        place, ink = (right + 36, y + head_dim * tall / 2), text_color(color)
        items.append(Words(*place, f"head {head}", color=ink, bold=True))
    for part, (name, what) in enumerate(zip(names, made, strict=True)):
        y0, y1 = top + part * rows * tall, top + (part + 1) * rows * tall
        middle, start = (y0 + y1) / 2, right + 74
        brace = ((left - 6, y0 + 3), (left - 13, y0 + 3), (left - 13, y1 - 3), (left - 6, y1 - 3))
        items.append(Line(brace, INK, 1.5))
        items.append(Words(left - 20, middle, name, "end", bold=True))
        items.append(Box(left, y0, num_columns * wide, y1 - y0, stroke=INK, stroke_width=1.5))
        items.append(Line(((start, middle), (start + 26, middle)), FAINT, 1.5))
        tip = ((start + 32, middle), (start + 24, middle - 5), (start + 24, middle + 5))
        items.append(Line(tip, None, 0.0, FAINT))
        items.append(Words(start + 40, middle - 9, what, "start", bold=True))
        columns = f"columns {part * rows} to {(part + 1) * rows - 1}"
        items.append(Words(start + 40, middle + 9, columns, "start", FAINT))
    width = right + 118 + max(120.0, *(text_width(what, bold=True) for what in made))
    alt = (
        f"One matrix of {num_rows} rows and {num_columns} columns: {', '.join(names)} one below "
        f"the other, {rows} rows each, the first {head_dim} of head 0, the next of head 1. They "
        f"make {', '.join(made)}, {rows} columns of the product each."
    )
    return Scene(width, top + num_rows * tall + 4, alt, tuple(items))


def shares_picture(shares: Tensor, title: str, limit: float) -> Scene:
    """Draw one share for each head of a model, in percent: layers down, heads across.

    Args:
        shares: (num_layers, num_heads), from 0 to 1.
        title: what is shared, above the picture and in the alt text.
        limit: a larger share is framed; one that rounds to it has a decimal more.
    """
    num_layers, num_heads = shares.shape
    wide, tall, left, top = 46.0, 26.0, 74.0, 52.0

    def look(share: float, *_place: int) -> Cell:
        fill, text = amount_color(0.75 * share**2), f"{100 * share:.0f}"  # large ones must differ
        if text == f"{100 * limit:.0f}":  # a decimal more says on which side it is
            text = f"{100 * share:.1f}"
        return Cell(fill, text, text_color(fill))

    items: list[Item] = [Words(4, 12, title, "start", bold=True)]
    for h in range(num_heads):
        items.append(Words(left + (h + 0.5) * wide, top - 12, f"{h}" if h else "head 0"))
    for layer in range(num_layers):
        items.append(Words(left - 8, top + (layer + 0.5) * tall, f"layer {layer}", "end"))
    items += grid(left, top, shares, look, wide, tall, Words(wide / 2, tall / 2, ""))
    framed = (shares > limit).nonzero().tolist()
    for layer, h in framed:
        corner = (left + h * wide + 2, top + layer * tall + 2)
        items.append(Box(*corner, wide - 4, tall - 4, stroke=INK, stroke_width=2.5))
    alt = (
        f"{title}, {num_layers} layers down, {num_heads} heads across: more than "
        f"{100 * limit:.0f} in {len(framed)} of {num_layers * num_heads} heads, which are framed."
    )
    right = max(left + num_heads * wide, 4 + text_width(title, bold=True))
    return Scene(right + 4, top + num_layers * tall + 4, alt, tuple(items))
