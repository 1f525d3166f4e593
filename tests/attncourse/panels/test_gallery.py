"""The gallery: its verdicts are what the checks say, and nothing gets past all of it."""

import math
from functools import cache

import pytest
import torch
from torch import Tensor

from attncourse.panels.gallery import (
    CONDITIONS,
    GALLERY,
    GALLERY_SEED,
    build,
    compute_gallery,
    examine,
    tokens,
)
from attncourse.pictures.matrices import brief
from attncourse.pictures.palette import HEAD_COLORS
from attncourse.pictures.palette import QUIET as GRAY
from attncourse.variants.hunt import ALL_MISTAKES
from attncourse.variants.mistakes import MISTAKES, OnePageAttention
from attnlib import causal_mask
from support.cases import sheet
from support.pictures import boxes, outside, text_in, words
from support.wrong_classes import CAUGHT

BY_NAME = {mistake.name: mistake for mistake in ALL_MISTAKES}
CHECKS = ("shape", "causality", "rows", "equality")
QUIET = {  # what passes every check as usual, and the condition that exposes it
    "minus 1e4": "large tokens",
    "minus 1e9": "half precision",
    "dropout before softmax": "dropout 0.5",
    "dropout in eval": "dropout 0.5",
}
each_mistake = pytest.mark.parametrize("name", [mistake.name for mistake in MISTAKES])
each_condition = pytest.mark.parametrize("condition", CONDITIONS)


@cache
def catches(name: str, condition: str = "as usual") -> tuple[bool, ...]:
    return tuple(not verdict for verdict in examine(BY_NAME[name].cls, condition).values())


# What is put to the test


@each_condition
def test_the_right_page_passes_everything_everywhere(condition):
    assert all(examine(OnePageAttention, condition).values())
    assert build(OnePageAttention, condition)(tokens(condition)).isfinite().all()


@each_condition
def test_a_condition_changes_what_it_says(condition):
    module, x = build(OnePageAttention, condition), tokens(condition)
    assert module.dropout.p == (0.5 if condition == "dropout 0.5" else 0.0)
    half, large = condition == "half precision", condition == "large tokens"
    assert {x.dtype, module.W_query.weight.dtype} == {torch.float16 if half else torch.float32}
    assert x.shape == (1, 6, 3)
    torch.testing.assert_close(x.float(), tokens() * (85 if large else 1), rtol=1e-3, atol=0)


@each_condition
def test_all_classes_get_the_same_weights_and_the_seed_of_the_reader_stays(condition):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    right = build(OnePageAttention, condition).state_dict()
    for mistake in MISTAKES:
        wrong = build(mistake.cls, condition).state_dict()
        assert all(torch.equal(wrong[name], weight) for name, weight in right.items())
    examine(OnePageAttention, condition)
    assert torch.equal(torch.get_rng_state(), before)


# The verdicts


@each_mistake
def test_what_each_check_catches_as_usual(name):
    """The same as at the sizes of the other tests, which are all prime."""
    assert catches(name) == CAUGHT[name]


@each_mistake
def test_every_mistake_is_caught_somewhere(name):
    where = [condition for condition in CONDITIONS if any(catches(name, condition))]
    if name not in QUIET:
        assert "as usual" in where
    elif name == "dropout before softmax":  # the checks look at eval only
        assert where == []
        assert compute_gallery(name, QUIET[name]).difference.isnan().any()
        assert build(BY_NAME[name].cls, QUIET[name]).eval()(tokens()).isfinite().all()
    else:
        assert where == [QUIET[name]]


# The panel


def both_in_training(name: str, condition: str) -> tuple[Tensor, Tensor, Tensor]:
    made = []
    for cls in (OnePageAttention, BY_NAME[name].cls):
        module = build(cls, condition)
        torch.manual_seed(GALLERY_SEED)
        made.append(module.train()(tokens(condition), return_weights=True))
    (right, _), (wrong, attn_weights) = made
    return right[0].float(), wrong[0].float(), attn_weights[0].float()


@pytest.mark.parametrize("state", GALLERY.states(), ids=lambda state: " ".join(state.values()))
def test_the_panel_shows_the_difference(state):
    name, condition = state.values()
    data = GALLERY.compute(**state)
    scene, line = GALLERY.draw(data), GALLERY.readout(data)
    marks = ["caught" if caught else "passes" for caught in catches(name, condition)]
    caught = [check for check, mark in zip(CHECKS, marks, strict=True) if mark == "caught"]
    listed = f"{', '.join(caught[:-1])} and {caught[-1]}" if len(caught) > 1 else "".join(caught)
    told_of = f"caught by {listed}" if caught else "all four checks pass"
    shown = [text_in(scene, box) for box in boxes(scene, 72, 26)]
    assert shown == marks
    orange = [box.fill == HEAD_COLORS[4] for box in boxes(scene, 72, 26)]
    assert orange == [mark == "caught" for mark in marks]
    lines = [item.text for item in words(scene)]
    code = "".join(item.text for item in words(scene) if item.mono).replace(" ", "")
    mistakes = [data.mistake.after, data.mistake] if data.mistake.after else [data.mistake]
    told = [
        f"{which}: {text or '(no such line)'}"
        for mistake in mistakes
        for which, text in (("right", mistake.right), ("wrong", mistake.wrong))
    ]
    assert code.startswith("".join(told).replace(" ", ""))  # in lines as wide as a phone
    said = [str(v) for v in data.verdicts.values() if not v] or ["All four pass."]
    assert outside(scene) == []

    stops = {"view without contiguous": 16, "minus 1e9": 11 if condition == "half precision" else 0}
    if at := stops.get(name):
        assert data.difference is None
        assert line == f"{name}, {condition}: {told_of}. Forward stops."
        assert f"Stopped in OnePageAttention.forward, line {at}:" in lines
        assert len(boxes(scene, 16, 16)) == 2 * 36  # the right maps alone
        return
    right, wrong, attn_weights = both_in_training(name, condition)
    after = lines[lines.index("The checks, in eval, say") + 1 :]
    assert " ".join(after) == " ".join(said)
    off = (wrong - right).abs().tolist()
    cells = [text_in(scene, box) for box in boxes(scene, 35, 26)]
    texts = [
        "NaN" if math.isnan(value) else brief(value) if value else "0"
        for row in off
        for value in row
    ]
    for text, value in zip(texts, (value for row in off for value in row), strict=True):
        assert len(text) <= 4
        told = float(text.replace("<.01", "0"))
        assert told == pytest.approx(value, rel=0.005, abs=0.0051, nan_ok=True)
    assert cells == texts
    largest = math.nan if "NaN" in texts else max(map(max, off))
    off = f"Its outputs are off by {largest:.3g}" if largest else "Its outputs are right"
    if largest != largest:
        off = "Some of its outputs are NaN"
    assert line == f"{name}, {condition}: {told_of}. {off}."
    torch.testing.assert_close(data.attn_weights, attn_weights, equal_nan=True)
    right_maps, maps = boxes(scene, 16, 16)[:72], boxes(scene, 16, 16)[72:]
    assert [box.fill == GRAY for box in right_maps] == causal_mask(6).flatten().tolist() * 2
    nothing_to_come = (attn_weights == 0) & causal_mask(6)
    assert [box.fill == GRAY for box in maps] == nothing_to_come.flatten().tolist()
    assert [box.hatched for box in maps] == attn_weights.isnan().flatten().tolist()
    framed = {(box.x - 1.5, box.y - 1.5) for box in boxes(scene, 13, 13)}
    in_future = causal_mask(6).repeat(2, 1, 1).flatten().tolist()
    leaking = [
        (box.x, box.y)
        for box, weight, later in zip(maps, attn_weights.flatten().tolist(), in_future, strict=True)
        if later and weight != 0
    ]
    assert framed == set(leaking)


def test_the_list_has_the_mistakes_of_a_part_together():
    (shown, _) = sheet(GALLERY.name)["controls"]
    parts = dict(zip(shown["words"], shown["groups"], strict=True))
    assert [*dict.fromkeys(parts.values())] == [
        "queries, keys, values",
        "split and merge",
        "mask",
        "scale",
        "softmax and dropout",
        "output",
    ]
    assert parts["minus 1e4"] == "mask"
    assert parts["heads in reverse"] == "split and merge"
