"""The contract, item 15: dropout."""

import pytest
import torch
from torch import nn

from support.cases import CONTRACT, HEAD_DIM, both_ways, by_head, name, projected

pytestmark = pytest.mark.parametrize("case", CONTRACT, ids=name)


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
