"""The class for real use: one product for queries, keys and values, a fused kernel, and a cache."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.functional import attention, merge_heads, split_heads
from attnlib.modules import CausalModule
from attnlib.validate import (
    require_divides,
    require_divisible,
    require_input,
    require_positive_int,
)

# In 2.6 the CPU kernel shares no heads, and multiplies float16 before it scales. Where between 2.6
# and 2.13 that changed was not tried; scaled and repeated heads are right in all of them.
OLD_KERNELS = torch.__version__ < "2.13"


class KeyValueCache:
    """Keep the keys and values of the tokens so far, so that none is computed twice.

    Args:
        batch_size: how many sequences.
        num_kv_heads: heads of the keys and of the values.
        max_tokens: how many tokens of each sequence there is room for.
        head_dim: width of a head.
        dtype: floating dtype of the keys and values.
        device: where they are kept.

    num_tokens counts the tokens held. All memory is allocated at once: keys and values are
    (batch_size, num_kv_heads, max_tokens, head_dim) each, and what lies beyond num_tokens is
    never read.

    >>> KeyValueCache(batch_size=1, num_kv_heads=2, max_tokens=6, head_dim=4).keys.shape
    torch.Size([1, 2, 6, 4])

    Source: Shazeer 2019, section 2.4 (incremental attention); keys and values are K and V there.
    """

    def __init__(
        self,
        batch_size: int,
        num_kv_heads: int,
        max_tokens: int,
        head_dim: int,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        shape = (batch_size, num_kv_heads, max_tokens, head_dim)
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty(shape, dtype=dtype, device=device)
        self.max_tokens = max_tokens
        self.num_tokens = 0

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new tokens, and return those of all tokens so far.

        Args:
            keys: floating, (batch_size, num_kv_heads, num_new, head_dim).
            values: of the same shape.

        Returns:
            All keys and all values, (batch_size, num_kv_heads, num_tokens, head_dim): views of
            the cache, not copies.

        Raises:
            ValueError: there is no room for them, they are of another kind than the cache, or
                they require gradients. Nothing is written then.
        """
        if torch.is_grad_enabled() and keys.requires_grad:
            raise ValueError(
                "a cache carries no gradients; call the module under torch.no_grad() or "
                "torch.inference_mode()"
            )
        if _kind(keys) != _kind(self.keys):
            raise ValueError(
                f"the cache is for {_described(self.keys)}, not for {_described(keys)}; "
                "create it with new_cache() of the module that uses it"
            )
        start, stop = self.num_tokens, self.num_tokens + keys.shape[2]
        if stop > self.max_tokens:
            raise ValueError(
                f"the cache holds {start} tokens and has room for max_tokens={self.max_tokens}; "
                f"{keys.shape[2]} more would make {stop}; try a larger max_tokens, or "
                "cache.reset() to start anew"
            )
        self.keys[:, :, start:stop] = keys
        self.values[:, :, start:stop] = values
        self.num_tokens = stop
        return self.keys[:, :, :stop], self.values[:, :, :stop]

    def reset(self) -> None:
        """Forget all tokens and keep the memory."""
        self.num_tokens = 0

    def __repr__(self) -> str:
        held = f"{self.num_tokens} of {self.max_tokens} tokens"
        return f"KeyValueCache({held}, {_described(self.keys)})"


def _kind(keys: Tensor) -> dict[str, object]:
    """Return all that keys must have in common with a cache; autocast converts the dtype."""
    b, num_kv_heads, _, head_dim = keys.shape
    kind = {"batch_size": b, "num_kv_heads": num_kv_heads, "head_dim": head_dim}
    device = keys.device.type
    casts = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return {**kind, "dtype": None if casts else keys.dtype, "device": keys.device}


def _described(keys: Tensor) -> str:
    return ", ".join(f"{name}={value}" for name, value in _kind(keys).items() if value is not None)


def may_attend_so_far(
    num_queries: int, num_keys: int, device: torch.device | str | None = None
) -> Tensor:
    """Return, for each of the newest tokens (row), which tokens so far (columns) it may see.

    Equation:
        may_attend[i, j] = j <= i + num_keys - num_queries

    Args:
        num_queries: how many tokens are new.
        num_keys: how many tokens there are, the new ones included.
        device: where the mask is made.

    Returns:
        may_attend, bool, (num_queries, num_keys): a causal mask aligned to its lower right
        corner. **True means: may attend**, as in scaled_dot_product_attention, whose
        is_causal=True is aligned to the upper left.

    >>> may_attend_so_far(2, 4).int().tolist()
    [[1, 1, 1, 0], [1, 1, 1, 1]]

    Source: torch.nn.attention.bias.causal_lower_right.
    """
    position = torch.arange(num_keys, device=device)  # (num_keys)
    newest = position[num_keys - num_queries :]  # (num_queries)
    return position[None, :] <= newest[:, None]  # (num_queries, num_keys)


def fused_attention(
    queries: Tensor, keys: Tensor, values: Tensor, dropout_p: float = 0.0
) -> Tensor:
    """Mix the values by causal attention in a fused kernel, which never stores the weights.

    Equation:
        context_vec = softmax(mask(queries @ keys^T / sqrt(head_dim))) @ values

    Args:
        queries: floating, (b, num_heads, num_queries, head_dim), those of the newest tokens.
        keys: floating, (b, num_kv_heads, num_keys, head_dim), those of all tokens so far.
        values: floating, (b, num_kv_heads, num_keys, head_dim).
        dropout_p: share of the weights that are set to 0, **also in eval**: the caller decides.
            torch's CPU kernel has no dropout: with it, the weights are stored after all.

    Returns:
        context_vec, (b, num_heads, num_queries, head_dim). Each run of num_heads / num_kv_heads
        heads shares one head of keys and values.

    >>> one = torch.ones(1, 1, 2, 1)
    >>> fused_attention(one, one, torch.tensor([[[[1.0], [3.0]]]])).flatten().tolist()
    [1.0, 2.0]

    Source: Dao et al. 2022 (FlashAttention), by way of torch's scaled_dot_product_attention.
    """
    num_queries, num_keys = queries.shape[2], keys.shape[2]
    may_attend = None  # a single newest token may see all of them
    if 1 < num_queries < num_keys:
        may_attend = may_attend_so_far(num_queries, num_keys, queries.device)
    heads_share = bool(queries.shape[1] > keys.shape[1])  # torch.jit.trace has tensors for sizes
    scale = None
    if OLD_KERNELS and queries.dtype == torch.float16:
        queries, scale = queries / queries.shape[3] ** 0.5, 1.0
    if heads_share and not _kernel_shares_heads(queries, may_attend):
        keys = repeat_heads(keys, queries.shape[1])
        values = repeat_heads(values, queries.shape[1])
        heads_share = False
    return F.scaled_dot_product_attention(
        queries,
        keys,
        values,
        attn_mask=may_attend,
        dropout_p=dropout_p,
        is_causal=bool(num_queries == num_keys),  # torch.export has symbols for sizes
        scale=scale,
        enable_gqa=heads_share,
    )


def repeat_heads(x: Tensor, num_heads: int) -> Tensor:
    """Repeat each head of x, (b, num_kv_heads, ...), until there are num_heads.

    >>> repeat_heads(torch.tensor([[5, 7]]), 6).tolist()
    [[5, 5, 5, 7, 7, 7]]
    """
    return x.repeat_interleave(num_heads // x.shape[1], dim=1)


def _kernel_shares_heads(queries: Tensor, mask: Tensor | None) -> bool:
    """Return whether torch has a fused kernel that takes fewer heads of keys than of queries.

    Where it has none, torch does not refuse: it stores the weights. The CPU kernel supports shared
    heads, not yet in 2.6; on a GPU only the half-precision kernels do, and only without a mask.
    """
    if queries.device.type == "cuda":
        return mask is None and queries.dtype in (torch.float16, torch.bfloat16)
    return queries.device.type == "cpu" and not OLD_KERNELS


class FusedMultiHeadAttention(CausalModule):
    """Make queries, keys and values by one product and attend in a fused kernel.

    Equation:
        context_vec = concat(head_1, ..., head_n) W_out^T + b_out
        head_h = softmax(mask(queries_h @ keys_g^T / sqrt(head_dim))) @ values_g
        head_dim = d_out / num_heads, g = the key/value head of head h's group

    It is the function of MultiHeadAttention: split_to_fused copies the weights, and outputs,
    weights and gradients are equal. Constructed on the CPU right after torch.manual_seed(seed),
    without qkv_bias and num_kv_heads, it even starts with the weights of MultiHeadAttention.

    Args:
        d_in: width of a token's vector.
        d_out: **total** width of the result, shared out among the heads.
        context_length: the most tokens that forward accepts, those in the cache included.
        dropout: share of the attention weights that training sets to 0, from 0 to 1.
        num_heads: how many heads; it divides d_out.
        qkv_bias: whether W_qkv has a bias (out_proj always has one).
        num_kv_heads: heads of keys and values; it divides num_heads. Each is shared by
            num_heads / num_kv_heads heads of queries, and the cache is smaller by that factor.
            None means num_heads, the usual multi-head attention; 1 is multi-query attention.

    Returns:
        forward(x) takes x, floating, (b, num_tokens, d_in), and returns context_vec,
        (b, num_tokens, d_out). No num_tokens x num_tokens tensor is made, unless the device has
        no fused kernel for the case (a CPU in training with dropout, for instance).

        forward(x, return_weights=True) returns context_vec and attn_weights, (b, num_heads,
        num_tokens, num_tokens), after dropout. No kernel gives these, so they are computed by
        attnlib.attention: context_vec is then equal up to rounding only.

        forward(x, cache=cache), with a cache of new_cache, takes x as the tokens that follow
        those in the cache, adds their keys and values to it, and returns what the pass over all
        tokens at once returns for them. attn_weights are (b, num_heads, num_tokens, num_keys),
        num_keys counting all tokens so far. Several tokens that follow others need a mask,
        (num_tokens, num_keys); a first piece and a single token need none.

    Raises:
        TypeError: an argument is of the wrong type, or x of another dtype than the weights.
        ValueError: a size is not positive, num_heads does not divide d_out, num_kv_heads does
            not divide num_heads, dropout is outside [0, 1], x has the wrong shape or device or
            more than context_length tokens, the cache is full or not for this x, or gradients
            are required through a cache, which carries none.

    >>> fused = FusedMultiHeadAttention(6, 6, context_length=3, dropout=0.0, num_heads=2)
    >>> x, cache = torch.rand(1, 3, 6), fused.new_cache(batch_size=1, max_tokens=3)
    >>> with torch.no_grad(): one_by_one = [fused(token, cache=cache) for token in x.split(1, 1)]
    >>> torch.allclose(torch.cat(one_by_one, dim=1), fused(x), atol=1e-6)
    True

    Source: Vaswani et al. 2017, section 3.2.2; Shazeer 2019 (one head of keys and values);
    Ainslie et al. 2023 (num_kv_heads is G, the number of groups).
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
        num_kv_heads: int | None = None,
    ) -> None:
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        require_positive_int("num_heads", num_heads)
        require_divisible(d_out, num_heads)
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        require_positive_int("num_kv_heads", num_kv_heads)
        rule = f"num_kv_heads={num_kv_heads} does not divide num_heads={num_heads}"
        shared = "each head of keys and values is shared by equally many heads"
        require_divides(num_kv_heads, num_heads, f"{rule}: {shared}")
        self.num_heads = int(num_heads)
        self.num_kv_heads = int(num_kv_heads)
        self.head_dim = self.d_out // self.num_heads
        kv_width = self.num_kv_heads * self.head_dim
        self.widths = (self.d_out, kv_width, kv_width)
        self.W_qkv = nn.Linear(d_in, sum(self.widths), bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(float(dropout))

    def new_cache(self, batch_size: int, max_tokens: int) -> KeyValueCache:
        """Return an empty cache for max_tokens tokens, with the weights' dtype and device."""
        require_positive_int("batch_size", batch_size)
        require_positive_int("max_tokens", max_tokens)
        self._require_context(max_tokens)
        numbers = [*self.W_qkv.parameters(), *self.W_qkv.buffers(), torch.empty(0)]
        weight = next(entry for entry in numbers if entry.is_floating_point())
        sizes = (int(batch_size), self.num_kv_heads, int(max_tokens), self.head_dim)
        return KeyValueCache(*sizes, weight.dtype, weight.device)

    def forward(
        self, x: Tensor, return_weights: bool = False, cache: KeyValueCache | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        require_input(x, self.d_in, self.context_length, self.W_qkv)

        qkv = self.W_qkv(x)  # (b, num_tokens, d_out + 2 * num_kv_heads * head_dim)
        queries, keys, values = qkv.split(self.widths, dim=-1)
        queries = split_heads(queries, self.num_heads)  # (b, num_heads, num_tokens, head_dim)
        keys = split_heads(keys, self.num_kv_heads)  # (b, num_kv_heads, num_tokens, head_dim)
        values = split_heads(values, self.num_kv_heads)  # (b, num_kv_heads, num_tokens, head_dim)
        if cache is not None:
            self._require_cache(cache)
            keys, values = cache.append(keys, values)

        if return_weights:
            is_hidden = ~may_attend_so_far(x.shape[1], keys.shape[2], x.device)
            keys = repeat_heads(keys, self.num_heads)  # (b, num_heads, num_keys, head_dim)
            values = repeat_heads(values, self.num_heads)  # (b, num_heads, num_keys, head_dim)
            context_vec, attn_weights = attention(queries, keys, values, is_hidden, self.dropout)
        else:
            dropout_p = self.dropout.p if self.training else 0.0
            context_vec = fused_attention(queries, keys, values, dropout_p)

        context_vec = merge_heads(context_vec)  # (b, num_tokens, num_heads * head_dim)
        context_vec = self.out_proj(context_vec)  # (b, num_tokens, d_out)
        return (context_vec, attn_weights) if return_weights else context_vec

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, num_kv_heads={self.num_kv_heads}"

    def _require_context(self, max_tokens: int) -> None:
        if max_tokens > self.context_length:
            raise ValueError(
                f"a cache of max_tokens={max_tokens} is larger than "
                f"context_length={self.context_length}; try max_tokens={self.context_length} "
                "or a larger context_length"
            )

    def _require_cache(self, cache: KeyValueCache) -> None:
        if not isinstance(cache, KeyValueCache):
            raise TypeError(
                "cache must be what new_cache returns, or None, not " + type(cache).__name__
            )
        self._require_context(cache.max_tokens)
