"""The tasks: what they draw, and what they ask for."""

from pathlib import Path

import pytest
import torch

from attncourse.learning import tasks
from attncourse.learning.tasks import NO_ANSWER, previous_tokens, random_walk, repeated_sequences
from support.shape_comments import reading


def draw(task, batch_size: int = 5, seed: int = 1):
    return task(batch_size, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("distances", [(1,), (3,), (1, 3), (2, 5, 3)])
def test_look_ups(distances):
    tokens, answers = draw(previous_tokens(*distances))
    assert tokens.shape == (5, 16)
    assert answers.shape == (5, 16, len(distances))
    assert set(tokens.flatten().tolist()) == set(range(12))
    for sequence, asked in zip(tokens.tolist(), answers.tolist(), strict=True):
        for place, answer in enumerate(asked):
            known = place >= max(distances)
            expected = [sequence[place - d] if known else NO_ANSWER for d in distances]
            assert answer == expected


def test_repeats():
    tokens, answers = draw(repeated_sequences(), batch_size=200)
    assert tokens.shape == (200, 48)
    assert answers.shape == (200, 48, 1)
    seen = set()
    for sequence, asked in zip(tokens.tolist(), answers[..., 0].tolist(), strict=True):
        distance = sum(answer == NO_ANSWER for answer in asked)
        seen.add(distance)
        assert asked[:distance] == [NO_ANSWER] * distance
        assert sequence[distance:] == sequence[:-distance]
        assert asked[distance:-1] == sequence[distance + 1 :]
        assert asked[-1] == sequence[48 % distance]
    assert seen == set(range(8, 25))


def test_walk():
    tokens, answers = draw(random_walk(), batch_size=200)
    assert tokens.shape == (200, 16)
    assert answers.shape == (200, 16, 1)
    steps = (tokens[:, 1:] - tokens[:, :-1]) % 12
    assert set(steps.flatten().tolist()) == {1, 11}
    assert 0.47 < steps.eq(1).float().mean() < 0.53
    assert set(tokens[:, 0].tolist()) == set(range(12))
    assert torch.equal(answers[:, :-1, 0], tokens[:, 1:])
    assert set(((answers[:, -1, 0] - tokens[:, -1]) % 12).tolist()) == {1, 11}


def test_shape_comments_are_true():
    found = reading(Path(tasks.__file__))
    sizes = {"b": 5, "num_tokens": 16, "num_answers": 2}
    found.fields(sizes, draw(previous_tokens(1, 3)))
    assert found.lies == found.unreached() == []


@pytest.mark.parametrize("distances", [(), (0,), (1, 16), (-2,)])
def test_a_look_up_that_no_place_could_answer_is_refused(distances):
    said = r"distances=\(.*\): give at least one, each from 1 to 15"
    with pytest.raises(ValueError, match=said):
        previous_tokens(*distances)
