"""Train the mini model and its twin, and store their weights.

    python tools/train_mini.py

Writes attncourse/learning/data/mini.safetensors: the mini model, and of the twin how every training
ended, with the weights of three: one head that is stuck, one that is not, and two heads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the attncourse beside this file

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from attncourse.examples import one_thread, seeded
from attncourse.learning.mini import DATA, MiniModel, new_mini_model, sentences, word_ids
from attncourse.learning.two_answers import SEEDS, STORED, TwoAnswerModel, journeys

MINI_SEED = (
    11  # of seeds 0 to 21, 10 get all pairs right; 6, 11, 15 and 17 also look at what they name
)
STEPS = 800


def fit(
    model: nn.Module, logits: Callable[[], Tensor], answers: Tensor, rate: float, decay: float
) -> None:
    """Train a model in place, all sentences in each step, and round it to two decimals.

    Args:
        model: in double precision; single precision when it is trained.
        logits: computes them, (..., vocabulary).
        answers: int64, (...).
        rate: AdamW's learning rate; in the last 40% of the steps it falls to 0.
        decay: AdamW's weight decay.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (1 - step / STEPS) / 0.4)
    )
    with one_thread():
        for _ in range(STEPS):
            loss = F.cross_entropy(logits().flatten(end_dim=-2), answers.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter * 100).round() / 100)
    model.float().eval()


def train_mini(seed: int = MINI_SEED) -> MiniModel:
    """Return a mini model trained on its sentences: only the word after the last is asked for."""
    with seeded(seed):
        model = new_mini_model().double()
    asked = sentences()
    ids = [word_ids(sentence.text, model.words) for sentence in asked]
    last = torch.tensor([len(tokens) - 1 for tokens in ids])
    tokens = nn.utils.rnn.pad_sequence(ids, batch_first=True)  # the head does not look ahead
    answers = torch.tensor([model.words.index(sentence.answer) for sentence in asked])
    rows = torch.arange(len(asked))
    fit(model, lambda: model(tokens)[rows, last], answers, 5e-2, 0.3)
    return model


def train_two_answers(
    num_heads: int, has_mlp: bool, seed: int, spread: float = 0.3
) -> TwoAnswerModel:
    """Return a model trained on the journeys; its embeddings start with this standard deviation."""
    with seeded(seed):
        model = TwoAnswerModel(num_heads, has_mlp).double()
    with torch.no_grad():
        model.embedding.weight.mul_(spread)  # nn.Embedding starts with a spread of 1
        model.positions.weight.mul_(spread)
    texts, named = zip(*journeys(), strict=True)
    tokens = torch.stack([word_ids(text, model.words) for text in texts])
    answers = torch.tensor([[model.words.index(word) for word in pair] for pair in named])
    fit(model, lambda: model(tokens), answers, 3e-2, 1e-2)
    return model


def right_of(model: TwoAnswerModel) -> int:
    """Return of how many journeys a twin names both ends."""
    return sum(model.read(text).named == named for text, named in journeys())


def main() -> None:
    """Train all and write the file."""
    kept = {f"mini/{name}": weight for name, weight in train_mini().state_dict().items()}
    for has_mlp in (False, True):
        for num_heads in (1, 2):
            models = [train_two_answers(num_heads, has_mlp, seed) for seed in SEEDS]
            right = [right_of(twin) for twin in models]
            kept[f"right/{num_heads}/{int(has_mlp)}"] = torch.tensor(right)
            print(f"{num_heads} head(s), MLP {has_mlp}: {right} right", flush=True)
            for seed in SEEDS:
                if not has_mlp and (num_heads, seed) in STORED:
                    shown, name = models[seed].state_dict(), f"two_looks/{num_heads}/{seed}"
                    kept |= {f"{name}/{part}": shown[part] for part in shown}
    save_file(kept, DATA)
    print(f"{DATA.name}: {DATA.stat().st_size / 1000:.1f} kB")


if __name__ == "__main__":
    main()
