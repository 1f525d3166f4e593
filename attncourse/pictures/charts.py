"""Charts of measured times: bars cut into phases against a floor, and a table of ratios."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, INK, QUIET, head_color, text_color, tint
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words

ROW = 34.0
BELOW, ABOVE = head_color(1), head_color(0)  # sides of 1: orange and blue


def phases_picture(
    bars: Mapping[str, Mapping[str, float]], floor: float | None, heading: str, unit: str = "ms"
) -> Scene:
    """Draw a bar for each version, cut into the phases that its time goes into, with their numbers.

    Args:
        bars: by version, by phase, numbers from 0 on; drawn in this order, the phases in the order
            in which they come first.
        floor: an estimate of the least that a version takes, a dashed line over the bars; or None.
        heading: what was measured.
        unit: of the numbers.
    """
    names = list(dict.fromkeys(phase for phases in bars.values() for phase in phases))
    names.sort(key=lambda name: name == "rest")  # the last one
    colors = {name: QUIET if name == "rest" else head_color(i) for i, name in enumerate(names)}
    totals = {name: sum(phases.values()) for name, phases in bars.items()}
    left = max(text_width(name, bold=True) for name in bars) + 20
    scale = (BOOK - left - 92) / max(*totals.values(), floor or 0.0)
    items: list[Item] = [Words(0, 10, heading, "start", bold=True)]
    x, y = 1.0, 34.0
    for name, color in colors.items():
        wide = 18 + text_width(name) + 18
        if x + wide > BOOK:
            x, y = 1.0, y + 22
        items.append(Box(x, y - 6, 12, 12, color, FAINT))
        items.append(Words(x + 18, y, name, "start"))
        x += wide
    top = y + (40 if floor else 22)
    bottom = top + ROW * len(bars)
    line = left + scale * (floor or 0.0)
    numbers: list[Item] = []
    for i, (name, phases) in enumerate(bars.items()):
        y, x = top + i * ROW, left
        items.append(Words(left - 12, y + ROW / 2, name, "end", bold=True))
        for phase, value in phases.items():
            wide = scale * value
            items.append(Box(x, y + 5, wide, ROW - 10, colors[phase], FAINT, 0.5))
            number, ink = f"{value:.0f}", text_color(colors[phase])
            start, end = _beside(x, x + wide, line)
            if text_width(number) + 2 <= end - start:
                numbers.append(Words((start + end) / 2, y + ROW / 2, number, color=ink))
            x += wide
        said = f"{totals[name]:.0f} {unit}"
        items.append(Words(x + 10, y + ROW / 2, said, "start", mono=True))
    if floor:
        items.append(Line(((line, top - 4), (line, bottom)), INK, 1.5, dashed=True))
        items.append(Words(line, top - 13, f"floor {floor:.0f} {unit}"))
    alt = f"{heading}. " + " ".join(
        f"{name}, {totals[name]:.0f} {unit}: "
        + ", ".join(f"{phase} {value:.0f}" for phase, value in phases.items())
        + "."
        for name, phases in bars.items()
    )
    alt += f" Floor: {floor:.0f} {unit}." if floor else ""
    return Scene(BOOK, bottom + 8, alt, (*items, *numbers))


def _beside(start: float, end: float, line: float) -> tuple[float, float]:
    """Return the larger part of a piece that a line cuts, or the whole."""
    if not start < line < end:
        return start, end
    return (start, line) if line - start > end - line else (line, end)


def crossover_picture(
    ratios: Mapping[tuple[int, int], float],
    heading: str,
    undecided: Collection[tuple[int, int]],
    notes: Mapping[tuple[int, int], str],
    sides: tuple[str, str],
) -> Scene:
    """Draw a table of ratios, heads down and tokens across: blue above 1, orange below.

    Args:
        ratios: by number of heads and of tokens.
        heading: what is divided by what.
        undecided: cells whose rounds lie on both sides of 1: gray, with a question mark.
        notes: a few words under the ratio of a cell.
        sides: what a ratio below 1 means, and one above; drawn as a legend.
    """
    heads, tokens = (sorted({place[i] for place in ratios}) for i in (0, 1))
    left, top, width, height = 84.0, 80.0, 116.0, 50.0 if notes else 32.0
    largest = max(abs(math.log2(value)) for value in ratios.values()) or 1.0
    items: list[Item] = [Words(0, 10, heading, "start", bold=True), *_legend(sides)]
    for column, num_tokens in enumerate(tokens):
        items.append(Words(left + (column + 0.5) * width, top - 14, f"{num_tokens} tokens"))
    for row, num_heads in enumerate(heads):
        said = "1 head" if num_heads == 1 else f"{num_heads} heads"
        items.append(Words(left - 8, top + (row + 0.5) * height, said, "end"))
    for place, value in sorted(ratios.items()):
        x, y = left + tokens.index(place[1]) * width, top + heads.index(place[0]) * height
        open_, note = place in undecided, notes.get(place)
        fill = QUIET if open_ else _side_color(math.log2(value) / largest)
        middle, up = x + width / 2 - 1, y + height / 2 - 1 - (9 if note else 0)
        said, ink = f"{value:.2f}{' ?' if open_ else ''}", text_color(fill)
        items.append(Box(x, y, width - 2, height - 2, fill=fill))
        items.append(Words(middle, up, said, color=ink, mono=True))
        if note:
            items.append(Words(middle, up + 19, note, color=ink, size=12))
    ends_of_words = (
        item.x + text_width(item.text, item.size, bold=item.bold)
        for item in items
        if isinstance(item, Words) and item.anchor == "start"
    )
    size = 8 + max(left + width * len(tokens), *ends_of_words)
    order = sorted(ratios, key=ratios.__getitem__)
    least, most = (
        f"{ratios[h, t]:.2f} at {h} heads and {t} tokens" for h, t in (order[0], order[-1])
    )
    alt = f"{heading}, for {len(heads)} numbers of heads by {len(tokens)} numbers of tokens: "
    alt += f"least {least}, most {most}. Orange: {sides[0]}; blue: {sides[1]}."
    alt += f" {len(undecided)} of {len(ratios)} cells are too close to call." if undecided else ""
    told = "; ".join(f"{h} heads, {t} tokens: {note}" for (h, t), note in notes.items())
    alt += f" {told}." if told else ""
    return Scene(size, top + height * len(heads) + 8, alt, tuple(items))


def _side_color(share: float) -> str:
    """Return the color of a share from -1, orange, to 1, blue: near 0 pale, but not like gray."""
    strength = 0.25 + 0.65 * abs(share) if share else 0.0
    return tint(ABOVE if share > 0 else BELOW, strength)


def _legend(sides: tuple[str, str]) -> list[Item]:
    """Return a line of colors, each pale to strong, and what they mean."""
    items, x = list[Item](), 1.0
    colors = [[_side_color(sign * share) for share in (0.0001, 0.5, 1.0)] for sign in (-1, 1)]
    for shades, words in zip((*colors, [QUIET]), (*sides, "?  too close to call"), strict=True):
        for shade in shades:
            items.append(Box(x, 30, 12, 12, shade, FAINT))
            x += 12
        items.append(Words(x + 6, 36, words, "start"))
        x += 6 + text_width(words) + 22
    return items
