"""The panel that compares PyTorch's MultiheadAttention with ours, head count by head count."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlib.compare import all_gradients, at_most
from attnlib.examples import journey, seeded
from attnlib.functional import causal_mask
from attnlib.panels.panel import Panel
from attnlib.pictures.palette import FAINT, INK, QUIET
from attnlib.pictures.scene import Box, Item, Line, Scene, Words, beside
from attnlib.pictures.tensors import weights_picture
from attnlib.torch_compatible import MultiheadAttention
from attnlib.validate import divisors

EMBED_DIM = 12
SMALLEST_DIFFERENCE = 1e-6  # smaller ones vary from machine to machine
LEFT, RIGHT = 1e-8, 1.0  # the ends of the axis


class TorchEquality(NamedTuple):
    """The largest differences between PyTorch's module and ours, and the weights of our heads."""

    tokens: tuple[str, ...]
    num_heads: int
    outputs: float
    weights: float
    gradients: float
    attn_weights: Tensor  # (num_heads, num_tokens, num_tokens)


def compute_torch_equality(num_heads: int) -> TorchEquality:
    """Run both modules with the same weights on the six tokens, widened to EMBED_DIM."""
    example = journey()
    with seeded():
        x = example.inputs @ (2 * torch.randn(3, EMBED_DIM))  # (num_tokens, embed_dim)
        theirs = nn.MultiheadAttention(EMBED_DIM, num_heads, batch_first=True)
        ours = MultiheadAttention(EMBED_DIM, num_heads, batch_first=True)
        for parameter in theirs.parameters():  # the biases too, which are zeros in a new module
            nn.init.normal_(parameter, std=0.2)
    ours.load_state_dict(theirs.state_dict())
    theirs_made, ours_made = _run(theirs, x), _run(ours, x)
    outputs, weights, gradients = (
        (a - b).abs().max().item() for a, b in zip(theirs_made, ours_made, strict=True)
    )
    return TorchEquality(
        example.tokens, num_heads, outputs, weights, gradients, attn_weights=ours_made[1][0]
    )


def _run(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return outputs, weights of each head, and all gradients of the mean square in one row."""
    with torch.enable_grad():
        x = x[None].requires_grad_()  # (b, num_tokens, embed_dim)
        is_future = causal_mask(x.shape[1])
        outputs, weights = module(x, x, x, attn_mask=is_future, average_attn_weights=False)
        learned = [parameter for _, parameter in sorted(module.named_parameters())]
        gradients = all_gradients(outputs, [x, *learned])
    return outputs.detach(), weights.detach(), gradients


def draw_torch_equality(data: TorchEquality) -> Scene:
    """Draw a bar for each largest difference, beside the weights of each head."""
    maps = weights_picture(data.attn_weights, data.tokens, causal_mask(len(data.tokens)), cell=16)
    return beside(_bars(data), maps)


def readout_torch_equality(data: TorchEquality) -> str:
    """Return how far apart the two modules are."""
    bounds = " | ".join(f"{name} <= {bound:.0e}" for name, bound in _bounds(data).items())
    return (
        f"num_heads = {data.num_heads} | head_dim = {EMBED_DIM // data.num_heads} | "
        f"largest difference: {bounds}"
    )


def _bounds(data: TorchEquality) -> dict[str, float]:
    """Return each difference rounded up to a power of ten, so that all machines say the same."""
    largest = {"outputs": data.outputs, "weights": data.weights, "gradients": data.gradients}
    return {name: at_most(difference, SMALLEST_DIFFERENCE) for name, difference in largest.items()}


def _bars(data: TorchEquality) -> Scene:
    """Return one bar for each bound, on a logarithmic axis."""
    label, width, top, row = 72.0, 200.0, 56.0, 30.0
    bottom = top + 3 * row

    def place(value: float) -> float:
        value = min(max(value, LEFT), RIGHT)
        return label + width * math.log(value / LEFT) / math.log(RIGHT / LEFT)

    items: list[Item] = [Words(8, 10, "largest |PyTorch - ours|", 12, INK, "start", bold=True)]
    for exponent in range(-8, 1, 2):
        x = place(10.0**exponent)
        items.append(Line(((x, top), (x, bottom)), QUIET, 1.0))
        items.append(Words(x, bottom + 12, f"{10.0**exponent:.0e}", 10))
    bounds = _bounds(data)
    for i, (name, bound) in enumerate(bounds.items()):
        y = top + i * row
        items.append(Words(label - 6, y + row / 2, name, 11, INK, "end"))
        items.append(Box(label, y + 5, place(bound) - label, row - 10, fill=FAINT))
        text = f"<= {bound:.0e}"
        items.append(Words(label + width + 10, y + row / 2, text, 11, INK, "start", mono=True))
    eps = torch.finfo(torch.float32).eps
    items.append(Line(((place(eps), top - 8), (place(eps), bottom)), INK, 1.0, dashed=True))
    items.append(Words(place(eps), top - 16, f"float32 eps {eps:.1e}", 10))
    each = ", ".join(f"{name} at most {bound:.0e}" for name, bound in bounds.items())
    alt = f"Largest difference between PyTorch and ours: {each}."
    return Scene(label + width + 80, bottom + 24, alt, tuple(items))


TORCH_EQUALITY = Panel(
    name="torch equality",
    controls={"num_heads": tuple(divisors(EMBED_DIM))},
    default={"num_heads": 2},
    compute=compute_torch_equality,
    draw=draw_torch_equality,
    readout=readout_torch_equality,
)
