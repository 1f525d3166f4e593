"""The panel that compares PyTorch's MultiheadAttention with ours, and lets the call go wrong."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncourse.compare import all_gradients, at_most
from attncourse.examples import journey, seeded
from attncourse.panels.panel import Heatmap, Panel, cell_texts, draw_maps
from attncourse.pictures.scene import Scene
from attncourse.variants.torch_multihead import MultiheadAttention
from attnlib.functional import causal_mask

EMBED_DIM = 12
HEAD_COUNTS = (1, 2, 3, 4, 6)  # twelve maps would not fit on a laptop
CALLS = "as it should be", "mask inverted", "batch_first forgotten", "biases not copied"
SMALLEST_DIFFERENCE = 1e-6  # smaller ones vary from machine to machine


class TorchEquality(NamedTuple):
    """The largest differences between PyTorch's module and ours, and the weights of the heads."""

    tokens: tuple[str, ...]
    num_heads: int
    call: str
    differences: dict[str, float]  # NaN where PyTorch's module returns NaN
    attn_weights: Tensor  # (num_heads, num_tokens, num_tokens), of ours
    their_weights: Tensor  # (num_heads, num_tokens, num_tokens)


def compute_torch_equality(num_heads: int, call: str = CALLS[0]) -> TorchEquality:
    """Run both modules with the same parameters on the six tokens, widened to EMBED_DIM.

    Args:
        num_heads: of both.
        call: one of CALLS; how PyTorch's module is made and called. Ours is called as it should be.
    """
    tokens, inputs = journey()
    with seeded():
        x = inputs @ (2 * torch.randn(3, EMBED_DIM))  # (num_tokens, embed_dim)
        theirs = nn.MultiheadAttention(EMBED_DIM, num_heads, batch_first=True)
        ours = MultiheadAttention(EMBED_DIM, num_heads, batch_first=True)
        for parameter in theirs.parameters():  # the biases too, which are zeros in a new module
            nn.init.normal_(parameter, std=0.2)
    ours.load_state_dict(theirs.state_dict())
    _break(theirs, call)
    theirs_made, ours_made = _run(theirs, x, call), _run(ours, x)
    both = zip(("outputs", "weights", "gradients"), theirs_made, ours_made, strict=True)
    differences = {name: (a - b).abs().max().item() for name, a, b in both}
    weights = ours_made[1][0], theirs_made[1][0]
    return TorchEquality(tokens, num_heads, call, differences, *weights)


def _break(module: nn.MultiheadAttention, call: str) -> None:
    """Make the module as in the call; an inverted mask is a matter of _run."""
    if call == "batch_first forgotten":
        module.batch_first = False
    if call == "biases not copied":
        assert module.in_proj_bias is not None
        assert module.out_proj.bias is not None
        nn.init.zeros_(module.in_proj_bias)
        nn.init.zeros_(module.out_proj.bias)


def _run(module: nn.Module, x: Tensor, call: str = CALLS[0]) -> tuple[Tensor, Tensor, Tensor]:
    """Return outputs, weights of each head, and all gradients of the mean square in one row."""
    with torch.enable_grad():
        x = x[None].requires_grad_()  # (b, num_tokens, embed_dim)
        is_masked = causal_mask(x.shape[1])
        if call == "mask inverted":  # as F.scaled_dot_product_attention has it: True may be seen
            is_masked = ~is_masked
        if call == "batch_first forgotten":  # then this is a batch of texts with one token each
            is_masked = causal_mask(x.shape[0])
        outputs, weights = module(x, x, x, attn_mask=is_masked, average_attn_weights=False)
        learned = [parameter for _, parameter in sorted(module.named_parameters())]
        gradients = all_gradients(outputs, [x, *learned])
    if call == "batch_first forgotten":  # one token in each text, which sees itself
        weights = torch.diag_embed(weights[:, :, 0, 0].T)[None]
    return outputs.detach(), weights.detach(), gradients


def draw_torch_equality(data: TorchEquality) -> list[Scene]:
    """Draw the weights of PyTorch's heads; what no query attends to is gray."""
    nobody = (data.their_weights.nan_to_num(1.0) == 0).all(dim=0)
    return draw_maps(data.their_weights, data.tokens, nobody)


def heatmaps_of_both(data: TorchEquality) -> list[Heatmap]:
    """Return the maps; each cell says the weight in PyTorch's module and in ours."""
    both = zip(data.their_weights, data.attn_weights, strict=True)
    return [
        Heatmap(f"head {h}", data.tokens, cell_texts(PyTorch=theirs, ours=ours))
        for h, (theirs, ours) in enumerate(both)
    ]


def readout_torch_equality(data: TorchEquality) -> str:
    """Return how far apart the two modules are."""
    bounds = ", ".join(f"{name} {_bound(value)}" for name, value in data.differences.items())
    heads = "1 head" if data.num_heads == 1 else f"{data.num_heads} heads"
    return (
        f"{heads} of width {EMBED_DIM // data.num_heads}, {data.call}. "
        f"Largest differences from ours: {bounds}."
    )


def _bound(difference: float) -> str:
    """Return a difference rounded up to a power of ten, so that all machines say the same."""
    if math.isnan(difference):
        return "NaN"
    bound = f"<= {at_most(difference, SMALLEST_DIFFERENCE):.0e}"
    return bound.replace("e-", "e−")  # a true minus: no line ends behind it


TORCH_EQUALITY = Panel(
    name="torch equality",
    controls={"num_heads": HEAD_COUNTS, "call": CALLS},
    default={"num_heads": 2, "call": CALLS[0]},
    compute=compute_torch_equality,
    draw=draw_torch_equality,
    readout=readout_torch_equality,
    heatmaps=heatmaps_of_both,
    static_states=tuple({"num_heads": 2, "call": call} for call in CALLS),
)
