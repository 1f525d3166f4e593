"""The class for real use: one product for queries, keys and values, a fused kernel, and a cache."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.functional import attention, causal_mask, merge_heads, split_heads
from attnlib.modules import CausalModule, Device
from attnlib.rotary import ROTATIONS, rotary_cos_sin
from attnlib.validate import (
    autocasts,
    positive_ints,
    require_bools,
    require_equal_heads,
    require_floating,
    require_floating_dtype,
    require_input,
    require_newest,
    require_parts,
    require_probability,
    require_rate,
    require_shared,
)

# In 2.6 the CPU kernel shares no heads, and multiplies float16 before it scales. Where between 2.6
# and 2.13 that changed was not tried; scaled and repeated heads are right in all of them.
OLD_KERNELS = torch.__version__ < "2.13"

CosSin = tuple[Tensor, Tensor]  # cos and sin, of rotary_cos_sin


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
        sizes = {"batch_size": batch_size, "num_kv_heads": num_kv_heads}
        shape = positive_ints(**sizes, max_tokens=max_tokens, head_dim=head_dim)
        require_floating_dtype(dtype)
        with torch.inference_mode(False):  # so that it can be written outside, too
            self.keys = torch.empty(shape, dtype=dtype, device=device)
            self.values = torch.empty_like(self.keys)
        self.max_tokens = shape[2]
        self.num_tokens = 0

    def write(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put the keys and values of new tokens behind those held, without counting them yet.

        Args:
            keys: floating, (batch_size, num_kv_heads, num_new, head_dim).
            values: of the same shape.

        Returns:
            All keys and all values, those of the new tokens included, (batch_size, num_kv_heads,
            num_tokens + num_new, head_dim): views of the cache, not copies. The new ones count
            once num_tokens says so; until then the next call of write puts others in their place.

        Raises:
            TypeError: keys or values are no tensor of floating-point numbers.
            ValueError: there is no room for them, they are of another kind than the cache, or
                they require gradients. Nothing is written then.
        """
        for name, x in (("keys", keys), ("values", values)):
            require_floating(name, x)
            if torch.is_grad_enabled() and x.requires_grad:
                raise ValueError(
                    "a cache carries no gradients; call the module under torch.no_grad() or "
                    "torch.inference_mode()"
                )
            if x.ndim != 4 or x.shape != keys.shape or not _is_of_kind(x, self.keys):
                raise ValueError(
                    f"the cache is for {_described(self.keys)}, not for {name} of {_described(x)}; "
                    "create it with new_cache() of the module that uses it"
                )
        start, stop = self.num_tokens, self.num_tokens + keys.shape[2]
        if stop > self.max_tokens:
            raise ValueError(
                f"the cache holds {start} tokens and has room for max_tokens={self.max_tokens}; "
                f"{keys.shape[2]} more would make {stop}; try a larger max_tokens, or "
                "cache.reset() to start anew"
            )
        self.keys.narrow(2, start, stop - start).copy_(keys)
        self.values.narrow(2, start, stop - start).copy_(values)
        return self.keys.narrow(2, 0, stop), self.values.narrow(2, 0, stop)

    def reset(self) -> None:
        """Forget all tokens and keep the memory."""
        self.num_tokens = 0

    def __repr__(self) -> str:
        held = f"{self.num_tokens} of {self.max_tokens} tokens"
        return f"KeyValueCache({held}, {_described(self.keys)})"


def _is_of_kind(x: Tensor, kept: Tensor) -> bool:
    """Return whether x has all that keys must have in common with a cache; autocast converts."""
    same_sizes = x.shape[:2] == kept.shape[:2] and x.shape[3] == kept.shape[3]
    same_dtype = x.dtype == kept.dtype or autocasts(x.device)
    return same_sizes and x.device == kept.device and same_dtype


def _described(x: Tensor) -> str:
    if x.ndim != 4:
        return f"shape {tuple(x.shape)}"
    b, num_kv_heads, _, head_dim = x.shape
    kind = f"batch_size={b}, num_kv_heads={num_kv_heads}, head_dim={head_dim}"
    dtype = "" if autocasts(x.device) else f", dtype={x.dtype}"
    return f"{kind}{dtype}, device={x.device}"


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

    Raises:
        TypeError: one of the three is not a tensor of floating-point numbers of their common
            dtype; dropout_p is no number.
        ValueError: their shapes or devices do not fit, there are more queries than keys, or
            dropout_p is outside [0, 1].

    >>> one = torch.ones(1, 1, 2, 1)
    >>> fused_attention(one, one, torch.tensor([[[[1.0], [3.0]]]])).flatten().tolist()
    [1.0, 2.0]

    Source: Dao et al. 2022 (FlashAttention), by way of torch's scaled_dot_product_attention.
    """
    _require_fused(queries, keys, values, dropout_p)
    return _mix(queries, keys, values, dropout_p)


def _mix(queries: Tensor, keys: Tensor, values: Tensor, dropout_p: float) -> Tensor:
    """Do what fused_attention does, without asking whether it can."""
    num_queries, num_keys = queries.shape[2], keys.shape[2]
    may_attend = None  # a single newest token may attend to all of them
    if 1 < num_queries < num_keys:
        may_attend = ~causal_mask(num_queries, num_keys, device=queries.device)
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
        qkv_bias: whether W_qkv has a bias.
        num_kv_heads: heads of keys and values; it divides num_heads. Each is shared by
            num_heads / num_kv_heads heads of queries, and the cache is smaller by that factor.
            None means num_heads, the usual multi-head attention; 1 is multi-query attention.
        out_bias: whether out_proj has a bias.
        rotary_base: base of rotary_cos_sin, by which queries and keys are rotated;
            head_dim must then be even. None rotates nothing.
        rotary_layout: which numbers are rotated together, "half" (rotate_half) or "interleaved"
            (rotate_interleaved).
        device: where the parameters are made.
        dtype: floating dtype of the parameters.

    Returns:
        forward(x) takes x, floating, (b, num_tokens, d_in), and returns context_vec,
        (b, num_tokens, d_out). No num_tokens x num_tokens tensor is made, unless the device has
        no fused kernel for the case (a CPU in training with dropout, for instance).

        forward(x, return_weights=True) returns context_vec and attn_weights, (b, num_heads,
        num_tokens, num_tokens), after dropout. No kernel gives these, so they are computed by
        attnlib.attention: context_vec is then equal up to rounding only.

        forward(x, cos_sin=cos_sin) takes what cos_sin() returned for such an x, so that the layers
        of a model do not compute the same numbers again. Without rotary_base they are not used.

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
        sizes = (batch_size, self.num_kv_heads, max_tokens, self.head_dim)
        return KeyValueCache(*sizes, weight.dtype, weight.device)

    def cos_sin(self, x: Tensor, cache: KeyValueCache | None = None) -> CosSin:
        """Return cos and sin by which forward rotates the tokens of x.

        They are the same in all layers of a model, so it can ask one layer and pass them to each.
        """
        if self.rotary_base is None:
            raise ValueError(
                "a module with rotary_base=None rotates nothing, so it has no cos and sin"
            )
        held = 0 if cache is None else cache.num_tokens
        positions = torch.arange(held, held + x.shape[1], device=x.device)  # (num_tokens)
        return rotary_cos_sin(positions, self.head_dim, self.rotary_base, x.dtype)

    def forward(
        self,
        x: Tensor,
        return_weights: bool = False,
        cache: KeyValueCache | None = None,
        cos_sin: CosSin | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return context_vec, and attn_weights if asked; a cache holds the tokens before x."""
        require_input(x, self.d_in, self.context_length, self.W_qkv)
        self._require_cache(cache)

        qkv = self.W_qkv(x)  # (b, num_tokens, d_out + 2 * num_kv_heads * head_dim)
        heads = split_heads(qkv, self.head_dim)
        num_rotated = self.num_heads + self.num_kv_heads
        rotated, values = heads.split_with_sizes([num_rotated, self.num_kv_heads], dim=1)
        if self.rotary_base is not None:
            cos, sin = self.cos_sin(x, cache) if cos_sin is None else cos_sin
            rotated = ROTATIONS[self.rotary_layout](rotated, cos, sin)
        queries, keys = rotated.split_with_sizes([self.num_heads, self.num_kv_heads], dim=1)
        if cache is not None:
            keys, values = cache.write(keys, values)

        if return_weights:
            is_future = causal_mask(x.shape[1], keys.shape[2], device=x.device)
            keys = repeat_heads(keys, self.num_heads)  # (b, num_heads, num_keys, head_dim)
            values = repeat_heads(values, self.num_heads)  # (b, num_heads, num_keys, head_dim)
            context_vec, attn_weights = attention(queries, keys, values, is_future, self.dropout)
        else:
            dropout_p = self.dropout.p if self.training else 0.0
            context_vec = _mix(queries, keys, values, dropout_p)

        context_vec = merge_heads(context_vec)  # (b, num_tokens, num_heads * head_dim)
        context_vec = self.out_proj(context_vec)  # (b, num_tokens, d_out)
        if cache is not None:  # only now: what failed before has left the cache as it was
            cache.num_tokens = keys.shape[2]
        return (context_vec, attn_weights) if return_weights else context_vec

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
