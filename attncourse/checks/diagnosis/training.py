"""Questions about training: what is dropped, when, and whether gradients flow through it."""

from __future__ import annotations

import ast
import re

import torch
from torch import Tensor, nn

from attncourse.checks.diagnosis.trial import DROPOUT, NUM_TOKENS, Trial, close, set_mode
from attncourse.checks.findings import Finding, Kind
from attncourse.checks.safe_run import reporting
from attncourse.tracing.operations import SourceLine

DIVIDES = re.compile("div|normalize")
CALMS = r"\.(eval|train)\(|\.training\s*="


def training_without_dropout(trial: Trial) -> Finding | None:
    """With dropout=0.0, training computes what eval computes."""
    mine, ours = trial.build()
    weights, x = trial.random_weights(ours), trial.usual_x()
    calm = trial.run(mine, x, weights)
    set_mode(mine, training=True)
    torch.default_generator.manual_seed(1)
    if calm.isnan().any() or close(trial.run(mine, x, weights), calm, 1e-4):
        return None
    if line := trial.line_of_dropout(mine, x, weights):
        return Finding(Kind.DROPOUT_SHARE, line, {"p": 0.0})
    where = trial.departure(mine, x, weights, trial.most_heads)
    if where is not None and where.kind is Kind.MASK_NONE:
        path = trial.usual_path()  # in eval, where the mask is there
        found = path.found.items() if path is not None else ()
        hides = [n for n, f in found if f and f.hidden is not None and f.hidden.any()]
        line = path.operations[hides[0]].line if path and hides else where.line
        return Finding(Kind.MASK_TRAINING, line, {"there": "eval", "other": "training"})
    return Finding(Kind.TRAINING, where.line if where else None)


def dropout_in_eval(trial: Trial) -> Finding | None:
    """In eval nothing may be dropped."""
    for num_heads in trial.head_counts:
        mine, ours = trial.build(num_heads, dropout=DROPOUT)
        calm, _ = trial.build(num_heads)
        x = trial.marked_tokens(num_heads=num_heads)
        dropped = trial.attn_weights_of(mine, x, num_heads)
        if close(dropped, trial.attn_weights_of(calm, x, num_heads)):
            continue
        weights = trial.random_weights(ours)
        where = trial.departure(mine, x, weights, num_heads)
        random = (Kind.DROPOUT_ACTIVE, Kind.RANDOM)
        if where is not None and where.kind not in random and where.sure:
            return where
        return Finding(Kind.DROPOUT_ACTIVE, trial.line_of_dropout(mine, x, weights))
    return None


def _in_training(trial: Trial, num_heads: int) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """Return a module in training, its input, and its attention weights in eval and in training."""
    mine, _ = trial.build(num_heads, dropout=DROPOUT)
    x = trial.marked_tokens(b=8, num_heads=num_heads)
    calm = trial.attn_weights_of(mine, x, num_heads)
    set_mode(mine, training=True)
    torch.default_generator.manual_seed(3)
    return mine, x, calm, trial.attn_weights_of(mine, x, num_heads)


def something_is_dropped(trial: Trial) -> Finding | None:
    """In training with dropout the attention weights change, and a new module is in training."""
    new = trial.make(**trial.arguments(dropout=DROPOUT))
    if not all(part.training for part in new.modules()):
        return Finding(Kind.MODE_INIT, trial.text.line_with(CALMS, among="__init__"))
    for num_heads in trial.head_counts:
        mine, x, calm, dropped = _in_training(trial, num_heads)
        if not all(part.training for part in mine.modules()):
            return Finding(Kind.MODE_CHANGED, trial.text.line_with(CALMS))
        if dropped.equal(calm):
            line = trial.line_of_dropout(mine, x, trial.weights(num_heads))
            if line is not None and isinstance(trial.text.statement(line), ast.Expr):
                return Finding(Kind.DROPOUT_UNUSED, line)
            return Finding(Kind.DROPOUT_NONE, line or _line_of_the_weights(trial))
    return None


def _line_of_the_weights(trial: Trial) -> SourceLine | None:
    """Return the line that makes the weights."""
    path = trial.usual_path()
    for wanted in ("attn_weights", "context_vec"):
        for number, found in path.found.items() if path else ():
            if found is not None and found.name == wanted and path is not None:
                return path.operations[number].line
    return None


def each_weight_is_dropped_or_grown(trial: Trial) -> Finding | None:
    """In training a weight is 0, or divided by 1 - p."""
    for num_heads in trial.head_counts:
        mine, x, calm, dropped = _in_training(trial, num_heads)
        survived = dropped != 0
        wrong = survived & ~((dropped - calm / (1 - DROPOUT)).abs() < 1e-5)
        if wrong.any():
            factors = (dropped[wrong] / calm[wrong]).nan_to_num(0.0)
            factor, line = (
                float(factors[0]),
                trial.line_of_dropout(mine, x, trial.weights(num_heads)),
            )
            kept = survived[calm != 0].float().mean()
            if not close(factors, torch.full_like(factors, factor), 1e-4):
                sums = dropped[..., :NUM_TOKENS].sum(dim=-1)
                again = ((sums - 1).abs() < 1e-4) | ~(sums > 0)  # rows of which all was dropped
                if kept > 0.99 or not again.all():
                    return Finding(Kind.DROPOUT_PLACE, line)
                made = trial.all_of(mine, x, lambda o: DIVIDES.search(o.name))
                return Finding(Kind.DROPOUT_UNDONE, made[-1].line if made else line)
            if abs(kept - (1 - DROPOUT)) < 0.1:
                return Finding(Kind.DROPOUT_NOT_GROWN, line)
            if abs(factor - (1 - DROPOUT) ** -2) < 1e-4:
                return Finding(Kind.DROPOUT_TWICE, line)
            return Finding(Kind.DROPOUT_SHARE, line, {"p": DROPOUT})
        repeats = dropped.shape[-1] - NUM_TOKENS  # columns that copy the first ones
        if not survived[..., :repeats].equal(survived[..., NUM_TOKENS:]):
            line = trial.line_of_dropout(mine, x, trial.weights(num_heads))
            return Finding(Kind.DROPOUT_VALUES, line)
    return None


def each_weight_is_dropped_for_itself(trial: Trial) -> Finding | None:
    """Weights are not dropped in rows, heads or texts, and are dropped anew in each call."""
    num_heads = trial.most_heads
    mine, _ = trial.build(num_heads, dropout=DROPOUT)
    x = trial.marked_tokens(b=16, num_heads=num_heads)
    set_mode(mine, training=True)
    torch.default_generator.manual_seed(4)
    first, second = (
        trial.attn_weights_of(mine, x, num_heads)[..., :NUM_TOKENS] == 0 for _ in range(2)
    )
    found = _pattern(first, second)
    if found is None:
        return None
    line = trial.line_of_dropout(mine, x, trial.weights(num_heads))
    if found.kind is Kind.DROPOUT_FIXED:
        line = trial.text.line_with(r"seed|Generator\(") or line
    return found.at(line)


def _pattern(first: Tensor, second: Tensor) -> Finding | None:
    """Tell what is wrong with the places at which two calls dropped weights."""
    if first.equal(second):
        return Finding(Kind.DROPOUT_FIXED)
    visible = torch.ones(NUM_TOKENS, NUM_TOKENS).tril().bool()
    heads = first[..., visible].float().mean(dim=-1)
    rows = torch.stack([first[..., i, : i + 1].float().mean(dim=-1) for i in (2, 3, 4)])
    columns = torch.stack([first[..., j:, j].float().mean(dim=-1) for j in (0, 1, 2)])
    shares = {"in whole heads": heads, "in whole rows": rows, "in whole columns": columns}
    for what, share in shares.items():
        if bool(((share == 0) | (share == 1)).all()):
            return Finding(Kind.DROPOUT_TOGETHER, None, {"what": what})
    alike = {"the same in all heads": first[:, :1], "the same in all texts": first[:1]}
    for what, one in alike.items():
        if first.equal(one.expand_as(first)) and one.shape != first.shape:
            return Finding(Kind.DROPOUT_TOGETHER, None, {"what": what})
    if abs(float(heads.mean()) - DROPOUT) > 0.12:
        return Finding(Kind.DROPOUT_SHARE, None, {"p": DROPOUT})
    return None


def gradients_with_dropout(trial: Trial) -> Finding | None:
    """In training with dropout gradients flow: what softmax made is still there for them."""
    mine, _ = trial.build(dropout=DROPOUT)
    x = trial.usual_x().requires_grad_()
    set_mode(mine, training=True)
    torch.default_generator.manual_seed(3)
    with reporting(trial.sizes(), "dropout in training"):
        result = mine(x)
    try:
        result.sum().backward()
    except RuntimeError:
        return Finding(Kind.GRADIENT_IN_PLACE, trial.line_in_place(mine, x))
    return None
