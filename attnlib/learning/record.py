"""A stored training: the weights of a small model after some of its steps, and how well it did.

The model predicts the next token of random sequences that repeat themselves. Its two layers have
two heads each: heads 1 and 2 are in layer 1, heads 3 and 4 in layer 2. tools/train_heads.py trains
it and stores the weights.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib.examples import seeded
from attnlib.learning.model import AttentionModel
from attnlib.learning.patterns import scores
from attnlib.learning.tasks import Batch, repeats
from attnlib.learning.training import accuracy, mean_loss

RECORD = Path(__file__).parent / "data" / "heads.safetensors"
SAVED_AT = (0, 20, 40, 60, 80, 100, 300, 400, 800, 1000, 1200)
LETTERS = "abcdefghijklmnopqrstuvwx"
SHOWN = "qhdbwmgtqhdbwmgt"  # the sequence whose maps are drawn


def new_model() -> AttentionModel:
    """Return the model before its training, the same one each time."""
    with seeded(3):
        return AttentionModel(vocabulary=24, context_length=48, width=32, num_heads=2, num_layers=2)


@cache
def _record() -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(RECORD)


def recorded_model(step: int) -> AttentionModel:
    """Return the stored model as it was after this many steps.

    Raises:
        ValueError: no weights are stored for this step; the message lists the steps.

    >>> recorded_model(1200).layers[1].num_heads
    2
    """
    if step not in SAVED_AT:
        raise ValueError(f"step={step} is not stored; stored are {', '.join(map(str, SAVED_AT))}")
    model = new_model()
    names = model.state_dict()
    model.load_state_dict({name: _record()[f"{step}/{name}"].float() for name in names})
    return model.eval()


def held_out_batch() -> Batch:
    """Return 64 sequences that the model was not trained on, the same ones each time."""
    return repeats()(64, torch.Generator().manual_seed(1000))


def shown_tokens() -> Tensor:
    """Return the sequence that the panels draw, (1, num_tokens): eight letters, then again."""
    return torch.tensor([[LETTERS.index(letter) for letter in SHOWN]])


class Learned(NamedTuple):
    """How far the training has come after this many steps."""

    step: int
    loss: float
    accuracy: float
    scores: dict[str, list[float]]  # by pattern, of each head


@cache
def learned(step: int) -> Learned:
    """Return loss, accuracy and the scores of the heads on the held-out batch."""
    model, batch = recorded_model(step), held_out_batch()
    with torch.no_grad():
        loss = mean_loss(model, batch).item()
        _, attn_weights = model(batch.tokens, return_weights=True)
    return Learned(step, loss, accuracy(model, batch), scores(attn_weights, batch.tokens))
