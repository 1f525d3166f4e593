"""The checks around PyTorch's attention: right answers in other words pass, wrong ones are told."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from attnlib import causal_mask, merge_heads, split_heads
from attnlib.checks import (
    check_both_masks,
    check_cross_attention,
    check_new_queries,
    check_padded,
)


@pytest.mark.parametrize(
    ("both_masks", "sentence"),
    [
        (
            lambda n: (nn.Transformer.generate_square_subsequent_mask(n),) * 2,
            "Right, for both: a mask of numbers is added to the scores, and means one thing.",
        ),
        (
            lambda n: [nn.Transformer.generate_square_subsequent_mask(n), ~causal_mask(n)],
            "Right: the module's True hides, SDPA's True shows.",
        ),
        (
            lambda n: (causal_mask(n), ~causal_mask(n).T),
            "With SDPA's mask tokens look ahead: rows are queries, columns are keys.",
        ),
        (
            lambda n: (causal_mask(n), torch.ones(n, n).bool()),
            "SDPA's mask hides nothing.",
        ),
        (
            lambda n: (causal_mask(7), ~causal_mask(7)),
            "The module's mask is (7, 7), not (5, 5).",
        ),
        (
            lambda n: (causal_mask(n), ~causal_mask(n) & (torch.arange(n) != 1)),
            "With SDPA's mask token 1 sees [0], not [0, 1].",
        ),
    ],
)
def test_both_masks(both_masks, sentence):
    assert check_both_masks(both_masks) == sentence


def by_sdpa(module, x, memory):
    heads = [split_heads(module.W_query(x), module.num_heads)]
    heads += [split_heads(W(memory), module.num_heads) for W in (module.W_key, module.W_value)]
    return module.out_proj(merge_heads(F.scaled_dot_product_attention(*heads)))


def test_cross_attention_in_other_words_is_right():
    assert check_cross_attention(by_sdpa).startswith("Right: for 4 tokens that look at 4")


def test_one_wide_head_is_told():
    def cross_attention(module, x, memory):
        layers = (module.W_query(x), module.W_key(memory), module.W_value(memory))
        return module.out_proj(F.scaled_dot_product_attention(*layers))

    sentence = "There is one wide head: split queries, keys and values into heads."
    assert check_cross_attention(cross_attention) == sentence


@pytest.mark.parametrize(
    ("cross_attention", "sentence"),
    [
        (lambda module, x, memory: by_sdpa(module, x, memory) * 2, "Right shape, wrong numbers: "),
        (lambda module, x, memory: x, "The shape is (2, 4, 7), not (2, 4, 6): "),
    ],
)
def test_what_is_no_usual_mistake_is_told_too(cross_attention, sentence):
    assert check_cross_attention(cross_attention).startswith(sentence)


def test_lengths_that_are_taken_for_equal_stop_with_their_line():
    def cross_attention(module, x, memory):
        b, num_tokens, _ = x.shape
        keys = module.W_key(memory).view(b, num_tokens, module.num_heads, -1)
        values = module.W_value(memory).view(b, num_tokens, module.num_heads, -1)
        heads = split_heads(module.W_query(x), module.num_heads), keys.mT, values
        return by_sdpa(module, x, memory) + 0 * sum(head.sum() for head in heads)

    assert "Stopped in cross_attention, line 3" in check_cross_attention(cross_attention)


@pytest.mark.parametrize("width", [1, 3])
def test_new_queries_without_tril(width):
    def new_queries_mask(num_new, num_keys):
        queries = torch.arange(num_keys - num_new, num_keys)
        return torch.arange(num_keys) <= queries[:, None]

    assert check_new_queries(new_queries_mask).startswith("Right: for 3 new tokens of 7")
    none = check_new_queries(lambda num_new, num_keys: torch.ones(width, num_keys).bool())
    assert "Right" not in none


def test_the_mask_that_pytorch_makes_for_new_queries_is_right():
    assert check_new_queries(causal_lower_right).startswith("Right: for 3 new tokens of 7")
    assert "this is the upper left" in check_new_queries(causal_upper_left)


def test_the_pair_that_attention_returns_is_told():
    told = check_cross_attention(lambda module, x, memory: (x, memory))
    assert told == "It returns a tuple. attention returns two things: go on with the first."


def test_a_mask_for_one_length_is_not_enough():
    right = (causal_mask(8) | (torch.arange(8) < 2)) & ~torch.eye(8, dtype=torch.bool)
    told = check_padded(lambda is_padding: right)
    assert told == "It is torch.bool, (8, 8); it must be torch.bool, (7, 7)."


@pytest.mark.parametrize("hidden", [lambda n: torch.arange(n) < 2, lambda n: torch.zeros(n) > 0])
def test_a_padding_mask_that_is_not_causal_is_told(hidden):
    told = check_padded(lambda is_padding: hidden(len(is_padding)).expand(8, 8))
    assert told in (
        "Query 0 sees token 2: that is its future.",
        "Query 0 sees token 1: that is its future.",
    )


def test_the_right_number_of_wrong_keys_is_told():
    def padded_mask(is_padding):
        hidden = causal_mask(8) | is_padding
        hidden[7, 2], hidden[7, 0] = True, False  # padding for a word
        return hidden & ~torch.eye(8, dtype=torch.bool)

    assert check_padded(padded_mask) == (
        "The right number of keys, but not the right ones: a word's output moved."
    )


def test_the_checks_leave_the_readers_random_numbers_alone():
    torch.manual_seed(4)
    before = torch.get_rng_state()
    check_both_masks(lambda n: (causal_mask(n), ~causal_mask(n)))
    check_cross_attention(by_sdpa)
    check_padded(lambda is_padding: causal_mask(8) | is_padding)
    assert torch.equal(torch.get_rng_state(), before)
