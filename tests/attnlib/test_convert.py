"""Copied weights make one class give what another gives: outputs, weights and gradients."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

from attnlib import (
    FusedMultiHeadAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    fused_to_split,
    split_to_fused,
    split_to_stacked,
    split_to_torch,
    stacked_to_split,
)
from support.cases import CONTEXT_LENGTH, D_IN, HEAD_DIM, B, H, T, from_torch, tokens

PROJECTIONS = ("W_query", "W_key", "W_value")
SIZES = pytest.mark.parametrize(
    ("num_heads", "qkv_bias", "d_in", "num_tokens"),
    [
        (1, False, D_IN, T),
        (1, True, D_IN, T),
        (2, False, D_IN, T),
        (2, True, D_IN, CONTEXT_LENGTH),
        (3, False, 2, T),
        (3, True, 17, 1),
        (12, False, D_IN, CONTEXT_LENGTH),
        (12, True, D_IN, T),
    ],
)


def stacked_heads(
    num_heads: int = H, qkv_bias: bool = True, d_in: int = D_IN
) -> MultiHeadAttentionWrapper:
    torch.manual_seed(1)
    return MultiHeadAttentionWrapper(d_in, HEAD_DIM, CONTEXT_LENGTH, 0.0, num_heads, qkv_bias)


def bare_split(**changes: object) -> MultiHeadAttention:
    """Return a weight-split module whose out_proj passes everything on."""
    sizes = {"d_in": D_IN, "d_out": H * HEAD_DIM, "context_length": CONTEXT_LENGTH}
    torch.manual_seed(1)
    split = MultiHeadAttention(**{**sizes, "dropout": 0.0, "num_heads": H, **changes})
    with torch.no_grad():
        torch.nn.init.eye_(split.out_proj.weight)
        split.out_proj.bias.zero_()
    return split


def in_rows(stacked: MultiHeadAttentionWrapper, split: MultiHeadAttention) -> list:
    """Return pairs: each projection of the split class, and the heads' rows for it."""
    return [
        (
            getattr(getattr(split, which), part),
            [getattr(getattr(head, which), part) for head in stacked.heads],
        )
        for which in PROJECTIONS
        for part in ("weight", "bias")
        if getattr(stacked.heads[0].W_query, part) is not None
    ]


def assert_same_function(
    stacked: MultiHeadAttentionWrapper, split: MultiHeadAttention, x: Tensor
) -> None:
    """Compare outputs, weights, and every gradient of an uneven loss."""
    results, slopes = [], []
    for module in (stacked, split):
        x = x.detach().requires_grad_()
        context_vec, attn_weights = module(x, return_weights=True)
        loss = context_vec.square().sum() + attn_weights.square().sum()
        loss.backward()
        results.append((context_vec, attn_weights))
        slopes.append(x.grad)
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-5, atol=1e-5)
    for whole, rows in in_rows(stacked, split):
        expected = torch.cat([row.grad for row in rows])
        torch.testing.assert_close(whole.grad, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.promise(number=4)
@SIZES
def test_stacked_to_split(num_heads, qkv_bias, d_in, num_tokens):
    stacked = stacked_heads(num_heads, qkv_bias, d_in)
    split = stacked_to_split(stacked)
    for whole, rows in in_rows(stacked, split):
        assert torch.equal(whole, torch.cat(rows))
    assert (split.W_query.bias is not None) == qkv_bias
    assert torch.equal(split.out_proj.weight, torch.eye(num_heads * HEAD_DIM))
    assert torch.equal(split.out_proj.bias, torch.zeros(num_heads * HEAD_DIM))
    assert_same_function(stacked, split, tokens(B, num_tokens, d_in))


@pytest.mark.promise(number=4)
@SIZES
def test_split_to_stacked(num_heads, qkv_bias, d_in, num_tokens):
    split = bare_split(
        d_in=d_in, d_out=num_heads * HEAD_DIM, num_heads=num_heads, qkv_bias=qkv_bias
    )
    stacked = split_to_stacked(split)
    assert len(stacked.heads) == num_heads
    for whole, rows in in_rows(stacked, split):
        assert torch.equal(whole, torch.cat(rows))
    assert (stacked.heads[0].W_query.bias is not None) == qkv_bias
    assert_same_function(stacked, split, tokens(B, num_tokens, d_in))


@pytest.mark.promise(number=4)
@SIZES
def test_there_and_back_is_bit_equal(num_heads, qkv_bias, d_in, num_tokens):
    stacked = stacked_heads(num_heads, qkv_bias, d_in)
    split = stacked_to_split(stacked)
    again = split_to_stacked(split)
    there = stacked_to_split(again)
    for before, after in ((stacked, again), (split, there)):
        assert before.state_dict().keys() == after.state_dict().keys()
        for key, weight in after.state_dict().items():
            assert torch.equal(weight, before.state_dict()[key])
        x = tokens(B, num_tokens, d_in)
        assert torch.equal(after(x), before(x))


@pytest.mark.promise(number=4)
@pytest.mark.parametrize("num_heads", [1, 2, 3, 12])
@pytest.mark.parametrize("qkv_bias", [False, True])
def test_all_the_way_round_is_bit_equal(num_heads, qkv_bias):
    """Stacked, split, fused, PyTorch's own, and back: no bit is lost on the way."""
    stacked = stacked_heads(num_heads, qkv_bias, d_in=num_heads * HEAD_DIM)
    there = split_to_torch(fused_to_split(split_to_fused(stacked_to_split(stacked))))
    again = split_to_stacked(from_torch(there, CONTEXT_LENGTH))
    assert repr(again) == repr(stacked)
    assert again.state_dict().keys() == stacked.state_dict().keys()
    for key, weight in again.state_dict().items():
        assert torch.equal(weight, stacked.state_dict()[key])


@pytest.mark.promise(number=4)
@pytest.mark.parametrize(("part", "place"), [("weight", (0, 1)), ("weight", (2, 2)), ("bias", 4)])
@pytest.mark.parametrize("off", [0.125, -2.5, float("nan")])
def test_an_out_proj_that_does_something_is_refused(part, place, off):
    split = bare_split()
    with torch.no_grad():
        getattr(split.out_proj, part)[place] += off
    words = (
        f"out_proj is not the identity with bias 0 (an entry is off by {abs(off):.3g}), "
        "and stacked heads have no output projection to hold it"
    )
    with pytest.raises(ValueError, match=re.escape(words)):
        split_to_stacked(split)


def test_the_remedy_for_an_out_proj_works():
    """Stacked heads, then split.out_proj, as the message says."""
    torch.manual_seed(1)
    split = MultiHeadAttention(D_IN, H * HEAD_DIM, CONTEXT_LENGTH, 0.0, H)
    with pytest.raises(ValueError, match=r"apply split\.out_proj to the stacked heads' result"):
        split_to_stacked(split)
    bare = bare_split()
    bare.load_state_dict(
        {key: w for key, w in split.state_dict().items() if "W_" in key}, strict=False
    )
    torch.testing.assert_close(split.out_proj(split_to_stacked(bare)(tokens())), split(tokens()))


def convertible() -> list:
    return [(stacked_heads(), stacked_to_split), (bare_split(qkv_bias=True), split_to_stacked)]


def test_a_conversion_owns_its_weights():
    """Training one leaves the other alone, and both can be trained."""
    for module, convert in convertible():
        before = {key: weight.clone() for key, weight in module.state_dict().items()}
        converted = convert(module)
        with torch.no_grad():
            for weight in converted.parameters():
                assert weight.requires_grad
                assert weight.is_contiguous()
                weight.zero_()
        for key, weight in module.state_dict().items():
            assert torch.equal(weight, before[key])
    storages = [w.untyped_storage().data_ptr() for w in split_to_stacked(bare_split()).parameters()]
    assert len(set(storages)) == len(storages)


def test_a_conversion_keeps_dtype_mode_and_sizes():
    for module, convert in convertible():
        for part in module.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.25
        converted = convert(module.double().eval())
        assert {weight.dtype for weight in converted.parameters()} == {torch.float64}
        assert {weight.device.type for weight in converted.parameters()} == {"cpu"}
        assert not any(part.training for part in converted.modules())
        assert convert(module.train()).training
        assert converted.context_length == CONTEXT_LENGTH
        assert converted.d_in == D_IN
        assert converted.num_heads == H
        dropouts = [part.p for part in converted.modules() if isinstance(part, torch.nn.Dropout)]
        assert set(dropouts) == {0.25}


def test_a_conversion_draws_no_random_numbers():
    for module, convert in convertible():
        torch.manual_seed(4)
        before = torch.get_rng_state()
        convert(module)
        assert torch.equal(torch.get_rng_state(), before)


# What is kept, and what cannot be


def conversions() -> dict:
    """Return every conversion, and a module for it; each of one width."""
    stacked = stacked_heads(d_in=H * HEAD_DIM)
    split = bare_split(d_in=H * HEAD_DIM, qkv_bias=True)
    return {
        "stacked": (stacked_to_split, stacked),
        "stack": (split_to_stacked, split),
        "torch": (split_to_torch, split),
        "fuse": (split_to_fused, split),
        "fused": (fused_to_split, split_to_fused(split)),
    }


ALL = pytest.mark.parametrize("which", conversions())


@pytest.mark.promise(number=26)
@ALL
def test_what_is_frozen_stays_frozen(which):
    """All of it, or the projections, or out_proj; and what is trained stays trained."""
    convert, module = conversions()[which]
    for part in ("", "W_", "out_proj"):
        for name, weight in module.named_parameters():
            weight.requires_grad_(part not in name)
        new = convert(module)
        for name, weight in new.named_parameters():
            in_proj = part == "W_" and "in_proj" in name
            made = which == "stacked" and "out_proj" in name
            assert weight.requires_grad == (made or not (in_proj or part in name)), (part, name)
        assert all(weight.is_leaf for weight in new.parameters())


@pytest.mark.promise(number=26)
@pytest.mark.parametrize("which", ["stacked", "torch", "fuse"])
def test_rows_that_are_frozen_beside_rows_that_are_not_are_refused(which):
    convert, module = conversions()[which]
    key = module.heads[1].W_query if which == "stacked" else module.W_key
    key.weight.requires_grad_(False)
    words = "weight would hold rows that are frozen and rows that are trained, but it has one"
    with pytest.raises(ValueError, match=re.escape(words)):
        convert(module)
    module.requires_grad_(False)
    assert convert(module)


@pytest.mark.promise(number=26)
@ALL
@pytest.mark.parametrize("how", ["subclass", "instance"])
def test_a_forward_of_its_own_is_refused(which, how):
    convert, module = conversions()[which]
    old = type(module)
    if how == "subclass":
        module.__class__ = type("Louder", (old,), {"forward": lambda self, x: 2 * x})
    else:
        module.forward = lambda x: 2 * x
    with pytest.raises(TypeError, match=r"has a forward of its own, which would be lost; copy its"):
        convert(module)
    vars(module).pop("forward", None)
    module.__class__ = type("Quiet", (old,), {})  # a subclass that computes what ours does
    assert convert(module)
    words = f"the module must be a {old.__name__}, not a Linear"
    with pytest.raises(TypeError, match=words):
        convert(torch.nn.Linear(3, 3))


@pytest.mark.promise(number=26)
def test_heads_that_differ_are_named():
    """One module has one dropout, and a bias in all of its projections or in none."""
    stacked = stacked_heads()
    stacked.heads[2].dropout.p = 0.3
    words = "heads.2.dropout has p=0.3 and heads.0.dropout has p=0.0, but the new module has one"
    with pytest.raises(ValueError, match=re.escape(words)):
        stacked_to_split(stacked)
    stacked = stacked_heads()
    stacked.heads[1].W_key.bias = None
    words = "heads.1.W_key has bias=False and heads.0.W_query has bias=True, but the new module has"
    with pytest.raises(ValueError, match=re.escape(words)):
        stacked_to_split(stacked)
    stacked = stacked_heads()
    stacked.heads[1].forward = lambda x: x
    with pytest.raises(TypeError, match=r"heads\.1, a CausalAttention, has a forward of its own"):
        stacked_to_split(stacked)
    stacked.heads[1] = torch.nn.Linear(3, 3)
    with pytest.raises(TypeError, match=r"heads\.1 must be a CausalAttention, not a Linear"):
        stacked_to_split(stacked)


@pytest.mark.promise(number=26)
@pytest.mark.parametrize("which", ["stack", "torch", "fuse", "fused"])
def test_biases_that_differ_are_named(which):
    convert, module = conversions()[which]
    module.out_proj.bias = None
    with pytest.raises(ValueError, match="out_proj has no bias, but the new one must; give it"):
        convert(module)
    if which != "fused":
        convert, module = conversions()[which]
        module.W_value.bias = None
        words = "W_value has bias=False and W_query has bias=True, but the new module has one"
        with pytest.raises(ValueError, match=words):
            convert(module)


@pytest.mark.promise(number=26)
def test_rotary_positions_have_no_place_in_the_split_class():
    fused = FusedMultiHeadAttention(3, 8, 5, 0.0, 2, rotary_base=100.0)
    with pytest.raises(ValueError, match=r"rotary_base=100\.0 has no place in MultiHeadAttention"):
        fused_to_split(fused)


# The same weights in other places


@pytest.mark.promise(number=6)
def test_the_order_of_stacked_heads_is_the_order_of_the_columns():
    stacked = stacked_heads()
    context_vec, attn_weights = stacked(tokens(), return_weights=True)
    assert stacked.num_heads == H
    for h, head in enumerate(stacked.heads):
        alone, its_weights = head(tokens(), return_weights=True)
        assert torch.equal(context_vec[..., h * HEAD_DIM : (h + 1) * HEAD_DIM], alone)
        assert torch.equal(attn_weights[:, h], its_weights)
