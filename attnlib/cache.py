"""The keys and values of the tokens so far, kept for the next ones."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlib.validate import (
    autocasts,
    positive_ints,
    require_count,
    require_floating,
    require_floating_dtype,
    require_tensor,
)


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
            TypeError, ValueError: they do not fit, or require gradients. Nothing is written then.
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

    def truncate(self, num_tokens: int) -> None:
        """Keep the first num_tokens tokens and forget the later ones; transformers' crop."""
        require_count("num_tokens", num_tokens)
        if num_tokens > self.num_tokens:
            raise ValueError(
                f"num_tokens={num_tokens} is more than the {self.num_tokens} tokens that the "
                "cache holds"
            )
        self.num_tokens = num_tokens

    def reorder(self, index: Tensor) -> None:
        """Let sequence i go on from what sequence index[i] has; transformers' reorder_cache.

        index, the chosen beams, is int64, (batch_size); one may stand there several times.
        """
        require_tensor("index", index)
        batch_size = self.keys.shape[0]
        if index.dtype != torch.int64 or index.shape != (batch_size,):
            raise ValueError(
                f"index must be int64, (batch_size) = ({batch_size},), not {index.dtype}, "
                f"{tuple(index.shape)}"
            )
        for kept in (self.keys, self.values):
            held = kept.narrow(2, 0, self.num_tokens)
            held.copy_(held.index_select(0, index))

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
