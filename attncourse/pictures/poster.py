"""Many small maps on one sheet, each with the verdicts of its checks; and losses, two for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from attncourse.pictures.cells import Cell, grid
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import (
    FAINT,
    HEAD_COLORS,
    INK,
    PAPER,
    QUIET,
    WRONG,
    head_color,
    text_color,
    weight_color,
)
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words, shift

COLUMNS = 4  # of small maps
CELL, GAP = 11.0, 8.0  # of a small map, and between two
LEGEND = 58.0  # of two lines, and the space below
DOT = 20.0
CAUGHT = HEAD_COLORS[4]


def poster_picture(maps: Mapping[str, Tensor], verdicts: Mapping[str, Mapping[str, str]]) -> Scene:
    """Draw maps with the verdicts of their checks below, all alike, as many as there are.

    Args:
        maps: by name the attention weights, (num_heads, num_tokens, num_tokens). A name that has
            verdicts and no map is hatched.
        verdicts: by name, and by the name of a check, "passes", "CAUGHT", or another word where
            it cannot tell.

    Returns:
        A Scene. A legend says what the colors are. The first name comes first, then those that
        most checks catch; those that pass everything are the last. The alt text counts them.

    Raises:
        ValueError: there is no map.
    """
    if not maps:
        raise ValueError("maps is empty: give the attention weights of at least one class")
    wide = BOOK / COLUMNS
    like = next(iter(maps.values()))
    high = 26.0 + like.shape[-1] * CELL + 8 + DOT + 22
    items = _legend(len(like), list(next(iter(verdicts.values()))))
    rows = -(-len(verdicts) // COLUMNS)
    for k in range(1, COLUMNS):  # long names would run into one another
        x = k * wide - 3
        items.append(Line(((x, LEGEND), (x, LEGEND + rows * high - 22)), QUIET))
    for i, name in enumerate(_in_order(verdicts)):
        x, y = (i % COLUMNS) * wide, LEGEND + (i // COLUMNS) * high
        items += shift(_small(name, maps.get(name), verdicts[name], like), x, y)
    return Scene(BOOK, LEGEND + rows * high - 14, _counted(verdicts), tuple(items))


def _in_order(verdicts: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the first name, then the others: what most checks catch first, what none does last."""

    def rank(name: str) -> tuple[bool, int, list[bool]]:
        missed = [verdict != "CAUGHT" for verdict in verdicts[name].values()]
        return {*verdicts[name].values()} == {"passes"}, sum(missed), missed

    first, *others = verdicts
    return [first, *sorted(others, key=rank)]


def _legend(num_heads: int, checks: Sequence[str]) -> list[Item]:
    """Return what the colors of the maps and the dots stand for, in two lines."""
    line = CELL + 10
    cell, dot = Box(0, 0, CELL, CELL, QUIET, QUIET, 0.5), Box(0, 0, CELL, CELL, radius=CELL / 2)
    of_maps = {f"head {h}": cell._replace(fill=head_color(h)) for h in range(num_heads)}
    of_maps |= {
        "hidden": cell,
        "weight 0": cell._replace(fill=PAPER, stroke=FAINT),
        "a weight on the future": Box(1, 1, CELL - 2, CELL - 2, PAPER, WRONG, 1.5),
        "no number": cell._replace(fill=PAPER, hatched=True),
    }
    of_dots = {
        "caught": dot._replace(fill=CAUGHT, stroke=CAUGHT),
        "passes": dot._replace(fill=PAPER, stroke=FAINT),
        "nothing to check": dot._replace(fill=QUIET, stroke=FAINT),
    }
    items: list[Item] = []
    for k, row in enumerate((of_maps, of_dots)):
        x = 4.0
        for text, sign in row.items():
            items += shift([sign], x, 4 + k * line)
            items.append(Words(x + CELL + 7, 4 + k * line + CELL / 2, text, "start"))
            x += CELL + 7 + text_width(text) + 22
    letters = ", ".join(f"{check[0].upper()} {check}" for check in checks)
    items.append(Words(x + 8, 4 + line + CELL / 2, letters, "start"))
    return items


def _small(
    name: str, weights: Tensor | None, verdicts: Mapping[str, str], like: Tensor
) -> list[Item]:
    """Return one of the maps, its name above it and its dots below, at the origin."""
    items: list[Item] = [Words(4, 9, name, "start")]
    num_heads, num_tokens, _ = like.shape
    side = num_tokens * CELL
    for h in range(num_heads):
        x = 4 + h * (side + GAP)
        if weights is None:
            items.append(Box(x, 22, side, side, PAPER, QUIET, hatched=True))
        else:
            items += _map(x, 22, weights[h], h)
    for k, (check, verdict) in enumerate(verdicts.items()):
        x, y = 4 + k * (DOT + 6), 22 + side + 8
        caught, passes = verdict == "CAUGHT", verdict == "passes"
        fill = CAUGHT if caught else PAPER if passes else QUIET
        items.append(Box(x, y, DOT, DOT, fill, CAUGHT if caught else FAINT, 1, DOT / 2))
        ink = text_color(fill) if caught else INK
        items.append(Words(x + DOT / 2, y + DOT / 2, check[0].upper(), color=ink, bold=caught))
        if not caught and not passes and k == len(verdicts) - 1:
            items.append(Words(x + DOT + 6, y + DOT / 2, verdict, "start"))
    return items


def _map(x: float, y: float, weights: Tensor, head: int) -> list[Item]:
    """Return the cells of one head's weights; those that should be hidden are framed."""

    def look(weight: float, q: int, k: int) -> Cell:
        nan, hidden = math.isnan(weight), k > q and weight == 0
        fill = PAPER if nan else QUIET if hidden else weight_color(weight, head)
        return Cell(fill, stroke=QUIET, hatched=nan, edge=0.5)

    items = grid(x, y, weights, look, CELL, CELL)
    for q, k in (weights.nan_to_num(0.0).triu(diagonal=1) != 0).nonzero().tolist():
        corner = (x + k * CELL + 1, y + q * CELL + 1)
        items.append(Box(*corner, CELL - 2, CELL - 2, None, WRONG, 1.5))
    return items


def _counted(verdicts: Mapping[str, Mapping[str, str]]) -> str:
    checks = next(iter(verdicts.values()))
    counts = ", ".join(
        f"{check} {sum(said[check] == 'CAUGHT' for said in verdicts.values())}" for check in checks
    )
    quiet = [name for name, said in verdicts.items() if set(said.values()) == {"passes"}]
    return (
        f"{len(verdicts)} small maps with {len(checks)} dots each. Caught by {counts}. "
        f"Past every check: {', '.join(quiet) or 'none'}."
    )


# Two losses for each


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

    Raises:
        ValueError: there are no losses.

    >>> two_losses_picture({"a": (1.0, 2.0)}, ("then", "now"), {"floor": 0.5}).alt
    'For each of 1 models then and now. a: 1.0 and 2.0.'
    """
    pairs = {name: pair for name, pair in losses.items() if not isinstance(pair, str)}
    if not pairs:
        raise ValueError(f"losses must have a pair of numbers, got {dict(losses)}: give one")
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
