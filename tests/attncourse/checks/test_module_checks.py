"""The checks of whole modules: causality, rows, shapes, sameness."""

from functools import partial

import pytest
import torch
from torch import nn

from attncourse.checks.module_checks import (
    check_causal,
    check_rows_sum_to_one,
    check_same,
    check_shapes,
)
from attnlib import CausalAttention, MultiHeadAttention
from support.cases import CONTEXT_LENGTH, D_IN, HEAD_DIM, LESSON, H, T, name

each_case = pytest.mark.parametrize("case", LESSON, ids=name)
CHECKS = (check_causal, check_rows_sum_to_one, check_shapes)


class Wrong(CausalAttention):
    """A CausalAttention whose result is changed by a function."""

    def __init__(self, change) -> None:
        super().__init__(D_IN, HEAD_DIM, CONTEXT_LENGTH, dropout=0.0)
        self.change = change

    def forward(self, x):
        return self.change(super().forward(x))


# All of them


@each_case
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("qkv_bias", [False, True])
def test_our_classes_pass(case, dtype, qkv_bias):
    module = case.build(dropout=0.5, qkv_bias=qkv_bias).to(dtype)
    for check in CHECKS:
        assert check(module)
    assert check_same(module, case.build(seed=9, dropout=0.5, qkv_bias=qkv_bias).to(dtype))


@each_case
def test_nothing_is_changed_and_no_global_randomness_used(case):
    module = case.build(dropout=0.5)
    module.get_submodule("heads.0" if hasattr(module, "heads") else "").eval()
    modes = [part.training for part in module.modules()]
    state = {key: value.clone() for key, value in module.state_dict().items()}
    before = torch.get_rng_state()
    for check in CHECKS:
        check(module)
    check_same(module, module)
    assert torch.equal(torch.get_rng_state(), before)
    assert [part.training for part in module.modules()] == modes
    assert all(torch.equal(state[key], value) for key, value in module.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in module.parameters())


@pytest.mark.parametrize("check", [*CHECKS, partial(check_same, LESSON[0].build())])
def test_a_module_that_fails_gets_a_sentence(check):
    sentence = check(Wrong(lambda out: out.view(-1, 4))).sentence
    assert sentence.startswith("Stopped in ")
    assert "RuntimeError: shape '[-1, 4]' is invalid for input of size" in sentence


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("change", [torch.Tensor.mT.__get__, lambda out: out.sum(dim=2)])
def test_a_result_that_is_not_token_by_token_gets_a_sentence(check, change):
    sentence = check(Wrong(change)).sentence
    assert "gives" in sentence
    assert sentence.endswith(": (b, num_tokens) must come first, as in x.")


# The tokens


def test_a_module_that_does_not_show_its_width_needs_x():
    with pytest.raises(ValueError, match=r"no d_in and no nn\.Linear to tell its width: give x"):
        check_causal(nn.Identity())


# check_causal


def test_nan_is_not_causal_and_chance_is_no_leak():
    def spoil(out):
        out = out.clone()
        out[:, 3, 1] = torch.nan
        return out

    verdict = check_causal(Wrong(spoil))
    assert (verdict.holds, verdict.sentence) == (False, "An output is NaN.")
    # Every run draws the same random numbers, so chance is not taken for a leak
    assert check_causal(Wrong(lambda out: nn.functional.dropout(out, 0.5)))


# check_rows_sum_to_one


def test_the_row_that_is_off_furthest_is_named():
    def grow(out):
        return out * torch.linspace(1.0, 1.5, T)[:, None]

    verdict = check_rows_sum_to_one(Wrong(grow))
    assert verdict.sentence == "The attention weights of token 6 sum to 1.5, not 1."
    second_only = torch.tensor([1.0, 0.25])[:, None, None]  # of the batch
    verdict = check_rows_sum_to_one(Wrong(lambda out: out * second_only))
    assert verdict.sentence == "The attention weights of token 0 sum to 0.25, not 1."
    assert not check_rows_sum_to_one(Wrong(lambda out: out * torch.nan))
    assert check_rows_sum_to_one(Wrong(lambda out: out * (1 + 1e-6)))


def test_no_values_no_rows():
    with pytest.raises(ValueError, match=r"module has no W_value\.weight"):
        check_rows_sum_to_one(nn.Linear(3, 3))


# check_shapes


def test_a_batch_of_one_is_tried():
    verdict = check_shapes(Wrong(lambda out: out.squeeze(0)))
    assert not verdict
    assert verdict.sentence.startswith("(1, 1, ")


def test_a_width_that_changes_is_seen():
    verdict = check_shapes(Wrong(lambda out: out[..., : out.shape[1]]))
    sentence = "The width changes with b or num_tokens: [1, 4, 5]."
    assert (verdict.holds, verdict.sentence) == (False, sentence)


# check_same


@pytest.mark.parametrize("qkv_bias", [False, True])
def test_stacked_heads_and_weight_split_are_the_same_in_both_orders(qkv_bias):
    stacked, split = (case.build(qkv_bias=qkv_bias) for case in LESSON[1:])
    for pair in ((stacked, split), (split, stacked)):
        assert check_same(*pair).sentence == (
            "Same within 1e-05, with the same parameters: outputs and gradients."
        )


def test_what_differs_is_named():
    module = LESSON[0].build()
    sentence = check_same(module, Wrong(lambda out: out + 0.5)).sentence
    assert sentence == "Not the same: the outputs differ by up to 0.5."
    narrow = Wrong(lambda out: out[..., :2])
    start = "Not the same: the shapes of the outputs differ, "
    assert check_same(module, narrow).sentence == f"{start}(2, 7, 5) and (2, 7, 2)."
    assert check_same(narrow, module).sentence == f"{start}(2, 7, 2) and (2, 7, 5)."

    class Cut(CausalAttention):
        def forward(self, x, return_weights=False):
            return super().forward(x.detach(), return_weights)

    class Stuck(CausalAttention):
        def forward(self, x, return_weights=False):
            weights = super().forward(x, return_weights=True)[1]
            out = weights @ nn.functional.linear(x, self.W_value.weight.detach())
            return (out, weights) if return_weights else out

    for cls, what in ((Cut, "gradients"), (Stuck, "gradients")):
        other = cls(D_IN, HEAD_DIM, CONTEXT_LENGTH, dropout=0.0)
        start = f"Not the same: the {what} differ by up to "
        assert check_same(module, other).sentence.startswith(start)


def test_weights_that_do_not_fit_are_named():
    head, stacked, split = (case.build() for case in LESSON)
    wide = MultiHeadAttention(D_IN, 30, CONTEXT_LENGTH, 0.0, H)
    biased = LESSON[0].build(qkv_bias=True)
    for one, other, said in (
        (head, split, "weight is (15, 11) in one module, (5, 11) in the other."),
        (stacked, wide, "weight is (30, 11) in one module, (15, 11) in the other."),
        (biased, head, "bias is missing in one module, (5,) in the other."),
        (head, biased, "bias is (5,) in one module, missing in the other."),
    ):
        assert not check_same(one, other)
        assert check_same(one, other).sentence == f"Not to be compared: W_query.{said}"
