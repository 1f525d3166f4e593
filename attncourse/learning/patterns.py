"""Patterns known in advance, and how much of a head's weight lies on them.

A pattern marks for each query its target keys: bool, (b, num_tokens, num_tokens). It is computed
from the tokens alone, without any model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor


def k_back(tokens: Tensor, k: int) -> Tensor:
    """Mark the key k places before the query; 0 is the query itself.

    >>> k_back(torch.tensor([[5, 6, 5]]), k=1).int().tolist()
    [[[0, 0, 0], [1, 0, 0], [0, 1, 0]]]
    """
    b, num_tokens = tokens.shape
    one = torch.ones(num_tokens, num_tokens, dtype=torch.bool)  # (num_tokens, num_tokens)
    one = one.tril(-k) & one.triu(-k)  # (num_tokens, num_tokens)
    return one.expand(b, num_tokens, num_tokens)


def same_token(tokens: Tensor) -> Tensor:
    """Mark the earlier keys that hold the query's token.

    >>> same_token(torch.tensor([[5, 6, 5]])).int().tolist()
    [[[0, 0, 0], [0, 0, 0], [1, 0, 0]]]
    """
    equal = tokens[:, :, None] == tokens[:, None, :]  # (b, num_tokens, num_tokens)
    return equal.tril(-1)


def induction(tokens: Tensor) -> Tensor:
    """Mark the keys right after an earlier occurrence of the query's token.

    >>> induction(torch.tensor([[5, 6, 5]])).int().tolist()
    [[[0, 0, 0], [0, 0, 0], [0, 1, 0]]]

    Source: Olsson et al. 2022, "Definition of Induction Heads" (prefix matching).
    """
    return same_token(tokens).roll(1, dims=-1)


def two_letters(tokens: Tensor) -> Tensor:
    """Mark the keys right after an earlier occurrence of the query's token and the one before it.

    >>> two_letters(torch.tensor([[8, 5, 6, 8, 5]]))[0, 4].int().tolist()
    [0, 0, 1, 0, 0]
    """
    after = induction(tokens)  # (b, num_tokens, num_tokens)
    return after & after.roll((1, 1), dims=(1, 2))


PATTERNS: dict[str, Callable[[Tensor], Tensor]] = {
    "1 back": partial(k_back, k=1),
    "2 back": partial(k_back, k=2),
    "same token": same_token,
    "induction": induction,
}


def score(attn_weights: Tensor, is_target: Tensor) -> Tensor:
    """Return the share of a head's weight that lies on a pattern.

    Equation:
        score = mean over queries of sum over target keys of attn_weights

    Args:
        attn_weights: (b, ..., num_tokens, num_tokens), of any number of layers and heads.
        is_target: a pattern. Queries without a target key do not count.

    Returns:
        One number from 0 to 1 for each head, (...).

    >>> halves = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    >>> score(halves, k_back(torch.tensor([[7, 8]]), k=1)).item()
    0.5
    """
    heads = attn_weights.movedim(0, -3)  # (..., b, num_tokens, num_tokens)
    on_pattern = (heads * is_target).sum(dim=-1)  # (..., b, num_tokens)
    by_head: Tensor = on_pattern[..., is_target.any(dim=-1)].mean(dim=-1)
    return by_head


def score_by_place(attn_weights: Tensor, is_target: Tensor) -> Tensor:
    """Return what score returns, for each place of the query, (..., num_tokens).

    It is a mean over the texts; NaN at places where no text has a target key.

    >>> halves = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    >>> score_by_place(halves, k_back(torch.tensor([[7, 8]]), k=1)).tolist()
    [nan, 0.5]
    """
    heads = attn_weights.movedim(0, -3)  # (..., b, num_tokens, num_tokens)
    on_pattern = (heads * is_target).sum(dim=-1)  # (..., b, num_tokens)
    by_place: Tensor = on_pattern.sum(dim=-2) / is_target.any(dim=-1).sum(dim=0)
    return by_place  # (..., num_tokens)


def heads_with(shares: Tensor, least: float) -> str:
    """Name all heads whose share, (num_layers, num_heads), is at least this; the largest first.

    >>> heads_with(torch.tensor([[0.1, 0.9], [0.5, 0.2]]), least=0.5)
    'L0H1 0.900   L1H0 0.500'
    """
    heads = sorted((shares >= least).nonzero().tolist(), key=lambda at: -float(shares[tuple(at)]))
    return "   ".join(f"L{layer}H{head} {shares[layer, head]:.3f}" for layer, head in heads)


def is_ambiguous(tokens: Tensor, is_target: Tensor | None = None) -> Tensor:
    """Return for each position whether its target keys hold different tokens.

    Args:
        tokens: (b, num_tokens).
        is_target: a pattern. None: induction, so that different tokens have followed its token.

    >>> is_ambiguous(torch.tensor([[5, 1, 5, 2, 5]])).tolist()
    [[False, False, False, False, True]]
    """
    if is_target is None:
        is_target = induction(tokens)  # (b, num_tokens, num_tokens)
    after = tokens[:, None, :].expand_as(is_target)  # (b, num_tokens, num_tokens)
    largest = after.masked_fill(~is_target, -1).amax(dim=-1)  # (b, num_tokens)
    smallest = after.masked_fill(~is_target, int(tokens.max()) + 1).amin(dim=-1)  # (b, num_tokens)
    return largest > smallest
