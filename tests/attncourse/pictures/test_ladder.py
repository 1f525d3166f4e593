"""Versions with one thing changed each, and what each saves."""

from __future__ import annotations

import pytest

from attncourse.pictures import ladder_picture
from attncourse.pictures.palette import QUIET, head_color
from attncourse.pictures.scene import Box
from support.pictures import check_readable, outside, words

TOOK = {"written out": 100.0, "there": 50.0, "in pieces": 55.0, "no future": 33.0}


def test_a_bar_is_as_long_as_its_version_takes_and_what_is_saved_reaches_the_one_above():
    scene = ladder_picture(TOOK)
    check_readable(scene)
    assert outside(scene) == []
    boxes = [item for item in scene.items if isinstance(item, Box)]
    bars = [box for box in boxes if box.fill == head_color(0)]
    unit = bars[0].width / 100
    assert [bar.width / unit for bar in bars] == pytest.approx(list(TOOK.values()))
    saved = [box for box in boxes if box.fill == QUIET]  # none beside what takes longer
    assert [box.width / unit for box in saved] == pytest.approx([50.0, 22.0])
    assert [box.x + box.width for box in saved] == pytest.approx(
        [bar.x + bar.width for bar in (bars[0], bars[2])]
    )


def test_each_version_has_its_milliseconds_and_all_but_the_first_a_factor():
    scene = ladder_picture(TOOK)
    said = [item.text for item in words(scene)]
    assert [text for text in said if text.isdigit()] == ["100", "50", "55", "33"]
    assert [text for text in said if text[0] == "×"][1:] == ["× 0.50", "× 1.10", "× 0.60"]
    assert scene.alt.endswith("in pieces: 55, × 1.10. no future: 33, × 0.60.")
