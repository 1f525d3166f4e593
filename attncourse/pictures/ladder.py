"""Versions of one computation, each with one thing changed: what each takes, and what it saves."""

from __future__ import annotations

from collections.abc import Mapping

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, QUIET, head_color
from attncourse.pictures.scene import Box, Item, Scene, Words

STEP, HIGH, TOP = 32.0, 20.0, 32.0  # pixels: of a version, of its bar, above the first
LONG = 200.0  # of the longest bar


def ladder_picture(took: Mapping[str, float]) -> Scene:
    """Draw how long each version takes, and beside it what it saves against the one above.

    Args:
        took: by the name of each version, in order, its milliseconds.

    Returns:
        A Scene: a bar for each version, and from its end on, pale, what the version above took
        more; at the right its milliseconds, and by what those of the version above were multiplied.

    >>> ladder_picture({"at once": 80.0, "in pieces": 40.0}).alt
    'Milliseconds. at once: 80. in pieces: 40, × 0.50.'
    """
    left = max(text_width(name) for name in took) + 10
    wide = left + LONG + 104
    scale = LONG / max(took.values())
    items: list[Item] = [
        Words(wide - 70, 12, "ms", "end", bold=True),
        Words(wide - 4, 12, "× above", "end", FAINT),
    ]
    said, above = [], None
    for place, (name, ms) in enumerate(took.items()):
        y = TOP + place * STEP
        items.append(Words(left - 8, y + HIGH / 2, name, "end"))
        if above is not None and above > ms:
            items.append(Box(left + ms * scale, y, (above - ms) * scale, HIGH, QUIET))
        items.append(Box(left, y, ms * scale, HIGH, head_color(0)))
        items.append(Words(wide - 70, y + HIGH / 2, f"{ms:.0f}", "end", bold=True))
        factor = "" if above is None else f"× {ms / above:.2f}"
        if factor:
            items.append(Words(wide - 4, y + HIGH / 2, factor, "end", FAINT))
        said.append(f"{name}: {ms:.0f}{', ' * bool(factor)}{factor}.")
        above = ms
    bottom = TOP + len(took) * STEP - (STEP - HIGH) + 8
    return Scene(wide, bottom, f"Milliseconds. {' '.join(said)}", tuple(items))
