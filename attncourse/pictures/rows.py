"""Rows of numbers as bars: one query from scores to weights, and softmax at several widths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, INK, QUIET, head_color
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words
from attncourse.pictures.seen import say_number, tell_apart

HIGH = 84.0  # of the tallest bar


def softmax_picture(
    words: Sequence[str], scores: Tensor, weights: Tensor, query: int, hue: int = 0
) -> Scene:
    """Draw one row from scores to weights: the scores, those of the future -inf, and the softmax.

    Args:
        words: the names of the keys.
        scores: (num_tokens), scaled, of one query; those of the future may be there or be -inf.
        weights: (num_tokens), after softmax: 0 for the future.
        query: the place of the query among the words.
        hue: the head, counted from 0, that gives the color.

    Returns:
        A Scene: scores as bars up and down from 0, the same with -inf, weights as bars from 0 to 1,
        blank where the future is hidden.
    """
    names, color = tell_apart(words), head_color(hue)
    left, cell = 104.0, min(92.0, (BOOK - 112) / len(words))
    finite = [score for score in scores.tolist() if math.isfinite(score)]
    low, high = min(0.0, *finite), max(0.0, *finite)
    scale = HIGH / ((high - low) or 1.0)
    items: list[Item] = []
    zero = 40 + high * scale
    bottom = 40 + HIGH
    second, third = bottom + 42, bottom + 88
    floor = third + HIGH
    steps = (("scaled", 40 + HIGH / 2), ("masked", second), ("weights", third + HIGH / 2))
    for name, y in steps:
        items.append(Words(left - 14, y, name, "end", bold=True))
    items.append(Words(left - 14, third + HIGH / 2 + 17, "after softmax", "end", FAINT))
    items.append(Line(((left, zero), (left + cell * len(words), zero)), FAINT, 1.0))
    items.append(Line(((left, floor), (left + cell * len(words), floor)), FAINT, 1.0))
    for i, (name, score, weight) in enumerate(
        zip(names, scores.tolist(), weights.tolist(), strict=True)
    ):
        x, wide = left + (i + 0.5) * cell, min(cell - 18, 40.0)
        future, said = i > query, f"{score:.2f}".replace("-", "−")
        items.append(Words(x, 10, name, bold=i == query))
        if math.isfinite(score):
            y = min(zero, zero - score * scale)
            fill = QUIET if future else color
            items.append(Box(x - wide / 2, y, wide, abs(score) * scale, fill))
            beyond = y - 10 if score >= 0 else y + abs(score) * scale + 10
            items.append(Words(x, beyond, said, color=FAINT if future else INK))
        if future:
            items.append(Box(x - cell / 2 + 2, second - 14, cell - 4, 28, QUIET))
        items.append(Words(x, second, "−inf" if future else said))
        if not future:  # there the weight is exactly 0, and nothing is drawn
            items.append(Box(x - wide / 2, floor - HIGH * weight, wide, HIGH * weight, color))
            items.append(Words(x, floor - HIGH * weight - 10, f"{weight:.2f}"))
    order = sorted(range(query + 1), key=lambda i: -weights[i].item())
    told = ", ".join(f"{names[i]} {say_number(weights[i].item())}" for i in order)
    future_names = ", ".join(names[query + 1 :])
    alt = f"The row of {names[query]}, from scores to weights. "
    alt += f"{future_names}: the score becomes −inf, the weight 0. " if future_names else ""
    alt += f"The weights, which sum to 1: {told}."
    return Scene(left + cell * len(words) + 8, floor + 8, alt, tuple(items))


def small_bars_picture(
    rows: Mapping[str, Mapping[str, Tensor]], words: Sequence[str] = (), hue: int = 0
) -> Scene:
    """Draw small bar charts in a grid, all on one axis from 0 to 1.

    Args:
        rows: by the name of a row, by the name of a column, weights (num_keys), such as the
            softmax of one query at several widths, with and without the scale.
        words: the names of the keys, for the alt text. None given: key 1, key 2 and so on.
        hue: the head, counted from 0, that gives the color.

    Returns:
        A Scene: a chart for each entry, under its column's name and the largest weight.
    """
    color = head_color(hue)
    columns = list(next(iter(rows.values())))
    left = max(text_width(name, bold=True) for name in rows) + 12
    step = (BOOK - left - 4) / len(columns)
    top, tall = 26.0, HIGH + 36
    items: list[Item] = []
    said = []
    for column, name in enumerate(columns):
        items.append(Words(left + (column + 0.5) * step - 6, 10, name, bold=True))
    for r, (row, charts) in enumerate(rows.items()):
        floor = top + r * tall + HIGH + 20
        items.append(Words(left - 10, floor - HIGH / 2, row, "end", bold=True))
        largest = []
        for column, (name, weights) in enumerate(charts.items()):
            x, numbers = left + column * step, weights.tolist()
            bar = (step - 12) / len(numbers)
            items.append(Box(x, floor - HIGH, step - 12, HIGH, QUIET))
            for i, weight in enumerate(numbers):
                place = (x + i * bar + 1, floor - HIGH * weight, bar - 2, HIGH * weight)
                items.append(Box(*place, color))
            first = max(range(len(numbers)), key=numbers.__getitem__)
            most = f"largest {numbers[first]:.2f}"
            items.append(Words(x + (step - 12) / 2, floor - HIGH - 10, most, color=FAINT))
            key = words[first].strip() if words else f"key {first + 1}"
            largest.append(f"{name}: {key} {say_number(numbers[first])}")
        said.append(f"{row}: largest weight at {', '.join(largest)}.")
    bottom = top + (len(rows) - 1) * tall + HIGH + 28
    return Scene(BOOK, bottom, f"Bars from 0 to 1. {' '.join(said)}", tuple(items))
