"""Panel of the weight split: which columns of one matrix make which map."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.examples import journey, seeded
from attncourse.panels.panel import Panel, heatmaps
from attncourse.pictures.scene import Scene
from attncourse.pictures.weight_blocks import weight_block_pictures
from attncourse.speed.count import count_matrix_products, count_parameters
from attnlib.functional import causal_mask
from attnlib.modules import MultiHeadAttention
from attnlib.validate import divisors


class Blocks(NamedTuple):
    """The weight split: which columns of one matrix make which map."""

    num_heads: int
    head_dim: int
    W_query: Tensor  # (d_in, d_out), as x meets it
    attn_weights: Tensor  # (num_heads, num_tokens, num_tokens)
    zeroed_column: int | None
    moved: tuple[float, ...]  # for each head the largest change of its attention weights
    num_parameters: int
    num_products: int


TOKENS = journey().tokens
LOUDER = 12.0  # times what PyTorch draws: the maps of fresh weights are nearly flat, and all alike
NO_COLUMN = "none"


def compute_weight_split(num_heads: int, zeroed_column: str) -> Blocks:
    """Run the weight-split class at total width 12, with and without a column of W_query.

    W_query is drawn right after the course's seed and made LOUDER.
    """
    x = journey().inputs[None]  # (b, num_tokens, d_in)
    column = None if zeroed_column == NO_COLUMN else int(zeroed_column.removeprefix("column "))
    with seeded():
        module = MultiHeadAttention(3, 12, 6, 0.0, num_heads)
    with torch.no_grad():
        module.W_query.weight.mul_(LOUDER)
        _, before = module(x, return_weights=True)
        if column is not None:
            module.W_query.weight[column] = 0.0
        _, attn_weights = module(x, return_weights=True)
    return Blocks(
        num_heads=num_heads,
        head_dim=module.head_dim,
        W_query=module.W_query.weight.detach().T,
        attn_weights=attn_weights[0],
        zeroed_column=column,
        moved=tuple((attn_weights - before)[0].abs().amax(dim=(1, 2)).tolist()),
        num_parameters=count_parameters(module),
        num_products=count_matrix_products(module, x),
    )


def draw_weight_split(data: Blocks) -> list[Scene]:
    """Draw for each head its columns of W_query and its map."""
    moved = () if data.zeroed_column is None else data.moved
    return weight_block_pictures(data.W_query, data.attn_weights, data.zeroed_column, moved)


def readout_weight_split(data: Blocks) -> str:
    """Return what changes with the head count, and what does not."""
    heads = "1 head" if data.num_heads == 1 else f"{data.num_heads} heads"
    line = (
        f"W_query has {data.W_query.shape[1]} columns, {heads} of head_dim {data.head_dim}: "
        f"scores are divided by √{data.head_dim} = {data.head_dim**0.5:.2f}. "
        f"{data.num_parameters} parameters and {data.num_products} matrix products"
    )
    if data.zeroed_column is None:
        return f"{line}."
    owner = data.zeroed_column // data.head_dim
    others = ", no other" if data.num_heads > 1 else ""
    changed = f"head {owner} changes by {data.moved[owner]:.2f}{others}"
    return f"{line}. Column {data.zeroed_column} is 0: {changed}."


WEIGHT_SPLIT = Panel(
    name="weight split",
    controls={
        "num_heads": tuple(divisors(12)),
        "zeroed_column": (NO_COLUMN, *(f"column {c}" for c in range(12))),
    },
    default={"num_heads": 2, "zeroed_column": NO_COLUMN},
    compute=compute_weight_split,
    draw=draw_weight_split,
    readout=readout_weight_split,
    maps=lambda data: heatmaps(TOKENS, data.attn_weights, causal_mask(6)),
    static_states=(
        {"num_heads": 1, "zeroed_column": "column 2"},
        {"num_heads": 2, "zeroed_column": "column 2"},
        {"num_heads": 12, "zeroed_column": "column 2"},
    ),
)
