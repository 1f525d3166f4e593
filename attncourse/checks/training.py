"""Questions about training: what is dropped, when, and whether gradients flow through it.

Like every question, each returns None or what is wrong.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from attncourse.checks.attempt import draw, reporting
from attncourse.checks.conditions import fault_at
from attncourse.checks.departure import RANDOM, dropout_remedy
from attncourse.checks.pair import HEAD_DIM, NUM_TOKENS, B, close, set_mode
from attncourse.checks.questions import Answer
from attncourse.checks.trial import Trial
from attncourse.checks.verdict import Fault

DROPOUT = 0.25


def training_without_dropout(trial: Trial) -> Answer:
    """With dropout=0.0, training computes what eval computes."""
    mine, ours = trial.build()
    weights = trial.random_weights(ours)
    x = draw(B, NUM_TOKENS, trial.d_in(), seed=1)
    calm = trial.run(mine, x, weights)
    set_mode(mine, training=True)
    torch.manual_seed(1)
    if close(trial.run(mine, x, weights), calm, 1e-4):
        return None
    if line := trial.line_of_dropout(mine, x, weights):
        return Fault(
            "",
            "dropout.zero",
            "With dropout=0.0 something is dropped in training: pass dropout on as it is.",
            trial.line_of_another_p() or line,
        )
    where = trial.departure(mine, x, weights, trial.head_counts[-1])
    return fault_at(
        "training",
        "With dropout=0.0 training and eval must compute the same, and yours do not: "
        + (where.cause if where else "what depends on self.training?"),
        where,
    )


def dropout_in_eval(trial: Trial) -> Answer:
    """In eval nothing may be dropped."""
    for num_heads in trial.head_counts:
        mine, ours = trial.build(num_heads, dropout=DROPOUT)
        calm, _ = trial.build(num_heads)
        x = trial.marked_tokens(num_heads=num_heads)
        dropped = trial.attn_weights_of(mine, x, num_heads)
        if close(dropped, trial.attn_weights_of(calm, x, num_heads)):
            continue
        weights = trial.random_weights(ours)
        line = trial.line_of_dropout(mine, x, weights)
        if line is not None and (dropped == 0).sum() >= 1:
            where = trial.departure(mine, x, weights, num_heads)
            if where is None or where.code in ("dropout.active", "random") or not where.sure:
                return Fault(
                    "",
                    "dropout.eval",
                    f"Dropout is active in eval(): {dropout_remedy(line)}",
                    line,
                )
        where = trial.departure(mine, x, weights, num_heads)
        if where is not None and where.code not in ("dropout.active", "random"):
            return Fault(
                "",
                where.code,
                f"With dropout={DROPOUT} the result in eval is another than with dropout=0.0: "
                f"{where.cause}",
                where.line,
            )
        return Fault(
            "",
            "dropout.eval",
            f"Dropout is active in eval(): {dropout_remedy(line)}",
            line,
        )
    return None


def dropout_in_training(trial: Trial) -> Answer:
    """In training a weight is 0, or divided by 1 - p."""
    for num_heads in trial.head_counts:
        mine, _ = trial.build(num_heads, dropout=DROPOUT)
        x = trial.marked_tokens(b=8, num_heads=num_heads)
        weights = trial.weights(num_heads)
        calm = trial.attn_weights_of(mine, x, num_heads)
        set_mode(mine, training=True)
        torch.manual_seed(3)
        dropped = trial.attn_weights_of(mine, x, num_heads)
        line = trial.line_of_dropout(mine, x, weights)
        if not all(part.training for part in mine.modules()):
            return Fault(
                "",
                "mode.changed",
                "forward itself switches to eval, so that dropout never drops: the mode belongs to "
                "the caller, who calls train() and eval().",
                trial.line_with(r"\.(eval|train)\(|\.training\s*="),
            )
        if dropped.equal(calm):
            return Fault(
                "",
                "dropout.none",
                "In training nothing is dropped: is dropout passed on, and are the attention "
                "weights put through it, attn_weights = self.dropout(attn_weights)?",
                line
                or trial.line_of_another_p()
                or trial.line_that_drops()
                or trial.line_of_the_weights(),
            )
        survived = dropped != 0
        wrong = survived & ~((dropped - calm / (1 - DROPOUT)).abs() < 1e-5)
        if wrong.any():
            if again := _made_to_sum_to_one(trial, mine, x, dropped, calm):
                return again
            return Fault("", "dropout.place", _wrong_dropout(calm, dropped, wrong), line)
        # The last two columns of the result repeat the first two: see attn_weights_of
        if not survived[..., : HEAD_DIM - NUM_TOKENS].equal(survived[..., NUM_TOKENS:]):
            return Fault(
                "",
                "dropout.values",
                "In training dropout falls on single numbers of the values or the result: it "
                "belongs on attn_weights, right after softmax.",
                line,
            )
    return None


def _made_to_sum_to_one(
    trial: Trial, mine: nn.Module, x: Tensor, dropped: Tensor, calm: Tensor
) -> Fault | None:
    """Tell weights that are divided by the sum of their row after dropout."""
    sums = dropped[..., :NUM_TOKENS].sum(dim=-1)
    if not bool(((sums - 1).abs().lt(1e-3) | sums.abs().lt(1e-3)).all()):
        return None
    recording, _ = trial.record(mine, x, trial.weights(dropped.shape[1]))
    operations = recording.operations[recording.number_of(x) or 0 :]
    weights = next((op.number for op in operations if re.search("softmax|exp$", op.name)), None)
    drops = [
        op.number
        for op in operations
        if weights is not None and op.number > weights and RANDOM.search(op.name)
    ]
    line = next(
        (
            op.line
            for op in operations
            if drops and op.number > drops[-1] and re.search("div|normalize|softmax", op.name)
        ),
        None,
    )
    if line is None:
        return None
    return Fault(
        "",
        "dropout.sums",
        "In training the rows are made to sum to 1 again after dropout: that takes back what it "
        "did. Dropout comes last before the values, and its rows need not sum to 1.",
        line,
    )


def dropout_in_place(trial: Trial) -> Answer:
    """In training with dropout gradients flow: what softmax made is still there for them."""
    mine, _ = trial.build(dropout=DROPOUT)
    x = draw(B, NUM_TOKENS, trial.d_in(), seed=1).requires_grad_()
    set_mode(mine, training=True)
    torch.manual_seed(3)
    with reporting(trial.sizes(), "In training with dropout: "):
        result = mine(x)
    try:
        result.sum().backward()
    except RuntimeError as error:
        if "inplace" not in str(error) and "in-place" not in str(error):
            raise
        return Fault(
            "",
            "gradient.in-place",
            "In training with dropout the backward pass fails: a number that softmax needs for its "
            "gradient is overwritten in place. Drop with nn.Dropout(dropout), without inplace.",
            trial.line_with(r"inplace\s*=\s*True") or trial.line_with(r"\.\w+_\("),
        )
    return None


def _wrong_dropout(calm: Tensor, dropped: Tensor, wrong: Tensor) -> str:
    # NaN before a number, then the first token, so that all machines say the same
    is_nan = wrong & dropped.isnan()
    places = (is_nan if is_nan.any() else wrong).nonzero().tolist()
    place = min(map(tuple, places), key=lambda at: at[2:])
    factors = (dropped[wrong] / calm[wrong]).nan_to_num(0.0)
    twice = close(factors, torch.full_like(factors, (1 - DROPOUT) ** -2), 1e-4)
    about = (
        "dropout is applied twice; once is right, right after softmax."
        if twice
        else "dropout belongs right after softmax, on attn_weights, once."
    )
    instead = (
        "but here it is NaN, as 0 times -inf and 0 / 0 are"
        if is_nan.any()
        else f"not {dropped[place]:.3g}"
    )
    return (
        f"In training with p = {DROPOUT} an attention weight of {calm[place]:.3g} may become 0 or "
        f"{calm[place] / (1 - DROPOUT):.3g}, {instead}: {about}"
    )


def dropout_by_number(trial: Trial) -> Answer:
    """Each weight is dropped for itself, not in rows, heads or texts, and anew in each call."""
    num_heads = trial.head_counts[-1]
    mine, _ = trial.build(num_heads, dropout=DROPOUT)
    x = trial.marked_tokens(b=16, num_heads=num_heads)
    visible = torch.ones(NUM_TOKENS, NUM_TOKENS).tril().bool()
    set_mode(mine, training=True)
    torch.manual_seed(4)
    first, second = (
        trial.attn_weights_of(mine, x, num_heads)[..., :NUM_TOKENS] == 0 for _ in range(2)
    )
    line = trial.line_of_dropout(mine, x, trial.weights(num_heads))
    shared = "dropout must draw anew for every attention weight: self.dropout(attn_weights)."
    if first.equal(second):
        return Fault(
            "",
            "dropout.fixed",
            "In training every call drops the same attention weights: is a seed set, or a pattern "
            f"kept? {shared}",
            line,
        )
    rows = torch.stack([first[..., i, : i + 1].float().mean(dim=-1) for i in (2, 3, 4)])
    if bool(((rows == 0) | (rows == 1)).all()):
        heads = first[..., visible].float().mean(dim=-1)
        what = "whole heads" if bool(((heads == 0) | (heads == 1)).all()) else "whole rows"
        return Fault(
            "", "dropout.together", f"In training {what} are dropped together: {shared}", line
        )
    columns = torch.stack([first[..., j:, j].float().mean(dim=-1) for j in (0, 1, 2)])
    if bool(((columns == 0) | (columns == 1)).all()):
        return Fault(
            "",
            "dropout.together",
            f"In training whole columns are dropped together: {shared}",
            line,
        )
    if num_heads > 1 and first.equal(first[:, :1].expand_as(first)):
        return Fault(
            "",
            "dropout.shared",
            f"In training all heads drop the same attention weights: {shared}",
            line,
        )
    if first.equal(first[:1].expand_as(first)):
        return Fault(
            "",
            "dropout.shared",
            f"In training all texts drop the same attention weights: {shared}",
            line,
        )
    share = float(first[..., visible].float().mean())
    if abs(share - DROPOUT) > 0.12:
        return Fault(
            "",
            "dropout.share",
            f"In training with p = {DROPOUT}, {share:.0%} of the attention weights are dropped.",
            trial.line_of_another_p() or line,
        )
    return None
