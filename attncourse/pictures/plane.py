"""Points of a plane: the mark of a context vector, and the shape around some points."""

from __future__ import annotations

from collections.abc import Sequence

from attncourse.pictures.palette import INK, PAPER
from attncourse.pictures.scene import Line

Point = tuple[float, float]


def diamond(place: Point) -> Line:
    """Return the mark of a context vector."""
    x, y = place
    corners = ((x - 8, y), (x, y - 8), (x + 8, y), (x, y + 8))
    return Line(corners, PAPER, 1.5, fill=INK)


def hull(points: Sequence[Point]) -> list[Point]:
    """Return the corners of the smallest convex shape around the points, in their order."""
    ordered = sorted(set(points))
    if len(ordered) < 3:
        return ordered
    halves = []
    for line in (ordered, ordered[::-1]):
        half: list[Point] = []
        for x, y in line:
            while len(half) > 1 and (half[-1][0] - half[-2][0]) * (y - half[-2][1]) <= (
                half[-1][1] - half[-2][1]
            ) * (x - half[-2][0]):
                half.pop()
            half.append((x, y))
        halves += half[:-1]
    return halves
