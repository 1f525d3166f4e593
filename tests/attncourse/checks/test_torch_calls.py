"""The checks around PyTorch's attention: right answers in other words pass, wrong ones are told."""

# ruff: noqa: E501  # tables: one case on a line

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attncourse.checks import check_both_masks, check_cross_attention, check_padded
from attnlib import attention, causal_mask, merge_heads, split_heads


@pytest.mark.parametrize(
    ("both_masks", "sentence"),
    [
        (
            lambda n: (nn.Transformer.generate_square_subsequent_mask(n),) * 2,
            "Right, for both: a mask of numbers is added to the scores, and means one thing.",
        ),
        (lambda n: [nn.Transformer.generate_square_subsequent_mask(n), ~causal_mask(n)], "Right: the module's True hides, SDPA's True shows."),
        (lambda n: (causal_mask(n), ~causal_mask(n).T), "With SDPA's mask tokens look ahead: rows are queries, columns are keys."),
        (
            lambda n: (causal_mask(n), torch.ones(n, n).bool()),
            "With SDPA's mask nothing is hidden. Numbers are added to the scores: 0 shows, "
            "-inf hides.",
        ),
        (lambda n: (causal_mask(7), ~causal_mask(7)), "The shape of the module's mask is (7, 7), not (5, 5)."),
        (lambda n: (causal_mask(n), ~causal_mask(n) & (torch.arange(n) != 1)), "With SDPA's mask token 1 must see [0, 1], not [0]."),
    ],
)  # fmt: skip
def test_both_masks(both_masks, sentence):
    assert str(check_both_masks(both_masks)) == sentence


def by_sdpa(module, x, memory):
    heads = [split_heads(module.W_query(x), module.num_heads)]
    heads += [split_heads(W(memory), module.num_heads) for W in (module.W_key, module.W_value)]
    return module.out_proj(merge_heads(F.scaled_dot_product_attention(*heads)))


def test_cross_attention_in_other_words_is_right():
    assert str(check_cross_attention(by_sdpa)).startswith("Right: for 4 tokens that look at 4")


def test_one_wide_head_is_told():
    def cross_attention(module, x, memory):
        layers = (module.W_query(x), module.W_key(memory), module.W_value(memory))
        return module.out_proj(F.scaled_dot_product_attention(*layers))

    sentence = "There is one wide head: split queries, keys and values into heads."
    assert str(check_cross_attention(cross_attention)) == sentence


@pytest.mark.parametrize(
    ("cross_attention", "sentence"),
    [
        (lambda module, x, memory: by_sdpa(module, x, memory) * 2, "Right shape, wrong numbers: "),
        (lambda module, x, memory: x, "The shape is (2, 4, 7), not (2, 4, 6): "),
    ],
)
def test_what_is_no_usual_mistake_is_told_too(cross_attention, sentence):
    assert str(check_cross_attention(cross_attention)).startswith(sentence)


def test_lengths_that_are_taken_for_equal_stop_with_their_line():
    def cross_attention(module, x, memory):
        b, num_tokens, _ = x.shape
        keys = module.W_key(memory).view(b, num_tokens, module.num_heads, -1)
        values = module.W_value(memory).view(b, num_tokens, module.num_heads, -1)
        heads = split_heads(module.W_query(x), module.num_heads), keys.mT, values
        return by_sdpa(module, x, memory) + 0 * sum(head.sum() for head in heads)

    assert "Stopped in cross_attention, line 3" in str(check_cross_attention(cross_attention))


def test_the_pair_that_attention_returns_is_told():
    told = str(check_cross_attention(lambda module, x, memory: (x, memory)))
    assert told == "It returns a tuple. attention returns two things: go on with the first."


def test_a_mask_for_one_batch_is_not_enough():
    is_padding = torch.arange(8) < torch.tensor([[0], [2], [5]])
    right = (causal_mask(8) | is_padding[:, None]) & ~torch.eye(8, dtype=torch.bool)
    told = str(check_padded(lambda is_padding: right))
    assert told == "It is torch.bool, (3, 8, 8); it must be torch.bool, (2, 7, 7)."


@pytest.mark.parametrize("hidden", [torch.arange(8) < 2, torch.zeros(8) > 0])
def test_a_padding_mask_that_is_not_causal_is_told(hidden):
    told = str(check_padded(lambda is_padding: hidden.expand(3, 8, 8)))
    assert told in (
        "In text 0 query 0 sees token 2: that is its future.",
        "In text 0 query 0 sees token 1: that is its future.",
    )


def test_the_right_number_of_wrong_keys_is_told():
    def padded_mask(is_padding):
        hidden = causal_mask(8) | is_padding[:, None]
        hidden[1, 7, 2], hidden[1, 7, 0] = True, False  # padding for a word
        return hidden & ~torch.eye(8, dtype=torch.bool)

    assert str(check_padded(padded_mask)) == (
        "The right number of keys, but not the right ones: a word's output moved."
    )


def test_the_checks_leave_the_readers_random_numbers_alone():
    torch.manual_seed(4)
    before = torch.get_rng_state()
    check_both_masks(lambda n: (causal_mask(n), ~causal_mask(n)))
    check_cross_attention(by_sdpa)
    check_padded(lambda is_padding: causal_mask(8) | is_padding[:, None])
    assert torch.equal(torch.get_rng_state(), before)


def hides_key_0(num_tokens):
    is_hidden = torch.zeros(num_tokens, num_tokens, dtype=torch.bool)
    is_hidden[1:, 0] = True  # token 0 still sees itself
    return is_hidden


@pytest.mark.parametrize("shape", [(2, 3, 7, 5), (3, 7, 5)])
def test_a_mask_and_is_causal_are_refused_together_or_both_applied(shape):
    """Which of the two depends on the kernel in PyTorch 2.13; 2.14 refuses."""
    x, is_hidden = torch.randn(shape), hides_key_0(7)
    refused = ""
    try:
        both = F.scaled_dot_product_attention(x, x, x, attn_mask=~is_hidden, is_causal=True)
    except RuntimeError as error:
        refused = str(error)
    if refused:
        assert "attn_mask should not be set when is_causal=True" in refused
    else:
        torch.testing.assert_close(both, attention(x, x, x, is_hidden | causal_mask(7))[0])


@pytest.mark.parametrize("need_weights", [True, False])
def test_the_hint_replaces_the_mask_where_no_weights_are_asked_for(need_weights):
    module, x = nn.MultiheadAttention(6, 3, bias=False, batch_first=True), torch.randn(2, 7, 6)
    open_mask = torch.zeros(7, 7, dtype=torch.bool)
    hinted, _ = module(x, x, x, attn_mask=open_mask, is_causal=True, need_weights=need_weights)
    taken = open_mask if need_weights else causal_mask(7)
    torch.testing.assert_close(hinted, module(x, x, x, attn_mask=taken)[0])


def test_a_row_without_keys_has_nan_gradients_though_no_loss_reads_it():
    module, x = nn.MultiheadAttention(6, 3, bias=False, batch_first=True), torch.randn(1, 7, 6)
    is_padding = torch.arange(7)[None] < 2
    for need_weights in (True, False):
        module.zero_grad()
        result, _ = module(
            x,
            x,
            x,
            attn_mask=causal_mask(7),
            key_padding_mask=is_padding,
            need_weights=need_weights,
        )
        result[~is_padding].sum().backward()
        assert bool(module.in_proj_weight.grad.isnan().all()) == need_weights
