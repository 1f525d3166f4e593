"""Train the two-layer model that the sliders of notebook 08 show, and store its weights.

    python tools/train_heads.py

Writes into attncourse/learning/data, in half precision: heads.safetensors, the weights after each
number of steps in SAVED_AT, and growth.safetensors, what is measured after every 20 steps.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the attnlib beside this file

import torch
from safetensors.torch import save_file
from torch import Tensor

from attncourse.learning.record import HISTORY, MEASURED_AT, RECORD, SAVED_AT, new_model
from attncourse.learning.tasks import repeated_sequences
from attncourse.learning.training import History, train
from head_patterns import measure

TRAINING = {"seed": 3, "batch_size": 64, "learning_rate": 8e-3}


def train_record(steps: int = SAVED_AT[-1]) -> History:
    """Return the history of the training, or of its first steps."""
    return train(new_model(), repeated_sequences(), steps, **TRAINING, snapshots_at=MEASURED_AT)


def measure_steps(history: History) -> dict[str, Tensor]:
    """Return what is stored of the way: of each step the weights rounded as they are stored."""
    model, seen = new_model(), []
    for weights in history.snapshots.values():
        model.load_state_dict({name: weight.half().float() for name, weight in weights.items()})
        seen.append(measure(model))
    kept = {name: torch.stack([m.by_position[name] for m in seen]) for name in seen[0].by_position}
    kept["losses"] = torch.tensor(history.losses)
    kept["clear"] = torch.tensor([m.clear for m in seen])
    kept["ambiguous"] = torch.tensor([m.ambiguous for m in seen])
    return {name: values.half() for name, values in kept.items()}


def main() -> None:
    """Train to the end and write the two files."""
    history = train_record()
    weights = {
        f"{step}/{name}": weight.half()
        for step in SAVED_AT
        for name, weight in history.snapshots[step].items()
    }
    save_file(weights, RECORD)
    save_file(measure_steps(history), HISTORY)
    for file in (RECORD, HISTORY):
        print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
