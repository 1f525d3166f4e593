"""A pair of a query and a pair of a key, turned by their positions: arrows in a plane."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attncourse.pictures.palette import FAINT, INK, QUIET, head_color
from attncourse.pictures.scene import Box, Item, Line, Scene, Words

RADIUS, SIDE, TOP, GAP = 72.0, 188.0, 24.0, 24.0  # of a circle; a plane; above it; between two
Point = tuple[float, float]


def turned_picture(
    query: Point, key: Point, angle: float, places: Sequence[tuple[int, int]]
) -> Scene:
    """Draw both arrows once for each two positions, with the angle between them.

    Args:
        query: a pair of its numbers, before it turns.
        key: a pair of its numbers.
        angle: by which each position turns a pair, in radians.
        places: positions of the query and of the key.

    Returns:
        A Scene: a circle for each two positions, the product of the two arrows below it.
    """
    reach = RADIUS / max(math.hypot(*query), math.hypot(*key))
    items: list[Item] = []
    said = []
    for i, (at_query, at_key) in enumerate(places):
        left = i * (SIDE + GAP)
        x, y = left + SIDE / 2, TOP + SIDE / 2
        turns = _angle(query) + at_query * angle, _angle(key) + at_key * angle
        product = math.hypot(*query) * math.hypot(*key) * math.cos(turns[0] - turns[1])
        rows = f"query at {at_query}, key at {at_key}", f"product {product:.2f}"
        items += [
            Words(x, 10, rows[0], bold=True),
            Box(x - RADIUS, y - RADIUS, 2 * RADIUS, 2 * RADIUS, None, QUIET, radius=RADIUS),
            _between(x, y, *turns),
        ]
        for name, arrow, turn, color in (
            ("k", key, turns[1], head_color(0)),
            ("q", query, turns[0], INK),
        ):
            items += _arrow(x, y, reach * math.hypot(*arrow), turn, name, color)
        items.append(Words(x, TOP + SIDE + 8, rows[1]))
        said.append(f"{rows[0]}: {rows[1]}")
    alt = (
        "A pair of a query's numbers and one of a key's, two arrows from one point, turned by "
        f"their positions. {'; '.join(said)}. Equal distances, equal angles between the arrows."
    )
    return Scene(len(places) * (SIDE + GAP) - GAP, TOP + SIDE + 20, alt, tuple(items))


def _angle(point: Point) -> float:
    return math.atan2(point[1], point[0])


def _on(x: float, y: float, length: float, turn: float) -> Point:
    """Return the end of an arrow from (x, y); upwards is positive."""
    return round(x + length * math.cos(turn), 1), round(y - length * math.sin(turn), 1)


def _arrow(x: float, y: float, length: float, turn: float, name: str, color: str) -> list[Item]:
    tip = _on(x, y, length, turn)
    barbs = [_on(*tip, 11, turn + math.pi + side * 0.45) for side in (-1, 1)]
    name_at = _on(x, y, length + 13, turn)
    return [
        Line(((x, y), _on(x, y, length - 6, turn)), color, 3.0),
        Line((tip, *barbs), None, fill=color),
        Words(*name_at, name, color=INK if color == INK else FAINT, bold=True),
    ]


def _between(x: float, y: float, first: float, second: float) -> Line:
    """Return the angle between two arrows, filled, the shorter way round."""
    way = (second - first + math.pi) % (2 * math.pi) - math.pi
    rim = tuple(_on(x, y, RADIUS / 2, first + way * i / 16) for i in range(17))
    return Line(((x, y), *rim), None, fill=QUIET)
