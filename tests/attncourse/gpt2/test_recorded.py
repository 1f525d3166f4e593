"""The attention that was measured on the released GPT-2."""

import json

import pytest
import torch

from attncourse.gpt2.recorded import DATA, TEXTS, recorded
from attnlib.functional import causal_mask


@pytest.mark.parametrize("name", TEXTS)
def test_the_weights_follow_from_the_scores(name):
    text = recorded(name)
    n = len(text.tokens)
    assert text.scores.shape == text.weights.shape == (12, 12, n, n)
    assert "".join(text.tokens) == text.text
    is_future = torch.ones(n, n, dtype=torch.bool).triu(1)
    scores = (text.scores.double() / 8).masked_fill(is_future, -torch.inf)
    assert (scores.softmax(-1) - text.weights).abs().max() < 2e-7
    assert torch.equal(causal_mask(n), is_future)
    logits = [logit for _, logit in text.next_tokens]
    assert len(logits) == 10
    assert logits == sorted(logits, reverse=True)


@pytest.mark.parametrize("name", TEXTS)
def test_head_4_11_looks_one_token_back(name):
    weights = recorded(name).weights[4, 11]
    assert weights.diagonal(-1).min() > 0.99


def test_what_is_changed_is_a_copy():
    recorded("planet").scores.zero_()
    assert recorded("planet").scores.any()


def test_an_unknown_text_is_refused():
    with pytest.raises(ValueError, match="'moon'; stored are spaceship"):
        recorded("moon")


def test_nothing_is_stored_that_nobody_reads():
    parts = json.loads(DATA.with_suffix(".json").read_text("utf-8"))["parts"]
    assert set(parts) == {*TEXTS}
