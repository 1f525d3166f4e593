"""What holds for every attention class at any size, dtype and stride, on drawn examples."""

import random

import pytest
import torch
from torch import Tensor, nn

from support.cases import CONTRACT, Case, both_ways, name, tokens

EXAMPLES = pytest.mark.parametrize("seed", range(12))  # four layouts, three distances, three dtypes
EACH = pytest.mark.parametrize("case", CONTRACT, ids=name)
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12, torch.bfloat16: 0.1}


def draw(case: Case, seed: int, *dtypes: torch.dtype) -> tuple[nn.Module, Tensor]:
    """Return a module and an input for it, of sizes from 1 up."""
    choose = random.Random(seed)
    num_tokens, dtype = choose.randint(1, 17), choose.choice(dtypes)
    module = case.build(
        seed,
        num_heads=choose.randint(1, 5),
        head_dim=choose.randint(1, 9),
        d_in=choose.randint(1, 13),
        context_length=num_tokens + choose.randint(0, 5),
        qkv_bias=choose.random() < 0.5,
    )
    x = tokens(choose.randint(1, 4), num_tokens, module.d_in, seed=seed)
    return module.to(dtype), x.to(dtype)


def inside_something_larger(x: Tensor) -> Tensor:
    """Return x as every second number of a larger tensor, from an odd place on."""
    larger = x.new_full([2 * size + 3 for size in x.shape], torch.nan)
    view = larger[tuple(slice(1, 2 * size + 1, 2) for size in x.shape)]
    return view.copy_(x)


LAYOUTS = (
    lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    lambda x: x.transpose(0, 2).contiguous().transpose(0, 2),
    inside_something_larger,
    lambda x: x[:, :1].expand_as(x),  # one token, seen often
)


def assert_close(found: Tensor, expected: Tensor) -> None:
    tolerance = TOLERANCE[expected.dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.promise(number=2)
@EACH
@EXAMPLES
def test_no_change_after_a_token_reaches_it(case, seed):
    """Bit by bit, whatever the size, the dtype and the change."""
    module, x = draw(case, seed, *TOLERANCE)
    t, far = seed % x.shape[1], (1e-3, 1.0, 1e3)[seed % 3]
    changed = x.clone()
    changed[:, t:] += far * tokens(*x[:, t:].shape, seed=3).to(x.dtype)
    for old, new in zip(both_ways(module, x), both_ways(module, changed), strict=True):
        assert torch.equal(new[:, :t], old[:, :t])


@pytest.mark.promise(number=3)
@EACH
@EXAMPLES
def test_weights_are_shares_of_the_past(case, seed):
    """Rows sum to 1; not one weight is 0 up to the diagonal, and every one is above it."""
    module, x = draw(case, seed, *TOLERANCE)
    attn_weights = module(x, return_weights=True)[1]
    b, num_tokens, _ = x.shape
    heads = (module.num_heads,) if case.has_heads else ()
    assert attn_weights.shape == (b, *heads, num_tokens, num_tokens)
    assert attn_weights.dtype == x.dtype
    past = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    assert (attn_weights[..., past] > 0).all()
    assert (attn_weights[..., ~past] == 0).all()
    assert_close(attn_weights.sum(-1), torch.ones_like(attn_weights[..., 0]))


@pytest.mark.promise(number=9)
@EACH
@EXAMPLES
def test_strides_change_neither_the_result_nor_the_slopes(case, seed):
    """Those of the input, and those of the gradient that comes back."""
    module, x = draw(case, seed, torch.float32, torch.float64)
    laid_out = LAYOUTS[seed % len(LAYOUTS)]
    x, pull = laid_out(x), laid_out(tokens(*module(x).shape, seed=3).to(x.dtype))
    results, slopes = [], []
    for given_x, given_pull in ((x, pull), (x.contiguous(), pull.contiguous())):
        leaf = given_x.detach().requires_grad_()
        context_vec = sum(both_ways(module, leaf))
        wanted = (leaf, *module.parameters())
        slopes.append(torch.autograd.grad(context_vec, wanted, grad_outputs=given_pull))
        results.append(context_vec.detach())
    assert_close(results[0], results[1])
    for one, other in zip(*slopes, strict=True):
        largest = other.abs().max().clamp(min=1.0)
        assert_close(one / largest, other / largest)
