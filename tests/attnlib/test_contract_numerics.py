"""The contract, items 13 to 15: slopes, dtypes, autocast, the same bits twice, dropout."""

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
from support.cases import (
    CONTRACT,
    HEAD_DIM,
    both_ways,
    by_head,
    gradients,
    name,
    projected,
    spelled_out,
    tokens,
)

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


# 15: dropout


@pytest.mark.promise(number=15)
def test_dropout_does_nothing_in_eval(case):
    """The same as without dropout, twice."""
    with_dropout, without = case.build(dropout=0.5).eval(), case.build(dropout=0.0)
    runs = (both_ways(module, case.tokens()) for module in (with_dropout, with_dropout, without))
    for first, again, clean in zip(*runs, strict=True):
        assert torch.equal(first, again)
        assert torch.equal(first, clean)


@pytest.mark.promise(number=15)
def test_dropout_in_training_follows_the_seed(case):
    """Differs from eval, same seed same result, another seed another result."""
    module, x = case.build(dropout=0.5), case.tokens()
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append(both_ways(module, x))
    for first, same, other, clean in zip(*results, both_ways(module.eval(), x), strict=True):
        assert torch.equal(first, same)
        assert not torch.equal(first, other)
        assert not torch.equal(first, clean)


@pytest.mark.promise(number=15)
@pytest.mark.parametrize("p", [0.1, 0.25, 0.5])
def test_dropout_takes_its_share_of_the_weights(case, p):
    """Within 0.01 of p; the others are scaled by 1 / (1 - p); the result uses them."""
    length = 97
    module, x = case.build(dropout=p, context_length=length), case.tokens(b=11, num_tokens=length)
    torch.manual_seed(5)
    context_vec, dropped = module(x, return_weights=True)
    _, whole = module.eval()(x, return_weights=True)
    past = torch.ones(length, length, dtype=torch.bool).tril()
    is_zero = dropped[..., past] == 0
    assert abs(is_zero.float().mean() - p) < 0.01
    survivors = ~is_zero
    expected = whole[..., past][survivors] / (1 - p)
    torch.testing.assert_close(dropped[..., past][survivors], expected)
    values = projected(module, "W_value", x)
    remade = (by_head(dropped) @ values).transpose(1, 2).flatten(2)
    if hasattr(module, "out_proj"):
        remade = module.out_proj(remade)
    torch.testing.assert_close(context_vec, remade)


@pytest.mark.promise(number=15)
def test_dropout_takes_its_share_where_the_weights_are_not_asked_for(case):
    """One token has one weight, 1, per head: training makes it 0 or 1 / (1 - p)."""
    p, b = 0.25, 40_000
    module, x = case.build(dropout=p), case.tokens(b, 1)
    if hasattr(module, "out_proj"):
        nn.init.eye_(module.out_proj.weight)
        nn.init.zeros_(module.out_proj.bias)
    values = projected(module, "W_value", x).transpose(1, 2)  # (b, 1, num_heads, head_dim)
    torch.manual_seed(5)
    context_vec = module(x).unflatten(-1, (-1, HEAD_DIM))  # (b, 1, num_heads, head_dim)
    is_kept = context_vec[..., :1] != 0
    torch.testing.assert_close(context_vec, values * is_kept / (1 - p))
    assert abs((~is_kept).float().mean() - p) < 0.01


@pytest.mark.promise(number=15)
def test_dropping_nothing_and_dropping_all(case):
    """With p = 0 nothing changes, with p = 1 no weight is left, and no NaN is made."""
    x = case.tokens()
    module = case.build(dropout=0.0)
    assert torch.equal(module.train()(x), module.eval()(x))
    module = case.build(dropout=1.0).train()
    nothing = module.out_proj.bias if hasattr(module, "out_proj") else torch.zeros(1)
    for context_vec in both_ways(module, x):
        assert (context_vec == nothing).all()
    assert (module(x, return_weights=True)[1] == 0).all()
