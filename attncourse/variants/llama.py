"""Attention of a model that speaks: rotary positions, shared keys and values, a cache.

It has SmolLM2's sizes, and computes rightly or as a usual mistake has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.functional import attention, causal_mask, merge_heads, split_heads
from attnlib.rotary import rotary_cos_sin, rotate_half, rotate_interleaved

WIDTH, NUM_HEADS, NUM_KV_HEADS, BASE = 576, 9, 3, 100_000.0  # of SmolLM2
HEAD_DIM = WIDTH // NUM_HEADS


@dataclass(frozen=True)
class Ways:
    """How attention is computed: rightly, or as a usual mistake has it.

    Args:
        first: the position of the first new token; None means after all those in the cache.
        base: of the angles.
        turns: which of q, k, v are turned.
        layout: "interleaved" turns numbers 2i and 2i + 1, "half" numbers i and i + 32.
        divisor: of the scores.
        in_turns: which of k, v the query heads take in turns, 0, 1, 2, 0, 1, 2.
        mask: "causal", "none", "inverted", or the "first rows" of the causal one.
        is_last: whether new tokens come after the earlier ones.
        is_transposed: whether the merge brings the numbers of a token together.
        is_projected: whether out_proj is applied.
    """

    first: int | None = None
    base: float = BASE
    turns: str = "qk"
    layout: str = "interleaved"
    divisor: float = 8.0
    in_turns: str = ""
    mask: str = "causal"
    is_last: bool = True
    is_transposed: bool = True
    is_projected: bool = True


WRONG: dict[str, dict[str, Any]] = {  # options of Ways: mistakes with which a model may yet speak
    "base 10,000": {"base": 10_000.0},
    "no rotation": {"turns": ""},
    "repeat": {"in_turns": "kv"},  # in the place of repeat_interleave
}


def attended(
    parts: Any, x: Tensor, cache: dict[str, Tensor] | None = None, ways: Ways = Ways()
) -> Tensor:
    """Compute attention for x, (b, num_new, width), with the projections that parts has.

    The cache holds keys and values of earlier tokens, and gets those of x.
    """
    cache = {} if cache is None else cache
    past = cache["k"].shape[2] if cache else 0
    begin = past if ways.first is None else ways.first
    cos_sin = rotary_cos_sin(torch.arange(begin, begin + x.shape[1]), HEAD_DIM, ways.base)
    heads = {"q": split_heads(parts.W_query(x), HEAD_DIM)}
    heads |= {"k": split_heads(parts.W_key(x), HEAD_DIM)}
    heads |= {"v": split_heads(parts.W_value(x), HEAD_DIM)}
    rotate = rotate_interleaved if ways.layout == "interleaved" else rotate_half
    heads |= {part: rotate(heads[part], *cos_sin) for part in ways.turns}
    if cache:
        for part, old in cache.items():
            both = (old, heads[part]) if ways.is_last else (heads[part], old)
            heads[part] = torch.cat(both, dim=2)
    cache.update(k=heads["k"], v=heads["v"])
    group = NUM_HEADS // NUM_KV_HEADS
    keys, values = (
        cache[part].repeat(1, group, 1, 1)
        if part in ways.in_turns
        else cache[part].repeat_interleave(group, dim=1)
        for part in "kv"
    )
    is_future = causal_mask(keys.shape[2])
    is_masked = {
        "causal": is_future[past:],
        "none": None,
        "inverted": ~is_future[past:],
        "first rows": is_future[: x.shape[1]],
    }[ways.mask]
    queries = heads["q"] * (8.0 / ways.divisor)  # attention divides by 8, the root of 64
    context_vec = attention(queries, keys, values, is_masked)[0]
    mixed = merge_heads(context_vec) if ways.is_transposed else context_vec.reshape(x.shape)
    return parts.out_proj(mixed) if ways.is_projected else mixed


class LlamaAttention(nn.Module):
    """The course's own answer: rotary positions, and keys and values that query heads share.

    Args:
        ways: a mistake that it makes; None means none.
    """

    def __init__(self, ways: Ways | None = None) -> None:
        super().__init__()
        self.ways = ways or Ways()
        kv_width = WIDTH // NUM_HEADS * NUM_KV_HEADS
        self.W_query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.W_key = nn.Linear(WIDTH, kv_width, bias=False)
        self.W_value = nn.Linear(WIDTH, kv_width, bias=False)
        self.out_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the heads write, (b, num_tokens, width)."""
        return attended(self, x, ways=self.ways)


class CachedAttention(LlamaAttention):
    """The same with a cache: a dictionary, empty at first."""

    def forward(self, x: Tensor, cache: dict[str, Tensor]) -> Tensor:  # type: ignore[override]
        """Return what the heads write for x, the tokens after those in the cache."""
        return attended(self, x, cache)


def wrong_classes() -> dict[str, Callable[[], nn.Module]]:
    """Return what makes our class with each mistake of WRONG, by its name."""
    return {name: partial(LlamaAttention, Ways(**options)) for name, options in WRONG.items()}
