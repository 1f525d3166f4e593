"""Train the small models whose results notebook 08 shows, and store how well they did.

    python tools/train_runs.py

Writes attncourse/learning/data/runs.json. It takes some minutes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the attnlib beside this file

import torch

from attncourse.learning.model import AttentionModel
from attncourse.learning.patterns import induction, is_ambiguous
from attncourse.learning.record import held_out_batch
from attncourse.learning.runs import (
    RUNS,
    SEEDS,
    PreviousTokensRun,
    Setting,
    previous_tokens_model,
    previous_tokens_test,
)
from attncourse.learning.tasks import LONGEST, NO_ANSWER, Batch, previous_tokens, repeated_sequences
from attncourse.learning.training import correct_answers, train
from head_patterns import k_back, score, two_letters
from train_heads import TRAINING

RATES = (2e-3, 5e-3, 1e-2, 2e-2)
REPEAT_SEEDS = range(1, 9)
LONG = 2000


def settings() -> list[Setting]:
    """Return what is trained on previous tokens."""
    made = [
        Setting(num_heads, learning_rate=rate, seed=seed)
        for num_heads in (1, 2, 4)
        for rate in RATES
        for seed in SEEDS
    ]
    made += [Setting(1, (k,), seed=seed) for k in (1, 3) for seed in SEEDS]
    made += [Setting(1, width=64, seed=seed) for seed in SEEDS]
    made += [Setting(1, mlp_width=units, seed=seed) for units in (14, 64, 128) for seed in SEEDS]
    return made + [Setting(1, steps=LONG, seed=seed) for seed in SEEDS]


def train_previous_tokens(setting: Setting) -> tuple[PreviousTokensRun, AttentionModel]:
    """Train one model and measure it."""
    model, task = previous_tokens_model(setting), previous_tokens(*setting.distances)
    train(model, task, setting.steps, setting.seed, learning_rate=setting.learning_rate)
    right = share_right(model, previous_tokens_test(*setting.distances))
    parameters = sum(weight.numel() for weight in model.parameters())
    return PreviousTokensRun(setting, parameters, right), model


def share_right(model: AttentionModel, batch: Batch) -> float:
    """Return the share of places with answers at which all answers are right."""
    return correct_answers(model, batch).all(dim=-1).float().mean().item()


@torch.no_grad()
def measure_repeats(model: AttentionModel) -> dict[str, Any]:
    """Return how well a model does on the repeats held out, and the scores of its heads."""
    batch = held_out_batch()
    asked = batch.answers[..., 0] != NO_ANSWER  # (b, num_tokens)
    right = correct_answers(model, batch)[:, 0].float()
    ambiguous = is_ambiguous(batch.tokens)[asked]
    _, attn_weights = model(batch.tokens, return_weights=True)
    early = torch.arange(batch.tokens.shape[1]) <= LONGEST  # (num_tokens)
    places = {
        "1 back": k_back(batch.tokens, 1) & early[:, None],
        "2 back": k_back(batch.tokens, 2) & early[:, None],
        "induction": induction(batch.tokens) & asked[..., None],
        "two letters": two_letters(batch.tokens) & asked[..., None],
    }
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "clear": right[~ambiguous].mean().item(),
        "ambiguous": right[ambiguous].mean().item(),
        "right": right.mean().item(),
        "scores": {
            name: [round(share, 4) for share in score(attn_weights, where).flatten().tolist()]
            for name, where in places.items()
        },
    }


def train_repeats(num_layers: int, num_heads: int, width: int, seed: int) -> list[dict[str, Any]]:
    """Train one model on repeats and measure it twice on its way."""
    torch.manual_seed(seed)
    model = AttentionModel(24, 48, width, num_heads, num_layers)
    how = {**TRAINING, "seed": seed}
    history = train(model, repeated_sequences(), 1200, **how, snapshots_at=(200, 1200))
    sizes = {"num_layers": num_layers, "num_heads": num_heads, "width": width, "seed": seed}
    made = []
    for step, weights in history.snapshots.items():
        model.load_state_dict(weights)
        made.append({**sizes, "steps": step, **measure_repeats(model)})
    return made


def main() -> None:
    """Train them all and write the file."""
    runs: list[dict[str, Any]] = []
    for setting in settings():
        run, _ = train_previous_tokens(setting)
        runs.append(run._asdict())
        print(setting, f"{run.parameters} parameters, right {run.right:.3f}", flush=True)
    repeaters = []
    for seed in SEEDS:
        repeaters += train_repeats(num_layers=1, num_heads=4, width=44, seed=seed)
        print(repeaters[-1], flush=True)
    for seed in REPEAT_SEEDS:
        repeaters += train_repeats(num_layers=2, num_heads=2, width=32, seed=seed)
        print(repeaters[-1], flush=True)
    text = json.dumps({"previous_tokens": runs, "repeats": repeaters}, indent=1)
    RUNS.write_text(text + "\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
