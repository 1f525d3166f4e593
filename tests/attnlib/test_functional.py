"""The pure functions: attention, its mask, and the way into heads and back."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from attnlib import attention, causal_mask, merge_heads, split_heads
from support.cases import HEAD_DIM, B, H, T, nested, refused

NUM_KEYS, VALUE_DIM = 17, 19


def draw(*shape: int, seed: int, **how: object) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), **how)


def three(num_keys: int = T, value_dim: int = HEAD_DIM, **how: object) -> tuple[Tensor, ...]:
    shapes = (B, H, T, HEAD_DIM), (B, H, num_keys, HEAD_DIM), (B, H, num_keys, value_dim)
    return tuple(draw(*shape, seed=seed, **how) for seed, shape in enumerate(shapes))


# The mask


def test_the_mask_is_true_where_a_query_may_not_see():
    expected = [[key > query for key in range(T)] for query in range(T)]
    assert causal_mask(T).tolist() == expected
    assert causal_mask(T).dtype == torch.bool


@pytest.mark.parametrize("num_queries", range(T + 1))
def test_the_mask_of_the_newest_tokens_is_the_last_rows(num_queries):
    """Aligned to the lower right; the upper left would be the first rows."""
    assert torch.equal(causal_mask(num_queries, T), causal_mask(T)[T - num_queries :])


# Attention against torch's own, whose mask is True where a query MAY see


def test_with_the_causal_mask():
    queries, keys, values = three()
    context_vec, _ = attention(queries, keys, values, causal_mask(T))
    by_flag = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    by_mask = F.scaled_dot_product_attention(queries, keys, values, attn_mask=~causal_mask(T))
    torch.testing.assert_close(context_vec, by_flag)
    torch.testing.assert_close(context_vec, by_mask)


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
@pytest.mark.parametrize("shape", [None, (T, NUM_KEYS), (B, 1, T, NUM_KEYS), (B, H, 1, NUM_KEYS)])
def test_without_a_mask_and_with_any_that_broadcasts(shape, dtype, close):
    queries, keys, values = three(NUM_KEYS, VALUE_DIM, dtype=dtype)
    is_masked = draw(*(shape or (T, NUM_KEYS)), seed=5) > (0.5 if shape else torch.inf)
    is_masked[..., 0] = False
    found, attn_weights = attention(queries, keys, values, is_masked if shape else None)
    expected = F.scaled_dot_product_attention(queries, keys, values, attn_mask=~is_masked)
    torch.testing.assert_close(found, expected, rtol=0, atol=close)
    assert found.shape == (B, H, T, VALUE_DIM)
    assert torch.equal(attn_weights == 0, is_masked.expand(B, H, T, NUM_KEYS))


@pytest.mark.promise(number=32)
@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize("num_keys", [T, 0])
def test_a_query_without_a_key_gets_0(num_keys):
    """Weights, context and gradients, as in torch's kernels; the other queries are as they were."""
    queries, keys, values = (x.requires_grad_() for x in three(num_keys))
    is_masked = torch.zeros(T, num_keys, dtype=torch.bool)
    is_masked[4] = True
    with torch.autograd.detect_anomaly(check_nan=True):
        context_vec, attn_weights = attention(queries, keys, values, is_masked)
        slopes = torch.autograd.grad(context_vec.square().sum(), (queries, keys, values))
    assert context_vec[..., 4, :].eq(0).all()
    assert attn_weights[..., 4, :].eq(0).all()
    expected = F.scaled_dot_product_attention(queries, keys, values, attn_mask=~is_masked)
    torch.testing.assert_close(context_vec, expected)
    expected = torch.autograd.grad(expected.square().sum(), (queries, keys, values))
    torch.testing.assert_close(slopes, expected)


def test_scores_are_scaled_by_the_root_of_the_width():
    """Two keys whose scores differ by 3 * 4 / sqrt(16) = 3."""
    queries, keys = torch.zeros(1, 16), torch.zeros(2, 16)
    queries[0, 5], keys[1, 5] = 3.0, 4.0
    _, attn_weights = attention(queries, keys, torch.zeros(2, 1))
    torch.testing.assert_close(attn_weights.log().diff().item(), 3.0)


def test_the_arguments_are_not_changed():
    given = (*three(), causal_mask(T))
    kept = [tensor.clone() for tensor in given]
    attention(*given)
    for tensor, before in zip(given, kept, strict=True):
        assert torch.equal(tensor, before)
        assert tensor._version == 0


def test_dropout_falls_on_the_weights_after_softmax():
    queries, keys, values = three()
    _, whole = attention(queries, keys, values, causal_mask(T))
    seen = []

    def halve_the_first(attn_weights: Tensor) -> Tensor:
        seen.append(attn_weights)
        return attn_weights * torch.tensor([0.5, *[1.0] * (T - 1)])

    context_vec, attn_weights = attention(
        queries, keys, values, causal_mask(T), dropout=halve_the_first
    )
    assert len(seen) == 1
    assert torch.equal(seen[0], whole)
    assert torch.equal(attn_weights[..., 0], whole[..., 0] / 2)
    assert torch.equal(attn_weights[..., 1:], whole[..., 1:])
    torch.testing.assert_close(context_vec, attn_weights @ values)


@pytest.mark.promise(number=25)
def test_a_mask_may_be_mapped_and_never_enlarges_the_result():
    """Three masks for the same scores: by vmap; as a leading dimension they do not fit."""
    queries, keys, values = (x[0, 0] for x in three())
    masks = torch.stack([causal_mask(T), causal_mask(T).roll(2, dims=0), causal_mask(T).mT])
    expected = [attention(queries, keys, values, mask) for mask in masks]
    mapped = torch.func.vmap(attention, in_dims=(None, None, None, 0))(queries, keys, values, masks)
    for part, parts in zip(mapped, zip(*expected, strict=True), strict=True):
        torch.testing.assert_close(part, torch.stack(parts))
    with refused(ValueError, f"(..., num_queries, num_keys) = ({T}, {T}), not (3, {T}, {T})"):
        attention(queries, keys, values, masks)
    with refused(ValueError, f"= ({B}, 1, {T}, {T}), not ({B}, {T}, {T})"):
        attention(*(x[:, :1] for x in three()), causal_mask(T).expand(B, T, T))


@pytest.mark.promise(number=25)
def test_queries_may_be_shared_by_all_and_have_a_mask_for_each():
    queries, keys, values = three()
    is_masked = torch.stack([causal_mask(T), causal_mask(T).mT])[:, None]  # (B, 1, T, T)
    alike = queries[:1].expand_as(queries)
    for found, expected in zip(
        attention(queries[:1], keys, values, is_masked),
        attention(alike, keys, values, is_masked),
        strict=True,
    ):
        torch.testing.assert_close(found, expected)


def test_keys_and_values_may_be_shared_by_all():
    queries, keys, values = three(NUM_KEYS, VALUE_DIM)
    found = attention(queries, keys[:1, :1], values[0, 0])
    expected = attention(queries, *(x[:1, :1].expand(B, H, *x.shape[2:]) for x in (keys, values)))
    torch.testing.assert_close(found, expected)
    many = torch.ones(389, 1, 1)  # a number that Python makes anew each time
    assert torch.equal(attention(many, many, many)[0], many)


# What is wrong is refused in words


def inputs(**changes: object) -> dict[str, object]:
    """Return arguments of attention: 3 queries, 5 keys, head_dim 2, value_dim 7."""
    given = {"queries": torch.ones(3, 2), "keys": torch.ones(5, 2), "values": torch.ones(5, 7)}
    return {**given, **changes}


SCORES = "is_masked must be broadcastable to (..., num_queries, num_keys) = (3, 5), not "


@pytest.mark.promise(number=25)
@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"queries": [1.0]}, TypeError, "queries must be a torch.Tensor, not list; try torch.tens"),
        ({"queries": torch.ones(3, 2).int()}, TypeError, "queries must hold floating-point number"),
        ({"values": torch.ones(5)}, ValueError, "values must be (..., num_tokens, width), not"),
        ({"keys": torch.ones(5, 3)}, ValueError, "must have one width, head_dim, not 2 and 3"),
        ({"values": torch.ones(4, 7)}, ValueError, "equally many tokens, not 5 and 4"),
        ({"keys": torch.ones(5, 2).double()}, TypeError, "queries are torch.float32; try keys.to("),
        ({"values": torch.ones(5, 7, device="meta")}, ValueError, "are on cpu; try values.to("),
        (
            {"queries": torch.ones(2, 1, 3, 2), "values": torch.ones(3, 4, 5, 7)},
            ValueError,
            "queries and values must agree in all dimensions but the last two, or be 1 there, "
            "not (2, 1, 3, 2) and (3, 4, 5, 7)",
        ),
        ({"keys": nested}, TypeError, "keys must not be a nested tensor; try torch.nested.to_padd"),
        ({"is_masked": True}, TypeError, "is_masked must be a torch.Tensor, not bool"),
        ({"is_masked": torch.zeros(3, 5)}, TypeError, "not torch.float32; try is_masked.bool()"),
        ({"is_masked": torch.zeros(3, 6).bool()}, ValueError, SCORES + "(3, 6)"),
        ({"is_masked": torch.zeros(3).bool()}, ValueError, SCORES + "(3,)"),
        (
            {"is_masked": torch.zeros(3, 5, device="meta").bool()},
            ValueError,
            "is_masked is on meta,",
        ),
        (
            {"queries": torch.ones(2, 3, 2), "is_masked": torch.zeros(4, 3, 5).bool()},
            ValueError,
            "(..., num_queries, num_keys) = (2, 3, 5), not (4, 3, 5)",
        ),
        ({"dropout": 0.1}, TypeError, "dropout must be a function, for instance an nn.Dropout"),
    ],
)
def test_what_attention_refuses(changes, error, words):
    if changes.get("keys") is nested:
        changes = {"keys": nested(2)}
    with refused(error, words):
        attention(**inputs(**changes))
    attention(**inputs())


@pytest.mark.promise(number=25)
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: causal_mask(2.5), TypeError, "num_queries must be an int >= 0, not 2.5 (float)"),
        (lambda: causal_mask(-1), ValueError, "num_queries must be an int >= 0, not -1"),
        (lambda: causal_mask(2, "3"), TypeError, "num_keys must be an int >= 0, not '3' (str)"),
        (lambda: causal_mask(5, 3), ValueError, "num_queries=5 is more than num_keys=3, but"),
        (lambda: split_heads([[[1.0]]], 1), TypeError, "x must be a torch.Tensor, not list"),
        (lambda: split_heads(torch.ones(T, 6), 2), ValueError, "d_out), not 2-d, (7, 6); for one"),
        (
            lambda: split_heads(torch.ones(B, T, 6), 4),
            ValueError,
            "6 is not a multiple of head_dim=4",
        ),
        (lambda: split_heads(torch.ones(B, T, 6), 0), ValueError, "head_dim must be a positive"),
        (lambda: merge_heads(torch.ones(B, T, 6)), ValueError, "head_dim), not 3-d, (2, 7, 6);"),
        (
            lambda: merge_heads(nested(2)),
            TypeError,
            "x must not be a nested tensor; try torch.nested",
        ),
    ],
)
def test_what_the_others_refuse(call, error, words):
    with refused(error, words):
        call()


# Without a mask no place is special, and no head ever is


@pytest.mark.promise(number=7)
def test_without_a_mask_permuted_tokens_permute_the_result():
    queries, keys, values = three(dtype=torch.float64)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    context_vec, attn_weights = attention(queries, keys, values)
    moved = attention(queries[:, :, order], keys[:, :, order], values[:, :, order])
    torch.testing.assert_close(moved[0], context_vec[:, :, order], rtol=0, atol=1e-14)
    torch.testing.assert_close(moved[1], attn_weights[..., order, :][..., order])
    only_keys_moved = attention(queries, keys[:, :, order], values[:, :, order])
    torch.testing.assert_close(only_keys_moved[0], context_vec, rtol=0, atol=1e-14)


# Into heads and back


def test_split_heads_gives_each_head_its_columns():
    x = draw(B, T, H * HEAD_DIM, seed=1)
    heads = split_heads(x, head_dim=HEAD_DIM)
    assert heads.shape == (B, H, T, HEAD_DIM)
    for h in range(H):
        assert torch.equal(heads[:, h], x[..., h * HEAD_DIM : (h + 1) * HEAD_DIM])


def test_merge_heads_puts_them_side_by_side():
    heads = draw(B, H, T, HEAD_DIM, seed=1)
    assert torch.equal(merge_heads(heads), torch.cat(heads.unbind(dim=1), dim=-1))
