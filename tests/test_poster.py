"""Many small maps with verdicts, and two losses for each model."""

from __future__ import annotations

import pytest
import torch

from attnlib.pictures.palette import FAINT, PAPER, QUIET
from attnlib.pictures.poster import (
    CAUGHT,
    CELL,
    DOT,
    Small,
    poster_picture,
    two_losses_picture,
)
from attnlib.pictures.scene import BOOK, Line
from attnlib.pictures.tensors import WRONG
from support.pictures import boxes, outside, overlapping, text_in, words

CHECKS = ("shape", "causality", "rows")
GOOD = torch.tensor([[1.0, 0.0], [0.25, 0.75]]).repeat(2, 1, 1)
LEAKS = torch.tensor([[0.5, 0.5], [0.25, 0.75]]).repeat(2, 1, 1)
NO_NUMBER = torch.tensor([[torch.nan, torch.nan], [0.25, 0.75]]).repeat(2, 1, 1)


def verdicts(*said: str) -> dict[str, str]:
    return dict(zip(CHECKS, said, strict=True))


SMALL = {
    "right": Small(GOOD, verdicts("passes", "passes", "passes")),
    "it leaks": Small(LEAKS, verdicts("passes", "CAUGHT", "passes")),
    "a row of NaN": Small(NO_NUMBER, verdicts("NaN", "NaN", "NaN")),
    "it raises": Small(None, verdicts("stops", "stops", "stops")),
    "a name that is rather long": Small(GOOD, verdicts("passes", "CAUGHT", "CAUGHT")),
}
LOSSES = {"right": (1.0, 1.0), "it leaks": (0.25, 2.5)}


@pytest.mark.parametrize(
    "scene",
    [
        poster_picture(SMALL, columns=3),
        two_losses_picture(LOSSES, ("at once", "letter by letter"), {"best": 0.95, "worst": 2.0}),
    ],
    ids=["poster", "losses"],
)
def test_everything_fits_and_can_be_read(scene):
    assert outside(scene) == []
    assert overlapping(scene) == []
    assert scene.width == BOOK
    assert {item.size for item in words(scene)} == {13.0}


def test_a_dot_is_filled_where_something_was_caught():
    scene = poster_picture(SMALL)
    dots = boxes(scene, DOT, DOT)
    assert [text_in(scene, dot) for dot in dots] == ["S", "C", "R"] * len(SMALL)
    fills = {"passes": PAPER, "CAUGHT": CAUGHT, "NaN": QUIET, "stops": QUIET}
    said = [verdict for each in SMALL.values() for verdict in each.verdicts.values()]
    assert [dot.fill for dot in dots] == [fills[verdict] for verdict in said]
    assert [dot.stroke for dot in dots] == [
        CAUGHT if verdict == "CAUGHT" else FAINT for verdict in said
    ]
    texts = [item.text for item in words(scene)]
    assert texts.count("NaN") == texts.count("stops") == 1


def test_a_leak_is_framed_and_a_row_of_nan_hatched():
    scene = poster_picture(SMALL)
    cells = boxes(scene, CELL, CELL)
    assert len(cells) == 4 * 2 * 4  # four classes have maps, two heads each
    assert sum(cell.hatched for cell in cells) == 2 * 2
    frames = [box for box in boxes(scene, CELL - 2, CELL - 2) if box.stroke == WRONG]
    assert len(frames) == 2
    grey = [cell for cell in cells if cell.fill == QUIET]
    assert len(grey) == 2 * 2  # the future of the two that are right


def test_the_alt_text_counts():
    assert poster_picture(SMALL).alt == (
        "5 small maps with 3 dots each. Caught by shape 0, causality 2, rows 1. "
        "Past every check: right."
    )


def test_each_model_has_two_dots_on_one_scale():
    marks = {"best": 0.95}
    scene = two_losses_picture(LOSSES, ("at once", "in use"), marks, hues=(0, 4))
    assert scene.alt.endswith("right: 1.0 and 1.0; it leaks: 0.2 and 2.5.")
    dots = boxes(scene, 12, 12)[2:]  # after the legend
    places = [dot.x for dot in dots]  # of each model the second, then the first
    assert places[0] == places[1]
    assert places[2] > places[0] > places[3]
    dashed = [item for item in scene.items if isinstance(item, Line) and item.dashed]
    assert len(dashed) == 1


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: poster_picture({}), "small is empty"),
        (lambda: two_losses_picture({}, ("a", "b"), {}), "losses is empty"),
    ],
    ids=["poster", "losses"],
)
def test_nothing_is_not_drawn(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()
