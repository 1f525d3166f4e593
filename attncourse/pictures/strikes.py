"""A table of what shows where, from which answers strike out rows."""

from __future__ import annotations

from collections.abc import Mapping

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import (
    FAINT,
    HEAD_COLORS,
    INK,
    PAPER,
    QUIET,
    WRONG,
    text_color,
    tint,
)
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words

NAMES, HIGH, DOT = 160.0, 30.0, 14.0
FILLS = {"right": PAPER, "wrong": HEAD_COLORS[1], "NaN": QUIET}
ALWAYS, SOMETIMES, NAN_ONLY, NEVER = KINDS = (
    "always show",
    "sometimes show",
    "show as NaN only",
    "never show",
)
Strikes = Mapping[str, str]  # by row the column that strikes it out


def strikes_picture(
    shows: Mapping[str, Mapping[str, str]],
    answers: Mapping[str, Mapping[str, str]] | None = None,
    struck: Strikes | None = None,
) -> Scene:
    """Draw how the faults of each part show at each probe.

    Args:
        shows: by part and probe one of KINDS.
        answers: by name of a class what each probe finds, right, wrong or NaN, drawn above the
            table.
        struck: the parts that the answers strike out, each with a probe that does.

    Returns:
        A Scene: a full dot for always, a half one for sometimes, NaN for NaN only, none for never.
        A name that is struck out has a line through it, and its row a frame at the answer that
        does it.

    >>> strikes_picture({"mask": {"one token": "never show"}}).alt
    'Faults of the mask never show at one token.'
    """
    probes = list(next(iter(shows.values())))
    wide = (BOOK - NAMES) / len(probes)
    middles = {probe: NAMES + (place + 0.5) * wide for place, probe in enumerate(probes)}
    items: list[Item] = [Words(x, 12, probe) for probe, x in middles.items()]
    y = 26.0
    told = []
    for name, said in (answers or {}).items():
        items.append(Words(NAMES - 12, y + HIGH / 2, name, "end"))
        for probe, x in middles.items():
            fill = FILLS[said[probe]]
            items.append(Box(x - 27, y + 3, 54, HIGH - 6, fill, FAINT, radius=4.0))
            items.append(Words(x, y + HIGH / 2, said[probe], color=text_color(fill)))
        y += HIGH
        told += [
            f"{name} is {found} at {', '.join(probe for probe in probes if said[probe] == found)}."
            for found in ("wrong", "NaN")
            if found in said.values()
        ]
    items.append(Line(((0, y + 4), (BOOK, y + 4)), QUIET, 1.0))
    y += 8
    for part, at in shows.items():
        middle = y + HIGH / 2
        items.append(Words(NAMES - 12, middle, part, "end"))
        for probe, x in middles.items():
            items += _dot(x, middle, at[probe])
        if struck and part in struck:
            x = middles[struck[part]]
            items.append(Box(x - 16, y + 2, 32, HIGH - 4, None, WRONG, 2.0, radius=4.0))
            left = NAMES - 16 - text_width(part)
            items.append(Line(((left, middle), (NAMES - 8, middle)), INK, 1.5))
        y += HIGH
        told.append(_said(part, at, struck or {}))
    x = NAMES
    for kind, words in zip(KINDS, ("always", "sometimes", "if it shows", "never"), strict=True):
        items += _dot(x, y + 18, kind)
        items.append(Words(x + 18, y + 18, words, "start"))
        x += text_width(words) + 50
    return Scene(BOOK, y + 32, " ".join(told), tuple(items))


def _dot(x: float, y: float, kind: str) -> list[Item]:
    """Return a full dot, a half one, NaN, or a small mark where nothing shows."""
    if kind == NEVER:
        return [Line(((x - 4, y), (x + 4, y)), FAINT, 1.0)]
    if kind == NAN_ONLY:
        return [Words(x, y, "NaN")]
    color = HEAD_COLORS[0] if kind == ALWAYS else tint(HEAD_COLORS[0], 0.3)
    return [Box(x - DOT / 2, y - DOT / 2, DOT, DOT, color, HEAD_COLORS[0], 1.0, radius=DOT / 2)]


def _said(part: str, at: Mapping[str, str], struck: Strikes) -> str:
    by_kind = [
        f"{kind} at {', '.join(probe for probe, shows in at.items() if shows == kind)}"
        for kind in KINDS
        if kind in at.values()
    ]
    out = f" It is struck out by {struck[part]}." if part in struck else ""
    return f"Faults of the {part} {'; '.join(by_kind)}.{out}"
