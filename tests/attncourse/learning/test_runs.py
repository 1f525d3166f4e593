"""The stored trainings: are they what the tool makes, and what the notebook says of them?"""

import pytest
import torch

from attncourse.learning.record import recorded_model
from attncourse.learning.runs import (
    Setting,
    position_baseline,
    previous_tokens_model,
    previous_tokens_runs,
    previous_tokens_test,
    repeat_runs,
)
from attncourse.learning.tasks import NO_ANSWER, repeated_sequences
from train_runs import measure_repeats, share_right, train_previous_tokens


@pytest.mark.parametrize(("num_heads", "least", "most"), [(1, 0.05, 0.4), (2, 0.99, 1.0)])
def test_a_training_ends_as_it_is_stored(num_heads, least, most, capsys):
    """Rounding differs between machines; whether both are named does not."""
    setting = Setting(num_heads, learning_rate=1e-2, seed=3)
    run, model = train_previous_tokens(setting)
    stored = previous_tokens_runs(num_heads, learning_rate=1e-2)[2]
    assert capsys.readouterr().out
    assert run.parameters == stored.parameters == 5816
    assert all(least <= share <= most for share in (run.right, stored.right))
    assert run.right == share_right(model, previous_tokens_test(1, 3))


def test_a_model_starts_as_its_seed_and_its_setting_say():
    first, second, other = (previous_tokens_model(Setting(2, seed=seed)) for seed in (1, 1, 2))
    assert torch.equal(first.read_out.weight, second.read_out.weight)
    assert not torch.equal(first.read_out.weight, other.read_out.weight)
    hidden = previous_tokens_model(Setting(1, mlp_width=14))
    assert hidden(torch.zeros(3, 5, dtype=torch.int64)).shape == (3, 5, 2, 12)
    size = sum(weight.numel() for weight in hidden.parameters())
    assert size == previous_tokens_runs(1, mlp_width=14)[0].parameters == 5846


def test_a_setting_that_is_not_stored_is_refused():
    with pytest.raises(ValueError, match=r"num_heads=3, .* is not stored: tools/train_runs.py"):
        previous_tokens_runs(3)


def test_seed_3_is_the_training_that_is_stored_step_by_step():
    run = repeat_runs(num_layers=2, steps=1200)[2]
    again = measure_repeats(recorded_model(1200))
    assert again["parameters"] == run.parameters
    assert again["ambiguous"] == pytest.approx(run.ambiguous, abs=5e-3)
    for name, by_head in run.scores.items():
        assert again["scores"][name] == pytest.approx(by_head, abs=5e-3)


def test_the_guess_by_place_takes_the_letter_that_most_distances_name():
    batch = repeated_sequences()(17, torch.Generator().manual_seed(2))
    right, count = 0.0, 0
    for row, wanted in zip(batch.tokens.tolist(), batch.answers[..., 0].tolist(), strict=True):
        for q, answer in enumerate(wanted):
            if answer == NO_ANSWER:
                continue
            named = [row[q + 1 - d] for d in range(8, 25) if d <= q]
            most = max(named.count(letter) for letter in named)
            best = {letter for letter in named if named.count(letter) == most}
            right, count = right + (answer in best) / len(best), count + 1
    assert position_baseline(batch) == pytest.approx(right / count)
