"""Panels over one head with dropout, and over the number of stacked heads."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib.examples import journey, seeded
from attnlib.functional import causal_mask
from attnlib.modules import CausalAttention, MultiHeadAttentionWrapper
from attnlib.panels.panel import Panel
from attnlib.panels.touch import Looks, Touch, corners, head_maps, looks
from attnlib.pictures.palette import FAINT, head_color
from attnlib.pictures.scene import Item, Line, Scene, above
from attnlib.pictures.tensors import matrix_picture, weights_picture
from attnlib.speed.count import count_matrix_products, count_parameters

SMALL = 17.0  # pixels per cell where there are several maps


class OneHead(NamedTuple):
    """One causal head in training: its weights after dropout."""

    tokens: tuple[str, ...]
    dropout: float
    attn_weights: Tensor  # (num_tokens, num_tokens)
    row_sums: Tensor  # (num_tokens)
    num_dropped: int
    num_visible: int
    seen: Looks


def compute_one_head(num_tokens: int, dropout: float) -> OneHead:
    """Run the first head of the course on the first tokens, in training mode."""
    example = journey()
    with seeded():
        head = CausalAttention(3, 2, context_length=6, dropout=dropout)
        with torch.no_grad():
            _, attn_weights = head(example.inputs[None, :num_tokens], return_weights=True)
        seen = looks(head, example.inputs[None, :num_tokens])
    attn_weights = attn_weights[0]  # (num_tokens, num_tokens)
    visible = ~causal_mask(num_tokens)  # (num_tokens, num_tokens)
    return OneHead(
        example.tokens[:num_tokens],
        dropout,
        attn_weights,
        attn_weights.sum(dim=-1),
        int((attn_weights[visible] == 0).sum()),
        int(visible.sum()),
        seen,
    )


def draw_one_head(data: OneHead) -> Scene:
    """Draw the weights with the sum of each row beside them.

    A dropped weight is crossed out.
    """
    shown = weights_picture(
        data.attn_weights,
        data.tokens,
        causal_mask(len(data.tokens)),
        title=f"dropout {data.dropout:g}: crossed are dropped, framed are above 1",
        row_notes=[f"= {row_sum:.3f}" for row_sum in data.row_sums.tolist()],
    )
    ((left, top),) = corners(shown, 40, 1)
    marks: list[Item] = []
    for q, row in enumerate(data.attn_weights.tolist()):
        for k, weight in enumerate(row[: q + 1]):
            x, y = left + 40 * k, top + 40 * q
            if weight == 0:
                marks.append(Line(((x + 4, y + 4), (x + 36, y + 36)), FAINT, 1.0))
                marks.append(Line(((x + 4, y + 36), (x + 36, y + 4)), FAINT, 1.0))
    return replace(shown, items=(*shown.items, *marks))


def touch_one_head(data: OneHead, scene: Scene) -> Touch:
    """Return the cells of the map."""
    weights = data.attn_weights[None]
    maps = head_maps(scene, 40, [head_color(0)], weights, data.seen, ["the head"])
    return Touch(journey().tokens, maps)


def readout_one_head(data: OneHead) -> str:
    """Return what the dropout did."""
    sums = " ".join(f"{row_sum:.3f}" for row_sum in data.row_sums.tolist())
    scale = "-" if data.dropout == 1 else f"{1 / (1 - data.dropout):.3f}"
    return (
        f"num_tokens = {len(data.tokens)} | dropout = {data.dropout:g} | "
        f"dropped {data.num_dropped} of {data.num_visible} weights | "
        f"the others times {scale} | row sums {sums}"
    )


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


def compute_stacked_heads(num_heads: int) -> Heads:
    """Run stacked heads of width 2, built right after the course's seed."""
    example = journey()
    x = example.inputs[None]  # (b, num_tokens, d_in)
    with seeded():
        module = MultiHeadAttentionWrapper(3, 2, 6, 0.0, num_heads)
    with torch.no_grad():
        context_vec, attn_weights = module(x, return_weights=True)
    weights = module.state_dict().items()
    return Heads(
        tokens=example.tokens,
        num_heads=num_heads,
        head_dim=context_vec.shape[-1] // num_heads,
        context_vec=context_vec[0],
        attn_weights=attn_weights[0],
        W_query=torch.cat([weight for name, weight in weights if "W_query" in name]),
        num_parameters=count_parameters(module),
        num_products=count_matrix_products(module, x),
        seen=looks(module, x),
    )


def draw_stacked_heads(data: Heads) -> Scene:
    """Draw the output, its columns coloured by head, above the weights of each head, in a row."""
    column_heads = [column // data.head_dim for column in range(data.context_vec.shape[1])]
    output = matrix_picture(
        data.context_vec, data.tokens, column_heads, "context_vec: each head owns its columns"
    )
    is_future = causal_mask(len(data.tokens))
    maps = weights_picture(data.attn_weights, data.tokens, is_future, cell=SMALL, columns=8)
    return above(output, maps)


def touch_heads(data: Heads, scene: Scene) -> Touch:
    """Return the cells of the maps."""
    colors = [head_color(h) for h in range(data.num_heads)]
    return Touch(data.tokens, head_maps(scene, SMALL, colors, data.attn_weights, data.seen))


def readout_stacked_heads(data: Heads) -> str:
    """Return what the heads cost."""
    return (
        f"num_heads = {data.num_heads} | output width {data.num_heads} x {data.head_dim} = "
        f"{data.context_vec.shape[1]} | parameters {data.num_parameters} | "
        f"matrix products {data.num_products}"
    )


ONE_HEAD = Panel(
    name="one head",
    controls={"num_tokens": (1, 2, 3, 4, 5, 6), "dropout": tuple(n / 10 for n in range(10))},
    default={"num_tokens": 6, "dropout": 0.0},
    compute=compute_one_head,
    draw=draw_one_head,
    readout=readout_one_head,
    touch=touch_one_head,
)
STACKED_HEADS = Panel(
    name="stacked heads",
    controls={"num_heads": tuple(range(1, 9))},
    default={"num_heads": 2},
    compute=compute_stacked_heads,
    draw=draw_stacked_heads,
    readout=readout_stacked_heads,
    touch=touch_heads,
)
