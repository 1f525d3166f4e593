"""Pictures of attention between two texts, of the packed projection, of one number per head."""

import pytest
import torch

from attncourse import pictures
from attncourse.pictures.between import CELL
from attncourse.pictures.palette import INK, QUIET, head_color, tint, weight_color
from attncourse.pictures.scene import Box, Line
from support.pictures import boxes, outside, text_in, words

QUERIES, KEYS = ("one", "two", "three"), ("a", "b")
WEIGHTS = torch.tensor([[1.0, 0.0], [0.25, 0.75], [0.97, 0.03]])


def test_a_rectangle_has_a_row_for_each_query_and_a_column_for_each_key():
    scene = pictures.rectangle_picture(QUERIES, KEYS, WEIGHTS, "looks")
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
    cells = boxes(pictures.rectangle_picture(QUERIES, KEYS, WEIGHTS, "looks", hidden), CELL, CELL)
    assert [cell.fill == QUIET for cell in cells] == hidden.flatten().tolist()


@pytest.mark.parametrize("title", ["a", "a title that is longer than the map is wide, by much"])
def test_long_names_slant_and_stay_on_the_sheet(title):
    keys = ("extraordinarily", "long")
    scene = pictures.rectangle_picture(QUERIES, keys, WEIGHTS, title)
    assert outside(scene) == []
    assert [item.angle for item in words(scene) if item.text in keys] == [45, 45]


def test_a_line_goes_from_each_query_to_what_it_looks_at():
    scene = pictures.cross_picture(QUERIES, KEYS, WEIGHTS, ("writes", "reads"))
    places = {item.text: item.x for item in words(scene)}
    lines = [item for item in scene.items if isinstance(item, Line)]
    ends = [(line.points[0][0], line.points[1][0]) for line in lines]
    pairs = [("one", "a"), ("two", "a"), ("two", "b"), ("three", "a")]
    assert ends == [(places[query], places[key]) for query, key in pairs]
    assert [line.width for line in lines] == pytest.approx([5.0, 2.0, 4.0, 4.88])
    assert {line.stroke for line in lines} == {head_color(0)}
    assert scene.alt == (
        "Lines from writes to reads: one to a (1.00), two to a (0.25), two to b (0.75), "
        "three to a (0.97)."
    )
    assert outside(scene) == []


@pytest.mark.parametrize("draw", [pictures.rectangle_picture, pictures.cross_picture])
def test_weights_that_do_not_fit_the_names_are_refused(draw):
    with pytest.raises(ValueError, match=r"weights must be \(3, 2\).*got \(2, 3\): pass as many"):
        draw(QUERIES, KEYS, WEIGHTS.T, ("a", "b"))


def test_the_packed_projection_is_one_matrix_in_parts():
    weight = torch.arange(24).view(12, 2) / 10 - 1.0
    names, made = ("W_query", "W_key", "W_value"), ("queries", "keys", "values")
    scene = pictures.stacked_weights_picture(weight, 2, names, made)
    cells = boxes(scene, 58.0, 24.0)
    heads = [row % 4 // 2 for row in range(12) for _ in range(2)]
    assert [cell.fill for cell in cells] == [tint(head_color(head), 0.3) for head in heads]
    tags = [item for item in words(scene) if item.text.startswith("head ")]
    assert [tag.text for tag in tags] == ["head 0", "head 1"] * 3
    shown = [item.text for item in words(scene) if item.mono]
    assert shown == [f"{value:.2f}" for value in weight.flatten().tolist()]
    assert [item.text for item in words(scene) if item.text.startswith("columns")] == [
        "columns 0 to 3",
        "columns 4 to 7",
        "columns 8 to 11",
    ]
    assert "12 rows and 2 columns: W_query, W_key, W_value one below the other" in scene.alt
    assert outside(scene) == []


def test_a_rounded_zero_has_no_sign():
    scene = pictures.stacked_weights_picture(torch.full((3, 1), -0.001), 1, "QKV", "qkv")
    assert [item.text for item in words(scene) if item.mono] == ["0.00"] * 3


def test_a_share_above_the_limit_is_framed():
    shares = torch.tensor([[0.02, 0.91, 0.9], [1.0, 0.5, 0.0]])
    shares[0, 1:] = torch.tensor([0.904, 0.896])
    scene = pictures.shares_picture(shares, "weight on the first token", limit=0.9)
    cells = boxes(scene, 46.0, 26.0)
    assert [text_in(scene, cell) for cell in cells] == ["2", "90.4", "89.6", "100", "50", "0"]
    frames = [item for item in scene.items if isinstance(item, Box) and item.stroke == INK]
    assert len(frames) == 2
    assert scene.alt.endswith("more than 90 in 2 of 6 heads, which are framed.")
    assert outside(scene) == []
