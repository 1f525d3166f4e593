"""Strips and signed tables: many numbers as colors alone."""

import pytest
import torch

from attncourse.pictures.grids import SHADES, find_patches, signed_picture, strips_picture
from attncourse.pictures.palette import PAPER, amount_color, signed_color, weight_color
from attncourse.pictures.scene import Box, Line
from support.pictures import check_readable, outside, overlapping, words

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
    assert said.count("place") == 3
    assert said.count("16") == said.count("8") == 3
    assert [text for text in said if text == "140"] == ["140"] * 2
    assert sum(isinstance(item, Line) and item.dashed for item in picture.items) == 3
    assert any(isinstance(item, Box) and item.hatched for item in picture.items)
    assert said[-2:] == ["1", "0"]
    shades = [b.fill for b in picture.items if isinstance(b, Box) and b.width == 12 and b.fill]
    assert shades == [amount_color(1 - i / SHADES) for i in range(SHADES + 1)]
    check_readable(picture)
    assert picture.alt.startswith("Strips over 13 steps, down, and 17 places, across. head 0: ")


def test_strips_of_one_hue_have_a_scale_in_it():
    picture = strips_picture({"a": strip(), "b": strip(2)}, STEPS, (4, 4), 2, mark=8)
    scale = [b.fill for b in picture.items if isinstance(b, Box) and b.width == 12 and b.fill]
    assert scale == [weight_color(1 - i / SHADES, 4) for i in range(SHADES + 1)]
    check_readable(picture)


@pytest.mark.parametrize(("steps", "hues"), [((0, 20), (0,)), (STEPS, (0, 1))])
def test_strips_that_do_not_fit_are_refused(steps, hues):
    with pytest.raises(ValueError, match=r"a row for each of the .* steps and a hue each"):
        strips_picture({"head": strip()}, steps, hues, 1, mark=8)


def test_signed_tables_are_blue_above_the_middle_and_red_below():
    table = torch.tensor([[0.5, 0.75, 0.25], [1.0, torch.nan, 0.0], [0.5, 0.5, 0.6]])
    picture = signed_picture({"a": table, "b": table}, "xyz", ("down", "across"), 0.5, 0.5, True)
    cells = [b for b in picture.items if isinstance(b, Box) and b.width == b.height]
    assert len(cells) == 18
    assert [cell.fill for cell in cells[:4]] == [
        signed_color(v, 0.5) for v in (0, 0.25, -0.25, 0.5)
    ]
    assert cells[4].hatched
    assert cells[4].fill == PAPER
    said = [item.text for item in words(picture)]
    assert said.count("75") == said.count("60") == 2
    assert said[-3:] == ["100", "50", "0"]  # the scale, in hundredths too
    assert "down ↓   across →" in said
    assert outside(picture) == []
    assert overlapping(picture) == []
    assert picture.alt == (
        "Tables of 3 by 3, down down, across across. a: from 0.00 to 1.00. b: from 0.00 to 1.00."
    )


def test_without_a_largest_the_farthest_number_has_the_strongest_colour():
    picture = signed_picture({"a": torch.tensor([[0.0, -4.0], [2.0, 0.0]])}, "xy", ("q", "k"))
    assert [item.text for item in words(picture)][-3:] == ["4", "0", "-4"]
    fills = [b.fill for b in picture.items if isinstance(b, Box) and b.width == b.height]
    assert fills[:4] == [signed_color(value, 4.0) for value in (0.0, -4.0, 2.0, 0.0)]


def test_tables_that_do_not_fit_their_names_are_refused():
    with pytest.raises(ValueError, match=r"tables must all be \(2, 2\), for 2 names"):
        signed_picture({"a": torch.zeros(2, 3)}, "xy", ("q", "k"))
