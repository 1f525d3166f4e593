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
COLOR = head_color(0)


def softmax_picture(words: Sequence[str], scores: Tensor, weights: Tensor, query: int) -> Scene:
    """Draw one row from scores to weights: the scores, those of the future -inf, and the softmax.

    Args:
        words: the names of the keys.
        scores: (num_tokens), scaled, of one query; those of the future may be there or be -inf.
        weights: (num_tokens), after softmax: 0 for the future.
        query: the place of the query among the words.

    Returns:
        A Scene: scores as bars up and down from 0, the same with -inf where there is a future,
        weights as bars from 0 to 1, blank where it is hidden.
    """
    names = tell_apart(words)
    left, cell = 104.0, min(92.0, (BOOK - 112) / len(words))
    right, wide = left + cell * len(words), min(cell - 18, 40.0)
    finite = [0.0, *(score for score in scores.tolist() if math.isfinite(score))]
    scale = HIGH / ((max(finite) - min(finite)) or 1.0)
    zero, second = 40 + max(finite) * scale, HIGH + 82
    has_future = query < len(words) - 1
    third = second + 46 if has_future else second
    floor = third + HIGH
    items: list[Item] = [
        Words(left - 14, 40 + HIGH / 2, "scaled", "end", bold=True),
        *([Words(left - 14, second, "masked", "end", bold=True)] if has_future else []),
        Words(left - 14, third + HIGH / 2, "weights", "end", bold=True),
        Words(left - 14, third + HIGH / 2 + 17, "after softmax", "end", FAINT),
        Line(((left, zero), (right, zero)), FAINT, 1.0),
        Line(((left, floor), (right, floor)), FAINT, 1.0),
    ]
    for i, (score, weight) in enumerate(zip(scores.tolist(), weights.tolist(), strict=True)):
        x, future, said = left + (i + 0.5) * cell, i > query, f"{score:.2f}".replace("-", "−")
        items.append(Words(x, 10, names[i], bold=i == query))
        if math.isfinite(score):
            y, high = min(zero, zero - score * scale), abs(score) * scale
            items.append(Box(x - wide / 2, y, wide, high, QUIET if future else COLOR))
            beyond = y - 10 if score >= 0 else y + high + 10
            items.append(Words(x, beyond, said, color=FAINT if future else INK))
        if future:  # there the weight is exactly 0, and nothing is drawn
            items.append(Box(x - cell / 2 + 2, second - 14, cell - 4, 28, QUIET))
        if has_future:
            items.append(Words(x, second, "−inf" if future else said))
        if not future:
            items.append(Box(x - wide / 2, floor - HIGH * weight, wide, HIGH * weight, COLOR))
            items.append(Words(x, floor - HIGH * weight - 10, f"{weight:.2f}"))
    order = sorted(range(query + 1), key=lambda i: -weights[i].item())
    told = ", ".join(f"{names[i]} {say_number(weights[i].item())}" for i in order)
    future_names = ", ".join(names[query + 1 :])
    alt = f"The row of {names[query]}, from scores to weights. "
    alt += f"{future_names}: the score becomes −inf, the weight 0. " if future_names else ""
    alt += f"The weights, which sum to 1: {told}."
    return Scene(right + 8, floor + 8, alt, tuple(items))


def small_bars_picture(rows: Mapping[str, Mapping[str, Tensor]]) -> Scene:
    """Draw small bar charts in a grid, all on one axis from 0 to 1.

    Args:
        rows: by the name of a row, by the name of a column, weights (num_keys), such as the
            softmax of one query at several widths, with and without the scale.

    Returns:
        A Scene: a chart for each entry, under its column's name and the largest weight.
    """
    columns = list(next(iter(rows.values())))
    left = max(text_width(name, bold=True) for name in rows) + 12
    step, top, tall = (BOOK - left - 4) / len(columns), 26.0, HIGH + 36
    items: list[Item] = [
        Words(left + (column + 0.5) * step - 6, 10, name, bold=True)
        for column, name in enumerate(columns)
    ]
    said = []
    for r, (row, charts) in enumerate(rows.items()):
        floor = top + r * tall + HIGH + 20
        items.append(Words(left - 10, floor - HIGH / 2, row, "end", bold=True))
        largest = []
        for column, (name, weights) in enumerate(charts.items()):
            x, bar = left + column * step, (step - 12) / len(weights)
            items.append(Box(x, floor - HIGH, step - 12, HIGH, QUIET))
            for i, weight in enumerate(weights.tolist()):
                high = HIGH * weight
                items.append(Box(x + i * bar + 1, floor - high, bar - 2, high, COLOR))
            most, key = weights.max().item(), int(weights.argmax())
            said_there = f"largest {most:.2f}"
            items.append(Words(x + (step - 12) / 2, floor - HIGH - 10, said_there, color=FAINT))
            largest.append(f"{name}: key {key + 1} {say_number(most)}")
        said.append(f"{row}: largest weight at {', '.join(largest)}.")
    bottom = top + (len(rows) - 1) * tall + HIGH + 28
    return Scene(BOOK, bottom, f"Bars from 0 to 1. {' '.join(said)}", tuple(items))


def muted_picture(left: Tensor, before: float, word: str) -> Scene:
    """Draw what muting each head of a model in turn leaves of a word's probability.

    Args:
        left: (num_layers, num_heads), from 0 to 1.
        before: what it is when no head is muted, a dashed line.
        word: which one.

    Returns:
        A Scene: from the line a bar for each head, in the order of the layers, down to what is
        left, or up; the one that reaches lowest has its name.
    """
    num_layers, num_heads = left.shape
    lowest = divmod(int(left.argmin()), num_heads)
    start, high, top = 40.0, 150.0, 34.0
    wide = (BOOK - start - 4) / left.numel()
    items: list[Item] = [
        Words(0, 10, f"probability of {word}, each head muted in turn", "start", bold=True)
    ]
    for i, share in enumerate(left.flatten().tolist()):
        x = start + i * wide
        hue = 1 if divmod(i, num_heads) == lowest else 0
        y = top + high * (1 - max(share, before))
        items.append(Box(x, y, wide - 0.3, high * abs(share - before), head_color(hue)))
    for share in (0.0, 0.5, 1.0):
        items.append(Words(start - 8, top + high * (1 - share), f"{share:g}", "end"))
    for layer in (*range(0, num_layers, 5), num_layers - 1):
        middle = start + (layer + 0.5) * num_heads * wide
        items.append(Words(middle, top + high + 14, f"layer {layer}" if not layer else str(layer)))
    y = top + high * (1 - before)
    items.append(Line(((start, y), (BOOK, y)), INK, 1.2, dashed=True))
    items.append(Words(BOOK, 10, f"dashed, none muted: {before:.2f}", "end"))
    x = start + (lowest[0] * num_heads + lowest[1] + 0.5) * wide
    least = left.min().item()
    name = f"L{lowest[0]}H{lowest[1]}"
    items.append(Words(x - 6, top + high * (1 - least), f"{name}: {least:.2f}", "end", bold=True))
    alt = (
        f"A bar for each of {left.numel()} heads: the probability of {word} when it is muted. None "
        f"muted: {say_number(before)}. The lowest is {name}: {say_number(least)}."
    )
    return Scene(BOOK, top + high + 26, alt, tuple(items))
