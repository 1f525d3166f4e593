"""The questions about a class, in the order of examine. Each returns what is wrong, or None."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.checks.diagnosis.comparison import (
    CONTEXT_LENGTH,
    D_IN,
    DROPOUT,
    HEAD_DIM,
    NUM_TOKENS,
    B,
    Comparison,
    close,
)
from attncourse.checks.findings import Finding
from attncourse.checks.safe_run import FaultFound, call, draw, has_own_lines, run
from attncourse.tracing.operations import Operation, SourceLine
from attncourse.tracing.tracer import statements_of
from attnlib.functional import causal_mask
from attnlib.modules import MultiHeadAttention

FAR = 1e6  # how far apart scores are: further than the numbers that people mask with


def it_returns_something(pair: Comparison) -> Finding | None:
    """Make the class and run it once: a stub returns None."""
    mine, _ = pair.build()
    x = pair.usual_x()
    try:
        result = call(mine, x, sizes=pair.sizes())
    except FaultFound as found:
        if found.finding.step == "stub":
            raise
        wrong = it_has_the_parameters(pair)
        if wrong is None:
            raise
        return wrong
    if result is not None:
        return None
    forward = inspect.unwrap(type(mine).forward).__code__
    if not has_own_lines(forward):
        return Finding("stub")
    name, statements = statements_of(forward)
    end = statements[max(statements)]
    return Finding("result.none", SourceLine(name, end.line, end.text))


# Parameters


def it_has_the_parameters(pair: Comparison) -> Finding | None:
    """Compare names and shapes of the parameters with ours."""
    variants: tuple[dict[str, Any], ...] = {}, {"dropout": DROPOUT}, {"qkv_bias": True}
    for options in variants:
        if options.keys() & {*pair.make.without}:
            continue
        mine, ours = pair.build(**options)
        if wrong := _wrong_order(pair) or _wrong_names(pair, mine, ours, "qkv_bias" in options):
            return wrong
        have = dict(mine.named_parameters())
        for name, given in pair.make.fit(mine, dict(ours.named_parameters())).items():
            if have[name].shape != given.shape:
                sizes = pair.sizes()
                shapes = {"have": tuple(have[name].shape), "want": tuple(given.shape)}
                facts = {"name": name, **shapes, "sizes": sizes}
                return Finding("parameters.shape", pair.line_of_parameter(name), facts)
    return None


def _wrong_order(pair: Comparison) -> Finding | None:
    """Compare the order of the arguments: lessons give some of them without their names."""
    wanted = [n for n in inspect.signature(pair.right).parameters if n in pair.arguments()]
    given = [n for n in inspect.signature(pair.make.make).parameters if n in wanted]
    if given == [n for n in wanted if n in given] or pair.make.names:
        return None
    line = pair.text.line_of_number(next(iter(pair.text.trees)), 1) if pair.text.trees else None
    facts = {"given": ", ".join(given), "wanted": ", ".join(wanted)}
    return Finding("given.order", line, facts)


def _wrong_names(
    pair: Comparison, mine: nn.Module, ours: nn.Module, qkv_bias: bool
) -> Finding | None:
    def of(code: str, name: str, **facts: object) -> Finding:
        return Finding(code, pair.line_of_parameter(name), {"name": name, **facts})

    right = dict(ours.named_parameters())
    names = pair.make.parameter_names(mine, right)
    trained = [name for name, p in mine.named_parameters() if p.requires_grad]
    missing = [name for name in right if name not in names]
    extra = [name for name in trained if name not in names.values()]
    for name, value in vars(mine).items() if missing else ():
        if isinstance(value, (list, tuple)) and any(isinstance(one, nn.Module) for one in value):
            return of("parameters.plain-list", name)
    biases = [
        n for n in extra if "bias" in n and n.removesuffix("bias") + "weight" in names.values()
    ]
    if not qkv_bias and biases:
        return of("parameters.bias-always", biases[0])
    if qkv_bias and any("bias" in name for name in missing):
        weight = missing[0].replace("bias", "weight")
        return of("parameters.bias-never", names.get(weight, weight))
    if missing:
        part = missing[0].rpartition(".")[0]
        named = f' If it is named otherwise, tell the check: names={{"{part}": "..."}}.'
        has = ", ".join(trained) or "no parameters at all"
        shown = part if part.split(".")[0] in vars(mine)["_modules"] or not extra else extra[0]
        otherwise = named * (bool(extra) and "heads" not in part)
        missed = Finding("parameters.missing", pair.line_of_parameter(shown))
        return missed.knowing(name=missing[0], has=has, otherwise=otherwise)
    return of("parameters.extra", extra[0]) if extra else None


# What it computes


def the_whole(pair: Comparison) -> Finding | None:
    """Random weights and inputs: outputs and gradients against our class."""
    for options in ({}, {"qkv_bias": True}):
        if options.keys() & {*pair.make.without}:
            continue
        mine, ours = pair.build(**options)
        weights = {
            name: weight.requires_grad_() for name, weight in pair.random_weights(ours).items()
        }
        usual = B, NUM_TOKENS
        shapes = usual, usual, (1, 1), (B, CONTEXT_LENGTH), (1, NUM_TOKENS)
        for seed, (b, num_tokens) in enumerate(shapes, start=1):  # twice alike, of other tokens
            kept = draw(b, num_tokens, D_IN, seed=seed)
            if num_tokens == CONTEXT_LENGTH:
                kept[:, 1] = 0  # a token of zeros is one like any other
            kept.requires_grad_()
            x = kept.clone()
            have = pair.run(mine, x, weights)
            want = run(ours, kept, weights)
            if not close(have, want, 1e-4):
                return _difference(pair, mine, x.detach(), weights, want, options)
            wrong = _wrong_gradient(have, want, {"x": kept, **weights})
            if wrong is not None:
                return wrong
    return None


def _difference(
    pair: Comparison,
    mine: nn.Module,
    x: Tensor,
    weights: Mapping[str, Tensor],
    want: Tensor,
    options: Mapping[str, Any],
) -> Finding:
    fresh, _ = pair.build(**options)
    if close(pair.run(fresh, x, weights), want, 1e-4):
        return Finding("state")  # earlier calls make the difference
    where = pair.usual_difference or pair.first_difference(mine, x, weights)
    return where or Finding("result.differs")


def _wrong_gradient(have: Tensor, want: Tensor, inputs: Mapping[str, Tensor]) -> Finding | None:
    if not have.requires_grad:
        return Finding("gradient", None, {"name": "any parameter"})
    try:
        gradients = [
            torch.autograd.grad(result.square().sum(), list(inputs.values()), allow_unused=True)
            for result in (have, want)
        ]
    except RuntimeError:  # a tensor that backward needs was overwritten in place
        return Finding("gradient", None, {"name": "any parameter"})
    largest = max(1.0, *(float(right.abs().max()) for right in gradients[1]))
    for name, mine, right in zip(inputs, *gradients, strict=True):
        if mine is None or not close(mine, right, 1e-4 * largest):
            return Finding("gradient", None, {"name": name})
    return None


def many_tokens(pair: Comparison) -> Finding | None:
    """A text longer than context_length: forward refuses it, or all its rows come out, masked."""
    mine, _ = pair.build()
    x = pair.usual_x(num_tokens=CONTEXT_LENGTH + 2)
    with suppress(FaultFound):  # it may refuse
        have = run(mine, x)
        if have.shape[:2] != x.shape[:2]:
            cut = pair.first_line(mine, x, lambda o: o.values.shape[:2] == (B, CONTEXT_LENGTH))
            return Finding("length.cropped", cut)
        changed = x.clone()
        changed[:, -1] += 1
        if not close(run(mine, changed)[:, :-1], have[:, :-1]):
            return Finding("length.leaks")
    return None


def large_scores(pair: Comparison) -> Finding | None:
    """Scores far apart: what masks must be lower than any score, as -inf is."""
    mine, _ = pair.build()
    x = pair.marked_tokens()
    x[:, :, NUM_TOKENS] = 1  # one column is the same for all tokens
    for near, far in ((0.0, FAR), (-FAR, 0.0)):
        W_query, W_key = torch.zeros(2, pair.width, D_IN)
        first = slice(0, None, HEAD_DIM)  # the first row of each head
        W_query[first, NUM_TOKENS] = HEAD_DIM**0.5
        W_key[first, :NUM_TOKENS] = far
        W_key[first, 0] = near
        attn_weights = pair.attn_weights_of(mine, x, W_query=W_query, W_key=W_key)
        if (attn_weights[:, :, 0, 1:NUM_TOKENS] > 1e-3).any():
            line = pair.first_line(mine, x, _is_filled, pair.weights())
            return Finding("mask.not-low", line, {"far": FAR})
    return None


def _is_filled(operation: Operation) -> bool:
    """Return whether very negative numbers are in the future of a tensor, and nowhere else."""
    values = operation.values
    if values.shape[-2:] != (NUM_TOKENS, NUM_TOKENS) or not values.is_floating_point():
        return bool(operation.parents and values.is_floating_point() and (values < -15).any())
    return bool((values[..., causal_mask(NUM_TOKENS)] < -15).all())


# Dropout


def dropout_in_eval(pair: Comparison) -> Finding | None:
    """In eval nothing may be dropped."""
    mine, ours = pair.build(dropout=DROPOUT)
    calm, _ = pair.build()
    weights, x = pair.random_weights(ours), pair.usual_x()
    if close(pair.run(mine, x, weights), pair.run(calm, x, weights)):
        return None
    if line := pair.line_of_dropout(mine, x, weights):
        return Finding("dropout.eval", line)
    return pair.first_difference(mine, x, weights) or Finding("dropout.eval")


def _in_training(pair: Comparison) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """Return a module in training, its input, and its attention weights in eval and in training."""
    calm_module, _ = pair.build(dropout=DROPOUT)
    mine, _ = pair.build(training=True, dropout=DROPOUT)
    x = pair.marked_tokens(b=8)
    calm = pair.attn_weights_of(calm_module, x)
    torch.default_generator.manual_seed(3)
    return mine, x, calm, pair.attn_weights_of(mine, x)


def something_is_dropped(pair: Comparison) -> Finding | None:
    """In training with dropout the attention weights change."""
    mine, x, calm, dropped = _in_training(pair)
    if not dropped.equal(calm):
        return None
    line = pair.line_of_dropout(mine, x, pair.weights())
    return Finding("dropout.none", line or _line_of_the_weights(pair))


def _line_of_the_weights(pair: Comparison) -> SourceLine | None:
    """Return the line that makes the weights."""
    labeled = pair.usual_run()
    made = {label.name: n for n, label in labeled.labels.items() if label} if labeled else {}
    number = made.get("attn_weights", made.get("context_vec"))
    return labeled.operations[number].line if labeled and number is not None else None


def each_weight_is_dropped_or_grown(pair: Comparison) -> Finding | None:
    """In training a weight is 0, or divided by 1 - p."""
    mine, x, calm, dropped = _in_training(pair)
    survived = dropped != 0
    wrong = survived & ~((dropped - calm / (1 - DROPOUT)).abs() < 1e-5)
    repeats = dropped.shape[-1] - NUM_TOKENS  # columns that copy the first ones
    alike = survived[..., :repeats].equal(survived[..., NUM_TOKENS:])
    if not wrong.any() and alike:
        return None
    line = pair.line_of_dropout(mine, x, pair.weights())
    if not wrong.any():
        return Finding("dropout.values", line)
    factors = (dropped[wrong] / calm[wrong]).nan_to_num(0.0)
    factor, kept = float(factors[0]), survived[calm != 0].float().mean()
    if not close(factors, torch.full_like(factors, factor), 1e-4):
        sums = dropped[..., :NUM_TOKENS].sum(dim=-1)
        again = (((sums - 1).abs() < 1e-4) | ~(sums > 0)).all()
        if again and kept < 1 - DROPOUT / 2:  # what is left was divided by its sum
            made = pair.operations(mine, x, pair.weights())
            line = next((o.line for o in made[::-1] if "div" in o.name), line)
        return Finding("dropout.place", line)
    if abs(factor - (1 - DROPOUT) ** -2) < 1e-4:
        return Finding("dropout.twice", line)
    return Finding("dropout.share", line, {"p": DROPOUT})


def each_weight_is_dropped_for_itself(pair: Comparison) -> Finding | None:
    """Weights are dropped anew in each call, and not together in rows, heads or sequences."""
    mine, _ = pair.build(training=True, dropout=DROPOUT)
    x = pair.marked_tokens(b=16)
    torch.default_generator.manual_seed(4)
    first, second = (pair.attn_weights_of(mine, x)[..., :NUM_TOKENS] == 0 for _ in range(2))
    found = Finding("dropout.fixed") if first.equal(second) else None
    row = first[:, :, -1]  # the last query, which may attend to all tokens: (b, num_heads, keys)
    for dim, what in enumerate(("the same in all sequences", "the same in all heads", "in rows")):
        alike = row.shape[dim] > 1 and bool((row.amax(dim=dim) == row.amin(dim=dim)).all())
        if found is None and alike:
            found = Finding("dropout.together", None, {"what": what})
    return found and found.at(pair.line_of_dropout(mine, x, pair.weights()))


# Other devices and dtypes: no exercise asks for them, so what is found is a note


def another_device(pair: Comparison) -> Finding | None:
    """Every tensor that is not made from x must be a buffer, or be made on the device of x."""
    mine, _ = pair.build()
    x = pair.usual_x()
    kept = {n: v for p in mine.modules() for n, v in vars(p).items() if isinstance(v, Tensor)}
    recording, _ = pair.record(mine, x)
    made = [one for one in recording.operations[recording.number_of(x) or 0 :] if one.line]
    for name, tensor in kept.items():
        number = recording.number_of(tensor)
        if any(number in one.parents and one.name not in ("to", "type_as") for one in made):
            line = pair.text.line_with(rf"self\.{name}\b[^=]*=(?!=)")
            return Finding("mask.no-buffer", line, {"name": name})
    for one in made:
        has_device = any(isinstance(argument, torch.device) for argument in one.arguments)
        if not one.parents and one.values.ndim and not has_device:
            pair.note("note.device", line=one.line)
    return None


def uneven_heads(pair: Comparison) -> Finding | None:
    """A number of heads that does not divide d_out is refused."""
    if pair.right is MultiHeadAttention:
        sizes = {"d_out": pair.width + 1, "num_heads": pair.num_heads}
        with suppress(FaultFound):
            mine = pair.make(**{**pair.arguments(), **sizes, "d_in": pair.width + 1})
            run(mine, draw(B, NUM_TOKENS, pair.width + 1))
            pair.note("note.divide", **sizes)
    return None


def another_dtype(pair: Comparison) -> Finding | None:
    """In bfloat16, the module makes nothing in float32; in float16, nothing that is too large."""
    for dtype in (torch.bfloat16, torch.float16):
        mine, _ = pair.build()
        mine, x = mine.to(dtype), pair.usual_x().to(dtype)
        try:
            pair.run(mine, x)
        except FaultFound as found:
            if found.finding.code in ("error.dtype", "result.dtype"):
                pair.note("note.dtype", line=pair.line_of_dtype(mine, x) or found.line)
            elif "overflow" in found.finding.facts.get("message", ""):
                pair.note("note.half", line=found.line)
    return None
