"""Rotary positions: the functions, and the fused class that turns its queries and keys by them."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, ones

from attnlib import FusedMultiHeadAttention, attention, causal_mask, merge_heads, split_heads
from attnlib.fused import CosSin, repeat_heads
from attnlib.rotary import rotary_cos_sin, rotate_half, rotate_interleaved
from support.cases import D_IN, B, Case, T, refused, tokens

H, KV, HEAD_DIM, BASE = 6, 2, 10, 500.0
LAYOUTS = pytest.mark.parametrize("layout", ["half", "interleaved"])
ROTATE = pytest.mark.parametrize("rotate", [rotate_half, rotate_interleaved])
# Number i of the halves is number ORDER[i] of the pairs
ORDER = [*range(0, HEAD_DIM, 2), *range(1, HEAD_DIM, 2)]


def draw(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def cos_sin(num_tokens: int = T, first: int = 0, dtype: torch.dtype = torch.float64):
    return rotary_cos_sin(torch.arange(first, first + num_tokens), HEAD_DIM, BASE, dtype)


def build(layout: str = "half", **changes) -> FusedMultiHeadAttention:
    turned = {"num_kv_heads": KV, "rotary_base": BASE, "rotary_layout": layout, "qkv_bias": True}
    return Case(FusedMultiHeadAttention).build(
        num_heads=H, head_dim=HEAD_DIM, **{**turned, **changes}
    )


# The angles


def test_cos_and_sin_by_hand():
    """Position times base to the power of -2i / head_dim, in plain Python."""
    cos, sin = rotary_cos_sin(torch.tensor([0, 3, 11]), HEAD_DIM, BASE, torch.float64)
    expected = [[p * BASE ** (-2 * i / HEAD_DIM) for i in range(HEAD_DIM // 2)] for p in (0, 3, 11)]
    for found, function in ((cos, math.cos), (sin, math.sin)):
        by_hand = torch.tensor([[function(a) for a in row] for row in expected]).double()
        torch.testing.assert_close(found, by_hand, rtol=0, atol=1e-6)
        assert found.dtype == torch.float64
    assert rotary_cos_sin(torch.arange(T), 4)[0].dtype == torch.float32
    default = rotary_cos_sin(torch.arange(T), 4)[1]
    assert torch.equal(default, rotary_cos_sin(torch.arange(T), 4, 10_000)[1])


def test_angles_in_half_precision_are_those_of_float32_rounded():
    """At position 4099 they differ by whole turns where bfloat16 counts the positions."""
    exact = cos_sin(first=4099, dtype=torch.float32)
    for found, expected in zip(cos_sin(first=4099, dtype=torch.bfloat16), exact, strict=True):
        assert torch.equal(found, expected.bfloat16())


# The two rotations


@pytest.mark.promise(number=27)
@ROTATE
def test_a_score_depends_on_the_distance_alone(rotate):
    """Of one query and one key, put at all places with room for both."""
    query, key = draw(HEAD_DIM, seed=2), draw(HEAD_DIM, seed=3)
    num_places = 101
    queries, keys = (
        rotate(x.expand(num_places, HEAD_DIM), *cos_sin(num_places)) for x in (query, key)
    )
    scores = queries @ keys.T  # (num_places, num_places)
    for distance in range(-3, 97, 7):
        same = scores.diagonal(-distance)
        torch.testing.assert_close(same, same[:1].expand_as(same), rtol=0, atol=1e-11)
    assert scores[50].unique().numel() == num_places  # and it does depend on it


@pytest.mark.promise(number=27)
def test_the_layouts_are_permutations_of_one_another():
    x = draw(B, H, T, HEAD_DIM)
    half = rotate_half(x[..., ORDER], *cos_sin())
    assert torch.equal(half, rotate_interleaved(x, *cos_sin())[..., ORDER])
    assert not torch.equal(half, rotate_interleaved(x[..., ORDER], *cos_sin()))


@pytest.mark.promise(number=27)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_values_and_gradients_are_those_of_transformers(layout):
    """Llama's rotation, and GPT-J's."""
    from transformers.models.gptj import modeling_gptj  # here: it takes seconds
    from transformers.models.llama import modeling_llama

    cos, sin = cos_sin()
    results = []
    for ours in (True, False):
        q, k = (draw(B, H, T, HEAD_DIM, seed=seed).requires_grad_() for seed in (2, 3))
        if ours:
            rotate = {"half": rotate_half, "interleaved": rotate_interleaved}[layout]
            turned = rotate(q, cos, sin), rotate(k, cos, sin)
        elif layout == "half":
            twice = (torch.cat([part, part], dim=-1)[None] for part in (cos, sin))
            turned = modeling_llama.apply_rotary_pos_emb(q, k, *twice)
        else:
            theirs = modeling_gptj.apply_rotary_pos_emb  # heads behind the tokens
            turned = (theirs(x.transpose(1, 2), sin[None], cos[None]).mT for x in (q, k))
            turned = tuple(x.mT.transpose(1, 2) for x in turned)
        pull = draw(B, H, T, HEAD_DIM, seed=4)
        slopes = torch.autograd.grad(sum((x * pull).sum() for x in turned), (q, k))
        results.append([*turned, *slopes])
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-12)


def test_the_angles_are_those_of_transformers():
    """To the bit in float32, as a released model needs them."""
    from transformers.models.llama import modeling_llama

    sizes = {"hidden_size": H * HEAD_DIM, "num_attention_heads": H}
    config = modeling_llama.LlamaConfig(
        **sizes, rope_parameters={"rope_type": "default", "rope_theta": BASE}
    )
    theirs = modeling_llama.LlamaRotaryEmbedding(config)
    positions = torch.arange(2053)
    expected = theirs(torch.zeros(1), positions[None])
    found = rotary_cos_sin(positions, HEAD_DIM, BASE, torch.float32)
    for ours, their in zip(found, expected, strict=True):
        assert torch.equal(torch.cat([ours, ours], dim=-1), their[0])


@ROTATE
def test_the_dtype_is_that_of_x(rotate):
    """Angles in more digits make the result better, and not wider."""
    x = draw(B, H, T, HEAD_DIM).bfloat16()
    found = rotate(x, *cos_sin())
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, rotate(x.double(), *cos_sin()).bfloat16())


# The class


def by_hand(module: FusedMultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    rotate = {"half": rotate_half, "interleaved": rotate_interleaved}[module.rotary_layout]
    parts = module.W_qkv(x).split([H * HEAD_DIM, KV * HEAD_DIM, KV * HEAD_DIM], dim=-1)
    queries, keys, values = (repeat_heads(split_heads(part, HEAD_DIM), H) for part in parts)
    turns = rotary_cos_sin(torch.arange(x.shape[1]), HEAD_DIM, BASE, x.dtype)
    mask = causal_mask(x.shape[1])
    context_vec, attn_weights = attention(
        rotate(queries, *turns), rotate(keys, *turns), values, mask
    )
    return module.out_proj(merge_heads(context_vec)), attn_weights


@pytest.mark.promise(number=27)
@LAYOUTS
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_the_class_is_its_functions(layout, dtype, close):
    """Outputs, weights and gradients, in the kernel and where the weights are asked for."""
    module, x = build(layout).to(dtype), tokens(dtype=dtype).requires_grad_()
    expected, weights = by_hand(module, x)
    wanted = (x, *module.parameters())
    slopes = torch.autograd.grad(expected.square().sum(), wanted)
    shown = module(x, return_weights=True)
    torch.testing.assert_close(shown[1], weights, rtol=0, atol=close)
    for context_vec in (module(x), shown[0]):
        torch.testing.assert_close(context_vec, expected, rtol=0, atol=close)
        found = torch.autograd.grad(context_vec.square().sum(), wanted)
        torch.testing.assert_close(found, slopes, rtol=10 * close, atol=10 * close)
    assert not torch.allclose(build(rotary_base=None).to(dtype)(x), expected, atol=1e-2)


@pytest.mark.promise(number=27)
@pytest.mark.promise(number=8)
@LAYOUTS
@pytest.mark.parametrize("num_kv_heads", [1, 2, 6])
@pytest.mark.parametrize("return_weights", [False, True])
def test_in_pieces_of_any_size_it_equals_the_full_pass(layout, num_kv_heads, return_weights):
    module, x = build(layout, num_kv_heads=num_kv_heads).double(), tokens(dtype=torch.float64)
    expected, attn_weights = module(x, return_weights=True)
    for pieces in ([1] * T, [T], [1, 6], [6, 1], [2, 4, 1], [3, 1, 3], [0, 5, 0, 2]):
        cache, start = module.new_cache(B, T), 0
        for piece in x.split(pieces, dim=1):
            stop = start + piece.shape[1]
            with torch.no_grad():
                found = module(piece, return_weights, cache)
            if return_weights:
                found, weights = found
                rows = attn_weights[:, :, start:stop, :stop]
                torch.testing.assert_close(weights, rows, rtol=0, atol=1e-12)
            torch.testing.assert_close(found, expected[:, start:stop], rtol=0, atol=1e-12)
            start = stop
        assert cache.num_tokens == T


@LAYOUTS
def test_the_layers_of_a_model_may_share_their_angles(layout):
    """Asked of one, given to another, with a cache or without; and they are what turns."""
    first, second, x = build(layout), build(layout, num_kv_heads=3), tokens()
    assert torch.equal(second(x, cos_sin=first.cos_sin(x)), second(x))
    cache = second.new_cache(B, T)
    with torch.no_grad():
        for piece in x.split([4, 3], dim=1):
            found = second(piece, cache=cache, cos_sin=first.cos_sin(piece, cache))
    torch.testing.assert_close(found, second(x)[:, 4:])
    none = build(rotary_base=None, num_kv_heads=3)
    none.load_state_dict(second.state_dict())
    unturned = CosSin(torch.ones(T, HEAD_DIM // 2), torch.zeros(T, HEAD_DIM // 2), 0)
    torch.testing.assert_close(second(x, cos_sin=unturned), none(x))
    assert torch.equal(none(x, cos_sin=first.cos_sin(x)), none(x))  # such a layer turns nothing
    with refused(ValueError, "rotary_base=None rotates nothing, so it has no cos and sin"):
        none.cos_sin(x)


def test_without_any_bias():
    module, x = build(qkv_bias=False, out_bias=False), tokens()
    assert list(module.state_dict()) == ["W_qkv.weight", "out_proj.weight"]
    torch.testing.assert_close(module(x), by_hand(module, x)[0])
    assert torch.equal(module(torch.zeros(B, T, D_IN)), torch.zeros(B, T, H * HEAD_DIM))


@LAYOUTS
def test_copied_moved_and_made_elsewhere(layout):
    module, x = build(layout), tokens()
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(x), module(x))
        assert repr(twin) == repr(module)
    assert f"num_kv_heads=2, rotary_base=500.0, rotary_layout='{layout}'\n" in repr(module)
    with torch.device("meta"):
        hollow = build(layout)
    assert hollow(x.to("meta")).is_meta
    hollow.to_empty(device="cpu").load_state_dict(module.state_dict())
    assert torch.equal(hollow(x), module(x))


# What is refused


@pytest.mark.promise(number=10)
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: build(rotary_base=0), ValueError, "rotary_base must be a positive, finite number"),
        (lambda: build(rotary_base=math.inf), ValueError, "a positive, finite number, not inf"),
        (lambda: build(rotary_base="9"), TypeError, "must be a positive number, not '9' (str)"),
        (lambda: build(rotary_base=True), TypeError, "a positive number, not True (bool)"),
        (lambda: build("pairs"), ValueError, "must be 'half' or 'interleaved', not 'pairs'"),
        (lambda: build(out_bias=1), TypeError, "out_bias must be True or False, not 1 (int)"),
        (lambda: build(d_out=30), ValueError, "head_dim = d_out / num_heads = 30 / 6 = 5 is odd"),
        (lambda: rotary_cos_sin(T, 4), TypeError, "positions must be a torch.Tensor, not int; try"),
        (lambda: rotary_cos_sin(ones(()), 4), ValueError, "(..., num_tokens), not a single number"),
        (lambda: rotary_cos_sin(ones(T).half(), 4), TypeError, "positions must be int, float32 or"),
        (lambda: rotary_cos_sin(ones(T), 5), ValueError, "head_dim must be even, as numbers"),
        (lambda: rotary_cos_sin(ones(T), 0), ValueError, "head_dim must be a positive int, not 0"),
        (lambda: rotary_cos_sin(ones(T), 4, -2), ValueError, "base must be a positive, finite"),
        (lambda: rotary_cos_sin(ones(T), 4, 2.0, torch.int8), TypeError, "dtype must be floating"),
    ],
)
def test_what_is_refused(call, error, words):
    with refused(error, words):
        call()


@pytest.mark.promise(number=10)
@ROTATE
@pytest.mark.parametrize(
    ("x", "cos", "sin", "error", "words"),
    [
        (ones(T, 4), ones(T, 4), ones(T, 4), ValueError, "not (7, 4) and (7, 4) for (7, 4)"),
        (ones(T, 4), ones(5, 2), ones(5, 2), ValueError, "must be (..., num_tokens, head_dim / 2)"),
        (ones(T, 4), ones(T, 2), ones(T, 1), ValueError, "not (7, 2) and (7, 1) for (7, 4)"),
        (ones(T, 5), ones(T, 2), ones(T, 2), ValueError, "not (7, 2) and (7, 2) for (7, 5)"),
        (ones(4), ones(T, 2), ones(T, 2), ValueError, "for (4,)"),
        (ones(T, 4).long(), ones(T, 2), ones(T, 2), TypeError, "x must hold floating-point numb"),
        (ones(T, 4), ones(T, 2), ones(T, 2).to("meta"), ValueError, "not on cpu and meta; try"),
        (
            ones(T, 4).to("meta"),
            ones(T, 2),
            ones(T, 2),
            ValueError,
            "must be on meta, as x is, not",
        ),
        (ones(T, 4), ones(T, 2), 1.0, TypeError, "sin must be a torch.Tensor, not float"),
    ],
)
def test_angles_for_something_else(rotate, x, cos, sin, error, words):
    with refused(error, words):
        rotate(x, cos, sin)


def test_a_base_of_numpy_is_a_number():
    assert torch.equal(build(rotary_base=np.float64(BASE))(tokens()), build()(tokens()))
