"""Train the two-layer model that the sliders of notebook 08 show, and store its weights.

    python tools/train_heads.py

Writes attnlib/learning/data/heads.safetensors: the weights after each number of steps in SAVED_AT,
in half precision.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the attnlib beside this file

from safetensors.torch import save_file

from attnlib.learning.record import RECORD, SAVED_AT, new_model
from attnlib.learning.tasks import repeats
from attnlib.learning.training import History, train

TRAINING = {"seed": 3, "batch_size": 64, "learning_rate": 8e-3}


def train_record(steps: int = SAVED_AT[-1]) -> History:
    """Return the history of the training, or of its first steps."""
    return train(new_model(), repeats(), steps, **TRAINING, snapshots_at=SAVED_AT)


def main() -> None:
    """Train to the end and write the file."""
    snapshots = train_record().snapshots
    save_file(
        {
            f"{step}/{name}": weight.half()
            for step, weights in snapshots.items()
            for name, weight in weights.items()
        },
        RECORD,
    )
    print(f"{RECORD.name}: {RECORD.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
