"""What every attention class of the package must survive: one list, run over all of them."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

import reference
from cases import CASES, CONTEXT_LENGTH, HEAD_DIM, B, H, T, name, spelled_out, tokens

pytestmark = pytest.mark.parametrize("case", CASES, ids=name)


def by_head(attn_weights: Tensor) -> Tensor:
    """Return weights as (b, num_heads, num_tokens, num_tokens), of a single head too."""
    return attn_weights if attn_weights.ndim == 4 else attn_weights[:, None]


def gradients(module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return what an uneven loss sends back to the weights and to the input."""
    module = copy.deepcopy(module)
    x = x.detach().clone().requires_grad_()
    module(x).square().sum().backward()
    return {"x": x.grad, **{key: weight.grad for key, weight in module.named_parameters()}}


# Correct


@pytest.mark.parametrize("seed", range(100))
def test_equals_a_reference_in_plain_python(case, seed):
    """Outputs, weights and gradients, in float64 and float32, at random sizes."""
    draw = random.Random(seed)
    num_heads, head_dim, d_in = draw.randint(1, 3), draw.randint(1, 4), draw.randint(1, 5)
    b, num_tokens = draw.randint(1, 2), draw.randint(1, 5)
    module = case.build(
        seed,
        num_heads=num_heads,
        head_dim=head_dim,
        d_in=d_in,
        context_length=num_tokens + draw.randint(0, 3),
        qkv_bias=draw.random() < 0.5,
    ).double()
    x = tokens(b, num_tokens, d_in, seed=seed, dtype=torch.float64)
    with torch.no_grad():
        context_vec, attn_weights = module(x, return_weights=True)
    pull_context = tokens(*context_vec.shape, seed=seed + 1, dtype=torch.float64)
    pull_weights = tokens(b, attn_weights[0].numel(), 1, seed=seed + 2, dtype=torch.float64)
    pull_weights = pull_weights.view_as(by_head(attn_weights))

    parameters = reference.read(spelled_out(module))
    items = reference.numbers(x.tolist())
    contexts, weights = zip(*(reference.forward(parameters, item) for item in items), strict=True)
    made = [*reference.flat(contexts), *reference.flat(weights)]
    pulls = [*pull_context.flatten().tolist(), *pull_weights.flatten().tolist()]
    reference.backward(reference.dot(made, [reference.Number(pull) for pull in pulls]))
    values = [number.value for number in made]
    slopes = {key: list(reference.flat(entry)) for key, entry in parameters.entries.items()}
    slopes["x"] = list(reference.flat(items))
    if case.in_kernel:
        for part in ("weight", "bias")[: 1 + ("W_qkv.bias" in module.state_dict())]:
            apart = [slopes.pop(f"W_{which}.{part}") for which in ("query", "key", "value")]
            slopes[f"W_qkv.{part}"] = [number for numbers in apart for number in numbers]

    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        module, x = module.to(dtype), x.detach().to(dtype).requires_grad_()
        module.zero_grad()
        context_vec, attn_weights = module(x, return_weights=True)
        attn_weights = by_head(attn_weights)
        outputs = torch.cat([context_vec.flatten(), attn_weights.flatten()])
        expected = torch.tensor(values, dtype=torch.float64)
        assert (outputs - expected).abs().max() < tolerance
        loss = (context_vec * pull_context).sum() + (attn_weights * pull_weights).sum()
        loss.backward()
        found = {"x": x, **dict(module.named_parameters())}
        assert found.keys() == slopes.keys()
        for key, numbers in slopes.items():
            expected = torch.tensor([number.grad for number in numbers], dtype=torch.float64)
            assert (found[key].grad.flatten() - expected).abs().max() < tolerance, key


def test_changing_the_future_leaves_the_past_bit_identical(case):
    """Whatever comes after token t, outputs 0 to t stay; the changed tokens' outputs move."""
    module, x = case.build(), tokens()
    before = module(x)
    for t in range(T - 1):
        changed = x.clone()
        changed[:, t + 1 :] = tokens(num_tokens=T - 1 - t, seed=t)
        after = module(changed)
        assert torch.equal(after[:, : t + 1], before[:, : t + 1])
        assert (after[:, t + 1 :] != before[:, t + 1 :]).all()


def test_gradients_reach_the_past_and_only_the_past(case):
    """The slope of output i in token j is 0 for j > i, and not 0 for j <= i."""
    module, x = case.build(), tokens().requires_grad_()
    for b in range(B):
        for i in range(T):
            (slope,) = torch.autograd.grad(module(x)[b, i].sum(), x)
            reached = slope.ne(0).any(dim=-1)
            expected = torch.zeros(B, T, dtype=torch.bool)
            expected[b, : i + 1] = True
            assert torch.equal(reached, expected)


def test_weights_are_a_causal_average(case):
    """Not negative, rows sum to 1, exactly 0 above the diagonal and nowhere below it."""
    _, attn_weights = case.build()(tokens(), return_weights=True)
    assert attn_weights.shape == ((B, H, T, T) if case.has_heads else (B, T, T))
    past = torch.ones(T, T, dtype=torch.bool).tril()
    assert (attn_weights[..., past] > 0).all()
    assert (attn_weights[..., ~past] == 0).all()
    torch.testing.assert_close(attn_weights.sum(-1), torch.ones_like(attn_weights[..., 0]))


def test_result_has_the_width_of_all_heads(case):
    assert case.build()(tokens()).shape == (B, T, case.width())


def test_asking_for_the_weights_does_not_change_the_result(case):
    """Bit by bit, in eval and in training; up to rounding where a kernel gives no weights."""
    module, x = case.build(dropout=0.4), tokens()
    for mode in (True, False):
        module.train(mode)
        torch.manual_seed(3)
        alone = module(x)
        torch.manual_seed(3)
        context_vec, _ = module(x, return_weights=True)
        torch.testing.assert_close(context_vec, alone)
        assert case.in_kernel or torch.equal(context_vec, alone)


def test_a_batch_equals_its_items_one_by_one(case):
    """No item sees another."""
    module, x = case.build(), tokens()
    context_vec, attn_weights = module(x, return_weights=True)
    for i in range(B):
        alone, its_weights = module(x[i : i + 1], return_weights=True)
        torch.testing.assert_close(alone[0], context_vec[i])
        torch.testing.assert_close(its_weights[0], attn_weights[i])


def test_one_token_returns_its_projected_value(case):
    """Alone, a token can only attend to itself."""
    module, x = case.build(qkv_bias=True), tokens(b=1, num_tokens=1)
    parameters = reference.read(spelled_out(module))
    item = reference.numbers(x[0].tolist())
    values = [
        value
        for head in range(parameters.num_heads)
        for value in reference.project(item, *parameters.projection("W_value", head))[0]
    ]
    if "out_proj.weight" in parameters.entries:
        out_proj = (parameters.entries[f"out_proj.{part}"] for part in ("weight", "bias"))
        (values,) = reference.project([values], *out_proj)
    expected = torch.tensor([value.value for value in values])
    context_vec, attn_weights = module(x, return_weights=True)
    torch.testing.assert_close(context_vec[0, 0], expected)
    assert (attn_weights == 1).all()


def test_with_the_causal_mask_the_order_of_tokens_matters(case):
    """Permuted tokens do not just permute the output."""
    module, x = case.build(), tokens()
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    assert not torch.allclose(module(x[:, order]), module(x)[:, order], atol=1e-3)


# Shapes


@pytest.mark.parametrize(("b", "num_tokens"), [(0, T), (B, 0), (0, 0)])
def test_nothing_in_gives_nothing_out(case, b, num_tokens):
    """An empty batch, or no tokens: the right empty shape, and backward works."""
    module, x = case.build(), tokens(b, num_tokens).requires_grad_()
    context_vec, attn_weights = module(x, return_weights=True)
    assert context_vec.shape == (b, num_tokens, case.width())
    assert by_head(attn_weights).shape == (b, H if case.has_heads else 1, num_tokens, num_tokens)
    context_vec.sum().backward()
    assert x.grad.shape == x.shape
    assert all((weight.grad == 0).all() for key, weight in module.named_parameters() if "W_" in key)


def test_memory_order_does_not_matter(case):
    """Input and gradient that are not contiguous."""
    module, x = case.build(), tokens()
    scattered = x.transpose(0, 2).contiguous().transpose(0, 2)
    assert not scattered.is_contiguous()
    torch.testing.assert_close(module(scattered), module(x))
    pull = tokens(d_in=case.width(), seed=4)
    slopes = []
    for pulled in (pull, pull.transpose(0, 2).contiguous().transpose(0, 2)):
        weights = list(module.parameters())
        slopes.append(torch.autograd.grad(module(x), weights, grad_outputs=pulled))
    for contiguous, other in zip(*slopes, strict=True):
        torch.testing.assert_close(other, contiguous)


def test_odd_sizes(case):
    """Sizes that no kernel likes, against torch's own attention."""
    sizes = {"d_in": 59, "context_length": 97, "num_heads": 3, "head_dim": 37}
    module, x = case.build(**sizes), tokens(B, 97, 59)
    heads = module.heads if hasattr(module, "heads") else [spelled_out(module)]
    queries, keys, values = (
        torch.cat([getattr(head, which)(x) for head in heads], dim=-1)
        .unflatten(-1, (-1, 37))
        .transpose(1, 2)
        for which in ("W_query", "W_key", "W_value")
    )
    expected = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    expected = expected.transpose(1, 2).flatten(2)
    if hasattr(module, "out_proj"):
        expected = module.out_proj(expected)
    torch.testing.assert_close(module(x), expected)


@pytest.mark.parametrize("num_tokens", [1, CONTEXT_LENGTH - 1, CONTEXT_LENGTH])
def test_every_length_up_to_context_length(case, num_tokens):
    """And what is cut off at the end does not change what comes before."""
    module, x = case.build(), tokens(num_tokens=CONTEXT_LENGTH)
    short = module(x[:, :num_tokens])
    assert short.shape == (B, num_tokens, case.width())
    torch.testing.assert_close(short, module(x)[:, :num_tokens])


def test_the_input_is_not_changed(case):
    """Neither its numbers nor its version."""
    module, x = case.build(), tokens()
    kept = x.clone()
    module(x)
    module(x, return_weights=True)
    assert torch.equal(x, kept)
    assert x._version == 0


# Numbers at the edge


@pytest.mark.parametrize(("dtype", "huge"), [(torch.float32, 1e30), (torch.float16, 1e4)])
def test_a_huge_future_does_not_touch_the_past(case, dtype, huge):
    """As long as its projections stay finite."""
    module, x = case.build().to(dtype), tokens().to(dtype)
    before = module(x)
    for t in range(T - 1):
        changed = x.clone()
        changed[:, t + 1 :] = huge
        after = module(changed)
        assert torch.equal(after[:, : t + 1], before[:, : t + 1])
    assert before.isfinite().all()


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_broken_future_reaches_the_past(case, broken):
    """Its weight is 0, but 0 * NaN is NaN. torch's own attention does the same."""
    module, x = case.build(), tokens()
    x[:, -1] = broken
    context_vec, attn_weights = module(x, return_weights=True)
    assert context_vec.isnan().all()
    assert (attn_weights[..., :-1, -1] == 0).all()
    q = tokens(d_in=HEAD_DIM)
    v = q.clone()
    v[:, -1] = broken
    assert F.scaled_dot_product_attention(q, q, v, is_causal=True)[:, :-1].isnan().all()


def test_two_runs_are_bit_equal(case):
    """Outputs, weights and gradients."""
    module, x = case.build(), tokens()
    for first, second in zip(module(x, True), module(x, True), strict=True):
        assert torch.equal(first, second)
    first, second = gradients(module, x), gradients(module, x)
    assert all(torch.equal(first[key], second[key]) for key in first)


# Dropout


def test_dropout_does_nothing_in_eval(case):
    """The same as without dropout, twice."""
    with_dropout, without = case.build(dropout=0.5).eval(), case.build(dropout=0.0)
    assert torch.equal(with_dropout(tokens()), with_dropout(tokens()))
    assert torch.equal(with_dropout(tokens()), without(tokens()))


def test_dropout_in_training_follows_the_seed(case):
    """Differs from eval, same seed same result, another seed another result."""
    module, x = case.build(dropout=0.5), tokens()
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append(module(x))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert not torch.equal(results[0], module.eval()(x))


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5])
def test_dropout_takes_its_share_of_the_weights(case, p):
    """Within 0.01 of p; the others are scaled by 1 / (1 - p); the result uses them."""
    length = 97
    module, x = case.build(dropout=p, context_length=length), tokens(b=11, num_tokens=length)
    torch.manual_seed(5)
    context_vec, dropped = module(x, return_weights=True)
    _, whole = module.eval()(x, return_weights=True)
    past = torch.ones(length, length, dtype=torch.bool).tril()
    is_zero = dropped[..., past] == 0
    assert abs(is_zero.float().mean() - p) < 0.01
    survivors = ~is_zero
    expected = whole[..., past][survivors] / (1 - p)
    torch.testing.assert_close(dropped[..., past][survivors], expected)
    heads = module.heads if hasattr(module, "heads") else [spelled_out(module)]
    values = torch.stack([v for head in heads for v in head.W_value(x).split(HEAD_DIM, -1)], dim=1)
    remade = (by_head(dropped) @ values).transpose(1, 2).flatten(2)
    if hasattr(module, "out_proj"):
        remade = module.out_proj(remade)
    torch.testing.assert_close(context_vec, remade)


def test_dropping_nothing_and_dropping_all(case):
    """With p = 0 nothing changes, with p = 1 no weight is left, and no NaN is made."""
    x = tokens()
    module = case.build(dropout=0.0)
    assert torch.equal(module.train()(x), module.eval()(x))
    module = case.build(dropout=1.0).train()
    context_vec, attn_weights = module(x, return_weights=True)
    assert (attn_weights == 0).all()
    nothing = module.out_proj.bias if hasattr(module, "out_proj") else torch.zeros(1)
    assert (context_vec == nothing).all()


# Tools that take modules apart


def test_called_with_other_weights(case):
    """By functional_call, without touching its own."""
    module, other, x = case.build(1), case.build(2), tokens()
    with_others = functional_call(module, dict(other.named_parameters()), (x,))
    assert torch.equal(with_others, other(x))
    assert not torch.equal(with_others, module(x))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # the kernel, item by item
def test_vmap_and_gradients_per_sample(case):
    """Each sample's gradient, and their sum is the gradient of the batch."""
    module, x = case.build(), tokens()
    weights = {key: weight.detach() for key, weight in module.named_parameters()}

    def loss(weights: dict, item: Tensor) -> Tensor:
        return functional_call(module, weights, (item[None],)).square().sum()

    torch.testing.assert_close(vmap(lambda item: module(item[None])[0])(x), module(x))
    per_sample = vmap(grad(loss), in_dims=(None, 0))(weights, x)
    whole = gradients(module, x)
    for key, slopes in per_sample.items():
        assert slopes.shape == (B, *weights[key].shape)
        torch.testing.assert_close(slopes.sum(dim=0), whole[key])


def test_hooks_fire(case):
    """On every part, once per forward."""
    module, x = case.build(), tokens()
    parts = [part for part in module.modules() if not isinstance(part, nn.ModuleList)]
    fired = []
    for part in parts:
        part.register_forward_hook(lambda part, inputs, output: fired.append(part))
    module(x, return_weights=True)  # a kernel alone never calls the nn.Dropout
    assert len(fired) == len(parts)
    assert set(fired) == set(parts)


def test_compiles_as_one_graph(case):
    """With fullgraph=True; equals eager, gradients too. This backend needs no C++ compiler."""
    torch.compiler.reset()
    module, x = case.build(), tokens()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    slopes = []
    for form in (module, compiled):
        module.zero_grad()
        context_vec, attn_weights = form(x, return_weights=True)
        context_vec.square().sum().backward()
        slopes.append([weight.grad.clone() for weight in module.parameters()])
        torch.testing.assert_close(context_vec, module(x))
        torch.testing.assert_close(attn_weights, module(x, return_weights=True)[1])
    for eager, other in zip(*slopes, strict=True):
        torch.testing.assert_close(other, eager)


def test_exports_for_any_length(case):
    """By torch.export, the number of tokens left open."""
    module, x = case.build(), tokens(num_tokens=CONTEXT_LENGTH)
    num_tokens = torch.export.Dim("num_tokens", min=2, max=CONTEXT_LENGTH)
    exported = torch.export.export(module, (x,), dynamic_shapes=({1: num_tokens},)).module()
    for length in (2, T, CONTEXT_LENGTH):
        torch.testing.assert_close(exported(x[:, :length]), module(x[:, :length]))
