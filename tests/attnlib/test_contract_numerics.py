"""The contract, items 13 and 14: slopes, dtypes, autocast, the same bits twice."""

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from attnlib import (
    CausalAttention,
    MultiHeadAttentionWrapper,
    causal_mask,
    split_to_torch,
    stacked_to_split,
)
from support.cases import CONTRACT, both_ways, gradients, name, projected, spelled_out, tokens

pytestmark = pytest.mark.parametrize("case", CONTRACT, ids=name)
HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
LONG = 97


def in_torch(module: nn.Module) -> nn.MultiheadAttention:
    module = spelled_out(module)
    if isinstance(module, CausalAttention):
        sizes = (module.d_in, module.d_out, module.context_length, module.dropout.p)
        stacked = MultiHeadAttentionWrapper(*sizes, num_heads=1)
        stacked.heads[0] = module
        module = stacked
    if isinstance(module, MultiHeadAttentionWrapper):
        module = stacked_to_split(module)
    return split_to_torch(module)


# 13: slopes


@pytest.mark.promise(number=13)
@pytest.mark.parametrize("way", [0, 1], ids=["alone", "with weights"])
def test_gradcheck(case, way):
    """In float64, of the result and the weights, in the input and in every parameter."""
    module = case.build(head_dim=2, d_in=3, qkv_bias=True).double()
    names = [key for key, _ in module.named_parameters()]

    def function(x: Tensor, *parameters: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return functional_call(module, dict(zip(names, parameters, strict=True)), (x, bool(way)))

    x = tokens(1, 3, module.d_in, dtype=torch.float64)
    given = [tensor.detach().requires_grad_() for tensor in (x, *module.parameters())]
    assert torch.autograd.gradcheck(function, given)


@pytest.mark.promise(number=24)
@pytest.mark.parametrize("way", [0, 1], ids=["alone", "with weights"])
def test_second_derivatives_are_right_or_refused(case, way):
    """Of a penalty on gradients, against finite differences; the kernel has none, and says so."""
    module = case.build(head_dim=2, d_in=3, qkv_bias=True).double()
    x = tokens(1, 3, module.d_in, dtype=torch.float64).requires_grad_()

    def penalty(x: Tensor) -> Tensor:
        result = both_ways(module, x)[way]
        wanted = (x, *module.parameters())
        found = torch.autograd.grad(result.square().sum(), wanted, create_graph=True)
        return sum(slope.square().sum() for slope in found)

    if case.in_kernel and way == 0:
        with pytest.raises(RuntimeError, match=r"derivative for .* is not implemented"):
            penalty(x).backward()
    else:
        assert torch.autograd.gradcheck(penalty, x)


# 13: half precision


@pytest.mark.promise(number=13)
@HALVES
def test_half_precision_errs_at_most_twice_as_much_as_torchs_module(case, dtype):
    """Each way against the way of PyTorch's module that does the same."""
    module = case.build(d_in=case.width(), context_length=LONG)
    x = tokens(num_tokens=LONG, d_in=case.width())
    expected = module(x)
    theirs, ours, rough = in_torch(module).to(dtype), module.to(dtype), x.to(dtype)
    for return_weights, result in zip((False, True), both_ways(ours, rough), strict=True):
        assert result.dtype == dtype
        need_weights = return_weights or not case.in_kernel
        its_result, _ = theirs(
            *(rough, rough, rough), attn_mask=causal_mask(LONG), need_weights=need_weights
        )
        error, its_error = ((found - expected).abs() for found in (result, its_result))
        assert error.max() > 0
        assert error.max() <= 2 * its_error.max()
        assert error.mean() <= 2 * its_error.mean()


@pytest.mark.promise(number=13)
def test_scores_near_the_end_of_float16_stay_finite(case):
    """The products of queries and keys alone would not fit: the queries are scaled first."""
    module = case.build(head_dim=16)
    x = tokens(d_in=module.d_in)
    scores = projected(module, "W_query", x) @ projected(module, "W_key", x).mT
    x = x * (1.5 * 65504 / scores.abs().max()).sqrt()
    scores = projected(module, "W_query", x) @ projected(module, "W_key", x).mT
    assert 65504 < scores.abs().max() < 4 * 65504  # beyond float16; divided by sqrt(16) within
    module, x = module.half(), x.half()
    for context_vec in both_ways(module, x):
        assert context_vec.isfinite().all()
    attn_weights = module(x, return_weights=True)[1].float()
    torch.testing.assert_close(
        attn_weights.sum(-1), torch.ones_like(attn_weights[..., 0]), rtol=0, atol=0.01
    )


# 13: autocast and dtypes


@pytest.mark.promise(number=13)
@HALVES
def test_autocast(case, dtype):
    """The result is finite and of autocast's dtype; weights and slopes stay float32."""
    module, x = case.build(), case.tokens().requires_grad_()
    with torch.autocast("cpu", dtype=dtype):
        results = both_ways(module, x)
        attn_weights = module(x, return_weights=True)[1]
    assert attn_weights.dtype == dtype
    for result in results:
        assert result.dtype == dtype
        assert result.isfinite().all()
        torch.testing.assert_close(result.float(), module(x), atol=0.05, rtol=0.05)
        module.zero_grad()
        result.float().sum().backward()
        for weight in module.parameters():
            assert weight.dtype == weight.grad.dtype == torch.float32
            assert weight.grad.isfinite().all()


# 14


@pytest.mark.promise(number=14)
def test_two_runs_are_bit_equal(case):
    """Outputs, weights and gradients."""
    module, x = case.build(), case.tokens()
    for first, second in zip(module(x, True), module(x, True), strict=True):
        assert torch.equal(first, second)
    assert torch.equal(module(x), module(x))
    first, second = gradients(module, x), gradients(module, x)
    assert all(torch.equal(first[key], second[key]) for key in first)
