"""Pictures of attention between new tokens and a past, and of one number per head."""

import pytest
import torch

from attncourse.pictures import rectangle_picture, shares_picture
from attncourse.pictures.between import CELL
from attncourse.pictures.palette import INK, QUIET, weight_color
from attncourse.pictures.scene import Box
from support.pictures import boxes, outside, text_in, words

QUERIES, KEYS = ("one", "two", "three"), ("a", "b")
WEIGHTS = torch.tensor([[1.0, 0.0], [0.25, 0.75], [0.97, 0.03]])


def test_a_rectangle_has_a_row_for_each_query_and_a_column_for_each_key():
    scene = rectangle_picture(QUERIES, KEYS, WEIGHTS, "looks")
    cells = boxes(scene, CELL, CELL)
    assert [cell.fill for cell in cells] == [weight_color(w) for w in WEIGHTS.flatten().tolist()]
    shown = ["1.00", None, "0.25", "0.75", "0.97", "0.03"]
    assert [text_in(scene, cell) for cell in cells] == shown
    places = {item.text: (item.x, item.y) for item in words(scene)}
    assert places["one"][1] < places["two"][1] < places["three"][1]
    assert places["a"][0] < places["b"][0]
    assert outside(scene) == []
    assert scene.alt == (
        "looks, queries down, keys across: one looks at a; two looks at a, b; three looks at a."
    )


def test_hidden_cells_are_flat_grey_and_say_nothing():
    hidden = torch.tensor([[False, True], [False, False], [False, True]])
    cells = boxes(rectangle_picture(QUERIES, KEYS, WEIGHTS, "looks", hidden), CELL, CELL)
    assert [cell.fill == QUIET for cell in cells] == hidden.flatten().tolist()


@pytest.mark.parametrize("title", ["a", "a title that is longer than the map is wide, by much"])
def test_long_names_slant_and_stay_on_the_sheet(title):
    keys = ("extraordinarily", "long")
    scene = rectangle_picture(QUERIES, keys, WEIGHTS, title)
    assert outside(scene) == []
    assert [item.angle for item in words(scene) if item.text in keys] == [45, 45]


def test_weights_that_do_not_fit_the_names_are_refused():
    with pytest.raises(ValueError, match=r"weights must be \(3, 2\).*got \(2, 3\): pass as many"):
        rectangle_picture(QUERIES, KEYS, WEIGHTS.T, "looks")


def test_a_share_above_the_limit_is_framed():
    shares = torch.tensor([[0.02, 0.91, 0.9], [1.0, 0.5, 0.0]])
    shares[0, 1:] = torch.tensor([0.904, 0.896])
    scene = shares_picture(shares, "weight on the first token", limit=0.9)
    cells = boxes(scene, 46.0, 26.0)
    assert [text_in(scene, cell) for cell in cells] == ["2", "90.4", "89.6", "100", "50", "0"]
    frames = [item for item in scene.items if isinstance(item, Box) and item.stroke == INK]
    assert len(frames) == 2
    assert scene.alt.endswith("more than 90 in 2 of 6 heads, which are framed.")
    assert outside(scene) == []
