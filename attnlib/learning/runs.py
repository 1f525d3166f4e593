"""Stored trainings: the same small models many times over, with other seeds, sizes and rates.

tools/train_runs.py trains them and stores how well they did; of a few it stores the weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlib.examples import seeded
from attnlib.learning.model import AttentionModel
from attnlib.learning.tasks import Batch, look_ups

DATA = Path(__file__).parent / "data"
RUNS, LATE = DATA / "runs.json", DATA / "one_head.safetensors"
SEEDS = (1, 2, 3)
EVERY = 250  # steps between two measurements of a long training
LONG = 2000


class Setting(NamedTuple):
    """What is trained, and how.

    Args:
        num_heads: of the one layer.
        distances: of the look-ups, one answer for each.
        width: of the model.
        hidden: units between attention and the answers; 0: the read-out is linear.
        learning_rate: of AdamW.
        steps: so many batches of 32.
        seed: of the model and of the batches.
    """

    num_heads: int
    distances: tuple[int, ...] = (1, 3)
    width: int = 32
    hidden: int = 0
    learning_rate: float = 5e-3
    steps: int = 200
    seed: int = 1


class Run(NamedTuple):
    """How a training ended, measured on sequences that it had not seen.

    Args:
        setting: what was trained.
        parameters: how many numbers were learned.
        right: the share of places at which all answers are right.
        named: the share of places at which each answer is right by itself.
        over_time: `right` after each 250 steps, of a long training.
    """

    setting: Setting
    parameters: int
    right: float
    named: tuple[float, ...]
    over_time: tuple[float, ...] = ()


class Repeater(NamedTuple):
    """How a training on sequences that repeat themselves went.

    Args:
        num_layers: of the model.
        num_heads: of each layer.
        width: of the model.
        seed: of the model and of the batches.
        steps: after how many steps this was measured.
        parameters: how many numbers were learned.
        clear: the share of right answers where the letter alone tells what comes next.
        ambiguous: the share where it does not.
        right: the share of right answers at all places that have one.
        scores: by pattern, of each head, layer after layer: "1 back" and "2 back" at the places
            up to 24, "induction" and "two letters" at the places with an answer.
    """

    num_layers: int
    num_heads: int
    width: int
    seed: int
    steps: int
    parameters: int
    clear: float
    ambiguous: float
    right: float
    scores: dict[str, list[float]]


def look_up_model(setting: Setting) -> AttentionModel:
    """Return a model before its training, the same one each time.

    >>> look_up_model(Setting(num_heads=2)).layers[0].num_heads
    2
    """
    answers = len(setting.distances)
    with seeded(setting.seed):
        model = AttentionModel(12, 16, setting.width, setting.num_heads, num_answers=answers)
        if setting.hidden:
            first = nn.Linear(setting.width, setting.hidden)
            last = nn.Linear(setting.hidden, 12 * answers)
            model.read_out = nn.Sequential(first, nn.ReLU(), last)
    return model


def look_up_test(*distances: int) -> Batch:
    """Return 256 sequences that no model here is trained on, the same ones each time."""
    return look_ups(*distances)(256, torch.Generator().manual_seed(1000))


@cache
def _runs() -> dict[str, list[dict[str, object]]]:
    stored: dict[str, list[dict[str, object]]] = json.loads(RUNS.read_text("utf-8"))
    return stored


def look_up_runs(keep: Callable[[Setting], bool] = lambda setting: True) -> list[Run]:
    """Return the stored trainings of the look-ups whose setting is one to keep.

    >>> [run.setting.seed for run in look_up_runs(lambda s: s.steps == LONG)]
    [1, 2, 3]
    """
    runs = []
    for stored in _runs()["look_ups"]:
        run = Run(**stored)  # type: ignore[arg-type]
        setting = Setting(*run.setting)
        setting = setting._replace(distances=tuple(setting.distances))
        if keep(setting):
            kept = run._replace(setting=setting, named=tuple(run.named))
            runs.append(kept._replace(over_time=tuple(run.over_time)))
    return runs


def repeat_runs(num_layers: int, steps: int) -> list[Repeater]:
    """Return the stored trainings on repeats with so many layers, as they were after the steps.

    >>> [run.seed for run in repeat_runs(num_layers=1, steps=1200)]
    [1, 2, 3]
    """
    runs = [Repeater(**stored) for stored in _runs()["repeats"]]  # type: ignore[arg-type]
    return [run for run in runs if (run.num_layers, run.steps) == (num_layers, steps)]


@cache
def _late() -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(LATE)


def late_head(seed: int) -> AttentionModel:
    """Return the model with one head as it was after the long training.

    Raises:
        ValueError: no weights are stored of this seed; the message lists the seeds.

    >>> late_head(1).layers[0].num_heads
    1
    """
    if seed not in SEEDS:
        raise ValueError(f"seed={seed} is not stored; stored are {', '.join(map(str, SEEDS))}")
    model = look_up_model(Setting(num_heads=1, seed=seed))
    names = model.state_dict()
    model.load_state_dict({name: _late()[f"{seed}/{name}"].float() for name in names})
    return model.eval()


def spread(shares: Iterable[float]) -> str:
    """Return the least and the largest of some shares, in whole percent.

    >>> spread([0.172, 0.113]), spread([1.0, 1.0])
    ('11 to 17 %', '100 %')
    """
    low, high = (round(100 * share) for share in _ends(shares))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _ends(shares: Iterable[float]) -> tuple[float, float]:
    ordered = sorted(shares)
    return ordered[0], ordered[-1]
