"""Checks of a module: causality, rows that sum to 1, shapes, and whether two are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec

import torch
from torch import Tensor, nn

from attncourse.checks.answers import require
from attncourse.checks.module_factory import Given, as_module
from attncourse.checks.safe_run import (
    CheckFailed,
    FaultFound,
    draw,
    evaluating,
    reporting,
    run,
)
from attncourse.checks.verdict import Verdict
from attncourse.compare import TOLERANCES, all_gradients, at_most
from attncourse.examples import seeded
from attnlib.convert import join_heads

P = ParamSpec("P")
MUCH = 64.0  # as a change of a token


def _answers_where_it_stops(check: Callable[P, Verdict]) -> Callable[P, Verdict]:
    """Let a check answer what is wrong where a module cannot be made or run."""

    @wraps(check)
    def answer(*given: P.args, **options: P.kwargs) -> Verdict:
        try:
            return check(*given, **options)
        except CheckFailed as stopped:
            faults = (stopped.finding,) if isinstance(stopped, FaultFound) else ()
            return Verdict(False, str(stopped), faults)

    return answer


def _tokens_for(module: nn.Module) -> Tensor:
    """Return random tokens that a module takes, (2, num_tokens, d_in), in its dtype."""
    linear = next((part for part in module.modules() if isinstance(part, nn.Linear)), None)
    d_in: int | None = getattr(module, "d_in", linear.in_features if linear else None)
    if d_in is None:
        raise ValueError("module has no d_in and no nn.Linear to tell its width: give x")
    x = draw(2, min(7, getattr(module, "context_length", 7)), d_in)
    return x if linear is None else x.to(linear.weight)


@torch.no_grad()
def _by_token(module: nn.Module, x: Tensor, weights: Mapping[str, Tensor] | None = None) -> Tensor:
    """Run a module in eval and return one vector for each token, (b, num_tokens, ...)."""
    with evaluating(module), seeded(0):
        result = run(module, x, weights)
    if result.ndim < 3 or result.shape[:2] != x.shape[:2]:
        shapes = f"{tuple(x.shape)} gives {tuple(result.shape)}"
        raise CheckFailed(f"{shapes}: (b, num_tokens) must come first, as in x.")
    return result.flatten(2)


@_answers_where_it_stops
def check_causal(module: Given, x: Tensor | None = None) -> Verdict:
    """Check that a module's outputs do not depend on the future.

    Equation:
        out[:, : t + 1] does not change when x[:, t + 1 :] changes, for every t

    Args:
        module: returns (b, num_tokens, ...), token by token; or a class, or what makes a module.
        x: (b, num_tokens, d_in), at least two tokens. Without it, random ones.

    >>> check_causal(nn.Identity(), torch.ones(1, 3, 2))
    Causal: no output moved by a single bit when later tokens changed (2 cuts tried).
    """
    module = as_module(module)
    x = _tokens_for(module) if x is None else x
    num_tokens = x.shape[1]
    if num_tokens < 2:
        raise ValueError(f"x has {num_tokens} token; a future needs at least 2")
    before = _by_token(module, x)
    require(not before.isnan().any(), "An output is NaN.")
    rounding = TOLERANCES.get(x.dtype, 1e-5) / 10 * max(1.0, float(before.abs().max()))
    largest = 0.0
    for t in range(num_tokens - 1):
        moved = _moved(module, x, before, t, 1.0)
        # A rounding error does not grow with the change; a leak, however small, does
        grown = _moved(module, x, before, t, MUCH) if moved.any() else moved
        if not (torch.maximum(moved, grown) <= rounding).all():  # NaN does not pass
            first = int(moved.nonzero()[0])
            changed = f"when the tokens after position {t} changed, output {first} moved by"
            return Verdict(False, f"Not causal: {changed} {moved[first].item():.4g}.")
        largest = max(largest, float(moved.max()))
    bound = f"{at_most(largest, floor=rounding / 10):.0e}, a rounding error,"
    said = f"outputs moved by at most {bound}" if largest else "no output moved by a single bit"
    cuts = f"{num_tokens - 1} cut{'s' if num_tokens > 2 else ''} tried"
    return Verdict(True, f"Causal: {said} when later tokens changed ({cuts}).")


def _moved(module: nn.Module, x: Tensor, before: Tensor, t: int, change: float) -> Tensor:
    """Return by how much each output up to t moves when the tokens after t change."""
    changed = x.clone()
    changed[:, t + 1 :] += change
    moved: Tensor = (_by_token(module, changed) - before)[:, : t + 1].abs().amax(dim=(0, 2))
    return moved


@_answers_where_it_stops
def check_rows_sum_to_one(module: Given, x: Tensor | None = None) -> Verdict:
    """Check that each token's attention weights sum to 1, without asking for the weights.

    Equation:
        values = 1 and out_proj = identity, so out[b, t, :] = sum over j of attn_weights[b, t, j]

    Raises:
        ValueError: module has no W_value, itself or in its heads.

    >>> from attnlib import CausalAttention
    >>> check_rows_sum_to_one(CausalAttention(3, 2, context_length=6, dropout=0.0))
    Rows: the attention weights of every token sum to 1 within 1e-05.
    """
    module = as_module(module)
    x = (_tokens_for(module) if x is None else x).clone()
    x[..., 0] = 1  # so that the first column of W_value alone makes every value
    weights = {}
    for name, parameter in module.named_parameters():
        part, _, kind = name.rpartition(".")
        if part == "out_proj" or f".{part}".endswith(".W_value"):
            weights[name] = torch.zeros_like(parameter)
            if part == "out_proj" and kind == "weight":
                weights[name].fill_diagonal_(1)
            elif kind == "weight":
                weights[name][:, 0] = 1
    if not any(name.endswith("W_value.weight") for name in weights):
        raise ValueError("module has no W_value.weight, itself or in its heads")
    sums = _by_token(module, x, weights)
    off = (sums - 1).abs().amax(dim=2)
    b, token = (off == off.max()).nonzero()[0].tolist() if off.isfinite().all() else (0, 0)
    tolerance = TOLERANCES[x.dtype]
    if not off.max() <= tolerance:  # NaN does not pass
        total = sums[b, token, (sums[b, token] - 1).abs().argmax()].item()
        return Verdict(False, f"The attention weights of token {token} sum to {total:.4g}, not 1.")
    within = f"within {tolerance:.0e}"
    return Verdict(True, f"Rows: the attention weights of every token sum to 1 {within}.")


@_answers_where_it_stops
def check_shapes(module: Given) -> Verdict:
    """Check that a module keeps batch and tokens in their places, for several sizes.

    >>> from attnlib import CausalAttention
    >>> check_shapes(CausalAttention(3, 2, context_length=6, dropout=0.0))
    Shapes: (b, num_tokens, 3) gives (b, num_tokens, 2), for 4 sizes of b and num_tokens.
    """
    module = as_module(module)
    most = _tokens_for(module)
    num_tokens, d_in = most.shape[1:]
    sizes = ((1, 1), (2, num_tokens), (3, (num_tokens + 1) // 2), (5, num_tokens))
    made = [_by_token(module, most[:1, :length].repeat(b, 1, 1)) for b, length in sizes]
    widths = {result.shape[2] for result in made}
    if len(widths) > 1:
        return Verdict(False, f"The width changes with b or num_tokens: {sorted(widths)}.")
    out = f"(b, num_tokens, {widths.pop()}), for {len(sizes)} sizes of b and num_tokens"
    return Verdict(True, f"Shapes: (b, num_tokens, {d_in}) gives {out}.")


@_answers_where_it_stops
def check_same(a: Given, b: Given, x: Tensor | None = None) -> Verdict:
    """Check that two modules compute the same from the same parameters.

    Compared are the outputs, and the gradients of x and of all parameters. a gives b its
    parameters; of stacked heads and a weight split the stacked heads give theirs.

    >>> from attnlib import MultiHeadAttention, MultiHeadAttentionWrapper
    >>> stacked = MultiHeadAttentionWrapper(3, 2, context_length=6, dropout=0.0, num_heads=2)
    >>> check_same(stacked, MultiHeadAttention(3, 4, context_length=6, dropout=0.0, num_heads=2))
    Same within 1e-05, with the same parameters: outputs and gradients.
    """
    a, b = as_module(a), as_module(b)
    x = (_tokens_for(a) if x is None else x).detach().requires_grad_()
    giver = b if _is_stacked(b) and not _is_stacked(a) else a
    given = {name: part.detach().requires_grad_() for name, part in giver.named_parameters()}
    made = []
    for module in (a, b):
        weights = given if _is_stacked(module) == _is_stacked(giver) else join_heads(given)
        have = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
        want = {name: tuple(weight.shape) for name, weight in weights.items()}
        for name in want | have:
            here, there = have.get(name, "missing"), want.get(name, "missing")
            if here != there:
                said = f"{name} is {here} in one module, {there} in the other."
                return Verdict(False, f"Not to be compared: {said}")
        made.append(_outputs_and_gradients(module, x, weights, [x, *given.values()]))
    tolerance = TOLERANCES[x.dtype]
    for kind, first in made[0].items():
        second = made[1][kind]
        if first.shape != second.shape:
            shapes = f"{tuple(first.shape)} and {tuple(second.shape)}"
            return Verdict(False, f"Not the same: the shapes of the {kind} differ, {shapes}.")
        largest = (first - second).abs().max().item()
        if not largest <= tolerance * first.abs().max().item():  # NaN does not pass
            return Verdict(False, f"Not the same: the {kind} differ by up to {largest:.4g}.")
    said = f"Same within {tolerance:.0e}, with the same parameters: outputs and gradients."
    return Verdict(True, said)


def _is_stacked(module: nn.Module) -> bool:
    return any(name.startswith("heads.") for name, _ in module.named_parameters())


def _outputs_and_gradients(
    module: nn.Module, x: Tensor, weights: Mapping[str, Tensor], inputs: list[Tensor]
) -> dict[str, Tensor]:
    made = {}
    with torch.enable_grad(), evaluating(module), seeded(0):
        made["outputs"] = outputs = run(module, x, weights)
        with reporting():
            made["gradients"] = all_gradients(outputs, inputs)
    return {kind: tensor.detach() for kind, tensor in made.items()}
