"""Many numbers as colors alone: strips over the steps of a training, a share for each head."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from attncourse.pictures.cells import Cell, grid, head_tag, scale
from attncourse.pictures.letters import SIZE, text_width
from attncourse.pictures.palette import (
    FAINT,
    INK,
    PAPER,
    QUIET,
    amount_color,
    shades,
    text_color,
    weight_color,
)
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words, shift
from attncourse.pictures.seen import say_number

SHADES = 8  # a strip has so many, and white
ROW, BETWEEN = 2.2, 14.0  # of a strip: the height of a step; pixels to the next strip


def strips_picture(
    strips: Mapping[str, Tensor], steps: Sequence[int], hues: Sequence[int], columns: int, mark: int
) -> Scene:
    """Draw how heads grow: for each, steps of the training down and places of the text across.

    Args:
        strips: by name, shares from 0 to 1, (num_steps, num_places); NaN where there is none.
        steps: of the training, evenly spaced, one for each row.
        hues: whose color each strip has, counted from 0.
        columns: so many strips stand side by side.
        mark: a place that gets a dashed line at its right side.

    Returns:
        A Scene: the more, the stronger the color, white is 0, what has no value is hatched; the
        scale is in gray where the hues differ. The alt text says where each strip ends.

    Raises:
        ValueError: a strip does not have a row for each step, or there are not as many hues.

    >>> import torch
    >>> strips_picture({"head": torch.tensor([[0.0, 1.0], [1.0, 1.0]])}, [0, 20], [0], 1, 0).alt
    'Strips over 2 steps, down, and 2 positions, across. head: at the end 1.00.'
    """
    shapes = {tuple(strip.shape) for strip in strips.values()}
    if len(shapes) != 1 or len(hues) != len(strips) or next(iter(shapes))[0] != len(steps):
        raise ValueError(
            f"strips must have a row for each of the {len(steps)} steps and a hue each, got "
            f"{sorted(shapes)} with {len(hues)} hues"
        )
    (_, num_places), left, top = shapes.pop(), 46.0, 26.0
    right = BOOK - 30.0  # room for the scale
    wide = math.floor((right - left - (columns - 1) * BETWEEN) / columns)
    cell, high = wide / num_places, ROW * len(steps)
    down = top + high + 34
    items: list[Item] = []
    said = []
    for i, ((name, strip), hue) in enumerate(zip(strips.items(), hues, strict=True)):
        x, y = left + (i % columns) * (wide + BETWEEN), (i // columns) * down
        items += head_tag(x, y, wide, hue, name)
        items += shift(_strip(strip, hue, cell, wide, high), x, y + top)
        for place in (0, num_places // 2, num_places - 1):
            middle = x + (place + 0.5) * cell
            middle = min(max(middle, x + 4), x + wide - text_width(str(place)) / 2)
            items.append(Words(middle, y + top + high + 11, str(place), color=FAINT))
        across = x + (mark + 1) * cell
        line = ((across, y + top), (across, y + top + high))
        items.append(Line(line, FAINT, 1.0, dashed=True))
        items.append(Words(x + 0.73 * wide, y + top + high + 11, "position", color=FAINT))
        if i % columns == 0:
            items.append(Words(x - 6, y + 10, "step", "end", FAINT))
            for j in range(0, len(steps), max(len(steps) // 3, math.ceil(SIZE / ROW) + 1)):
                middle = y + top + (j + 0.5) * ROW
                items.append(Words(x - 6, middle, str(steps[j]), "end", FAINT))
        said.append(f"{name}: at the end {say_number(strip[-1].nanmean().item())}.")
    colors = shades([1 - i / SHADES for i in range(SHADES + 1)], hues)
    items += scale(right + 4, top, colors, 10, {"1": 5, "0": 10 * SHADES + 5})
    items.append(Box(right + 4, top, 12, 10 * (SHADES + 1), None, QUIET))
    rows = math.ceil(len(strips) / columns)
    sizes = f"{len(steps)} steps, down, and {num_places} positions, across"
    alt = f"Strips over {sizes}. {' '.join(said)}"
    height = max(rows * down - 12, top + 10 * (SHADES + 1) + 4)
    return Scene(BOOK, height, alt, tuple(items))


def _strip(strip: Tensor, hue: int, cell: float, wide: float, high: float) -> list[Item]:
    """Return a strip at the origin: white paper, and on it what is not 0."""
    items: list[Item] = [Box(0, 0, wide, high, PAPER)]
    for top, left, bottom, right, shade in find_patches(strip):
        place = (left * cell, top * ROW, (right - left) * cell, (bottom - top) * ROW)
        if shade:
            fill = PAPER if shade < 0 else weight_color(shade / SHADES, hue)
            items.append(Box(*place, fill, hatched=shade < 0))
    return [*items, Box(0, 0, wide, high, None, QUIET)]


Patch = tuple[int, int, int, int, int]  # top, left, bottom, right; its shade, -1: no value


def find_patches(strip: Tensor) -> list[Patch]:
    """Return a matrix of shares as few rectangles, each of one shade.

    >>> import torch
    >>> find_patches(torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    [(0, 0, 2, 1, 0), (0, 1, 2, 2, 8)]
    """
    shades = (strip.nan_to_num(-1.0 / SHADES) * SHADES).round().int().clamp(-1, SHADES).tolist()
    growing: dict[tuple[int, int, int], int] = {}  # left, right and shade, and the row of the top
    done = []
    for row in range(len(shades) + 1):
        runs = set(_runs(shades[row])) if row < len(shades) else set()
        for left, right, shade in [run for run in growing if run not in runs]:
            done.append((growing.pop((left, right, shade)), left, row, right, shade))
        for run in runs:
            growing.setdefault(run, row)
    return sorted(done)


def _runs(row: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the stretches of one shade in a row: from, to, and the shade."""
    starts = [i for i, shade in enumerate(row) if i == 0 or shade != row[i - 1]]
    return [(a, b, row[a]) for a, b in zip(starts, [*starts[1:], len(row)], strict=True)]


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
