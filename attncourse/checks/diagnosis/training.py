"""The questions about training: what is dropped, when, and whether gradients flow through it."""

from __future__ import annotations

import ast

import torch
from torch import Tensor, nn

from attncourse.checks.diagnosis.comparison import DROPOUT, NUM_TOKENS, Comparison, close
from attncourse.checks.findings import Finding
from attncourse.checks.safe_run import reporting, run
from attncourse.tracing.operations import SourceLine

# Of 8 * 28 attention weights per head about a quarter is dropped: the share is off by less than
# this in all but one of a million drawings
SHARE_OFF = 0.12


def training_without_dropout(pair: Comparison) -> Finding | None:
    """With dropout=0.0, training computes what eval computes."""
    calm_module, ours = pair.build()
    mine, _ = pair.build(training=True)
    weights, x = pair.random_weights(ours), pair.usual_x()
    torch.default_generator.manual_seed(1)
    calm = pair.run(calm_module, x, weights, pair.most_heads)
    trained = pair.run(mine, x, weights, pair.most_heads)
    if calm.isnan().any() or close(trained, calm, 1e-4):
        return None
    if line := pair.line_of_dropout(mine, x, weights):
        return Finding("dropout.share", line, {"p": 0.0})
    wrong_in = "training" if close(calm, run(ours, x, weights), 1e-4) else "eval"
    module = mine if wrong_in == "training" else calm_module
    where = pair.first_difference(module, x, weights, pair.most_heads)
    if where is not None and where.code == "mask.none":
        return Finding("mask.training", where.line, {"other": wrong_in})
    return Finding("training", where.line if where else None)


def dropout_in_eval(pair: Comparison) -> Finding | None:
    """In eval nothing may be dropped."""
    for num_heads in pair.head_counts:
        mine, ours = pair.build(num_heads, dropout=DROPOUT)
        calm, _ = pair.build(num_heads)
        x = pair.marked_tokens(num_heads=num_heads)
        dropped = pair.attn_weights_of(mine, x, num_heads)
        if close(dropped, pair.attn_weights_of(calm, x, num_heads)):
            continue
        weights = pair.random_weights(ours)
        if line := pair.line_of_dropout(mine, x, weights):
            return Finding("dropout.eval", line)
        where = pair.first_difference(mine, x, weights, num_heads)
        return where or Finding("dropout.eval")
    return None


def _in_training(pair: Comparison, num_heads: int) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """Return a module in training, its input, and its attention weights in eval and in training."""
    calm_module, _ = pair.build(num_heads, dropout=DROPOUT)
    mine, _ = pair.build(num_heads, training=True, dropout=DROPOUT)
    x = pair.marked_tokens(b=8, num_heads=num_heads)
    calm = pair.attn_weights_of(calm_module, x, num_heads)
    torch.default_generator.manual_seed(3)
    return mine, x, calm, pair.attn_weights_of(mine, x, num_heads)


def something_is_dropped(pair: Comparison) -> Finding | None:
    """In training with dropout the attention weights change, and a new module is in training."""
    new = pair.make(**pair.arguments(pair.most_heads, dropout=DROPOUT))
    if not all(part.training for part in new.modules()):
        return Finding("mode", None, {"where": "A new module is"})
    for num_heads in pair.head_counts:
        mine, x, calm, dropped = _in_training(pair, num_heads)
        if not all(part.training for part in mine.modules()):
            return Finding("mode", None, {"where": "After forward, the module is"})
        if dropped.equal(calm):
            line = pair.line_of_dropout(mine, x, pair.weights(num_heads))
            if line is not None and isinstance(pair.text.statement(line), ast.Expr):
                return Finding("dropout.unused", line)
            return Finding("dropout.none", line or _line_of_the_weights(pair))
    return None


def _line_of_the_weights(pair: Comparison) -> SourceLine | None:
    """Return the line that makes the weights."""
    labeled = pair.usual_run()
    for wanted in ("attn_weights", "context_vec"):
        for number, label in labeled.labels.items() if labeled else ():
            if label is not None and label.name == wanted and labeled is not None:
                return labeled.operations[number].line
    return None


def each_weight_is_dropped_or_grown(pair: Comparison) -> Finding | None:
    """In training a weight is 0, or divided by 1 - p."""
    for num_heads in pair.head_counts:
        mine, x, calm, dropped = _in_training(pair, num_heads)
        survived = dropped != 0
        wrong = survived & ~((dropped - calm / (1 - DROPOUT)).abs() < 1e-5)
        repeats = dropped.shape[-1] - NUM_TOKENS  # columns that copy the first ones
        alike = survived[..., :repeats].equal(survived[..., NUM_TOKENS:])
        if not wrong.any() and alike:
            continue
        line = pair.line_of_dropout(mine, x, pair.weights(num_heads))
        if not wrong.any():
            return Finding("dropout.values", line)
        factors = (dropped[wrong] / calm[wrong]).nan_to_num(0.0)
        factor, kept = float(factors[0]), survived[calm != 0].float().mean()
        if not close(factors, torch.full_like(factors, factor), 1e-4):
            sums = dropped[..., :NUM_TOKENS].sum(dim=-1)
            again = (((sums - 1).abs() < 1e-4) | ~(sums > 0)).all()
            if again and kept < 1 - DROPOUT / 2:  # what is left was divided by its sum
                made = pair.operations(mine, x, pair.weights(num_heads))
                line = next((o.line for o in made[::-1] if "div" in o.name), line)
            return Finding("dropout.place", line)
        if abs(kept - (1 - DROPOUT)) < SHARE_OFF and abs(factor - 1) < 1e-4:
            return Finding("dropout.not-grown", line)
        if abs(factor - (1 - DROPOUT) ** -2) < 1e-4:
            return Finding("dropout.twice", line)
        return Finding("dropout.share", line, {"p": DROPOUT})
    return None


def each_weight_is_dropped_for_itself(pair: Comparison) -> Finding | None:
    """Weights are not dropped in rows, heads or sequences, and are dropped anew in each call."""
    num_heads = pair.most_heads
    mine, _ = pair.build(num_heads, training=True, dropout=DROPOUT)
    x = pair.marked_tokens(b=16, num_heads=num_heads)
    torch.default_generator.manual_seed(4)
    first, second = (
        pair.attn_weights_of(mine, x, num_heads)[..., :NUM_TOKENS] == 0 for _ in range(2)
    )
    found = _pattern(first, second)
    line = pair.line_of_dropout(mine, x, pair.weights(num_heads)) if found else None
    return found and found.at(line)


def _pattern(first: Tensor, second: Tensor) -> Finding | None:
    """Return what is wrong with the places at which two calls dropped weights."""
    if first.equal(second):
        return Finding("dropout.fixed")
    row = first[:, :, -1]  # the last query, which may attend to all tokens: (b, num_heads, keys)
    for dim, what in enumerate(("the same in all sequences", "the same in all heads", "in rows")):
        if row.shape[dim] > 1 and bool((row.amax(dim=dim) == row.amin(dim=dim)).all()):
            return Finding("dropout.together", None, {"what": what})
    if abs(float(row.float().mean()) - DROPOUT) > SHARE_OFF:
        return Finding("dropout.share", None, {"p": DROPOUT})
    return None


def gradients_with_dropout(pair: Comparison) -> Finding | None:
    """In training with dropout gradients flow: what softmax made is still there for them."""
    mine, _ = pair.build(training=True, dropout=DROPOUT)
    x = pair.usual_x().requires_grad_()
    torch.default_generator.manual_seed(3)
    with reporting(pair.sizes(), "dropout in training"):
        result = mine(x)
    try:
        result.sum().backward()
    except RuntimeError:
        return Finding("gradient.in-place")
    return None
