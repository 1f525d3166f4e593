"""PyTorch's own attention module, rebuilt from scratch in order to be read."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.validate import (
    require_bool,
    require_divisible,
    require_positive_int,
    require_probability,
)


def apply_mask(attn_scores: Tensor, mask: Tensor) -> Tensor:
    """Hide scores where a boolean mask is True; add a floating mask to them.

    Equation:
        attn_scores[..., mask] = -inf, or attn_scores + mask

    Args:
        attn_scores: floating, (..., num_queries, num_keys + appended).
        mask: bool or floating, broadcastable to (..., num_queries, num_keys). It says nothing
            about the appended positions: they stay as they are.

    Returns:
        The new scores, (..., num_queries, num_keys + appended).

    >>> apply_mask(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False])).tolist()
    [-inf, 2.0, 3.0]
    >>> apply_mask(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, -0.5])).tolist()
    [1.5, 1.5, 3.0]

    Source: torch.nn.functional.multi_head_attention_forward, where -inf is added too.
    """
    mask = F.pad(mask, (0, attn_scores.shape[-1] - mask.shape[-1]))
    return (
        attn_scores.masked_fill(mask, -torch.inf)
        if mask.dtype == torch.bool
        else (attn_scores + mask)
    )


class MultiheadAttention(nn.Module):
    """Attend as torch.nn.MultiheadAttention does: its arguments, parameters and numbers.

    Equation:
        attn_output = concat(head_1, ..., head_n) W_out^T + b_out
        head_h = softmax(queries_h @ keys_h^T / sqrt(head_dim) + mask) @ values_h
        queries = query W_query^T + b_query, keys = key W_key^T + b_key,
        values = value W_value^T + b_value, head_dim = embed_dim / num_heads

    W_query, W_key and W_value lie on top of each other in in_proj_weight, their biases in
    in_proj_bias. If kdim or vdim is not embed_dim they are q_proj_weight, k_proj_weight and
    v_proj_weight instead. State dicts load in both directions, and right after
    torch.manual_seed the weights are those that PyTorch's class draws.

    Args:
        embed_dim: width of query and of the result, shared out among the heads.
        num_heads: how many heads; it divides embed_dim.
        dropout: share of the attention weights that training sets to 0, from 0 to 1.
        bias: whether the three projections **and** out_proj have a bias.
        add_bias_kv: append one learned position to keys and values, after the projection: bias_k
            and bias_v, (1, 1, embed_dim). Nothing is added to the keys and values themselves.
        add_zero_attn: append one position (the last) whose key and value are zeros: its score is
            0, so a query can attend to nothing. No mask hides an appended position.
        kdim: width of key; embed_dim if None.
        vdim: width of value; embed_dim if None.
        batch_first: whether 3-dimensional inputs and results are (b, num_tokens, width) rather
            than (num_tokens, b, width). **False is the default**, as in PyTorch, and where both
            sizes fit nobody can notice the wrong one.
        device: where the parameters are made.
        dtype: floating dtype of the parameters.

    Returns:
        forward(query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
        average_attn_weights=True, is_causal=False) takes, with batch_first=True,

        - query, floating, (b, num_queries, embed_dim)
        - key, floating, (b, num_keys, kdim), and value, floating, (b, num_keys, vdim)
        - key_padding_mask, (b, num_keys): the same keys for every query of a sequence
        - attn_mask, (num_queries, num_keys) or (b * num_heads, num_queries, num_keys)

        and returns attn_output, (b, num_queries, embed_dim), and attn_weights, as they were used
        (after dropout): their average over the heads, (b, num_queries, num_keys + appended), or,
        with average_attn_weights=False, (b, num_heads, num_queries, num_keys + appended), or
        None with need_weights=False. One sequence alone has the same shapes without b.

        In a boolean mask **True means: may not attend**, the opposite of
        F.scaled_dot_product_attention. A floating mask is added to the scores. is_causal=True
        only claims that attn_mask is causal: attn_mask is still needed, and it alone decides.

    Raises:
        TypeError: an argument is of the wrong type, or of another dtype than the weights.
        ValueError: a size is not positive, num_heads does not divide embed_dim, dropout is
            outside [0, 1], shapes or devices do not fit, is_causal without attn_mask.

    >>> attention = MultiheadAttention(embed_dim=4, num_heads=2, batch_first=True)
    >>> x = torch.ones(1, 3, 4)
    >>> [tuple(result.shape) for result in attention(x, x, x, average_attn_weights=False)]
    [(1, 3, 4), (1, 2, 3, 3)]

    Where PyTorch 2.13 gives two answers, this class gives one, so that asking for the weights
    never changes the result:

    - A query whose keys are all hidden gets NaN here: an average over nothing. PyTorch gives NaN
      with need_weights=True, an average of 0 with need_weights=False, and NaN again on the fast
      path that it takes in eval mode without gradients. NaN is noticed, 0 is not.
    - is_causal=True with need_weights=False makes PyTorch drop attn_mask (unless there is a
      key_padding_mask or the fast path is taken) for a causal mask of its own, which also hides
      appended positions.

    There is no fast path here, and nested tensors are refused.

    Source: torch.nn.MultiheadAttention, in whose documentation num_queries is L, num_keys S, b N;
    Vaswani et al. 2017, section 3.2.2.
    """

    in_proj_weight: nn.Parameter | None
    q_proj_weight: nn.Parameter | None
    k_proj_weight: nn.Parameter | None
    v_proj_weight: nn.Parameter | None
    in_proj_bias: nn.Parameter | None
    bias_k: nn.Parameter | None
    bias_v: nn.Parameter | None

    def __init__(
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
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.add_zero_attn = add_zero_attn
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.batch_first = batch_first
        for size in ("embed_dim", "num_heads", "kdim", "vdim"):
            require_positive_int(size, getattr(self, size))
        require_divisible(embed_dim, num_heads, "embed_dim")
        require_probability("dropout", dropout)
        for name, value in (
            ("bias", bias),
            ("add_bias_kv", add_bias_kv),
            ("add_zero_attn", add_zero_attn),
            ("batch_first", batch_first),
        ):
            require_bool(name, value)
        self.head_dim = embed_dim // num_heads

        def parameter(wanted: bool, *shape: int) -> nn.Parameter | None:
            empty = torch.empty(shape, device=device, dtype=dtype)
            return nn.Parameter(empty) if wanted else None

        packed = self.kdim == self.vdim == embed_dim
        self.in_proj_weight = parameter(packed, 3 * embed_dim, embed_dim)
        self.q_proj_weight = parameter(not packed, embed_dim, embed_dim)
