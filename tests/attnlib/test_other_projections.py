"""Projections that somebody else put in the place of ours work."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

from attncourse.variants.torch_multihead import MultiheadAttention
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
from support.cases import CASES, Case, H, name, refused, tokens

quantize_dynamic = torch.ao.quantization.quantize_dynamic
QUANTISES = pytest.mark.filterwarnings(
    "ignore:torch.ao.quantization is deprecated", "ignore:torch.quantize_per_tensor"
)
PARTS = {"W_query", "W_key", "W_value", "W_qkv", "out_proj"}


class LinearWithLoRA(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.A = nn.Parameter(torch.randn(linear.in_features, 2) / 3)
        self.B = nn.Parameter(torch.randn(2, linear.out_features) / 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + x @ self.A @ self.B


class Int8Linear(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        scales = linear.weight.detach().abs().amax(dim=1) / 127
        self.register_buffer("weight", (linear.weight / scales[:, None]).round().to(torch.int8))
        self.register_buffer("scales", scales)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype) * self.scales[:, None], self.bias)


class HalfLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)


def half(linear: nn.Linear) -> nn.Module:
    made = HalfLinear(linear.in_features, linear.out_features, linear.bias is not None)
    made.load_state_dict(linear.state_dict())
    return made.half()


def sequence(linear: nn.Linear) -> nn.Module:
    return nn.Sequential(linear, nn.Linear(linear.out_features, linear.out_features), nn.Tanh())


def dynamic(linear: nn.Linear) -> nn.Module:
    return quantize_dynamic(nn.Sequential(linear), {nn.Linear}, dtype=torch.qint8)[0]


def pruned(linear: nn.Linear) -> nn.Module:
    return prune.random_unstructured(linear, "weight", amount=0.5)


def split(attribute: str, other: Callable[[nn.Linear], nn.Module]) -> MultiHeadAttention:
    module = MultiHeadAttention(15, 15, 13, 0.0, H)
    setattr(module, attribute, other(getattr(module, attribute)))
    return module


OTHERS = {
    "LoRA": LinearWithLoRA,
    "Sequential": sequence,
    "quantized": dynamic,
    "int8": Int8Linear,
    "half": half,
    "pruned": pruned,
    "weight norm": parametrizations.weight_norm,
    "spectral norm": parametrizations.spectral_norm,
}
EVERY_OTHER = pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)


def replaced(module: nn.Module, other: Callable[[nn.Linear], nn.Module]) -> nn.Module:
    """Replace every projection of a module, by the same in the same order for the same module."""
    torch.manual_seed(5)
    for part in list(module.modules()):
        for attribute, child in list(part.named_children()):
            if attribute in PARTS:
                setattr(part, attribute, other(child))
    return module


@pytest.mark.promise(number=22)
@QUANTISES
@EVERY_OTHER
@pytest.mark.parametrize("case", CASES, ids=name)
def test_every_class_takes_every_projection(case: Case, other):
    """The fused kernel and the way that returns the weights use it alike."""
    module = case.build().eval()
    found = replaced(module, other)(tokens())
    torch.testing.assert_close(found, module(tokens(), return_weights=True)[0])
    assert found.isfinite().all()


def test_a_weight_that_is_computed_is_computed_once():
    """Spectral norm takes a step each time that its weight is looked up in training."""
    module = replaced(MultiHeadAttention(11, 15, 13, 0.0, H), parametrizations.spectral_norm)
    asked = []
    norm = module.W_query.parametrizations.weight[0]
    norm.register_forward_hook(lambda *call: asked.append(1))
    module.train()(tokens())
    assert asked == [1]


@pytest.mark.parametrize("attribute", ["in_proj_weight", "q_proj_weight"])
def test_the_rebuilt_class_with_a_computed_weight(attribute):
    """As LoRA by parametrization does it: no parameter of that name is left."""

    class Doubled(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return 2 * weight

    kdim = None if attribute == "in_proj_weight" else 11
    ours = MultiheadAttention(15, 3, kdim=kdim, batch_first=True)
    doubled = copy.deepcopy(ours)
    nn.utils.parametrize.register_parametrization(doubled, attribute, Doubled())
    with torch.no_grad():
        ours.get_parameter(attribute).mul_(2)
    x, key = torch.randn(2, 7, 15), torch.randn(2, 5, ours.kdim)
    value = torch.randn(2, 5, 15)
    torch.testing.assert_close(doubled(x, key, value), ours(x, key, value))


@QUANTISES
@pytest.mark.parametrize(
    ("other", "dtype"),
    [
        (LinearWithLoRA, torch.float32),
        (lambda linear: LinearWithLoRA(linear).double(), torch.float64),
        (Int8Linear, torch.float32),
        (dynamic, torch.float32),  # it has no floating tensor at all
    ],
)
def test_a_cache_takes_the_dtype_that_is_there(other, dtype):
    fused = FusedMultiHeadAttention(11, 15, 13, 0.0, H).to(dtype).eval()
    fused.W_qkv = other(fused.W_qkv)
    cache = fused.new_cache(batch_size=2, max_tokens=7)
    x = tokens(dtype=dtype)
    with torch.no_grad():
        found = torch.cat([fused(token, cache=cache) for token in x.split(1, dim=1)], dim=1)
        rounded = {"atol": 0.05, "rtol": 0.0} if other is dynamic else {}  # by the input's range
        torch.testing.assert_close(found, fused(x), **rounded)


# Conversions copy rows of an nn.Linear, and say so


STACKED = MultiHeadAttentionWrapper(11, 5, 13, 0.0, H)
STACKED.heads[1].W_key = LinearWithLoRA(STACKED.heads[1].W_key)
FUSED = FusedMultiHeadAttention(15, 15, 13, 0.0, H)
FUSED.W_qkv = LinearWithLoRA(FUSED.W_qkv)


@pytest.mark.parametrize(
    ("which", "convert", "module"),
    [
        ("heads.1.W_key", stacked_to_split, STACKED),
        ("W_query", split_to_fused, split("W_query", LinearWithLoRA)),
        ("W_value", split_to_torch, split("W_value", LinearWithLoRA)),
        ("out_proj", split_to_stacked, split("out_proj", LinearWithLoRA)),
        ("W_qkv", fused_to_split, FUSED),
    ],
)
def test_conversions_refuse_it_in_words(which, convert, module):
    said = f"{which} is a LinearWithLoRA, not a plain nn.Linear; merge it into one first"
    with refused(TypeError, said):
        convert(module)


def test_conversions_refuse_a_pruned_weight():
    module = split("W_key", pruned)
    with refused(TypeError, "W_key is a Linear whose weight is computed, not a pl"):
        split_to_fused(module)
    prune.remove(module.W_key, "weight")
    torch.testing.assert_close(split_to_fused(module)(x := torch.randn(2, 7, 15)), module(x))
