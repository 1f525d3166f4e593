"""With a cache, token by token or in pieces of any size, the result is that of the full pass."""

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor, nn

from attnlib import FusedMultiHeadAttention
from attnlib.cache import KeyValueCache
from support.cases import CONTEXT_LENGTH, HEAD_DIM, B, Case, T, refused, tokens

H = 6
MAX_TOKENS = 11
PIECES = [
    [stop - start for start, stop in pairwise([0, *cuts, T])]
    for chosen in product([False, True], repeat=T - 1)
    for cuts in [[place for place, cut in enumerate(chosen, start=1) if cut]]
]


def build(num_kv_heads: int = 2, **changes) -> FusedMultiHeadAttention:
    case = Case(FusedMultiHeadAttention, num_kv_heads=num_kv_heads)
    return case.build(num_heads=H, **{"qkv_bias": True, **changes})


def in_pieces(module: nn.Module, x: Tensor, pieces: list[int], cache: KeyValueCache) -> Tensor:
    with torch.no_grad():
        return torch.cat([module(piece, cache=cache) for piece in x.split(pieces, 1)], dim=1)


def bits(cache: KeyValueCache) -> tuple[int, bytes, bytes]:
    """Return all that a cache holds, what was never written included."""
    parts = (part.contiguous().view(torch.uint8) for part in (cache.keys, cache.values))
    return cache.num_tokens, *(part.numpy().tobytes() for part in parts)


# Equal to the full pass


@pytest.mark.promise(number=8)
@pytest.mark.parametrize(
    ("num_kv_heads", "dtype", "tolerance"),
    [
        (1, torch.float32, 1e-5),
        (2, torch.float64, 1e-12),
        (3, torch.float32, 1e-5),
        (6, torch.float32, 1e-5),
        (2, torch.bfloat16, 0.02),
        (2, torch.float16, 0.02),
    ],
)
def test_in_pieces_of_any_size_it_equals_the_full_pass(num_kv_heads, dtype, tolerance):
    module, x = build(num_kv_heads).to(dtype), tokens(dtype=dtype)
    expected = module(x)
    for pieces in PIECES:
        cache = module.new_cache(B, MAX_TOKENS)
        assert cache.keys.dtype == cache.values.dtype == dtype
        found = in_pieces(module, x, pieces, cache)
        torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)
        assert cache.num_tokens == T


def test_what_lies_beyond_the_last_token_is_never_read():
    module, x = build(), tokens()
    cache = module.new_cache(B, MAX_TOKENS)
    for part in (cache.keys, cache.values):
        part.fill_(torch.nan)
    torch.testing.assert_close(in_pieces(module, x, [2, 4, 1], cache), module(x))
    assert cache.keys[:, :, T:].isnan().all()


@pytest.mark.parametrize("return_weights", [False, True])
def test_under_autocast(return_weights):
    """The cache has the dtype of the weights; what autocast makes is kept in it as it is."""
    module, x = build(), tokens()
    cache = module.new_cache(B, T)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        expected = module(x)
        found = [module(piece, return_weights, cache) for piece in x.split([2, 1, 4], 1)]
    found = torch.cat([piece[0] if return_weights else piece for piece in found], dim=1)
    assert found.dtype == torch.bfloat16
    assert cache.keys.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("made_inside", [False, True])
def test_in_inference_mode_and_after_it(made_inside):
    module, x = build(), tokens()
    cache = module.new_cache(B, T)
    with torch.inference_mode():
        cache = module.new_cache(B, T) if made_inside else cache
        found = torch.cat([module(piece, cache=cache) for piece in x[:, :3].split([2, 1], 1)], 1)
    found = torch.cat([found, in_pieces(module, x[:, 3:], [4], cache)], dim=1)
    torch.testing.assert_close(found, module(x).detach())


# Its size


def test_it_is_filled_in_place():
    """No step copies what is already there."""
    module = build()
    cache = module.new_cache(B, T)
    places = cache.keys.data_ptr(), cache.values.data_ptr()
    keys, values = cache.write(*tokens(2 * B * 2, 3, HEAD_DIM).view(2, B, 2, 3, HEAD_DIM))
    assert (keys.data_ptr(), values.data_ptr()) == places
    assert keys.shape == values.shape == (B, 2, 3, HEAD_DIM)


def test_repr_says_how_full_it_is():
    cache = build().new_cache(B, MAX_TOKENS)
    in_pieces(build(), tokens(), [2, 5], cache)
    assert repr(cache) == (
        "KeyValueCache(7 of 11 tokens, batch_size=2, num_kv_heads=2, head_dim=5, "
        "dtype=torch.float32, device=cpu)"
    )


# What is refused, and leaves the cache as it was


@pytest.mark.promise(number=10)
@pytest.mark.parametrize(("held", "more"), [(0, MAX_TOKENS + 1), (9, 3), (MAX_TOKENS, 1)])
def test_an_overrun_changes_nothing(held, more):
    module, x = build(), tokens(num_tokens=CONTEXT_LENGTH)
    cache = module.new_cache(B, MAX_TOKENS)
    in_pieces(module, x[:, :held], [held], cache)
    before = bits(cache)
    words = (
        f"the cache holds {held} tokens and has room for max_tokens={MAX_TOKENS}; {more} more "
        f"would make {held + more}; try a larger max_tokens, or cache.reset() to start anew"
    )
    with torch.no_grad(), refused(ValueError, words):
        module(x[:, :more], cache=cache)
    assert bits(cache) == before
    rest = MAX_TOKENS - held
    found = in_pieces(module, x[:, held:MAX_TOKENS], [rest], cache)
    torch.testing.assert_close(found, module(x[:, :MAX_TOKENS])[:, held:])


def test_a_cache_is_no_place_for_gradients():
    """Neither the weights' nor the input's; frozen ones need no no_grad."""
    words = "a cache carries no gradients; call the module under torch.no_grad() or"
    module, x = build(), tokens()
    cache = module.new_cache(B, T)
    before = bits(cache)
    with refused(ValueError, words):
        module(x, cache=cache)
    module.requires_grad_(False)
    with refused(ValueError, words):
        module(x.clone().requires_grad_(), cache=cache)
    assert bits(cache) == before
    torch.testing.assert_close(module(x, cache=cache), module(x))
    assert not cache.keys.requires_grad


KEYS = torch.ones(B, 2, 3, HEAD_DIM)
SIZES = (KEYS[:1], KEYS[:, :1], KEYS[..., :1])
FOR = "batch_size=2, num_kv_heads=2, head_dim=5, dtype=torch.float32, device=cpu, not for "


@pytest.mark.promise(number=25)
@pytest.mark.parametrize(
    ("keys", "values", "error", "words"),
    [
        (KEYS, KEYS.clone().requires_grad_(), ValueError, "a cache carries no gradients; call"),
        *((x, x, ValueError, f"the cache is for {FOR}keys of batch_size=") for x in SIZES),
        (KEYS.double(), KEYS.double(), ValueError, "head_dim=5, dtype=torch.float64, device=cpu;"),
        (
            KEYS.to("meta"),
            KEYS.to("meta"),
            ValueError,
            "device=meta; create it with new_cache() of",
        ),
        (KEYS, KEYS[:, :, :2], ValueError, FOR + "values of batch_size=2, num_kv_heads=2"),
        (KEYS, KEYS.double(), ValueError, "not for values of batch_size=2"),
        (KEYS, KEYS[:1], ValueError, "not for values of batch_size=1"),
        (KEYS[0], KEYS[0], ValueError, "not for keys of shape (2, 3, 5)"),
        (KEYS, KEYS[0], ValueError, "not for values of shape (2, 3, 5)"),
        (KEYS, KEYS.long(), TypeError, "values must hold floating-point numbers, not torch.int64"),
        (KEYS, None, TypeError, "values must be a torch.Tensor, not NoneType"),
    ],
)
def test_it_is_written_whole_or_not_at_all(keys, values, error, words):
    cache = build().new_cache(B, T)
    before = bits(cache)
    with refused(error, words):
        cache.write(keys, values)
    assert bits(cache) == before


@pytest.mark.promise(number=25)
@pytest.mark.parametrize("return_weights", [False, True])
def test_it_advances_only_when_forward_succeeded(return_weights):
    """A projection that fails in the middle: the same piece can be given again."""
    module, x = build(), tokens()
    cache = module.new_cache(B, T)
    in_pieces(module, x[:, :3], [3], cache)

    def fail(*call: object) -> None:
        raise RuntimeError("out of memory")

    hook = module.out_proj.register_forward_pre_hook(fail)
    for _ in range(2):
        with torch.no_grad(), refused(RuntimeError, "out of memory"):
            module(x[:, 3:5], return_weights, cache)
        assert cache.num_tokens == 3
    hook.remove()
    torch.testing.assert_close(in_pieces(module, x[:, 3:], [2, 2], cache), module(x)[:, 3:])


@pytest.mark.parametrize("max_tokens", [CONTEXT_LENGTH + 1, 10 * CONTEXT_LENGTH])
def test_a_cache_is_at_most_as_long_as_the_context(max_tokens):
    """Whether asked for or brought along."""
    words = (
        f"a cache of max_tokens={max_tokens} is larger than context_length={CONTEXT_LENGTH}; "
        f"try max_tokens={CONTEXT_LENGTH} or a larger context_length"
    )
    with refused(ValueError, words):
        build().new_cache(B, max_tokens)
    cache = build(context_length=max_tokens).new_cache(B, max_tokens)
    with torch.no_grad(), refused(ValueError, words):
        build()(tokens(), cache=cache)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((0, 5), ValueError, "batch_size must be a positive int, not 0"),
        ((2, 0), ValueError, "max_tokens must be a positive int, not 0"),
        ((2.0, 5), TypeError, "batch_size must be a positive int, not 2.0 (float)"),
    ],
)
def test_new_cache_checks_its_arguments(arguments, error, words):
    with refused(error, words):
        build().new_cache(*arguments)


def test_something_that_is_no_cache():
    words = "cache must be what new_cache returns, or None, not tuple"
    with torch.no_grad(), refused(TypeError, words):
        build()(tokens(), cache=())
