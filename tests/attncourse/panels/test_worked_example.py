"""The eleven steps of the worked example, and attention with one step on each line."""

import pytest
import torch

from attncourse.checks import traceable_example
from attncourse.examples import SEED, counting, counting_weights
from attncourse.panels import WORKED_EXAMPLE, InlinedAttention
from attncourse.pictures.scene import Text
from attnlib import MultiHeadAttention

each_count = pytest.mark.parametrize("num_heads", [1, 2, 3, 6])


@each_count
def test_the_eleven_steps_end_where_the_class_ends(num_heads):
    split = MultiHeadAttention(6, 6, 3, 0.0, num_heads)
    names = ("W_query", "W_key", "W_value")
    state = {f"{n}.weight": W.T for n, W in zip(names, counting_weights(), strict=True)}
    split.load_state_dict(
        state | {"out_proj.weight": torch.eye(6), "out_proj.bias": torch.zeros(6)}
    )
    context_vec, attn_weights = split(counting().inputs[None], return_weights=True)
    weights, _ = WORKED_EXAMPLE.compute(step=8, num_heads=num_heads).tensors["attn_weights"]
    merged, _ = WORKED_EXAMPLE.compute(step=11, num_heads=num_heads).tensors["merged"]
    torch.testing.assert_close(weights, attn_weights)
    torch.testing.assert_close(merged, context_vec)


@each_count
def test_every_number_stands_in_its_picture(num_heads):
    for step in (4, 7, 9, 11):
        data = WORKED_EXAMPLE.compute(step=step, num_heads=num_heads)
        shown = {
            item.text
            for scene in WORKED_EXAMPLE.draw(data)
            for item in scene.items
            if isinstance(item, Text)
        }
        line = WORKED_EXAMPLE.readout(data)
        assert line.startswith(f"Step {step} of 11, {num_heads} head")
        for tensor, _ in data.tensors.values():
            digits = 0 if tensor.equal(tensor.round()) else 2
            assert {f"{value:.{digits}f}" for value in tensor.flatten().tolist()} <= shown


def test_the_inlined_forward_is_that_of_the_class():
    module, _ = traceable_example(InlinedAttention)
    theirs = MultiHeadAttention(4, 6, 5, 0.0, num_heads=2)
    theirs.load_state_dict(module.state_dict())
    noise = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(SEED)) / 10
    both = (its(noise, return_weights=True) for its in (module, theirs))
    for one, other in zip(*both, strict=True):
        torch.testing.assert_close(one, other)
