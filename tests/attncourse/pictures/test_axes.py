"""Which axes of a mask are stretched, and which rows of a table are struck out."""

from __future__ import annotations

import pytest

from attncourse.pictures import axes_picture, strikes_picture
from attncourse.pictures.palette import FAINT, PAPER, WRONG
from attncourse.pictures.scene import Box, Line
from support.pictures import boxes, check_readable, outside, text_in, words

SCORES = {"text": 3, "head": 2, "query": 5, "key": 7}
MASKS = {"all": (5, 7), "keys": (3, 1, 1, 7), "texts": (3, 1, 5, 7), "heads": (2, 5, 7)}
SHOWS = {
    "mask": {"one token": "show as NaN only", "all": "always show"},
    "scale": {"one token": "never show", "all": "sometimes show"},
    "values": {"one token": "always show", "all": "always show"},
}


def test_a_size_that_is_missing_or_1_is_stretched():
    scene = axes_picture(SCORES, MASKS)
    check_readable(scene)
    slots = boxes(scene, 86.0, 30.0)
    assert [text_in(scene, slot) for slot in slots] == [
        *("3", "2", "5", "7"),
        *("– → 3", "– → 2", "5", "7"),
        *("3", "1 → 2", "1 → 5", "7"),
        *("3", "1 → 2", "5", "7"),
        *("– → 3", "2", "5", "7"),
    ]
    stretched = [slot.fill == PAPER for slot in slots]
    assert stretched == ["→" in text_in(scene, slot) for slot in slots]
    assert "heads, (2, 5, 7): head, query, key kept; text stretched." in scene.alt
    assert outside(scene) == []


@pytest.mark.parametrize("shape", [(3, 5, 7), (4, 1, 1, 7), (5, 5)])
def test_a_mask_that_cannot_be_stretched_is_refused(shape):
    with pytest.raises(ValueError, match=r"masks: \(.*\) has \d for \w+, which is \d"):
        axes_picture(SCORES, {"bad": shape})


def test_a_row_that_is_struck_out_says_where():
    answers = {"mystery": {"one token": "NaN", "all": "wrong"}}
    scene = strikes_picture(SHOWS, answers, {"values": "one token"})
    check_readable(scene)
    assert outside(scene) == []
    place = {item.text: (item.x, item.y) for item in words(scene)}
    (frame,) = (item for item in scene.items if isinstance(item, Box) and item.stroke == WRONG)
    assert frame.x + frame.width / 2 == place["one token"][0]
    assert frame.y + frame.height / 2 == place["values"][1]
    through = [
        i for i in scene.items if isinstance(i, Line) and i.points[0][1] == place["values"][1]
    ]
    assert len(through) == 1
    said = [text_in(scene, box) for box in boxes(scene, 54, 24)]
    assert said == ["NaN", "wrong"]
    start = "mystery is wrong at all. mystery is NaN at one token. Faults of the mask always show"
    assert scene.alt.startswith(f"{start} at all; show as NaN only at one token. ")
    assert scene.alt.endswith("always show at one token, all. It is struck out by one token.")


def test_a_table_without_answers_shows_what_can_be_seen():
    scene = strikes_picture(SHOWS)
    check_readable(scene)
    dots = boxes(scene, 14.0, 14.0)
    assert len(dots) == 4 + 2  # two are in the legend
    marks = [i for i in scene.items if isinstance(i, Line) and i.stroke == FAINT]
    assert len(marks) == 1 + 1
    assert [word.text for word in words(scene)].count("NaN") == 1 + 1
    assert not any(isinstance(i, Box) and i.stroke == WRONG for i in scene.items)
