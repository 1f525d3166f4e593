"""The step panels: the traced lines, and the eleven steps of the worked example."""

import pytest
import torch
from torch import nn

from attncourse.checks import telling
from attncourse.examples import SEED, counting, counting_weights, three_rows
from attncourse.panels.steps import NUMBER_STEPS, SHAPE_STEPS, OnePiece, eleven_steps, step_panel
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, INK, PAPER, QUIET, head_color, tint, weight_color
from attncourse.pictures.scene import Box, Words
from attncourse.pictures.tensors import VALUE_HEIGHT, VALUE_WIDTH, listing_picture, tensor_picture
from attncourse.tracing import numbered_lines, trace
from attnlib import MultiHeadAttention, causal_mask


def words(scene):
    return [item.text for item in scene.items if isinstance(item, Words)]


def cells(scene):
    """Return the cells of tensors in a scene, and the words that stand in them."""
    boxes = [i for i in scene.items if isinstance(i, Box) and i[2:4] == (VALUE_WIDTH, VALUE_HEIGHT)]
    inside = [
        item
        for box in boxes
        for item in scene.items
        if isinstance(item, Words) and 0 < item.x - box.x < box.width
        if item.anchor == "end" and item.mono and 0 < item.y - box.y < box.height
    ]
    return boxes, inside


def shape_trace():
    module, x = telling(OnePiece)
    return trace(module, x)


def written(values):
    """Return the numbers of a tensor as its picture has them."""
    whole = torch.equal(values, values.round())
    digits = 0 if whole else 1 if values[values.isfinite()].abs().max() >= 100 else 2
    return [str(v) if isinstance(v, int) else f"{v:.{digits}f}" for v in values.flatten().tolist()]


def worked_module(num_heads):
    """Return MultiHeadAttention with the worked example's weights and nothing after the heads."""
    split = MultiHeadAttention(6, 6, 3, 0.0, num_heads)
    names = ("W_query", "W_key", "W_value")
    state = {f"{n}.weight": W.T for n, W in zip(names, counting_weights(), strict=True)}
    state |= {"out_proj.weight": torch.eye(6), "out_proj.bias": torch.zeros(6)}
    split.load_state_dict(state)
    return split


def test_the_slider_has_a_stop_for_every_step_of_the_trace():
    assert SHAPE_STEPS.controls["step"] == tuple(range(1, len(shape_trace()) + 1))


def test_each_stop_shows_the_line_and_the_tensor_of_its_step():
    for number, step in enumerate(shape_trace().steps, start=1):
        data = SHAPE_STEPS.compute(step=number)
        assert torch.equal(data.step.values, step.values)
        line = SHAPE_STEPS.readout(data)
        assert line.startswith(f"Step {number} of 14: line {step.line} of {step.function} ")
        assert step.name in line
        assert str(step.shape) in line
        shown = words(SHAPE_STEPS.draw(data))
        current = data.text.splitlines()[step.line - 1]
        assert current in shown
        assert set(written(step.values)) <= set(shown)


def test_the_readout_tells_what_the_variable_was_before():
    data = SHAPE_STEPS.compute(step=6)
    assert data.before.shape == (1, 5, 2, 3)
    assert SHAPE_STEPS.readout(data) == (
        "Step 6 of 14: line 8 of OnePiece.forward makes values anew, (1, 2, 5, 3), before "
        "(1, 5, 2, 3); strides (30, 3, 6, 1)"
    )
    in_place = SHAPE_STEPS.readout(SHAPE_STEPS.compute(step=8))
    assert in_place.endswith("changes attn_scores in place, (1, 2, 5, 5)")


def test_before_is_the_time_right_before():
    class Shrink(nn.Module):
        def forward(self, x):
            y = x + x
            y = y[:1]
            y = y.sum()
            return y

    panel = step_panel(trace(Shrink(), torch.ones(3)))
    assert panel.readout(panel.compute(step=4)).endswith("makes y anew, (), before (1,)")


def test_a_panel_steps_through_any_trace():
    class Double(nn.Module):
        def forward(self, x):
            y = x + x
            return y

    panel = step_panel(trace(Double(), torch.tensor([[1.5, 2.5]])), "double")
    assert len(panel.states()) == 2
    assert "3" in words(panel.draw(panel.compute(step=2)))
    with pytest.raises(ValueError, match="the trace has no steps to show"):
        step_panel(trace(Double(), 1))


def test_a_tensor_keeps_the_names_of_its_dimensions_where_a_line_has_no_shape_comment():
    torch.manual_seed(SEED)
    split = MultiHeadAttention(6, 6, 3, 0.0, num_heads=2)
    panel = step_panel(trace(split, three_rows().inputs[None], depth=1))
    for number in (22, 23):  # what attention hands back to forward
        dims = panel.compute(step=number).step.dims
        assert dims[:2] == ("b", "num_heads")

    class Masked(nn.Module):
        def forward(self, x):
            y = x * 2  # (b, num_heads, num_tokens, num_tokens)
            y.masked_fill_(y > 1, 0.0)
            return y + 1

    panel = step_panel(trace(Masked(), torch.rand(1, 2, 3, 3)))
    named = [len(panel.compute(step=number).step.dims) for number in (1, 2, 3, 4)]
    assert named == [4, 4, 4, 4]


def test_heads_colour_the_dimension_that_is_theirs():
    values = torch.arange(12.0).view(1, 2, 3, 2)
    by_head = tensor_picture("q", values, ("b", "num_heads", "num_tokens", "head_dim"))
    by_token = tensor_picture("q", values.transpose(1, 2), ("b", "num_tokens", "num_heads", "d"))
    merged = tensor_picture("q", values.view(1, 2, 6), ("b", "num_tokens", "num_heads * d"), 2)
    for scene in (by_head, by_token, merged):
        fills = [item.fill for item in scene.items if isinstance(item, Box)]
        assert [fills.count(tint(head_color(h), 0.3)) for h in (0, 1)] == [6, 6]
    plain = tensor_picture("q", values)
    assert len({item.fill for item in plain.items if isinstance(item, Box)}) == 1


def test_minus_infinity_and_true_are_flat_grey_and_only_nan_is_hatched():
    values = torch.tensor([[0.0, -torch.inf], [torch.nan, 2.0]])
    boxes, words = cells(tensor_picture("s", values))
    assert [box.fill == QUIET for box in boxes] == [False, True, False, False]
    assert [box.hatched for box in boxes] == [False, False, True, False]
    assert [word.color for word in words] == [INK, FAINT, INK, INK]
    boxes, words = cells(tensor_picture("m", torch.tensor([[False, True]])))
    assert [box.fill == QUIET for box in boxes] == [False, True]
    assert [word.color for word in words] == [INK, FAINT]


def test_weights_have_the_color_of_weights_and_the_future_is_flat_grey():
    rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.25, 0.5, 0.25]]
    scene = tensor_picture("attn_weights", torch.tensor(rows)[None], ("num_heads", "", ""))
    boxes, words = cells(scene)
    expected = [weight_color(weight, 0) for row in rows for weight in row]
    expected[1] = expected[2] = expected[5] = QUIET
    assert [box.fill for box in boxes] == expected
    assert expected[3] == "#ffffff"  # a weight of 0 on the past
    assert [w.text for w in words] == [
        "1.00",
        "0",
        "0",
        "0.00",
        "1.00",
        "0",
        *("0.25", "0.50", "0.25"),
    ]
    assert [word.color == FAINT for word in words] == [color == QUIET for color in expected]
    assert scene.alt.endswith("The future, above the diagonal, is gray.")
    seen = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.0, 0.5]])  # two queries, the last ones
    boxes, _ = cells(tensor_picture("attn_weights", seen))
    assert [box.fill == QUIET for box in boxes] == [False, False, True, False, False, False]
    boxes, _ = cells(tensor_picture("attn_weights", torch.full((2, 2), torch.nan)))
    assert all(box.hatched and box.fill == PAPER for box in boxes)


def test_the_weights_of_both_panels_have_the_color_of_weights():
    shape, number = SHAPE_STEPS.compute(step=10), NUMBER_STEPS.compute(step=8, num_heads=2)
    for panel, data, gray in ((SHAPE_STEPS, shape, 2 * 10), (NUMBER_STEPS, number, 2 * 2 * 3)):
        fills = [box.fill for box in cells(panel.draw(data))[0]]
        assert {weight_color(1.0, head) for head in (0, 1)} <= set(fills)
        assert fills.count(QUIET) == gray


@pytest.mark.parametrize("num_heads", [1, 2, 3, 6])
def test_names_and_places_stay_from_scores_to_context_vectors(num_heads):
    scores, softmax, context = (
        NUMBER_STEPS.draw(NUMBER_STEPS.compute(step=step, num_heads=num_heads))
        for step in (7, 8, 9)
    )
    shape = f"(b, num_heads, num_tokens, num_tokens) = (1, {num_heads}, 3, 3)"
    titles = {f"masked and scaled: {shape}", f"attn_weights: {shape}"}
    assert titles <= set(words(softmax))
    named = [
        {w for w in words(scene) if w[:5] in ("head ", "token")} for scene in (scores, context)
    ]
    assert {w for w in words(softmax) if w[:5] in ("head ", "token")} == named[0] == named[1]
    first, _ = cells(scores)
    later, _ = cells(softmax)
    assert [box[:4] for box in later[: len(first)]] == [box[:4] for box in first]


def test_a_tensor_of_one_dimension_is_a_row_without_a_name():
    for num_heads in (1, 2, 3, 6):
        scene = NUMBER_STEPS.draw(NUMBER_STEPS.compute(step=2, num_heads=num_heads))
        assert words(scene) == ["column: (num_heads * head_dim) = (6,)", *"012345"]


@pytest.mark.parametrize("panel", [SHAPE_STEPS, NUMBER_STEPS], ids=lambda panel: panel.name)
def test_every_number_has_room_in_its_cell(panel):
    for state in panel.states():
        for box, word in zip(*cells(panel.draw(panel.compute(**state))), strict=True):
            left = word.x - text_width(word.text, word.size, mono=True)
            assert left - box.x >= 4, (state, word.text)
            assert box.x + box.width - word.x >= 4, (state, word.text)


def test_the_numbers_are_no_wider_than_a_screen():
    scenes = [NUMBER_STEPS.draw(NUMBER_STEPS.compute(**state)) for state in NUMBER_STEPS.states()]
    assert max(scene.width for scene in scenes) < 1000


def test_the_listing_cuts_the_docstring_and_keeps_the_numbers():
    text = 'def f(x):\n    """One.\n\n    Two.\n    """\n    y = x\n    return y'
    shown = words(listing_picture(numbered_lines(text), 6, 6))
    assert shown == ["1", "def f(x):", "2", '    """One."""', "6", "    y = x", "7", "    return y"]


@pytest.mark.parametrize("num_heads", [1, 2, 3, 6])
def test_the_eleven_steps_end_where_the_class_ends(num_heads):
    merged, _ = eleven_steps(num_heads)[-1].tensors["merged"]
    x = counting().inputs[None]
    context_vec, attn_weights = worked_module(num_heads)(x, return_weights=True)
    torch.testing.assert_close(merged, context_vec)
    torch.testing.assert_close(eleven_steps(num_heads)[7].tensors["attn_weights"][0], attn_weights)


def test_the_worked_weights_are_not_saturated():
    attn_weights, _ = eleven_steps(2)[7].tensors["attn_weights"]
    largest = attn_weights[0, :, 1:].max(dim=-1).values  # the first query sees one key only
    assert largest.max() < 0.95
    assert largest.min() > 0.4


def test_every_number_of_every_state_stands_in_its_picture():
    for state in NUMBER_STEPS.states():
        data = NUMBER_STEPS.compute(**state)
        shown = words(NUMBER_STEPS.draw(data))
        line = NUMBER_STEPS.readout(data)
        assert line.startswith(f"Step {data.number} of 11, {state['num_heads']} head")
        for tensor, _ in data.tensors.values():
            if data.number == 8:  # the future is -inf and then 0, without decimals
                tensor = tensor.masked_fill(causal_mask(3), 0.5)
                shown = [*shown, "0.50"]
            assert set(written(tensor)) <= set(shown)


def test_the_class_in_one_piece_is_the_class():
    module, _ = telling(OnePiece)
    theirs = MultiHeadAttention(4, 6, 5, 0.0, num_heads=2)
    theirs.load_state_dict(module.state_dict())
    noise = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(SEED)) / 10
    for one, other in zip(
        module(noise, return_weights=True), theirs(noise, return_weights=True), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_sizes_that_name_themselves_name_every_tensor():
    dims = {step: SHAPE_STEPS.compute(step=step).step.dims for step in SHAPE_STEPS.controls["step"]}
    assert dims[2] == dims[3] == ("b", "num_heads", "num_tokens", "head_dim")
    assert {dims[n] for n in (7, 8, 9, 10)} == {("b", "num_heads", "num_tokens", "num_tokens")}
    assert dims[1] == ("b", "num_tokens", "")  # nothing in the class names the width of x
    shown = words(SHAPE_STEPS.draw(SHAPE_STEPS.compute(step=1)))
    assert {"x: (b, num_tokens, 4) = (1, 5, 4)", "token 0", "token 4"} <= set(shown)


def test_sizes_that_are_two_things_name_nothing():
    class Square(nn.Module):
        def forward(self, x):
            y = x * 2  # (b, num_tokens, num_tokens)
            z = x + 1  # (b, num_tokens, head_dim)
            return y @ z

    panel = step_panel(trace(Square(), torch.rand(1, 3, 3)))
    assert [panel.compute(step=n).step.dims for n in (1, 4)] == [(), ()]
