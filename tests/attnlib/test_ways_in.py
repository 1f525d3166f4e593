"""Promises 33 and 34: weights of other implementations, and usual surgery on a module."""

import functools

import pytest
import torch
from torch import nn

from attnlib import (
    FusedMultiHeadAttention,
    causal_mask,
    fused_to_gpt2,
    fused_to_llama,
    gpt2_to_fused,
    llama_to_fused,
    split_to_fused,
    split_to_torch,
    stacked_to_split,
    torch_to_split,
)
from attnlib.fused import repeat_heads
from support.cases import CASES, SEVERAL_HEADS, B, Case, T, name, refused

ALL = pytest.mark.parametrize("case", CASES, ids=name)
CLOSE = {"atol": 1e-6, "rtol": 0.0}


def drawn(module: nn.Module) -> nn.Module:
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.2)
    return module.eval()


@pytest.mark.promise(number=33)
@pytest.mark.parametrize("options", [{}, {"bias": False}], ids=["bias", "no bias"])
def test_from_pytorchs_module_and_back(options):
    theirs, x = (
        drawn(nn.MultiheadAttention(15, 3, batch_first=True, **options)),
        torch.randn(B, T, 15),
    )
    split = torch_to_split(theirs, context_length=13)
    torch.testing.assert_close(split(x), theirs(x, x, x, attn_mask=causal_mask(T))[0], **CLOSE)
    again = split_to_torch(split).state_dict()
    assert all(torch.equal(again[key], entry) for key, entry in theirs.state_dict().items())


@pytest.mark.parametrize("option", [{"kdim": 7}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_options_of_pytorchs_module_without_a_place(option):
    with refused(ValueError, f"the module has {next(iter(option))}"):
        torch_to_split(nn.MultiheadAttention(15, 3, **option), context_length=13)


@pytest.mark.promise(number=33)
def test_from_gpt2_and_back():
    from transformers.models.gpt2 import modeling_gpt2  # here: it takes seconds

    config = modeling_gpt2.GPT2Config(n_embd=15, n_head=3, n_positions=13)
    config._attn_implementation = "eager"
    theirs, x = drawn(modeling_gpt2.GPT2Attention(config)), torch.randn(B, T, 15)
    ours = gpt2_to_fused(theirs.state_dict(), num_heads=3, context_length=13).eval()
    future = torch.zeros(T, T).masked_fill(causal_mask(T), -torch.inf)
    torch.testing.assert_close(ours(x), theirs(x, attention_mask=future)[0], **CLOSE)
    again, given = fused_to_gpt2(ours), theirs.state_dict()
    assert all(torch.equal(again[key], given[key]) for key in again)
    as_linear = {key: entry.t() for key, entry in again.items()}  # nanoGPT's
    assert torch.equal(gpt2_to_fused(as_linear, 3, 13).eval()(x), ours(x))


@pytest.mark.promise(number=33)
@pytest.mark.parametrize("attention_bias", [False, True])
def test_from_llama_and_back(attention_bias):
    from transformers.models.llama import modeling_llama

    sizes = {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = modeling_llama.LlamaConfig(**sizes, attention_bias=attention_bias)
    config._attn_implementation = "eager"
    theirs, x = drawn(modeling_llama.LlamaAttention(config, 0)), torch.randn(B, T, 24)
    base = config.rope_parameters["rope_theta"]
    ours = llama_to_fused(theirs.state_dict(), 4, context_length=13, rotary_base=base).eval()
    turns = modeling_llama.LlamaRotaryEmbedding(config)(x, torch.arange(T)[None])
    future = torch.zeros(T, T).masked_fill(causal_mask(T), -torch.inf)
    torch.testing.assert_close(ours(x), theirs(x, turns, future)[0], **CLOSE)
    again, given = fused_to_llama(ours), theirs.state_dict()
    assert again.keys() == given.keys()
    assert all(torch.equal(again[key], given[key]) for key in again)


def test_states_and_modules_that_have_no_place():
    plain = FusedMultiHeadAttention(4, 4, 3, 0.0, 2)
    with refused(ValueError, "the state has no 'c_proj.weight'; its first entries are c_attn"):
        gpt2_to_fused({"c_attn.weight": torch.ones(4, 12), "a": torch.ones(1)}, 2, 3)
    with refused(ValueError, "out_proj.weight would be (4, 6), but for d_in=4"):
        shapes = {"q_proj": (4, 4), "k_proj": (4, 4), "v_proj": (4, 4), "o_proj": (4, 6)}
        llama_to_fused({f"{n}.weight": torch.ones(s) for n, s in shapes.items()}, 2, 3, 1e4)
    with refused(ValueError, "the module has rotary_base=None, and Llama's attention has no place"):
        fused_to_llama(plain)
    with refused(ValueError, "the module has num_kv_heads=1, and GPT-2's attention has no place"):
        fused_to_gpt2(FusedMultiHeadAttention(4, 4, 3, 0.0, 2, num_kv_heads=1))


@pytest.mark.promise(number=34)
@ALL
def test_dropout_may_be_exchanged_for_an_identity(case):
    module, x = case.build(dropout=0.5), case.tokens()
    expected = module.eval()(x)
    for part in list(module.modules()):
        if "dropout" in dict(part.named_children()):
            part.dropout = nn.Identity()
    assert torch.equal(module.train()(x), expected)
    if case.in_kernel:
        module.dropout = nn.AlphaDropout(0.5)
        with refused(
            TypeError, "dropout is a AlphaDropout, but kernels and conversions know nn.Dr"
        ):
            module(x)


@pytest.mark.promise(number=34)
@ALL
def test_a_second_tensor_by_mistake_names_the_argument(case):
    module, x = case.build(), case.tokens()
    for other in (x, causal_mask(T), None):
        with refused(TypeError, "return_weights, the second argument of forward, must be True"):
            module(x, other)


@pytest.mark.promise(number=34)
@pytest.mark.parametrize("case", SEVERAL_HEADS, ids=name)
def test_a_wrapped_forward_is_converted_and_another_one_is_not(case):
    """accelerate, for instance, wraps the forward of a module, and says so by functools.wraps."""
    convert = {"MultiHeadAttentionWrapper": stacked_to_split, "MultiHeadAttention": split_to_fused}
    convert = convert.get(case.cls.__name__, fused_to_gpt2)
    module = Case(case.cls, d_out_is_total=case.d_out_is_total).build(d_in=15)
    own = module.forward
    module.forward = functools.wraps(own)(lambda *given, **options: own(*given, **options))
    assert convert(module)
    module.forward = lambda x: x
    with refused(TypeError, "has a forward of its own, which would be lost"):
        convert(module)


@pytest.mark.promise(number=34)
def test_a_class_of_an_earlier_import_is_named_as_such():
    earlier = type("MultiHeadAttention", (nn.Module,), {})
    with refused(TypeError, "MultiHeadAttention, not a MultiHeadAttention of an earlier import"):
        split_to_fused(earlier())


def test_heads_that_share_no_heads():
    with refused(ValueError, "num_kv_heads=0 does not divide num_heads=4"):
        repeat_heads(torch.ones(2, 0, 3), 4)
