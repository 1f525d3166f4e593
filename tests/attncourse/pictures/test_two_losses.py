"""Two losses for each model."""

from __future__ import annotations

from attncourse.pictures import two_losses_picture
from attncourse.pictures.scene import BOOK, Line
from support.pictures import boxes, check_readable, outside, words

LOSSES = {"right": (1.0, 1.0), "it leaks": (0.25, 2.5), "it raises": "stops with an error"}


def test_everything_fits_and_can_be_read():
    marks = {"best": 0.95, "worst": 2.0}
    scene = two_losses_picture(LOSSES, ("at once", "letter by letter"), marks)
    check_readable(scene)
    assert scene.width == BOOK


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
