"""Patterns known in advance, and how much of a head's weight lies on them.

A pattern marks for each query its target keys: bool, (b, num_tokens, num_tokens).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # the attnlib beside this file

import torch
from torch import Tensor

from attncourse.learning.model import AttentionModel
from attncourse.learning.patterns import induction
from attncourse.learning.record import accuracy_by_ambiguity, held_out_batch, mark_asked
from attncourse.learning.tasks import Batch


def k_back(tokens: Tensor, k: int) -> Tensor:
    """Mark the key k places before the query; 0 is the query itself.

    >>> k_back(torch.tensor([[5, 6, 5]]), k=1).int().tolist()
    [[[0, 0, 0], [1, 0, 0], [0, 1, 0]]]
    """
    b, num_tokens = tokens.shape
    one = torch.ones(num_tokens, num_tokens, dtype=torch.bool)  # (num_tokens, num_tokens)
    one = one.tril(-k) & one.triu(-k)  # (num_tokens, num_tokens)
    return one.expand(b, num_tokens, num_tokens)


def two_letters(tokens: Tensor) -> Tensor:
    """Mark the keys right after an earlier occurrence of the query's token and the one before it.

    >>> two_letters(torch.tensor([[8, 5, 6, 8, 5]]))[0, 4].int().tolist()
    [0, 0, 1, 0, 0]
    """
    after = induction(tokens)  # (b, num_tokens, num_tokens)
    return after & after.roll((1, 1), dims=(1, 2))


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


def score_by_position(attn_weights: Tensor, is_target: Tensor) -> Tensor:
    """Return what score returns, for each place of the query, (..., num_tokens).

    It is a mean over the texts; NaN at places where no text has a target key.

    >>> halves = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    >>> score_by_position(halves, k_back(torch.tensor([[7, 8]]), k=1)).tolist()
    [nan, 0.5]
    """
    heads = attn_weights.movedim(0, -3)  # (..., b, num_tokens, num_tokens)
    on_pattern = (heads * is_target).sum(dim=-1)  # (..., b, num_tokens)
    by_position: Tensor = on_pattern.sum(dim=-2) / is_target.any(dim=-1).sum(dim=0)
    return by_position  # (..., num_tokens)


def mark_watched(batch: Batch) -> dict[str, Tensor]:
    """Return the patterns that are scored by place, bool, (b, num_tokens, num_tokens) each.

    Induction and its sharper form, two letters, count where there is an answer only: elsewhere
    nothing is gained by it.
    """
    tokens, has_answer = batch.tokens, mark_asked(batch)[:, :, None]
    return {
        "1 back": k_back(tokens, 1),
        "2 back": k_back(tokens, 2),
        "induction": induction(tokens) & has_answer,
        "two letters": two_letters(tokens) & has_answer,
    }


class Measured(NamedTuple):
    """Where the heads look, place by place, and how often the model is right."""

    by_position: dict[str, Tensor]  # by pattern, (num_layers * num_heads, num_tokens)
    clear: float  # right, of the places where the letter alone tells what comes next
    ambiguous: float  # right, of those where it does not


@torch.no_grad()
def measure(model: AttentionModel) -> Measured:
    """Measure a model on the held-out batch."""
    batch = held_out_batch()
    _, attn_weights = model(batch.tokens, return_weights=True)
    by_position = {
        name: score_by_position(attn_weights, where).flatten(end_dim=1)
        for name, where in mark_watched(batch).items()
    }
    return Measured(by_position, *accuracy_by_ambiguity(model))
