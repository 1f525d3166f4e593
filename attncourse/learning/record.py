"""A stored training: the weights of a small model after some of its steps, and how well it did.

The model predicts the next token of random sequences that repeat themselves. Its two layers have
two heads each. tools/train_heads.py trains it and stores its weights after some steps.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.examples import seeded
from attncourse.learning.model import AttentionModel, load_stored, stored_tensors
from attncourse.learning.patterns import is_ambiguous
from attncourse.learning.tasks import NO_ANSWER, Batch, repeated_sequences
from attncourse.learning.training import correct_answers

RECORD = Path(__file__).parent / "data" / "heads.safetensors"
HISTORY = Path(__file__).parent / "data" / "growth.safetensors"
HEADS = ("L0H0", "L0H1", "L1H0", "L1H1")
SAVED_AT = (0, 20, 40, 60, 80, 100, 300, 400, 800, 1000, 1200)
LETTERS = "abcdefghijklmnopqrstuvwx"
MEASURED_AT = tuple(range(0, 1201, 20))  # the steps of the history
SHOWN = "qhdbwmgtqhdbwmgt"  # the sequence whose maps are drawn


def new_model() -> AttentionModel:
    """Return the model before its training, the same one each time."""
    with seeded(3):
        return AttentionModel(vocabulary=24, context_length=48, width=32, num_heads=2, num_layers=2)


def recorded_model(step: int) -> AttentionModel:
    """Return the stored model as it was after this many steps.

    >>> recorded_model(1200).layers[1].num_heads
    2
    """
    if step not in SAVED_AT:
        raise ValueError(f"step={step} is not stored; stored are {', '.join(map(str, SAVED_AT))}")
    return load_stored(new_model(), RECORD, step)


def held_out_batch() -> Batch:
    """Return 64 sequences that the model was not trained on, the same ones each time."""
    return repeated_sequences()(64, torch.Generator().manual_seed(1000))


def shown_tokens() -> Tensor:
    """Return the sequence that the panels draw, (1, num_tokens): eight letters, then again."""
    return torch.tensor([[LETTERS.index(letter) for letter in SHOWN]])


def mark_asked(batch: Batch) -> Tensor:
    """Return which places of a batch have an answer, bool, (b, num_tokens)."""
    return (batch.answers != NO_ANSWER).all(dim=-1)


def queries_with_early_keys(end: int, marked: Tensor) -> Tensor:
    """Return which queries from position end on have marked keys only before it, (b, num_tokens).

    Each query has its keys marked in a row of marked, bool, (b, num_tokens, num_tokens).

    >>> queries_with_early_keys(2, torch.ones(1, 3, 3, dtype=torch.bool).tril(-1)).tolist()
    [[False, False, True]]
    """
    queries = torch.arange(marked.shape[1]) >= end
    return queries & ~marked[:, :, end:].any(dim=-1)


def accuracy_by_ambiguity(
    model: AttentionModel, where: Tensor | None = None
) -> tuple[float, float]:
    """Return the accuracy on the held-out batch at clear positions, and at ambiguous ones.

    A position is clear if its token was always followed by the same one so far.

    Only the positions of where count, bool, (b, num_tokens) or (num_tokens); None: all.
    """
    batch = held_out_batch()
    has_answer = mark_asked(batch)
    right = correct_answers(model, batch)[:, 0].float()
    unclear = is_ambiguous(batch.tokens)[has_answer]
    here = has_answer if where is None else where.expand_as(has_answer)
    counts = here[has_answer]
    return right[counts & ~unclear].mean().item(), right[counts & unclear].mean().item()


class TrainingHistory(NamedTuple):
    """What was measured after every 20 steps of the training, and the loss of every step."""

    steps: tuple[int, ...]
    losses: list[float]  # of each step, on its own batch
    clear: list[float]
    ambiguous: list[float]
    by_position: dict[str, Tensor]  # by pattern, (len(steps), num_layers * num_heads, num_tokens)

    def attention(self, *names: str) -> dict[str, Tensor]:
        """Return by name, such as "L0H0 on 2 back", what a head attends, (steps, num_tokens)."""
        asked = {name: name.split(" on ") for name in names}
        return {
            name: self.by_position[pattern][:, HEADS.index(head)]
            for name, (head, pattern) in asked.items()
        }


def recorded_history() -> TrainingHistory:
    """Return what was measured during the stored training."""
    stored = dict(stored_tensors(HISTORY))
    names = ("losses", "clear", "ambiguous")
    losses, clear, ambiguous = (stored.pop(name).tolist() for name in names)
    return TrainingHistory(MEASURED_AT, losses, clear, ambiguous, stored)
