"""Causal attention over tiles of keys: no row of attention weights ever exists.

This is the idea of the fused kernels, written to be read. It is not a rival of theirs: from Python,
each tile costs a few calls.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlib.functional import causal_mask
from attnlib.validate import autocasts, positive_ints, require_parts


def tiled_attention(queries: Tensor, keys: Tensor, values: Tensor, tile_size: int = 64) -> Tensor:
    """Mix the values of the past, looking at tile_size keys at a time.

    Equation:
        context_vec = softmax(mask(queries @ keys^T / sqrt(head_dim))) @ values
        from tile to tile, with s the scores of a tile and m the largest score so far:
        m_new = max(m, max(s)), c = exp(m - m_new), p = exp(s - m_new)
        total = c * total + sum(p), mixed = c * mixed + p @ values; at the end mixed / total

    Args:
        queries: floating, (..., num_tokens, head_dim).
        keys: floating, (..., num_tokens, head_dim).
        values: floating, (..., num_tokens, value_dim).
        tile_size: keys in a tile, > 0; the last tile may be smaller.

    Returns:
        context_vec, (..., num_tokens, value_dim): what attention() gives with the causal mask, up
        to rounding, whatever the tile_size. Nothing of the size num_tokens * num_tokens is made
        or kept, and backward makes the weights again, tile by tile; only a second derivative keeps
        them. All is computed in float32 at least, under autocast too.

    Raises:
        TypeError: one of the three is not a tensor of floating-point numbers of their common
            dtype; tile_size is no int.
        ValueError: their shapes or devices do not fit; tile_size is not positive.

    >>> one = torch.ones(3, 1)
    >>> tiled_attention(one, one, torch.tensor([[2.0], [4.0], [9.0]]), tile_size=2).tolist()
    [[2.0], [3.0], [5.0]]

    Source: Milakov and Gimelshein 2018 for the running softmax; Dao et al. 2022, algorithms 1 and
    4, where tiles are blocks, m and total are m and l. They cut the queries into blocks as well.
    """
    require_parts(queries, keys, values)
    for name, x in {"keys": keys, "values": values}.items():
        if x.shape[:-1] != queries.shape[:-1]:
            raise ValueError(
                "queries, keys and values must agree in all dimensions but the last, "
                f"not {tuple(queries.shape)} and {name} {tuple(x.shape)}"
            )
    (tile_size,) = positive_ints(tile_size=tile_size)
    wide = torch.promote_types(queries.dtype, torch.float32)
    wide = torch.promote_types(wide, torch.promote_types(keys.dtype, values.dtype))
    with _no_autocast(queries.device):
        scaled = queries.to(wide) / queries.shape[-1] ** 0.5  # (..., num_tokens, head_dim)
        outputs: tuple[Tensor, Tensor] = _Tiled.apply(  # type: ignore[no-untyped-call]
            scaled, keys.to(wide), values.to(wide), tile_size
        )
    return outputs[0].to(values.dtype)


class _Tiled(torch.autograd.Function):
    """What tiled_attention does once the queries are scaled, forward and backward.

    Backward changes nothing in place and is made of what autograd knows, so it can be mapped and
    differentiated again; then the weights of all tiles are kept.
    """

    @staticmethod
    def forward(
        queries: Tensor, keys: Tensor, values: Tensor, tile_size: int
    ) -> tuple[Tensor, Tensor]:
        """Return the context vectors, and for each query the logarithm of softmax's total."""
        largest = torch.full_like(queries[..., :1], -torch.inf)
        total = torch.zeros_like(queries[..., :1])
        mixed = torch.zeros_like(values)
        for seeing, tile in _tiles(queries.shape[-2], tile_size):
            scores = _scores(queries, keys, seeing, tile)
            before = largest[..., seeing, :]
            now = torch.maximum(before, scores.amax(dim=-1, keepdim=True))
            correction = torch.exp(before - now)  # of all that was summed up with a smaller maximum
            powers = torch.exp(scores - now)
            total[..., seeing, :] *= correction
            total[..., seeing, :] += powers.sum(dim=-1, keepdim=True)
            mixed[..., seeing, :] *= correction
            mixed[..., seeing, :] += powers @ values[..., tile, :]
            largest[..., seeing, :] = now
        return mixed / total, largest + total.log()

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, tuple[int, int]]:
        """Take the mapped dimension as one more in front, of those that have none too."""
        *tensors, tile_size = inputs
        mapped = [
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip(tensors, in_dims[:3], strict=True)
        ]
        return _Tiled.apply(*mapped, tile_size), (0, 0)  # type: ignore[no-untyped-call]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep what backward needs: a few numbers a token, no weights."""
        *tensors, ctx.tile_size = inputs
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    def backward(
        ctx: Any, grad_context: Tensor, grad_log_total: Tensor
    ) -> tuple[Tensor | None, ...]:
        """Make the weights of each tile again, and from them the three gradients."""
        queries, keys, values, context_vec, log_total = ctx.saved_tensors
        with _no_autocast(queries.device):
            # Each score's gradient is weight * (its weight's gradient - the weighted mean of them)
            mean = (grad_context * context_vec).sum(dim=-1, keepdim=True) - grad_log_total
            grad_queries = torch.zeros_like(queries)
            grad_keys, grad_values = [keys[..., :0, :]], [values[..., :0, :]]
            for seeing, tile in _tiles(queries.shape[-2], ctx.tile_size):
                scores = _scores(queries, keys, seeing, tile)
                weights = torch.exp(scores - log_total[..., seeing, :])
                grad_seeing = grad_context[..., seeing, :]
                grad_weights = grad_seeing @ values[..., tile, :].mT
                grad_scores = weights * (grad_weights - mean[..., seeing, :])
                grad_values.append(weights.mT @ grad_seeing)
                grad_keys.append(grad_scores.mT @ queries[..., seeing, :])
                rows_before = (0, 0, seeing.start, 0)
                grad_queries = grad_queries + F.pad(grad_scores @ keys[..., tile, :], rows_before)
            return grad_queries, torch.cat(grad_keys, -2), torch.cat(grad_values, -2), None


def _no_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Keep autocast from computing products in another precision than all the rest."""
    return torch.autocast(device.type, enabled=False) if autocasts(device) else nullcontext()


def _tiles(num_tokens: int, tile_size: int) -> list[tuple[slice, slice]]:
    """Return each tile of keys, and before it the queries that see at least its first key."""
    starts = range(0, num_tokens, tile_size)
    return [(slice(start, None), slice(start, start + tile_size)) for start in starts]


def _scores(queries: Tensor, keys: Tensor, seeing: slice, tile: slice) -> Tensor:
    """Return the scores of these queries and keys, the future hidden."""
    scores: Tensor = queries[..., seeing, :] @ keys[..., tile, :].mT
    num_seeing, size = scores.shape[-2:]
    is_future = causal_mask(size, device=queries.device)
    is_future = F.pad(is_future, (0, 0, 0, num_seeing - size))  # later queries see all of the tile
    return scores.masked_fill(is_future, -torch.inf)
