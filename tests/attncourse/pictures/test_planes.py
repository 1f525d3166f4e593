"""The two planes of a head of width 2."""

import pytest
import torch

from attncourse.pictures.palette import INK, head_color
from attncourse.pictures.planes import SIDE, planes_picture
from attncourse.pictures.scene import Box, Line
from support.pictures import check_readable

TOKENS = ("a", "b", "c", "d", "e")
KEYS = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 3.0], [0.0, -3.0], [1.0, 1.0]])
SCENE = planes_picture(TOKENS, torch.tensor([-1.0, 0.0]), KEYS, -KEYS, KEYS[2])


def test_it_can_be_read_and_is_told():
    check_readable(SCENE)
    assert "which points to b" in SCENE.alt
    assert SCENE.alt.endswith("which lies at the value of d.")


def test_points_stand_where_their_numbers_say():
    dots = [item for item in SCENE.items if isinstance(item, Box) and item.fill == head_color(0)]
    keys, values = dots[:5], dots[5:]
    (right, left), (up, down) = keys[:2], keys[2:4]
    assert right.x > left.x
    assert right.y == left.y
    assert up.y < down.y
    assert up.x == down.x
    across = pytest.approx(SIDE * 4 / 7.5, abs=0.11)  # the plane is 2 * 1.25 * 3 wide
    assert right.x - left.x == across
    assert values[1].x - values[0].x == across


def test_an_arrow_ends_at_the_query_and_at_the_mixture():
    arrows = [item for item in SCENE.items if isinstance(item, Line) and item.stroke == INK]
    (query_from, query_to), (mixture_from, mixture_to) = (arrow.points for arrow in arrows)
    assert query_to[0] < query_from[0]
    assert query_to[1] == query_from[1]
    assert mixture_to[1] < mixture_from[1]
