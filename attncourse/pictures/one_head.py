"""One head at the last word: from the words' numbers to what is added to the word."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from attncourse.pictures.cells import Cell, grid
from attncourse.pictures.palette import FAINT, INK, QUIET, head_color, signed_color, text_color
from attncourse.pictures.scene import BOOK, Box, Item, Scene, Words
from attncourse.pictures.seen import say_number

WIDE, TALL = 41.0, 25.0  # of a cell
TOP, FIRST = 48.0, 70.0  # where the rows begin, and the first column
STRONGEST = 7.0  # a number of this size has the strongest color


class Head(Protocol):
    """What a head of a small model did in a text; learning.mini.Reading is one.

    Of n tokens: x is (n, width); queries, keys and values are (n, head_dim); scores and weights
    (n, n). Of the last token: numbers, (head_dim), is what the head hands over, after, (width), is
    x and what the head writes.
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


def head_picture(head: Head) -> Scene:
    """Draw the way of the last token through a head: x, query, keys, weights, values, x again.

    Returns:
        A Scene. Above, a row for each token: its x, what the head makes of it, and where the last
        one looks. Below, the mixture of the values, and x of the last token before and after.
    """
    count, last = len(head.tokens), head.tokens[-1]
    items: list[Item] = [
        Words(FIRST - 10, TOP + (i + 0.5) * TALL, token, "end", bold=i == count - 1)
        for i, token in enumerate(head.tokens)
    ]
    lefts, left = {}, FIRST
    for name, table in (
        ("x", head.x),
        ("query", head.queries),
        ("key", head.keys),
        ("value", head.values),
        ("score", head.scores[-1][:, None]),
    ):
        shown = table if name != "query" else table[-1:]
        down = 0 if name != "query" else count - 1
        items += _table(left, TOP + down * TALL, shown)
        items.append(Words(left + table.shape[1] * WIDE / 2, TOP - 14, name, bold=True))
        lefts[name] = left
        left += table.shape[1] * WIDE + 16
    items.append(
        Words(lefts["query"] + WIDE, TOP + (count - 1.5) * TALL, f"of {last}", color=FAINT)
    )
    items += _bars(left, head.weights[-1])
    floor = TOP + count * TALL + 44
    items += _table(lefts["value"], floor, head.numbers[None])
    items.append(Words(lefts["value"] + WIDE, floor - 14, "mixture", bold=True))
    said = "weights × values"
    items.append(Words(lefts["score"] - 4, floor + TALL / 2, said, "start", FAINT))
    below, wide = floor + TALL + 44, 4 * WIDE
    parts = {
        f"x of {last}, before": head.x[-1],
        "what the head writes": head.after - head.x[-1],
        f"x of {last}, after": head.after,
    }
    for i, (name, row) in enumerate(parts.items()):
        x = FIRST + i * (wide + 44)
        items += _table(x, below, row[None])
        items.append(Words(x + wide / 2, below - 14, name, bold=True))
        if i:
            items.append(Words(x - 22, below + TALL / 2, "+="[i - 1], size=16.0, bold=True))
    weights = ", ".join(
        f"{token} {say_number(weight)}"
        for token, weight in zip(head.tokens, head.weights[-1].tolist(), strict=True)
    )
    alt = (
        f"The head at {last}. A row for each word: its x, its key and its value; the query of "
        f"{last}; its scores; its weights: {weights}. The mixture of the values becomes what the "
        f"head writes, and that is added to x of {last}."
    )
    return Scene(BOOK, below + TALL + 6, alt, tuple(items))


def _table(left: float, top: float, table: Tensor) -> list[Item]:
    """Return numbers in cells, blue above 0 and red below it."""

    def look(value: float, *_place: int) -> Cell:
        fill = signed_color(min(max(value, -STRONGEST), STRONGEST), STRONGEST)
        said = format(value, ".1f")
        said = "0.0" if said == "-0.0" else said.replace("-", "−")
        return Cell(fill, said, text_color(fill), QUIET, edge=0.5)

    return [*grid(left, top, table, look, WIDE, TALL, Words(WIDE / 2, TALL / 2, ""))]


def _bars(left: float, weights: Tensor) -> list[Item]:
    """Return a row of attention weights, downwards, as bars from 0 to 1."""
    wide = BOOK - left - 42
    items: list[Item] = [Words(left, TOP - 14, "weight", "start", bold=True)]
    for i, weight in enumerate(weights.tolist()):
        y = TOP + i * TALL
        items.append(Box(left, y + 5, wide, TALL - 10, QUIET))
        items.append(Box(left, y + 5, wide * weight, TALL - 10, head_color(0)))
        items.append(Words(left + wide + 6, y + TALL / 2, f"{weight:.2f}", "start", INK))
    return items
