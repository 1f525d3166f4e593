"""The stored training: is it what the tool makes, and does it show what the notebook says of it?"""

import pytest
import torch

from attncourse.learning import record
from attncourse.learning.patterns import induction, is_ambiguous
from head_patterns import measure, two_letters
from train_heads import measure_steps, train_record

BATCH = record.held_out_batch()


def test_it_is_what_the_tool_makes(capsys):
    """The first 20 steps again, and before them the model without training."""
    history = train_record(steps=20)
    assert "training" in capsys.readouterr().out
    for step, tolerance in ((0, 1e-6), (20, 1e-3)):
        stored = record.recorded_model(step).state_dict()
        for name, weight in history.snapshots[step].items():
            rounded = weight.half().float()
            torch.testing.assert_close(stored[name], rounded, atol=tolerance, rtol=1e-2)
    way, again = record.recorded_history(), measure_steps(history)
    assert again["losses"].tolist() == pytest.approx(way.losses[:20], abs=2e-2)
    for name, shares in way.by_position.items():
        made = again[name].float()
        torch.testing.assert_close(made, shares[:2], atol=1e-2, rtol=0, equal_nan=True)
    moved = (
        history.snapshots[20]["token_embedding.weight"] - record.new_model().token_embedding.weight
    )
    assert moved.abs().mean() > 0.01  # ten times the tolerance


def test_a_step_that_is_not_stored_is_refused():
    with pytest.raises(ValueError, match="step=30 is not stored; stored are 0, 20, 40, 60, 80"):
        record.recorded_model(30)


def test_what_was_measured_on_the_way_is_what_the_stored_weights_do():
    way = record.recorded_history()
    assert way.steps == record.MEASURED_AT
    assert len(way.losses) == record.SAVED_AT[-1]
    for step in (0, 300, 1200):
        i, now = record.MEASURED_AT.index(step), measure(record.recorded_model(step))
        assert way.clear[i] == pytest.approx(now.clear, abs=2e-3)
        assert way.ambiguous[i] == pytest.approx(now.ambiguous, abs=2e-3)
        for name, shares in now.by_position.items():
            stored = way.by_position[name][i]
            torch.testing.assert_close(stored, shares, atol=2e-3, rtol=0, equal_nan=True)


def test_the_heads_become_what_the_notebook_says():
    way = record.recorded_history()

    def mean(name: str, head: int, step: int, places: slice = slice(None)) -> float:
        return way.by_position[name][record.MEASURED_AT.index(step), head, places].nanmean().item()

    early, needed, later = slice(1, 13), slice(25), slice(25, None)
    for head in (0, 1):  # both look one back, where keys are needed first
        assert mean("1 back", head, 40, early) < 0.25
        assert mean("1 back", head, 100, early) > 0.85
        assert mean("1 back", head, 100, later) < 0.05
    assert min(mean("induction", head, 100) for head in (2, 3)) > 0.8
    assert mean("1 back", 1, 440, needed) > 0.97
    assert mean("2 back", 0, 800, needed) < 0.1
    assert mean("2 back", 0, 1000, needed) > 0.95
    assert mean("2 back", 0, 1000, later) < 0.1
    assert mean("1 back", 1, 800, later) < 0.35 < 0.9 < mean("1 back", 1, 1000, later)


def test_what_the_notebook_says_of_the_letter_before_and_of_early_keys():
    tokens, model = BATCH.tokens, record.recorded_model(1200)
    marked = induction(tokens)
    asked = (torch.arange(48) > 24) & ~marked[:, :, 25:].any(dim=-1)
    unclear = asked & is_ambiguous(tokens)
    settled = unclear & ~is_ambiguous(tokens, two_letters(tokens))
    assert (unclear.sum().item(), (unclear & ~settled).sum().item()) == (188, 6)
    assert record.accuracy_by_ambiguity(model, asked) == (1, 1)
    one_back = record.recorded_history().attention("L0H0 on 1 back")["L0H0 on 1 back"]
    assert one_back[-1, 3:25].max() < 0.02
    assert one_back[-1, 1:3].min() > 0.15
