"""Every figure shows every value, in the right place, in the colour of its head."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET

import pytest
import torch

from attnlib import causal_mask
from attnlib.pictures.palette import PAPER, head_color, tint, weight_color
from attnlib.pictures.scene import Box
from attnlib.pictures.tensors import (
    blocks_picture,
    difference_picture,
    matrix_picture,
    weights_picture,
)
from support.pictures import boxes, extents, outside, overlapping, pixels, text_in, texts, words

TOKENS = ("Your", "journey", "starts", "with", "one")
HIDDEN = causal_mask(5)


def weights(*heads: int) -> torch.Tensor:
    """Return causal weights, no two alike."""
    scores = torch.randn(*heads, 5, 5, generator=torch.Generator().manual_seed(1))
    return torch.softmax(scores.masked_fill(HIDDEN, -torch.inf), dim=-1)


def matrix(rows: int = 5, columns: int = 6) -> torch.Tensor:
    return 2 * torch.randn(rows, columns, generator=torch.Generator().manual_seed(2))


EVERY = {
    "one head": weights_picture(weights(), TOKENS, HIDDEN),
    "one head, with notes": weights_picture(weights(), TOKENS, HIDDEN, row_notes=["= 1.000"] * 5),
    "two heads": weights_picture(weights(2), TOKENS, HIDDEN),
    "eleven heads, small": weights_picture(weights(11), TOKENS, HIDDEN, cell=24),
    "one token": weights_picture(torch.ones(1, 1), ("Your",), causal_mask(1)),
    "matrix": matrix_picture(matrix(), TOKENS, title="x"),
    "matrix of three heads": matrix_picture(matrix(), TOKENS, [0, 0, 1, 1, 2, 2], "context_vec"),
    "matrix of two digits": matrix_picture(matrix(), TOKENS, digits=2),
    "blocks": blocks_picture(matrix(12, 3), 4, "W_query.weight"),
    "differences": difference_picture(matrix().abs(), TOKENS, "what moved", changed=3),
    "a long title": difference_picture(torch.ones(5, 1), TOKENS, "a title wider than the cells"),
}
PICTURES = pytest.mark.parametrize("scene", EVERY.values(), ids=EVERY)


@PICTURES
def test_everything_fits_on_the_sheet(scene):
    assert outside(scene) == []


@PICTURES
def test_no_words_stand_in_each_others_way(scene):
    assert overlapping(scene) == []


@PICTURES
def test_the_svg_holds_all_words(scene):
    assert texts(ET.fromstring(scene.svg())) == [item.text for item in words(scene)]
    assert scene.alt
    assert scene.alt.endswith(".")


@PICTURES
def test_the_png_is_opaque(scene):
    image = pixels(scene)
    assert abs(image.width - scene.width) <= 1
    assert abs(image.height - scene.height) <= 1
    assert image.getchannel("A").getextrema() == (255, 255)
    assert len(image.getcolors(image.width * image.height)) > 20


# Weights


@pytest.mark.parametrize("num_heads", [None, 1, 2, 4, 5])
def test_weights_stand_in_their_cells_on_one_color_scale(num_heads):
    """Queries down, keys across; hidden cells hatched and empty, not coloured as zero."""
    attn_weights = weights() if num_heads is None else weights(num_heads)
    scene = weights_picture(attn_weights, TOKENS, HIDDEN)
    cells = boxes(scene, 40, 40)
    maps = attn_weights.view(-1, 5, 5).tolist()
    assert len(cells) == len(maps) * 25
    places = itertools.product(range(len(maps)), range(5), range(5))
    for cell, (head, q, k) in zip(cells, places, strict=True):
        origin, weight = cells[25 * head], maps[head][q][k]
        assert (cell.x, cell.y) == (origin.x + 40 * k, origin.y + 40 * q)
        assert cell.hatched == (k > q)
        assert cell.fill == (PAPER if k > q else weight_color(weight))
        assert text_in(scene, cell) == (None if k > q else f"{weight:.2f}")


def test_without_a_mask_no_cell_is_hatched():
    scene = weights_picture(weights(), TOKENS)
    assert not any(cell.hatched for cell in boxes(scene, 40, 40))
    assert text_in(scene, boxes(scene, 40, 40)[1]) == "0.00"


def test_small_cells_have_colors_but_no_values():
    scene = weights_picture(weights(2), TOKENS, HIDDEN, cell=24)
    cells = boxes(scene, 24, 24)
    assert [cell.hatched for cell in cells] == HIDDEN.flatten().tolist() * 2
    assert not any(text_in(scene, cell) for cell in cells)
    shown = [cell.fill for cell in cells if not cell.hatched]
    values = weights(2)[:, ~HIDDEN].flatten().tolist()
    assert shown == [weight_color(value) for value in values]


def test_every_row_and_column_names_its_token():
    """Rows once for each row of maps, columns under every map."""
    texts = [item.text for item in words(weights_picture(weights(5), TOKENS, HIDDEN))]
    assert {token: texts.count(token) for token in TOKENS} == dict.fromkeys(TOKENS, 2 + 5)
    rows = [item for item in words(weights_picture(weights(), TOKENS, HIDDEN)) if not item.angle]
    cells = boxes(weights_picture(weights(), TOKENS, HIDDEN), 40, 40)
    for q, token in enumerate(TOKENS):
        (row,) = (item for item in rows if item.text == token)
        assert row.y == cells[5 * q].y + 20


def test_each_map_stands_under_the_strip_of_its_head():
    scene = weights_picture(weights(12), TOKENS, HIDDEN, cell=24)
    strips = boxes(scene, 120, 18)
    assert [strip.fill for strip in strips] == [head_color(head) for head in range(12)]
    assert [text_in(scene, strip) for strip in strips] == [f"head {n}" for n in range(1, 13)]
    firsts = boxes(scene, 24, 24)[::25]
    assert all(c.x == s.x and c.y == s.y + 24 for c, s in zip(firsts, strips, strict=True))


def test_notes_stand_beside_their_rows():
    notes = [f"= {n}" for n in range(5)]
    scene = weights_picture(weights(), TOKENS, HIDDEN, row_notes=notes)
    cells = boxes(scene, 40, 40)
    for q, note in enumerate(notes):
        (item,) = (item for item in words(scene) if item.text == note)
        assert item.y == cells[5 * q].y + 20
        assert cells[4].x + 40 < item.x
        assert extents(item)[0][1] < min(step.x for step in boxes(scene, 12, 8.5))


def test_the_scale_goes_from_1_down_to_0():
    scene = weights_picture(weights(), TOKENS, HIDDEN)
    steps = boxes(scene, 12, 8.5)
    assert [step.y for step in steps] == sorted(step.y for step in steps)
    assert steps[0].fill == weight_color(1 - 1 / 24)
    assert steps[-1].fill == weight_color(1 / 24)
    one, zero = (next(w for w in words(scene) if w.text == end) for end in ("1", "0"))
    assert one.y < zero.y


# Matrices


@pytest.mark.parametrize("digits", [2, 4])
def test_a_matrix_shows_each_value_to_its_digits(digits):
    scene = matrix_picture(matrix(), TOKENS, title="x", digits=digits)
    cells = boxes(scene, 26 + 8 * digits, 24)
    shown = [text_in(scene, cell) for cell in cells]
    assert shown == [f"{value:.{digits}f}" for value in matrix().flatten().tolist()]


def test_columns_have_the_color_of_their_head():
    owners = [0, 0, 0, 1, 2, 2]
    scene = matrix_picture(matrix(), TOKENS, owners, "context_vec")
    cells = boxes(scene, 58, 24)
    assert [cell.fill for cell in cells[:6]] == [tint(head_color(head), 0.22) for head in owners]
    strips = [item for item in scene.items if isinstance(item, Box) and item.height == 18]
    assert [strip.fill for strip in strips] == [head_color(head) for head in range(3)]
    assert [text_in(scene, strip) for strip in strips] == ["head 1", "head 2", "head 3"]
    for strip, (first, last) in zip(strips, [(0, 2), (3, 3), (4, 5)], strict=True):
        assert cells[first].x < strip.x
        assert strip.x + strip.width < cells[last].x + 58


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 6, 12])
def test_blocks_of_rows_have_the_color_of_their_head(num_heads):
    weight = matrix(12, 3)
    scene = blocks_picture(weight, num_heads, "W_query.weight")
    cells, largest = boxes(scene, 26, 26), weight.abs().max().item()
    for place, (cell, value) in enumerate(zip(cells, weight.flatten().tolist(), strict=True)):
        head = place // 3 * num_heads // 12
        assert cell.fill == tint(head_color(head), 0.2 + 0.8 * abs(value) / largest)
    texts = [item.text for item in words(scene)]
    assert texts == ["W_query.weight", *(f"head {n}" for n in range(1, num_heads + 1))]
    frames = boxes(scene, 3 * 26, 12 // num_heads * 26)
    assert [frame.y for frame in frames] == [
        cells[0].y + f * frames[0].height for f in range(num_heads)
    ]


def test_differences_show_exact_zeros_as_empty_cells():
    """A difference too small to print is still coloured: it is not zero."""
    difference = torch.tensor([[0.0, 0.25], [1e-30, 0.0], [0.0, 0.5]])
    scene = difference_picture(difference, TOKENS[:3], "what moved", changed=1)
    cells = boxes(scene, 54, 26)
    shown = [text_in(scene, cell) for cell in cells]
    assert shown == ["0", "0.250", "0.000", "0", "0", "0.500"]
    assert [cell.fill == PAPER for cell in cells] == [True, False, False, True, True, False]
    assert cells[5].fill == weight_color(1.0)
    marked = [item.text for item in words(scene) if item.bold]
    assert marked == ["what moved", "changed: journey"]
    assert scene.alt == "what moved: 0 of 3 rows did not move at all."


def test_what_is_not_a_number_is_hatched():
    nan = torch.nan
    scene = difference_picture(torch.tensor([[0.0, nan], [0.25, 0.5]]), TOKENS[:2], "what moved")
    cells = boxes(scene, 54, 26)
    assert [text_in(scene, cell) for cell in cells] == ["0", "NaN", "0.250", "0.500"]
    assert [cell.hatched for cell in cells] == [False, True, False, False]
    assert cells[3].fill == weight_color(1.0)
    assert scene.alt == "what moved: 0 of 2 rows did not move at all."
    one_head = weights_picture(torch.tensor([[nan, 0.0], [0.5, 0.5]]), TOKENS[:2])
    maps = boxes(one_head, 40, 40)
    assert [cell.hatched for cell in maps] == [True, False, False, False]
    assert [text_in(one_head, cell) for cell in maps] == [None, "0.00", "0.50", "0.50"]


def test_no_difference_at_all():
    scene = difference_picture(torch.zeros(5, 2), TOKENS, "what moved")
    assert {text_in(scene, cell) for cell in boxes(scene, 54, 26)} == {"0"}
    assert scene.alt == "what moved: 5 of 5 rows did not move at all."
