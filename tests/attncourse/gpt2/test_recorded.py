"""The attention that was measured on the released GPT-2."""

import json
from hashlib import sha256

import pytest
import torch

from attncourse.gpt2.recorded import DATA, TEXTS, recorded, recorded_names, recorded_sentence
from attnlib.functional import causal_mask

SHA256 = "0fe732e9f67b79757bd440fa969970a9e128c4786a51ee6386ac0cb93a385135"


def test_the_file_is_the_published_one():
    assert sha256(DATA.read_bytes()).hexdigest() == SHA256


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


def test_head_5_5_finds_what_followed_the_name():
    for sentence in recorded_names():
        first = sentence.tokens.index(sentence.tokens[10])
        row = sentence.weights[5, 5][10]
        assert row[1:].argmax() + 1 == first + 1
        assert "".join(sentence.tokens[1:]) == sentence.text


def test_every_row_of_the_sentences_is_a_causal_share():
    for sentence in (*recorded_names(), recorded_sentence()):
        n = len(sentence.tokens)
        for weights in sentence.weights.values():
            assert weights.shape == (n, n)
            assert torch.allclose(weights.sum(-1), torch.ones(n), atol=1e-4)
            assert not weights.triu(1).any()


def test_what_is_changed_is_a_copy():
    recorded("planet").scores.zero_()
    recorded_sentence().weights[0, 0].zero_()
    assert recorded("planet").scores.any()
    assert recorded_sentence().weights[0, 0].any()


def test_an_unknown_text_is_refused():
    with pytest.raises(ValueError, match="'moon'; stored are spaceship"):
        recorded("moon")


def test_nothing_is_stored_that_nobody_reads():
    parts = json.loads(DATA.with_suffix(".json").read_text("utf-8"))["parts"]
    assert set(parts) == {*TEXTS, "sentence", *(f"names.{i}" for i in range(8))}
