"""The contract, for MultiheadAttention: what test_torch_compatible.py does not ask of it.

It is not causal by itself: a causal attn_mask makes it so.
"""

from __future__ import annotations

import io
from itertools import permutations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from attnlib import causal_mask, split_heads
from attnlib.torch_compatible import MultiheadAttention

B, HEADS, HEAD_DIM, T = 2, 3, 5, 7
EMBED_DIM = HEADS * HEAD_DIM
MASK = causal_mask(T)
COMPILES = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own


def build(seed: int = 1, num_heads: int = HEADS, head_dim: int = HEAD_DIM) -> MultiheadAttention:
    """Return a module with random weights and biases, batch first."""
    module = MultiheadAttention(num_heads * head_dim, num_heads, batch_first=True)
    torch.manual_seed(seed)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module


def tokens(b: int = B, num_tokens: int = T, width: int = EMBED_DIM, seed: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(b, num_tokens, width, generator=generator)


def attend(module: nn.Module, x: Tensor, attn_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the result and the weights of each head."""
    return module(x, x, x, attn_mask=attn_mask, average_attn_weights=False)


def causally(module: nn.Module, x: Tensor) -> Tensor:
    return attend(module, x, causal_mask(x.shape[1]))[0]


# 2 and 3


@pytest.mark.promise(number=2)
def test_with_a_causal_mask_no_change_reaches_the_past():
    module, x = build(), tokens()
    before = causally(module, x)
    for t in range(T - 1):
        changed = x.clone()
        changed[:, t + 1 :] += 1
        after = causally(module, changed)
        assert torch.equal(after[:, : t + 1], before[:, : t + 1])
        assert (after[:, t + 1 :] != before[:, t + 1 :]).all()


@pytest.mark.promise(number=2)
def test_with_a_causal_mask_gradients_reach_the_past_and_only_the_past():
    module, x = build(), tokens().requires_grad_()
    result = causally(module, x)
    for i in range(T):
        (slope,) = torch.autograd.grad(result[1, i].sum(), x, retain_graph=True)
        expected = torch.zeros(B, T, dtype=torch.bool)
        expected[1, : i + 1] = True
        assert torch.equal(slope.ne(0).any(dim=-1), expected)


@pytest.mark.promise(number=3)
def test_with_a_causal_mask_weights_are_a_causal_average():
    _, attn_weights = attend(build(), tokens(), MASK)
    assert attn_weights.shape == (B, HEADS, T, T)
    assert (attn_weights[..., ~MASK] > 0).all()
    assert (attn_weights[..., MASK] == 0).all()
    torch.testing.assert_close(attn_weights.sum(-1), torch.ones(B, HEADS, T))


# 5, 6 and 7


@pytest.mark.promise(number=5)
def test_a_batch_equals_its_items_one_by_one():
    module, x = build(), tokens()
    result, attn_weights = attend(module, x, MASK)
    for i in range(B):
        alone, its_weights = attend(module, x[i], MASK)
        torch.testing.assert_close(alone, result[i])
        torch.testing.assert_close(its_weights, attn_weights[i])


@pytest.mark.promise(number=5)
def test_one_token_returns_its_projected_value():
    module, x = build(), tokens(num_tokens=1)
    weight, bias = module.projections()[2]
    result, attn_weights = attend(module, x)
    torch.testing.assert_close(result, module.out_proj(x @ weight.T + bias))
    assert (attn_weights == 1).all()


@pytest.mark.promise(number=6)
@pytest.mark.parametrize("order", list(permutations(range(HEADS)))[1:])
def test_the_order_of_the_heads_is_free(order):
    module, twin, x = build(), build(), tokens()
    places = torch.arange(EMBED_DIM).view(HEADS, HEAD_DIM)[list(order)].flatten()
    entries = twin.state_dict()  # in the module's own memory
    for rows in (*entries["in_proj_weight"].chunk(3), *entries["in_proj_bias"].chunk(3)):
        rows.copy_(rows[places])
    entries["out_proj.weight"].copy_(entries["out_proj.weight"][:, places])
    assert not torch.equal(twin.in_proj_weight, module.in_proj_weight)
    result, attn_weights = attend(module, x, MASK)
    same, permuted = attend(twin, x, MASK)
    torch.testing.assert_close(same, result)
    torch.testing.assert_close(permuted, attn_weights[:, list(order)])


@pytest.mark.promise(number=7)
def test_without_a_mask_permuted_tokens_permute_the_result_and_with_one_they_do_not():
    module, x = build(), tokens()
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    result, attn_weights = attend(module, x)
    moved, moved_weights = attend(module, x[:, order])
    torch.testing.assert_close(moved, result[:, order])
    torch.testing.assert_close(moved_weights, attn_weights[..., order, :][..., order])
    masked = causally(module, x[:, order])
    assert not torch.allclose(masked, causally(module, x)[:, order], atol=1e-3)


# 9 and 12


@pytest.mark.promise(number=9)
def test_memory_order_does_not_matter():
    module, x, pull = build(), tokens(), tokens(seed=3)
    slopes = []
    for scatter in (False, True):
        given = [
            y.transpose(0, 2).contiguous().transpose(0, 2) if scatter else y for y in (x, pull)
        ]
        assert given[0].is_contiguous() != scatter
        leaf = given[0].detach().requires_grad_()
        wanted = [leaf, *module.parameters()]
        slopes.append(torch.autograd.grad(causally(module, leaf), wanted, grad_outputs=given[1]))
    torch.testing.assert_close(slopes[1], slopes[0])


@pytest.mark.promise(number=9)
@pytest.mark.parametrize("num_tokens", [59, 97, 111])
def test_odd_sizes(num_tokens):
    ours = build(head_dim=37).double()
    theirs = nn.MultiheadAttention(111, HEADS, batch_first=True).double()
    theirs.load_state_dict(ours.state_dict())
    x = tokens(num_tokens=num_tokens, width=111).double()
    mask = causal_mask(num_tokens)
    torch.testing.assert_close(attend(ours, x, mask), attend(theirs, x, mask))


@pytest.mark.promise(number=12)
@pytest.mark.parametrize(("dtype", "huge"), [(torch.float32, 1e30), (torch.float16, 1e4)])
def test_a_huge_future_does_not_touch_the_past(dtype, huge):
    module, x = build().to(dtype), tokens().to(dtype)
    before = causally(module, x)
    changed = x.clone()
    changed[:, 4:] = huge
    assert torch.equal(causally(module, changed)[:, :4], before[:, :4])
    assert before.isfinite().all()


@pytest.mark.promise(number=12)
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_broken_future_reaches_the_past(broken):
    x = tokens()
    x[:, -1] = broken
    result, attn_weights = attend(build(), x, MASK)
    assert result.isnan().all()
    assert (attn_weights[..., :-1, -1] == 0).all()


# 13 and 14


@pytest.mark.promise(number=13)
def test_gradcheck():
    module = build(head_dim=2).double()
    names = [name for name, _ in module.named_parameters()]

    def function(x: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        weights = dict(zip(names, parameters, strict=True))
        options = {"attn_mask": causal_mask(3), "average_attn_weights": False}
        return functional_call(module, weights, (x, x, x), options)

    x = tokens(1, 3, 6).double()
    given = [tensor.detach().requires_grad_() for tensor in (x, *module.parameters())]
    assert torch.autograd.gradcheck(function, given)


@pytest.mark.promise(number=13)
def test_scores_near_the_end_of_float16_stay_finite():
    module, x = build(head_dim=16), tokens(width=HEADS * 16)
    queries, keys = (split_heads(x @ weight.T, HEADS) for weight, _ in module.projections()[:2])
    x = x * (1.5 * 65504 / (queries @ keys.mT).abs().max()).sqrt()
    assert causally(module.half(), x.half()).isfinite().all()


@pytest.mark.promise(number=13)
def test_float64_as_default_dtype():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        module = build()
        result = causally(module, tokens())
    finally:
        torch.set_default_dtype(before)
    assert {weight.dtype for weight in module.parameters()} == {result.dtype} == {torch.float64}


@pytest.mark.promise(number=13)
def test_dtype_and_device_carry_everything():
    module = build()
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        result, attn_weights = attend(module.to(dtype), tokens().to(dtype), MASK)
        assert result.dtype == attn_weights.dtype == dtype
        assert result.isfinite().all()
    x = tokens().half().to("meta")
    assert all(found.is_meta for found in attend(module.to("meta"), x, MASK.to("meta")))


@pytest.mark.promise(number=14)
def test_two_runs_are_bit_equal():
    module, x = build(), tokens()
    weights = list(module.parameters())
    runs = [attend(module, x, MASK) for _ in range(2)]
    slopes = [torch.autograd.grad(result.square().sum(), weights) for result, _ in runs]
    for first, second in zip((*runs[0], *slopes[0]), (*runs[1], *slopes[1]), strict=True):
        assert torch.equal(first, second)


# 16, 17 and 19


@pytest.mark.promise(number=16)
def test_saved_weights_load_and_nothing_else_is_kept():
    module, other, file = build(1), build(2), io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    assert not any(other.load_state_dict(torch.load(file, weights_only=True), strict=True))
    assert torch.equal(causally(other, tokens()), causally(module, tokens()))
    assert list(module.state_dict()) == [name for name, _ in module.named_parameters()]
    assert list(module.buffers()) == []


@pytest.mark.promise(number=19)
def test_called_with_other_weights():
    module, other, x = build(1), build(2), tokens()
    weights = dict(other.named_parameters())
    found = functional_call(module, weights, (x, x, x), {"attn_mask": MASK})[0]
    assert torch.equal(found, causally(other, x))
    assert not torch.equal(found, causally(module, x))


@pytest.mark.promise(number=19)
def test_vmap_and_gradients_per_sample():
    module, x = build(), tokens()
    weights = {name: weight.detach() for name, weight in module.named_parameters()}

    def loss(weights: dict, item: Tensor) -> Tensor:
        given = (item[None], item[None], item[None])
        return functional_call(module, weights, given, {"attn_mask": MASK})[0].square().sum()

    torch.testing.assert_close(
        vmap(lambda item: causally(module, item[None])[0])(x), causally(module, x)
    )
    per_sample = vmap(grad(loss), in_dims=(None, 0))(weights, x)
    whole = torch.autograd.grad(causally(module, x).square().sum(), list(module.parameters()))
    for slopes, expected in zip(per_sample.values(), whole, strict=True):
        torch.testing.assert_close(slopes.sum(dim=0), expected)


@pytest.mark.promise(number=19)
def test_hooks_fire():
    module, fired = build(), []
    for part in module.modules():
        part.register_forward_hook(lambda part, inputs, output: fired.append(part))
    causally(module, tokens())
    assert fired == [module.out_proj, module]


@pytest.mark.promise(number=19)
@COMPILES
def test_exports_for_any_length():
    class Causal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = build()

        def forward(self, x: Tensor) -> Tensor:
            return causally(self.attn, x)

    module, x = Causal(), tokens(num_tokens=13)
    num_tokens = torch.export.Dim("num_tokens", min=2, max=13)
    exported = torch.export.export(module, (x,), dynamic_shapes=({1: num_tokens},)).module()
    for length in (2, T, 13):
        torch.testing.assert_close(exported(x[:, :length]), module(x[:, :length]))
