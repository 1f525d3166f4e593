"""What is carried between a large far memory and a small near one, step by step."""

from __future__ import annotations

from collections.abc import Mapping

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, HEAD_COLORS, INK, QUIET, tint
from attncourse.pictures.scene import Box, Item, Line, Scene, Words, beside

STEP, THICK = 104.0, 26.0  # pixels: of a step, and of the largest arrow
FAR, BETWEEN, NEAR = 54.0, 84.0, 32.0  # heights, from top to bottom
TOP = 26.0
Steps = Mapping[str, tuple[float, float]]  # by name the MB that are read and written


def memories_picture(versions: Mapping[str, Steps]) -> Scene:
    """Draw what versions of one computation read from far memory and write to it.

    Args:
        versions: by name, the steps of each, and for each step the MB that it reads and writes.

    Returns:
        A Scene: a panel for each version, far memory above, near memory below. Each step has an
        arrow down, what it reads, and one up, what it writes, as thick as their MB; none for 0.

    >>> memories_picture({"a copy": {"copy": (1.0, 1.0)}}).alt
    'a copy: 2.0 MB. copy reads 1.0, writes 1.0.'
    """
    largest = max(mb for steps in versions.values() for both in steps.values() for mb in both)
    return beside(*(_panel(name, steps, largest) for name, steps in versions.items()), gap=28.0)


def _panel(name: str, steps: Steps, largest: float) -> Scene:
    """Return one version under its name and the sum of its MB."""
    title = f"{name}: {_mb(sum(map(sum, steps.values())))} MB"
    wide = max(STEP * len(steps), text_width(title, bold=True), text_width("far memory, large")) + 8
    near = TOP + FAR + BETWEEN
    items: list[Item] = [
        Words(2, 10, title, "start", bold=True),
        Box(1, TOP, wide - 2, FAR, QUIET, FAINT, radius=4.0),
        Words(wide / 2, TOP + 15, "far memory, large"),
        Words(wide / 2, near + NEAR + 14, "near memory, small"),
    ]
    left = (wide - STEP * len(steps)) / 2
    said = []
    for number, (step, (read, written)) in enumerate(steps.items()):
        middle = left + (number + 0.5) * STEP
        items.append(Box(middle - STEP / 2 + 6, near, STEP - 12, NEAR, QUIET, FAINT, radius=4.0))
        items.append(Words(middle, near + NEAR / 2, step, bold=True))
        for side, mb, ends in ((-24, read, (TOP + FAR, near)), (24, written, (near, TOP + FAR))):
            if not mb:
                continue
            items += _arrow(middle + side, *ends, THICK * mb / largest, HEAD_COLORS[side > 0])
            items.append(Words(middle + side, TOP + FAR - 13, _mb(mb)))
        said.append(f"{step} reads {_mb(read)}, writes {_mb(written)}.")
    alt = f"{title}. {' '.join(said)}"
    return Scene(wide, near + NEAR + 26, alt, tuple(items))


def _mb(mb: float) -> str:
    return f"{mb:.0f}" if mb >= 100 else f"{mb:.1f}"


def _arrow(x: float, start: float, end: float, thick: float, color: str) -> list[Item]:
    """Return an arrow straight up or down, from edge to edge of two boxes."""
    down = 1 if end > start else -1
    start, end, half = start + 4 * down, end - 4 * down, max(thick, 2.0) / 2
    neck, wing = end - (half + 6) * down, half + 5
    shaft = ((x - half, start), (x + half, start), (x + half, neck))
    head = ((x + wing, neck), (x, end), (x - wing, neck), (x - half, neck))
    return [Line((*shaft, *head), INK, 1.0, tint(color, 0.6))]
