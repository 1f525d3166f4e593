"""The panel over the number of stacked heads, each built to attend somewhere else."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.examples import journey, seeded
from attncourse.panels.panel import Panel, heatmaps
from attncourse.pictures.matrices import matrix_picture
from attncourse.pictures.scene import Scene, frame
from attncourse.pictures.weights import weights_picture
from attncourse.speed.count import count_matrix_products
from attnlib.functional import causal_mask
from attnlib.modules import CausalAttention, MultiHeadAttentionWrapper

TOKENS = journey().tokens
# In pixels: eight numbers and the names fit a phone, and so do two maps and their names
NUMBER, CELL = 32.0, 17.0

LOOKS = "everywhere", "1 word back", "2 words back", "1 and 2 words back"
BACK = 0.0, 1.0, 2.0, 1.5  # how many places back each head looks; the first does not choose
STEP = math.radians(15)  # from one place to the next
SHARP = 4000.0  # so large that softmax chooses one key; where two tie, nothing is large enough


def add_places(inputs: Tensor) -> Tensor:
    """Return tokens with two numbers more: their position, as a point on a circle."""
    angles = STEP * torch.arange(len(inputs))
    places = torch.stack((angles.cos(), angles.sin()), dim=-1)  # (num_tokens, 2)
    return torch.cat((inputs, places), dim=-1)  # (num_tokens, d_in)


def build_stack(num_heads: int) -> MultiHeadAttentionWrapper:
    """Return stacked heads of width 2 for add_places(inputs), head h looking where LOOKS[h] says.

    A key is the place of its token, and a query is the place that its head looks for: the place
    of the token itself, rotated back by k steps for "k back"; half way between two places it finds
    both. A head that would look before the first token looks at the first. A value is the first
    two numbers of its token.
    """
    d_in = journey().inputs.shape[1] + 2
    with seeded():  # every parameter is set below; the reader's random numbers are left alone
        stack = MultiHeadAttentionWrapper(d_in, 2, 6, dropout=0.0, num_heads=num_heads)
    for h, head in enumerate(stack.heads):
        assert isinstance(head, CausalAttention)
        cos, sin = math.cos(BACK[h] * STEP), math.sin(BACK[h] * STEP)
        rotation = torch.tensor([[cos, sin], [-sin, cos]])
        with torch.no_grad():
            for projection in (head.W_query, head.W_key, head.W_value):
                projection.weight.zero_()
            head.W_query.weight[:, -2:] = (SHARP if h else 0.0) * rotation
            head.W_key.weight[:, -2:] = torch.eye(2)
            head.W_value.weight[:, :2] = torch.eye(2)
    return stack


class StackedHeads(NamedTuple):
    """Several heads on the running example: what they return and what they cost."""

    num_heads: int
    context_vec: Tensor  # (num_tokens, num_heads * head_dim)
    attn_weights: Tensor  # (num_heads, num_tokens, num_tokens)
    num_products: int
    moved: tuple[int, ...]  # the columns of QUERY that move when SWAPPED change places


SWAPPED = (2, 3)  # starts, with
QUERY = 4  # one, the token behind them


def compute_stacked_heads(num_heads: int) -> StackedHeads:
    """Run stacked heads of width 2 that are built to look at different places."""
    stack, inputs = build_stack(num_heads), journey().inputs
    x, order = add_places(inputs)[None], [0, 1, 3, 2, 4, 5]  # SWAPPED
    with torch.no_grad():
        context_vec, attn_weights = stack(x, return_weights=True)
        swapped = stack(add_places(inputs[order])[None])
    difference = (swapped - context_vec)[0, QUERY].abs()  # (num_heads * head_dim)
    return StackedHeads(
        num_heads=num_heads,
        context_vec=context_vec[0],
        attn_weights=attn_weights[0],
        num_products=count_matrix_products(stack, x),
        moved=tuple(difference.gt(1e-3).nonzero().flatten().tolist()),
    )


def draw_stacked_heads(data: StackedHeads) -> list[Scene]:
    """Draw the output, its columns colored by head, and the weights of each head.

    In the row of QUERY the numbers that move are framed.
    """
    owners = [h for h in range(data.num_heads) for _ in range(2)]
    title = "context_vec: heads side by side"
    output = matrix_picture(data.context_vec, TOKENS, owners, title, NUMBER)
    (cell,) = output.boxes_named("matrix")
    items = list(output.items)
    if data.moved:  # columns side by side
        x, y = cell.x + data.moved[0] * cell.width, cell.y + QUERY * cell.height
        items += frame(x - 2, y, len(data.moved) * cell.width + 2, cell.height, 2)
    pictures = [replace(output, items=tuple(items))]
    is_future = causal_mask(6)
    for first in range(0, data.num_heads, 2):
        weights = data.attn_weights[first : first + 2]
        heads = {f"head {first + i}": first + i for i in range(len(weights))}
        pictures.append(weights_picture(weights, TOKENS, is_future, CELL, heads))
    return pictures


def readout_stacked_heads(data: StackedHeads) -> str:
    """Return where the last head looks, what the heads cost, and what a swap of words moves."""
    swapped = " and ".join(f"“{TOKENS[i]}”" for i in SWAPPED)
    columns = ", ".join(map(str, data.moved))
    moved = f"columns {columns} move (framed)" if columns else "nothing moves"
    many = "1 head makes" if data.num_heads == 1 else f"{data.num_heads} heads make"
    return (
        f"{many} {data.context_vec.shape[1]} columns with {data.num_products} matrix products; "
        f"head {data.num_heads - 1} looks {LOOKS[data.num_heads - 1]}. "
        f"If {swapped} change places, then in the row of “{TOKENS[QUERY]}” {moved}."
    )


STACKED_HEADS = Panel(
    name="stacked heads",
    controls={"num_heads": tuple(range(1, len(LOOKS) + 1))},
    default={"num_heads": 2},
    compute=compute_stacked_heads,
    draw=draw_stacked_heads,
    readout=readout_stacked_heads,
    maps=lambda data: heatmaps(TOKENS, data.attn_weights, causal_mask(6)),
    static_states=({"num_heads": 2}, {"num_heads": 4}),
)
