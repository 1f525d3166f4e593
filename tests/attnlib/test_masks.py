"""Promise 32: is_masked and positions, in every class with several heads, against left-out keys."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from attnlib import FusedMultiHeadAttention, causal_mask, merge_heads
from attnlib.fused import fused_attention, newest_mask
from support.cases import SEVERAL_HEADS, B, Case, H, T, name, projected, refused, spelled_out

EACH = pytest.mark.parametrize("case", SEVERAL_HEADS, ids=name)
PLACE = torch.arange(T)
DOCUMENT = torch.tensor([[0, 0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 1, 1, 2]])


def padding(count: int) -> Tensor:
    """Return which of the tokens are padding: the first ones of sequence 1, (b, num_tokens)."""
    return torch.stack([PLACE < 0, count > PLACE])


MASKS = {
    "padding on the left": padding(3)[:, None, None, :],
    "padding on the right": padding(3).flip(1)[:, None, None, :],
    "documents": (DOCUMENT[:, :, None] != DOCUMENT[:, None, :])[:, None],
    "sliding window": PLACE[:, None] - PLACE >= 3,
    "another for each head": (PLACE[:, None] + PLACE + torch.arange(H)[:, None, None]) % 3 == 0,
    "some keys": PLACE % 3 == 1,
    "nothing": torch.zeros((), dtype=torch.bool),
}
EVERY = pytest.mark.parametrize("is_masked", MASKS.values(), ids=MASKS)


def built(case: Case, **changes: object) -> tuple[nn.Module, Tensor]:
    return case.build(dtype=torch.float64, **changes).eval(), case.tokens(dtype=torch.float64)


def without_masked_keys(module: nn.Module, x: Tensor, is_masked: Tensor) -> Tensor:
    """Return what each query makes of its own keys, one query at a time."""
    queries, keys, values = (projected(module, W, x) for W in ("W_query", "W_key", "W_value"))
    may_attend = ~(is_masked | causal_mask(T)).expand(B, H, T, T)
    context_vec = torch.zeros_like(queries)
    for b, h, t in itertools.product(range(B), range(H), range(T)):
        own = may_attend[b, h, t]
        if own.any():
            scores = keys[b, h, own] @ queries[b, h, t] / queries.shape[-1] ** 0.5
            context_vec[b, h, t] = scores.softmax(dim=0) @ values[b, h, own]
    merged = merge_heads(context_vec)
    out_proj = getattr(spelled_out(module), "out_proj", nn.Identity())
    return out_proj(merged)


@pytest.mark.promise(number=32)
@EACH
@EVERY
def test_a_mask_leaves_keys_out(case, is_masked):
    """Outputs with weights and without, and gradients; a query without any key gets 0."""
    module, x = built(case)
    x.requires_grad_()
    expected = without_masked_keys(module, x, is_masked)
    slopes = torch.autograd.grad(expected.square().sum(), x)
    context_vec, attn_weights = module(x, return_weights=True, is_masked=is_masked)
    for found in (context_vec, module(x, is_masked=is_masked)):
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found.square().sum(), x), slopes)
    whole = (is_masked | causal_mask(T)).expand(B, H, T, T)
    assert torch.equal(attn_weights == 0, whole)
    sums = attn_weights.sum(dim=-1)
    torch.testing.assert_close(sums, (~whole.all(dim=-1)).to(sums))


@pytest.mark.promise(number=32)
@EACH
def test_two_layers_deep_in_training_padding_on_the_left_is_no_nan(case):
    module, x = built(case, d_in=15, d_out=15 if case.d_out_is_total else 5)
    module.train()
    x = torch.cat([x, x[..., :4]], dim=-1).requires_grad_()
    out = module(module(x, is_masked=MASKS["padding on the left"]))
    out.square().sum().backward()
    assert out.isfinite().all()
    assert x.grad.isfinite().all()


@pytest.mark.promise(number=32)
@EACH
@pytest.mark.parametrize(
    ("is_masked", "error", "words"),
    [
        (torch.zeros(T, T), TypeError, "is_masked must be bool (True: may not attend), not torch"),
        (torch.zeros(T, T + 1).bool(), ValueError, f"= ({B}, {H}, {T}, {T}), not ({T}, {T + 1})"),
        (torch.zeros(B, T, T).bool(), ValueError, f"({B}, {H}, {T}, {T}), not ({B}, {T}, {T})"),
        (torch.zeros(3, B, H, T, T).bool(), ValueError, "must be broadcastable to (..., num_q"),
        (True, TypeError, "is_masked must be a torch.Tensor, not bool"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(case, is_masked, error, words):
    module, x = case.build(), case.tokens()
    with refused(error, words):
        module(x, is_masked=is_masked)


def rotary(**changes: object) -> FusedMultiHeadAttention:
    torch.manual_seed(1)
    options = {"num_kv_heads": 2, "rotary_base": 100.0, "dtype": torch.float64, **changes}
    return FusedMultiHeadAttention(11, 24, 13, 0.0, 4, **options).eval()


@pytest.mark.promise(number=32)
@pytest.mark.parametrize("rotary_base", [None, 100.0])
@torch.no_grad()
def test_padding_on_the_left_with_a_cache(rotary_base):
    """Each sequence, in pieces of any sizes, is what it is alone without its padding."""
    module = rotary(rotary_base=rotary_base)
    x, is_padding = torch.randn(B, T, 11, dtype=torch.float64), padding(3)
    positions = (~is_padding).cumsum(dim=1) - 1
    for sizes in ([T], [4, 1, 2], [1, 3, 3]):
        cache, found, start = module.new_cache(B, T), [], 0
        for size in sizes:
            stop = start + size
            own = {"is_masked": is_padding[:, None, None, :stop], "cache": cache}
            own |= {"positions": positions[:, start:stop]}
            found.append(module(x[:, start:stop], **own))
            start = stop
        found = torch.cat(found, dim=1)
        for b, first in enumerate((0, 3)):
            torch.testing.assert_close(found[b, first:], module(x[b : b + 1, first:])[0])


@pytest.mark.promise(number=32)
def test_packed_documents_are_what_they_are_alone():
    module, x = rotary(), torch.randn(B, T, 11, dtype=torch.float64)
    starts = torch.tensor([[0, 0, 0, 3, 3, 5, 5], [0, 1, 1, 1, 1, 1, 6]])
    found = module(x, is_masked=MASKS["documents"], positions=PLACE - starts)
    for b in range(B):
        for start in starts[b].unique().tolist():
            own = starts[b] == start
            torch.testing.assert_close(found[b, own], module(x[b : b + 1, own])[0])


@pytest.mark.promise(number=32)
def test_cos_sin_of_another_step_is_refused():
    module, x = rotary(), torch.randn(B, 1, 11, dtype=torch.float64)
    cache, first = module.new_cache(B, T), module.cos_sin(x)
    with torch.no_grad():
        module(x, cache=cache, cos_sin=first)
        with refused(ValueError, "cos_sin is for tokens that follow 0 others, but 1 are in the"):
            module(x, cache=cache, cos_sin=first)
        with refused(TypeError, "cos_sin must be what cos_sin() of the module returns, not tuple"):
            module(x, cache=cache, cos_sin=tuple(first))
        with refused(ValueError, "positions have no effect beside cos_sin"):
            module(x, cos_sin=first, positions=PLACE[:1])


@pytest.mark.promise(number=32)
@pytest.mark.filterwarnings("ignore")  # causal_lower_right says which kernels a CPU lacks
def test_on_cuda_several_new_tokens_get_the_same_mask():
    """causal_lower_right, made without a GPU."""
    for_cpu, for_cuda = (newest_mask(3, T, torch.device(kind)) for kind in ("cpu", "cuda"))
    queries, keys = torch.randn(B, H, 3, 8), torch.randn(B, H, T, 8)
    by_bias = nn.functional.scaled_dot_product_attention(queries, keys, keys, attn_mask=for_cuda)
    torch.testing.assert_close(by_bias, fused_attention(queries, keys, keys))
    assert torch.equal(for_cpu, ~causal_mask(3, T))


@pytest.mark.promise(number=32)
@torch.no_grad()
def test_beams_and_a_roll_back():
    """A cache that is reordered and cut is the cache of those tokens."""
    module, x = rotary(), torch.randn(B, T, 11, dtype=torch.float64)
    cache, index = module.new_cache(B, T), torch.tensor([1, 1])
    module(x[:, :5], cache=cache)
    cache.truncate(4)
    cache.reorder(index)
    found = module(x[:, 4:], cache=cache)
    expected = module(torch.cat([x[index, :4], x[:, 4:]], dim=1))
    torch.testing.assert_close(found, expected[:, 4:])
    with refused(ValueError, "num_tokens=8 is more than the 7 tokens that the cache holds"):
        cache.truncate(8)
    with refused(ValueError, f"index must be int64, (batch_size) = ({B},), not torch.int32"):
        cache.reorder(index.int())


def test_a_cache_made_under_autocast_has_its_dtype():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert rotary().new_cache(B, T).keys.dtype == torch.bfloat16
