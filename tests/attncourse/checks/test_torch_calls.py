"""The checks around PyTorch's attention: right answers in other words pass, wrong ones are told."""

import pytest
import torch

from attncourse.checks import FusedAttention, check_for_module, check_fused, check_padded, run_calls
from attncourse.checks.torch_calls import alone
from attnlib import MultiHeadAttention, attention, causal_mask, merge_heads, split_heads


class ByHand(MultiHeadAttention):
    """The same in other words: no SDPA, and dropout by its layer."""

    def forward(self, x, memory=None, attn_mask=None, is_causal=False):
        memory = memory if memory is not None else x
        heads = [split_heads(self.W_query(x), self.head_dim)]
        heads += [split_heads(layer(memory), self.head_dim) for layer in (self.W_key, self.W_value)]
        hidden = causal_mask(x.shape[1]) if is_causal else None
        hidden = hidden if attn_mask is None else ~attn_mask
        return self.out_proj(merge_heads(attention(*heads, hidden, self.dropout)[0]))


def test_a_class_in_other_words_is_right():
    verdict = check_fused(ByHand)
    assert str(verdict).startswith("Right: one text or two")
    assert verdict.answer_or_reference() is ByHand


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda output, x: 2 * output, "Right shape, wrong numbers: "),
        (lambda output, x: x, "The shape is (2, 4, 7), not (2, 4, 6): one row for each token"),
        (lambda output, x: None, "forward returns None: is the return missing?"),
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
    assert told == "It is torch.bool, (3, 1, 8, 8); it must be torch.bool, (2, 1, 7, 7)."


@pytest.mark.parametrize("shown", [torch.arange(8) > 1, torch.ones(8) > 0])
def test_a_padding_mask_that_is_not_causal_is_told(shown):
    told = str(check_padded(lambda is_padding: shown.expand(3, 1, 8, 8)))
    assert told in (
        "In text 0 query 0 sees token 2: that is its future.",
        "In text 0 query 0 sees token 1: that is its future.",
    )


@pytest.mark.parametrize("seen", [torch.ones(8, 8) > 0, ~causal_mask(8)], ids=["all", "the past"])
def test_what_padding_sees_is_free(seen):
    def padded_mask(is_padding):
        n = is_padding.shape[1]
        may_attend = ~causal_mask(n) & ~is_padding[:, None]
        return (may_attend | (is_padding[:, :, None] & seen[:n, :n]))[:, None]

    assert str(check_padded(padded_mask)).startswith("Right: no row is empty")


def test_the_right_number_of_wrong_keys_is_told():
    def padded_mask(is_padding):
        mask = padded(is_padding)
        mask[1, 0, 7, 2], mask[1, 0, 7, 0] = False, True  # padding for a word
        return mask

    told = "The right number of keys, but not the right ones: a word's output moved."
    assert str(check_padded(padded_mask)) == told


def test_a_mask_for_the_module_by_repeating_is_right():
    def by_repeating(may_attend, shape):
        b, num_heads, n, m = shape
        each = may_attend.expand(b, 1, n, m)[:, 0]
        return ~each.repeat_interleave(num_heads, dim=0)

    assert str(check_for_module(by_repeating)).startswith("Right: three shapes of mask")


def test_the_reference_hides_nothing_and_is_attention():
    """In float64, with its gradients: no mask on one side, PyTorch's own class on the other."""
    torch.manual_seed(1)
    module = MultiHeadAttention(3, 10, 7, 0.0, num_heads=5, qkv_bias=True).double()
    x = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    seen = ~causal_mask(7).expand(2, 7, 7)
    ours, theirs = alone(module, x, x, seen), module(x)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    (mine,), (right,) = (torch.autograd.grad(out.square().sum(), x) for out in (ours, theirs))
    torch.testing.assert_close(mine, right, rtol=0, atol=1e-11)


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


def test_a_mask_that_is_taken_for_heads_is_found():
    """With two texts and two heads nothing stops; the mask of a text must still be its own."""

    class TakesTextsForHeads(FusedAttention):
        def forward(self, x, memory=None, attn_mask=None, **mask):
            if attn_mask is not None and attn_mask.ndim == 4 and len(x) == self.num_heads:
                attn_mask = attn_mask[:, 0]
            return super().forward(x, memory, attn_mask=attn_mask, **mask)

    (found,) = run_calls(["mine(x, attn_mask=may_attend)"], TakesTextsForHeads).values()
    assert found[0] < found[1]


def test_the_checks_leave_the_readers_random_numbers_alone():
    before = torch.get_rng_state()
    check_fused(FusedAttention)
    check_padded(padded)
    run_calls(["mine(x)"], FusedAttention)
    assert torch.equal(torch.get_rng_state(), before)
