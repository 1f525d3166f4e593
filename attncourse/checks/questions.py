"""The first questions that the exercise checks put to a learner's class, and the last ones.

A question takes a Trial and returns None, or what is wrong. Those that isolate one step of
attention are in isolate, those on special conditions in conditions; diagnose has them all in order.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from attncourse.checks.attempt import NOT_ATTEMPTED, Diagnosis, call, draw, name_shape, run
from attncourse.checks.pair import CONTEXT_LENGTH, NUM_TOKENS, B, close
from attncourse.checks.stub import has_own_lines
from attncourse.checks.trial import Trial
from attncourse.checks.verdict import Fault
from attncourse.tracing.operations import Line
from attncourse.tracing.tracer import statements_of, trace
from attnlib.modules import MultiHeadAttention, MultiHeadAttentionWrapper

Answer = str | Fault | None
FULL_ATTEMPT = 5  # tensors, of those that forward makes: queries, keys, values, scores, weights


def it_returns_something(trial: Trial) -> Answer:
    """Make the class and run it once: a stub returns None."""
    mine, _ = trial.build()
    x = draw(B, NUM_TOKENS, trial.d_in())
    try:
        result = call(mine, x, sizes=trial.sizes())
    except Diagnosis as diagnosis:
        if diagnosis.code.startswith("stub"):
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
            return Fault("", "stub", NOT_ATTEMPTED)
        name, statements = statements_of(forward)
        end = statements[max(statements)]
        calls = end.text.startswith("return ")
        remedy = "does what it calls lack a return?" if calls else "end with return."
        cause = f"Forward returns None: {remedy}"
        return Fault("", "result.none", cause, Line(name, end.line, end.text))
    last = made[-1]
    is_stack = trial.right is MultiHeadAttentionWrapper  # its forward needs one line
    if len(made) < FULL_ATTEMPT and not is_stack:
        return Fault(
            "",
            "stub.return",
            f"{NOT_ATTEMPTED}: forward makes {last.name} and returns None. Is the return missing?",
        )
    return Fault(
        "",
        "result.none",
        f"Forward makes {last.name} and returns None: end with return.",
        Line(last.function, last.line, last.source),
    )


def it_has_the_parameters(trial: Trial) -> Answer:
    """Compare names and shapes of the parameters with ours."""
    for qkv_bias in (False, True):
        if qkv_bias and "qkv_bias" in trial.make.without:
            continue
        mine, ours = trial.build(qkv_bias=qkv_bias)
        if sentence := _wrong_names(trial, mine, ours, qkv_bias):
            return sentence
        have = dict(mine.named_parameters())
        for name, given in trial.make.fit(mine, dict(ours.named_parameters())).items():
            if have[name].shape != given.shape:
                return _wrong_parameter(trial, name, have[name], given)
    return None


def _wrong_names(trial: Trial, mine: nn.Module, ours: nn.Module, qkv_bias: bool) -> Answer:
    right = dict(ours.named_parameters())
    names = trial.make.parameter_names(mine, right)
    have = {name: p for name, p in mine.named_parameters() if p.requires_grad}
    everything = dict(mine.named_parameters(remove_duplicate=False))
    missing = [name for name in right if name not in names]
    extra = [name for name in have if name not in names.values()]
    for name in dict.fromkeys(names.values()):
        if name not in dict(mine.named_parameters()):
            twin = next(n for n, p in mine.named_parameters() if p is everything[name])
            if name.startswith("heads.") and name.split(".")[1] != twin.split(".")[1]:
                return Fault(
                    "",
                    "parameters.repeated-head",
                    "All heads are one and the same module: [head] * num_heads repeats it. Make a "
                    "new one for each head: [... for _ in range(num_heads)].",
                    trial.line_in_init("heads"),
                )
            return Fault(
                "",
                "parameters.shared",
                f"{name} and {twin} are one and the same parameter: each projection needs its own "
                "nn.Linear.",
                trial.line_in_init(name.split(".")[0]),
            )
        if not everything[name].requires_grad:
            return Fault(
                "",
                "parameters.frozen",
                f"{name} is frozen: it has requires_grad=False and would never learn.",
                trial.line_in_init(name.split(".")[0]),
            )
    if isinstance(vars(mine).get("heads"), (list, tuple)):
        return Fault(
            "",
            "parameters.plain-list",
            "self.heads is a plain list, and PyTorch sees no parameters in it: make it an "
            "nn.ModuleList.",
            trial.line_in_init("heads"),
        )
    biases = [
        n for n in extra if "bias" in n and n.removesuffix("bias") + "weight" in names.values()
    ]
    if not qkv_bias and biases:
        return Fault(
            "",
            "parameters.bias-always",
            "The projections have a bias though qkv_bias=False: nn.Linear(bias=qkv_bias).",
            trial.line_in_init(biases[0].split(".")[0]),
        )
    if qkv_bias and any("bias" in name for name in missing):
        return Fault(
            "",
            "parameters.bias-never",
            "With qkv_bias=True the projections have no bias: pass qkv_bias on to them.",
            trial.line_in_init(
                names.get(missing[0].replace("bias", "weight"), missing[0]).split(".")[0]
            ),
        )
    if missing:
        has = f"it has {', '.join(have)}" if have else "it has no parameters at all"
        part = missing[0].rpartition(".")[0]
        otherwise = (
            f' If it is named otherwise, tell the check: names={{"{part}": "..."}}.'
            if extra and "heads" not in part
            else ""
        )
        if missing == ["out_proj.bias"]:
            otherwise = " The check expects out_proj to be nn.Linear(d_out, d_out), with a bias."
        return Fault(
            "",
            "parameters.missing",
            f"The class has no parameter {missing[0]}; {has}.{otherwise}",
            trial.line_in_init(part.split(".")[0])
            or (trial.line_in_init(extra[0].split(".")[0]) if extra else None),
        )
    if extra:
        return Fault(
            "",
            "parameters.extra",
            f"The class has a parameter too many: {extra[0]}.",
            trial.line_in_init(extra[0].split(".")[0]),
        )
    return None


def _wrong_parameter(trial: Trial, name: str, have: Tensor, want: Tensor) -> Answer:
    sizes = {k: v for k, v in trial.sizes().items() if k.startswith("d_") or "head" in k}
    shapes = [name_shape(tuple(tensor.shape), sizes) for tensor in (have, want)]
    what = f"{name} is {shapes[0]} where {shapes[1]} is right"
    line = trial.line_in_init(name.split(".")[0])
    if have.shape == want.shape[::-1]:
        return Fault(
            "",
            "parameters.turned",
            f"{what}: nn.Linear takes the width that it gets first, nn.Linear(d_in, d_out).",
            line,
        )
    meaning = "the total width" if trial.right is MultiHeadAttention else "the width of one head"
    return Fault(
        "", "parameters.shape", f"{what}: d_out is {meaning}, here {sizes['d_out']}.", line
    )


def it_returns_the_right_shape(trial: Trial) -> Answer:
    """Give it fewer tokens than fit, as many as fit, and one."""
    mine, _ = trial.build()
    d_in = trial.d_in()
    for x in (draw(B, NUM_TOKENS, d_in), draw(B, CONTEXT_LENGTH, d_in), draw(1, 1, d_in)):
        trial.run(mine, x)
    return None


def the_whole(trial: Trial) -> Answer:
    """Random weights and inputs: outputs and gradients against our class."""
    for qkv_bias in (False, True):
        if qkv_bias and "qkv_bias" in trial.make.without:
            continue
        mine, ours = trial.build(qkv_bias=qkv_bias)
        weights = {
            name: weight.requires_grad_() for name, weight in trial.random_weights(ours).items()
        }
        for b, num_tokens in ((1, NUM_TOKENS), (B, NUM_TOKENS), (B, CONTEXT_LENGTH)):
            kept = draw(b, num_tokens, trial.d_in(), seed=1).requires_grad_()
            x = kept.clone()
            have = trial.run(mine, x, weights)
            want = run(ours, kept, weights)
            if not close(have, want, 1e-4):
                where = trial.departure(mine, x.detach(), weights, trial.head_counts[-1])
                return Fault(
                    "",
                    where.code if where else "result.differs",
                    f"Each step is right alone, but for {b} x {num_tokens} tokens"
                    f"{' with qkv_bias=True' if qkv_bias else ''} the results differ by "
                    f"{(have - want).abs().max():.3g}: "
                    + (
                        where.cause
                        if where
                        else "does anything depend on the batch, on the length or on earlier calls?"
                    ),
                    where.line if where else None,
                )
            if sentence := _wrong_gradient(have, want, {"x": kept, **weights}):
                layer = re.search(r"(\w+)\.bias gets no", sentence)
                line = layer and trial.line_with(rf"\.{layer[1]}\.weight(?!.*bias)")
                line = line or trial.line_of_the_cut(mine, x, weights)
                return Fault("", "gradient", sentence, line)
    return None


def _wrong_gradient(have: Tensor, want: Tensor, inputs: Mapping[str, Tensor]) -> str | None:
    cut = "gradient: does .detach(), .data, torch.tensor or no_grad cut it off?"
    if not have.requires_grad:
        return f"The results are right, but no parameter gets a {cut}"
    gradients = [
        torch.autograd.grad(result.square().sum(), list(inputs.values()), allow_unused=True)
        for result in (have, want)
    ]
    for name, mine, right in zip(inputs, *gradients, strict=True):
        if mine is None and name.endswith(".bias"):
            layer = name.rpartition(".")[0]
            return (
                f"The results are right, but {name} gets no gradient: is it used? {layer}(x) adds "
                "it, F.linear(x, weight, bias) too."
            )
        if mine is None:
            return f"The results are right, but {name} gets no {cut}"
        if not close(mine, right, 1e-4 * max(1.0, float(right.abs().max()))):
            return (
                f"The results are right, but the gradient of {name} is not: does .detach() or "
                "no_grad cut part of it?"
            )
    return None


def the_weights_returned(trial: Trial) -> Answer:
    """Where forward can return the weights too, they are ours."""
    mine, ours = trial.build()
    if not trial.returns_weights(mine):
        return None
    x = draw(B, NUM_TOKENS, trial.d_in(), seed=1)
    weights = trial.random_weights(ours)
    result = call(mine, x, trial.make.fit(mine, weights), trial.sizes(), return_weights=True)
    want = call(ours, x, weights, return_weights=True)
    if not (isinstance(result, tuple) and len(result) == 2):
        return "forward(x, return_weights=True) must return two tensors: context_vec, attn_weights."
    for name, tensor, right in zip(("context_vec", "attn_weights"), result, want, strict=True):
        if not isinstance(tensor, Tensor):
            return f"return_weights=True gives a {type(tensor).__name__} for {name}."
        if tensor.shape != right.shape:
            have, shape = (
                name_shape(tuple(shape), trial.sizes()) for shape in (tensor.shape, right.shape)
            )
            return f"return_weights=True gives {name} as {have} where {shape} is right."
        if not close(tensor, right):
            return f"return_weights=True gives another {name} than the one used."
    return None
