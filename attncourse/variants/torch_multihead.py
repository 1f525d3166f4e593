"""PyTorch's own attention module, with a forward that can be read.

The class is spelled as PyTorch spells it, MultiheadAttention with a small h. attnlib's
MultiHeadAttention is the causal class of the course.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.functional import merge_heads, split_heads
from attnlib.validate import (
    plain_weight,
    positive_ints,
    require_bools,
    require_broadcastable,
    require_equal_heads,
    require_floating,
    require_floating_dtype,
    require_like,
    require_probability,
)


def apply_mask(attn_scores: Tensor, mask: Tensor, num_appended: int = 0) -> Tensor:
    """Mask the scores where a boolean mask is True; add a floating mask to the scores.

    attn_scores is (..., num_queries, num_keys + num_appended). The mask is for the keys alone; the
    scores of the positions appended after them stay as they are.

    >>> apply_mask(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([True, False]), 1).tolist()
    [[-inf, 2.0, 3.0]]
    """
    *sizes, num_positions = attn_scores.shape
    num_keys = num_positions - num_appended
    _require_mask_kind("mask", mask)
    require_broadcastable("mask", mask, (*sizes, num_keys))
    mask = mask.expand(*mask.shape[:-1], num_keys)  # (..., num_keys)
    mask = F.pad(mask, (0, num_appended))  # (..., num_positions)
    if mask.dtype == torch.bool:
        return attn_scores.masked_fill(mask, -torch.inf)
    return attn_scores + mask


class MultiheadAttention(nn.MultiheadAttention):
    """torch.nn.MultiheadAttention, its forward written out in plain PyTorch.

    Equation:
        attn_output = concat(head_1, ..., head_n) W_out^T + b_out
        head_h = softmax(queries_h @ keys_h^T / sqrt(head_dim) + mask) @ values_h
        queries = query W_query^T + b_query, keys = key W_key^T + b_key,
        values = value W_value^T + b_value, head_dim = embed_dim / num_heads

    The arguments and the parameters are those of torch.nn.MultiheadAttention, whose documentation
    explains them. In a boolean mask **True means: may not attend**.

    Asking for the weights never changes the result here, as it does on the fast paths of PyTorch
    2.13. A query that may attend to no key gets weights and a context of 0. is_causal=True only
    says that attn_mask is causal: attn_mask is still needed. Nested tensors are refused.

    Raises:
        TypeError: an argument is of the wrong type, or of another dtype than the weights.
        ValueError: sizes, shapes or devices do not fit, or is_causal comes without attn_mask.

    Source: Vaswani et al. 2017, section 3.2.2.
    """

    _is_made = False

    def __init__(  # noqa: PLR0913, PyTorch's own arguments
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        embed_dim, num_heads, kdim, vdim = positive_ints(
            embed_dim=embed_dim,
            num_heads=num_heads,
            kdim=embed_dim if kdim is None else kdim,
            vdim=embed_dim if vdim is None else vdim,
        )
        require_equal_heads(embed_dim, num_heads, "embed_dim")
        require_probability("dropout", dropout)
        require_bools(bias=bias, add_bias_kv=add_bias_kv)
        require_bools(add_zero_attn=add_zero_attn, batch_first=batch_first)
        require_floating_dtype(dtype)
        appended = (add_bias_kv, add_zero_attn)
        how = (batch_first, device, dtype)
        super().__init__(embed_dim, num_heads, float(dropout), bias, *appended, kdim, vdim, *how)
        self._is_made = True

    def extra_repr(self) -> str:
        """Show the arguments; `bias` shows in out_proj."""
        sizes = ("embed_dim", "num_heads", "kdim", "vdim")
        others = ("dropout", "add_zero_attn", "batch_first")
        shown = [f"{name}={getattr(self, name)}" for name in (*sizes, *others)]
        return ", ".join([*shown, f"add_bias_kv={self.bias_k is not None}"])

    @property
    def _qkv_same_embed_dim(self) -> bool:
        """Whether the layers of torch.nn may run their kernel on the parameters alone."""
        one_width: bool = self.kdim == self.vdim == self.embed_dim
        if not self._is_made:  # PyTorch's __init__ asks which parameters to make
            return one_width
        is_ours = type(self).forward is MultiheadAttention.forward
        return one_width and is_ours and plain_weight(self.out_proj) is not None

    @_qkv_same_embed_dim.setter
    def _qkv_same_embed_dim(self, is_same: bool) -> None:
        """Take what PyTorch's __init__ sets; the property above decides."""

    def projections(self) -> list[tuple[Tensor, Tensor | None]]:
        """Return weight and bias for the queries, for the keys, for the values."""
        weights: Sequence[Tensor]
        if self.in_proj_weight is None:
            weights = [getattr(self, f"{which}_proj_weight") for which in "qkv"]
        else:
            weights = self.in_proj_weight.chunk(3)
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return list(zip(weights, biases, strict=True))

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return attn_output, and the attention weights or None: see the class."""
        require_bools(need_weights=need_weights, average_attn_weights=average_attn_weights)
        _require_inputs(self, query, key, value, key_padding_mask, attn_mask, is_causal)

        is_batch = query.ndim == 3
        if not is_batch:
            query, key, value = query[None], key[None], value[None]
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        b, num_queries, _ = query.shape
        num_keys = key.shape[1]

        (W_query, b_query), (W_key, b_key), (W_value, b_value) = self.projections()
        queries = F.linear(query, W_query, b_query)  # (b, num_queries, embed_dim)
        keys = F.linear(key, W_key, b_key)  # (b, num_keys, embed_dim)
        values = F.linear(value, W_value, b_value)  # (b, num_keys, embed_dim)

        if self.bias_k is not None and self.bias_v is not None:
            bias_k = self.bias_k.expand(b, 1, -1)  # (b, 1, embed_dim)
            bias_v = self.bias_v.expand(b, 1, -1)  # (b, 1, embed_dim)
            keys = torch.cat([keys, bias_k], dim=1)  # (b, num_keys + 1, embed_dim)
            values = torch.cat([values, bias_v], dim=1)  # (b, num_keys + 1, embed_dim)
        if self.add_zero_attn:
            keys = F.pad(keys, (0, 0, 0, 1))  # (b, num_positions, embed_dim)
            values = F.pad(values, (0, 0, 0, 1))  # (b, num_positions, embed_dim)

        queries = split_heads(queries, self.head_dim)  # (b, num_heads, num_queries, head_dim)
        keys = split_heads(keys, self.head_dim)  # (b, num_heads, num_positions, head_dim)
        values = split_heads(values, self.head_dim)  # (b, num_heads, num_positions, head_dim)

        queries = queries / self.head_dim**0.5  # (b, num_heads, num_queries, head_dim)
        attn_scores = queries @ keys.mT  # (b, num_heads, num_queries, num_positions)
        num_appended = keys.shape[2] - num_keys
        if attn_mask is not None:
            if attn_mask.ndim == 3:
                attn_mask = attn_mask.view(b, self.num_heads, num_queries, num_keys)
            attn_scores = apply_mask(attn_scores, attn_mask, num_appended)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.view(b, 1, 1, num_keys)
            attn_scores = apply_mask(attn_scores, key_padding_mask, num_appended)

        has_no_key = attn_scores.isneginf().all(-1, keepdim=True)  # (b, num_heads, num_queries, 1)
        attn_scores = attn_scores.masked_fill(has_no_key, 0.0)
        attn_weights = attn_scores.softmax(-1)  # (b, num_heads, num_queries, num_positions)
        attn_weights = attn_weights.masked_fill(has_no_key, 0.0)
        attn_weights = F.dropout(attn_weights, self.dropout, self.training)
        context_vec = attn_weights @ values  # (b, num_heads, num_queries, head_dim)

        context_vec = merge_heads(context_vec)  # (b, num_queries, embed_dim)
        context_vec = context_vec.transpose(0, 1).contiguous()  # (num_queries, b, embed_dim)
        attn_output = self.out_proj(context_vec)  # (num_queries, b, embed_dim)

        if average_attn_weights:
            attn_weights = attn_weights.mean(dim=1)  # (b, num_queries, num_positions)
        if not is_batch:
            attn_output, attn_weights = attn_output[:, 0], attn_weights[0]
        elif self.batch_first:
            attn_output = attn_output.transpose(0, 1)  # (b, num_queries, embed_dim)
        return attn_output, attn_weights if need_weights else None


def _require_inputs(
    module: MultiheadAttention,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    is_causal: bool,
) -> None:
    """Raise unless what forward received fits the weights and each other."""
    own = module._parameters  # a weight that is computed on each access is not computed for this
    weight = own.get("in_proj_weight") if own.get("q_proj_weight") is None else own["q_proj_weight"]
    for name, x, width in (
        ("query", query, "embed_dim"),
        ("key", key, "kdim"),
        ("value", value, "vdim"),
    ):
        require_floating(name, x)
        if x.ndim not in (2, 3) or x.ndim != query.ndim:
            raise ValueError(
                "query, key and value must be all 3-d (a batch) or all 2-d (one sequence); "
                f"{name} is {x.ndim}-d, {tuple(x.shape)}"
            )
        if x.shape[-1] != getattr(module, width):
            raise ValueError(
                f"the last dimension of {name} must be {width}={getattr(module, width)}, "
                f"not {x.shape[-1]}: {tuple(x.shape)}"
            )
        require_like(name, x, weight)
    is_batch = query.ndim == 3
    along = 1 if is_batch and module.batch_first else 0  # the dimension of the tokens
    b = query.shape[1 - along] if is_batch else 1
    if key.shape[:-1] != value.shape[:-1] or (is_batch and key.shape[1 - along] != b):
        raise ValueError(
            "query, key and value must have one batch size, and each key one value: "
            f"{tuple(query.shape)}, {tuple(key.shape)}, {tuple(value.shape)} do not fit with "
            f"batch_first={module.batch_first}"
        )
    num_queries, num_keys = query.shape[along], key.shape[along]
    pairs = (num_queries, num_keys)
    _require_mask("attn_mask", attn_mask, (pairs, (b * module.num_heads, *pairs)), weight)
    padding = (b, num_keys) if is_batch else (num_keys,)
    _require_mask("key_padding_mask", key_padding_mask, (padding,), weight)
    require_bools(is_causal=is_causal)
    if is_causal and attn_mask is None:
        raise ValueError(
            "is_causal=True only says that attn_mask is causal, but attn_mask is None; "
            f"try attn_mask=causal_mask({num_queries})"
        )


def _require_mask_kind(name: str, mask: object) -> None:
    """Raise unless mask is a tensor, bool or floating."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor or None, not {type(mask).__name__}")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(
            f"{name} must be bool (True: may not attend) or floating (added to the scores), "
            f"not {mask.dtype}; try {name}.bool()"
        )


def _require_mask(
    name: str, mask: Tensor | None, shapes: Sequence[tuple[int, ...]], weight: Tensor | None
) -> None:
    """Raise unless mask is None, or bool or of the weight's dtype, in one of the shapes."""
    if mask is None:
        return
    _require_mask_kind(name, mask)
    if tuple(mask.shape) not in shapes:
        rule = " or ".join(map(str, shapes))
        raise ValueError(f"{name} must be {rule}, not {tuple(mask.shape)}")
    require_like(name, mask, weight)
