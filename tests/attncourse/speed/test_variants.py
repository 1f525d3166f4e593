"""The gate before any clock starts: every variant is MultiHeadAttention, by copied weights."""

import pytest
import torch
from torch import Tensor, nn

import ways
from attncourse.speed.count import count_parameters
from attnlib import MultiHeadAttention
from support.cases import CONTEXT_LENGTH, HEAD_DIM, H, tokens
from ways import VARIANTS

FLEX = "FlexAttention, compiled"
WIDTH = H * HEAD_DIM
EAGER = pytest.mark.parametrize("name", [name for name in VARIANTS if name != FLEX])
TOLERANCE = 1e-5


def split_module(**changes: object) -> MultiHeadAttention:
    sizes = {"d_in": WIDTH, "d_out": WIDTH, "context_length": CONTEXT_LENGTH}
    torch.manual_seed(1)
    split = MultiHeadAttention(**{**sizes, "dropout": 0.0, "num_heads": H, **changes})
    for weight in split.parameters():
        nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)
    return split


def slope_in_x(module: nn.Module, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(module(x).square().sum(), x)
    return slope


@EAGER
def test_outputs_are_those_of_the_split_class(name):
    """In training and in eval, where torch's module takes other ways."""
    split = split_module(qkv_bias=True, context_length=17)
    x = tokens(num_tokens=17, d_in=WIDTH)
    with torch.no_grad():
        expected = split(x)
        module = VARIANTS[name](split)
        for mode in (True, False):
            found = module.train(mode)(x)
            torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)


@EAGER
@pytest.mark.parametrize("qkv_bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("num_tokens", [1, CONTEXT_LENGTH])
def test_with_gradients_in_float64(name, qkv_bias, num_tokens):
    split = split_module(qkv_bias=qkv_bias).double()
    x = tokens(num_tokens=num_tokens, d_in=WIDTH, dtype=torch.float64)
    module = VARIANTS[name](split)
    for mode in (True, False):
        module.train(mode)
        torch.testing.assert_close(module(x), split(x), atol=1e-12, rtol=0)
        slope, expected = slope_in_x(module, x), slope_in_x(split, x)
        torch.testing.assert_close(slope, expected, atol=1e-11, rtol=1e-11)


@EAGER
@pytest.mark.parametrize("qkv_bias", [False, True], ids=["no bias", "bias"])
def test_all_have_as_many_parameters(name, qkv_bias):
    split = split_module(qkv_bias=qkv_bias)
    assert count_parameters(VARIANTS[name](split)) == count_parameters(split)


@pytest.mark.parametrize(
    ("capability", "compiler", "dropout", "error", "words"),
    [
        ("AVX2", "g++", 0.5, ValueError, "FlexAttention has no dropout, .* has p=0.5"),
        ("DEFAULT", "g++", 0.0, RuntimeError, "AVX2 alone, and PyTorch uses DEFAULT here"),
        ("AVX2", None, 0.0, RuntimeError, r"no C\+\+ compiler was found .*clang"),
    ],
)
def test_what_flex_attention_needs(monkeypatch, capability, compiler, dropout, error, words):
    """PyTorch itself refuses only while it runs, in the words of its compiler."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(ways.shutil, "which", lambda command: compiler)
    with pytest.raises(error, match=words):
        VARIANTS[FLEX](split_module(dropout=dropout))
