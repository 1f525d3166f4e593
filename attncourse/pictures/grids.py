"""Many numbers as colors alone: strips of shares over the steps of a training, signed tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from attncourse.pictures.cells import head_tag
from attncourse.pictures.letters import SIZE, text_width
from attncourse.pictures.palette import (
    FAINT,
    PAPER,
    QUIET,
    amount_color,
    signed_color,
    text_color,
    weight_color,
)
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words, shift
from attncourse.pictures.seen import say_number

SHADES = 8  # a strip has so many, and white
ROW, BETWEEN = 2.2, 14.0  # of a strip: the height of a step; pixels to the next strip


class Block(NamedTuple):
    """A rectangle of a strip: rows from top to bottom, columns from left to right, one shade."""

    top: int
    left: int
    bottom: int
    right: int
    shade: int  # -1: no value


def strips_picture(
    strips: Mapping[str, Tensor],
    steps: Sequence[int],
    hues: Sequence[int],
    columns: int = 4,
    mark: int | None = None,
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
    >>> strips_picture({"head": torch.tensor([[0.0, 1.0], [1.0, 1.0]])}, [0, 20], [0]).alt
    'Strips over 2 steps, down, and 2 places, across. head: at the end 1.00.'
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
        if mark is not None:
            across = x + (mark + 1) * cell
            line = ((across, y + top), (across, y + top + high))
            items.append(Line(line, FAINT, 1.0, dashed=True))
        items.append(Words(x + 0.73 * wide, y + top + high + 11, "place", color=FAINT))
        if i % columns == 0:
            items.append(Words(x - 6, y + 10, "step", "end", FAINT))
            shown = [
                j
                for j in range(len(steps))
                if j % max(len(steps) // 3, math.ceil(SIZE / ROW) + 1) == 0
            ]
            items += [
                Words(x - 6, y + top + (j + 0.5) * ROW, str(steps[j]), "end", FAINT) for j in shown
            ]
        said.append(f"{name}: at the end {say_number(strip[-1].nanmean().item())}.")
    items += shift(_shades(hues), right + 4, top)
    rows = math.ceil(len(strips) / columns)
    alt = f"Strips over {len(steps)} steps, down, and {num_places} places, across. {' '.join(said)}"
    height = max(rows * down - 12, top + 10 * (SHADES + 1) + 4)
    return Scene(BOOK, height, alt, tuple(items))


def _shades(hues: Sequence[int]) -> list[Item]:
    """Return the scale of all shades: in the color of a hue, or in gray for several."""
    items: list[Item] = []
    for i in range(SHADES + 1):
        share = 1 - i / SHADES
        fill = weight_color(share, hues[0]) if len(set(hues)) == 1 else amount_color(share)
        items.append(Box(0, i * 10, 12, 10.5, fill))
    items.append(Box(0, 0, 12, 10 * (SHADES + 1), None, QUIET))
    ends = ("1", 5.0), ("0", 10.0 * SHADES + 5)
    return [*items, *(Words(16, down, end, "start") for end, down in ends)]


def _strip(strip: Tensor, hue: int, cell: float, wide: float, high: float) -> list[Item]:
    """Return a strip at the origin: white paper, and on it what is not 0."""
    items: list[Item] = [Box(0, 0, wide, high, PAPER)]
    for block in blocks(strip):
        if block.shade == 0:
            continue
        place = (block.left * cell, block.top * ROW)
        size = ((block.right - block.left) * cell, (block.bottom - block.top) * ROW)
        if block.shade < 0:
            items.append(Box(*place, *size, PAPER, hatched=True))
        else:
            items.append(Box(*place, *size, weight_color(block.shade / SHADES, hue)))
    return [*items, Box(0, 0, wide, high, None, QUIET)]


def blocks(strip: Tensor) -> list[Block]:
    """Return a matrix of shares as few rectangles, each of one shade.

    >>> import torch
    >>> blocks(torch.tensor([[0.0, 1.0], [0.0, 1.0]]))  # doctest: +NORMALIZE_WHITESPACE
    [Block(top=0, left=0, bottom=2, right=1, shade=0),
     Block(top=0, left=1, bottom=2, right=2, shade=8)]
    """
    shades = (strip.nan_to_num(-1.0 / SHADES) * SHADES).round().int().clamp(-1, SHADES).tolist()
    growing: dict[tuple[int, int, int], int] = {}  # left, right and shade, and the row of the top
    done = []
    for row in range(len(shades) + 1):
        runs = set(_runs(shades[row])) if row < len(shades) else set()
        for left, right, shade in [run for run in growing if run not in runs]:
            done.append(Block(growing.pop((left, right, shade)), left, row, right, shade))
        for run in runs:
            growing.setdefault(run, row)
    return sorted(done)


def _runs(row: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the stretches of one shade in a row: from, to, and the shade."""
    starts = [i for i, shade in enumerate(row) if i == 0 or shade != row[i - 1]]
    return [(a, b, row[a]) for a, b in zip(starts, [*starts[1:], len(row)], strict=True)]


def signed_picture(
    tables: Mapping[str, Tensor],
    names: Sequence[str],
    axes: tuple[str, str],
    middle: float = 0.0,
    largest: float | None = None,
    written: bool = False,
) -> Scene:
    """Draw square tables of numbers side by side: blue above the middle, red below it.

    Args:
        tables: by name, (num_names, num_names); NaN is hatched.
        names: of the rows, and of the columns.
        axes: what goes down, and what goes across.
        middle: this number is white.
        largest: so far from the middle the color is strongest. None: as far as any number is.
        written: whether the numbers stand in the cells, in hundredths, as on the scale then.

    Returns:
        A Scene; its alt text gives for each table the least and the largest number.

    Raises:
        ValueError: a table does not have a row and a column for each name.
    """
    size = len(names)
    if any(table.shape != (size, size) for table in tables.values()):
        shapes = [tuple(table.shape) for table in tables.values()]
        raise ValueError(f"tables must all be ({size}, {size}), for {size} names, got {shapes}")
    ends = max((t.nan_to_num(middle) - middle).abs().max().item() for t in tables.values())
    strongest = largest or ends
    left, top, gap = 44.0, 66.0, 26.0
    cell = (BOOK - left - 50 - (len(tables) - 1) * gap) / len(tables) / size
    cell = math.floor(min(cell, 30.0) * 4) / 4
    side = size * cell
    header = f"{axes[0]} ↓   {axes[1]} →"
    gap = max(gap, text_width(header) + 12 - side)
    items: list[Item] = []
    said = []
    for i, (name, table) in enumerate(tables.items()):
        x = left + i * (side + gap)
        items.append(Words(x, 10, name, "start", bold=True))
        items.append(Words(x, 32, header, "start", FAINT))
        for j, word in enumerate(names):
            along = (j + 0.5) * cell
            items.append(Words(x + along, top - 10, word, size=min(SIZE, cell - 1.0)))
            if i == 0:
                items.append(Words(x - 8, top + along, word, "end", size=min(SIZE, cell)))
        for row, values in enumerate(table.tolist()):
            for column, value in enumerate(values):
                place = (x + column * cell, top + row * cell, cell, cell)
                if math.isnan(value):
                    items.append(Box(*place, PAPER, QUIET, 0.5, hatched=True))
                    continue
                off = min(max(value - middle, -strongest), strongest)
                fill = signed_color(off, strongest)
                items.append(Box(*place, fill, QUIET, 0.5))
                if written:
                    at = (place[0] + cell / 2, place[1] + cell / 2)
                    items.append(
                        Words(*at, f"{100 * value:.0f}", color=text_color(fill), size=10.5)
                    )
        held = table[~table.isnan()]
        low, high = (say_number(end.item()) for end in (held.min(), held.max()))
        said.append(f"{name}: from {low} to {high}.")
    right = left + len(tables) * (side + gap) - gap
    for j in range(12):
        share = strongest * (1 - 2 * (j + 0.5) / 12)
        items.append(Box(right + 12, top + j * 8, 12, 8.5, signed_color(share, strongest)))
    for end, down in ((middle + strongest, 5.0), (middle, 48.0), (middle - strongest, 91.0)):
        said_there = f"{100 * end:.0f}" if written else f"{end:.2g}"
        items.append(Words(right + 28, top + down, said_there, "start"))
    alt = f"Tables of {size} by {size}, {axes[0]} down, {axes[1]} across. {' '.join(said)}"
    return Scene(right + 66, top + max(side, 100.0) + 8, alt, tuple(items))
