"""The plane: the hull has the outer points, the diamond stands around its place."""

from __future__ import annotations

from attncourse.pictures.palette import INK
from attncourse.pictures.plane import diamond, hull


def test_a_hull_has_the_outer_points_only():
    points = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0), (1.0, 1.0), (1.0, 0.0)]
    assert sorted(hull(points)) == sorted(points[:4])
    assert hull([(1.0, 1.0), (1.0, 1.0)]) == [(1.0, 1.0)]


def test_a_diamond_stands_around_its_place():
    mark = diamond((3.0, 7.0))
    across, down = zip(*mark.points, strict=True)
    assert (min(across), max(across)) == (-5.0, 11.0)
    assert (min(down), max(down)) == (-1.0, 15.0)
    assert mark.fill == INK
