"""The shape of the tensor that each line of a forward makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from torch import Tensor

from attncourse.pictures.letters import text_width, wrap
from attncourse.pictures.palette import (
    HEAD_COLORS,
    PAPER,
    QUIET,
    WRONG,
    text_color,
    tint,
)
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words

ROW, SIZE_BOX, STATEMENT, INDEX = 27.0, 32.0, 158.0, 130.0  # pixels
EDGE = 1.0  # so that a border at the edge is drawn whole
# Of sizes, the smallest first.
SIZE_COLORS = (QUIET, *(tint(HEAD_COLORS[hue], 0.45) for hue in (3, 4, 5, 2, 6)))


class Made(Protocol):
    """A tensor that a line made: a step of a trace."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def source(self) -> str: ...
    @property
    def values(self) -> Tensor: ...


def shapes_picture(
    steps: Iterable[Made],
    meanings: Mapping[int, str],
    stopped: str = "",
    followed: int | None = None,
) -> Scene:
    """Draw the shape after every line, each size as a box in a color of its own.

    Args:
        steps: of a trace, such as trace(module, x).steps.
        meanings: what each size is, the legend; sizes that are not in it are white.
        stopped: the line that raised, and why, if one did.
        followed: a number; where a tensor has it, its place stands at the end of the row.

    Returns:
        A Scene: a row for each step, its shape on the left, the statement that made it beside it.
    """
    colors = {
        size: SIZE_COLORS[place % len(SIZE_COLORS)] for place, size in enumerate(sorted(meanings))
    }
    items: list[Item] = []
    x, y = EDGE, EDGE
    for size, meaning in sorted(meanings.items()):
        wide = SIZE_BOX + 8 + text_width(meaning) + 16
        if x + wide > BOOK:
            x, y = EDGE, y + ROW
        items += _size(x, y, size, colors)
        items.append(Words(x + SIZE_BOX + 6, y + 11, meaning, "start"))
        x += wide
    y += ROW + 20
    items.append(Line(((0, y - 10), (BOOK, y - 10)), QUIET, 1.0))
    said = []
    for step in steps:
        for place, size in enumerate(step.shape):
            items += _size(EDGE + place * (SIZE_BOX + 4), y, size, colors)
        where = _where(step.values, followed)
        if where:
            items.append(Words(BOOK - 4, y + 11, where, "end", bold=True))
        lines = wrap(step.source, BOOK - STATEMENT - (INDEX if where else 0), mono=True)
        for i, line in enumerate(lines):
            items.append(Words(STATEMENT, y + 11 + i * 18, line, "start", mono=True))
        said.append(f"{step.name} {step.shape}{where and f', {where}'}")
        y += ROW + (len(lines) - 1) * 18
    if stopped:
        lines = [part for line in stopped.splitlines() for part in wrap(line, BOOK - 24)]
        items.append(Box(1, y + 4, BOOK - 2, 18.0 * len(lines) + 12, PAPER, WRONG, 2.0))
        items += [Words(12, y + 19 + i * 18, line, "start") for i, line in enumerate(lines)]
        y += 18.0 * len(lines) + 22
    alt = f"The shape after each line: {', then '.join(said)}."
    alt += f" {' '.join(stopped.split())}" if stopped else ""
    return Scene(BOOK, y, alt, tuple(items))


def _where(values: Tensor, followed: int | None) -> str:
    """Return the first place of a number, nothing where a tensor lacks it."""
    if followed is None or not values.is_floating_point():
        return ""
    found = (values.round() == followed).nonzero().tolist()
    return f"{followed} at {found[0]}" if found else ""


def _size(x: float, y: float, size: int, colors: Mapping[int, str]) -> list[Item]:
    """Return the box of one size of a shape."""
    fill = colors.get(size, PAPER)
    words = Words(x + SIZE_BOX / 2, y + 11, str(size), color=text_color(fill), bold=True)
    return [Box(x, y, SIZE_BOX, 22, fill, HEAD_COLORS[7], radius=3.0), words]
