"""Where parameters are: the bar of all of them, and the heads in c_attn."""

import pytest

from attncourse.pictures.palette import head_color
from attncourse.pictures.scene import BOOK, Box
from attncourse.pictures.sizes import c_attn_picture, parts_picture
from support.pictures import check_readable, words

PARTS = [("table", 50), ("attention", 7), ("MLP", 13), ("attention", 7), ("MLP", 13), ("norms", 0)]


def bars(scene) -> list[Box]:
    return [item for item in scene.items if isinstance(item, Box) and item.height == 44]


def test_every_part_is_as_wide_as_it_is_large():
    scene = parts_picture(PARTS, "letters")
    check_readable(scene)
    assert scene.width == BOOK
    *drawn, norms = bars(scene)
    assert norms.width < 1
    scale = drawn[0].width / 50
    assert [bar.width / scale for bar in drawn] == pytest.approx([50, 7, 13, 7, 13], abs=0.01)
    assert drawn[1].fill == drawn[3].fill == head_color(1)


def test_the_sums_are_told():
    scene = parts_picture(PARTS, "letters")
    assert scene.alt == (
        "letters: 90 in one bar of 6 parts. table 50 (55.6%), attention 14 (15.6%), "
        "MLP 26 (28.9%), norms 0 (0.00%)."
    )
    assert "letters: 90" in [item.text for item in words(scene)]
    for wrong in ([], [("a", -1)]):
        with pytest.raises(ValueError, match=r"parts must be one or more numbers from 0 on"):
            parts_picture(wrong, "letters")


@pytest.mark.parametrize("head", [0, 5, 11])
def test_a_head_has_its_columns_in_each_third_and_its_rows_below(head):
    scene = c_attn_picture(768, 12, head)
    check_readable(scene)
    own = head_color(head).lower()
    full = [b for b in scene.items if isinstance(b, Box) and (b.fill or "").lower() == own]
    assert [box.width < box.height for box in full] == [True, False] * 3
    firsts = [third * 768 + 64 * head for third in range(3)]
    for first in firsts:
        assert f"{first} to {first + 63}" in [item.text for item in words(scene)]
    assert f"head {head} has rows {64 * head} to {64 * head + 63} of each" in scene.alt


def test_a_head_that_is_not_there():
    said = r"width=768 must be a multiple of num_heads=12, and head=12 one of 0 to 11"
    with pytest.raises(ValueError, match=said):
        c_attn_picture(768, 12, 12)
