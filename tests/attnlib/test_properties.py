"""What holds for every attention class at any size, dtype, stride and seed, on drawn examples.

The draws are the same on every run: no example depends on an earlier run or on the clock.
"""

from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attnlib import fused_to_split, split_to_fused, stacked_to_split
from attnlib.functional import merge_heads, split_heads
from support.cases import CONTRACT, Case, both_ways, by_head, name, projected, spelled_out, tokens

EXAMPLES = settings(max_examples=20, derandomize=True, deadline=None, database=None)
EACH = pytest.mark.parametrize("case", CONTRACT, ids=name)
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12, torch.bfloat16: 0.1}


class Example(NamedTuple):
    """A module's sizes, and the input for it."""

    num_heads: int
    head_dim: int
    b: int
    num_tokens: int
    dtype: torch.dtype
    seed: int
    arguments: dict[str, Any]
    layout: str

    def build(self, case: Case) -> nn.Module:
        module = case.build(self.seed, **self.arguments)
        return module.to(self.dtype)

    def tokens(self, case: Case) -> Tensor:
        d_in = case.arguments(**self.arguments)["d_in"]
        return self.laid_out(tokens(self.b, self.num_tokens, d_in, seed=self.seed))

    def laid_out(self, x: Tensor) -> Tensor:
        return LAYOUTS[self.layout](x.to(self.dtype))


def inside_something_larger(x: Tensor) -> Tensor:
    """Return x as every second number of a larger tensor, from an odd place on."""
    larger = x.new_full([2 * size + 3 for size in x.shape], torch.nan)
    view = larger[tuple(slice(1, 2 * size + 1, 2) for size in x.shape)]
    return view.copy_(x)


LAYOUTS = {
    "in order": torch.Tensor.contiguous,
    "tokens first": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "width first": lambda x: x.transpose(0, 2).contiguous().transpose(0, 2),
    "inside": inside_something_larger,
    "one token, seen often": lambda x: x[:, :1].expand_as(x),
}


@st.composite
def examples(draw: st.DrawFn, dtypes: tuple = (torch.float32, torch.float64)) -> Example:
    """Draw sizes from 1 up, so that the smallest of each come often."""
    num_heads, head_dim = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    num_tokens = draw(st.integers(1, 17))
    arguments = {
        "num_heads": num_heads,
        "head_dim": head_dim,
        "d_in": draw(st.integers(1, 13)),
        "context_length": num_tokens + draw(st.integers(0, 5)),
        "qkv_bias": draw(st.booleans()),
    }
    return Example(
        num_heads,
        head_dim,
        draw(st.integers(1, 4)),
        num_tokens,
        draw(st.sampled_from(dtypes)),
        draw(st.integers(0, 10_000)),
        arguments,
        draw(st.sampled_from(sorted(LAYOUTS))),
    )


def assert_close(found: Tensor, expected: Tensor) -> None:
    tolerance = TOLERANCE[expected.dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.promise(number=2)
@EACH
@EXAMPLES
@given(data=st.data(), example=examples(dtypes=tuple(TOLERANCE)))
def test_no_change_after_a_token_reaches_it(case, data, example):
    """Bit by bit, whatever the size, the dtype, the strides and the change."""
    module, x = example.build(case), example.tokens(case)
    t = data.draw(st.integers(0, example.num_tokens - 1), label="t")
    far = data.draw(st.sampled_from([1e-3, 1.0, 1e3]), label="how far")
    changed = x.contiguous().clone()
    changed[:, t:] += far * tokens(*x[:, t:].shape, seed=3).to(x.dtype)
    unchanged = both_ways(module, x.contiguous())
    for old, new in zip(unchanged, both_ways(module, changed), strict=True):
        assert torch.equal(new[:, :t], old[:, :t])


@pytest.mark.promise(number=3)
@EACH
@EXAMPLES
@given(example=examples(dtypes=tuple(TOLERANCE)))
def test_weights_are_shares_of_the_past(case, example):
    """Rows sum to 1; not one weight is 0 up to the diagonal, and every one is above it."""
    module, x = example.build(case), example.tokens(case)
    attn_weights = module(x, return_weights=True)[1]
    heads = (example.num_heads,) if case.has_heads else ()
    assert attn_weights.shape == (example.b, *heads, example.num_tokens, example.num_tokens)
    assert attn_weights.dtype == example.dtype
    past = torch.ones(example.num_tokens, example.num_tokens, dtype=torch.bool).tril()
    assert (attn_weights[..., past] > 0).all()
    assert (attn_weights[..., ~past] == 0).all()
    assert_close(attn_weights.sum(-1), torch.ones_like(attn_weights[..., 0]))


@pytest.mark.promise(number=3)
@EACH
@EXAMPLES
@given(example=examples())
def test_the_result_is_the_weights_times_the_values(case, example):
    """In both ways, and through out_proj where there is one."""
    module, x = example.build(case), example.tokens(case)
    attn_weights = by_head(module(x, return_weights=True)[1])
    expected = merge_heads(attn_weights @ projected(module, "W_value", x))
    if hasattr(module, "out_proj"):
        expected = module.out_proj(expected)
    for context_vec in both_ways(module, x):
        assert context_vec.dtype == example.dtype
        assert_close(context_vec, expected)


@pytest.mark.promise(number=9)
@EACH
@EXAMPLES
@given(example=examples())
def test_strides_change_neither_the_result_nor_the_slopes(case, example):
    """Those of the input, and those of the gradient that comes back."""
    module, x = example.build(case), example.tokens(case)
    pull = example.laid_out(tokens(*module(x).shape, seed=3))
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


@pytest.mark.promise(number=5)
@EACH
@EXAMPLES
@given(data=st.data(), example=examples())
def test_a_part_of_the_batch_or_of_the_text_gives_that_part_of_the_result(case, data, example):
    """And of the weights: no item sees another, and what is cut off at the end is not missed."""
    module, x = example.build(case), example.tokens(case)
    ends = st.integers(0, example.b)
    first, last = sorted((data.draw(ends, label="items"), data.draw(ends, label="items")))
    num_tokens = data.draw(st.integers(0, example.num_tokens), label="tokens")
    short = x[first:last, :num_tokens]
    for part, whole in zip(both_ways(module, short), both_ways(module, x), strict=True):
        assert_close(part, whole[first:last, :num_tokens])
    part, whole = (module(given_x, return_weights=True)[1] for given_x in (short, x))
    assert_close(part, whole[first:last, ..., :num_tokens, :num_tokens])


@pytest.mark.promise(number=4)
@EACH
@EXAMPLES
@given(example=examples())
def test_a_conversion_is_the_same_function(case, example):
    """Into the fused class and, of what is apart there, back."""
    module, x = example.build(case), example.tokens(case)
    split = spelled_out(module)
    if not hasattr(split, "out_proj") and hasattr(split, "heads"):
        split = stacked_to_split(split)
    if hasattr(split, "out_proj"):
        twin = split_to_fused(split)
        again = fused_to_split(twin).state_dict()
        assert all(torch.equal(again[key], w) for key, w in split.state_dict().items())
    else:
        twin = case.build(seed=9, **example.arguments).to(example.dtype)
        twin.load_state_dict(module.state_dict())
    for found, expected in zip(both_ways(twin, x), both_ways(module, x), strict=True):
        assert_close(found, expected)


@EXAMPLES
@given(example=examples())
def test_heads_split_and_merged_are_what_they_were(example):
    x = tokens(example.b, example.num_tokens, example.num_heads * example.head_dim)
    x = LAYOUTS[example.layout](x).contiguous()
    heads = split_heads(x, example.num_heads)
    assert heads.shape == (example.b, example.num_heads, example.num_tokens, example.head_dim)
    assert torch.equal(merge_heads(heads), x)
