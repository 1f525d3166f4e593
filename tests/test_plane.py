"""The plane: every vector stands where its two numbers say, and the mean where the weights say."""

from __future__ import annotations

import pytest
import torch

from attnlib.pictures.palette import FAINT, INK, QUIET, head_color
from attnlib.pictures.plane import hull, plane_picture, positions_picture
from attnlib.pictures.scene import BOOK, Box, Line, Scene
from support.pictures import outside, overlapping, words

WORDS = ("Your", "journey", "starts", "with", "one")
VALUES = torch.tensor([[0.0, 0.0], [4.0, 0.0], [4.0, 3.0], [0.0, 3.0], [1.0, 1.0]])
KEYS = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-1.5, 0.5], [-1.0, -1.0], [0.5, -2.0]])
WEIGHTS = torch.tensor([0.5, 0.25, 0.0, 0.25, 0.0])
QUERIES = torch.tensor([[2.0, 0.0], [-1.0, 1.0], [0.0, -2.0]])
POSITIONS = positions_picture(WORDS, KEYS, VALUES, QUERIES, torch.softmax(QUERIES @ KEYS.T, -1))


def dots(scene: Scene) -> list[Box]:
    """Return the dots: circles are boxes with round corners."""
    return [item for item in scene.items if isinstance(item, Box) and item.radius]


def middle(box: Box) -> tuple[float, float]:
    return box.x + box.width / 2, box.y + box.height / 2


def diamond(scene: Scene) -> tuple[float, float]:
    (found,) = [i for i in scene.items if isinstance(i, Line) and i.fill == INK]
    xs, ys = zip(*found.points, strict=True)
    return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


EVERY = {
    "values": plane_picture(WORDS, VALUES, title="values"),
    "a mean": plane_picture(WORDS, VALUES, WEIGHTS, title="values"),
    "a query": plane_picture(WORDS, VALUES, torch.tensor([0.5, 0.5, 0, 0, 0]), query=1),
    "keys": plane_picture(WORDS, VALUES, WEIGHTS, keys=KEYS, query_vec=QUERIES[0]),
    "positions": POSITIONS,
    "one point": plane_picture(["a"], torch.ones(1, 2), torch.ones(1)),
}


@pytest.mark.parametrize("scene", EVERY.values(), ids=EVERY)
def test_everything_fits_and_can_be_read(scene):
    assert outside(scene) == []
    assert overlapping(scene) == []
    assert scene.width <= BOOK
    assert {item.size for item in words(scene)} == {13.0}
    assert scene.alt.endswith(".")


def test_values_stand_where_they_are_on_one_scale_for_both_axes():
    first, *others = (middle(dot) for dot in dots(plane_picture(WORDS, VALUES)))
    scale = (others[0][0] - first[0]) / 4
    assert scale > 0
    for (x, y), value in zip(others, VALUES[1:].tolist(), strict=True):
        assert (x - first[0], first[1] - y) == pytest.approx(
            (value[0] * scale, value[1] * scale), abs=0.3
        )


def test_the_context_vector_is_the_weighted_mean():
    scene = plane_picture(WORDS, VALUES, WEIGHTS)
    places = torch.tensor([middle(dot) for dot in dots(scene)])
    expected = (WEIGHTS[:, None] * places).sum(dim=0).tolist()
    assert diamond(scene) == pytest.approx(expected, abs=0.3)
    assert "is at (1.00, 0.75), inside the hull of the past." in scene.alt
    assert "Weights: Your 0.50, journey 0.25, with 0.25" in scene.alt


def test_more_weight_is_a_larger_dot():
    sizes = [dot.width for dot in dots(plane_picture(WORDS, VALUES, WEIGHTS))]
    assert sizes[0] > sizes[1] == sizes[3] > sizes[2] == sizes[4]


def test_what_comes_after_the_query_is_grey_and_outside_thehull():
    scene = plane_picture(WORDS, VALUES, torch.tensor([0.5, 0.25, 0.25, 0, 0]), query=2, hue=3)
    fills = [dot.fill for dot in dots(scene)]
    assert fills[3:] == [QUIET] * 2
    assert QUIET not in fills[:3]
    grey = [item.text for item in words(scene) if item.color == FAINT]
    assert grey == ["with", "one"]
    shape = next(item for item in scene.items if isinstance(item, Line) and item.fill)
    assert sorted(shape.points) == sorted(middle(dot) for dot in dots(scene)[:3])
    lines = [
        item for item in scene.items if isinstance(item, Line) and item.stroke == head_color(3)
    ]
    assert len(lines) == 3


def test_ahull_has_the_outer_points_only():
    points = [(0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0), (1.0, 1.0), (1.0, 0.0)]
    assert sorted(hull(points)) == sorted(points[:4])
    assert hull([(1.0, 1.0), (1.0, 1.0)]) == [(1.0, 1.0)]


def test_positions_say_where_the_query_points_and_what_comes_of_it():
    assert "query 1, at 0 degrees: most weight on Your" in POSITIONS.alt
    assert "query 2, at 135 degrees: most weight on" in POSITIONS.alt
    assert "query 3, at 270 degrees: most weight on one" in POSITIONS.alt
    assert [w.text for w in words(POSITIONS)].count("query") == 3
    half = positions_picture(WORDS, KEYS, VALUES, QUERIES, WEIGHTS.expand(3, 5), shrunk=2)
    assert [w.text for w in words(half)][-1].endswith("The query is drawn at 1/2 of its length.")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"values": torch.ones(5, 3)}, r"values must be \(5, 2\), two numbers for each word"),
        ({"values": torch.ones(4, 2)}, r"got \(4, 2\): a plane has two dimensions"),
        ({"values": VALUES, "keys": torch.ones(5)}, r"keys must be \(5, 2\)"),
    ],
)
def test_what_is_no_plane_is_refused(how, message):
    with pytest.raises(ValueError, match=message):
        plane_picture(WORDS, **how)
