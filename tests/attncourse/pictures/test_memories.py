"""What is carried between two memories."""

from __future__ import annotations

import pytest

from attncourse.pictures import memories_picture
from attncourse.pictures.scene import Line
from support.pictures import check_readable, outside, words

VERSIONS = {
    "at once": {"one": (2.0, 40.0), "two": (40.0, 60.0)},
    "in pieces": {"all": (3.0, 1.0)},
}


def test_arrows_down_are_read_and_up_written_each_as_thick_as_its_mb():
    scene = memories_picture(VERSIONS)
    check_readable(scene)
    assert outside(scene) == []
    arrows = [item for item in scene.items if isinstance(item, Line)]
    shafts = [arrow.points[1][0] - arrow.points[0][0] for arrow in arrows]
    thickest = max(shafts)
    assert shafts == pytest.approx([2.0, thickest / 1.5, thickest / 1.5, thickest, 2.0, 2.0])
    starts, tips = ([arrow.points[i][1] for arrow in arrows] for i in (0, 4))
    down = [tip > start for start, tip in zip(starts, tips, strict=True)]
    assert down == [True, False] * 3


def test_each_version_has_its_sum_and_each_arrow_its_mb():
    scene = memories_picture(VERSIONS)
    said = [item.text for item in words(scene)]
    assert [text for text in said if ":" in text] == ["at once: 142 MB", "in pieces: 4.0 MB"]
    assert [text for text in said if text[0].isdigit()] == [
        *("2.0", "40.0", "40.0", "60.0"),
        *("3.0", "1.0"),
    ]
    assert "two reads 40.0, writes 60.0. in pieces: 4.0 MB. all reads 3.0" in scene.alt


def test_nothing_has_no_arrow():
    scene = memories_picture({"in place": {"mask": (0.0, 25.2)}})
    (arrow,) = (item for item in scene.items if isinstance(item, Line))
    assert arrow.points[0][1] > arrow.points[4][1]  # up
    assert "0.0" not in [item.text for item in words(scene)]
