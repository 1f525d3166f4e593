"""Two arrows, turned by positions."""

import math

from attncourse.pictures.scene import Line
from attncourse.pictures.turned import turned_picture
from support.pictures import check_readable, words


def test_equal_distances_give_equal_angles_and_products():
    query, key, angle = (3.0, 4.0), (4.0, -3.0), math.pi / 10
    scene = turned_picture(query, key, angle, ((7, 2), (107, 102), (6, 6)))
    check_readable(scene)
    said = [item.text for item in words(scene)]
    # a quarter turn apart, then five tenths of a half turn more: opposite
    assert [text for text in said if text.startswith("product")] == [
        "product -25.00",
        "product -25.00",
        "product 0.00",
    ]
    assert "query at 107, key at 102: product -25.00" in scene.alt
    arrows = [item for item in scene.items if isinstance(item, Line) and item.width == 3.0]
    (k, q), (k_far, q_far), _ = zip(arrows[::2], arrows[1::2], strict=True)
    for line in (k, q):
        (x, _), _ = line.points
        assert x == k.points[0][0]
    assert k.points != k_far.points
    assert q.points != q_far.points
