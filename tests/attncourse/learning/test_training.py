"""The training loop, and how its result is counted."""

import pytest
import torch
from torch.nn import functional as F

from attncourse.learning.model import AttentionModel
from attncourse.learning.tasks import NO_ANSWER, Batch
from attncourse.learning.training import correct_answers, train
from support.notebook_tools import ROOT
from train_runs import share_right

LESSON = ROOT / "notebooks" / "08_what_heads_learn.ipynb"


def two_back(batch_size: int, generator: torch.Generator) -> Batch:
    tokens = torch.randint(5, (batch_size, 7), generator=generator)
    answers = tokens.roll(2, dims=1)[..., None].clone()
    answers[:, :2] = NO_ANSWER
    return Batch(tokens, answers)


def model(seed: int = 1) -> AttentionModel:
    torch.manual_seed(seed)
    return AttentionModel(vocabulary=5, context_length=7, width=12, num_heads=3)


def test_it_learns():
    module = model()
    held_out = two_back(100, torch.Generator().manual_seed(9))
    assert share_right(module, held_out) < 0.5
    history = train(module, two_back, steps=80, seed=1, learning_rate=0.02)
    assert len(history.losses) == 80
    assert history.losses[0] > 1.0
    assert history.losses[-1] < 0.1
    assert share_right(module, held_out) > 0.95


def test_the_first_steps_are_those_of_adamw():
    """A second loop, written out, arrives at the same weights."""
    module, expected = model(), model()
    history = train(module, two_back, steps=3, seed=4, batch_size=11, learning_rate=0.01)
    generator = torch.Generator().manual_seed(4)
    optimizer = torch.optim.AdamW(expected.parameters(), lr=0.01)
    for loss in history.losses:
        tokens, answers = two_back(11, generator)
        logits = expected(tokens)[:, 2:, 0]
        mine = F.cross_entropy(logits.transpose(1, 2), answers[:, 2:, 0])
        assert mine.item() == pytest.approx(loss, abs=1e-6)
        optimizer.zero_grad()
        mine.backward()
        optimizer.step()
    for name, weight in expected.state_dict().items():
        torch.testing.assert_close(module.state_dict()[name], weight)


def test_snapshots_are_copies_of_the_weights_on_the_way():
    module = model()
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    history = train(module, two_back, steps=5, seed=1, snapshots_at=(0, 2, 5, 99))
    assert list(history.snapshots) == [0, 2, 5]
    short = model()
    train(short, two_back, steps=2, seed=1)
    for name, weight in module.state_dict().items():
        assert torch.equal(history.snapshots[0][name], before[name])
        assert torch.equal(history.snapshots[2][name], short.state_dict()[name])
        assert torch.equal(history.snapshots[5][name], weight)
        assert not history.snapshots[5][name].requires_grad
    assert train(model(), two_back, steps=2, seed=1).snapshots == {}


def test_it_trains_in_one_thread_and_restores_their_number():
    """Two threads wait for each other: on a busy machine many times as long."""
    seen = []

    def task(batch_size: int, generator: torch.Generator) -> Batch:
        seen.append(torch.get_num_threads())
        return two_back(batch_size, generator)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        train(model(), task, steps=2, seed=1)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 1]


# Counting

ANSWERS = torch.tensor([[[NO_ANSWER, NO_ANSWER], [0, 1], [2, 2], [1, NO_ANSWER]]])
SAID = torch.tensor([[[0, 0], [0, 1], [2, 0], [1, 0]]])
BATCH = Batch(torch.zeros(1, 4), ANSWERS)


def certain(_tokens: torch.Tensor) -> torch.Tensor:
    return 10.0 * F.one_hot(SAID, 3)


def test_only_places_with_all_answers_count():
    assert correct_answers(certain, BATCH).tolist() == [[True, True], [True, False]]
    assert share_right(certain, BATCH) == 0.5
