"""Charts of measured times: bars against a floor, a table of ratios, a roofline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count

from attnlib.pictures.letters import text_width
from attnlib.pictures.palette import FAINT, INK, QUIET, head_color, signed_color, text_color
from attnlib.pictures.scene import Box, Item, Line, Scene, Words

SIZE = 13.0  # of letters
BAR, ROW = 200.0, 26.0


def bars_picture(
    times: Mapping[str, float],
    floor: float,
    heading: str,
    end: float | None = None,
    marked: Mapping[str, int] | None = None,
) -> Scene:
    """Draw times as bars from zero, in multiples of a floor, which is a dashed line.

    Args:
        times: seconds by name, drawn in this order.
        floor: seconds.
        heading: what was measured.
        end: where the axis ends, in multiples of the floor, so that several pictures have the same
            axis; a longer bar ends in a tip, with its number beside it. None: at the longest bar.
        marked: by name, the head whose colour, counted from 0, a bar has. None: all are grey.
    """
    last = max(*times.values(), floor) / floor if end is None else end
    left = max(text_width(name, SIZE, bold=True) for name in times) + 10
    top, scale = 58.0, BAR / last
    bottom = top + ROW * len(times)
    items: list[Item] = [Words(0, 10, heading, SIZE, INK, "start", bold=True)]
    fastest = min(times, key=lambda name: times[name])
    for i, (name, seconds) in enumerate(times.items()):
        y, ratio = top + i * ROW, seconds / floor
        long = scale * min(ratio, last)
        hue = (marked or {}).get(name)
        fill = FAINT if hue is None else head_color(hue)
        bold = hue is not None
        items.append(Words(left - 10, y + ROW / 2, name, SIZE, INK, "end", bold=bold))
        items.append(Box(left, y + 4, long, ROW - 8, fill=fill))
        if ratio > last:
            x, tip = left + long, left + long + 10
            corners = ((x, y + 4), (tip, y + ROW / 2), (x, y + ROW - 4))
            items.append(Line(corners, None, fill=fill))
        text = f"{1e3 * seconds:.2f} ms, {ratio:.2f} x"
        where = (left + BAR + 18, y + ROW / 2)
        items.append(Words(*where, text, SIZE, INK, "start", bold=name == fastest, mono=True))
    x = left + scale
    items.append(Line(((x, top - 6), (x, bottom)), INK, 1.0, dashed=True))
    items.append(Words(x, top - 16, f"floor {1e3 * floor:.2f} ms", SIZE))
    listed = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in times.items())
    alt = f"{heading}: {listed}; floor {1e3 * floor:.2f} ms. Fastest: {fastest}, with "
    alt += f"{times[fastest] / floor:.2f} times the floor."
    width = max(left + BAR + 170, text_width(heading, SIZE, bold=True) + 8)
    return Scene(width, bottom + 8, alt, tuple(items))


def crossover_picture(ratios: Mapping[tuple[int, int], float], heading: str) -> Scene:
    """Draw a table of ratios, heads down and tokens across: blue above 1, red below."""
    heads = sorted({num_heads for num_heads, _ in ratios})
    tokens = sorted({num_tokens for _, num_tokens in ratios})
    left, top, width, height = 84.0, 56.0, 96.0, 32.0
    largest = max(abs(math.log2(value)) for value in ratios.values()) or 1.0
    items: list[Item] = [Words(0, 10, heading, SIZE, INK, "start", bold=True)]
    for column, num_tokens in enumerate(tokens):
        words = f"{num_tokens} tokens"
        items.append(Words(left + (column + 0.5) * width, top - 14, words, SIZE))
    for row, num_heads in enumerate(heads):
        y = top + row * height
        words = "1 head" if num_heads == 1 else f"{num_heads} heads"
        items.append(Words(left - 8, y + height / 2, words, SIZE, INK, "end"))
        for column, num_tokens in enumerate(tokens):
            value = ratios[num_heads, num_tokens]
            fill = signed_color(math.log2(value), largest)
            x = left + column * width
            items.append(Box(x, y, width - 2, height - 2, fill=fill))
            ink = text_color(fill)
            middle = (x + width / 2 - 1, y + height / 2 - 1)
            items.append(Words(*middle, f"{value:.2f}", SIZE, ink, mono=True))
    size = max(left + width * len(tokens) + 8, text_width(heading, SIZE, bold=True) + 8)
    ends = [f"{ratios[end]:.2f} at {end[0]} heads and {end[1]} tokens" for end in _ends(ratios)]
    alt = f"{heading}, for {len(heads)} numbers of heads by {len(tokens)} numbers of tokens: "
    alt += f"least {ends[0]}, most {ends[1]}."
    return Scene(size, top + height * len(heads) + 8, alt, tuple(items))


def _ends(ratios: Mapping[tuple[int, int], float]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where the least and where the largest ratio stands."""
    order = sorted(ratios, key=lambda place: ratios[place])
    return order[0], order[-1]


def roofline_picture(
    points: Mapping[str, tuple[float, float]], peak: float, bandwidth: float
) -> Scene:
    """Draw rates over intensities, both logarithmic, under the two limits of a machine.

    Args:
        points: by name, FLOPs per byte moved, and FLOPs per second reached.
        peak: FLOPs per second of a matrix product, the flat part of the roof.
        bandwidth: bytes per second of a copy, the slope of the roof.
    """
    left, top, width, height = 64.0, 40.0, 420.0, 240.0
    intensities = [intensity for intensity, _ in points.values()]
    low, high = _decades([*intensities, peak / bandwidth], 1.5)
    bottom, ceiling = _decades([*(rate for _, rate in points.values()), peak], 1.15)

    def place(intensity: float, rate: float) -> tuple[float, float]:
        across = math.log(intensity / low) / math.log(high / low)
        up = math.log(rate / bottom) / math.log(ceiling / bottom)
        return left + width * across, top + height * (1 - up)

    ridge, corner = peak / bandwidth, max(low, bottom / bandwidth)
    roof = (place(corner, corner * bandwidth), place(ridge, peak), place(high, peak))
    items: list[Item] = [Words(8, 12, "GFLOP/s over FLOP per byte", 12, INK, "start", bold=True)]
    for mark in _marks(low, high):
        x, _ = place(mark, bottom)
        items.append(Line(((x, top), (x, top + height)), QUIET, 1.0))
        items.append(Words(x, top + height + 12, f"{mark:g}", 10))
    for mark in _marks(bottom / 1e9, ceiling / 1e9):
        _, y = place(low, mark * 1e9)
        items.append(Line(((left, y), (left + width, y)), QUIET, 1.0))
        items.append(Words(left - 6, y, f"{mark:g}", 10, INK, "end"))
    items.append(Line(roof, INK, 1.5))
    limits = f"roof: {bandwidth / 1e9:.0f} GB/s, then {peak / 1e9:.0f} GFLOP/s"
    items.append(Words(left + width, top - 12, limits, 10, INK, "end"))
    places = [place(*point) for point in points.values()]
    taken = list(places)
    numbers: list[Item] = []
    for i, (name, (intensity, rate)) in enumerate(points.items(), 1):
        x, y = places[i - 1]
        at = next(  # beside its dot, or as little above or below as leaves it free
            (x + 20, y + 9 * step * sign)
            for step in count()
            for sign in (1, -1)
            if all(abs(x + 20 - a) >= 18 or abs(y + 9 * step * sign - b) >= 17 for a, b in taken)
        )
        taken.append(at)
        items.append(Line(((x, y), at), FAINT, 1.0))
        numbers.append(Box(x - 2.5, y - 2.5, 5, 5, fill=INK, radius=2.5))
        numbers.append(Box(at[0] - 8, at[1] - 8, 16, 16, fill=FAINT, radius=8))
        numbers.append(Words(*at, str(i), 10, text_color(FAINT), bold=True))
        said = f"{i}  {name}: {intensity:.1f} FLOP/B, {rate / 1e9:.0f} GFLOP/s"
        items.append(Words(left + width + 20, top + 10 + (i - 1) * 20, said, 11, INK, "start"))
    reached = ", ".join(f"{name} {rate / 1e9:.0f} GFLOP/s" for name, (_, rate) in points.items())
    alt = f"Roofline, {limits}. {reached}."
    bottom_edge = max(top + height + 28, top + 20 * len(points) + 16)
    return Scene(left + width + 440, bottom_edge, alt, (*items, *numbers))


def _decades(values: list[float], margin: float) -> tuple[float, float]:
    """Return limits a little outside the values."""
    return min(values) / margin**2, max(values) * margin


def _marks(low: float, high: float) -> list[float]:
    """Return round numbers between two limits, more of them where the limits are close."""
    digits = (1, 1.5, 2, 3, 4, 5, 7) if high < 20 * low else (1, 2, 5)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = [digit * 10.0**exponent for exponent in exponents for digit in digits]
    return [mark for mark in marks if low <= mark <= high]
