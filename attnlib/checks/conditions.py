"""Questions about conditions that one usual run does not meet.

Another call, another length, large scores, other dtypes, training: a class may be right on a few
tokens and fail here. Like every question, each returns None or what is wrong.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from attnlib.checks.attempt import Diagnosis, draw, reporting, run
from attnlib.checks.departure import RANDOM, dropout_remedy
from attnlib.checks.explained import Departure
from attnlib.checks.questions import Answer
from attnlib.checks.trial import HEAD_DIM, NUM_TOKENS, B, Trial, close, set_mode
from attnlib.checks.verdict import Fault
from attnlib.tracing.operations import Line, Recording

MANY_TOKENS = 67
DROPOUT = 0.25
FAR = 1e6  # how far apart scores are: further than what a mask may set instead of -inf


def _fault(code: str, cause: str, where: Departure | None) -> Fault:
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
            return _fault(
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
    return _fault(
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
    return _fault(
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
        return _fault("dtype.float64", "Right in float32, but wrong in float64.", where)
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
            "With dropout=0.0 something is dropped in training: hand dropout on as it is.",
            trial.line_of_another_p() or line,
        )
    where = trial.departure(mine, x, weights, trial.head_counts[-1])
    return _fault(
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
                "In training nothing is dropped: is dropout handed on, and are the weights put "
                "through it, attn_weights = self.dropout(attn_weights)?",
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
    """Return whether a tensor meets what comes from x before it is brought to its device."""
    if x is None or kept is None:
        return False
    from_x, from_kept = {x}, {kept}
    for operation in recording.operations:
        parents = set(operation.parents)
        mine, others = parents & from_kept, parents & from_x
        moves = operation.name in {"to", "type_as", "cuda"} and (
            len(parents) > 1 or any(isinstance(a, (torch.device, str)) for a in operation.arguments)
        )
        if mine and moves:
            continue
        if mine and others:
            return True
        if mine:
            from_kept.add(operation.number)
        if others:
            from_x.add(operation.number)
    return False


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
    return (
        f"In training with p = {DROPOUT} a weight of {calm[place]:.3g} may become 0 or "
        f"{calm[place] / (1 - DROPOUT):.3g}, not {dropped[place]:.3g}: {about}"
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
    shared = "dropout must draw anew for every weight: self.dropout(attn_weights)."
    if first.equal(second):
        return Fault(
            "",
            "dropout.fixed",
            f"In training every call drops the same weights: is a seed set, or a pattern kept? "
            f"{shared}",
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
            "", "dropout.shared", f"In training all heads drop the same weights: {shared}", line
        )
    if first.equal(first[:1].expand_as(first)):
        return Fault(
            "", "dropout.shared", f"In training all texts drop the same weights: {shared}", line
        )
    share = float(first[..., visible].float().mean())
    if abs(share - DROPOUT) > 0.12:
        return Fault(
            "",
            "dropout.share",
            f"In training with p = {DROPOUT}, {share:.0%} of the weights are dropped.",
            trial.line_of_another_p() or line,
        )
    return None


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
