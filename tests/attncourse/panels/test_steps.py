"""The eleven steps of the worked example, and the class in one piece."""

import pytest
import torch

from attncourse.checks import telling
from attncourse.examples import SEED, counting, counting_weights
from attncourse.panels.steps import NUMBER_STEPS, OnePiece, eleven_steps
from attncourse.pictures.letters import text_width
from attncourse.pictures.matrices import VALUE_HEIGHT, VALUE_WIDTH
from attncourse.pictures.palette import QUIET, weight_color
from attncourse.pictures.scene import Box, Words
from attnlib import MultiHeadAttention, causal_mask


def words(scene):
    return [item.text for item in scene.items if isinstance(item, Words)]


def cells(scene):
    boxes = [i for i in scene.items if isinstance(i, Box) and i[2:4] == (VALUE_WIDTH, VALUE_HEIGHT)]
    inside = [
        item
        for box in boxes
        for item in scene.items
        if isinstance(item, Words) and 0 < item.x - box.x < box.width
        if item.anchor == "end" and item.mono and 0 < item.y - box.y < box.height
    ]
    return boxes, inside


def written(values):
    whole = torch.equal(values, values.round())
    digits = 0 if whole else 1 if values[values.isfinite()].abs().max() >= 100 else 2
    return [str(v) if isinstance(v, int) else f"{v:.{digits}f}" for v in values.flatten().tolist()]


def worked_module(num_heads):
    split = MultiHeadAttention(6, 6, 3, 0.0, num_heads)
    names = ("W_query", "W_key", "W_value")
    state = {f"{n}.weight": W.T for n, W in zip(names, counting_weights(), strict=True)}
    state |= {"out_proj.weight": torch.eye(6), "out_proj.bias": torch.zeros(6)}
    split.load_state_dict(state)
    return split


def test_the_weights_have_the_color_of_weights():
    fills = [box.fill for box in cells(NUMBER_STEPS.draw(eleven_steps(2)[7]))[0]]
    assert {weight_color(1.0, head) for head in (0, 1)} <= set(fills)
    assert fills.count(QUIET) == 2 * 2 * 3  # the future of two heads, as -inf and as 0


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


def test_every_number_has_room_in_its_cell_and_all_on_a_screen():
    for state in NUMBER_STEPS.states():
        scene = NUMBER_STEPS.draw(NUMBER_STEPS.compute(**state))
        assert scene.width < 1000
        for box, word in zip(*cells(scene), strict=True):
            left = word.x - text_width(word.text, word.size, mono=True)
            assert left - box.x >= 4, (state, word.text)
            assert box.x + box.width - word.x >= 4, (state, word.text)


@pytest.mark.parametrize("num_heads", [1, 2, 3, 6])
def test_the_eleven_steps_end_where_the_class_ends(num_heads):
    merged, _ = eleven_steps(num_heads)[-1].tensors["merged"]
    x = counting().inputs[None]
    context_vec, attn_weights = worked_module(num_heads)(x, return_weights=True)
    torch.testing.assert_close(merged, context_vec)
    torch.testing.assert_close(eleven_steps(num_heads)[7].tensors["attn_weights"][0], attn_weights)


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
    both = (its(noise, return_weights=True) for its in (module, theirs))
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(one, other)
