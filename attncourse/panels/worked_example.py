"""Panels that walk through the lines of a forward, and through eleven steps by hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncourse.examples import counting, counting_weights
from attncourse.panels.panel import Panel
from attncourse.pictures.matrices import tensor_picture
from attncourse.pictures.scene import Scene
from attnlib.convert import PROJECTIONS
from attnlib.functional import causal_mask
from attnlib.modules import MultiHeadAttention


class InlinedAttention(MultiHeadAttention):
    """MultiHeadAttention in one piece: the values take one step on a line, to be watched."""

    def forward(self, x: Tensor, return_weights: bool = False) -> Any:
        split = (*x.shape[:2], self.num_heads, self.head_dim)
        queries = self.W_query(x).view(split).transpose(1, 2)
        keys = self.W_key(x).view(split).transpose(1, 2)

        values = self.W_value(x)  # (b, num_tokens, num_heads * head_dim)
        values = values.view(split)  # (b, num_tokens, num_heads, head_dim)
        values = values.transpose(1, 2)  # (b, num_heads, num_tokens, head_dim)

        attn_scores = queries @ keys.transpose(2, 3)
        attn_scores.masked_fill_(causal_mask(x.shape[1]), -torch.inf)
        scaled = attn_scores / self.head_dim**0.5
        attn_weights = torch.softmax(scaled, dim=-1)

        context_vec = attn_weights @ values  # (b, num_heads, num_tokens, head_dim)
        by_token = context_vec.transpose(1, 2)  # (b, num_tokens, num_heads, head_dim)
        merged = by_token.contiguous().view(*x.shape[:2], -1)
        output = self.out_proj(merged)
        return (output, attn_weights) if return_weights else output


Named = dict[str, tuple[Tensor, tuple[str, ...]]]  # tensors with the names of their dimensions


class NumberStep(NamedTuple):
    """One of the eleven steps: its title, and the tensors that it makes, with their dimensions."""

    number: int
    num_heads: int
    title: str
    tensors: Named


def eleven_steps(num_heads: int) -> list[NumberStep]:
    """Work attention out on counting() by hand, each step from the ones before.

    Args:
        num_heads: 1, 2, 3 or 6.

    Returns:
        Steps 1 to 11. The last one's `merged` is what MultiHeadAttention with the same weights
        computes before out_proj.
    """
    x = counting().inputs[None]  # (b, num_tokens, d_in)
    W = dict(zip(PROJECTIONS, counting_weights(), strict=True))
    head_dim = 6 // num_heads
    split, heads = ("b", "num_tokens", "num_heads", "head_dim"), ("b", "num_heads", "num_tokens")
    tokens = ("b", "num_tokens", "num_heads * head_dim")
    square = (*heads, "num_tokens")

    flat = {"queries": x @ W["W_query"], "keys": x @ W["W_key"], "values": x @ W["W_value"]}
    viewed = {name: t.view(1, 3, num_heads, head_dim) for name, t in flat.items()}
    by_head = {name: t.transpose(1, 2) for name, t in viewed.items()}
    scores = by_head["queries"] @ by_head["keys"].transpose(2, 3)
    masked = scores.masked_fill(causal_mask(3), -torch.inf)
    scaled = masked / head_dim**0.5
    weights = torch.softmax(scaled, dim=-1)
    context = weights @ by_head["values"]
    by_token = context.transpose(1, 2)
    merged = by_token.contiguous().view(1, 3, 6)

    columns: Named = {name: (t, ("d_in", "num_heads * head_dim")) for name, t in W.items()}
    numbers = torch.arange(6)
    made: list[tuple[str, Named]] = [
        ("the input x", {"x": (x, ("b", "num_tokens", "d_in"))}),
        (
            f"d_out = 6 columns are shared out: {num_heads} x head_dim {head_dim}",
            {"column": (numbers, ("num_heads * head_dim",))},
        ),
        ("three matrices; each head owns columns", columns),
        ("x times each matrix", {name: (t, tokens) for name, t in flat.items()}),
        ("view: cut each row into heads", {name: (t, split) for name, t in viewed.items()}),
        (
            "transpose: heads before tokens",
            {name: (t, (*heads, "head_dim")) for name, t in by_head.items()},
        ),
        ("attn_scores = queries @ keys^T", {"attn_scores": (scores, square)}),
        (
            "mask, divide by sqrt(head_dim), softmax",
            {"masked and scaled": (scaled, square), "attn_weights": (weights, square)},
        ),
        ("context_vec = attn_weights @ values", {"context_vec": (context, (*heads, "head_dim"))}),
        ("transpose back: tokens before heads", {"context_vec": (by_token, split)}),
        ("merge: each token's heads side by side", {"merged": (merged, tokens)}),
    ]
    return [
        NumberStep(number, num_heads, title, tensors)
        for number, (title, tensors) in enumerate(made, start=1)
    ]


def compute_number_step(step: int, num_heads: int) -> NumberStep:
    """Work out the eleven steps and take one."""
    return eleven_steps(num_heads)[step - 1]


def draw_number_step(data: NumberStep) -> list[Scene]:
    """Draw the tensors of the step."""
    return [
        tensor_picture(name, tensor, dims, data.num_heads)
        for name, (tensor, dims) in data.tensors.items()
    ]


def readout_number_step(data: NumberStep) -> str:
    """Return which step it is, and the shape of what it makes last."""
    name, (tensor, _) = list(data.tensors.items())[-1]
    many = "1 head" if data.num_heads == 1 else f"{data.num_heads} heads"
    return (
        f"Step {data.number} of 11, {many} of width {6 // data.num_heads}: {data.title}. "
        f"The shape of {name} is {tuple(tensor.shape)}."
    )


WORKED_EXAMPLE = Panel(
    name="number steps",
    controls={"step": tuple(range(1, 12)), "num_heads": (1, 2, 3, 6)},
    default={"step": 1, "num_heads": 2},
    compute=compute_number_step,
    draw=draw_number_step,
    readout=readout_number_step,
    animated="step",
    static_states=({"step": 8, "num_heads": 1}, {"step": 8, "num_heads": 3}),
)
