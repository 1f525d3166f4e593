"""The curves of a training: in scale, with their names at their ends."""

import pytest

from attncourse.pictures import curves_picture
from attncourse.pictures.curves import HIGH, LEFT, TOP, WIDE
from attncourse.pictures.palette import head_color
from attncourse.pictures.scene import Line, Words

CURVES = {"up": [1.0, 2.0, 4.0], "down": [3.0, 1.0, 0.0]}


def curves(scene) -> list[Line]:
    return [item for item in scene.items if isinstance(item, Line) and len(item.points) == 3]


def test_the_scale_begins_at_0_and_ends_at_the_largest_loss():
    up, down = curves(curves_picture(CURVES, "Two losses"))
    bottom = TOP + HIGH
    middle, end = LEFT + WIDE / 2, LEFT + WIDE
    assert up.points == ((LEFT, bottom - HIGH / 4), (middle, bottom - HIGH / 2), (end, TOP))
    assert down.points[2] == (end, bottom)
    assert (up.stroke, down.stroke) == (head_color(0), head_color(4))


def test_each_name_stands_at_the_end_of_its_curve_and_apart():
    near = {"a": [2.0, 1.0], "b": [2.0, 0.99], "c": [2.0, 0.98]}
    scene = curves_picture(near, "Three")
    names = [item for item in scene.items if isinstance(item, Words) and item.text[0] in "abc"]
    assert [name.text for name in names] == ["a 1.00", "b 0.99", "c 0.98"]
    heights = [name.y for name in names]
    assert heights[1] - heights[0] >= 17
    assert heights[2] - heights[1] >= 17
    before = [x for x in scene.items if isinstance(x, Line) and x.points[0][0] == LEFT + WIDE + 8]
    assert [line.points[0][1] for line in before] == heights
    assert [line.stroke for line in before] == [head_color(hue) for hue in (0, 4, 2)]


def test_the_mark_is_a_dashed_line_at_its_height():
    scene = curves_picture(CURVES, "Two losses", ("half", 2.0))
    (dashed,) = [item for item in scene.items if isinstance(item, Line) and item.dashed]
    assert {y for _, y in dashed.points} == {TOP + HIGH / 2}
    assert "half 2.000" in [item.text for item in scene.items if isinstance(item, Words)]


def test_what_is_counted_from_1_has_its_counts_under_its_points():
    scene = curves_picture({"a": [3.0, 2.0, 1.0, 0.0]}, "Four", unit="words", first=1)
    counts = [item for item in scene.items if isinstance(item, Words) and item.y > TOP + HIGH + 9]
    assert [count.text for count in counts] == ["1", "2 words", "4 words"]
    (curve,) = [item for item in scene.items if isinstance(item, Line) and len(item.points) == 4]
    assert [count.x for count in counts] == [curve.points[i][0] for i in (0, 1, 3)]


def test_the_alt_text_says_where_each_begins_and_ends():
    assert curves_picture(CURVES, "Two losses", ("half", 2.0)).alt == (
        "Two losses: up begins at 1.00 and ends at 4.00, down begins at 3.00 and ends at 0.00; "
        "the dashed line is half 2.000."
    )


@pytest.mark.parametrize("wrong", [{"a": [1.0, 2.0], "b": [1.0]}, {n: [1, 2] for n in "abcde"}])
def test_curves_that_do_not_fit_are_refused(wrong):
    with pytest.raises(ValueError, match=r"values to unpack|zip\(\) arg"):
        curves_picture(wrong, "None")
