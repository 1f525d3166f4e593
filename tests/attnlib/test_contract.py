"""The contract, items 1 to 12: what every attention class computes, and what comes in.

docs/contract.md lists all items; 2 and 3 are in test_properties. A class joins by one line in
cases.py.
"""

import copy
import random

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import attnlib
from support import reference
from support.cases import (
    CASES,
    CONTRACT,
    HEAD_DIM,
    B,
    CausalMultiheadAttention,
    H,
    T,
    both_ways,
    by_head,
    name,
    projected,
    spelled_out,
    tokens,
)

ALL = pytest.mark.parametrize("case", CONTRACT, ids=name)


def test_no_class_of_the_package_is_left_out():
    """PyTorch's module, which takes other arguments, is there by an adapter."""
    named = {getattr(attnlib, name) for name in attnlib.__all__ if "Attention" in name}
    assert named == {case.cls for case in CASES}
    assert CausalMultiheadAttention in {case.cls for case in CONTRACT}


# 1: an independent reference; in it each text, head and token goes by itself: 5, 6


def by_reference(module: nn.Module, x: Tensor) -> Tensor:
    split = spelled_out(module)
    items = [reference.forward(split, item) for item in x.tolist()]
    made = (torch.tensor(part, dtype=torch.float64) for part in zip(*items, strict=True))
    return torch.cat([part.flatten() for part in made])


@pytest.mark.promise(number=1)
@pytest.mark.promise(number=5)
@pytest.mark.promise(number=6)
@ALL
@pytest.mark.parametrize("seed", range(17))  # 102 over the six cases
def test_equals_a_reference_in_plain_python(case, seed):
    """Outputs, weights and gradients, in float64 and float32, at random sizes.

    All gradients together say how fast the reference changes in a random direction.
    """
    draw = random.Random(seed)
    num_tokens = draw.randint(1, 5)
    module = case.build(
        seed,
        num_heads=draw.randint(1, 3),
        head_dim=draw.randint(1, 4),
        d_in=draw.randint(1, 5),
        context_length=num_tokens + draw.randint(0, 3),
        qkv_bias=draw.random() < 0.5,
    ).double()
    x = tokens(draw.randint(1, 2), num_tokens, module.d_in, seed=seed, dtype=torch.float64)
    values = by_reference(module, x)
    pull = torch.randn_like(values)
    direction = [torch.randn_like(tensor) for tensor in (x, *module.parameters())]
    ends, moved = [], copy.deepcopy(module)
    for step, to_there in ((-1e-5, -1e-5), (1e-5, 2e-5)):
        for weight, along in zip(moved.parameters(), direction[1:], strict=True):
            weight.data += to_there * along
        ends.append(by_reference(moved, x + step * direction[0]))
    slope = (pull * (ends[1] - ends[0])).sum() / 2e-5

    for dtype, of_values, of_slope in ((torch.float64, 1e-12, 1e-6), (torch.float32, 1e-5, 1e-4)):
        module, x = module.to(dtype), x.detach().to(dtype).requires_grad_()
        for context_vec in both_ways(module, x):  # the weights not asked for, or asked for
            attn_weights = by_head(module(x, return_weights=True)[1])
            outputs = torch.cat([context_vec.flatten(), attn_weights.flatten()])
            assert (outputs - values).abs().max() < of_values
            gradients = torch.autograd.grad((outputs * pull).sum(), (x, *module.parameters()))
            products = zip(gradients, direction, strict=True)
            found = sum((gradient * along).sum() for gradient, along in products)
            assert abs(found - slope) < of_slope


# 7: the order of tokens


@pytest.mark.promise(number=7)
@ALL
def test_the_order_of_what_a_token_sees_is_free(case):
    """The mask hides nothing from the last token: whatever comes before it may be permuted."""
    module, x = case.build(), case.tokens()
    order = torch.tensor([4, 5, 1, 0, 3, 2])
    for t in range(2, T):
        earlier = order[order < t]
        permuted = torch.cat([x[:, earlier], x[:, t:]], dim=1)
        assert not torch.equal(permuted, x)
        for moved, context_vec in zip(*(both_ways(module, y) for y in (permuted, x)), strict=True):
            torch.testing.assert_close(moved[:, t:], context_vec[:, t:])


# 9: sizes and strides


@pytest.mark.promise(number=9)
@ALL
@pytest.mark.parametrize(("b", "num_tokens"), [(0, T), (B, 0), (0, 0)])
@pytest.mark.parametrize("way", [0, 1], ids=["alone", "with weights"])
def test_nothing_in_gives_nothing_out(case, b, num_tokens, way):
    """An empty batch, or no tokens: the right empty shape, and backward works."""
    module, x = case.build(), case.tokens(b, num_tokens).requires_grad_()
    attn_weights = by_head(module(x, return_weights=True)[1])
    assert attn_weights.shape == (b, H if case.has_heads else 1, num_tokens, num_tokens)
    context_vec = both_ways(module, x)[way]
    assert context_vec.shape == (b, num_tokens, case.width())
    context_vec.sum().backward()
    assert x.grad.shape == x.shape
    projections = [w for key, w in module.named_parameters() if "out_proj" not in key]
    assert all((weight.grad == 0).all() for weight in projections)


@pytest.mark.promise(number=9)
@ALL
@pytest.mark.parametrize("num_tokens", [59, 97, 111])
def test_odd_sizes(case, num_tokens):
    """Sizes that no kernel likes, against torch's own attention; the input's slope too."""
    sizes = {"d_in": 59, "context_length": 111, "num_heads": 3, "head_dim": 37}
    module = case.build(**sizes)
    x = tokens(B, num_tokens, module.d_in).requires_grad_()
    parts = (projected(module, which, x) for which in ("W_query", "W_key", "W_value"))
    expected = F.scaled_dot_product_attention(*parts, is_causal=True)
    expected = expected.transpose(1, 2).flatten(2)
    if hasattr(module, "out_proj"):
        expected = module.out_proj(expected)
    (slope,) = torch.autograd.grad(expected.square().sum(), x)
    for context_vec in both_ways(module, x):
        torch.testing.assert_close(context_vec, expected)
        (found,) = torch.autograd.grad(context_vec.square().sum(), x)
        torch.testing.assert_close(found, slope, rtol=1e-4, atol=1e-5)


# 11: the input stays as it is


@pytest.mark.promise(number=11)
@ALL
@pytest.mark.parametrize("training", [False, True])
def test_the_input_is_not_changed(case, training):
    """Neither its numbers nor its version, nor those of the weights; backward included."""
    module, x = case.build(dropout=0.3).train(training), case.tokens()
    given = [x, *module.parameters()]
    before = [(tensor.detach().clone(), tensor._version) for tensor in given]
    for context_vec in both_ways(module, x):
        context_vec.sum().backward()
    for tensor, (kept, version) in zip(given, before, strict=True):
        assert torch.equal(tensor, kept)
        assert tensor._version == version
    assert x._version == 0


# 12: huge and broken numbers in the future


@pytest.mark.promise(number=12)
@ALL
@pytest.mark.parametrize(
    ("dtype", "huge"),
    [(torch.float32, 1e30), (torch.float32, -1e30), (torch.float16, 1e4), (torch.float16, -1e4)],
)
def test_a_huge_future_does_not_touch_the_past(case, dtype, huge):
    """As long as its projections stay finite, even where its scores do not."""
    module, x = case.build().to(dtype), case.tokens().to(dtype)
    before = both_ways(module, x)
    assert all(context_vec.isfinite().all() for context_vec in before)
    for t in range(T - 1):
        changed = x.clone()
        changed[:, t + 1 :] = huge
        for which in ("W_query", "W_key", "W_value"):
            assert projected(module, which, changed).isfinite().all()
        for old, new in zip(before, both_ways(module, changed), strict=True):
            assert torch.equal(new[:, : t + 1], old[:, : t + 1])
        attn_weights = module(changed, return_weights=True)[1][..., : t + 1, :]
        assert (attn_weights[..., t + 1 :] == 0).all()


@pytest.mark.promise(number=12)
@ALL
@pytest.mark.parametrize("broken", [torch.nan, torch.inf, -torch.inf])
def test_a_broken_future_reaches_the_past(case, broken):
    """Its weight is 0, but 0 * NaN is NaN: documented. torch's own attention does the same."""
    module, x = case.build(), case.tokens()
    x[:, -1] = broken
    for context_vec in both_ways(module, x):
        assert context_vec.isnan().all()
    attn_weights = module(x, return_weights=True)[1]
    assert (attn_weights[..., :-1, -1] == 0).all()
    q = tokens(d_in=HEAD_DIM)
    v = q.clone()
    v[:, -1] = broken
    assert F.scaled_dot_product_attention(q, q, v, is_causal=True)[:, :-1].isnan().all()


@pytest.mark.promise(number=12)
@ALL
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_broken_sequence_does_not_touch_its_neighbours(case, broken):
    """Nothing crosses from one item of a batch to another."""
    module, x = case.build(), case.tokens()
    before = both_ways(module, x)
    x[1] = broken
    for old, new in zip(before, both_ways(module, x), strict=True):
        assert torch.equal(new[0], old[0])
        assert new[1].isnan().all()
