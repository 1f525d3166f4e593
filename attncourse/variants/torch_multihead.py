"""PyTorch's own attention module, rebuilt from scratch to be read.

The class is spelled as PyTorch spells it, MultiheadAttention with a small h: it takes three
inputs and has no causal mask of its own. attnlib.MultiHeadAttention is the causal class of the
course.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import MultiheadAttention as TorchMultiheadAttention

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

    Equation:
        attn_scores[mask] = -inf, or attn_scores + mask

    Args:
        attn_scores: floating, (..., num_queries, num_keys + num_appended).
        mask: bool or floating, broadcastable to (..., num_queries, num_keys).
        num_appended: positions after the keys, whose scores stay as they are.

    Raises:
        TypeError: mask is not a tensor, or neither bool nor floating.
        ValueError: mask is too wide, too narrow, or for other queries.

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


class MultiheadAttention(nn.Module):
    """Attend as torch.nn.MultiheadAttention does: its arguments, its parameters, its numbers.

    Equation:
        attn_output = concat(head_1, ..., head_n) W_out^T + b_out
        head_h = softmax(queries_h @ keys_h^T / sqrt(head_dim) + mask) @ values_h
        queries = query W_query^T + b_query, keys = key W_key^T + b_key,
        values = value W_value^T + b_value, head_dim = embed_dim / num_heads

    in_proj_weight holds the rows of W_query, then of W_key, then of W_value, and in_proj_bias
    their biases. Where kdim or vdim differs from embed_dim, the three have parameters of their
    own: q_proj_weight, k_proj_weight, v_proj_weight. State dicts load in both directions, and
    right after torch.manual_seed(seed) the weights are those of PyTorch's class.

    Args:
        embed_dim: width of query and of the result, shared out among the heads.
        num_heads: how many heads; it divides embed_dim.
        dropout: share of the attention weights that training sets to 0, from 0 to 1.
        bias: whether the three projections **and** out_proj have a bias.
        add_bias_kv: whether one learned position, bias_k and bias_v, is appended to the keys and
            values of every sequence.
        add_zero_attn: whether one position of zeros is appended, so a query can attend to nothing.
            No mask applies to an appended position.
        kdim: width of key; embed_dim if None.
        vdim: width of value; embed_dim if None.
        batch_first: whether a batch is (b, num_tokens, width) rather than (num_tokens, b, width).
            **The default is the latter**, and nothing but the shapes can tell them apart.
        device: where the parameters are made.
        dtype: floating dtype of the parameters.

    Returns:
        forward takes, with batch_first=True, query (b, num_queries, embed_dim), key
        (b, num_keys, kdim), value (b, num_keys, vdim), key_padding_mask (b, num_keys), and
        attn_mask (num_queries, num_keys) or (b * num_heads, num_queries, num_keys). It returns
        attn_output, (b, num_queries, embed_dim), and the weights as they were used, after dropout:
        averaged over the heads, or each with average_attn_weights=False, or None with
        need_weights=False. A single sequence has all these shapes without b. In a boolean mask
        **True means: may not attend**, the opposite of F.scaled_dot_product_attention. A floating
        mask is added to the scores. is_causal=True is only a claim about attn_mask: the mask is
        still needed, and it alone decides.

    Raises:
        TypeError: an argument is of the wrong type, or of another dtype than the weights.
        ValueError: a size is not positive, num_heads does not divide embed_dim, dropout is
            outside [0, 1], shapes or devices do not fit, is_causal comes without attn_mask.

    PyTorch 2.13 answers some questions differently on its fast paths; here asking for the weights
    never changes the result. A query that may attend to no key gets weights and a context of 0, as
    PyTorch's does with need_weights=False. is_causal never replaces attn_mask. There is no fast
    path, need_weights=False saves no work, and nested tensors are refused. The layers of torch.nn
    take the class for their attention.

    >>> attention = MultiheadAttention(embed_dim=4, num_heads=2, batch_first=True)
    >>> x = torch.ones(1, 3, 4)
    >>> [tuple(result.shape) for result in attention(x, x, x, average_attn_weights=False)]
    [(1, 3, 4), (1, 2, 3, 3)]

    Source: Vaswani et al. 2017, section 3.2.2. torch.nn.MultiheadAttention, whose documentation
    calls num_queries L, num_keys S and b N.
    """

    in_proj_weight: nn.Parameter | None
    q_proj_weight: nn.Parameter | None
    k_proj_weight: nn.Parameter | None
    v_proj_weight: nn.Parameter | None
    in_proj_bias: nn.Parameter | None
    bias_k: nn.Parameter | None
    bias_v: nn.Parameter | None

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
        super().__init__()
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
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = float(dropout)
        self.add_zero_attn = add_zero_attn
        self.kdim = kdim
        self.vdim = vdim
        self.batch_first = batch_first

        packed = kdim == vdim == embed_dim
        shapes = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if packed else None,
            "q_proj_weight": None if packed else (embed_dim, embed_dim),
            "k_proj_weight": None if packed else (embed_dim, kdim),
            "v_proj_weight": None if packed else (embed_dim, vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if add_bias_kv else None,
            "bias_v": (1, 1, embed_dim) if add_bias_kv else None,
        }
        for name, shape in shapes.items():
            empty = None if shape is None else torch.empty(shape, device=device, dtype=dtype)
            self.register_parameter(name, None if empty is None else nn.Parameter(empty))
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)

        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Draw the weights as PyTorch does, in its order; out_proj has drawn its own."""
        for name, parameter in self.named_parameters(recurse=False):
            if name == "in_proj_bias":
                nn.init.zeros_(parameter)
                nn.init.zeros_(self.out_proj.bias)
            elif name in ("bias_k", "bias_v"):
                nn.init.xavier_normal_(parameter)
            else:
                nn.init.xavier_uniform_(parameter)

    def extra_repr(self) -> str:
        """Show the arguments; `bias` shows in out_proj."""
        sizes = ("embed_dim", "num_heads", "kdim", "vdim")
        others = ("dropout", "add_zero_attn", "batch_first")
        shown = [f"{name}={getattr(self, name)}" for name in (*sizes, *others)]
        return ", ".join([*shown, f"add_bias_kv={self.bias_k is not None}"])

    merge_masks = TorchMultiheadAttention.merge_masks  # for the kernel of the layers of torch.nn

    @property
    def _qkv_same_embed_dim(self) -> bool:
        """Whether the packed parameters are the whole function: that kernel needs no more."""
        is_ours = type(self).forward is MultiheadAttention.forward
        is_packed = self.in_proj_weight is not None
        return is_ours and is_packed and plain_weight(self.out_proj) is not None

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
