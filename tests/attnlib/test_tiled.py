"""Attention over tiles of keys is attention, and never makes a row of weights."""

import pytest
import torch
from torch import Tensor

from attnlib import attention, causal_mask, tiled_attention
from support.cases import HEAD_DIM, B, H, LargestTensor, T

VALUE_DIM = 19
TILES = (1, 2, 3, 5, T, 64)


def three(num_tokens: int = T, **how: object) -> list[Tensor]:
    draw = torch.Generator().manual_seed(11)
    widths = HEAD_DIM, HEAD_DIM, VALUE_DIM
    return [torch.randn(B, H, num_tokens, width, generator=draw, **how) for width in widths]


def slopes(function, inputs: list[Tensor], direction: Tensor) -> tuple[Tensor, ...]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    return torch.autograd.grad(function(*leaves), leaves, direction)


def whole(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return attention(queries, keys, values, causal_mask(queries.shape[-2]))[0]


@pytest.mark.promise(number=1)
@pytest.mark.parametrize("tile_size", TILES)
def test_it_equals_attention_forward_and_backward(tile_size):
    inputs = three(dtype=torch.float64)
    expected = whole(*inputs)
    torch.testing.assert_close(tiled_attention(*inputs, tile_size), expected, rtol=0, atol=1e-12)
    direction = torch.randn(expected.shape, generator=torch.Generator().manual_seed(3)).double()
    found = slopes(lambda *x: tiled_attention(*x, tile_size), inputs, direction)
    for slope, other in zip(found, slopes(whole, inputs, direction), strict=True):
        torch.testing.assert_close(slope, other, rtol=0, atol=1e-12)


@pytest.mark.promise(number=2)
@pytest.mark.parametrize("tile_size", TILES)
def test_the_future_changes_no_bit_of_the_past(tile_size):
    inputs = three()
    before = tiled_attention(*inputs, tile_size)
    for t in range(T - 1):
        changed = [x.clone() for x in inputs]
        for x in changed:
            x[:, :, t + 1 :] *= -1e6
        after = tiled_attention(*changed, tile_size)
        assert torch.equal(after[:, :, : t + 1], before[:, :, : t + 1])
        assert not torch.equal(after[:, :, t + 1 :], before[:, :, t + 1 :])


@pytest.mark.promise(number=13)
@pytest.mark.promise(number=24)
@pytest.mark.parametrize("tile_size", [1, 3, T])
def test_first_and_second_derivatives(tile_size):
    queries, keys, values = (x[:1, :2] for x in three(num_tokens=5, dtype=torch.float64))
    inputs = [x.requires_grad_() for x in (queries[..., :3], keys[..., :3], values[..., :2])]
    assert torch.autograd.gradcheck(lambda *x: tiled_attention(*x, tile_size), inputs)
    assert torch.autograd.gradgradcheck(lambda *x: tiled_attention(*x, tile_size), inputs)


@pytest.mark.promise(number=24)
def test_a_penalty_on_gradients_has_the_gradients_of_attention():
    """Where the slope that comes in needs no gradient itself: a sum of the results."""
    found = []
    for function in (whole, lambda *x: tiled_attention(*x, tile_size=3)):
        leaves = [x.requires_grad_() for x in three(dtype=torch.float64)]
        first = torch.autograd.grad(function(*leaves).sum(), leaves, create_graph=True)
        penalty = sum(slope.square().sum() for slope in first)
        found.append(torch.autograd.grad(penalty, leaves))
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-12)
    assert all(slope.abs().max() > 0.1 for slope in found[0])


@pytest.mark.promise(number=24)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("backward_inside", [False, True])
def test_under_autocast_gradients_err_at_most_twice_as_much_as_those_of_attention(
    dtype, backward_inside
):
    inputs, direction = three(num_tokens=59), torch.randn(B, H, 59, VALUE_DIM)
    exact = slopes(whole, [x.double() for x in inputs], direction.double())

    def errors(function) -> list[float]:
        leaves = [x.clone().requires_grad_() for x in inputs]
        with torch.autocast("cpu", dtype=dtype):
            result = function(*leaves)
            if backward_inside:
                found = torch.autograd.grad(result, leaves, direction.to(result.dtype))
        if not backward_inside:
            found = torch.autograd.grad(result, leaves, direction.to(result.dtype))
        pairs = zip(found, exact, strict=True)
        return [(slope - right).abs().max().item() for slope, right in pairs]

    pairs = zip(errors(lambda *x: tiled_attention(*x, 7)), errors(whole), strict=True)
    for error, its_error in pairs:
        assert error <= 2 * its_error
        assert error < 1e-5  # one precision, float32, there and back


def test_under_autocast_dtypes_may_differ_and_the_widest_counts():
    queries, keys, values = three()
    mixed = (queries.double(), keys, values.bfloat16())
    with pytest.raises(TypeError, match=r"keys are torch\.float32, queries are torch\.float64"):
        tiled_attention(*mixed)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = tiled_attention(*mixed)
    assert found.dtype == torch.bfloat16
    exact = whole(*(x.double() for x in mixed))
    assert torch.equal(found, exact.bfloat16())


@pytest.mark.promise(number=13)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_errs_no_more_than_twice_what_pytorch_does(dtype):
    inputs = [x.to(dtype) for x in three(num_tokens=59)]
    exact = whole(*(x.double() for x in inputs))
    by_torch = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True)
    found = tiled_attention(*inputs, tile_size=7)
    assert found.dtype == dtype
    assert (found - exact).abs().max() <= 2 * (by_torch - exact).abs().max()


def test_scores_that_float32_cannot_exponentiate():
    """The largest score grows by 200 from tile to tile: exp of it would be infinite."""
    queries = torch.full((T, 1), 200.0, dtype=torch.float64)
    keys = torch.arange(T, dtype=torch.float64)[:, None]
    values = torch.arange(T, dtype=torch.float64)[:, None]
    for order in (torch.arange(T), torch.arange(T).flip(0)):
        context_vec = tiled_attention(queries, keys[order], values[order], tile_size=2)
        largest = values[order].cummax(dim=0).values
        torch.testing.assert_close(context_vec, largest)


@pytest.mark.promise(number=17)
def test_nothing_of_the_size_of_the_weights_is_made_forward_or_backward():
    num_tokens, tile_size = 101, 5
    inputs = [x.requires_grad_() for x in three(num_tokens)]
    with LargestTensor() as made:
        tiled_attention(*inputs, tile_size).sum().backward()
    assert 0 < made.numbers <= B * H * num_tokens * VALUE_DIM
    with LargestTensor() as made:
        whole(*inputs).sum().backward()
    assert made.numbers == B * H * num_tokens * num_tokens


@pytest.mark.promise(number=9)
@pytest.mark.parametrize("shape", [(0, H, T), (B, 0, T), (B, H, 0), (B, H, 1), (T,)])
def test_no_texts_no_tokens_one_token_no_batch(shape):
    inputs = [torch.ones(*shape, width, requires_grad=True) for width in (5, 5, 3)]
    context_vec = tiled_attention(*inputs, tile_size=2)
    context_vec.sum().backward()
    assert torch.equal(context_vec, torch.ones(*shape, 3))
    assert all(x.grad.shape == x.shape for x in inputs)


@pytest.mark.promise(number=11)
def test_the_arguments_are_not_changed():
    inputs = [x.requires_grad_() for x in three()]
    kept = [x.detach().clone() for x in inputs]
    tiled_attention(*inputs, tile_size=3).sum().backward()
    for x, before in zip(inputs, kept, strict=True):
        assert torch.equal(x, before)
        assert x._version == 0


# torch.compile itself makes an instance of an autograd function while it traces
@pytest.mark.filterwarnings("ignore:.*Function.. should not:DeprecationWarning")
@pytest.mark.promise(number=19)
def test_compiled_mapped_and_differentiated_by_functions():
    inputs = three(dtype=torch.float64)
    expected = tiled_attention(*inputs, 3)
    compiled = torch.compile(tiled_attention, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs, 3), expected)
    mapped = torch.func.vmap(lambda *x: tiled_attention(*x, 3))(*inputs)
    torch.testing.assert_close(mapped, expected)
    slope = torch.func.grad(lambda x: tiled_attention(x, *inputs[1:], 3).sum())(inputs[0])
    other = torch.func.grad(lambda x: whole(x, *inputs[1:]).sum())(inputs[0])
    torch.testing.assert_close(slope, other, rtol=0, atol=1e-12)


@pytest.mark.promise(number=24)
@pytest.mark.parametrize(
    "mapped", [(0, None, None), (None, 0, None), (None, None, 0), (0, 1, None)]
)
def test_any_of_the_three_can_be_mapped_alone(mapped):
    """The others are the same for all; forward and per-sample gradients."""
    inputs = [x[0] if dim is None else x for x, dim in zip(three(), mapped, strict=True)]
    if mapped[1] == 1:
        inputs[1] = inputs[1].transpose(0, 1)
    results = []
    for function in (whole, lambda *x: tiled_attention(*x, tile_size=3)):

        def loss(*x, function=function):
            return function(*x).square().sum()

        one = torch.func.vmap(function, in_dims=mapped)(*inputs)
        slope = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2)), in_dims=mapped)(*inputs)
        results.append((one, *slope))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.promise(number=24)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_forward_mode_is_refused():
    with pytest.raises(NotImplementedError, match="forward mode AD"):
        torch.func.jvp(tiled_attention, tuple(three()), tuple(three()))


@pytest.mark.promise(number=10)
@pytest.mark.parametrize(
    ("changed", "kind", "words"),
    [
        ({"queries": [1.0]}, TypeError, "queries must be a torch.Tensor, not list"),
        ({"keys": torch.ones(2, 3).int()}, TypeError, "keys must hold floating-point numbers"),
        ({"queries": torch.ones(3)}, ValueError, r"queries must be \(..., num_tokens, width\)"),
        ({"values": torch.ones(5, 3)}, ValueError, "equally many tokens, not 2 and 5"),
        ({"values": torch.ones(7, 2, 3)}, ValueError, r"not \(2, 3\) and values \(7, 2, 3\)"),
        ({"queries": torch.ones(5, 3)}, ValueError, r"not \(5, 3\) and keys \(2, 3\)"),
        ({"keys": torch.ones(2, 3).double()}, TypeError, "keys are torch.float64, queries are"),
        ({"keys": torch.ones(2, 7)}, ValueError, "one width, head_dim, not 3 and 7"),
        ({"tile_size": 0}, ValueError, "tile_size must be a positive int, not 0"),
        ({"tile_size": 2.0}, TypeError, "tile_size must be a positive int, not 2.0"),
    ],
)
def test_what_is_wrong_is_refused_in_words(changed, kind, words):
    right = {"queries": torch.ones(2, 3), "keys": torch.ones(2, 3), "values": torch.ones(2, 3)}
    with pytest.raises(kind, match=words):
        tiled_attention(**(right | changed))
