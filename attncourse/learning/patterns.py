"""Where the same token came before, from the tokens alone; and which heads look there most."""

from __future__ import annotations

from torch import Tensor


def induction(tokens: Tensor) -> Tensor:
    """Mark the keys right after an earlier occurrence of the query's token.

    >>> import torch
    >>> induction(torch.tensor([[5, 6, 5]])).int().tolist()
    [[[0, 0, 0], [0, 0, 0], [0, 1, 0]]]

    Source: Olsson et al. 2022, "Definition of Induction Heads" (prefix matching).
    """
    equal = tokens[:, :, None] == tokens[:, None, :]  # (b, num_tokens, num_tokens)
    return equal.tril(-1).roll(1, dims=-1)


def heads_above(shares: Tensor, least: float) -> str:
    """Name all heads whose share, (num_layers, num_heads), is at least this; the largest first.

    >>> import torch
    >>> heads_above(torch.tensor([[0.1, 0.9], [0.5, 0.2]]), least=0.5)
    'L0H1 0.900   L1H0 0.500'
    """
    heads = sorted((shares >= least).nonzero().tolist(), key=lambda at: -float(shares[tuple(at)]))
    return "   ".join(f"L{layer}H{head} {shares[layer, head]:.3f}" for layer, head in heads)


def is_ambiguous(tokens: Tensor, is_target: Tensor | None = None) -> Tensor:
    """Return for each position whether its target keys hold different tokens.

    Without a pattern it is induction: different tokens have followed the position's token.

    >>> import torch
    >>> is_ambiguous(torch.tensor([[5, 1, 5, 2, 5]])).tolist()
    [[False, False, False, False, True]]
    """
    if is_target is None:
        is_target = induction(tokens)  # (b, num_tokens, num_tokens)
    after = tokens[:, None, :].expand_as(is_target)  # (b, num_tokens, num_tokens)
    largest = after.masked_fill(~is_target, -1).amax(dim=-1)  # (b, num_tokens)
    smallest = after.masked_fill(~is_target, int(tokens.max()) + 1).amin(dim=-1)  # (b, num_tokens)
    return largest > smallest
