"""Many small maps with verdicts, and two losses for each model."""

import pytest
import torch

from attncourse.pictures.palette import FAINT, PAPER, QUIET, WRONG
from attncourse.pictures.poster import CAUGHT, CELL, DOT, LEGEND, poster_picture, two_losses_picture
from attncourse.pictures.scene import BOOK, Line
from support.pictures import boxes, check_readable, outside, text_in, words

CHECKS = ("shape", "causality", "rows")
GOOD = torch.tensor([[1.0, 0.0], [0.25, 0.75]]).repeat(2, 1, 1)
LEAKS = torch.tensor([[0.5, 0.5], [0.25, 0.75]]).repeat(2, 1, 1)
NO_NUMBER = torch.tensor([[torch.nan, torch.nan], [0.25, 0.75]]).repeat(2, 1, 1)


def verdicts(*said: str) -> dict[str, str]:
    return dict(zip(CHECKS, said, strict=True))


VERDICTS = {
    "right": verdicts("passes", "passes", "passes"),
    "past everything": verdicts("passes", "passes", "passes"),
    "a row of NaN": verdicts("NaN", "NaN", "NaN"),
    "it raises": verdicts("stops", "stops", "stops"),
    "it leaks": verdicts("passes", "CAUGHT", "passes"),
    "a name that is rather long": verdicts("passes", "CAUGHT", "CAUGHT"),
}
MAPS = {
    "right": GOOD,
    "past everything": GOOD,
    "it leaks": LEAKS,
    "a row of NaN": NO_NUMBER,
    "a name that is rather long": GOOD,
}
ORDER = [
    "right",
    "a name that is rather long",
    "it leaks",
    "a row of NaN",
    "it raises",
    "past everything",
]
LOSSES = {"right": (1.0, 1.0), "it leaks": (0.25, 2.5), "it raises": "stops with an error"}


@pytest.mark.parametrize(
    "scene",
    [
        poster_picture(MAPS, VERDICTS),
        two_losses_picture(LOSSES, ("at once", "letter by letter"), {"best": 0.95, "worst": 2.0}),
    ],
    ids=["poster", "losses"],
)
def test_everything_fits_and_can_be_read(scene):
    check_readable(scene)
    assert scene.width == BOOK


def test_a_dot_is_filled_where_something_was_caught():
    scene = poster_picture(MAPS, VERDICTS)
    dots = boxes(scene, DOT, DOT)
    assert [text_in(scene, dot) for dot in dots] == ["S", "C", "R"] * len(VERDICTS)
    fills = {"passes": PAPER, "CAUGHT": CAUGHT, "NaN": QUIET, "stops": QUIET}
    said = [verdict for name in ORDER for verdict in VERDICTS[name].values()]
    assert [dot.fill for dot in dots] == [fills[verdict] for verdict in said]
    assert [dot.stroke for dot in dots] == [
        CAUGHT if verdict == "CAUGHT" else FAINT for verdict in said
    ]
    texts = [item.text for item in words(scene)]
    assert texts.count("NaN") == texts.count("stops") == 1
    assert [text for text in texts if text in VERDICTS] == ORDER  # by how many checks catch it


def test_a_leak_is_framed_and_a_row_of_nan_hatched():
    scene = poster_picture(MAPS, VERDICTS)
    cells = [box for box in boxes(scene, CELL, CELL) if box.y > LEGEND]
    assert len(cells) == 5 * 2 * 4  # five classes have maps, two heads each
    assert sum(cell.hatched for cell in cells) == 2 * 2
    frames = [box for box in boxes(scene, CELL - 2, CELL - 2) if box.stroke == WRONG]
    assert len(frames) == 2 + 1  # one in the legend
    gray = [cell for cell in cells if cell.fill == QUIET]
    assert len(gray) == 3 * 2  # the future of the three that hide it


def test_the_alt_text_counts():
    assert poster_picture(MAPS, VERDICTS).alt == (
        "6 small maps with 3 dots each. Caught by shape 0, causality 2, rows 1. "
        "Past every check: right, past everything."
    )


def test_each_model_has_two_dots_on_one_scale():
    marks = {"best": 0.95}
    scene = two_losses_picture(LOSSES, ("at once", "in use"), marks)
    told = "right: 1.0 and 1.0; it leaks: 0.2 and 2.5; it raises: stops with an error."
    assert scene.alt.endswith(told)
    dots, rings = boxes(scene, 10, 10)[1:], boxes(scene, 17, 17)[1:]  # after the legend
    assert len(dots) == len(rings) == 2
    right, leak = zip(
        *((box.x + box.width / 2 for box in each) for each in (dots, rings)), strict=True
    )
    assert right[0] == right[1]
    assert leak[0] < right[0] < leak[1]
    dashed = [item for item in scene.items if isinstance(item, Line) and item.dashed]
    assert len(dashed) == 1


def test_models_stand_by_their_first_loss_and_those_without_one_below_the_scale():
    losses = {"right": (1.0, 1.0), "bad": (2.0, 2.0), "odd": "NaN", "good": (0.5, 0.5)}
    scene = two_losses_picture(losses, ("at once", "in use"), {})
    height = {item.text: item.y for item in words(scene)}
    assert height["right"] < height["good"] < height["bad"] < height["loss"] < height["odd"]
    assert height["odd"] == height["NaN"]
    assert outside(scene) == []


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: poster_picture({}, VERDICTS), "maps is empty"),
        (
            lambda: two_losses_picture({"a": "stops"}, ("a", "b"), {}),
            r"losses must have a pair of numbers, got {'a': 'stops'}",
        ),
        (
            lambda: two_losses_picture({}, ("a", "b"), {}),
            r"losses must have a pair of numbers, got {}",
        ),
    ],
    ids=["poster", "no number", "losses"],
)
def test_nothing_is_not_drawn(draw, words):
    with pytest.raises(ValueError, match=words):
        draw()
