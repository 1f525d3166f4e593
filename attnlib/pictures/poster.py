"""Many small maps on one sheet, each with the verdicts of its checks; and losses, two for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from attnlib.pictures.letters import text_width
from attnlib.pictures.palette import (
    FAINT,
    HEAD_COLORS,
    INK,
    PAPER,
    QUIET,
    head_color,
    text_color,
    weight_color,
)
from attnlib.pictures.scene import BOOK, Box, Item, Line, Scene, Words, moved
from attnlib.pictures.tensors import WRONG

SIZE = 13.0  # of letters
CELL, GAP = 11.0, 8.0  # of a small map, and between two
DOT = 20.0
CAUGHT = HEAD_COLORS[4]


class Small(NamedTuple):
    """One of many: attention weights, and what each check says.

    Args:
        weights: (num_heads, num_tokens, num_tokens), or None where there are none.
        verdicts: by the name of a check "passes", "CAUGHT", or another word where it cannot tell.
    """

    weights: Tensor | None
    verdicts: Mapping[str, str]


def poster_picture(small: Mapping[str, Small], columns: int = 4) -> Scene:
    """Draw maps with the verdicts of their checks below, all alike, as many as there are.

    Args:
        small: by name, the weights and the verdicts.
        columns: so many stand side by side.

    Returns:
        A Scene. Queries go down and keys across, the future is flat grey, a weight in the future
        is framed in red, NaN is hatched. A dot is filled where a check caught something, empty
        where the class passed, grey where there was nothing to check, with the word for it. The
        alt text counts them.

    Raises:
        ValueError: there is none.
    """
    if not small:
        raise ValueError("small is empty: give at least one map with its verdicts")
    wide = BOOK / columns
    heads = next(each.weights for each in small.values() if each.weights is not None)
    high = 26.0 + heads.shape[-1] * CELL + 8 + DOT + 22
    items: list[Item] = []
    for i, (name, each) in enumerate(small.items()):
        x, y = (i % columns) * wide, (i // columns) * high
        items += moved(_small(name, each, heads), x, y)
    rows = -(-len(small) // columns)
    return Scene(BOOK, rows * high - 14, _counted(small), tuple(items))


def _small(name: str, each: Small, like: Tensor) -> list[Item]:
    """Return one of the maps, its name above it and its dots below, at the origin."""
    items: list[Item] = [Words(4, 9, name, SIZE, INK, "start")]
    num_heads, num_tokens, _ = like.shape
    side = num_tokens * CELL
    for h in range(num_heads):
        x = 4 + h * (side + GAP)
        if each.weights is None:
            items.append(Box(x, 22, side, side, PAPER, QUIET, hatched=True))
        else:
            items += moved(_map(each.weights[h], h), x, 22)
    for k, (check, verdict) in enumerate(each.verdicts.items()):
        x, y = 4 + k * (DOT + 6), 22 + side + 8
        caught, passes = verdict == "CAUGHT", verdict == "passes"
        fill = CAUGHT if caught else PAPER if passes else QUIET
        items.append(Box(x, y, DOT, DOT, fill, CAUGHT if caught else FAINT, 1, DOT / 2))
        ink = text_color(fill) if caught else INK
        items.append(Words(x + DOT / 2, y + DOT / 2, check[0].upper(), SIZE, ink, bold=caught))
        if not caught and not passes and k == len(each.verdicts) - 1:
            items.append(Words(x + DOT + 6, y + DOT / 2, verdict, SIZE, INK, "start"))
    return items


def _map(weights: Tensor, head: int) -> list[Item]:
    """Return the cells of one head's weights, at the origin."""
    cells: list[Item] = []
    frames: list[Item] = []
    for q, row in enumerate(weights.tolist()):
        for k, weight in enumerate(row):
            x, y = k * CELL, q * CELL
            if weight != weight:  # NaN
                cells.append(Box(x, y, CELL, CELL, PAPER, QUIET, 0.5, hatched=True))
                continue
            hidden = k > q and weight == 0
            fill = QUIET if hidden else weight_color(weight, head)
            cells.append(Box(x, y, CELL, CELL, fill, QUIET, 0.5))
            if k > q and weight:
                frames.append(Box(x + 1, y + 1, CELL - 2, CELL - 2, None, WRONG, 1.5))
    return cells + frames


def _counted(small: Mapping[str, Small]) -> str:
    checks = next(iter(small.values())).verdicts
    counts = ", ".join(
        f"{check} {sum(each.verdicts[check] == 'CAUGHT' for each in small.values())}"
        for check in checks
    )
    quiet = [
        name
        for name, each in small.items()
        if all(verdict == "passes" for verdict in each.verdicts.values())
    ]
    return (
        f"{len(small)} small maps with {len(checks)} dots each. Caught by {counts}. "
        f"Past every check: {', '.join(quiet) or 'none'}."
    )


# Two losses for each


def two_losses_picture(
    losses: Mapping[str, tuple[float, float]],
    names: tuple[str, str],
    marks: Mapping[str, float],
    hues: tuple[int, int] = (0, 4),
) -> Scene:
    """Draw two losses of each of several models as two dots on one line.

    Args:
        losses: by name of the model, two finite losses.
        names: what the first and the second are.
        marks: by name, losses drawn as dashed lines.
        hues: whose head's colour the dots have.

    Returns:
        A Scene; its alt text says which models lie where.

    Raises:
        ValueError: there are no losses.

    >>> two_losses_picture({"a": (1.0, 2.0)}, ("then", "now"), {"floor": 0.5}).alt
    'For each of 1 models then and now. a: 1.0 and 2.0.'
    """
    if not losses:
        raise ValueError("losses is empty: give at least one pair")
    left = 16 + max(text_width(name, SIZE) for name in losses)
    top, row = 58.0, 22.0
    right = BOOK - 24
    largest = max(*(max(pair) for pair in losses.values()), *marks.values())
    bottom = top + row * len(losses)

    def place(loss: float) -> float:
        return round(left + (right - left) * loss / (1.04 * largest), 2)

    items: list[Item] = []
    for name, loss in marks.items():
        x = place(loss)
        items.append(Line(((x, top - 12), (x, bottom)), FAINT, 1.5, dashed=True))
        items.append(Words(x, top - 22, f"{name} {loss:.2f}", SIZE, FAINT))
    for loss in range(int(largest) + 1):
        items.append(Words(place(loss), bottom + 14, str(loss), SIZE, INK))
    for k, name in enumerate(names):
        x = left + k * 190
        items.append(Box(x, 4, 12, 12, *_dot(k, hues), radius=6))
        items.append(Words(x + 18, 10, name, SIZE, INK, "start"))
    for i, (name, pair) in enumerate(losses.items()):
        y = top + (i + 0.5) * row
        items.append(Words(left - 10, y, name, SIZE, INK, "end"))
        items.append(Line(((place(0), y), (right, y)), QUIET, 1.0))
        items.append(Line(((place(pair[0]), y), (place(pair[1]), y)), FAINT, 1.5))
        for k in (1, 0):
            items.append(Box(place(pair[k]) - 6, y - 6, 12, 12, *_dot(k, hues), radius=6))
    told = "; ".join(f"{name}: {a:.1f} and {b:.1f}" for name, (a, b) in losses.items())
    alt = f"For each of {len(losses)} models {names[0]} and {names[1]}. {told}."
    return Scene(BOOK, bottom + 26, alt, tuple(items))


def _dot(k: int, hues: Sequence[int]) -> tuple[str, str, float]:
    """Return fill, stroke and its width: the first dot is full, the second a ring."""
    color = head_color(hues[k])
    return (color, color, 2.0) if k == 0 else (PAPER, color, 2.0)
