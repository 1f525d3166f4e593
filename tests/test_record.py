"""The stored training: is it what the tool makes, and does it show what the notebook says of it?"""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from attnlib.learning.model import mute_head
from attnlib.learning.patterns import PATTERNS, is_ambiguous, score
from attnlib.learning.record import (
    LETTERS,
    RECORD,
    SAVED_AT,
    SHOWN,
    held_out_batch,
    new_model,
    recorded_model,
)
from attnlib.learning.tasks import NO_ANSWER, repeats
from attnlib.learning.training import accuracy, mean_loss, right_answers
from attnlib.panels.learning import MUTE, MUTE_CHOICES, TRAINING_STEP
from attnlib.pictures.palette import head_color
from attnlib.pictures.scene import Box, Line
from attnlib.pictures.tensors import lines_picture
from support.pictures import boxes, outside, overlapping, words
from train_heads import TRAINING, train_record

BATCH = held_out_batch()


def test_the_file_holds_every_weight_of_every_step_in_half_precision():
    stored, weights = load_file(RECORD), new_model().state_dict()
    assert set(stored) == {f"{step}/{name}" for step in SAVED_AT for name in weights}
    for key, weight in stored.items():
        assert weight.dtype == torch.float16
        assert weight.shape == weights[key.partition("/")[2]].shape
    assert RECORD.stat().st_size < 300_000


def test_it_is_what_the_tool_makes(capsys):
    """The first 20 steps again, and before them the model without training."""
    history = train_record(steps=20)
    assert "training" in capsys.readouterr().out
    for step, tolerance in ((0, 1e-6), (20, 1e-3)):
        stored = recorded_model(step).state_dict()
        for name, weight in history.snapshots[step].items():
            rounded = weight.half().float()
            torch.testing.assert_close(stored[name], rounded, atol=tolerance, rtol=1e-2)
    moved = history.snapshots[20]["token_embedding.weight"] - new_model().token_embedding.weight
    assert moved.abs().mean() > 0.01  # ten times the tolerance


def test_the_test_sequences_are_none_of_those_it_was_trained_on():
    assert BATCH.tokens.shape == (64, 48)
    generator = torch.Generator().manual_seed(TRAINING["seed"])
    seen = {
        tuple(row)
        for _ in range(SAVED_AT[-1])
        for row in repeats()(TRAINING["batch_size"], generator).tokens[:, :24].tolist()
    }
    assert not seen.intersection(map(tuple, BATCH.tokens[:, :24].tolist()))


def test_a_step_that_is_not_stored_is_refused():
    with pytest.raises(ValueError, match="step=30 is not stored; stored are 0, 20, 40, 60, 80"):
        recorded_model(30)


@pytest.mark.parametrize("step", SAVED_AT)
def test_the_panel_says_what_the_model_does(step):
    data, model = TRAINING_STEP.compute(step=step), recorded_model(step)
    tokens = torch.tensor([[LETTERS.index(letter) for letter in SHOWN]])
    with torch.no_grad():
        _, drawn = model(tokens, return_weights=True)
        _, attn_weights = model(BATCH.tokens, return_weights=True)
        assert data.now.loss == mean_loss(model, BATCH).item()
    assert torch.equal(data.attn_weights, drawn[0].view(4, 16, 16))
    assert data.now.accuracy == accuracy(model, BATCH)
    assert data.now.step == step
    for name, means in PATTERNS.items():
        shares = score(attn_weights, means(BATCH.tokens)).flatten().tolist()
        assert data.now.scores[name] == shares
    assert data.now == data.steps[SAVED_AT.index(step)]
    shares = [data.now.scores[name][h] for h, name in enumerate(("2 back", "1 back"))]
    third, fourth = data.now.scores["induction"][2:]
    assert TRAINING_STEP.readout(data) == (
        f"step = {step} | loss {data.now.loss:.2f} | right {100 * data.now.accuracy:.0f} % | "
        f"2 back: head 1 {shares[0]:.2f} | 1 back: head 2 {shares[1]:.2f} | "
        f"induction: head 3 {third:.2f}, head 4 {fourth:.2f}"
    )


def test_the_heads_become_what_the_notebook_says():
    first, last = (TRAINING_STEP.compute(step=step).now for step in (0, 1200))
    assert first.accuracy < 0.1
    assert last.accuracy > 0.98
    assert all(share < 0.15 for shares in first.scores.values() for share in shares)
    assert last.scores["2 back"][0] > 0.5
    assert last.scores["1 back"][1] > 0.97
    assert min(last.scores["induction"][2:]) > 0.93
    by_step = {now.step: now for now in TRAINING_STEP.compute(step=0).steps}
    assert max(by_step[40].scores["induction"][2:]) < 0.15 < 0.8
    assert min(by_step[100].scores["induction"][2:]) > 0.8
    assert by_step[100].scores["1 back"][1] < 0.3
    assert by_step[800].scores["2 back"][0] < 0.1
    assert by_step[800].accuracy < 0.86
    assert by_step[1000].scores["2 back"][0] > 0.5
    assert by_step[1000].accuracy > 0.97


def test_head_1_is_there_for_the_ambiguous_places():
    ambiguous = is_ambiguous(BATCH.tokens)[BATCH.answers[..., 0] != NO_ANSWER]

    def clear_and_ambiguous(model):
        right = right_answers(model, BATCH)[:, 0].float()
        return right[~ambiguous].mean().item(), right[ambiguous].mean().item()

    assert ambiguous.sum() == 909
    assert clear_and_ambiguous(recorded_model(800)) == pytest.approx((1.0, 0.669), abs=0.005)
    assert clear_and_ambiguous(recorded_model(1200)) == pytest.approx((1.0, 0.976), abs=0.005)
    muted = mute_head(recorded_model(1200), 0, 0)
    assert clear_and_ambiguous(muted) == pytest.approx((0.996, 0.602), abs=0.005)


@pytest.mark.parametrize(
    ("mute", "muted", "percent"),
    [
        ("no head", (), 99),
        ("head 1", (0,), 82),
        ("head 2", (1,), 16),
        ("head 3", (2,), 94),
        ("head 4", (3,), 90),
        ("heads 3 and 4", (2, 3), 5),
    ],
)
def test_muting_changes_the_accuracy_as_printed(mute, muted, percent):
    model = recorded_model(1200)
    for h in muted:
        model = mute_head(model, h // 2, h % 2)
    data = MUTE.compute(mute=mute)
    assert data.accuracy == accuracy(model, BATCH)
    assert 100 * data.accuracy == pytest.approx(percent, abs=0.5)
    assert f"muted: {mute} | right {percent} % of 99 %" in MUTE.readout(data)
    nothing = data.attn_weights.isnan().flatten(1)
    assert nothing.all(dim=1).tolist() == [h in muted for h in range(4)]
    assert not nothing[[h for h in range(4) if h not in muted]].any()
    assert [share is None for share in data.induction] == [2 in muted, 3 in muted]
    tokens = torch.tensor([[LETTERS.index(letter) for letter in SHOWN]])
    assert torch.equal(data.guesses, model(tokens)[0, :, 0].argmax(-1))


def test_every_mute_is_tried_above():
    (mark,) = test_muting_changes_the_accuracy_as_printed.pytestmark
    assert tuple(mute for mute, *_ in mark.args[1]) == MUTE_CHOICES == MUTE.controls["mute"]


def test_muting_head_2_breaks_the_stripes_of_heads_3_and_4():
    before, after = (MUTE.compute(mute=mute).induction for mute in ("no head", "head 2"))
    assert min(before) > 0.93
    assert max(after) < 0.15


def test_the_guesses_are_coloured_by_whether_they_are_right():
    data = MUTE.compute(mute="head 2")
    scene = MUTE.draw(data)
    cells = boxes(scene, 26, 24)
    right = (data.guesses == data.answers)[8:].tolist()
    assert data.answers[8:].tolist() == [LETTERS.index(letter) for letter in "hdbwmgtq"]
    assert len(cells) == 8
    fills = {cell.fill for cell, is_right in zip(cells, right, strict=True) if is_right}
    others = {cell.fill for cell, is_right in zip(cells, right, strict=True) if not is_right}
    assert len(fills) == len(others) == 1
    assert fills != others
    bar = next(box for box in scene.items if isinstance(box, Box) and box.width == 260)
    full = next(item for item in boxes(scene, 260 * data.accuracy, 24) if item.x == bar.x)
    assert full.fill == head_color(2)


def test_the_curves_end_where_the_marker_of_the_last_step_stands():
    scene = TRAINING_STEP.picture()
    curves = [i for i in scene.items if isinstance(i, Line) and len(i.points) == len(SAVED_AT)]
    assert [curve.stroke for curve in curves[1:]] == [head_color(h) for h in range(4)]
    data = TRAINING_STEP.compute(step=1200)
    bottom = boxes(scene, 330, 96)[1].y + 96
    shares = [data.now.scores[name][h] for h, name in enumerate(("2 back", "1 back"))]
    for curve, share in zip(curves[1:], shares, strict=False):
        assert (bottom - curve.points[-1][1]) / 96 == pytest.approx(share, abs=1e-6)


def test_lines_picture():
    weights = torch.tensor([[[1.0, 0, 0], [0.01, 0.99, 0], [0.3, 0.3, 0.4]], torch.eye(3).tolist()])
    scene = lines_picture(weights, ["a", "bc", "d"])
    lines = [item for item in scene.items if isinstance(item, Line)]
    assert [line.stroke for line in lines] == [head_color(0)] * 5 + [head_color(1)] * 3
    rows = {word.y: word.text for word in words(scene)}
    read = [(rows[line.points[0][1]], rows[line.points[1][1]]) for line in lines]
    names = ("a", "bc", "d")
    assert read[:5] == [("a", "a"), ("bc", "bc"), ("d", "a"), ("d", "bc"), ("d", "d")]
    assert read[5:] == [(name, name) for name in names]
    assert lines[4].width > lines[3].width == lines[2].width
    assert lines[4].opacity > lines[3].opacity
    assert lines[0].points[0][0] < lines[0].points[1][0]
    assert outside(scene) == []
    assert overlapping(scene) == []
    assert "3 queries" in scene.alt
    assert "Head 0: " in scene.alt
    assert "Head 1: " in scene.alt
