"""The four published sizes of GPT-2: where their parameters are, and what their caches take."""

from __future__ import annotations

from typing import NamedTuple

import torch

from attnlib.cache import KeyValueCache


class Gpt2Size(NamedTuple):
    """How large a GPT-2 is.

    >>> Gpt2Size(num_layers=12, num_heads=12, width=768).head_dim
    64
    """

    num_layers: int
    num_heads: int
    width: int
    vocabulary: int = 50257
    context_length: int = 1024

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.width // self.num_heads


SIZES = {
    "small": Gpt2Size(num_layers=12, num_heads=12, width=768),
    "medium": Gpt2Size(num_layers=24, num_heads=16, width=1024),
    "large": Gpt2Size(num_layers=36, num_heads=20, width=1280),
    "XL": Gpt2Size(num_layers=48, num_heads=25, width=1600),
}


def parameter_parts(size: Gpt2Size) -> list[tuple[str, int]]:
    """Return where the parameters of a GPT-2 are, in the order of the computation.

    >>> parts = parameter_parts(SIZES["small"])
    >>> parts[2], sum(number for _, number in parts)
    (('attention', 2362368), 124439808)
    """
    d = size.width
    layer = [("attention", 4 * d**2 + 4 * d), ("MLP", 8 * d**2 + 5 * d), ("norms", 4 * d)]
    tables = [("token embedding", size.vocabulary * d), ("positions", size.context_length * d)]
    return [*tables, *size.num_layers * layer, ("norms", 2 * d)]


def cache_bytes(size: Gpt2Size, dtype: torch.dtype) -> int:
    """Return how many bytes one token adds to the caches of all layers.

    >>> cache_bytes(SIZES["small"], torch.float32)
    73728
    """
    cache = KeyValueCache(1, size.num_heads, 1, size.head_dim, dtype, "meta")
    return size.num_layers * (cache.keys.nbytes + cache.values.nbytes)
