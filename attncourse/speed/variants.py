"""Ways to write multi-head causal attention, all of them the same function.

VARIANTS maps the name of each way to a function that builds it from a MultiHeadAttention: a
module with a copy of its weights, whose forward takes x and returns context_vec. The benchmarks
know more of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnlib.convert import split_to_fused, split_to_stacked, with_weights
from attnlib.functional import merge_heads, split_heads
from attnlib.modules import MultiHeadAttention


class SplitVariant(MultiHeadAttention):
    """Base of the variants of the split class; they implement attend()."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Project, attend, join the heads, project again."""
        queries = split_heads(self.W_query(x), self.head_dim)
        keys = split_heads(self.W_key(x), self.head_dim)
        values = split_heads(self.W_value(x), self.head_dim)
        projected: Tensor = self.out_proj(merge_heads(self.attend(queries, keys, values)))
        return projected

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Take and return (b, num_heads, num_tokens, head_dim)."""
        raise NotImplementedError


class Published(SplitVariant):
    """The weight split as usually published: a stored float mask, division after the product."""

    mask: Tensor

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Mask the scores in place, then divide them."""
        num_tokens, head_dim = queries.shape[2:]
        attn_scores = queries @ keys.transpose(2, 3)
        attn_scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
        attn_weights = torch.softmax(attn_scores / head_dim**0.5, dim=-1)
        context_vec: Tensor = self.dropout(attn_weights) @ values
        return context_vec


def copy_into(
    cls: type[nn.Module], split: MultiHeadAttention, state: dict[str, Tensor] | None = None
) -> nn.Module:
    """Return a module of another class with a split one's sizes, and with its weights or these."""
    return with_weights(cls, split, state or copy.deepcopy(split.state_dict()))


def _published(split: MultiHeadAttention) -> nn.Module:
    published = copy_into(Published, split)
    length = split.context_length
    ones = torch.ones(length, length, device=split.out_proj.weight.device)
    published.register_buffer("mask", ones.triu(diagonal=1), persistent=False)
    return published


def _stacked_heads(split: MultiHeadAttention) -> nn.Module:
    bare = copy.deepcopy(split)
    nn.init.eye_(bare.out_proj.weight)
    nn.init.zeros_(bare.out_proj.bias)
    return nn.Sequential(split_to_stacked(bare), copy.deepcopy(split.out_proj))


VARIANTS: dict[str, Callable[[MultiHeadAttention], nn.Module]] = {
    "weight split, as published": _published,
    "stacked heads": _stacked_heads,
    "weight split": copy.deepcopy,
    "FusedMultiHeadAttention": split_to_fused,
}
