"""Two losses of each of several models, on one line each."""

from __future__ import annotations

import math
from collections.abc import Mapping

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, PAPER, QUIET, head_color
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words


def two_losses_picture(
    losses: Mapping[str, tuple[float, float] | str],
    names: tuple[str, str],
    marks: Mapping[str, float],
) -> Scene:
    """Draw two losses of each of several models on one line: a dot, and a ring around it or apart.

    Args:
        losses: by name of the model two finite losses, or a word for why there are none.
        names: what the first and the second are.
        marks: by name, losses drawn as dashed lines.

    Returns:
        A Scene: the first model, then the others by their first loss, then those without a loss.
        Its alt text says which models lie where.

    >>> two_losses_picture({"a": (1.0, 2.0)}, ("then", "now"), {"floor": 0.5}).alt
    'For each of 1 models then and now. a: 1.0 and 2.0.'
    """
    pairs = {name: pair for name, pair in losses.items() if not isinstance(pair, str)}
    left = 16 + max(text_width(name) for name in losses)
    top, row = 58.0, 22.0
    right = BOOK - 24
    largest = max(*(max(pair) for pair in pairs.values()), *marks.values())
    first, *others = losses  # the first model stays the first, those without a loss are the last
    others.sort(key=lambda name: pairs[name][0] if name in pairs else math.inf)
    losses = {name: losses[name] for name in (first, *others)}
    bottom = top + row * len(pairs)

    def place(loss: float) -> float:
        return round(left + (right - left) * loss / (1.04 * largest), 2)

    items: list[Item] = []
    for name, loss in marks.items():
        x = place(loss)
        items.append(Line(((x, top - 12), (x, bottom)), FAINT, 1.5, dashed=True))
        items.append(Words(x, top - 22, f"{name} {loss:.2f}", color=FAINT))
    for loss in range(int(largest) + 1):
        items.append(Words(place(loss), bottom + 14, str(loss)))
    items.append(Words(left - 10, bottom + 14, "loss", "end"))
    for k, name in enumerate(names):
        x = left + k * 190
        items.append(_dot(k, x + 6, 10))
        items.append(Words(x + 18, 10, name, "start"))
    for i, (name, pair) in enumerate(losses.items()):
        y = top + (i + 0.5) * row + (0.0 if name in pairs else 32.0)  # below the scale
        items.append(Words(left - 10, y, name, "end"))
        if isinstance(pair, str):
            items.append(Words(left, y, pair, "start", FAINT))
            continue
        items.append(Line(((place(0), y), (right, y)), QUIET, 1.0))
        items.append(Line(((place(pair[0]), y), (place(pair[1]), y)), FAINT, 1.5))
        items += [_dot(k, place(pair[k]), y) for k in (1, 0)]
    told = "; ".join(
        f"{name}: {pair}" if isinstance(pair, str) else f"{name}: {pair[0]:.1f} and {pair[1]:.1f}"
        for name, pair in losses.items()
    )
    alt = f"For each of {len(losses)} models {names[0]} and {names[1]}. {told}."
    words = len(losses) - len(pairs)
    return Scene(BOOK, bottom + 26 + (words and 8 + row * words), alt, tuple(items))


def _dot(k: int, x: float, y: float) -> Box:
    """Return the first loss as a dot, the second as a ring that shows around it."""
    color = head_color((0, 4)[k])
    size, fill = ((10.0, color), (17.0, PAPER))[k]
    return Box(x - size / 2, y - size / 2, size, size, fill, color, 2.0, radius=size / 2)
