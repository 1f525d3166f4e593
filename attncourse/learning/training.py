"""One plain training loop, and the loss and accuracy of a model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.examples import one_thread
from attncourse.learning.tasks import NO_ANSWER, Batch, Task

Model = Callable[[Tensor], Tensor]  # from tokens to logits


class History(NamedTuple):
    """What a training returns besides the trained model."""

    losses: list[float]  # of each step, before its update
    snapshots: dict[int, dict[str, Tensor]]  # the state_dict after so many steps


def train(
    model: nn.Module,
    task: Task,
    steps: int,
    seed: int,
    batch_size: int = 32,
    learning_rate: float = 5e-3,
    snapshots_at: Iterable[int] = (),
    title: str = "training",
) -> History:
    """Train a model in place, with a progress bar on stdout that goes when it is done.

    It runs in one thread: models this small are slower in two, which wait for each other, and many
    times slower on a machine that has other work.

    The model returns logits, (b, num_tokens, num_answers, vocabulary); seed torch before creating
    it. seed is that of the batches. The weights are copied after the steps of snapshots_at, where 0
    is before the first.

    Source: Loshchilov and Hutter 2019, for AdamW.
    """
    from tqdm import tqdm

    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    wanted = set(snapshots_at)
    losses: list[float] = []
    snapshots = {0: _copy(model)} if 0 in wanted else {}
    progress = tqdm(range(1, steps + 1), title, file=sys.stdout, leave=False, mininterval=0.5)
    with torch.enable_grad(), one_thread():
        for step in progress:
            loss = mean_loss(model, task(batch_size, generator))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
            if step in wanted:
                snapshots[step] = _copy(model)
    return History(losses, snapshots)


def mean_loss(model: Model, batch: Batch) -> Tensor:
    """Return the mean cross-entropy over all answers that are asked for.

    >>> one_of_four = Batch(torch.zeros(1, 2), torch.tensor([[[3], [NO_ANSWER]]]))
    >>> mean_loss(lambda tokens: torch.zeros(1, 2, 1, 4), one_of_four).exp().item()
    4.0
    """
    logits: Tensor = model(batch.tokens)
    return F.cross_entropy(
        logits.flatten(end_dim=-2), batch.answers.flatten(), ignore_index=NO_ANSWER
    )


@torch.no_grad()
def correct_answers(model: Model, batch: Batch) -> Tensor:
    """Return whether each answer is predicted, bool, (positions with answers, num_answers)."""
    right: Tensor = model(batch.tokens).argmax(dim=-1) == batch.answers
    asked = (batch.answers != NO_ANSWER).all(dim=-1)
    return right[asked]


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.state_dict().items()}
