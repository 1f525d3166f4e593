"""Charts of measured times: bars against a floor, a table of ratios, a roofline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count

from attnlib.pictures.palette import FAINT, INK, QUIET, signed_color, text_color
from attnlib.pictures.scene import Box, Item, Line, Scene, Words

LABEL, BAR, ROW = 290.0, 330.0, 24.0


def bars_picture(times: Mapping[str, float], floor: float, heading: str) -> Scene:
    """Draw times as bars from zero, in milliseconds, and the floor as a dashed line.

    Args:
        times: seconds by name, drawn in this order.
        floor: seconds.
        heading: what was measured.
    """
    top, scale = 48.0, BAR / max(*times.values(), floor)
    bottom = top + ROW * len(times)
    items: list[Item] = [Words(8, 12, heading, 12, INK, "start", bold=True)]
    for i, (name, seconds) in enumerate(times.items()):
        y = top + i * ROW
        items.append(Words(LABEL - 8, y + ROW / 2, name, 11, INK, "end"))
        items.append(Box(LABEL, y + 4, scale * seconds, ROW - 8, fill=FAINT))
        text = f"{1e3 * seconds:.2f} ms, {seconds / floor:.2f} x floor"
        items.append(Words(LABEL + BAR + 10, y + ROW / 2, text, 11, INK, "start", mono=True))
    x = LABEL + scale * floor
    items.append(Line(((x, top - 6), (x, bottom)), INK, 1.0, dashed=True))
    items.append(Words(x, top - 14, f"floor {1e3 * floor:.2f} ms", 10))
    listed = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in times.items())
    alt = f"{heading}: {listed}; floor {1e3 * floor:.2f} ms."
    return Scene(LABEL + BAR + 200, bottom + 8, alt, tuple(items))


def crossover_picture(ratios: Mapping[tuple[int, int], float], heading: str) -> Scene:
    """Draw a table of ratios, heads down and tokens across: blue above 1, red below."""
    heads = sorted({num_heads for num_heads, _ in ratios})
    tokens = sorted({num_tokens for _, num_tokens in ratios})
    left, top, width, height = 84.0, 56.0, 74.0, 30.0
    largest = max(abs(math.log2(value)) for value in ratios.values()) or 1.0
    items: list[Item] = [Words(8, 12, heading, 12, INK, "start", bold=True)]
    for column, num_tokens in enumerate(tokens):
        words = f"{num_tokens} tokens"
        items.append(Words(left + (column + 0.5) * width, top - 12, words, 10))
    for row, num_heads in enumerate(heads):
        y = top + row * height
        words = "1 head" if num_heads == 1 else f"{num_heads} heads"
        items.append(Words(left - 8, y + height / 2, words, 10, INK, "end"))
        for column, num_tokens in enumerate(tokens):
            value = ratios[num_heads, num_tokens]
            fill = signed_color(math.log2(value), largest)
            x = left + column * width
            items.append(Box(x, y, width - 2, height - 2, fill=fill))
            ink = text_color(fill)
            middle = (x + width / 2 - 1, y + height / 2 - 1)
            items.append(Words(*middle, f"{value:.2f}", 12, ink, mono=True))
    size = max(left + width * len(tokens) + 8, 7.6 * len(heading) + 16)
    alt = f"{heading}, for {len(heads)} numbers of heads by {len(tokens)} numbers of tokens."
    return Scene(size, top + height * len(heads) + 8, alt, tuple(items))


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
