"""Losses over the steps of a training, each with its name where it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, QUIET, head_color
from attncourse.pictures.scene import Item, Line, Scene, Words

LEFT, TOP, WIDE, HIGH = 48.0, 34.0, 460.0, 220.0
APART = 17.0  # pixels between two names
COLORS = [head_color(hue) for hue in (0, 4, 2, 3)]


def curves_picture(
    curves: Mapping[str, Sequence[float]],
    title: str,
    mark: tuple[str, float] | None = None,
    unit: str = "steps",
    first: int = 0,
) -> Scene:
    """Draw losses over training steps, or over what is counted, on one scale.

    Args:
        curves: by name, a loss for each step; at most 4, of the same number of steps, at least 2.
        title: what is drawn, above the picture and in the alt text.
        mark: a name and a loss, drawn as a dashed line.
        unit: what is counted.
        first: the count of the first loss, 0 or 1.

    Returns:
        A Scene; its alt text says where each curve begins and ends.

    >>> curves_picture({"loss": [2.0, 1.0]}, "A loss").alt
    'A loss: loss begins at 2.00 and ends at 1.00.'
    """
    (steps,) = {len(losses) for losses in curves.values()}
    largest = max(mark[1] if mark else 0.0, *map(max, curves.values()))

    def place(step: float, loss: float) -> tuple[float, float]:
        up = HIGH * loss / largest
        return round(LEFT + WIDE * step / (steps - 1), 2), round(TOP + HIGH - up, 2)

    items: list[Item] = [Words(0, 12, title, "start", bold=True)]
    for loss in range(int(largest) + 1):
        y = place(0, loss)[1]
        items.append(Line(((LEFT, y), (LEFT + WIDE, y)), QUIET, 1.0))
        items.append(Words(LEFT - 8, y, str(loss), "end"))
    for count in (first, steps // 2, steps):
        x = round(LEFT + WIDE * (count - first) / (steps - first), 2)
        said = f"{count} {unit}" if count > first else str(first)
        items.append(Words(x, TOP + HIGH + 16, said))
    if mark:
        y = place(0, mark[1])[1]
        items.append(Line(((LEFT, y), (LEFT + WIDE, y)), FAINT, 1.5, dashed=True))
        said = f"{mark[0]} {mark[1]:.3f}"
        drawn = [place(i, loss) for losses in curves.values() for i, loss in enumerate(losses)]
        items.append(Words(*_free(y, text_width(said), drawn), said, "start"))
    ends = []
    for (name, losses), color in zip(curves.items(), COLORS[: len(curves)], strict=True):
        points = tuple(place(step, loss) for step, loss in enumerate(losses))
        items.append(Line(points, color, 2.2))
        ends.append((points[-1][1], f"{name} {losses[-1]:.2f}", color))
    below = -APART
    for y, words, color in sorted(ends):
        below, x = max(y, below + APART), LEFT + WIDE + 8
        items.append(Line(((x, below), (x + 12, below)), color, 3.0))
        items.append(Words(x + 18, below, words, "start", bold=True))
    width = LEFT + WIDE + 34 + max(text_width(words, bold=True) for _, words, _ in ends)
    told = ", ".join(
        f"{name} begins at {losses[0]:.2f} and ends at {losses[-1]:.2f}"
        for name, losses in curves.items()
    )
    line = f"; the dashed line is {mark[0]} {mark[1]:.3f}" if mark else ""
    return Scene(width, TOP + HIGH + 30, f"{title}: {told}{line}.", tuple(items))


def _free(y: float, wide: float, drawn: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return where words of a mark at y begin so that they cover least, rather above the line."""

    def covered(left: float, middle: float) -> int:
        return sum(left - 4 < x < left + wide + 4 and abs(at - middle) < 11 for x, at in drawn)

    lefts = [LEFT + 10 + (WIDE - wide - 20) * i / 8 for i in range(9)]
    spots = [(left, y + side) for side in (-12.0, 12.0) for left in lefts]
    return min(spots, key=lambda spot: covered(*spot))
