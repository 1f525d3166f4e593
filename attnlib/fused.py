"""The class for real use: one product for queries, keys and values, a fused kernel, and a cache."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.cache import KeyValueCache
from attnlib.functional import attention, causal_mask, merge_heads, split_heads, with_causal_mask
from attnlib.modules import CausalModule, Device
from attnlib.rotary import ROTATIONS, rotary_cos_sin
from attnlib.validate import (
    autocasts,
    dropout_rate,
    is_exporting,
    plain_weight,
    positive_ints,
    require_bools,
    require_equal_heads,
    require_mask,
    require_newest,
    require_parts,
    require_probability,
    require_rate,
    require_shared,
)

# In 2.6 the CPU kernel shares no heads, and multiplies float16 before it scales. Where between 2.6
# and 2.13 that changed was not tried; scaled and repeated heads are right in all of them.
OLD_KERNELS = torch.__version__ < "2.13"


class CosSin(NamedTuple):
    """What FusedMultiHeadAttention.cos_sin returns, for tokens that follow num_before others."""

    cos: Tensor
    sin: Tensor
    num_before: int


def fused_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    dropout_p: float = 0.0,
    is_masked: Tensor | None = None,
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
        is_masked: bool, broadcastable to (b, num_heads, num_queries, num_keys): what is masked
            besides the future. **True means: this query may not attend to this key**, the opposite
            of attn_mask in scaled_dot_product_attention: is_masked=~attn_mask.

    Returns:
        context_vec, (b, num_heads, num_queries, head_dim). Each run of num_heads / num_kv_heads
        heads shares one head of keys and values. A query without any key gets a context of 0.

    Raises:
        TypeError: an argument is of another type, or dtype, than the others need.
        ValueError: shapes or devices do not fit, there are more queries than keys, or dropout_p is
            outside [0, 1].

    >>> one = torch.ones(1, 1, 2, 1)
    >>> fused_attention(one, one, torch.tensor([[[[1.0], [3.0]]]])).flatten().tolist()
    [1.0, 2.0]

    Source: Dao et al. 2022 (FlashAttention), by way of torch's scaled_dot_product_attention.
    """
    _require_fused(queries, keys, values, dropout_p)
    if is_masked is not None:
        require_mask(is_masked, (*queries.shape[:3], keys.shape[2]), queries)
    return _attend_fused(queries, keys, values, dropout_p, is_masked)


def _attend_fused(
    queries: Tensor, keys: Tensor, values: Tensor, dropout_p: float, is_masked: Tensor | None
) -> Tensor:
    """Do what fused_attention does, without asking whether it can."""
    num_queries, num_keys = queries.shape[2], keys.shape[2]
    attn_mask, is_causal = None, False
    if is_masked is not None:
        attn_mask = _may_attend(is_masked, num_queries, num_keys)
    elif num_queries == num_keys:  # a branch, because SDPA takes no symbol for a bool
        is_causal = True
    elif num_queries > 1:  # a single newest token may attend to all of them
        attn_mask = newest_mask(num_queries, num_keys, queries.device)
    scale = None
    if OLD_KERNELS and queries.dtype == torch.float16:
        queries, scale = queries / queries.shape[3] ** 0.5, 1.0
    heads_share = bool(queries.shape[1] > keys.shape[1])  # torch.jit.trace has tensors for sizes
    if heads_share and not _kernel_shares_heads(queries, is_masked):
        keys = repeat_heads(keys, queries.shape[1])
        values = repeat_heads(values, queries.shape[1])
        heads_share = False
    return F.scaled_dot_product_attention(
        queries,
        keys,
        values,
        attn_mask=attn_mask,
        dropout_p=dropout_p,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=heads_share,
    )


def _may_attend(is_masked: Tensor, num_queries: int, num_keys: int) -> Tensor:
    """Return a mask for SDPA: True where a query may attend, the opposite of is_masked.

    SDPA's fused kernels take masks of two or four dimensions; for others it stores the weights.
    """
    if num_queries > 1:
        is_masked = with_causal_mask(is_masked, num_queries, num_keys, device=is_masked.device)
    if is_masked.ndim not in (2, 4):
        is_masked = is_masked[(None,) * (4 - is_masked.ndim)]
    return ~is_masked


def newest_mask(num_queries: int, num_keys: int, device: torch.device) -> Tensor:
    """Return the causal mask for SDPA, True where a query may attend, of fewer queries than keys.

    On CUDA it is PyTorch's causal_lower_right, with which SDPA can keep its flash kernel. This has
    not been run on a GPU; the tests show on the CPU that both masks say the same.
    """
    if device.type == "cuda":
        from torch.nn.attention.bias import causal_lower_right  # only here: it loads slowly

        return causal_lower_right(num_queries, num_keys)
    return ~causal_mask(num_queries, num_keys, device=device)


def _require_fused(queries: Tensor, keys: Tensor, values: Tensor, dropout_p: float) -> None:
    """Raise unless fused_attention can compute."""
    require_parts(queries, keys, values)
    shapes = [tuple(x.shape) for x in (queries, keys, values)]
    if any(len(shape) != 4 or shape[0] != shapes[0][0] for shape in shapes) or (
        shapes[1][1] != shapes[2][1] or shapes[1][1] == 0
    ):
        raise ValueError(
            "queries must be (b, num_heads, num_queries, head_dim), keys and values (b, "
            f"num_kv_heads, num_keys, head_dim), not {shapes[0]}, {shapes[1]} and {shapes[2]}"
        )
    require_newest(shapes[0][2], shapes[1][2])
    require_shared(shapes[0][1], shapes[1][1])
    require_probability("dropout_p", dropout_p)


def repeat_heads(x: Tensor, num_heads: int) -> Tensor:
    """Repeat each head of x, (b, num_kv_heads, ...), until there are num_heads.

    >>> repeat_heads(torch.tensor([[5, 7]]), 6).tolist()
    [[5, 5, 5, 7, 7, 7]]
    """
    require_shared(num_heads, x.shape[1])
    return x.repeat_interleave(num_heads // x.shape[1], dim=1)


def _kernel_shares_heads(queries: Tensor, is_masked: Tensor | None) -> bool:
    """Return whether torch has a fused kernel that takes fewer heads of keys than of queries.

    Where it has none, torch does not refuse: it stores the weights. The CPU kernel supports shared
    heads, not yet in 2.6; on a GPU only the half-precision kernels do, and only without a mask.
    """
    if queries.device.type == "cuda":
        return is_masked is None and queries.dtype in (torch.float16, torch.bfloat16)
    return queries.device.type == "cpu" and not OLD_KERNELS


class FusedMultiHeadAttention(CausalModule):
    """Make queries, keys and values by one product and attend in a fused kernel.

    Equation:
        context_vec = concat(head_1, ..., head_n) W_out^T + b_out
        head_h = softmax(mask(queries_h @ keys_g^T / sqrt(head_dim))) @ values_g
        head_dim = d_out / num_heads, g = the key/value head of head h's group

    It is the function of MultiHeadAttention, whose weights split_to_fused copies. Made on the CPU
    right after torch.manual_seed(seed), without qkv_bias and num_kv_heads, it starts with them.

    Args:
        d_in, dropout, device, dtype: those of CausalAttention.
        d_out: **total** width of the result, shared out among the heads.
        context_length: the most tokens that forward accepts, those in the cache included.
        num_heads: how many heads; it divides d_out.
        qkv_bias: whether W_qkv has a bias.
        num_kv_heads: heads of keys and values; it divides num_heads. Each is shared by
            num_heads / num_kv_heads heads of queries, and the cache is smaller by that factor.
            None means num_heads, the usual multi-head attention; 1 is multi-query attention.
        out_bias: whether out_proj has a bias.
        rotary_base: base of rotary_cos_sin, by which queries and keys are rotated;
            head_dim must then be even. None rotates nothing.
        rotary_layout: which numbers are rotated together, "half" (rotate_half) or "interleaved"
            (rotate_interleaved).

    Returns:
        forward(x) takes x, floating, (b, num_tokens, d_in), and returns context_vec,
        (b, num_tokens, d_out). No num_tokens x num_tokens tensor is made, unless the device has
        no fused kernel for the case (a CPU in training with dropout, for instance).

        forward(x, return_weights=True) returns context_vec and attn_weights, (b, num_heads,
        num_tokens, num_tokens), after dropout. No kernel gives these, so they are computed by
        attnlib.attention: context_vec is then equal up to rounding only.

        forward(x, is_masked=is_masked) masks more than the future: bool, broadcastable to
        (b, num_heads, num_tokens, num_keys), where num_keys counts all tokens so far.
        **True means: this query may not attend to this key**, as in causal_mask and
        nn.MultiheadAttention. scaled_dot_product_attention means the opposite:
        is_masked=~attn_mask. A query without any key gets weights and a context of 0. Examples:

        - padding, on either side: is_padding[:, None, None, :], with is_padding (b, num_keys)
        - documents packed into one row: (document[:, :, None] != document[:, None, :])[:, None]
        - a sliding window: i[:, None] - i >= window, with i = torch.arange(num_tokens)

        forward(x, positions=positions) rotates by other positions than 0, 1, 2, ... (or those that
        follow the cache): (num_tokens) or (b, num_tokens). With padding on the left, for instance,
        positions = (~is_padding).cumsum(dim=1) - 1 counts from each sequence's first token.

        forward(x, cos_sin=cos_sin) takes what cos_sin() returned for such an x, so that the layers
        of a model do not compute the same numbers again. Without rotary_base, positions and cos_sin
        are not used.

        forward(x, cache=cache), with a cache of new_cache, takes x as the tokens that follow
        those in the cache, adds their keys and values to it, and returns what the pass over all
        tokens at once returns for them. attn_weights are (b, num_heads, num_tokens, num_keys),
        num_keys counting all tokens so far. Several tokens that follow others need a mask,
        (num_tokens, num_keys); a first piece and a single token need none. A step with a cache
        cannot be exported: the graph would repeat the number of tokens that it has seen.

    Raises:
        TypeError: an argument is of the wrong type, or x of another dtype than the weights.
        ValueError: an argument does not fit the others, x has more than context_length tokens,
            the cache is full or not for this x, or gradients are required through a cache.

    >>> fused = FusedMultiHeadAttention(6, 6, context_length=3, dropout=0.0, num_heads=2)
    >>> x, cache = torch.rand(1, 3, 6), fused.new_cache(batch_size=1, max_tokens=3)
    >>> with torch.no_grad(): one_by_one = [fused(token, cache=cache) for token in x.split(1, 1)]
    >>> torch.allclose(torch.cat(one_by_one, dim=1), fused(x), atol=1e-6)
    True

    Source: Vaswani et al. 2017, section 3.2.2; Shazeer 2019 (one head of keys and values);
    Ainslie et al. 2023 (num_kv_heads is G, the number of groups).
    """

    num_kv_heads: int

    def __init__(  # noqa: PLR0913, a block has these options
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
        num_kv_heads: int | None = None,
        *,
        out_bias: bool = True,
        rotary_base: float | None = None,
        rotary_layout: str = "half",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        sizes = {"d_in": d_in, "d_out": d_out, "context_length": context_length}
        sizes |= {"num_heads": num_heads}
        sizes |= {"num_kv_heads": num_heads if num_kv_heads is None else num_kv_heads}
        super().__init__(dropout, qkv_bias, dtype, **sizes)
        require_bools(out_bias=out_bias)
        require_equal_heads(self.d_out, self.num_heads)
        require_shared(self.num_heads, self.num_kv_heads)
        self.head_dim = self.d_out // self.num_heads
        self.rotary_base = rotary_base
        self.rotary_layout = rotary_layout
        self._require_rotary()
        kv_width = self.num_kv_heads * self.head_dim
        self.widths = (self.d_out, kv_width, kv_width)
        self.W_qkv = nn.Linear(self.d_in, sum(self.widths), qkv_bias, device, dtype)
        self.out_proj = nn.Linear(self.d_out, self.d_out, out_bias, device, dtype)
        self.dropout = nn.Dropout(float(dropout))

    def new_cache(self, batch_size: int, max_tokens: int) -> KeyValueCache:
        """Return an empty cache for max_tokens tokens, with the weights' dtype and device."""
        (max_tokens,) = positive_ints(max_tokens=max_tokens)
        self._require_context(max_tokens)
        numbers = [*self.W_qkv.parameters(), *self.W_qkv.buffers(), torch.empty(0)]
        weight = next(entry for entry in numbers if entry.is_floating_point())
        kind = weight.device.type
        dtype = torch.get_autocast_dtype(kind) if autocasts(weight.device) else weight.dtype
        sizes = (batch_size, self._num_kv_heads_here(), max_tokens, self.head_dim)
        return KeyValueCache(*sizes, dtype, weight.device)

    def _num_kv_heads_here(self) -> int:
        """Return how many heads of keys this process holds: all, unless heads are shared out."""
        weight = plain_weight(self.W_qkv)
        if weight is None or not hasattr(weight, "to_local"):
            return self.num_kv_heads
        num_rows: int = weight.to_local().shape[0]
        return self.num_kv_heads * num_rows // sum(self.widths)

    def cos_sin(
        self, x: Tensor, cache: KeyValueCache | None = None, positions: Tensor | None = None
    ) -> CosSin:
        """Return cos and sin by which forward rotates the tokens of x, at these positions.

        They are the same in all layers of a model, so it can ask one layer and pass them to each.
        """
        if self.rotary_base is None:
            raise ValueError(
                "a module with rotary_base=None rotates nothing, so it has no cos and sin"
            )
        num_before = 0 if cache is None else cache.num_tokens
        if positions is None:
            positions = torch.arange(num_before, num_before + x.shape[1], device=x.device)
        cos, sin = rotary_cos_sin(positions, self.head_dim, self.rotary_base, x.dtype)
        if cos.ndim == 3:  # each sequence has positions of its own, and all of its heads have them
            cos, sin = cos[:, None], sin[:, None]
        return CosSin(cos, sin, num_before)

    def forward(
        self,
        x: Tensor,
        return_weights: bool = False,
        cache: KeyValueCache | None = None,
        cos_sin: CosSin | None = None,
        *,
        is_masked: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return context_vec, and attn_weights if asked; a cache holds the tokens before x."""
        self._require_cache(cache)
        num_before = 0 if cache is None else cache.num_tokens
        self._require_call(x, return_weights, is_masked, self.W_qkv, num_before)
        _require_cos_sin(cos_sin, positions, num_before)

        qkv = self.W_qkv(x)  # (b, num_tokens, d_out + 2 * num_kv_heads * head_dim)
        heads = split_heads(qkv, self.head_dim)
        num_heads, num_kv_heads = self._heads_here(heads.shape[1])
        rotated, values = heads.split_with_sizes([num_heads + num_kv_heads, num_kv_heads], dim=1)
        if self.rotary_base is not None:
            cos, sin, _ = cos_sin or self.cos_sin(x, cache, positions)
            rotated = ROTATIONS[self.rotary_layout](rotated, cos, sin)
        queries, keys = rotated.split_with_sizes([num_heads, num_kv_heads], dim=1)
        if cache is not None:
            keys, values = cache.write(keys, values)

        if return_weights:
            is_masked = with_causal_mask(is_masked, x.shape[1], keys.shape[2], device=x.device)
            keys = repeat_heads(keys, num_heads)  # (b, num_heads, num_keys, head_dim)
            values = repeat_heads(values, num_heads)  # (b, num_heads, num_keys, head_dim)
            context_vec, attn_weights = attention(queries, keys, values, is_masked, self.dropout)
        else:
            dropout_p = dropout_rate(self.dropout) if self.training else 0.0
            context_vec = _attend_fused(queries, keys, values, dropout_p, is_masked)

        context_vec = merge_heads(context_vec)  # (b, num_tokens, num_heads * head_dim)
        context_vec = self.out_proj(context_vec)  # (b, num_tokens, d_out)
        if cache is not None:  # only now: what failed before has left the cache as it was
            cache.num_tokens = keys.shape[2]
        return (context_vec, attn_weights) if return_weights else context_vec

    def _heads_here(self, num_split: int) -> tuple[int, int]:
        """Return how many heads of queries, and of keys, W_qkv made: those of this process."""
        if num_split == self.num_heads + 2 * self.num_kv_heads:
            return self.num_heads, self.num_kv_heads
        _require_rows_by_process(self.W_qkv)
        shared_by = self.num_heads // self.num_kv_heads
        num_kv_heads = num_split // (shared_by + 2)
        return num_split - 2 * num_kv_heads, num_kv_heads

    def extra_repr(self) -> str:
        """Show the sizes, and the rotary positions where there are any."""
        shown = super().extra_repr()
        if self.rotary_base is not None:
            shown += f", rotary_base={self.rotary_base}, rotary_layout={self.rotary_layout!r}"
        return shown

    def _require_rotary(self) -> None:
        if self.rotary_layout not in ROTATIONS:
            raise ValueError(
                f"rotary_layout must be 'half' or 'interleaved', not {self.rotary_layout!r}"
            )
        if self.rotary_base is None:
            return
        require_rate("rotary_base", self.rotary_base)
        if self.head_dim % 2:
            raise ValueError(
                "rotary positions rotate the numbers of a head in pairs, but head_dim = "
                f"d_out / num_heads = {self.d_out} / {self.num_heads} = {self.head_dim} is odd"
            )

    def _require_context(self, max_tokens: int) -> None:
        if max_tokens > self.context_length:
            raise ValueError(
                f"a cache of max_tokens={max_tokens} is larger than "
                f"context_length={self.context_length}; try max_tokens={self.context_length} "
                "or a larger context_length"
            )

    def _require_cache(self, cache: KeyValueCache | None) -> None:
        if cache is None:
            return
        if not isinstance(cache, KeyValueCache):
            raise TypeError(
                "cache must be what new_cache returns, or None, not " + type(cache).__name__
            )
        self._require_context(cache.max_tokens)
        if is_exporting():
            raise ValueError(
                "a step with a cache cannot be exported: the cache counts its tokens in Python, "
                "and an exported graph would always write at the place of this step; export the "
                "module without a cache, or use torch.compile, which follows the count"
            )


def _require_cos_sin(cos_sin: CosSin | None, positions: Tensor | None, num_before: int) -> None:
    """Raise unless cos_sin, if given, is for the tokens that follow num_before others."""
    if cos_sin is None:
        return
    if not isinstance(cos_sin, CosSin):
        raise TypeError(
            "cos_sin must be what cos_sin() of the module returns, not " + type(cos_sin).__name__
        )
    if positions is not None:
        raise ValueError("positions have no effect beside cos_sin; give them to cos_sin() instead")
    if cos_sin.num_before != num_before:
        raise ValueError(
            f"cos_sin is for tokens that follow {cos_sin.num_before} others, but {num_before} are "
            "in the cache; call cos_sin(x, cache) again for each step"
        )


def _require_rows_by_process(projection: nn.Module) -> None:
    """Raise if W_qkv was cut by rows without asking which rows belong to which head."""
    weight = plain_weight(projection)
    if hasattr(weight, "to_local") and not getattr(projection, "rows_by_process", False):
        raise ValueError(
            "W_qkv holds the rows of all queries, then of all keys, then of all values, so "
            "ColwiseParallel gives a process the wrong ones; use attnlib.parallel.ColwiseQKV"
        )
