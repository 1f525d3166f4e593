"""The contract, items 1 to 7: what every attention class computes; 2 and 3 are in test_properties.

docs/contract.md lists all items with their tests. A class joins by one line in cases.py.
"""

import copy
import random

import pytest
import torch
from torch import Tensor, nn

import attnlib
from support import reference
from support.cases import (
    CASES,
    CONTRACT,
    CausalMultiheadAttention,
    T,
    both_ways,
    by_head,
    name,
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
