"""Stacked heads whose parameters are set by hand, so that each of them looks somewhere else."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attncourse.examples import journey, seeded
from attnlib.modules import CausalAttention, MultiHeadAttentionWrapper

LOOKS = "everywhere", "1 back", "2 back", "1 and 2 back"
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
