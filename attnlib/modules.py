"""The three classes of the course: one head, stacked heads, heads by weight split."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor, nn

from attnlib.functional import attention, causal_mask, merge_heads, split_heads, with_causal_mask
from attnlib.validate import (
    positive_ints,
    require_bools,
    require_equal_heads,
    require_floating_dtype,
    require_input,
    require_mask,
    require_probability,
    require_switch,
    require_whole_head,
)

Device = torch.device | str | int | None


class CausalModule(nn.Module):
    """Base of the causal classes: checks and keeps the sizes, shows them, stores no mask."""

    d_in: int
    d_out: int
    context_length: int
    num_heads: int

    def __init__(
        self, dropout: float, qkv_bias: bool, dtype: torch.dtype | None, **sizes: int
    ) -> None:
        super().__init__()
        for name, size in zip(sizes, positive_ints(**sizes), strict=True):
            setattr(self, name, size)
        self.sizes = tuple(sizes)
        require_probability("dropout", dropout)
        require_bools(qkv_bias=qkv_bias)
        require_floating_dtype(dtype)

    def _require_call(
        self,
        x: Tensor,
        return_weights: object,
        is_masked: Tensor | None,
        projection: nn.Module,
        num_held: int = 0,
    ) -> None:
        """Raise unless forward can compute; num_held tokens are in a cache already."""
        require_input(x, self.d_in, self.context_length, projection)
        require_switch(return_weights)
        if is_masked is not None:
            heads = (self.num_heads,) if "num_heads" in self.sizes else ()
            sizes = (x.shape[0], *heads, x.shape[1], num_held + x.shape[1])
            require_mask(is_masked, sizes, x, "x")

    if TYPE_CHECKING:  # what forward returns, for whoever calls the module

        @overload
        def __call__(
            self, x: Tensor, return_weights: Literal[False] = False, **how: Any
        ) -> Tensor: ...
        @overload
        def __call__(
            self, x: Tensor, return_weights: Literal[True], **how: Any
        ) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(
            self, x: Tensor, return_weights: bool, **how: Any
        ) -> Tensor | tuple[Tensor, Tensor]: ...
        def __call__(self, x: Tensor, return_weights: bool = False, **how: Any) -> Any:
            """Return what forward returns."""

    def extra_repr(self) -> str:
        """Show the sizes; dropout and bias are shown by the parts below."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.sizes)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any, **options: Any
    ) -> None:
        """Drop the `mask` that published versions of these classes store; here forward makes it.

        A mask that is not causal would change the result: that one stays, an unexpected key. A
        subclass that has a mask of its own loads it.
        """
        name = prefix + "mask"
        if name in state_dict and "mask" not in self.state_dict():
            if _is_causal(state_dict[name]):
                del state_dict[name]
            else:
                warnings.warn(
                    f"the entry '{name}', {tuple(state_dict[name].shape)}, is not the causal mask "
                    "(1 above the diagonal, 0 elsewhere); only that one can be loaded",
                    stacklevel=2,
                )
        super()._load_from_state_dict(state_dict, prefix, *rest, **options)


def _is_causal(mask: Tensor) -> bool:
    """Return whether a mask excludes the future and nothing else, or has no numbers to tell."""
    if mask.is_meta:
        return True
    if mask.ndim < 2 or mask.numel() != mask.shape[-1] ** 2:
        return False
    expected = causal_mask(mask.shape[-1], device=mask.device)
    return torch.equal(mask.bool().reshape(expected.shape), expected)


class CausalAttention(CausalModule):
    """Let each token attend to itself and the tokens before it, with one head.

    Equation:
        context_vec = softmax(mask(queries @ keys^T / sqrt(d_out))) @ values
        queries = x W_query^T, keys = x W_key^T, values = x W_value^T

    Args:
        d_in: width of a token's vector.
        d_out: width of the head, and so of the result (head_dim).
        context_length: the most tokens that forward accepts.
        dropout: share of the attention weights that training sets to 0, from 0 to 1.
        qkv_bias: whether the three projections have a bias.
        device: where the parameters are made.
        dtype: floating dtype of the parameters.

    Returns:
        forward(x) takes x, floating, (b, num_tokens, d_in), and returns context_vec,
        (b, num_tokens, d_out). forward(x, return_weights=True) returns context_vec and
        attn_weights, (b, num_tokens, num_tokens), after dropout; 0 above the diagonal.

        forward(x, is_masked=is_masked) masks more than the future: bool, broadcastable to
        (b, num_tokens, num_tokens). **True means: this query may not attend to this key**, as in
        causal_mask. A query without any key gets weights and a context of 0.

    Raises:
        TypeError: an argument is of the wrong type, or x of another dtype than the weights.
        ValueError: a size is not positive, dropout is outside [0, 1], x has the wrong shape or
            device or more than context_length tokens.

    >>> head = CausalAttention(d_in=3, d_out=2, context_length=6, dropout=0.0)
    >>> head(torch.ones(1, 6, 3)).shape
    torch.Size([1, 6, 2])

    Source: Vaswani et al. 2017, sections 3.2.1 and 3.2.3, where d_out is d_k = d_v.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        qkv_bias: bool = False,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        sizes = {"d_in": d_in, "d_out": d_out, "context_length": context_length}
        super().__init__(dropout, qkv_bias, dtype, **sizes)
        self.W_query = nn.Linear(self.d_in, self.d_out, qkv_bias, device, dtype)
        self.W_key = nn.Linear(self.d_in, self.d_out, qkv_bias, device, dtype)
        self.W_value = nn.Linear(self.d_in, self.d_out, qkv_bias, device, dtype)
        self.dropout = nn.Dropout(float(dropout))

    def forward(
        self, x: Tensor, return_weights: bool = False, *, is_masked: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return context_vec, (b, num_tokens, d_out), and attn_weights if asked for."""
        self._require_call(x, return_weights, is_masked, self.W_query)

        queries = self.W_query(x)  # (b, num_tokens, d_out)
        keys = self.W_key(x)  # (b, num_tokens, d_out)
        values = self.W_value(x)  # (b, num_tokens, d_out)
        require_whole_head(queries, self.d_out)

        is_masked = with_causal_mask(is_masked, x.shape[1], device=x.device)
        context_vec, attn_weights = attention(queries, keys, values, is_masked, self.dropout)
        return (context_vec, attn_weights) if return_weights else context_vec


class MultiHeadAttentionWrapper(CausalModule):
    """Run several causal heads one after the other and put their columns side by side.

    Equation:
        context_vec = concat(head_1(x), ..., head_n(x))

    Args:
        d_out: width of **each head**; the result has num_heads * d_out columns.
        num_heads: how many heads.
        The others are those of CausalAttention.

    Returns:
        forward(x) takes x, floating, (b, num_tokens, d_in), and returns context_vec,
        (b, num_tokens, num_heads * d_out): head h owns columns h * d_out to (h + 1) * d_out.
        forward(x, return_weights=True) returns context_vec and attn_weights,
        (b, num_heads, num_tokens, num_tokens).

    >>> stacked = MultiHeadAttentionWrapper(3, 2, context_length=6, dropout=0.0, num_heads=2)
    >>> stacked(torch.ones(1, 6, 3)).shape
    torch.Size([1, 6, 4])

    Source: Vaswani et al. 2017, section 3.2.2, without the product by W^O.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        sizes = {"d_in": d_in, "d_out": d_out, "context_length": context_length}
        super().__init__(dropout, qkv_bias, dtype, **sizes, num_heads=num_heads)
        self.heads = nn.ModuleList(
            CausalAttention(**sizes, dropout=dropout, qkv_bias=qkv_bias, device=device, dtype=dtype)
            for _ in range(self.num_heads)
        )

    def forward(
        self, x: Tensor, return_weights: bool = False, *, is_masked: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return context_vec, (b, num_tokens, num_heads * d_out), and attn_weights if asked for."""
        self._require_call(x, return_weights, is_masked, self.heads[0].get_submodule("W_query"))
        masks: Sequence[Tensor | None] = [None] * len(self.heads)
        if is_masked is not None:
            b, num_tokens, _ = x.shape
            masks = is_masked.expand(b, self.num_heads, num_tokens, num_tokens).unbind(dim=1)
        outputs = [
            head(x, return_weights, is_masked=mask)
            for head, mask in zip(self.heads, masks, strict=True)
        ]
        if not return_weights:
            context_vec = torch.cat(outputs, dim=-1)
            return context_vec  # (b, num_tokens, num_heads * d_out)

        contexts, weights = zip(*outputs, strict=True)
        context_vec = torch.cat(contexts, dim=-1)  # (b, num_tokens, num_heads * d_out)
        attn_weights = torch.stack(weights, dim=1)  # (b, num_heads, num_tokens, num_tokens)
        return context_vec, attn_weights


class MultiHeadAttention(CausalModule):
    """Make all heads by one product per projection, then split its result into heads.

    Equation:
        context_vec = concat(head_1, ..., head_n) W_out^T + b_out
        head_h = softmax(mask(queries_h @ keys_h^T / sqrt(head_dim))) @ values_h
        head_dim = d_out / num_heads

    Args:
        d_out: **total** width of the result, shared out among the heads.
        num_heads: how many heads; it divides d_out.
        qkv_bias: whether the projections have a bias (out_proj always has one).
        The others are those of CausalAttention.

    Returns:
        forward(x) takes x, floating, (b, num_tokens, d_in), and returns context_vec,
        (b, num_tokens, d_out). forward(x, return_weights=True) returns context_vec and
        attn_weights, (b, num_heads, num_tokens, num_tokens), after dropout.

        forward(x, is_masked=is_masked) masks more than the future: bool, broadcastable to
        (b, num_heads, num_tokens, num_tokens); is_padding[:, None, None, :] for instance. **True
        means: this query may not attend to this key**, as in causal_mask and nn.MultiheadAttention.
        scaled_dot_product_attention means the opposite: is_masked=~attn_mask. A query without any
        key gets weights and a context of 0.

    Raises:
        ValueError: num_heads does not divide d_out; the others are those of CausalAttention.

    >>> split = MultiHeadAttention(6, 6, context_length=3, dropout=0.0, num_heads=2)
    >>> split(torch.ones(1, 3, 6)).shape
    torch.Size([1, 3, 6])

    Source: Vaswani et al. 2017, section 3.2.2; W_query holds the rows of all W_i^Q, out_proj is
    W^O, head_dim is d_k = d_v. Radford et al. 2019 (GPT-2) has the same arrangement.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        sizes = {"d_in": d_in, "d_out": d_out, "context_length": context_length}
        super().__init__(dropout, qkv_bias, dtype, **sizes, num_heads=num_heads)
        require_equal_heads(self.d_out, self.num_heads)
        self.head_dim = self.d_out // self.num_heads
        self.W_query = nn.Linear(self.d_in, self.d_out, qkv_bias, device, dtype)
        self.W_key = nn.Linear(self.d_in, self.d_out, qkv_bias, device, dtype)
        self.W_value = nn.Linear(self.d_in, self.d_out, qkv_bias, device, dtype)
        self.out_proj = nn.Linear(self.d_out, self.d_out, True, device, dtype)
        self.dropout = nn.Dropout(float(dropout))

    def forward(
        self, x: Tensor, return_weights: bool = False, *, is_masked: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return context_vec, (b, num_tokens, d_out), and attn_weights if asked for."""
        self._require_call(x, return_weights, is_masked, self.W_query)

        queries = self.W_query(x)  # (b, num_tokens, d_out)
        keys = self.W_key(x)  # (b, num_tokens, d_out)
        values = self.W_value(x)  # (b, num_tokens, d_out)

        queries = split_heads(queries, self.head_dim)  # (b, num_heads, num_tokens, head_dim)
        keys = split_heads(keys, self.head_dim)  # (b, num_heads, num_tokens, head_dim)
        values = split_heads(values, self.head_dim)  # (b, num_heads, num_tokens, head_dim)

        is_masked = with_causal_mask(is_masked, x.shape[1], device=x.device)
        context_vec, attn_weights = attention(queries, keys, values, is_masked, self.dropout)

        context_vec = merge_heads(context_vec)  # (b, num_tokens, num_heads * head_dim)
        context_vec = self.out_proj(context_vec)  # (b, num_tokens, d_out)
        return (context_vec, attn_weights) if return_weights else context_vec
