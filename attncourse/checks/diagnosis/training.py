"""The questions about training: what is dropped, when, and whether gradients flow through it."""

from __future__ import annotations

import ast

import torch
from torch import Tensor, nn

from attncourse.checks.diagnosis.comparison import DROPOUT, NUM_TOKENS, Comparison, close
from attncourse.checks.findings import Finding
from attncourse.checks.safe_run import reporting, run
from attncourse.tracing.operations import SourceLine

# About a quarter of some hundred attention weights is dropped: the share is off by less than this
# in all but one of a million drawings
SHARE_OFF = 0.12


def training_without_dropout(pair: Comparison) -> Finding | None:
    """With dropout=0.0, training computes what eval computes."""
    calm_module, ours = pair.build()
    mine, _ = pair.build(training=True)
    weights, x = pair.random_weights(ours), pair.usual_x()
    torch.default_generator.manual_seed(1)
    calm = pair.run(calm_module, x, weights)
    trained = pair.run(mine, x, weights)
    if calm.isnan().any() or close(trained, calm, 1e-4):
        return None
    if line := pair.line_of_dropout(mine, x, weights):
        return Finding("dropout.share", line, {"p": 0.0})
    right_in_eval = close(calm, run(ours, x, weights), 1e-4)
    where = pair.first_difference(mine if right_in_eval else calm_module, x, weights)
    line = where.line if where is not None else None
    if where is not None and where.code == "mask.none":
        return Finding("mask.training", line, {"other": "training" if right_in_eval else "eval"})
    return Finding("training", line)


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
    """In training with dropout the attention weights change, and a new module is in training."""
    new = pair.make(**pair.arguments(dropout=DROPOUT))
    if not all(part.training for part in new.modules()):
        return Finding("mode", None, {"where": "A new module is"})
    mine, x, calm, dropped = _in_training(pair)
    if not all(part.training for part in mine.modules()):
        return Finding("mode", None, {"where": "After forward, the module is"})
    if not dropped.equal(calm):
        return None
    line = pair.line_of_dropout(mine, x, pair.weights())
    if line is not None and isinstance(pair.text.statement(line), ast.Expr):
        return Finding("dropout.unused", line)
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
    if abs(kept - (1 - DROPOUT)) < SHARE_OFF and abs(factor - 1) < 1e-4:
        return Finding("dropout.not-grown", line)
    if abs(factor - (1 - DROPOUT) ** -2) < 1e-4:
        return Finding("dropout.twice", line)
    return Finding("dropout.share", line, {"p": DROPOUT})


def each_weight_is_dropped_for_itself(pair: Comparison) -> Finding | None:
    """Weights are not dropped in rows, heads or sequences, and are dropped anew in each call."""
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
    if found is None and abs(float(row.float().mean()) - DROPOUT) > SHARE_OFF:
        found = Finding("dropout.share", None, {"p": DROPOUT})
    return found and found.at(pair.line_of_dropout(mine, x, pair.weights()))


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
