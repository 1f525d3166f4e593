"""Every figure shows every value, in the right place, in the color of its head."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET

import pytest
import torch

from attncourse.pictures.palette import (
    FAINT,
    INK,
    QUIET,
    amount_color,
    head_color,
    strength_color,
    tint,
    weight_color,
)
from attncourse.pictures.scene import BOOK, Box, Line, typeset
from attncourse.pictures.tensors import (
    WRONG,
    blocks_picture,
    difference_picture,
    heads_picture,
    leaks_picture,
    matrix_picture,
    weights_picture,
)
from attnlib import causal_mask
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
    assert min(item.size for item in words(scene)) >= 13


@PICTURES
def test_no_words_stand_in_each_others_way(scene):
    assert overlapping(scene) == []


@PICTURES
def test_the_svg_holds_all_words(scene):
    assert texts(ET.fromstring(scene.svg())) == [typeset(item) for item in words(scene)]
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
    """Queries down, keys across, in the color of the head; hidden cells flat gray and empty."""
    attn_weights = weights() if num_heads is None else weights(num_heads)
    scene = weights_picture(attn_weights, TOKENS, HIDDEN)
    cells = boxes(scene, 40, 40)
    maps = attn_weights.view(-1, 5, 5).tolist()
    assert len(cells) == len(maps) * 25
    places = itertools.product(range(len(maps)), range(5), range(5))
    for cell, (head, q, k) in zip(cells, places, strict=True):
        origin, weight = cells[25 * head], maps[head][q][k]
        assert (cell.x, cell.y) == (origin.x + 40 * k, origin.y + 40 * q)
        assert not cell.hatched
        assert cell.fill == (QUIET if k > q else weight_color(weight, head))
        assert text_in(scene, cell) == (None if k > q else f"{weight:.2f}")


def test_without_a_mask_no_cell_is_hatched():
    scene = weights_picture(weights(), TOKENS)
    assert not any(cell.hatched for cell in boxes(scene, 40, 40))
    assert text_in(scene, boxes(scene, 40, 40)[1]) == "0.00"


def test_small_cells_have_colors_but_no_values():
    scene = weights_picture(weights(2), TOKENS, HIDDEN, cell=24)
    cells = boxes(scene, 24, 24)
    assert [cell.fill == QUIET for cell in cells] == HIDDEN.flatten().tolist() * 2
    assert not any(text_in(scene, cell) for cell in cells)
    shown = [cell.fill for cell in cells if cell.fill != QUIET]
    values = [(head, value) for head in (0, 1) for value in weights(2)[head, ~HIDDEN].tolist()]
    assert shown == [weight_color(value, head) for head, value in values]


def test_every_row_and_column_names_its_token():
    """Rows once for each row of maps, columns above every map; the axes have names."""
    scene = weights_picture(weights(5), TOKENS, HIDDEN, columns=3)
    texts = [item.text for item in words(scene)]
    assert {token: texts.count(token) for token in TOKENS} == dict.fromkeys(TOKENS, 2 + 5)
    assert texts.count("key →") == texts.count("query ↓") == 2
    tops = {cell.y for cell in boxes(scene, 40, 40)[::25]}
    assert {item.y + 6 for item in words(scene) if item.angle} == tops
    rows = [item for item in words(weights_picture(weights(), TOKENS, HIDDEN)) if not item.angle]
    cells = boxes(weights_picture(weights(), TOKENS, HIDDEN), 40, 40)
    for q, token in enumerate(TOKENS):
        (row,) = (item for item in rows if item.text == token)
        assert row.y == cells[5 * q].y + 20


def test_each_map_stands_under_the_strip_of_its_head():
    scene = weights_picture(weights(12), TOKENS, HIDDEN, cell=24)
    strips = boxes(scene, 120, 18)
    assert [strip.fill for strip in strips] == [head_color(head) for head in range(12)]
    assert [text_in(scene, strip) for strip in strips] == [f"head {n}" for n in range(12)]
    firsts = boxes(scene, 24, 24)[::25]
    assert all(c.x == s.x for c, s in zip(firsts, strips, strict=True))
    assert len({c.y - s.y for c, s in zip(firsts, strips, strict=True)}) == 1
    assert firsts[0].y > strips[0].y + 18


def test_notes_stand_beside_their_rows():
    notes = [f"= {n}" for n in range(5)]
    scene = weights_picture(weights(), TOKENS, HIDDEN, row_notes=notes)
    cells = boxes(scene, 40, 40)
    for q, note in enumerate(notes):
        (item,) = (item for item in words(scene) if item.text == note)
        assert item.y == cells[5 * q].y + 20
        assert cells[4].x + 40 < item.x
        assert extents(item)[0][1] < min(step.x for step in boxes(scene, 12, 200))


def test_the_scale_goes_from_1_down_to_0():
    scene = weights_picture(weights(), TOKENS, HIDDEN)
    (outline,) = boxes(scene, 12, 200)
    steps = boxes(scene, 12, 200 / 12 + 0.5)
    assert [step.y for step in steps] == sorted(step.y for step in steps)
    assert steps[0].fill == weight_color(1 - 1 / 24)
    assert steps[-1].fill == weight_color(1 / 24)
    one, zero = (next(w for w in words(scene) if w.text == end) for end in ("1", "0"))
    assert one.y < zero.y
    cells = boxes(scene, 40, 40)  # the scale is as high as the map, and 0 ends where it ends
    assert (outline.y, outline.y + 200) == (cells[0].y, cells[-1].y + 40)
    assert outline.stroke == FAINT
    assert len(steps) == 12


def test_hidden_cells_are_one_grey_without_lines():
    """So that the palest weight is a cell, and what is hidden is none."""
    scene = weights_picture(weights(), TOKENS, HIDDEN)
    gray = [cell for cell in boxes(scene, 40, 40) if cell.fill == QUIET]
    assert len(gray) == 10
    assert {cell.stroke for cell in gray} == {QUIET}


def test_a_head_has_its_hue_and_its_name_wherever_it_stands():
    scene = weights_picture(weights(2), TOKENS, HIDDEN, names=("4.11", "5.5"), hues=(11, 5))
    strips = boxes(scene, 200, 18)
    assert [strip.fill for strip in strips] == [head_color(11), head_color(5)]
    assert [text_in(scene, strip) for strip in strips] == ["4.11", "5.5"]
    firsts = boxes(scene, 40, 40)[::25]
    assert [cell.fill for cell in firsts] == [weight_color(1, 11), weight_color(1, 5)]


def test_a_weight_above_the_scale_is_framed_and_the_scale_says_so():
    above = torch.tensor([[2.0, 0.0], [0.5, 1.0]])
    scene = weights_picture(above, TOKENS[:2])
    cells, frames = boxes(scene, 40, 40), boxes(scene, 38, 38)
    assert [(frame.x - 1, frame.y - 1) for frame in frames] == [(cells[0].x, cells[0].y)]
    assert cells[0].fill == cells[3].fill == weight_color(1.0)
    assert "> 1" in [item.text for item in words(scene)]
    assert "> 1" not in [item.text for item in words(weights_picture(weights(), TOKENS))]


def test_a_weight_above_the_scale_that_is_marked_has_both_frames():
    above = torch.tensor([[2.0, 0.0], [0.5, 1.0]])
    scene = weights_picture(above, TOKENS[:2], marked=above > 0.6)
    (inner,), outer = boxes(scene, 32, 32), boxes(scene, 37, 37)
    assert len(outer) == 2
    assert (inner.x - 4, inner.y - 4) == (outer[0].x - 1.5, outer[0].y - 1.5)
    assert (inner.stroke, outer[0].stroke) == (INK, WRONG)
    assert boxes(scene, 38, 38) == []


def test_marked_cells_are_framed():
    marked = torch.zeros(5, 5, dtype=torch.bool)
    marked[1, 3] = True
    scene = weights_picture(weights(2), TOKENS, HIDDEN, marked=marked)
    frames, cells = boxes(scene, 37, 37), boxes(scene, 40, 40)
    assert [(f.x - 1.5, f.y - 1.5) for f in frames] == [(c.x, c.y) for c in (cells[8], cells[33])]
    assert {frame.stroke for frame in frames} == {WRONG}


def test_right_and_wrong_stand_side_by_side_with_the_leaks_framed():
    right, wrong = weights(), torch.full((5, 5), 0.2)
    wrong[0, 1:4] = 0.0
    scene = leaks_picture(right, wrong, TOKENS)
    assert len(boxes(scene, 37, 37)) == 10 - 3
    assert scene.width <= BOOK
    assert outside(scene) == []
    bold = [item.text for item in words(scene) if item.bold]
    sums = [f"{row.sum():.2f}" for row in wrong]
    assert bold == ["right", *["1.00"] * 5, "wrong", *sums]
    assert [item.text for item in words(scene)].count("0") == 10 + 3 + 1  # hidden, and the scale's
    assert overlapping(scene) == []
    assert scene.alt.startswith("Right and wrong weights side by side. 7 cells leak, framed in red")
    assert "Your sees one (0.20), journey sees starts (0.20)" in scene.alt
    assert scene.alt.endswith(", and 1 more.")
    assert leaks_picture(right, right, TOKENS).alt.endswith("0 cells leak, framed in red.")


def test_the_alt_text_of_weights_says_who_looks_where():
    equal = torch.tensor([[1.0, 0.0], [0.75, 0.25]])
    scene = weights_picture(equal, TOKENS[:2], HIDDEN[:2, :2], title="x")
    assert scene.alt == (
        "x, queries down, keys across. Journey most at Your (0.75). "
        "The future, above the diagonal, is gray."
    )
    leaking = weights_picture(torch.full((2, 2), 0.5), TOKENS[:2])
    assert leaking.alt.endswith("Above the diagonal 1 weights are not 0.")


def test_all_heads_have_one_color_for_strength_and_their_own_in_a_bar():
    maps = weights(3, 12)
    scene = heads_picture(maps, (1, 11))
    assert outside(scene) == []
    assert scene.width <= BOOK
    bars = [item for item in scene.items if isinstance(item, Line) and item.width == 4]
    assert [bar.stroke for bar in bars] == [head_color(head) for head in range(12)]
    side = bars[0].points[1][0] - bars[0].points[0][0]
    sheets = boxes(scene, side, side)
    assert len(sheets) == 36
    assert {sheet.fill for sheet in sheets} == {QUIET}
    size = side / 5
    cells = [
        b for b in scene.items if isinstance(b, Box) and b.width == b.height == pytest.approx(size)
    ]
    assert len(cells) == 36 * 15
    assert {c.fill for c in cells[:180:15]} == {strength_color(1.0)}  # of the first tokens
    assert scene.alt.endswith("Layer 1, head 11 is framed.")
    assert "layer 0" in [item.text for item in words(scene)]


# Matrices


@pytest.mark.parametrize("digits", [2, 4])
def test_a_matrix_shows_each_value_to_its_digits(digits):
    scene = matrix_picture(matrix(), TOKENS, title="x", digits=digits)
    cells = boxes(scene, 30 + 8 * digits, 24)
    shown = [text_in(scene, cell) for cell in cells]
    assert shown == [f"{value:.{digits}f}" for value in matrix().flatten().tolist()]


def test_columns_have_the_color_of_their_head():
    owners = [0, 0, 0, 1, 2, 2]
    scene = matrix_picture(matrix(), TOKENS, owners, "context_vec")
    cells = boxes(scene, 62, 24)
    assert [cell.fill for cell in cells[:6]] == [tint(head_color(head), 0.22) for head in owners]
    strips = [item for item in scene.items if isinstance(item, Box) and item.height == 18]
    assert [strip.fill for strip in strips] == [head_color(head) for head in range(3)]
    assert [text_in(scene, strip) for strip in strips] == ["head 0", "head 1", "head 2"]
    for strip, (first, last) in zip(strips, [(0, 2), (3, 3), (4, 5)], strict=True):
        assert cells[first].x < strip.x
        assert strip.x + strip.width < cells[last].x + 62


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 6, 12])
def test_blocks_of_rows_have_the_color_of_their_head(num_heads):
    weight = matrix(12, 3)
    scene = blocks_picture(weight, num_heads, "W_query.weight")
    cells, largest = boxes(scene, 26, 26), weight.abs().max().item()
    for place, (cell, value) in enumerate(zip(cells, weight.flatten().tolist(), strict=True)):
        head = place // 3 * num_heads // 12
        assert cell.fill == tint(head_color(head), 0.2 + 0.8 * abs(value) / largest)
    texts = [item.text for item in words(scene)]
    assert texts == ["W_query.weight", *(f"head {n}" for n in range(num_heads))]
    frames = boxes(scene, 3 * 26, 12 // num_heads * 26)
    assert [frame.y for frame in frames] == [
        cells[0].y + f * frames[0].height for f in range(num_heads)
    ]


def test_differences_show_exact_zeros_as_white_cells():
    """On a dark page too; a difference too small to print is colored: it is not zero."""
    difference = torch.tensor([[0.0, 0.25], [1e-30, 0.0], [0.0, 0.5]])
    scene = difference_picture(difference, TOKENS[:3], "what moved", changed=1)
    cells = boxes(scene, 54, 26)
    shown = [text_in(scene, cell) for cell in cells]
    assert shown == ["0", "0.250", "0.000", "0", "0", "0.500"]
    assert [cell.fill == amount_color(0) for cell in cells] == [
        *(True, False, False, True, True, False)
    ]
    assert amount_color(0) == "#ffffff"
    assert cells[5].fill == amount_color(1.0)
    marked = [item.text for item in words(scene) if item.bold]
    assert marked == ["what moved", "changed: journey"]
    assert scene.alt == "what moved: 0 of 3 rows did not move at all."


def test_what_is_not_a_number_is_hatched():
    nan = torch.nan
    scene = difference_picture(torch.tensor([[0.0, nan], [0.25, 0.5]]), TOKENS[:2], "what moved")
    cells = boxes(scene, 54, 26)
    assert [text_in(scene, cell) for cell in cells] == ["0", "NaN", "0.250", "0.500"]
    assert [cell.hatched for cell in cells] == [False, True, False, False]
    assert cells[3].fill == amount_color(1.0)
    assert scene.alt == "what moved: 0 of 2 rows did not move at all."
    one_head = weights_picture(torch.tensor([[nan, 0.0], [0.5, 0.5]]), TOKENS[:2])
    maps = boxes(one_head, 40, 40)
    assert [cell.hatched for cell in maps] == [True, False, False, False]
    assert [text_in(one_head, cell) for cell in maps] == ["NaN", "0.00", "0.50", "0.50"]
    assert one_head.alt.endswith("Hatched cells are NaN.")


def test_no_difference_at_all():
    scene = difference_picture(torch.zeros(5, 2), TOKENS, "what moved")
    assert {text_in(scene, cell) for cell in boxes(scene, 54, 26)} == {"0"}
    assert scene.alt == "what moved: 5 of 5 rows did not move at all."
    some = difference_picture(torch.tensor([[0.0], [0.5], [0.0]]), TOKENS[:3], "what moved")
    assert some.alt == "what moved: 2 of 3 rows did not move at all (Your, starts)."
