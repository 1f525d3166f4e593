"""The questions about what forward computes. Each returns what is wrong, or None.

examine has them in order. Those about dropout are in training.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.checks.diagnosis.comparison import (
    CONTEXT_LENGTH,
    DROPOUT,
    HEAD_DIM,
    NUM_TOKENS,
    B,
    Comparison,
    close,
)
from attncourse.checks.diagnosis.labeled_run import RANDOM
from attncourse.checks.findings import Finding
from attncourse.checks.safe_run import FaultFound, call, draw, has_own_lines, run
from attncourse.tracing.operations import Operation, SourceLine
from attncourse.tracing.tracer import statements_of, trace
from attnlib.functional import causal_mask
from attnlib.modules import MultiHeadAttention, MultiHeadAttentionWrapper

# A forward that makes fewer tensors has only been begun: queries, keys, values, scores, weights
FULL_ATTEMPT = 5
MANY_TOKENS = 67  # longer than any context_length that a lesson writes into a mask by hand
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
    made = [step for step in trace(mine, x).steps if step.change != "given"]
    # The forward of a stack needs a single line. In it, what is made may get no name.
    if made and len(made) < FULL_ATTEMPT and pair.right is not MultiHeadAttentionWrapper:
        return Finding("stub.return", None, {"name": made[-1].name})
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
                return _wrong_shape(pair, name, have[name], given)
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
    trained = {name: p for name, p in mine.named_parameters() if p.requires_grad}
    once = dict(mine.named_parameters())
    everything = dict(mine.named_parameters(remove_duplicate=False))
    missing = [name for name in right if name not in names]
    extra = [name for name in trained if name not in names.values()]
    for name in dict.fromkeys(names.values()):
        if name not in once:
            twin = next(n for n, p in once.items() if p is everything[name])
            own = "heads" if name.startswith("heads.") else name.split(".")[-2]
            line = pair.text.line_with(rf"self\.{own}\b[^=]*=(?!=)")
            return Finding("parameters.shared", line, {"name": name, "twin": twin})
        if not everything[name].requires_grad:
            return of("parameters.frozen", name)
    for name, value in vars(mine).items() if missing else ():
        inside = value.values() if isinstance(value, dict) else value
        plain = isinstance(value, (list, tuple, dict)) and name != "_modules"
        if plain and any(isinstance(one, nn.Module) for one in inside):
            return of("parameters.plain-list", name, plain=type(value).__name__)
    biases = [
        n for n in extra if "bias" in n and n.removesuffix("bias") + "weight" in names.values()
    ]
    if not qkv_bias and biases:
        return of("parameters.bias-always", biases[0])
    if qkv_bias and any("bias" in name for name in missing):
        weight = missing[0].replace("bias", "weight")
        return of("parameters.bias-never", names.get(weight, weight))
    made, asked = (
        len({name.split(".")[1] for name in some if name.startswith("heads.")})
        for some in (trained, right)
    )
    if made and made != asked:
        return of("heads.count", "heads", have=made, want=asked)
    if missing:
        part = missing[0].rpartition(".")[0]
        named = f' If it is named otherwise, tell the check: names={{"{part}": "..."}}.'
        has = ", ".join(trained) or "no parameters at all"
        shown = part if part.split(".")[0] in vars(mine)["_modules"] or not extra else extra[0]
        otherwise = named * (bool(extra) and "heads" not in part)
        missed = Finding("parameters.missing", pair.line_of_parameter(shown))
        return missed.knowing(name=missing[0], has=has, otherwise=otherwise)
    return of("parameters.extra", extra[0]) if extra else None


def _wrong_shape(pair: Comparison, name: str, have: Tensor, want: Tensor) -> Finding:
    sizes = {k: v for k, v in pair.sizes().items() if k.startswith("d_") or "head" in k}
    facts = {"name": name, "have": tuple(have.shape), "want": tuple(want.shape), "sizes": sizes}
    return Finding("parameters.shape", pair.line_of_parameter(name), facts)


def initial_values(pair: Comparison) -> Finding | None:
    """New modules differ from one another, and their projections are random."""
    torch.default_generator.manual_seed(5)
    mine, ours = pair.build()
    torch.default_generator.manual_seed(6)
    other, _ = pair.build()
    names = pair.make.parameter_names(mine, dict(ours.named_parameters())).values()
    twins = dict(other.named_parameters())
    matrices = {n: p.detach() for n, p in mine.named_parameters() if n in names and p.ndim == 2}
    before: dict[str, Tensor] = {}
    for name, matrix in matrices.items():
        alike = [n for n, m in before.items() if m.shape == matrix.shape and m.equal(matrix)]
        before[name] = matrix
        if not 1e-6 < float(matrix.std()) < 20:  # nn.Linear draws them below 1
            how = f"are {matrix.flatten()[0]:.4g} and the like at the beginning"
        elif matrix.equal(twins[name]):
            how = "are the same in each new module"
        elif alike:
            how = f"are those of {alike[0]} at the beginning"
        else:
            continue
        return Finding("init.values", pair.line_of_parameter(name), {"name": name, "how": how})
    return None


# What it computes


def two_runs(pair: Comparison) -> Finding | None:
    """The same module on the same x, in eval, without dropout: nothing may be random."""
    mine, ours = pair.build()
    weights, x = pair.random_weights(ours), pair.usual_x()
    torch.default_generator.manual_seed(1)
    first = pair.run(mine, x, weights)
    torch.default_generator.manual_seed(2)
    second = pair.run(mine, x, weights)
    if first.equal(second) or (first.isnan() & second.isnan() | (first == second)).all():
        return None
    drawn = [o for o in pair.operations(mine, x, weights) if RANDOM.search(o.name)]
    if not drawn:
        where = pair.first_difference(mine, x, weights)  # the third call
        return Finding("state", where.line if where else None)
    code = "dropout.eval" if "dropout" in drawn[0].name else "random"
    return Finding(code, drawn[0].line, {"operation": drawn[0].name})


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
            kept = draw(b, num_tokens, pair.d_in(), seed=seed)
            if num_tokens == CONTEXT_LENGTH:
                kept[:, 1] = 0  # a token of zeros is one like any other
            kept.requires_grad_()
            x = kept.clone()
            have = pair.run(mine, x, weights)
            want = run(ours, kept, weights)
            if not close(have, want, 1e-4):
                return _difference(pair, mine, x.detach(), weights, want, options)
            try:
                wrong = _wrong_gradient(have, want, {"x": kept, **weights})
            except RuntimeError as error:  # of a tensor that was overwritten in place, or kept
                second = "second time" in str(error)
                return Finding("state" if second else "gradient.in-place")
            if wrong is not None:
                return wrong.at(_line_without_gradient(pair, mine, x, weights))
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
    gradients = [
        torch.autograd.grad(result.square().sum(), list(inputs.values()), allow_unused=True)
        for result in (have, want)
    ]
    largest = max(1.0, *(float(right.abs().max()) for right in gradients[1]))
    for name, mine, right in zip(inputs, *gradients, strict=True):
        if mine is None or not close(mine, right, 1e-4 * largest):
            return Finding("gradient", None, {"name": name})
    return None


def _line_without_gradient(
    pair: Comparison, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor]
) -> SourceLine | None:
    """Return the first line of which the inputs record for gradients, and the result does not."""
    recording, _ = pair.record(mine, x, weights)
    for operation in recording.operations[recording.number_of(x) or 0 :]:
        before = any(recording.operations[n].grad for n in operation.parents)
        own = operation.line is not None and operation.line.function in pair.text.trees
        made = operation.values.is_floating_point() and not operation.name.endswith("_like")
        if own and made and before and not operation.grad:
            return operation.line
    return None


def many_tokens(pair: Comparison) -> Finding | None:
    """A text longer than context_length, and a longer context than usual."""
    mine, _ = pair.build()
    x = pair.usual_x(num_tokens=CONTEXT_LENGTH + 2)
    with suppress(FaultFound):  # it may refuse
        if run(mine, x).shape[:2] != x.shape[:2]:
            cut = pair.first_line(mine, x, lambda o: o.values.shape[:2] == (B, CONTEXT_LENGTH))
            return Finding("length.cropped", cut)
    modules = pair.build(context_length=MANY_TOKENS)
    x = draw(1, MANY_TOKENS, pair.d_in(), seed=1)
    try:
        where = pair.difference(*modules, x, when=f"context_length={MANY_TOKENS}")
    except FaultFound as found:
        return found.finding.knowing(length=MANY_TOKENS)
    return where and Finding("length", where.line, {"length": MANY_TOKENS})


def large_scores(pair: Comparison) -> Finding | None:
    """Scores far apart: what masks must be lower than any score, as -inf is."""
    mine, _ = pair.build(1)
    x = pair.marked_tokens(num_heads=1)
    x[:, :, NUM_TOKENS] = 1  # one column is the same for all tokens
    for near, far in ((0.0, FAR), (-FAR, 0.0)):
        W_query, W_key = torch.zeros(2, HEAD_DIM, pair.d_in(1))
        W_query[0, NUM_TOKENS] = HEAD_DIM**0.5
        W_key[0, :NUM_TOKENS] = far
        W_key[0, 0] = near
        matrices = {"W_query": W_query, "W_key": W_key}
        first = pair.attn_weights_of(mine, x, 1, **matrices)[:, 0, 0, :NUM_TOKENS]
        if (first[:, 1:] > 1e-3).any():
            line = pair.first_line(mine, x, _is_filled, pair.weights(1))
            return Finding("mask.not-low", line, {"far": FAR})
        if first.isnan().any():
            pair.note("note.scores")
            return None
    mine, ours = pair.build()
    weights = {
        name: weight * (20 if "W_value" not in name and "out" not in name else 1)
        for name, weight in pair.random_weights(ours).items()
    }
    x = pair.usual_x()
    have = pair.run(mine, x, weights)
    if have.isnan().any():
        pair.note("note.scores")
    if close(have, run(ours, x, weights), 2e-3) or have.isnan().any():
        return None
    where = pair.first_difference(mine, x, weights)
    return Finding("scores.large", where.line if where else None)


def _is_filled(operation: Operation) -> bool:
    """Return whether very negative numbers are in the future of a tensor, and nowhere else."""
    values = operation.values
    if values.shape[-2:] != (NUM_TOKENS, NUM_TOKENS) or not values.is_floating_point():
        return bool(operation.parents and values.is_floating_point() and (values < -15).any())
    return bool((values[..., causal_mask(NUM_TOKENS)] < -15).all())


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
        if not one.parents and one.values.ndim and not _has_device(one.arguments):
            pair.note("note.device", line=one.line)
    return None


def _has_device(arguments: tuple[Any, ...]) -> bool:
    return any(isinstance(one, torch.device) for one in arguments)


def uneven_heads(pair: Comparison) -> Finding | None:
    """A number of heads that does not divide d_out is refused."""
    if pair.right is MultiHeadAttention:
        sizes = {"d_out": pair.width() + 1, "num_heads": pair.num_heads}
        with suppress(FaultFound):
            mine = pair.make(**{**pair.arguments(), **sizes, "d_in": pair.width() + 1})
            run(mine, draw(B, NUM_TOKENS, pair.width() + 1))
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
