"""The panel that compares PyTorch's MultiheadAttention with ours."""

import pytest
import torch
from torch import Tensor, nn

from attncourse.examples import journey
from attncourse.panels import TORCH_EQUALITY
from attncourse.panels.torch_equality import CALLS
from attncourse.variants.torch_multihead import MultiheadAttention

IS_FUTURE = torch.ones(6, 6).triu(1).bool()
each_state = pytest.mark.parametrize("num_heads", TORCH_EQUALITY.controls["num_heads"])


def both(num_heads: int) -> tuple[Tensor, nn.MultiheadAttention, MultiheadAttention]:
    """Return the panel's tokens, (1, 6, 12), PyTorch's module, and ours with its weights."""
    torch.manual_seed(123)
    x = journey().inputs[None] @ (2 * torch.randn(3, 12))
    theirs = nn.MultiheadAttention(12, num_heads, batch_first=True)
    ours = MultiheadAttention(12, num_heads, batch_first=True)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.2)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return x, theirs, ours


def run(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    x = x.clone().requires_grad_()
    outputs, weights = module(x, x, x, attn_mask=IS_FUTURE, average_attn_weights=False)
    outputs.pow(2).mean().backward()
    gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
    return outputs.detach(), weights.detach(), {"x": x.grad, **gradients}


@each_state
def test_its_numbers_are_those_of_the_two_modules(num_heads):
    x, theirs, ours = both(num_heads)
    outputs, weights, gradients = run(theirs, x)
    our_outputs, our_weights, our_gradients = run(ours, x)
    with torch.no_grad():  # as in the notebook
        data = TORCH_EQUALITY.compute(num_heads=num_heads)
        assert not torch.is_grad_enabled()
    assert data.differences == {
        "outputs": (outputs - our_outputs).abs().max(),
        "weights": (weights - our_weights).abs().max(),
        "gradients": max((gradients[n] - our_gradients[n]).abs().max() for n in gradients),
    }
    assert torch.equal(data.attn_weights, our_weights[0])
    assert not data.attn_weights.requires_grad
    assert TORCH_EQUALITY.readout(data).endswith(
        "as it should be. Largest differences from ours: "
        "outputs <= 1e−06, weights <= 1e−06, gradients <= 1e−06."
    )


def broken(call: str, num_heads: int) -> tuple[Tensor, Tensor]:
    """Return the outputs and weights of PyTorch's module when the call goes wrong."""
    x, theirs, _ = both(num_heads)
    if call == "batch_first forgotten":  # six sequences of one token
        alone = x[0, :, None]
        outputs, _ = theirs(alone, alone, alone, average_attn_weights=False)
        return outputs[:, 0].detach(), torch.eye(6).expand(num_heads, 6, 6)
    for name, parameter in theirs.named_parameters():
        if "bias" in name and call == "biases not copied":
            nn.init.zeros_(parameter)
    mask = ~IS_FUTURE if call == "mask inverted" else IS_FUTURE
    outputs, weights = theirs(x, x, x, attn_mask=mask, average_attn_weights=False)
    return outputs[0].detach(), weights[0].detach()


@each_state
@pytest.mark.parametrize("call", CALLS[1:])
def test_a_call_that_goes_wrong_gives_large_differences(call, num_heads):
    data = TORCH_EQUALITY.compute(num_heads=num_heads, call=call)
    outputs, weights = broken(call, num_heads)
    right = run(both(num_heads)[1], both(num_heads)[0])[0][0]
    torch.testing.assert_close(data.their_weights, weights, equal_nan=True)
    apart = (outputs - right).abs().max()
    torch.testing.assert_close(
        torch.tensor(data.differences["outputs"]), apart, equal_nan=True, atol=1e-6, rtol=0
    )
    if call == "mask inverted":  # the last token attends to nothing
        assert data.their_weights[:, -1].isnan().all()
        assert "outputs NaN, weights NaN, gradients NaN" in TORCH_EQUALITY.readout(data)
    else:
        assert min(data.differences.values()) > 1e-3
