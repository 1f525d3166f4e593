"""The stored training: is it what the tool makes, and does it show what the notebook says of it?"""

import pytest
import torch
from safetensors.torch import load_file

from attncourse.learning import record
from attncourse.learning.patterns import induction, is_ambiguous
from attncourse.learning.tasks import NO_ANSWER, repeats
from head_patterns import k_back, mark_watched, measure, score, two_letters
from train_heads import TRAINING, measure_steps, train_record

BATCH = record.held_out_batch()


def test_the_file_holds_every_weight_of_every_step_in_half_precision():
    stored, weights = load_file(record.RECORD), record.new_model().state_dict()
    assert set(stored) == {f"{step}/{name}" for step in record.SAVED_AT for name in weights}
    for key, weight in stored.items():
        assert weight.dtype == torch.float16
        assert weight.shape == weights[key.partition("/")[2]].shape
    assert record.RECORD.stat().st_size < 300_000


def test_it_is_what_the_tool_makes(capsys):
    """The first 20 steps again, and before them the model without training."""
    history = train_record(steps=20)
    assert "training" in capsys.readouterr().out
    for step, tolerance in ((0, 1e-6), (20, 1e-3)):
        stored = record.recorded_model(step).state_dict()
        for name, weight in history.snapshots[step].items():
            rounded = weight.half().float()
            torch.testing.assert_close(stored[name], rounded, atol=tolerance, rtol=1e-2)
    way, again = record.growth(), measure_steps(history)
    assert again["losses"].tolist() == pytest.approx(way.losses[:20], abs=2e-2)
    for name, shares in way.by_place.items():
        made = again[name].float()
        torch.testing.assert_close(made, shares[:2], atol=1e-2, rtol=0, equal_nan=True)
    moved = (
        history.snapshots[20]["token_embedding.weight"] - record.new_model().token_embedding.weight
    )
    assert moved.abs().mean() > 0.01  # ten times the tolerance


def test_the_test_sequences_are_none_of_those_it_was_trained_on():
    assert BATCH.tokens.shape == (64, 48)
    generator = torch.Generator().manual_seed(TRAINING["seed"])
    drawn = (repeats()(TRAINING["batch_size"], generator) for _ in range(record.SAVED_AT[-1]))
    seen = {tuple(row) for batch in drawn for row in batch.tokens[:, :24].tolist()}
    assert not seen.intersection(map(tuple, BATCH.tokens[:, :24].tolist()))


def test_a_step_that_is_not_stored_is_refused():
    with pytest.raises(ValueError, match="step=30 is not stored; stored are 0, 20, 40, 60, 80"):
        record.recorded_model(30)


def test_what_was_measured_on_the_way_is_what_the_stored_weights_do():
    way = record.growth()
    assert way.steps == record.MEASURED_AT
    assert len(way.losses) == record.SAVED_AT[-1]
    for step in record.SAVED_AT:
        i, now = record.MEASURED_AT.index(step), measure(record.recorded_model(step))
        assert way.clear[i] == pytest.approx(now.clear, abs=2e-3)
        assert way.ambiguous[i] == pytest.approx(now.ambiguous, abs=2e-3)
        for name, shares in now.by_place.items():
            stored = way.by_place[name][i]
            torch.testing.assert_close(stored, shares, atol=2e-3, rtol=0, equal_nan=True)


def test_what_is_measured_is_the_score_at_places_that_are_asked():
    model = record.recorded_model(100)
    with torch.no_grad():
        _, attn_weights = model(BATCH.tokens, return_weights=True)
    has_answer = record.mark_asked(BATCH)
    assert has_answer.tolist() == (BATCH.answers[..., 0] != NO_ANSWER).tolist()
    for name, shares in measure(model).by_place.items():
        where = mark_watched(BATCH)[name]
        counts = where.any(dim=-1).sum(dim=0)
        mean = (shares.nan_to_num() * counts).sum(dim=-1) / counts.sum()
        torch.testing.assert_close(mean, score(attn_weights, where).flatten())
        if name in ("induction", "two letters"):
            assert not where[~has_answer].any()
    assert torch.equal(mark_watched(BATCH)["1 back"], k_back(BATCH.tokens, 1))


def test_the_heads_become_what_the_notebook_says():
    way = record.growth()

    def mean(name: str, head: int, step: int, places: slice = slice(None)) -> float:
        return way.by_place[name][record.MEASURED_AT.index(step), head, places].nanmean().item()

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
    assert record.clear_and_ambiguous(model, asked) == (1, 1)
    one_back = record.growth().strips("L0H0 on 1 back")["L0H0 on 1 back"]
    assert one_back[-1, 3:25].max() < 0.02
    assert one_back[-1, 1:3].min() > 0.15
