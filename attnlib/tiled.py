"""Causal attention over tiles of keys: no row of attention weights ever exists.

This is the idea of the fused kernels, written to be read. It is not a rival of theirs: from Python,
each tile costs a few calls.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnlib.validate import require_floating, require_positive_int


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
        or kept, and backward makes the weights again, tile by tile. Sums run in float32 at least.

    Raises:
        TypeError: one of the three is not a tensor of floating-point numbers; tile_size is no int.
        ValueError: their shapes do not fit; tile_size is not positive.

    >>> one = torch.ones(3, 1)
    >>> tiled_attention(one, one, torch.tensor([[2.0], [4.0], [9.0]]), tile_size=2).tolist()
    [[2.0], [3.0], [5.0]]

    Source: Milakov and Gimelshein 2018 for the running softmax; Dao et al. 2022, algorithms 1 and
    4, where tiles are blocks, m and total are m and l. They cut the queries into blocks as well.
    """
    for name, x in {"queries": queries, "keys": keys, "values": values}.items():
        require_floating(name, x)
        if x.ndim < 2 or x.shape[:-1] != queries.shape[:-1]:
            raise ValueError(
                "queries, keys and values must agree in all dimensions but the last, at least "
                f"(num_tokens, width), not {tuple(queries.shape)} and {name} {tuple(x.shape)}"
            )
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            "queries and keys must have one width, head_dim, "
            f"not {queries.shape[-1]} and {keys.shape[-1]}"
        )
    require_positive_int("tile_size", tile_size)
    wide = torch.promote_types(values.dtype, torch.float32)
    queries = queries.to(wide) / queries.shape[-1] ** 0.5  # (..., num_tokens, head_dim)
    outputs: tuple[Tensor, Tensor] = _Tiled.apply(  # type: ignore[no-untyped-call]
        queries, keys.to(wide), values.to(wide), tile_size
    )
    return outputs[0].to(values.dtype)


class _Tiled(torch.autograd.Function):
    """What tiled_attention does once the queries are scaled, forward and backward."""

    generate_vmap_rule = True

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
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Keep what backward needs: a few numbers a token, no weights."""
        *tensors, ctx.tile_size = inputs
        ctx.save_for_backward(*tensors, *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Make the weights of each tile again, and from them the three gradients."""
        queries, keys, values, context_vec, log_total = ctx.saved_tensors
        along = (slope * context_vec).sum(dim=-1, keepdim=True)
        to_queries, to_keys, to_values = map(torch.zeros_like, (queries, keys, values))
        for seeing, tile in _tiles(queries.shape[-2], ctx.tile_size):
            scores = _scores(queries, keys, seeing, tile)
            weights = torch.exp(scores - log_total[..., seeing, :])
            to_weights = slope[..., seeing, :] @ values[..., tile, :].transpose(-2, -1)
            to_scores = weights * (to_weights - along[..., seeing, :])
            to_values[..., tile, :] = weights.transpose(-2, -1) @ slope[..., seeing, :]
            to_keys[..., tile, :] = to_scores.transpose(-2, -1) @ queries[..., seeing, :]
            to_queries[..., seeing, :] += to_scores @ keys[..., tile, :]
        return to_queries, to_keys, to_values, None


def _tiles(num_tokens: int, tile_size: int) -> list[tuple[slice, slice]]:
    """Return each tile of keys, and before it the queries that see at least its first key."""
    starts = range(0, num_tokens, tile_size)
    return [(slice(start, None), slice(start, start + tile_size)) for start in starts]


def _scores(queries: Tensor, keys: Tensor, seeing: slice, tile: slice) -> Tensor:
    """Return the scores of these queries and keys, the future hidden."""
    position = torch.arange(queries.shape[-2], device=queries.device)
    is_future = position[None, tile] > position[seeing, None]
    scores: Tensor = queries[..., seeing, :] @ keys[..., tile, :].transpose(-2, -1)
    return scores.masked_fill(is_future, -torch.inf)
