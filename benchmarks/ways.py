"""Further ways to write multi-head causal attention, beside those that the course shows.

VARIANTS holds all of them, by name, as that of attncourse.speed does.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.speed import VARIANTS as COURSE_VARIANTS
from attnlib.convert import split_to_fused, split_to_torch, with_weights
from attnlib.functional import attention, causal_mask, merge_heads, split_heads
from attnlib.fused import FusedMultiHeadAttention
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


class Sdpa(SplitVariant):
    """torch's own attention with is_causal=True."""

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        dropout_p = self.dropout.p if self.training else 0.0
        return F.scaled_dot_product_attention(
            queries, keys, values, dropout_p=dropout_p, is_causal=True
        )


class SdpaWithMask(SplitVariant):
    """torch's own attention with an explicit mask, in which True means: may attend."""

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        may_attend = ~causal_mask(queries.shape[2], device=queries.device)
        dropout_p = self.dropout.p if self.training else 0.0
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=may_attend, dropout_p=dropout_p
        )


class Flex(SplitVariant):
    """FlexAttention: a kernel compiled for the mask, which skips hidden blocks.

    The first call takes seconds. On a CPU it has no backward pass and runs only under no_grad.
    There it took 0.98 to 1.02 times as long as SDPA's kernel at 256 and 1024 tokens, and 1.13
    times at 4096 (12 heads of 64, two cores): no reason to offer it in the fused class.
    """

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        mask = _block_mask(queries.shape[2], queries.device)
        context_vec: Tensor = _compiled_flex_attention()(queries, keys, values, block_mask=mask)
        return context_vec


@cache
def _compiled_flex_attention() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


@cache
def _block_mask(num_tokens: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    def may_attend(b: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return query >= key

    sizes = (None, None, num_tokens, num_tokens)  # the same for every sequence and head
    return create_block_mask(may_attend, *sizes, device=str(device))


class QkvMatrix(FusedMultiHeadAttention):
    """One product for queries, keys and values, then attention() instead of a fused kernel."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        parts = self.W_qkv(x).split(self.widths, dim=-1)
        queries, keys, values = (split_heads(part, self.head_dim) for part in parts)
        is_future = causal_mask(x.shape[1], device=x.device)
        context_vec, _ = attention(queries, keys, values, is_future, self.dropout)
        projected: Tensor = self.out_proj(merge_heads(context_vec))
        return projected


class Einsum(MultiHeadAttention):
    """Every product by torch.einsum, over named dimensions instead of views and transposes."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        queries = self._project(x, self.W_query) / self.head_dim**0.5
        keys, values = self._project(x, self.W_key), self._project(x, self.W_value)
        attn_scores = torch.einsum("bhqd,bhkd->bhqk", queries, keys)
        attn_scores.masked_fill_(causal_mask(x.shape[1], device=x.device), -torch.inf)
        attn_weights = self.dropout(torch.softmax(attn_scores, dim=-1))
        context_vec = torch.einsum("bhqk,bhkd->bqhd", attn_weights, values)
        to_output = self.out_proj.weight.view(self.d_out, self.num_heads, self.head_dim)
        return torch.einsum("bthd,ohd->bto", context_vec, to_output) + self.out_proj.bias

    def _project(self, x: Tensor, layer: nn.Linear) -> Tensor:
        by_head = layer.weight.view(self.num_heads, self.head_dim, self.d_in)
        projected = torch.einsum("bti,hdi->bhtd", x, by_head)
        bias = 0 if layer.bias is None else layer.bias.view(self.num_heads, 1, -1)
        return projected + bias


class TorchModule(nn.Module):
    """torch.nn.MultiheadAttention with the causal mask, with or without need_weights."""

    def __init__(self, attn: nn.MultiheadAttention, need_weights: bool) -> None:
        super().__init__()
        self.attn = attn
        self.need_weights = need_weights

    def forward(self, x: Tensor) -> Tensor:
        is_future = causal_mask(x.shape[1], device=x.device)
        context_vec: Tensor
        context_vec, _ = self.attn(
            *(x, x, x),
            attn_mask=is_future,
            need_weights=self.need_weights,
            is_causal=not self.need_weights,  # lets it use the kernel that needs no mask
        )
        return context_vec


def _qkv_matrix(split: MultiHeadAttention) -> nn.Module:
    return copy_into(QkvMatrix, split, split_to_fused(split).state_dict())


def _flex(split: MultiHeadAttention) -> nn.Module:
    if split.dropout.p:
        raise ValueError(f"FlexAttention has no dropout, and this module has p={split.dropout.p}")
    if split.out_proj.weight.device.type == "cpu":
        _require_flex_on_cpu()
    return copy_into(Flex, split)


def _require_flex_on_cpu() -> None:
    instructions = torch.backends.cpu.get_cpu_capability()
    if not instructions.startswith("AVX"):
        raise RuntimeError(
            "FlexAttention has kernels for processors with AVX2 alone, and PyTorch uses "
            f"{instructions} here; all other variants run"
        )
    compilers = (os.environ.get("CXX", "g++"), "clang++", "cl")
    if not any(map(shutil.which, compilers)):
        raise RuntimeError(
            f"FlexAttention compiles its kernel, and no C++ compiler was found ({compilers})"
        )


def _torch_module(need_weights: bool, split: MultiHeadAttention) -> nn.Module:
    return TorchModule(split_to_torch(split), need_weights)


VARIANTS: dict[str, Callable[[MultiHeadAttention], nn.Module]] = {
    "weight split, as published": _published,
    **COURSE_VARIANTS,
    "fused QKV matrix": _qkv_matrix,
    "einsum": partial(copy_into, Einsum),
    "SDPA, is_causal": partial(copy_into, Sdpa),
    "SDPA, explicit mask": partial(copy_into, SdpaWithMask),
    "FlexAttention, compiled": _flex,
    "nn.MultiheadAttention, need_weights=True": partial(_torch_module, True),
    "nn.MultiheadAttention, need_weights=False": partial(_torch_module, False),
    "FusedMultiHeadAttention": split_to_fused,
}
