"""Where the heads are in c_attn."""

import pytest

from attncourse.pictures.palette import head_color
from attncourse.pictures.scene import Box
from attncourse.pictures.sizes import c_attn_picture
from support.pictures import check_readable, words


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
