"""Which axes of a mask are stretched, when its shape is matched with that of the scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attncourse.pictures.palette import FAINT, HEAD_COLORS, INK, PAPER, QUIET, tint
from attncourse.pictures.scene import Box, Item, Scene, Words

SLOT, HIGH, GAP, NAMES = 86.0, 30.0, 12.0, 250.0


def axes_picture(axes: Mapping[str, int], masks: Mapping[str, Sequence[int]]) -> Scene:
    """Draw the shapes of masks below that of the scores, matched from the right.

    Args:
        axes: of the scores, each with its size.
        masks: by what is said of it, the shape of a mask.

    Returns:
        A Scene: a row for each mask; a size of 1, or none, is stretched to that of the scores.

    Raises:
        ValueError: a mask cannot be stretched to the scores.

    >>> axes_picture({"query": 5, "key": 4}, {"keys": (1, 4)}).alt
    'The scores are query 5, key 4. keys, (1, 4): key kept; query stretched.'
    """
    items: list[Item] = [Words(NAMES - 14, HIGH / 2 + 20, "the scores", "end", bold=True)]
    colors = [tint(HEAD_COLORS[hue], 0.45) for hue in (3, 5, 0, 1)]
    for place, (name, size) in enumerate(axes.items()):
        x = NAMES + place * (SLOT + GAP)
        items.append(Words(x + SLOT / 2, 8, name, bold=True))
        items.append(Box(x, 20, SLOT, HIGH, colors[place], INK, radius=3.0))
        items.append(Words(x + SLOT / 2, 20 + HIGH / 2, str(size), bold=True))
    told = []
    for row, (said, shape) in enumerate(masks.items(), start=1):
        y = 30 + row * (HIGH + GAP)
        items.append(Words(NAMES - 14, y + HIGH / 2, f"{said} {tuple(shape)}", "end"))
        missing = len(axes) - len(shape)
        kept: list[str] = []
        for place, (name, size) in enumerate(axes.items()):
            has = shape[place - missing] if place >= missing else 1
            if has not in (1, size):
                raise ValueError(f"masks: {tuple(shape)} has {has} for {name}, which is {size}")
            x, words = NAMES + place * (SLOT + GAP), Words(0, 0, str(size), bold=True)
            if has == 1 and size != 1:
                one = "1" if place >= missing else "–"
                items.append(Box(x, y, SLOT, HIGH, PAPER, QUIET, 1.0, radius=3.0))
                words = Words(0, 0, f"{one} → {size}", color=FAINT)
            else:
                kept.append(name)
                items.append(Box(x, y, SLOT, HIGH, colors[place], INK, 1.0, radius=3.0))
            items.append(words._replace(x=x + SLOT / 2, y=y + HIGH / 2))
        others = ", ".join(name for name in axes if name not in kept)
        told.append(f"{said}, {tuple(shape)}: {', '.join(kept)} kept; {others} stretched.")
    whole = ", ".join(f"{name} {size}" for name, size in axes.items())
    wide = NAMES + len(axes) * (SLOT + GAP)
    high = 34 + (len(masks) + 1) * (HIGH + GAP)
    return Scene(wide, high, f"The scores are {whole}. {' '.join(told)}", tuple(items))
