"""Matrices and tensors: every value in its place, in the color of its head."""

import pytest
import torch

from attncourse.pictures import palette
from attncourse.pictures.matrices import (
    VALUE_HEIGHT,
    VALUE_WIDTH,
    difference_picture,
    matrix_picture,
    tensor_picture,
)
from attncourse.pictures.scene import Box
from support.pictures import boxes, check_readable, numbers, text_in, words

TOKENS = ("Your", "journey", "starts", "with", "one")
OWNERS = [0, 0, 0, 1, 2, 2]


MATRIX = numbers(5, 6)
EVERY = {
    "matrix": matrix_picture(MATRIX, TOKENS, OWNERS, "context_vec", 4),
    "matrix of two digits": matrix_picture(MATRIX, TOKENS, OWNERS, "x", digits=2),
    "differences": difference_picture(MATRIX.abs(), TOKENS, "what moved"),
    "a long title": difference_picture(torch.ones(5, 1), TOKENS, "a title wider than the cells"),
    "a tensor": tensor_picture("q", MATRIX[None], ("b", "num_tokens", "num_heads * d"), 3),
}


@pytest.mark.parametrize("scene", EVERY.values(), ids=EVERY)
def test_everything_can_be_read(scene):
    check_readable(scene)


@pytest.mark.parametrize("digits", [2, 4])
def test_a_matrix_shows_each_value_to_its_digits(digits):
    scene = matrix_picture(MATRIX, TOKENS, OWNERS, "x", digits)
    cells = boxes(scene, 30 + 8 * digits, 24)
    shown = [text_in(scene, cell) for cell in cells]
    assert shown == [f"{value:.{digits}f}" for value in MATRIX.flatten().tolist()]


def test_columns_have_the_color_of_their_head():
    scene = matrix_picture(MATRIX, TOKENS, OWNERS, "context_vec", 4)
    cells = boxes(scene, 62, 24)
    assert [cell.fill for cell in cells[:6]] == [
        palette.tint(palette.head_color(head), 0.22) for head in OWNERS
    ]
    strips = [item for item in scene.items if isinstance(item, Box) and item.height == 18]
    assert [strip.fill for strip in strips] == [palette.head_color(head) for head in range(3)]
    assert [text_in(scene, strip) for strip in strips] == ["head 0", "head 1", "head 2"]
    for strip, (first, last) in zip(strips, [(0, 2), (3, 3), (4, 5)], strict=True):
        assert cells[first].x < strip.x
        assert strip.x + strip.width < cells[last].x + 62


def test_differences_show_exact_zeros_as_white_cells():
    """On a dark page too; a difference too small to print is colored: it is not zero."""
    difference = torch.tensor([[0.0, 0.25], [1e-30, 0.0], [0.0, 0.5]])
    scene = difference_picture(difference, TOKENS[:3], "what moved")
    cells = boxes(scene, 54, 26)
    shown = [text_in(scene, cell) for cell in cells]
    assert shown == ["0", "0.250", "0.000", "0", "0", "0.500"]
    assert [cell.fill == palette.amount_color(0) for cell in cells] == [
        *(True, False, False, True, True, False)
    ]
    assert palette.amount_color(0) == "#ffffff"
    assert cells[5].fill == palette.amount_color(1.0)
    assert scene.alt == "what moved: 0 of 3 rows did not move at all."


def test_what_is_not_a_number_is_hatched():
    nan = torch.nan
    scene = difference_picture(torch.tensor([[0.0, nan], [0.25, 0.5]]), TOKENS[:2], "what moved")
    cells = boxes(scene, 54, 26)
    assert [text_in(scene, cell) for cell in cells] == ["0", "NaN", "0.250", "0.500"]
    assert [cell.hatched for cell in cells] == [False, True, False, False]
    assert cells[3].fill == palette.amount_color(1.0)
    assert scene.alt == "what moved: 0 of 2 rows did not move at all."


def test_no_difference_at_all():
    scene = difference_picture(torch.zeros(5, 2), TOKENS, "what moved")
    assert {text_in(scene, cell) for cell in boxes(scene, 54, 26)} == {"0"}
    assert scene.alt == "what moved: 5 of 5 rows did not move at all."
    some = difference_picture(torch.tensor([[0.0], [0.5], [0.0]]), TOKENS[:3], "what moved")
    assert some.alt == "what moved: 2 of 3 rows did not move at all (Your, starts)."


# A tensor of any rank


def test_heads_color_the_dimension_that_is_theirs():
    values = torch.arange(12.0).view(1, 2, 3, 2)
    for shown, dims in (
        (values, ("b", "num_heads", "num_tokens", "head_dim")),
        (values.transpose(1, 2), ("b", "num_tokens", "num_heads", "head_dim")),
        (values.view(1, 2, 6), ("b", "num_tokens", "num_heads * head_dim")),
    ):
        scene = tensor_picture("q", shown, dims, 2)
        fills = [item.fill for item in scene.items if isinstance(item, Box)]
        assert [fills.count(palette.tint(palette.head_color(h), 0.3)) for h in (0, 1)] == [6, 6]
    plain = tensor_picture("x", values.view(1, 6, 2), ("b", "num_tokens", "d_in"), 2)
    assert len({item.fill for item in plain.items if isinstance(item, Box)}) == 1


def test_minus_infinity_is_flat_gray():
    values = torch.tensor([[0.0, -torch.inf], [1.5, 2.0]])
    scene = tensor_picture("scores", values, ("num_tokens", "num_keys"), 1)
    cells = boxes(scene, VALUE_WIDTH, VALUE_HEIGHT)
    assert [cell.fill == palette.QUIET for cell in cells] == [False, True, False, False]
    shown = [item for item in words(scene) if item.mono]
    assert [(item.text, item.color == palette.FAINT) for item in shown] == [
        *(("0.00", False), ("-inf", True), ("1.50", False), ("2.00", False))
    ]
    assert {item.color for item in shown} == {palette.INK, palette.FAINT}


def test_weights_have_the_color_of_weights_and_the_future_is_flat_gray():
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.25, 0.5, 0.25]]
    dims = ("num_heads", "num_tokens", "num_tokens")
    scene = tensor_picture("attn_weights", torch.tensor(rows)[None], dims, 1)
    fills = [palette.weight_color(weight, 0) for row in rows for weight in row]
    fills[1] = fills[2] = fills[5] = palette.QUIET
    assert [cell.fill for cell in boxes(scene, VALUE_WIDTH, VALUE_HEIGHT)] == fills
    assert fills[3] == "#ffffff"  # a weight of 0 on the past
    shown = [item for item in words(scene) if item.mono]
    assert " ".join(item.text for item in shown) == "1.00 0 0 0.00 1.00 0 0.25 0.50 0.25"
    assert [item.color == palette.FAINT for item in shown] == [
        fill == palette.QUIET for fill in fills
    ]
    assert scene.alt.endswith("The future, above the diagonal, is gray.")
