"""The checks around PyTorch's attention: right answers in other words pass, wrong ones are told."""

import pytest
import torch

from attncourse.checks import FusedAttention, check_for_module, check_fused, check_padded, run_calls
from attncourse.checks.tiles import attend_in_tiles
from attnlib import MultiHeadAttention, attention, causal_mask, merge_heads, split_heads


class ByHand(MultiHeadAttention):
    """The same in other words: no SDPA, and dropout by its layer."""

    def forward(self, x, memory=None, attn_mask=None, is_causal=False):
        memory = memory if memory is not None else x
        heads = [split_heads(self.W_query(x), self.head_dim)]
        heads += [split_heads(layer(memory), self.head_dim) for layer in (self.W_key, self.W_value)]
        is_masked = causal_mask(x.shape[1]) if is_causal else None
        is_masked = is_masked if attn_mask is None else ~attn_mask
        return self.out_proj(merge_heads(attention(*heads, is_masked, self.dropout)[0]))


def test_a_class_in_other_words_is_right():
    verdict = check_fused(ByHand)
    assert str(verdict).startswith("Right: one text or two")
    assert verdict.answer_or_reference() is ByHand


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda output, x: 2 * output, "Entry ["),
        (lambda output, x: x, "The shape is (5, 8, 11), and it must be (5, 8, 21)."),
        (lambda output, x: None, "It returns a NoneType, and it must return a tensor."),
    ],
)
def test_what_is_no_usual_mistake_is_told_too(change, sentence):
    class Odd(ByHand):
        def forward(self, x, *others, **mask):
            return change(super().forward(x, *others, **mask), x)

    verdict = check_fused(Odd)
    assert str(verdict).startswith(sentence)
    assert verdict.answer_or_reference() is FusedAttention


def test_lengths_that_are_taken_for_equal_stop_with_their_line():
    class Equal(ByHand):
        def forward(self, x, memory=None, **mask):
            memory = x if memory is None else memory
            memory.view(x.shape)
            return super().forward(x, memory, **mask)

    assert "Stopped in Equal.forward, line 3: memory.view(x.shape)" in str(check_fused(Equal))


def padded(is_padding):
    may_attend = ~causal_mask(is_padding.shape[1]) & ~is_padding[:, None]
    return (may_attend | torch.eye(is_padding.shape[1], dtype=torch.bool))[:, None]


def test_a_mask_for_one_batch_is_not_enough():
    is_padding = torch.arange(8) < torch.tensor([[0], [2], [5]])
    told = str(check_padded(lambda _: padded(is_padding)))
    assert told == "It is torch.bool, (3, 1, 8, 8); it must be torch.bool, (4, 1, 7, 7)."


@pytest.mark.parametrize("seen", [torch.ones(8, 8) > 0, ~causal_mask(8)], ids=["all", "the past"])
def test_what_padding_sees_is_free(seen):
    def padded_mask(is_padding):
        n = is_padding.shape[1]
        may_attend = ~causal_mask(n) & ~is_padding[:, None]
        return (may_attend | (is_padding[:, :, None] & seen[:n, :n]))[:, None]

    assert str(check_padded(padded_mask)).startswith("Right: no row is empty")


def test_a_wrong_row_of_a_mask_is_told():
    def padded_mask(is_padding):
        mask = padded(is_padding)
        mask[1, 0, 6, 5], mask[1, 0, 6, 0] = False, True
        return mask

    said = "Row [1, 0, 6] is True for keys [0, 2, 3, 4, 6], and it must be for [2, 3, 4, "
    assert str(check_padded(padded_mask)).startswith(said)


def test_a_mask_for_the_module_by_repeating_is_right():
    def by_repeating(may_attend, shape):
        b, num_heads, n, m = shape
        each = may_attend.expand(b, 1, n, m)[:, 0]
        return ~each.repeat_interleave(num_heads, dim=0)

    assert str(check_for_module(by_repeating)).startswith("Right: three shapes of mask")


@pytest.mark.parametrize(
    ("call", "right"),
    [
        ("mine(x)", (0, 2)),
        ("mine(x, attn_mask=~may_attend)", (0, 10)),
        ("mine(x, attn_mask=may_attend.expand(shape)[:, 0][:, None])", (10, 10)),
        ("mine(new, text)", (2, 4)),
    ],
)
def test_a_call_is_right_on_as_many_inputs(call, right):
    """Lesson 05 shows those that are right on all."""
    assert run_calls([call], FusedAttention) == {call: right}


@pytest.mark.parametrize("tile_size", [1, 2, 7])
def test_the_right_result_in_tiles_is_that_of_attention(tile_size):
    queries, keys = torch.randn(2, 7, 5, dtype=torch.float64)
    values = torch.randn(7, 3, dtype=torch.float64)
    right = attention(queries, keys, values, causal_mask(7))[0]
    torch.testing.assert_close(attend_in_tiles(queries, keys, values, tile_size), right)
