"""Attention as pure functions: everything that the classes of the course have in common."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnlib.validate import (
    is_recording,
    positive_ints,
    require_attention,
    require_newest,
    require_shape,
    require_whole_heads,
)


def causal_mask(
    num_queries: int, num_keys: int | None = None, *, device: torch.device | str | None = None
) -> Tensor:
    """Say for each query (row) which keys (columns) lie in its future.

    Equation:
        is_future[i, j] = j > i + num_keys - num_queries

    Args:
        num_queries: how many tokens ask: the newest ones.
        num_keys: how many tokens there are, those that ask included; num_queries if None.
        device: where the mask is made.

    Returns:
        is_future, bool, (num_queries, num_keys). True means: this query may not attend to this key.

    Raises:
        TypeError: a number of tokens is not an int.
        ValueError: it is negative, or there are more queries than keys.

    >>> causal_mask(3).int().tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    >>> causal_mask(2, 3).int().tolist()  # the last two rows
    [[0, 0, 1], [0, 0, 0]]

    Source: Vaswani et al. 2017, section 3.2.3 (illegal connections are set to -inf); with fewer
    queries than keys, torch.nn.attention.bias.causal_lower_right.
    """
    num_keys = num_queries if num_keys is None else num_keys
    require_newest(num_queries, num_keys)
    position = torch.arange(num_keys, device=device)  # (num_keys)
    newest = position[num_keys - num_queries :]  # (num_queries)
    is_future = position[None, :] > newest[:, None]  # (num_queries, num_keys)
    return is_future


def with_causal_mask(
    is_masked: Tensor | None,
    num_queries: int,
    num_keys: int | None = None,
    *,
    device: torch.device | str | None = None,
) -> Tensor:
    """Return a mask of the future and of whatever else is masked.

    Equation:
        causal_mask(num_queries, num_keys) | is_masked

    Args are those of causal_mask; is_masked is None where nothing else is masked.

    >>> is_padding = torch.tensor([True, False, False])  # on the left
    >>> with_causal_mask(is_padding, 3).int().tolist()
    [[1, 1, 1], [1, 0, 1], [1, 0, 0]]
    """
    is_future = causal_mask(num_queries, num_keys, device=device)  # (num_queries, num_keys)
    return is_future if is_masked is None else is_future | is_masked


def attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    is_masked: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Mix the values, each query by its own weights.

    Equation:
        context_vec = softmax(queries @ keys^T / sqrt(head_dim)) @ values

    Args:
        queries: floating, (..., num_queries, head_dim).
        keys: floating, (..., num_keys, head_dim).
        values: floating, (..., num_keys, value_dim).
        is_masked: bool, broadcastable to the scores, (..., num_queries, num_keys). **True means:
            this query may not attend to this key**, as in causal_mask and nn.MultiheadAttention.
            scaled_dot_product_attention means the opposite: is_masked=~attn_mask.
        dropout: applied to the weights after softmax, for instance an nn.Dropout.

    Returns:
        context_vec, (..., num_queries, value_dim), and attn_weights, (..., num_queries, num_keys),
        as they were used: after dropout. Before dropout each row is >= 0 and sums to 1, and masked
        keys have weight exactly 0. A query that may attend to no key gets weights and a context of
        0. Values at masked keys must still be finite: 0 * NaN is NaN.

    Raises:
        TypeError: one of the three is not a tensor of floating-point numbers of their common
            dtype, is_masked is not one of bools, or dropout is no function.
        ValueError: their shapes or devices do not fit; a mask never enlarges the result.

    >>> one_key = torch.ones(1, 2)
    >>> attention(torch.ones(3, 2), one_key, torch.tensor([[5.0, 7.0]]))[0].tolist()
    [[5.0, 7.0], [5.0, 7.0], [5.0, 7.0]]

    Source: Vaswani et al. 2017, equation 1, where queries, keys, values are Q, K, V and head_dim
    is d_k. The queries are scaled rather than the scores: the same result with fewer divisions.
    """
    require_attention(queries, keys, values, is_masked, dropout)

    head_dim = queries.shape[-1]
    queries = queries / head_dim**0.5  # (..., num_queries, head_dim)
    attn_scores = queries @ keys.transpose(-2, -1)  # (..., num_queries, num_keys)
    has_no_key = None
    if is_masked is not None:
        has_no_key = _queries_without_key(is_masked)  # (..., num_queries, 1)
        if has_no_key is not None:
            is_masked = is_masked & ~has_no_key  # softmax makes NaN of a row of -inf
        attn_scores = _mask_scores(attn_scores, is_masked)  # (..., num_queries, num_keys)
    attn_weights = torch.softmax(attn_scores, dim=-1)  # (..., num_queries, num_keys)
    if has_no_key is not None:
        attn_weights = attn_weights.masked_fill(has_no_key, 0.0)  # (..., num_queries, num_keys)
    if dropout is not None:
        attn_weights = dropout(attn_weights)  # (..., num_queries, num_keys)
    context_vec = attn_weights @ values  # (..., num_queries, value_dim)
    return context_vec, attn_weights


def _mask_scores(attn_scores: Tensor, is_masked: Tensor) -> Tensor:
    """Return the scores with -inf where they are masked.

    They are filled in place, because a second tensor of their size would cost as much time as
    their product. A mask that vmap has given a batch of its own does not fit into the scores.
    """
    if torch._C._functorch.is_batchedtensor(is_masked):
        return attn_scores.masked_fill(is_masked, -torch.inf)
    return attn_scores.masked_fill_(is_masked, -torch.inf)


def _queries_without_key(is_masked: Tensor) -> Tensor | None:
    """Return which queries may attend to no key, (..., num_queries, 1), or None if all have one.

    Filling their weights costs a pass over all weights. A query that may attend to key 0 has a
    key, and with the causal mask alone every query may. So where it costs next to nothing, the
    first column of the mask is looked at; on a GPU, or while PyTorch records a graph, it is not.
    """
    can_look = type(is_masked) is Tensor and is_masked.device.type == "cpu" and not is_recording()
    can_look = can_look and not torch._C._functorch.is_functorch_wrapped_tensor(is_masked)
    if can_look and not is_masked[..., :1].any():
        return None
    return is_masked.all(dim=-1, keepdim=True)


def split_heads(x: Tensor, head_dim: int) -> Tensor:
    """Cut each token's vector into heads and put the heads before the tokens.

    The width of a head is given, and the number of heads follows from the width of x: a process
    that holds some of the heads only (tensor parallelism) splits a narrower x.

    Equation:
        split_heads(x)[b, h, t] = x[b, t, h * head_dim : (h + 1) * head_dim]

    Args:
        x: (b, num_tokens, d_out); head_dim divides d_out.
        head_dim: width of a head.

    Returns:
        (b, num_heads, num_tokens, head_dim) with num_heads = d_out / head_dim, a view:
        merge_heads undoes it.

    Raises:
        TypeError, ValueError: x is not such a tensor, or head_dim does not divide its width.

    >>> split_heads(torch.arange(8).view(1, 2, 4), head_dim=2).tolist()
    [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]

    Source: Vaswani et al. 2017, section 3.2.2, where head_dim is d_k = d_v.
    """
    require_shape("x", x, "(b, num_tokens, d_out)")
    (head_dim,) = positive_ints(head_dim=head_dim)
    require_whole_heads(x.shape[2], head_dim)
    b, num_tokens, d_out = x.shape
    num_heads = d_out // head_dim
    x = x.view(b, num_tokens, num_heads, head_dim)  # (b, num_tokens, num_heads, head_dim)
    x = x.transpose(1, 2)  # (b, num_heads, num_tokens, head_dim)
    return x


def merge_heads(x: Tensor) -> Tensor:
    """Put the heads of each token side by side again: the inverse of split_heads.

    Equation:
        merge_heads(x)[b, t] = concat(x[b, 0, t], ..., x[b, num_heads - 1, t])

    Args:
        x: (b, num_heads, num_tokens, head_dim).

    Returns:
        (b, num_tokens, d_out) with d_out = num_heads * head_dim.

    Raises:
        TypeError, ValueError: x is not such a tensor.

    >>> x = torch.arange(24).view(1, 3, 8)
    >>> torch.equal(merge_heads(split_heads(x, head_dim=2)), x)
    True

    Source: Vaswani et al. 2017, section 3.2.2, Concat(head_1, ..., head_h).
    """
    require_shape("x", x, "(b, num_heads, num_tokens, head_dim)")
    b, num_heads, num_tokens, head_dim = x.shape
    x = x.transpose(1, 2)  # (b, num_tokens, num_heads, head_dim)
    x = x.contiguous()  # (b, num_tokens, num_heads, head_dim)
    x = x.view(b, num_tokens, num_heads * head_dim)  # (b, num_tokens, num_heads * head_dim)
    return x
