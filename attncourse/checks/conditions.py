"""Questions about conditions that one usual run does not meet.

Another call, another length, large scores, other dtypes: a class may be right on a few tokens and
fail here. Like every question, each returns None or what is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from attncourse.checks.attempt import Diagnosis, draw, reporting, run
from attncourse.checks.departure import RANDOM, dropout_remedy
from attncourse.checks.explained import Departure
from attncourse.checks.pair import HEAD_DIM, NUM_TOKENS, B, close
from attncourse.checks.questions import Answer
from attncourse.checks.trial import Trial
from attncourse.checks.verdict import Fault
from attncourse.tracing.operations import Line, Recording

MANY_TOKENS = 67
FAR = 1e6  # how far apart scores are: further than what a mask may set instead of -inf


def fault_at(code: str, cause: str, where: Departure | None) -> Fault:
    """Return a fault at a departure's line."""
    return Fault("", code, cause, where.line if where else None)


def two_runs(trial: Trial) -> Answer:
    """The same module on the same x, in eval, without dropout: nothing may be random."""
    mine, ours = trial.build()
    weights = trial.random_weights(ours)
    x = draw(B, NUM_TOKENS, trial.d_in(), seed=1)
    torch.manual_seed(1)
    first = trial.run(mine, x, weights)
    torch.manual_seed(2)
    second = trial.run(mine, x, weights)
    if first.equal(second) or (first.isnan() & second.isnan() | (first == second)).all():
        return None
    recording, _ = trial.record(mine, x, weights)
    line = next(
        (
            op.line
            for op in recording.operations[recording.number_of(x) or 0 :]
            if RANDOM.search(op.name) and op.line is not None
        ),
        None,
    )
    if line is None:
        return calls_in_turn(trial) or Fault("", "random", "Two runs on the same x differ.")
    return Fault(
        "",
        "random",
        "Two runs on the same x differ, though in eval: random numbers are drawn. In eval, forward "
        f"must not draw any{_remedy(line)}.",
        line,
    )


def _remedy(line: Line) -> str:
    """Return how a line that drops learns of the mode, if it drops."""
    return f": {dropout_remedy(line)[:-1]}" if "rop" in line.text else ""


def calls_in_turn(trial: Trial) -> Answer:
    """One module, several inputs: nothing may stay from an earlier call."""
    num_heads = trial.head_counts[-1]
    mine, ours = trial.build()
    weights = trial.random_weights(ours)
    d_in = trial.d_in()
    before = {name: p.detach().clone() for name, p in mine.named_parameters()}
    inputs = [
        draw(B, NUM_TOKENS, d_in, seed=1),
        draw(B, NUM_TOKENS, d_in, seed=2),
        draw(B, 3, d_in, seed=3),
        draw(B, NUM_TOKENS, d_in, seed=1),
    ]
    for number, x in enumerate(inputs):
        have, want = trial.run(mine, x, weights), run(ours, x, weights)
        if not close(have, want, 1e-4):
            where = trial.departure(mine, x, weights, num_heads)
            if number == 0 and where is not None and where.sure:
                return Fault("", where.code, where.cause, where.line)
            return fault_at(
                "state",
                f"The first call is right, but call {number} of the same module, counted from 0, "
                "is not: something stays from an earlier call, and forward uses it again. Keep no "
                "tensors on self in forward.",
                where,
            )
    run(mine, inputs[0])
    for name, parameter in mine.named_parameters():
        if not parameter.detach().equal(before[name]):
            return f"forward changes its own parameter {name}: only an optimizer may do that."
    return None


def many_tokens(trial: Trial) -> Answer:
    """A context that is longer than the others asked for."""
    num_heads = trial.head_counts[-1]
    mine, ours = trial.build(context_length=MANY_TOKENS)
    weights = trial.random_weights(ours)
    x = draw(1, MANY_TOKENS, trial.d_in(), seed=1)
    try:
        have = trial.run(mine, x, weights)
    except Diagnosis as diagnosis:
        raise Diagnosis(
            f"With context_length={MANY_TOKENS} and as many tokens: {diagnosis}",
            "length",
            diagnosis.line,
        ) from None
    want = run(ours, x, weights)
    if close(have, want, 1e-4):
        return None
    off = (have - want).abs().amax(dim=(0, 2)) > 1e-4
    first = int((off | have.isnan().any(dim=2)[0]).nonzero()[0])
    where = trial.departure(mine, x, weights, num_heads)
    return fault_at(
        "length",
        f"With context_length={MANY_TOKENS} and as many tokens the outputs are wrong from token "
        f"{first} on: does a mask or a window have a fixed size?",
        where or trial.line_of_the_mask(mine, x, weights),
    )


def large_scores(trial: Trial) -> Answer:
    """Scores far apart: what hides must be lower than any score, as -inf is."""
    mine, _ = trial.build(num_heads=1)
    x = trial.marked_tokens()
    x[:, :, NUM_TOKENS] = 1  # one column is the same for all tokens
    overflow = None
    for near, far in ((0.0, FAR), (-FAR, 0.0)):
        W_query, W_key = torch.zeros(2, HEAD_DIM, trial.d_in(1))
        W_query[0, NUM_TOKENS] = HEAD_DIM**0.5
        W_key[0, :NUM_TOKENS] = far
        W_key[0, 0] = near
        matrices = {"W_query": W_query, "W_key": W_key}
        first = trial.attn_weights_of(mine, x, 1, **matrices)[:, 0, 0, :NUM_TOKENS]
        if (first[:, 1:] > 1e-3).any():
            return Fault(
                "",
                "mask.not-low",
                f"Scores can be as far apart as {FAR:g}, and then token 0 sees token 1: the number "
                "that hides, such as -1e4, is not the lowest. Use -torch.inf.",
                trial.line_of_the_fill(mine, x, trial.weights(1)),
            )
        if first.isnan().any():
            overflow = True
    late = trial.softmax_before_mask() if overflow else None
    if overflow and late is not None:
        return Fault(
            "",
            "mask.after-softmax",
            "The mask comes after softmax, and the rows are made to sum to 1 again. Where a later "
            "token has a much larger score, nothing is left of the row: 0 / 0 is NaN. Hide the "
            "scores with -torch.inf before softmax.",
            late,
        )
    if overflow:
        trial.note(f"With scores that are far apart the result is NaN: {_why_nan(trial, mine, x)}")
        return None
    mine, ours = trial.build()
    weights = {
        name: weight * (20 if "W_value" not in name and "out" not in name else 1)
        for name, weight in trial.random_weights(ours).items()
    }
    x = draw(B, NUM_TOKENS, trial.d_in(), seed=1)
    have, want = trial.run(mine, x, weights), run(ours, x, weights)
    if close(have, want, 2e-3):
        return None
    if have.isnan().any():
        trial.note(f"With large scores the result is NaN: {_why_nan(trial, mine, x, weights)}")
        return None
    where = trial.departure(mine, x, weights, trial.head_counts[-1])
    return fault_at(
        "scores.large",
        "With large scores the result is another: are the scores cut off or rounded before "
        "softmax?",
        where,
    )


def _why_nan(
    trial: Trial, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor] | None = None
) -> str:
    """Return whether numbers grew too large in a run, or a row too small to divide by."""
    if weights is None:
        W_query, W_key = torch.zeros(2, HEAD_DIM, trial.d_in(1))
        W_query[0, NUM_TOKENS] = HEAD_DIM**0.5
        W_key[0, 1:NUM_TOKENS] = FAR
        weights = trial.weights(1, W_query=W_query, W_key=W_key)
    recording, _ = trial.record(mine, x, weights)
    start = recording.number_of(x) or 0
    if any("exp" in op.name and op.values.isposinf().any() for op in recording.operations[start:]):
        return "exp overflows. torch.softmax subtracts the largest score of a row first."
    return (
        "the largest score of a row is one that is hidden, next to it nothing is left of the "
        "others, and 0 / 0 is NaN. Hide first, then subtract the largest."
    )


def more_tokens_than_context_length(trial: Trial) -> Answer:
    """More tokens than context_length: refused or computed, but not cut off in silence."""
    d_in = trial.d_in()
    mine, _ = trial.build(context_length=3)
    x = draw(B, NUM_TOKENS, d_in, seed=1)
    try:
        result = run(mine, x)
    except Diagnosis:
        result = None  # it refuses, as it should
    if result is not None and result.shape[1:2] != x.shape[1:2]:
        return Fault(
            "",
            "length.cut",
            f"With context_length=3, {NUM_TOKENS} tokens come in and {result.shape[1]} come out: "
            "the rest is cut off in silence. Raise a ValueError if num_tokens > context_length.",
            trial.line_of_the_cutting(mine, x),
        )
    mine, _ = trial.build(num_heads=1, context_length=1)
    try:
        attn_weights = trial.attn_weights_of(mine, trial.marked_tokens(), 1)
    except Diagnosis:
        return None
    if (attn_weights[:, 0, 0, 1:NUM_TOKENS].abs() > 1e-6).any() or attn_weights.isnan().any():
        trial.note(
            "With context_length=1 more than one token passes, and token 0 sees token 1: the mask "
            "is 1 x 1 and broadcasts. Raise a ValueError if num_tokens > context_length.",
            code="mask.broadcasts",
        )
    return None


def double_precision(trial: Trial) -> Answer:
    """In float64 the result is float64, and right; lost digits are a matter of taste."""
    mine, ours = trial.build()
    with reporting():
        nn.Module.double(mine)
    weights = {name: weight.double() for name, weight in trial.random_weights(ours).items()}
    x = draw(B, NUM_TOKENS, trial.d_in(), seed=1).double()
    have = trial.run(mine, x, weights, before="In float64: ")
    want = run(ours.double(), x, weights)
    if not close(have, want, 1e-4):
        where = trial.departure(mine, x, weights, trial.head_counts[-1])
        return fault_at("dtype.float64", "Right in float32, but wrong in float64.", where)
    if not close(have, want, 1e-10):
        trial.note(
            "In float64 the digits after the seventh are lost: a line computes in float32 whatever "
            "x is."
        )
    return None


def half_precision(trial: Trial) -> Answer:
    """In float16 the result is float16; numbers that do not fit are a matter of taste."""
    mine, _ = trial.build(num_heads=1)
    with reporting():
        nn.Module.half(mine)
    x = trial.marked_tokens().half()
    before = "In half precision: "
    zero = torch.zeros(HEAD_DIM, trial.d_in(1))
    try:
        attn_weights = trial.attn_weights_of(mine, x, 1, before, W_key=zero)
    except Diagnosis as diagnosis:
        if "overflow" in str(diagnosis):
            trial.note(str(diagnosis))
            return None
        raise
    if attn_weights.isnan().any() or (attn_weights[:, 0, 0, 1:NUM_TOKENS] > 1e-2).any():
        trial.note(
            f"{before}the mask does not work: the number that hides does not fit. Use -torch.inf."
        )
    return None


def token_of_zeros(trial: Trial) -> Answer:
    """A token of zeros is one like any other: nothing says that it is padding."""
    mine, ours = trial.build()
    weights = trial.random_weights(ours)
    x = draw(B, NUM_TOKENS, trial.d_in(), seed=1)
    x[:, 1] = 0
    if close(trial.run(mine, x, weights), run(ours, x, weights), 1e-4):
        return None
    return Fault(
        "",
        "x.zeros",
        "A token whose numbers are all 0 is treated otherwise than others: is it taken for "
        "padding? What is padding must be said by a mask of its own.",
        trial.line_with(r"[=!]=\s*0\b(?!.*tri)(?!.*mask)|\.any\(|count_nonzero|\bx\b.*[=!]="),
    )


def moved(trial: Trial) -> Answer:
    """Moved to another device, the module takes all that it needs along."""
    mine, _ = trial.build()
    left = [
        (attribute, value)
        for part in mine.modules()
        for attribute, value in vars(part).items()
        if isinstance(value, Tensor)
    ]
    if not left:
        return None
    x = draw(B, NUM_TOKENS, trial.d_in(), seed=1)
    recording, _ = trial.record(mine, x)
    for name, tensor in left:
        if trial.line_with(rf"\b{name}\b.*(\.device|\.to\(\w+\)|type_as)"):
            continue  # it is brought along in forward
        if _meets(recording, recording.number_of(x), recording.number_of(tensor)):
            return Fault(
                "",
                "mask.no-buffer",
                f"On the CPU all is right, but on another device it stops: self.{name} is a tensor "
                "that the module does not know of, and .to(device) leaves it behind. Make it a "
                f'buffer: self.register_buffer("{name}", ...).',
                trial.line_in_init(name),
            )
    return None


def _meets(recording: Recording, x: int | None, kept: int | None) -> bool:
    """Return whether a tensor meets what comes from x in one operation."""
    if x is None or kept is None:
        return False
    from_x, from_kept = {x}, {kept}
    for operation in recording.operations:
        parents = set(operation.parents)
        mine, others = parents & from_kept, parents & from_x
        if mine and others:
            return True
        if mine:
            from_kept.add(operation.number)
        if others:
            from_x.add(operation.number)
    return False


def initial_values(trial: Trial) -> Answer:
    """New modules differ from one another, and their projections are random."""
    torch.manual_seed(5)
    mine, ours = trial.build()
    torch.manual_seed(6)
    other, _ = trial.build()
    names = trial.make.parameter_names(mine, dict(ours.named_parameters()))
    matrices = {
        name: p.detach()
        for name, p in mine.named_parameters()
        if name in names.values() and p.ndim == 2
    }
    twins = dict(other.named_parameters())
    for name, matrix in matrices.items():
        even = bool((matrix == matrix.flatten()[0]).all())
        size = float(matrix.abs().max())
        odd = even or not matrix.isfinite().all() or size > 20 or size < 1e-6
        line = (odd and trial.line_that_filled(name)) or trial.line_in_init(name.split(".")[0])
        if not matrix.isfinite().all():
            return Fault("", "init.values", f"{name} begins with NaN or inf.", line)
        if even:
            return Fault(
                "",
                "init.values",
                f"All numbers of {name} begin as {matrix.flatten()[0]:.4g}: its columns would "
                "learn the same. Let nn.Linear draw them.",
                line,
            )
        if matrix.equal(twins[name]):
            return Fault(
                "",
                "init.seed",
                f"Two new modules begin with the same {name}: is a seed set in __init__? All "
                "layers "
                "of a model would begin alike.",
                trial.line_of_the_seed() or line,
            )
        if size > 20 or size < 1e-6:
            return Fault(
                "",
                "init.values",
                f"The numbers of {name} begin as large as {size:.3g}: nn.Linear draws them around "
                f"{matrix.shape[-1] ** -0.5:.2g}.",
                line,
            )
    for (a, first), (b, second) in itertools.combinations(matrices.items(), 2):
        if first.shape == second.shape and first.equal(second):
            if a.startswith("heads.") and a.split(".")[2:] == b.split(".")[2:]:
                return Fault(
                    "",
                    "init.copied-heads",
                    f"{b} begins with the numbers of {a}: the heads are copies, and would learn "
                    "the same. Make a new head each time, so that its numbers are drawn anew.",
                    trial.line_with("copy|load_state_dict") or trial.line_in_init("heads"),
                )
            return Fault(
                "",
                "init.equal",
                f"{a} and {b} begin with the same numbers; each must be drawn for itself.",
                trial.line_in_init(b.split(".")[0]),
            )
    return None
