"""The first questions that the exercise checks put to a learner's class, and the last ones.

A question takes a Trial and returns what is wrong, or None. Those on special conditions are in
conditions; diagnose has them in order.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.checks.diagnosis.trial import CONTEXT_LENGTH, DROPOUT, NUM_TOKENS, B, Trial, close
from attncourse.checks.findings import Finding, Kind
from attncourse.checks.safe_run import FaultFound, call, draw, has_own_lines, run
from attncourse.tracing.operations import SourceLine
from attncourse.tracing.tracer import statements_of, trace
from attnlib.modules import MultiHeadAttention, MultiHeadAttentionWrapper

FULL_ATTEMPT = 5  # tensors, of those that forward makes: queries, keys, values, scores, weights


def it_returns_something(trial: Trial) -> Finding | None:
    """Make the class and run it once: a stub returns None."""
    mine, _ = trial.build()
    x = draw(B, NUM_TOKENS, trial.d_in())
    try:
        result = call(mine, x, sizes=trial.sizes())
    except FaultFound as found:
        if found.finding.kind.step == "stub":
            raise
        wrong = it_has_the_parameters(trial)
        if wrong is None:
            raise
        return wrong
    if result is not None:
        return None
    made = [step for step in trace(mine, x).steps if step.change != "given"]
    if not made:  # or what is made gets no name, torch.cat([head(x) for head in self.heads])
        forward = inspect.unwrap(type(mine).forward).__code__
        if not has_own_lines(forward):
            return Finding(Kind.STUB)
        name, statements = statements_of(forward)
        end = statements[max(statements)]
        return Finding(
            Kind.RESULT_NONE, SourceLine(name, end.line, end.text), {"name": "something"}
        )
    last = made[-1]
    is_stack = trial.right is MultiHeadAttentionWrapper  # its forward needs one line
    if len(made) < FULL_ATTEMPT and not is_stack:
        return Finding(Kind.STUB_RETURN, None, {"name": last.name})
    line = SourceLine(last.function, last.line, last.source)
    return Finding(Kind.RESULT_NONE, line, {"name": last.name})


def it_has_the_parameters(trial: Trial) -> Finding | None:
    """Compare names and shapes of the parameters with ours."""
    variants: tuple[dict[str, Any], ...] = {}, {"dropout": DROPOUT}, {"qkv_bias": True}
    for options in variants:
        if options.keys() & {*trial.make.without}:
            continue
        mine, ours = trial.build(**options)
        if wrong := _wrong_names(trial, mine, ours, "qkv_bias" in options):
            if "dropout" not in options:
                return wrong
            line = trial.text.line_with(r"Linear\(.*dropout", among="__init__") or wrong.line
            return replace(wrong, kind=Kind.PARAMETERS_DROPOUT, line=line)
        have = dict(mine.named_parameters())
        for name, given in trial.make.fit(mine, dict(ours.named_parameters())).items():
            if have[name].shape != given.shape:
                return _wrong_shape(trial, name, have[name], given)
    return None


def _wrong_count(
    trial: Trial, have: Mapping[str, nn.Parameter], right: Mapping[str, nn.Parameter]
) -> Finding | None:
    made, asked = (
        len({name.split(".")[1] for name in names if name.startswith("heads.")})
        for names in (have, right)
    )
    if not made or made == asked:
        return None
    line = trial.text.line_with(r"range\(", among="__init__") or trial.line_of_parameter("heads")
    return Finding(Kind.HEADS_COUNT, line, {"have": made, "want": asked})


def _wrong_names(trial: Trial, mine: nn.Module, ours: nn.Module, qkv_bias: bool) -> Finding | None:
    def of(kind: Kind, name: str, **facts: object) -> Finding:
        line = trial.line_of_parameter(name)
        return Finding(kind, line, {"name": name, **facts})

    right = dict(ours.named_parameters())
    names = trial.make.parameter_names(mine, right)
    have = {name: p for name, p in mine.named_parameters() if p.requires_grad}
    once = dict(mine.named_parameters())
    everything = dict(mine.named_parameters(remove_duplicate=False))
    missing = [name for name in right if name not in names]
    extra = [name for name in have if name not in names.values()]
    for name in dict.fromkeys(names.values()):
        if name not in once:
            twin = next(n for n, p in once.items() if p is everything[name])
            if name.startswith("heads.") and name.split(".")[1] != twin.split(".")[1]:
                return of(Kind.PARAMETERS_REPEATED_HEAD, "heads")
            return of(Kind.PARAMETERS_SHARED, name, twin=twin)
        if not everything[name].requires_grad:
            frozen, line = of(Kind.PARAMETERS_FROZEN, name), trial.text.line_with("requires_grad")
            return frozen.at(line or frozen.line)
    for name, value in vars(mine).items() if missing else ():
        inside = value.values() if isinstance(value, dict) else value
        plain = isinstance(value, (list, tuple, dict)) and name != "_modules"
        if plain and any(isinstance(one, nn.Module) for one in inside):
            return of(Kind.PARAMETERS_PLAIN_LIST, name, plain=type(value).__name__)
    biases = [
        n for n in extra if "bias" in n and n.removesuffix("bias") + "weight" in names.values()
    ]
    if not qkv_bias and biases:
        return of(Kind.PARAMETERS_BIAS_ALWAYS, biases[0])
    if qkv_bias and any("bias" in name for name in missing):
        weight = missing[0].replace("bias", "weight")
        return of(Kind.PARAMETERS_BIAS_NEVER, names.get(weight, weight))
    if counted := _wrong_count(trial, have, right):
        return counted
    if missing:
        part = missing[0].rpartition(".")[0]
        may_be_renamed = bool(extra) and "heads" not in part
        named = f' If it is named otherwise, tell the check: names={{"{part}": "..."}}.'
        has = ", ".join(have) or "no parameters at all"
        shown = part if part.split(".")[0] in vars(mine)["_modules"] or not extra else extra[0]
        missed = Finding(Kind.PARAMETERS_MISSING, trial.line_of_parameter(shown))
        return missed.knowing(name=missing[0], has=has, otherwise=named * may_be_renamed)
    return of(Kind.PARAMETERS_EXTRA, extra[0]) if extra else None


def _wrong_shape(trial: Trial, name: str, have: Tensor, want: Tensor) -> Finding:
    sizes = {k: v for k, v in trial.sizes().items() if k.startswith("d_") or "head" in k}
    turned = have.shape == want.shape[::-1]
    meaning = "d_out is the width of one head"
    if name.startswith("out_proj"):
        meaning = "out_proj takes all heads, merged, and mixes them"
    elif trial.right is MultiHeadAttention:
        meaning = "d_out is the width of all heads together, so it is passed on as it is"
    return Finding(
        Kind.PARAMETERS_TURNED if turned else Kind.PARAMETERS_SHAPE,
        trial.line_of_parameter(name),
        {
            "name": name,
            "have": tuple(have.shape),
            "want": tuple(want.shape),
            "sizes": sizes,
            "meaning": meaning,
        },
    )


def the_whole(trial: Trial) -> Finding | None:
    """Random weights and inputs: outputs and gradients against our class."""
    for qkv_bias in (False, True):
        if qkv_bias and "qkv_bias" in trial.make.without:
            continue
        mine, ours = trial.build(**({"qkv_bias": True} if qkv_bias else {}))
        weights = {
            name: weight.requires_grad_() for name, weight in trial.random_weights(ours).items()
        }
        usual = B, NUM_TOKENS
        shapes = usual, usual, (1, 1), (B, CONTEXT_LENGTH), (1, NUM_TOKENS)
        for seed, (b, num_tokens) in enumerate(shapes, start=1):  # twice alike, of other tokens
            kept = draw(b, num_tokens, trial.d_in(), seed=seed)
            if num_tokens == CONTEXT_LENGTH:
                kept[:, 1] = 0  # a token of zeros is one like any other
            kept.requires_grad_()
            x = kept.clone()
            have, want = trial.run(mine, x, weights), run(ours, kept, weights)
            if not close(have, want, 1e-4):
                fresh, _ = trial.build(**({"qkv_bias": True} if qkv_bias else {}))
                if close(trial.run(fresh, x.detach(), weights), want, 1e-4):
                    return Finding(Kind.STATE)  # earlier calls make the difference
                where = trial.usual_departure or trial.departure(
                    mine, x.detach(), weights, trial.most_heads
                )
                if qkv_bias and where is not None and where.kind is Kind.PROJECTION_WRONG:
                    return replace(where, kind=Kind.PROJECTION_BIAS)
                return where or Finding(Kind.RESULT_DIFFERS)
            try:
                wrong = _wrong_gradient(have, want, {"x": kept, **weights})
            except RuntimeError as error:  # of a tensor that was overwritten in place, or kept
                if "second time" in str(error):
                    return Finding(Kind.STATE)
                return Finding(Kind.GRADIENT_IN_PLACE, trial.line_in_place(mine, x, weights))
            if wrong is not None:
                return wrong.at(_line_of_the_gradient(trial, wrong, mine, x, weights))
    return None


def _wrong_gradient(have: Tensor, want: Tensor, inputs: Mapping[str, Tensor]) -> Finding | None:
    if not have.requires_grad:
        return Finding(Kind.GRADIENT, None, {"name": "all parameters"})
    gradients = [
        torch.autograd.grad(result.square().sum(), list(inputs.values()), allow_unused=True)
        for result in (have, want)
    ]
    largest = max(1.0, *(float(right.abs().max()) for right in gradients[1]))
    for name, mine, right in zip(inputs, *gradients, strict=True):
        if mine is None and name.endswith(".bias"):
            layer = name.rpartition(".")[0]
            return Finding(Kind.GRADIENT_BIAS, None, {"name": name, "layer": layer})
        if mine is None or not close(mine, right, 1e-4 * largest):
            return Finding(Kind.GRADIENT, None, {"name": name})
    return None


def _line_of_the_gradient(
    trial: Trial, wrong: Finding, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor]
) -> SourceLine | None:
    """Return the first line through which no gradient flows."""
    if wrong.kind is Kind.GRADIENT_BIAS:
        line = trial.text.line_with(rf"\.{wrong.facts['layer']}\.weight(?!.*bias)")
        if line is not None:
            return line
    for name, tree in trial.text.trees.items():
        for decorator in tree.decorator_list:
            text = f"@{ast.unparse(decorator)}"
            if "no_grad" in text or "inference" in text:
                return SourceLine(name, decorator.lineno, text)
    if line := trial.text.line_with(r"no_grad|inference_mode|set_grad_enabled", "__init__"):
        return line
    recording, _ = trial.record(mine, x, weights)
    for operation in recording.operations[recording.number_of(x) or 0 :]:
        before = [recording.operations[n] for n in operation.parents]
        if (
            operation.line is not None
            and operation.line.function in trial.text.trees
            and operation.values.is_floating_point()
            and not operation.grad
            and not operation.name.endswith("_like")
            and any(made.grad for made in before)
        ):
            return operation.line
    return trial.text.line_with(r"detach|\.data\b|tensor\(|numpy", "__init__")
