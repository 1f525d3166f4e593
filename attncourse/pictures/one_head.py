"""One head at the last token: from the tokens' numbers to what is added to the last one."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from attncourse.pictures.alt_text import format_number
from attncourse.pictures.cells import Cell, grid
from attncourse.pictures.palette import FAINT, QUIET, head_color, signed_color, text_color
from attncourse.pictures.scene import PAGE_WIDTH, Box, Item, Scene, Text

WIDE, TALL = 41.0, 25.0  # of a cell
TOP, FIRST = 48.0, 70.0  # where the rows begin, and the first column
STRONGEST = 7.0  # a number of this size has the strongest color


class HeadNumbers(Protocol):
    """What a head of a small model did in a text; learning.mini.Reading is one.

    Of n tokens: x is (n, width); queries, keys and values are (n, head_dim); scores and weights
    (n, n). Of the last token: numbers, (head_dim), is the head's output, after, (width), is x and
    what the head adds to it.
    """

    tokens: tuple[str, ...]
    x: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor
    scores: Tensor
    weights: Tensor
    numbers: Tensor
    after: Tensor


def head_picture(head: HeadNumbers) -> Scene:
    """Draw how a head computes its output for the last token, and adds it to that token's x.

    Returns:
        A Scene. Above, a row for each token: its x, key, value, score and weight; the query of the
        last token. Below, the mixture of the values, and x of the last token before and after.
    """
    count, last, x = len(head.tokens), head.tokens[-1], head.x[-1]
    items: list[Item] = [
        Text(FIRST - 10, TOP + (i + 0.5) * TALL, token, "end", bold=i == count - 1)
        for i, token in enumerate(head.tokens)
    ]
    queries, scores, left, lefts = head.queries[-1:], head.scores[-1][:, None], FIRST, {}
    columns = {"x": head.x, f"query of {last}": queries, "key": head.keys, "value": head.values}
    for name, numbers in (columns | {"score": scores}).items():
        down = TOP + (count - len(numbers)) * TALL
        items += _table(left, down, name, numbers, TOP)
        lefts[name] = left
        left += numbers.shape[1] * WIDE + 16
    items += _bars(left, head.weights[-1])
    floor = TOP + count * TALL + 44
    items += _table(lefts["value"], floor, "mixture", head.numbers[None], floor)
    said = Text(lefts["score"] - 4, floor + TALL / 2, "weights × values", "start", FAINT)
    below, wide = floor + TALL + 44, 4 * WIDE + 44
    parts = {"before": x, "what the head adds": head.after - x, "after": head.after}
    for i, (name, row) in enumerate(parts.items()):
        title = name if i == 1 else f"x of {last}, {name}"
        items += _table(FIRST + i * wide, below, title, row[None], below)
    signs = [
        Text(FIRST + i * wide - 22, below + TALL / 2, sign, size=16.0, bold=True)
        for i, sign in ((1, "+"), (2, "="))
    ]
    weights = ", ".join(
        f"{token} {format_number(weight)}"
        for token, weight in zip(head.tokens, head.weights[-1].tolist(), strict=True)
    )
    alt = (
        f"The head at {last}. A row for each word: its x, its key and its value; the query of "
        f"{last}; its scores; its weights: {weights}. The mixture of the values becomes what the "
        f"head adds to x of {last}."
    )
    return Scene(PAGE_WIDTH, below + TALL + 6, alt, (*items, said, *signs))


def _table(left: float, top: float, name: str, numbers: Tensor, title: float) -> list[Item]:
    """Return numbers in cells, blue above 0 and red below it, under their name."""

    def look(value: float, *_place: int) -> Cell:
        fill = signed_color(value, STRONGEST)
        said = f"{value:.1f}".replace("-0.0", "0.0").replace("-", "−")
        return Cell(fill, said, text_color(fill), QUIET)

    heading = Text(left + numbers.shape[1] * WIDE / 2, title - 14, name, bold=True)
    words = Text(WIDE / 2, TALL / 2, "")
    return [heading, *grid(left, top, numbers, look, WIDE, TALL, words)]


def _bars(left: float, weights: Tensor) -> list[Item]:
    """Return a row of attention weights, downwards, as bars from 0 to 1."""
    wide = PAGE_WIDTH - left - 42
    items: list[Item] = [Text(left, TOP - 14, "weight", "start", bold=True)]
    for i, weight in enumerate(weights.tolist()):
        y = TOP + i * TALL
        items.append(Box(left, y + 5, wide, TALL - 10, QUIET))
        items.append(Box(left, y + 5, wide * weight, TALL - 10, head_color(0)))
        items.append(Text(left + wide + 6, y + TALL / 2, f"{weight:.2f}", "start"))
    return items
