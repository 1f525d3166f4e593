"""Copied weights make one class give what another gives: outputs, weights and gradients."""

import copy
import re

import pytest
import torch
from torch import Tensor, nn

from attncourse.variants.torch_multihead import MultiheadAttention
from attnlib import (
    FusedMultiHeadAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    causal_mask,
    fused_to_split,
    split_to_fused,
    split_to_stacked,
    split_to_torch,
    stacked_to_split,
)
from support.cases import CONTEXT_LENGTH, D_IN, HEAD_DIM, B, H, T, from_torch, tokens

WIDTH = H * HEAD_DIM
CONVERSIONS = {
    "stacked to split": stacked_to_split,
    "split to stacked": split_to_stacked,
    "split to torch": split_to_torch,
    "split to fused": split_to_fused,
    "fused to split": fused_to_split,
}
CLASSES = {
    "stacked": MultiHeadAttentionWrapper,
    "split": MultiHeadAttention,
    "fused": FusedMultiHeadAttention,
}
ALL = pytest.mark.parametrize("which", CONVERSIONS)


def build(
    which: str = "split to fused", num_heads: int = H, d_in: int = WIDTH, **changes: object
) -> nn.Module:
    cls = CLASSES[which.split()[0]]
    d_out = HEAD_DIM if cls is MultiHeadAttentionWrapper else num_heads * HEAD_DIM
    sizes = {"d_in": d_in, "d_out": d_out, "context_length": CONTEXT_LENGTH, "dropout": 0.25}
    torch.manual_seed(1)
    module = cls(**{**sizes, "num_heads": num_heads, "qkv_bias": True, **changes}).eval()
    for weight in module.parameters():
        nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)
    return bare(module) if which == "split to stacked" else module


def bare(split: nn.Module) -> nn.Module:
    nn.init.eye_(split.out_proj.weight)
    nn.init.zeros_(split.out_proj.bias)
    return split


def attend(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    if isinstance(module, (nn.MultiheadAttention, MultiheadAttention)):
        mask = causal_mask(x.shape[1])
        return module(x, x, x, attn_mask=mask, average_attn_weights=False)
    return module(x, return_weights=True)


def slopes(module: nn.Module, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    x = x.clone().requires_grad_()
    context_vec, attn_weights = attend(module, x)
    loss = context_vec.square().sum() + (attn_weights * attn_weights.detach().cos()).sum()
    first, *others = torch.autograd.grad(loss, [x, *module.parameters()])
    return first, dict(zip(dict(module.named_parameters()), others, strict=True))


@pytest.mark.promise(number=4)
@ALL
@pytest.mark.parametrize("num_heads", [1, 2, 3, 12])
@pytest.mark.parametrize("qkv_bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("num_tokens", [1, T, CONTEXT_LENGTH])
def test_a_conversion_is_the_same_function(which, num_heads, qkv_bias, dtype, close, num_tokens):
    """A conversion moves weights, and their gradients in the same way."""
    d_in = num_heads * HEAD_DIM if "torch" in which else D_IN
    old = build(which, num_heads, d_in, qkv_bias=qkv_bias, dtype=dtype)
    new = CONVERSIONS[which](old)
    x = tokens(B, num_tokens, d_in, dtype=dtype)
    torch.testing.assert_close(attend(new, x), attend(old, x), rtol=close, atol=close)
    if "torch" not in which:
        torch.testing.assert_close(new(x), old(x), rtol=close, atol=close)
    (of_x, found), (of_x_before, before) = slopes(new, x), slopes(old, x)
    torch.testing.assert_close(of_x, of_x_before, rtol=10 * close, atol=10 * close)
    moved = copy.deepcopy(old)
    moved.load_state_dict(before)
    moved = bare(moved) if which == "split to stacked" else moved
    for name, expected in CONVERSIONS[which](moved).named_parameters():
        if which != "stacked to split" or "out_proj" not in name:  # made by the conversion
            torch.testing.assert_close(found[name], expected, rtol=10 * close, atol=10 * close)


@pytest.mark.promise(number=4)
@pytest.mark.parametrize("num_heads", [1, 2, 3, 12])
@pytest.mark.parametrize("qkv_bias", [False, True])
def test_all_the_way_round_is_bit_equal(num_heads, qkv_bias):
    """Stacked, split, fused, split, PyTorch's own, and back: no bit is lost on the way."""
    stacked = build("stacked", num_heads, num_heads * HEAD_DIM, qkv_bias=qkv_bias)
    split = stacked_to_split(stacked)
    fused = split_to_fused(split)
    there = from_torch(split_to_torch(fused_to_split(fused)), CONTEXT_LENGTH)
    pairs = {fused: split_to_fused(there), stacked: split_to_stacked(there), split: there}
    for before, again in pairs.items():
        assert repr(again) == repr(before)
        assert list(again.state_dict()) == list(before.state_dict())
        for key, weight in again.state_dict().items():
            assert torch.equal(weight, before.state_dict()[key])


# PyTorch's own module


@pytest.mark.parametrize("cls", [nn.MultiheadAttention, MultiheadAttention])
def test_without_qkv_bias_a_new_module_needs_a_word(cls):
    split = build(qkv_bias=False)
    made = split_to_torch(split)
    assert type(made) is nn.MultiheadAttention
    state = made.state_dict()
    new = cls(WIDTH, H, batch_first=True)
    with pytest.raises(RuntimeError, match=r'Missing key.*"in_proj_bias"'):
        new.load_state_dict(state, strict=True)
    new.in_proj_bias = None
    new.load_state_dict(state, strict=True)
    x = tokens(d_in=WIDTH)
    torch.testing.assert_close(attend(new, x), attend(split, x))


def test_d_in_must_be_d_out():
    words = "d_in=11 is not d_out=15, but nn.MultiheadAttention has one width, embed_dim, for its"
    with pytest.raises(ValueError, match=words):
        split_to_torch(build(d_in=11))


# An output projection has no place in stacked heads


@pytest.mark.promise(number=4)
@pytest.mark.parametrize(("part", "place"), [("weight", (0, 1)), ("weight", (2, 2)), ("bias", 4)])
@pytest.mark.parametrize("off", [0.125, -2.5, float("nan")])
def test_an_out_proj_that_does_something_is_refused(part, place, off):
    split = bare(build())
    with torch.no_grad():
        getattr(split.out_proj, part)[place] += off
    words = (
        f"out_proj is not the identity with bias 0 (an entry is off by {abs(off):.3g}), "
        "and stacked heads have no output projection to hold it; "
        "apply split.out_proj to the stacked heads' result instead"
    )
    with pytest.raises(ValueError, match=re.escape(words)):
        split_to_stacked(split)


# What is kept


@ALL
def test_a_conversion_owns_its_weights_and_draws_no_random_numbers(which):
    """Training one leaves the other alone, and both can be trained."""
    old, state = build(which), torch.get_rng_state()
    before = copy.deepcopy(old.state_dict())
    new = CONVERSIONS[which](old)
    assert torch.equal(torch.get_rng_state(), state)
    storages = {weight.untyped_storage().data_ptr() for weight in new.parameters()}
    assert len(storages) == len(list(new.parameters()))
    with torch.no_grad():
        for weight in new.parameters():
            assert weight.requires_grad
            assert weight.is_contiguous()
            weight.zero_()
    assert all(torch.equal(entry, before[name]) for name, entry in old.state_dict().items())


@ALL
@pytest.mark.parametrize("training", [True, False])
def test_a_conversion_keeps_dtype_device_mode_and_sizes(which, training):
    old = build(which, dropout=0.3, dtype=torch.bfloat16).train(training)
    new = CONVERSIONS[which](old)
    assert {part.training for part in new.modules()} == {training}
    assert {weight.dtype for weight in new.parameters()} == {torch.bfloat16}
    dropouts = {part.p for part in new.modules() if isinstance(part, nn.Dropout)}
    assert (dropouts or {new.dropout}) == {0.3}
    assert new.num_heads == H
    assert getattr(new, "context_length", CONTEXT_LENGTH) == CONTEXT_LENGTH
    assert all(weight.is_meta for weight in CONVERSIONS[which](old.to("meta")).parameters())


@pytest.mark.promise(number=26)
@ALL
def test_what_is_frozen_stays_frozen(which):
    """All of it, or the projections, or out_proj; and what is trained stays trained."""
    convert, module = CONVERSIONS[which], build(which)
    for part in ("", "W_", "out_proj"):
        for name, weight in module.named_parameters():
            weight.requires_grad_(part not in name)
        new = convert(module)
        for name, weight in new.named_parameters():
            in_proj = part == "W_" and "in_proj" in name
            made = which == "stacked to split" and "out_proj" in name
            assert weight.requires_grad == (made or not (in_proj or part in name)), (part, name)
        assert all(weight.is_leaf for weight in new.parameters())


@pytest.mark.promise(number=26)
@pytest.mark.parametrize("which", ["stacked to split", "split to torch", "split to fused"])
def test_rows_that_are_frozen_beside_rows_that_are_not_are_refused(which):
    convert, module = CONVERSIONS[which], build(which)
    key = module.heads[1].W_query if which == "stacked to split" else module.W_key
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
    convert, module = CONVERSIONS[which], build(which)
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
    stacked = build("stacked")
    stacked.heads[2].dropout.p = 0.3
    words = "heads.2.dropout has p=0.3 and heads.0.dropout has p=0.25, but the new module has one"
    with pytest.raises(ValueError, match=re.escape(words)):
        stacked_to_split(stacked)
    stacked = build("stacked")
    stacked.heads[1].W_key.bias = None
    words = "heads.1.W_key has bias=False and heads.0.W_query has bias=True, but the new module has"
    with pytest.raises(ValueError, match=re.escape(words)):
        stacked_to_split(stacked)
    stacked = build("stacked")
    stacked.heads[1].forward = lambda x: x
    with pytest.raises(TypeError, match=r"heads\.1, a CausalAttention, has a forward of its own"):
        stacked_to_split(stacked)
    stacked.heads[1] = torch.nn.Linear(3, 3)
    with pytest.raises(TypeError, match=r"heads\.1 must be a CausalAttention, not a Linear"):
        stacked_to_split(stacked)


@pytest.mark.promise(number=26)
@pytest.mark.parametrize("which", [which for which in CONVERSIONS if which != "stacked to split"])
def test_biases_that_differ_are_named(which):
    convert, module = CONVERSIONS[which], build(which)
    module.out_proj.bias = None
    with pytest.raises(ValueError, match="out_proj has no bias, but the new one must; give it"):
        convert(module)
    if which != "fused to split":
        convert, module = CONVERSIONS[which], build(which)
        module.W_value.bias = None
        words = "W_value has bias=False and W_query has bias=True, but the new module has one"
        with pytest.raises(ValueError, match=words):
            convert(module)


# The same weights in other places


@pytest.mark.promise(number=6)
def test_the_order_of_stacked_heads_is_the_order_of_the_columns():
    stacked = build("stacked", d_in=D_IN)
    context_vec, attn_weights = stacked(tokens(), return_weights=True)
    assert stacked.num_heads == H
    for h, head in enumerate(stacked.heads):
        alone, its_weights = head(tokens(), return_weights=True)
        assert torch.equal(context_vec[..., h * HEAD_DIM : (h + 1) * HEAD_DIM], alone)
        assert torch.equal(attn_weights[:, h], its_weights)
