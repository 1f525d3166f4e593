"""Every figure shows every value, in the right place, in the color of its head."""

import itertools

import pytest
import torch

from attncourse.pictures.palette import FAINT, INK, QUIET, WRONG, head_color, weight_color
from attncourse.pictures.scene import BOOK
from attncourse.pictures.weights import leaks_picture, weights_picture
from attnlib import causal_mask
from support.pictures import boxes, causal_weights, check_readable, pixels, text_in, words

TOKENS = ("Your", "journey", "starts", "with", "one")
HIDDEN = causal_mask(5)


EVERY = {
    "one head": weights_picture(causal_weights(1), TOKENS, HIDDEN),
    "two heads": weights_picture(causal_weights(2), TOKENS, HIDDEN),
    "eleven heads, small": weights_picture(causal_weights(11), TOKENS, HIDDEN, cell=24),
    "upright names": weights_picture(causal_weights(3), TOKENS, HIDDEN, cell=17),
    "one token": weights_picture(torch.ones(1, 1, 1), ("Your",), causal_mask(1)),
    "leaks": leaks_picture(causal_weights(), torch.full((5, 5), 0.2), TOKENS),
}


@pytest.mark.parametrize("scene", EVERY.values(), ids=EVERY)
def test_everything_can_be_read(scene):
    check_readable(scene)
    image = pixels(scene)
    assert abs(image.width - scene.width) <= 1
    assert abs(image.height - scene.height) <= 1
    assert image.getchannel("A").getextrema() == (255, 255)
    assert len(image.getcolors(image.width * image.height)) > 20


@pytest.mark.parametrize(("num_heads", "size"), [(1, 40), (2, 24), (4, 40), (5, 40)])
def test_weights_stand_in_their_cells_on_one_color_scale(num_heads, size):
    """Queries down, keys across, in the color of the head; hidden cells flat gray and empty.

    A small cell has a color but no number.
    """
    scene = weights_picture(causal_weights(num_heads), TOKENS, HIDDEN, cell=size)
    cells = boxes(scene, size, size)
    maps = causal_weights(num_heads).tolist()
    assert scene.named("map") == cells[::25]
    assert len(cells) == len(maps) * 25
    places = itertools.product(range(len(maps)), range(5), range(5))
    for cell, (head, q, k) in zip(cells, places, strict=True):
        origin, weight = cells[25 * head], maps[head][q][k]
        assert (cell.x, cell.y) == (origin.x + size * k, origin.y + size * q)
        assert not cell.hatched
        assert k <= q or cell.stroke == QUIET  # no lines: the palest weight is a cell, this is none
        assert cell.fill == (QUIET if k > q else weight_color(weight, head))
        assert text_in(scene, cell) == (None if k > q or size == 24 else f"{weight:.2f}")


def test_every_row_and_column_names_its_token():
    """Rows once for each row of maps, columns above every map; the axes have names."""
    scene = weights_picture(causal_weights(5), TOKENS, HIDDEN, columns=3)
    texts = [item.text for item in words(scene)]
    assert {token: texts.count(token) for token in TOKENS} == dict.fromkeys(TOKENS, 2 + 5)
    assert texts.count("key →") == texts.count("query ↓") == 2
    tops = {cell.y for cell in boxes(scene, 40, 40)[::25]}
    assert {item.y + 6 for item in words(scene) if item.angle} == tops
    rows = [
        item for item in words(weights_picture(causal_weights(1), TOKENS, HIDDEN)) if not item.angle
    ]
    cells = boxes(weights_picture(causal_weights(1), TOKENS, HIDDEN), 40, 40)
    for q, token in enumerate(TOKENS):
        (row,) = (item for item in rows if item.text == token)
        assert row.y == cells[5 * q].y + 20


def test_each_map_stands_under_the_strip_of_its_head():
    scene = weights_picture(causal_weights(12), TOKENS, HIDDEN, cell=24)
    strips = boxes(scene, 120, 18)
    assert [strip.fill for strip in strips] == [head_color(head) for head in range(12)]
    assert [text_in(scene, strip) for strip in strips] == [f"head {n}" for n in range(12)]
    firsts = boxes(scene, 24, 24)[::25]
    assert all(c.x == s.x for c, s in zip(firsts, strips, strict=True))
    assert len({c.y - s.y for c, s in zip(firsts, strips, strict=True)}) == 1
    assert firsts[0].y > strips[0].y + 18


def test_the_scale_goes_from_1_down_to_0():
    scene = weights_picture(causal_weights(1), TOKENS, HIDDEN)
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


def test_a_head_has_its_hue_and_its_name_wherever_it_stands():
    scene = weights_picture(causal_weights(2), TOKENS, HIDDEN, names=("4.11", "5.5"), hues=(11, 5))
    strips = boxes(scene, 200, 18)
    assert [strip.fill for strip in strips] == [head_color(11), head_color(5)]
    assert [text_in(scene, strip) for strip in strips] == ["4.11", "5.5"]
    firsts = boxes(scene, 40, 40)[::25]
    assert [cell.fill for cell in firsts] == [weight_color(1, 11), weight_color(1, 5)]


ABOVE = torch.tensor([[[2.0, 0.0], [0.5, 1.0]]])


def test_a_weight_above_the_scale_is_framed_and_the_scale_says_so():
    scene = weights_picture(ABOVE, TOKENS[:2])
    cells, frames = boxes(scene, 40, 40), boxes(scene, 38, 38)
    assert [(frame.x - 1, frame.y - 1) for frame in frames] == [(cells[0].x, cells[0].y)]
    assert cells[0].fill == cells[3].fill == weight_color(1.0)
    assert "> 1" in [item.text for item in words(scene)]
    assert "> 1" not in [item.text for item in words(weights_picture(causal_weights(1), TOKENS))]


def test_a_weight_above_the_scale_that_is_marked_has_both_frames():
    scene = weights_picture(ABOVE, TOKENS[:2], marked=ABOVE > 0.6)
    (inner,), outer = boxes(scene, 32, 32), boxes(scene, 37, 37)
    assert len(outer) == 2
    assert (inner.x - 4, inner.y - 4) == (outer[0].x - 1.5, outer[0].y - 1.5)
    assert (inner.stroke, outer[0].stroke) == (INK, WRONG)
    assert boxes(scene, 38, 38) == []


def test_marked_cells_are_framed():
    marked = torch.zeros(5, 5, dtype=torch.bool)
    marked[1, 3] = True
    scene = weights_picture(causal_weights(2), TOKENS, HIDDEN, marked=marked)
    frames, cells = boxes(scene, 37, 37), boxes(scene, 40, 40)
    assert [(f.x - 1.5, f.y - 1.5) for f in frames] == [(c.x, c.y) for c in (cells[8], cells[33])]
    assert {frame.stroke for frame in frames} == {WRONG}


def test_right_and_wrong_stand_side_by_side_with_the_leaks_framed():
    right, wrong = causal_weights(), torch.full((5, 5), 0.2)
    wrong[0, 1:4] = 0.0
    scene = leaks_picture(right, wrong, TOKENS)
    assert len(boxes(scene, 37, 37)) == 10 - 3
    assert scene.width <= BOOK
    bold = [item.text for item in words(scene) if item.bold]
    sums = [f"{row.sum():.2f}" for row in wrong]
    assert bold == ["right", *["1.00"] * 5, "wrong", *sums]
    assert [item.text for item in words(scene)].count("0") == 10 + 3 + 1  # hidden, and the scale's
    assert scene.alt.startswith("Right and wrong weights side by side. 7 cells leak, framed in red")
    assert "Your sees one (0.20), journey sees starts (0.20)" in scene.alt
    assert scene.alt.endswith(", and 1 more.")
    assert leaks_picture(right, right, TOKENS).alt.endswith("0 cells leak, framed in red.")


def test_the_alt_text_of_weights_says_who_looks_where():
    equal = torch.tensor([[[1.0, 0.0], [0.75, 0.25]]])
    scene = weights_picture(equal, TOKENS[:2], HIDDEN[:2, :2])
    assert scene.alt == (
        "attention weights, queries down, keys across. head 0: journey most at Your (0.75). "
        "The future, above the diagonal, is gray."
    )
    leaking = weights_picture(torch.full((1, 2, 2), 0.5), TOKENS[:2])
    assert leaking.alt.endswith("Above the diagonal 1 weights are not 0.")


def test_a_weight_that_is_not_a_number_is_hatched():
    scene = weights_picture(torch.tensor([[[torch.nan, 0.0], [0.5, 0.5]]]), TOKENS[:2])
    maps = boxes(scene, 40, 40)
    assert [cell.hatched for cell in maps] == [True, False, False, False]
    assert [text_in(scene, cell) for cell in maps] == ["NaN", "0.00", "0.50", "0.50"]
    assert scene.alt.endswith("Hatched cells are NaN.")


def test_names_lie_level_slant_or_stand_upright():
    """Level where they have room, as numbers far apart have; upright where cells are small."""
    far = ["" if i % 8 else str(i) for i in range(17)]
    for tokens, cell, angle in ((TOKENS, 64, 0), (TOKENS, 24, 45), (TOKENS, 17, 90), (far, 7, 0)):
        size = len(tokens)
        scene = weights_picture(torch.eye(size)[None], tokens, cell=cell)
        assert {item.angle for item in words(scene) if item.text == tokens[0]} == {0, angle}
