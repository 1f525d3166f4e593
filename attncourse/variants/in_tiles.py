"""Attention over tiles of keys, corrected rightly or as a usual mistake has it."""

from __future__ import annotations

import torch
from torch import Tensor

Powers = tuple[float, float]


def attend_in_tiles(
    queries: Tensor, keys: Tensor, values: Tensor, tile_size: int, powers_of: Powers | None = None
) -> Tensor:
    """Compute attention over tiles of keys; a tile that is all future is computed, too.

    Args:
        queries: (num_queries, head_dim), those of the last tokens.
        keys: (num_tokens, head_dim).
        values: (num_tokens, value_dim).
        tile_size: keys in each tile.
        powers_of: total and mixed are corrected by these powers of the correction, where 0 forgets
            it and -1 turns it over.

    Returns:
        The context vectors, (num_queries, value_dim).
    """
    position = torch.arange(len(keys))
    of_query = position[-len(queries) :, None]
    largest = torch.full_like(queries[:, :1], -torch.inf)
    total, mixed = torch.zeros_like(largest), torch.zeros_like(values[-len(queries) :])
    for start in range(0, len(keys), tile_size):
        tile = slice(start, start + tile_size)
        scores = queries @ keys[tile].T / queries.shape[1] ** 0.5
        scores.masked_fill_(position[tile] > of_query, -torch.inf)
        larger = torch.maximum(largest, scores.amax(dim=1, keepdim=True))
        of_total = of_mixed = torch.exp(largest - larger)
        if powers_of:
            correction = of_total.clamp(min=1e-304)  # not 0, which has no -1
            of_total, of_mixed = (correction**power for power in powers_of)
        powers = torch.exp(scores - larger)
        total = of_total * total + powers.sum(dim=1, keepdim=True)
        mixed = of_mixed * mixed + powers @ values[tile]
        largest = larger
    return mixed / total
