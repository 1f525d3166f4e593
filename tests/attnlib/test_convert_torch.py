"""The weights of the split class in PyTorch's own module: the same function."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from attnlib import (
    MultiHeadAttention,
    causal_mask,
    split_to_torch,
    stacked_to_split,
)
from attnlib.torch_compatible import MultiheadAttention
from support.cases import CASES, CONTEXT_LENGTH, HEAD_DIM, B, H, T, from_torch

(STACKED,) = (case for case in CASES if case.cls.__name__ == "MultiHeadAttentionWrapper")
BOTH = pytest.mark.parametrize("cls", [nn.MultiheadAttention, MultiheadAttention])
HEADS = pytest.mark.parametrize("num_heads", [1, 2, 3, 12])
BIAS = pytest.mark.parametrize("qkv_bias", [False, True], ids=["no bias", "bias"])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
PARTS = ("W_query", "W_key", "W_value")


def randomised(module: nn.Module) -> nn.Module:
    """Give every parameter random values, biases included."""
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    return module


def split_module(num_heads: int = H, dtype: torch.dtype = torch.float32, **changes) -> nn.Module:
    """Return a split module of one width with random weights and biases."""
    width = num_heads * HEAD_DIM
    sizes = {"d_in": width, "d_out": width, "context_length": CONTEXT_LENGTH, "dropout": 0.0}
    return randomised(MultiHeadAttention(**{**sizes, "num_heads": num_heads, **changes})).to(dtype)


def tokens(module: nn.Module, num_tokens: int = T) -> Tensor:
    """Return random token vectors that fit the module's output projection."""
    weight = module.out_proj.weight
    generator = torch.Generator().manual_seed(2)
    return torch.randn(B, num_tokens, len(weight), generator=generator, dtype=weight.dtype)


def attend(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return context vectors and weights per head, batch first, of either kind of module."""
    if isinstance(module, MultiHeadAttention):
        return module(x, return_weights=True)
    x = x if module.batch_first else x.transpose(0, 1)
    mask = causal_mask(T)
    result, attn_weights = module(x, x, x, attn_mask=mask, average_attn_weights=False)
    return result if module.batch_first else result.transpose(0, 1), attn_weights


def packed_like_torch(gradients: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return what belongs to W_query, W_key and W_value under the names of PyTorch's module."""
    found = {name: x for name, x in gradients.items() if not name.startswith(PARTS)}
    for kind in ("weight", "bias"):
        if f"W_query.{kind}" in gradients:
            found[f"in_proj_{kind}"] = torch.cat([gradients[f"{W}.{kind}"] for W in PARTS])
    return found


def everything(module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return outputs, weights and gradients, the gradients under the names of PyTorch's module."""
    x = x.clone().requires_grad_()
    context_vec, attn_weights = attend(module, x)
    loss = context_vec.square().sum() + (attn_weights * attn_weights.detach().cos()).sum()
    named = {"x": x, **dict(module.named_parameters())}
    slopes = torch.autograd.grad(loss, list(named.values()))
    gradients = packed_like_torch(dict(zip(named, slopes, strict=True)))
    return {"context_vec": context_vec, "attn_weights": attn_weights, **gradients}


def assert_same(one: nn.Module, other: nn.Module, ignore: tuple[str, ...] = ()) -> None:
    """Assert that two modules give the same outputs, weights and gradients."""
    x = tokens(one)
    expected, found = everything(one, x), everything(other, x)
    assert found.keys() - {*ignore} == expected.keys() - {*ignore}
    for name in found.keys() - {*ignore}:
        tolerance = TOLERANCE[x.dtype]
        close = {"atol": tolerance, "rtol": tolerance}
        torch.testing.assert_close(found[name], expected[name], **close, msg=f"{name}\n".__add__)


def assert_same_state(one: nn.Module, other: nn.Module) -> None:
    """Assert that two state dicts are equal bit by bit, and share no memory."""
    assert list(one.state_dict()) == list(other.state_dict())
    for name, entry in one.state_dict().items():
        twin = other.state_dict()[name]
        assert torch.equal(entry, twin)
        assert entry.dtype == twin.dtype
        assert entry.data_ptr() != twin.data_ptr()


# From the split class to PyTorch's


@pytest.mark.promise(number=4)
@HEADS
@BIAS
@DTYPES
def test_split_to_torch_is_the_same_function(num_heads, qkv_bias, dtype):
    split = split_module(num_heads, dtype, qkv_bias=qkv_bias)
    module = split_to_torch(split)
    assert type(module) is nn.MultiheadAttention
    assert module.batch_first
    assert_same(split, module)


@pytest.mark.promise(number=4)
@HEADS
@BIAS
@DTYPES
def test_split_there_and_back(num_heads, qkv_bias, dtype):
    split = split_module(num_heads, dtype, qkv_bias=qkv_bias, dropout=0.3)
    again = from_torch(split_to_torch(split), CONTEXT_LENGTH)
    assert_same_state(again, split)
    assert repr(again) == repr(split)


def test_stacked_heads_too():
    """From head to head to one product to PyTorch: three classes, one function."""
    stacked = STACKED.build(d_in=H * HEAD_DIM, qkv_bias=True)
    module = split_to_torch(stacked_to_split(stacked))
    x = tokens(module)
    expected = stacked(x, return_weights=True)
    torch.testing.assert_close(attend(module, x), expected)


def test_the_mask_has_to_be_passed():
    split = split_module()
    module, x = split_to_torch(split), tokens(split)
    assert not torch.allclose(module(x, x, x)[0], split(x))


def test_our_module_loads_what_split_to_torch_makes():
    split = split_module(qkv_bias=True)
    width = split.d_out
    ours = MultiheadAttention(width, H, batch_first=True)
    ours.load_state_dict(split_to_torch(split).state_dict(), strict=True)
    assert_same(split, ours)


@BOTH
def test_without_qkv_bias_a_new_module_needs_a_word(cls):
    split = split_module()
    state = split_to_torch(split).state_dict()
    new = cls(split.d_out, H, batch_first=True)
    with pytest.raises(RuntimeError, match=r'Missing key.*"in_proj_bias"'):
        new.load_state_dict(state, strict=True)
    new.in_proj_bias = None
    new.load_state_dict(state, strict=True)
    assert_same(split, new)


def test_d_in_must_be_d_out():
    split = MultiHeadAttention(11, 15, CONTEXT_LENGTH, 0.0, H)
    words = (
        "d_in=11 is not d_out=15, but nn.MultiheadAttention has one width, embed_dim, for its "
        "query and its result"
    )
    with pytest.raises(ValueError, match=words):
        split_to_torch(split)


# What is kept


@pytest.mark.parametrize("training", [True, False])
def test_mode_device_and_dropout_are_kept(training):
    split = split_module(dropout=0.3, dtype=torch.bfloat16).train(training)
    module = split_to_torch(split)
    assert {part.training for part in module.modules()} == {training}
    assert {weight.dtype for weight in module.parameters()} == {torch.bfloat16}
    assert module.dropout == 0.3
    assert all(weight.is_meta for weight in split_to_torch(split.to("meta")).parameters())


def test_no_random_number_is_drawn_and_nothing_is_shared():
    split = split_module(qkv_bias=True)
    before = {name: entry.clone() for name, entry in split.state_dict().items()}
    state = torch.get_rng_state()
    module = split_to_torch(split)
    assert torch.equal(torch.get_rng_state(), state)
    with torch.no_grad():
        for weight in module.parameters():
            weight.zero_()
    assert all(torch.equal(entry, before[name]) for name, entry in split.state_dict().items())
