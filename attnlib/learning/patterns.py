"""Patterns known in advance, and how much of a head's weight lies on them.

A pattern says for each query which keys it means: bool, (b, num_tokens, num_tokens), from the
tokens alone, with no look at any model.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnlib.functional import causal_mask


def k_back(tokens: Tensor, k: int) -> Tensor:
    """Mean the key that stands k places before the query; 0 is the query itself.

    >>> k_back(torch.tensor([[5, 6, 5]]), k=1).int().tolist()
    [[[0, 0, 0], [1, 0, 0], [0, 1, 0]]]
    """
    b, num_tokens = tokens.shape
    one = torch.ones(num_tokens, num_tokens, dtype=torch.bool)  # (num_tokens, num_tokens)
    one = one.tril(-k) & one.triu(-k)  # (num_tokens, num_tokens)
    return one.expand(b, num_tokens, num_tokens)


def previous_token(tokens: Tensor) -> Tensor:
    """Mean the key right before the query."""
    return k_back(tokens, k=1)


def two_back(tokens: Tensor) -> Tensor:
    """Mean the key two places before the query."""
    return k_back(tokens, k=2)


def same_token(tokens: Tensor) -> Tensor:
    """Mean the earlier keys that hold the query's token.

    >>> same_token(torch.tensor([[5, 6, 5]])).int().tolist()
    [[[0, 0, 0], [0, 0, 0], [1, 0, 0]]]
    """
    equal = tokens[:, :, None] == tokens[:, None, :]  # (b, num_tokens, num_tokens)
    return equal.tril(-1)


def induction(tokens: Tensor) -> Tensor:
    """Mean the keys right after an earlier occurrence of the query's token.

    >>> induction(torch.tensor([[5, 6, 5]])).int().tolist()
    [[[0, 0, 0], [0, 0, 0], [0, 1, 0]]]

    Source: Olsson et al. 2022, "Definition of Induction Heads" (prefix matching).
    """
    return same_token(tokens).roll(1, dims=-1)


PATTERNS: dict[str, Callable[[Tensor], Tensor]] = {
    "1 back": previous_token,
    "2 back": two_back,
    "same token": same_token,
    "induction": induction,
}


def score(attn_weights: Tensor, is_meant: Tensor) -> Tensor:
    """Return the share of a head's weight that lies on a pattern.

    Equation:
        score = mean over queries of sum over meant keys of attn_weights

    Args:
        attn_weights: (b, ..., num_tokens, num_tokens), of any number of layers and heads.
        is_meant: a pattern. Queries for which it means no key do not count.

    Returns:
        One number from 0 to 1 for each head, (...).

    >>> halves = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    >>> score(halves, previous_token(torch.tensor([[7, 8]]))).item()
    0.5
    """
    heads = attn_weights.movedim(0, -3)  # (..., b, num_tokens, num_tokens)
    on_pattern = (heads * is_meant).sum(dim=-1)  # (..., b, num_tokens)
    scores: Tensor = on_pattern[..., is_meant.any(dim=-1)].mean(dim=-1)
    return scores


def scores(attn_weights: Tensor, tokens: Tensor) -> dict[str, list[float]]:
    """Return by pattern, for those in PATTERNS, the score of every head, layer after layer.

    Args:
        attn_weights: (b, num_layers, num_heads, num_tokens, num_tokens).
        tokens: int64, (b, num_tokens).

    >>> one_token = scores(torch.ones(1, 2, 2, 1, 1), torch.tensor([[7]]))
    >>> list(one_token)
    ['1 back', '2 back', 'same token', 'induction']
    """
    return {
        name: score(attn_weights, means(tokens)).flatten().tolist()
        for name, means in PATTERNS.items()
    }


def is_ambiguous(tokens: Tensor) -> Tensor:
    """Say for each place whether its token was followed, earlier, by different tokens.

    Args:
        tokens: int64, (b, num_tokens).

    Returns:
        bool, (b, num_tokens).

    >>> is_ambiguous(torch.tensor([[5, 1, 5, 2, 5]])).tolist()
    [[False, False, False, False, True]]
    """
    is_meant = induction(tokens)  # (b, num_tokens, num_tokens)
    after = tokens[:, None, :].expand_as(is_meant)  # (b, num_tokens, num_tokens)
    largest = after.masked_fill(~is_meant, -1).amax(dim=-1)  # (b, num_tokens)
    smallest = after.masked_fill(~is_meant, int(tokens.max()) + 1).amin(dim=-1)  # (b, num_tokens)
    return largest > smallest


def even_score(is_meant: Tensor) -> float:
    """Return the score of a head that spreads its weight evenly over all that it sees.

    >>> even_score(previous_token(torch.tensor([[7, 8]])))
    0.5
    """
    b, num_tokens, _ = is_meant.shape
    visible = (~causal_mask(num_tokens)).float()  # (num_tokens, num_tokens)
    even = visible / visible.sum(dim=-1, keepdim=True)  # (num_tokens, num_tokens)
    return score(even.expand(b, num_tokens, num_tokens), is_meant).item()
