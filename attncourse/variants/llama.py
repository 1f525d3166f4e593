"""Attention of a model that speaks: rotary positions, shared keys and values, a cache.

It has SmolLM2's sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.variants.changes import changed
from attnlib.functional import attention, causal_mask, merge_heads, split_heads
from attnlib.rotary import rotary_cos_sin, rotate_half, rotate_interleaved  # noqa: F401  # a wrong line calls it

WIDTH, NUM_HEADS, NUM_KV_HEADS, BASE = 576, 9, 3, 100_000.0  # of SmolLM2
HEAD_DIM = WIDTH // NUM_HEADS


WRONG: dict[str, dict[str, str]] = {  # changes of attended with which a model may yet speak
    "base 10,000": {"BASE": "10_000.0"},
    "no rotation": {"rotate_interleaved(each, *cos_sin)": "each"},
    "repeat": {".repeat_interleave(group, dim=1)": ".repeat(1, group, 1, 1)"},
}


def attended(x: Tensor, parts: Any, cache: dict[str, Tensor] | None = None) -> Tensor:
    """Compute attention for x, (b, num_new, width), with the projections that parts has.

    The cache holds keys and values of earlier tokens, and gets those of x.
    """
    cache = {} if cache is None else cache
    past, group = cache["k"].shape[2] if cache else 0, NUM_HEADS // NUM_KV_HEADS
    cos_sin = rotary_cos_sin(torch.arange(past, past + x.shape[1]), HEAD_DIM, BASE)
    made = parts.W_query(x), parts.W_key(x), parts.W_value(x)
    queries, keys, values = (split_heads(each, HEAD_DIM) for each in made)
    queries, keys = (rotate_interleaved(each, *cos_sin) for each in (queries, keys))
    if cache:
        keys = torch.cat((cache["k"], keys), dim=2)
        values = torch.cat((cache["v"], values), dim=2)
    cache.update(k=keys, v=values)
    is_masked = causal_mask(keys.shape[2])[past:]
    keys = keys.repeat_interleave(group, dim=1)
    values = values.repeat_interleave(group, dim=1)
    context_vec = attention(queries, keys, values, is_masked)[0]
    return parts.out_proj(merge_heads(context_vec))  # type: ignore[no-any-return]


class LlamaAttention(nn.Module):
    """The course's own answer: rotary positions, and keys and values that query heads share.

    Args:
        attend: attended, or one that is wrong.
    """

    def __init__(self, attend: Callable[..., Tensor] = attended) -> None:
        super().__init__()
        self.attend = attend
        kv_width = HEAD_DIM * NUM_KV_HEADS
        self.W_query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.W_key = nn.Linear(WIDTH, kv_width, bias=False)
        self.W_value = nn.Linear(WIDTH, kv_width, bias=False)
        self.out_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the heads write, (b, num_tokens, width)."""
        return self.attend(x, self)


class CachedAttention(LlamaAttention):
    """The same with a cache: a dictionary, empty at first."""

    def forward(self, x: Tensor, cache: dict[str, Tensor]) -> Tensor:  # type: ignore[override]
        """Return what the heads write for x, the tokens after those in the cache."""
        return self.attend(x, self, cache)


def wrong_classes() -> dict[str, Callable[[], nn.Module]]:
    """Return what makes our class with each mistake of WRONG, by its name."""
    return {
        name: partial(LlamaAttention, changed(attended, changes)) for name, changes in WRONG.items()
    }
