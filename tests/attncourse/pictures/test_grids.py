"""Strips and signed tables: many numbers as colors alone."""

import pytest
import torch

from attncourse.pictures.grids import SHADES, find_patches, strips_picture
from attncourse.pictures.palette import amount_color, weight_color
from attncourse.pictures.scene import Box, Line
from support.pictures import check_readable, words

STEPS = tuple(range(0, 260, 20))


def strip(seed: int = 1) -> torch.Tensor:
    shares = torch.rand(len(STEPS), 17, generator=torch.Generator().manual_seed(seed))
    shares[3:9, 5:11] = 1.0
    shares[:, 0] = torch.nan
    return shares


def test_the_patches_cover_every_cell_once_with_its_shade():
    shares = strip()
    covered = torch.full(shares.shape, -2)
    for top, left, bottom, right, shade in find_patches(shares):
        area = covered[top:bottom, left:right]
        assert (area == -2).all()
        area[:] = shade
    expected = (shares * SHADES).round().nan_to_num(-1).int()
    assert torch.equal(covered.int(), expected)
    assert len(find_patches(torch.ones(7, 5))) == 1
    assert len(find_patches(shares)) < shares.numel()


def test_strips_stand_in_columns_with_steps_and_places():
    picture = strips_picture({f"head {i}": strip(i) for i in range(3)}, STEPS, (0, 1, 2), 2, mark=8)
    said = [item.text for item in words(picture)]
    assert [f"head {i}" for i in range(3)] == [text for text in said if text.startswith("head")]
    assert said.count("step") == 2
    assert said.count("position") == 3
    assert said.count("16") == said.count("8") == 3
    assert [text for text in said if text == "140"] == ["140"] * 2
    assert sum(isinstance(item, Line) and item.dashed for item in picture.items) == 3
    assert any(isinstance(item, Box) and item.hatched for item in picture.items)
    assert said[-2:] == ["1", "0"]
    shades = [b.fill for b in picture.items if isinstance(b, Box) and b.width == 12 and b.fill]
    assert shades == [amount_color(1 - i / SHADES) for i in range(SHADES + 1)]
    check_readable(picture)
    assert picture.alt.startswith("Strips over 13 steps, down, and 17 positions, across. head 0: ")


def test_strips_of_one_hue_have_a_scale_in_it():
    picture = strips_picture({"a": strip(), "b": strip(2)}, STEPS, (4, 4), 2, mark=8)
    scale = [b.fill for b in picture.items if isinstance(b, Box) and b.width == 12 and b.fill]
    assert scale == [weight_color(1 - i / SHADES, 4) for i in range(SHADES + 1)]
    check_readable(picture)


@pytest.mark.parametrize(("steps", "hues"), [((0, 20), (0,)), (STEPS, (0, 1))])
def test_strips_that_do_not_fit_are_refused(steps, hues):
    with pytest.raises(ValueError, match=r"a row for each of the .* steps and a hue each"):
        strips_picture({"head": strip()}, steps, hues, 1, mark=8)
