"""The published sizes of GPT-2, and the attention that was measured on the released model."""

import pytest
import torch

from attncourse.gpt2 import SIZES, TEXTS, cache_bytes, parameter_parts, recorded_attention
from attncourse.speed.count import count_parameters
from attnlib import MultiHeadAttention
from attnlib.functional import causal_mask


@pytest.mark.parametrize("name", SIZES)
def test_the_attention_of_a_size_is_that_of_our_class(name):
    size = SIZES[name]
    width = size.width
    with torch.device("meta"):
        layer = MultiHeadAttention(width, width, 1, 0.0, size.num_heads, qkv_bias=True)
    attention = [number for part, number in parameter_parts(size) if part == "attention"]
    assert attention == size.num_layers * [count_parameters(layer)]
    half = cache_bytes(size, torch.float16)
    assert half == 2 * width * size.num_layers * 2
    assert cache_bytes(size, torch.float32) == 2 * half


@pytest.mark.parametrize("name", TEXTS)
def test_the_recorded_weights_follow_from_the_recorded_scores(name):
    text = recorded_attention(name)
    n = len(text.tokens)
    assert text.scores.shape == text.weights.shape == (12, 12, n, n)
    assert "".join(text.tokens) == text.text
    scores = (text.scores.double() / 8).masked_fill(causal_mask(n), -torch.inf)
    assert (scores.softmax(-1) - text.weights).abs().max() < 2e-7
    assert text.weights[4, 11].diagonal(-1).min() > 0.99  # L4H11 attends to the previous token
    text.scores.zero_()
    assert recorded_attention(name).scores.any()  # each call returns a copy


def test_an_unknown_text_is_refused():
    with pytest.raises(ValueError, match="'moon'; stored are spaceship"):
        recorded_attention("moon")
