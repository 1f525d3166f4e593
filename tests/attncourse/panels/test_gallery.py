"""The gallery of mistakes: its verdicts are what the checks say, and each mistake is exposed."""

from functools import cache

import pytest
import torch
from torch import Tensor

from attncourse.panels import MISTAKE_GALLERY
from attncourse.panels.gallery import CONDITIONS, GALLERY_SEED, build, examine, tokens
from attncourse.variants.faults import ALL_MISTAKES
from attncourse.variants.mistakes import MISTAKES, OnePageAttention
from attnlib import MultiHeadAttention, causal_mask
from support.caught_mistakes import CAUGHT

BY_NAME = {mistake.name: mistake for mistake in ALL_MISTAKES}
CHECKS = ("shape", "causality", "rows", "equality")
EXPOSED_BY = {  # what passes every check as usual, and the condition that exposes it
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


@each_condition
def test_the_right_class_passes_everything_everywhere(condition):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    assert all(examine(OnePageAttention, condition).values())
    assert torch.equal(torch.get_rng_state(), before)


@each_mistake
def test_every_mistake_is_caught_somewhere(name):
    """As usual the same as at the sizes of the other tests, which are all prime."""
    assert catches(name) == CAUGHT[name]
    where = [condition for condition in CONDITIONS if any(catches(name, condition))]
    if name not in EXPOSED_BY:
        assert "as usual" in where
    elif name == "dropout before softmax":  # the checks look at eval only
        assert where == []
        shown = MISTAKE_GALLERY.compute(mistake=name, condition=EXPOSED_BY[name])
        assert shown.difference.isnan().any()
    else:
        assert where == [EXPOSED_BY[name]]


STOPS = {"mistake": "minus 1e9", "condition": "half precision"}
STATES = (
    {"mistake": "mask one too late", "condition": "as usual"},
    {"mistake": "minus 1e4", "condition": "large tokens"},
    {"mistake": "dropout before softmax", "condition": "dropout 0.5"},  # NaN
    STOPS,
)


def in_training(cls: type[MultiHeadAttention], condition: str) -> tuple[Tensor, Tensor]:
    torch.manual_seed(GALLERY_SEED)
    outputs, attn_weights = build(cls, condition).train()(tokens(condition), return_weights=True)
    return outputs[0].float(), attn_weights[0].float()


@pytest.mark.parametrize("state", STATES, ids=lambda state: state["mistake"])
def test_the_panel_shows_the_difference(state):
    name, condition = state.values()
    data = MISTAKE_GALLERY.compute(**state)
    line, details = MISTAKE_GALLERY.readout(data), MISTAKE_GALLERY.details(data)
    for check, is_caught in zip(CHECKS, catches(name, condition), strict=True):
        assert (check in line.partition(": ")[2]) == is_caught
    assert f"right: {data.mistake.right}\nwrong: {data.mistake.wrong}" in details
    if state == STOPS:
        assert line.endswith(". Forward stops.")
        assert "RuntimeError: " in details
        assert len(MISTAKE_GALLERY.draw(data)) == 1  # the right maps alone
        return
    assert all(str(verdict) in details for verdict in data.verdicts.values() if not verdict)
    right, _ = in_training(OnePageAttention, condition)
    wrong, attn_weights = in_training(BY_NAME[name].cls, condition)
    torch.testing.assert_close(data.difference, (wrong - right).abs(), equal_nan=True)
    torch.testing.assert_close(data.attn_weights, attn_weights, equal_nan=True)
    assert (" are NaN." in line) == bool(data.difference.isnan().any())
    leaks = int((causal_mask(6) & (attn_weights != 0)).sum())
    alt = MISTAKE_GALLERY.draw(data)[1].alt
    assert (f" {leaks} cells in the future have a weight." in alt) == (leaks > 0)
