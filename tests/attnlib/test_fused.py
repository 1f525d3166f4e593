"""The fused class is MultiHeadAttention: same function, in a kernel that never stores the weights.

What every attention class must survive is in test_contract.py; here is what is special.
"""

import re
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from attncourse.examples import SEED
from attnlib import (
    FusedMultiHeadAttention,
    MultiHeadAttention,
    fused_to_split,
    split_to_fused,
)
from attnlib import fused as fused_module
from attnlib.fused import fused_attention, repeat_heads
from support.cases import CONTEXT_LENGTH, HEAD_DIM, B, Case, H, LargestTensor, T, tokens

BIAS = pytest.mark.parametrize("qkv_bias", [False, True], ids=["no bias", "bias"])
DTYPES = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=str
)
SHARED = pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(3, 1), (6, 1), (6, 2), (6, 3)])


def build(cls: type = FusedMultiHeadAttention, num_heads: int = H, **changes) -> nn.Module:
    return Case(cls).build(num_heads=num_heads, **changes)


def with_gradients(module: nn.Module, x: Tensor, **how: bool) -> tuple[Tensor, dict[str, Tensor]]:
    x = x.detach().requires_grad_()
    module.zero_grad()
    context_vec = module(x, **how)
    context_vec = context_vec[0] if how else context_vec
    context_vec.square().sum().backward()
    found = {"x": x.grad, **{name: weight.grad for name, weight in module.named_parameters()}}
    for part in ("weight", "bias"):
        if f"W_qkv.{part}" in found:
            rows = found.pop(f"W_qkv.{part}").split(module.widths)
            names = [f"{W}.{part}" for W in ("W_query", "W_key", "W_value")]
            found |= dict(zip(names, rows, strict=True))
    return context_vec, found


def assert_close(found: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


# The same function as MultiHeadAttention


@pytest.mark.parametrize(("d_in", "d_out", "num_heads"), [(6, 6, 2), (3, 8, 4), (11, 15, 3)])
def test_the_same_seed_gives_the_same_function(d_in, d_out, num_heads):
    """One draw of W_qkv is the three draws of W_query, W_key and W_value."""
    modules = []
    for cls in (MultiHeadAttention, FusedMultiHeadAttention):
        torch.manual_seed(SEED)
        modules.append(cls(d_in, d_out, CONTEXT_LENGTH, 0.0, num_heads))
    split, fused = modules
    expected = split_to_fused(split).state_dict()
    for name, weight in fused.state_dict().items():
        assert torch.equal(weight, expected[name])


# Heads that share keys and values


@pytest.mark.promise(number=4)
@SHARED
@BIAS
@DTYPES
def test_shared_heads_are_repeated_heads(num_heads, num_kv_heads, qkv_bias, dtype, tolerance):
    """Against a split module whose key and value rows are copied by hand, head by head."""
    fused = build(num_heads=num_heads, num_kv_heads=num_kv_heads, qkv_bias=qkv_bias).to(dtype)
    split = build(MultiHeadAttention, num_heads, qkv_bias=qkv_bias).to(dtype)
    state = {name: entry for name, entry in fused.state_dict().items() if "out_proj" in name}
    per_head = num_heads // num_kv_heads
    for part in ("weight", "bias") if qkv_bias else ("weight",):
        heads = getattr(fused.W_qkv, part).split(HEAD_DIM)
        queries, keys = heads[:num_heads], heads[num_heads : num_heads + num_kv_heads]
        values = heads[num_heads + num_kv_heads :]
        state[f"W_query.{part}"] = torch.cat(queries)
        state[f"W_key.{part}"] = torch.cat([keys[h // per_head] for h in range(num_heads)])
        state[f"W_value.{part}"] = torch.cat([values[h // per_head] for h in range(num_heads)])
    split.load_state_dict(state)
    for name, entry in fused_to_split(fused).state_dict().items():
        assert torch.equal(entry, state[name])

    x = tokens(dtype=dtype)
    expected, slopes = with_gradients(split, x)
    for name in slopes:
        if name.startswith(("W_key", "W_value")):  # a shared row has all of its copies' slopes
            copies = slopes[name].unflatten(0, (num_kv_heads, per_head, HEAD_DIM))
            slopes[name] = copies.sum(dim=1).flatten(0, 1)
    for how in ({}, {"return_weights": True}):
        context_vec, found = with_gradients(fused, x, **how)
        assert_close(context_vec, expected, tolerance)
        for name, slope in found.items():
            assert_close(slope, slopes[name], 10 * tolerance)
    assert_close(fused(x, True)[1], split(x, True)[1], tolerance)


@pytest.mark.parametrize(
    ("device", "dtype", "has_mask", "shares"),
    [
        ("cpu", torch.float32, True, True),
        ("cpu", torch.bfloat16, False, True),
        ("cuda", torch.bfloat16, False, True),
        ("cuda", torch.float16, False, True),
        ("cuda", torch.float16, True, False),
        ("cuda", torch.float32, False, False),
        ("mps", torch.float32, False, False),
        ("mps", torch.float16, False, False),
    ],
)
def test_where_kernels_share_heads(device, dtype, has_mask, shares, monkeypatch):
    queries = SimpleNamespace(device=torch.device(device), dtype=dtype)
    mask = torch.ones(1) if has_mask else None
    monkeypatch.setattr(fused_module, "OLD_KERNELS", False)
    assert fused_module._kernel_shares_heads(queries, mask) == shares
    monkeypatch.setattr(fused_module, "OLD_KERNELS", True)
    assert fused_module._kernel_shares_heads(queries, mask) == (shares and device != "cpu")


@pytest.mark.parametrize("num_kv_heads", [1, 2, 6])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float16, 1e-2)], ids=str
)
def test_what_is_done_for_old_kernels_changes_no_result(
    monkeypatch, num_kv_heads, dtype, tolerance
):
    """They scale float16 too late and share no heads: both are done before, with any PyTorch."""
    queries = tokens(B * 6, T, HEAD_DIM, dtype=dtype).view(B, 6, T, HEAD_DIM)
    both = tokens(2 * B * num_kv_heads, T, HEAD_DIM, seed=3, dtype=dtype)
    keys, values = both.view(2, B, -1, T, HEAD_DIM)
    expected = fused_attention(queries.double(), keys.double(), values.double())
    monkeypatch.setattr(fused_module, "OLD_KERNELS", True)
    for start in (0, 4, T - 1):
        found = fused_attention(queries[:, :, start:], keys, values)
        assert found.dtype == dtype
        assert_close(found.double(), expected[:, :, start:], tolerance)


# Bad arguments


@pytest.mark.promise(number=25)
@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((2, 3, 7, 5), (2, 3, 4, 5), (2, 3, 4, 5)), "num_queries=7 is more than num_keys=4, but"),
        (((2, 3, 7, 5), (2, 2, 7, 5), (2, 2, 7, 5)), "num_kv_heads=2 does not divide num_heads=3"),
        (((2, 3, 7, 5), (2, 3, 7, 5), (2, 1, 7, 5)), "(2, 3, 7, 5) and (2, 1, 7, 5)"),
        (((2, 3, 7, 5), (1, 3, 7, 5), (1, 3, 7, 5)), "queries must be (b, num_heads, num_queries,"),
        (((2, 3, 7, 5), (2, 0, 7, 5), (2, 0, 7, 5)), "not (2, 3, 7, 5), (2, 0, 7, 5) and"),
        (((2, 3, 7, 5), (2, 3, 7, 5), (1, 3, 7, 5)), "(2, 3, 7, 5) and (1, 3, 7, 5)"),
        (((3, 7, 5), (3, 7, 5), (3, 7, 5)), "not (3, 7, 5), (3, 7, 5) and (3, 7, 5)"),
        (((2, 3, 7, 5), (2, 3, 7, 4), (2, 3, 7, 5)), "one width, head_dim, not 5 and 4"),
        (((2, 3, 7, 5), (2, 3, 7, 5), (2, 3, 6, 5)), "equally many tokens, not 7 and 6"),
    ],
)
def test_what_the_kernel_is_not_asked(shapes, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        fused_attention(*(torch.ones(shape) for shape in shapes))


@pytest.mark.promise(number=25)
def test_other_arguments_of_the_kernel():
    x = torch.ones(2, 3, 7, 5)
    with pytest.raises(ValueError, match="dropout_p must lie between 0 and 1, not -1"):
        fused_attention(x, x, x, dropout_p=-1)
    with pytest.raises(TypeError, match=r"values are torch\.float64, queries are torch\.float32"):
        fused_attention(x, x, x.double())
    with pytest.raises(ValueError, match="num_kv_heads=3 does not divide num_heads=7"):
        repeat_heads(x, 7)
    with pytest.raises(ValueError, match="num_kv_heads=3 does not divide num_heads=2"):
        repeat_heads(x, 2)


@pytest.mark.promise(number=10)
@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads", "error", "words"),
    [
        (12, 5, ValueError, "the nearest counts that divide 12: 4 and 6"),
        (12, 24, ValueError, "the nearest counts that divide 12: 12"),
        (3, 2, ValueError, "the nearest counts that divide 3: 1 and 3"),
        (3, 0, ValueError, "num_kv_heads must be a positive int, not 0"),
        (3, 1.0, TypeError, "num_kv_heads must be a positive int, not 1.0 (float)"),
    ],
)
def test_num_kv_heads(num_heads, num_kv_heads, error, words):
    with pytest.raises(error, match=re.escape(words)):
        build(num_heads=num_heads, num_kv_heads=num_kv_heads)


# No num_tokens x num_tokens tensor


@pytest.mark.promise(number=17)
@pytest.mark.parametrize(
    ("num_kv_heads", "dtype"), [(4, torch.float32), (2, torch.float64), (1, torch.bfloat16)]
)
def test_no_operation_makes_all_weights(num_kv_heads, dtype):
    """Forward and backward; the same pass, asked for the weights, does make them."""
    long = 512
    sizes = {"d_in": 8, "d_out": 16, "context_length": long}
    fused = build(num_heads=4, num_kv_heads=num_kv_heads, **sizes).to(dtype)
    x = tokens(1, long, 8, dtype=dtype)
    with LargestTensor() as seen:
        fused(x).sum().backward()
    assert seen.numbers == long * sum(fused.widths)
    assert not any("softmax" in operation for operation in seen.operations)
    kernels = [operation for operation in seen.operations if "flash_attention" in operation]
    assert len(kernels) == 2
    with LargestTensor() as seen:
        fused(x, return_weights=True)
    assert seen.numbers == 4 * long * long
