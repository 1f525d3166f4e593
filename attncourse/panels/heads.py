"""A panel over the number of stacked heads, each built to look somewhere else."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.examples import journey, seeded
from attncourse.panels.states import Panel
from attncourse.panels.touch import Looks, Touch, head_maps, listen
from attncourse.pictures.matrices import matrix_picture
from attncourse.pictures.scene import Scene, above, frame
from attncourse.pictures.weights import weights_picture
from attncourse.speed.count import count_matrix_products, count_parameters
from attnlib.functional import causal_mask
from attnlib.modules import CausalAttention, MultiHeadAttentionWrapper

STACKED = 19.0  # of stacked heads: at most four maps in a row
NARROW = 32.0, 16.0  # a number of two decimals and a cell of a map, on a phone


# The heads: their parameters are set by hand

LOOKS = "everywhere", "1 word back", "2 words back", "1 and 2 words back"
BACK = 0.0, 1.0, 2.0, 1.5  # how many places, for each of them; the first does not choose
STEP = math.radians(15)  # from one place to the next
SHARP = 4000.0  # so large that softmax chooses one key; where two tie, nothing is large enough


def add_places(inputs: Tensor) -> Tensor:
    """Return tokens with two numbers more: their place, as a point on a circle.

    >>> add_places(torch.zeros(2, 1))
    tensor([[0.0000, 1.0000, 0.0000],
            [0.0000, 0.9659, 0.2588]])
    """
    angles = STEP * torch.arange(len(inputs))
    places = torch.stack((angles.cos(), angles.sin()), dim=-1)  # (num_tokens, 2)
    return torch.cat((inputs, places), dim=-1)  # (num_tokens, d_in)


def build_stack(num_heads: int) -> MultiHeadAttentionWrapper:
    """Return stacked heads of width 2 for add_places(inputs), head h looking where LOOKS[h] says.

    A key is the place of its token, and a query is the place that its head looks for: the place
    of the token itself, turned back by k steps for "k back"; half way between two places it finds
    both. A head that would look before the first token looks at the first. A value is the first
    two numbers of its token.

    Args:
        num_heads: at most as many as there are LOOKS.

    >>> stack = build_stack(2)
    >>> _, attn_weights = stack(add_places(journey().inputs)[None], return_weights=True)
    >>> attn_weights[0, :, 3].detach().round(decimals=4)
    tensor([[0.2500, 0.2500, 0.2500, 0.2500, 0.0000, 0.0000],
            [0.0000, 0.0000, 1.0000, 0.0000, 0.0000, 0.0000]])
    """
    d_in = journey().inputs.shape[1] + 2
    with seeded():  # every parameter is set below; the reader's random numbers are left alone
        stack = MultiHeadAttentionWrapper(d_in, 2, 6, dropout=0.0, num_heads=num_heads)
    for h, head in enumerate(stack.heads):
        assert isinstance(head, CausalAttention)
        with torch.no_grad():
            for projection in (head.W_query, head.W_key, head.W_value):
                projection.weight.zero_()
            head.W_query.weight[:, -2:] = (SHARP if h else 0.0) * _turned(BACK[h])
            head.W_key.weight[:, -2:] = torch.eye(2)
            head.W_value.weight[:, :2] = torch.eye(2)
    return stack


def _turned(back: float) -> Tensor:
    """Return the (2, 2) matrix that turns a token's own place back by so many steps."""
    cos, sin = math.cos(back * STEP), math.sin(back * STEP)
    return torch.tensor([[cos, sin], [-sin, cos]])


# The panel


class Heads(NamedTuple):
    """Several heads on the running example: what they return and what they cost."""

    tokens: tuple[str, ...]
    num_heads: int
    head_dim: int
    context_vec: Tensor  # (num_tokens, num_heads * head_dim)
    attn_weights: Tensor  # (num_heads, num_tokens, num_tokens)
    W_query: Tensor  # (num_heads * head_dim, d_in)
    num_parameters: int
    num_products: int
    seen: Looks
    moved: tuple[int, ...] = ()  # the columns of ASKING that move when SWAPPED change places


SWAPPED = (2, 3)  # starts, with
ASKING = 4  # one, the token behind them


def compute_stacked_heads(num_heads: int) -> Heads:
    """Run stacked heads of width 2 that are built to look at different places."""
    stack, inputs = build_stack(num_heads), journey().inputs
    heads = _several_heads(stack, add_places(inputs)[None])
    order = list(range(len(inputs)))
    for i, j in (SWAPPED, SWAPPED[::-1]):
        order[i] = j
    swapped = _several_heads(stack, add_places(inputs[order])[None])
    difference = (swapped.context_vec - heads.context_vec)[ASKING].abs()  # (num_heads * head_dim)
    return heads._replace(moved=tuple(difference.gt(1e-3).nonzero().flatten().tolist()))


def _several_heads(module: MultiHeadAttentionWrapper, x: Tensor) -> Heads:
    """Run a module on the running example, (1, num_tokens, d_in)."""
    with torch.no_grad():
        context_vec, attn_weights = module(x, return_weights=True)
    weights = module.state_dict().items()
    return Heads(
        tokens=journey().tokens,
        num_heads=module.num_heads,
        head_dim=context_vec.shape[-1] // module.num_heads,
        context_vec=context_vec[0],
        attn_weights=attn_weights[0],
        W_query=torch.cat([weight for name, weight in weights if "W_query" in name]),
        num_parameters=count_parameters(module),
        num_products=count_matrix_products(module, x),
        seen=listen(module, x),
    )


def draw_stacked_heads(data: Heads) -> Scene:
    """Draw the output, its columns colored by head, above the weights of each head, in a row.

    In the row of ASKING what moves is framed.
    """
    output = matrix_picture(data.context_vec, data.tokens, _owners(data), TITLE, 3)
    return above(_framed(output, data), _maps(data, STACKED, 4))


def draw_narrow_heads(data: Heads) -> Scene:
    """Draw the same for a phone, two maps in a row."""
    wide, cell = NARROW
    output = matrix_picture(data.context_vec, data.tokens, _owners(data), TITLE, 2, wide)
    return above(_framed(output, data), _maps(data, cell, 2))


TITLE = "context_vec: heads side by side"


def _maps(data: Heads, cell: float, columns: int) -> Scene:
    """Return the weights of each head, so many heads in a row."""
    is_future = causal_mask(len(data.tokens))
    return weights_picture(data.attn_weights, data.tokens, is_future, cell, columns=columns)


def _owners(data: Heads) -> list[int]:
    """Return for each column of the output its head."""
    return [column // data.head_dim for column in range(data.context_vec.shape[1])]


def _framed(output: Scene, data: Heads) -> Scene:
    """Put a frame around the numbers that the swap moves."""
    (cell,) = output.named("matrix")
    y = cell.y + ASKING * cell.height + 1
    firsts = [c for c in data.moved if c - 1 not in data.moved]
    lasts = [c for c in data.moved if c + 1 not in data.moved]
    items = list(output.items)
    for first, last in zip(firsts, lasts, strict=True):
        x, width = cell.x + first * cell.width, (last - first + 1) * cell.width
        items += frame(x + 1, y, width - 2, 22, 2)
    return replace(output, items=tuple(items))


def touch_stacked_heads(data: Heads, scene: Scene) -> Touch:
    """Return the cells of the maps, their heads counted from 0."""
    return Touch(data.tokens, head_maps(scene, data.attn_weights, data.seen))


def readout_stacked_heads(data: Heads) -> str:
    """Return where the last head looks, what the heads cost, and what a swap of words moves."""
    swapped = " and ".join(f"“{data.tokens[i]}”" for i in SWAPPED)
    columns = ", ".join(map(str, data.moved))
    moved = f"columns {columns} move (framed)" if columns else "nothing moves"
    many = "1 head makes" if data.num_heads == 1 else f"{data.num_heads} heads make"
    return (
        f"{many} {data.context_vec.shape[1]} columns with {data.num_products} matrix products; "
        f"head {data.num_heads - 1} looks {LOOKS[data.num_heads - 1]}. "
        f"If {swapped} change places, then in the row of “{data.tokens[ASKING]}” {moved}."
    )


STACKED_HEADS = Panel(
    name="stacked heads",
    controls={"num_heads": tuple(range(1, len(LOOKS) + 1))},
    default={"num_heads": 2},
    compute=compute_stacked_heads,
    draw=draw_stacked_heads,
    draw_narrow=draw_narrow_heads,
    readout=readout_stacked_heads,
    touch=touch_stacked_heads,
    telling=({"num_heads": 2}, {"num_heads": 4}),
)
