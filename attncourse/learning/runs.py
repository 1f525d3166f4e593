"""Stored trainings: the same small models many times over, with other seeds, sizes and rates.

tools/train_runs.py trains them and stores how well they did.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from attncourse.examples import seeded
from attncourse.learning.model import AttentionModel
from attncourse.learning.tasks import LONGEST, SHORTEST, Batch, previous_tokens

DATA = Path(__file__).parent / "data"
RUNS = DATA / "runs.json"
SEEDS = (1, 2, 3)


class Setting(NamedTuple):
    """What is trained, and how."""

    num_heads: int  # of the one layer
    distances: tuple[int, ...] = (1, 3)  # of the tokens asked for, one answer for each
    width: int = 32
    mlp_width: int = 0  # of a hidden layer before the answers; 0: the read-out is linear
    learning_rate: float = 5e-3  # of AdamW
    steps: int = 200  # so many batches of 32
    seed: int = 1  # of the model and of the batches


class PreviousTokensRun(NamedTuple):
    """How a training ended, measured on sequences that it had not seen."""

    setting: Setting
    parameters: int  # how many numbers were learned
    right: float  # the share of positions at which all answers are right


class RepeatRun(NamedTuple):
    """How a training on sequences that repeat themselves went."""

    num_layers: int
    num_heads: int  # of each layer
    width: int
    seed: int  # of the model and of the batches
    steps: int  # after so many this was measured
    parameters: int  # how many numbers were learned
    clear: float  # right, of the places where the letter alone tells what comes next
    ambiguous: float  # right, of those where it does not
    right: float  # of all places that have an answer
    # By pattern, of each head, layer after layer: "1 back" and "2 back" at the places up to 24,
    # "induction" and "two letters" at the places with an answer.
    scores: dict[str, list[float]]


def previous_tokens_model(setting: Setting) -> AttentionModel:
    """Return a model before its training, the same one each time."""
    answers = len(setting.distances)
    with seeded(setting.seed):
        model = AttentionModel(12, 16, setting.width, setting.num_heads, num_answers=answers)
        if setting.mlp_width:
            first = nn.Linear(setting.width, setting.mlp_width)
            last = nn.Linear(setting.mlp_width, 12 * answers)
            model.add_module("read_out", nn.Sequential(first, nn.ReLU(), last))
    return model


def previous_tokens_test(*distances: int) -> Batch:
    """Return 256 sequences that no model here is trained on, the same ones each time."""
    return previous_tokens(*distances)(256, torch.Generator().manual_seed(1000))


@cache
def stored_runs() -> tuple[list[PreviousTokensRun], list[RepeatRun]]:
    """Return all trainings that are stored."""
    stored = json.loads(RUNS.read_text("utf-8"))
    runs = [
        PreviousTokensRun(Setting(num_heads, tuple(distances), *others), count, right)
        for (num_heads, distances, *others), count, right in map(
            dict.values, stored["previous_tokens"]
        )
    ]
    return runs, [RepeatRun(**run) for run in stored["repeats"]]


def previous_tokens_runs(num_heads: int, **other: object) -> list[PreviousTokensRun]:
    """Return the stored trainings on previous tokens with one setting, one for each seed.

    What is not given is as in Setting.

    >>> [run.setting.seed for run in previous_tokens_runs(1, steps=2000)]
    [1, 2, 3]
    """
    wanted = Setting(num_heads)._replace(**other)  # type: ignore[arg-type]
    stored, _ = stored_runs()
    runs = [run for run in stored if run.setting._replace(seed=wanted.seed) == wanted]
    if not runs:
        raise ValueError(f"{wanted} is not stored: tools/train_runs.py says which settings are")
    return runs


def repeat_runs(num_layers: int, steps: int) -> list[RepeatRun]:
    """Return the stored trainings on repeated sequences, as they were after so many steps."""
    _, repeats = stored_runs()
    return [run for run in repeats if (run.num_layers, run.steps) == (num_layers, steps)]


def percent_range(shares: Iterable[float]) -> str:
    """Return the least and the largest of some shares, in whole percent.

    >>> percent_range([0.172, 0.113]), percent_range([1.0, 1.0])
    ('11 to 17%', '100%')
    """
    ordered = sorted(shares)
    low, high = (round(100 * share) for share in (ordered[0], ordered[-1]))
    return f"{low}%" if low == high else f"{low} to {high}%"


def position_baseline(batch: Batch) -> float:
    """Return the accuracy on repeated sequences of the best guess from positions alone.

    A sequence repeats itself at one of several distances. Each distance that is still possible
    names a letter; the guess is the letter that most of them name.
    """
    votes = torch.zeros(*batch.tokens.shape, int(batch.tokens.max()) + 1)
    for distance in range(SHORTEST, LONGEST + 1):
        named = batch.tokens.roll(distance - 1, dims=1)
        vote = nn.functional.one_hot(named, votes.shape[-1]).float()
        vote[:, :distance] = 0  # not possible yet
        votes += vote
    best = votes == votes.amax(dim=-1, keepdim=True)  # where several are best, one of them
    has_answer = batch.answers[..., 0] >= 0
    right = best.gather(-1, batch.answers.clamp_min(0))[..., 0] / best.sum(dim=-1)
    return right[has_answer].mean().item()
