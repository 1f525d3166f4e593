"""Parts of several pictures: a grid of cells, and a strip with the name of a head."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import INK, PAPER, head_color, text_color
from attncourse.pictures.scene import Box, Item, Scene, Text, shift


class Cell(NamedTuple):
    """How one number is shown."""

    fill: str
    text: str = ""
    ink: str = INK
    stroke: str | None = PAPER
    hatched: bool = False
    name: str = ""


def grid(
    x: float,
    y: float,
    matrix: Tensor,
    look: Callable[[float, int, int], Cell],
    width: float,
    height: float,
    words: Text | None = None,
) -> list[Item]:
    """Return a matrix as cells from (x, y) on; look(entry, row, column) gives each cell.

    words stands where the text of a cell does, seen from its corner; None: cells have no text.
    """
    items: list[Item] = []
    for r, row in enumerate(matrix.tolist()):
        for c, value in enumerate(row):
            fill, text, ink, stroke, hatched, name = look(value, r, c)
            corner = (x + c * width, y + r * height)
            items.append(Box(*corner, width, height, fill, stroke, hatched=hatched, name=name))
            if words is not None and text:
                items += shift([words._replace(text=text, color=ink)], *corner)
    return items


def head_tag(x: float, y: float, width: float, head: int, name: str = "") -> list[Item]:
    """Return a strip in the color of a head, counted from 0, with its name or its number."""
    color = head_color(head)
    text = name or f"head {head}"
    if text_width(text, bold=True) > width - 2:
        text = text.removeprefix("head ")
    words = Text(x + width / 2, y + 9, text, color=text_color(color), bold=True)
    return [Box(x, y, width, 18, fill=color), words]


def with_title(
    title: str, items: list[Item], left: float, right: float, bottom: float, alt: str
) -> Scene:
    """Return items, which end at right and at bottom, under a title that begins at left."""
    heading = Text(left, 10, title, "start", bold=True)
    width = max(right, left + text_width(title, bold=True)) + 4
    return Scene(width, bottom + 4, alt, (heading, *items))
