"""Questions about conditions that one usual run does not meet.

Another call, another length, large scores, another device: a class may be right on a few tokens
and fail here. No exercise asks for another device or dtype, so what fails there is a note.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attncourse.checks.diagnosis.path import RANDOM
from attncourse.checks.diagnosis.quantities import HIDDEN
from attncourse.checks.diagnosis.trial import CONTEXT_LENGTH, HEAD_DIM, NUM_TOKENS, B, Trial, close
from attncourse.checks.findings import Finding, Kind
from attncourse.checks.safe_run import FaultFound, draw, run
from attncourse.tracing.devices import Origins
from attncourse.tracing.operations import Operation, SourceLine
from attnlib.functional import causal_mask
from attnlib.modules import CausalAttention

MANY_TOKENS, MANY_HEADS = 67, 11
LEVEL = 200.0  # of scores: exp of 89 is too large for float32
FAR = 1e6  # how far apart scores are: further than what a mask may set instead of -inf


def two_runs(trial: Trial) -> Finding | None:
    """The same module on the same x, in eval, without dropout: nothing may be random."""
    mine, ours = trial.build()
    weights, x = trial.random_weights(ours), trial.usual_x()
    torch.default_generator.manual_seed(1)
    first = trial.run(mine, x, weights)
    torch.default_generator.manual_seed(2)
    second = trial.run(mine, x, weights)
    if first.equal(second) or (first.isnan() & second.isnan() | (first == second)).all():
        return None
    drawn = trial.first(mine, x, lambda made: RANDOM.search(made.name), weights)
    if drawn is None:
        where = trial.departure(mine, x, weights, trial.most_heads)  # the third call
        return Finding(Kind.STATE, where.line if where else None)
    if drawn.name.endswith(("uniform_", "normal_")) and (drawn.grad or "_" in drawn.name[:-1]):
        return Finding(Kind.RANDOM_LAYERS, drawn.line)
    if "rop" in drawn.name or (drawn.line and "rop" in drawn.line.text):
        return Finding(Kind.DROPOUT_ACTIVE, drawn.line)
    return Finding(Kind.RANDOM, drawn.line)


def equal_scores(trial: Trial) -> Finding | None:
    """With all scores at 0 each result is the mean of the values so far."""
    mine, ours = trial.build(num_heads=1)
    weights = trial.weights(1, W_key=torch.zeros(HEAD_DIM, trial.d_in(1)))
    x = trial.marked_tokens()
    have = trial.run(mine, x, weights, 1)
    if close(have, run(ours, x, weights), 1e-4) or trial.usual_departure is not None:
        return None
    made = trial.first(mine, x, _hides_a_row, weights)
    return made and Finding(Kind.MASK_ZEROS, made.line)


def _hides_a_row(operation: Operation) -> bool:
    values = operation.values
    square = values.shape[-2:] == (NUM_TOKENS, NUM_TOKENS)
    return square and bool((values < HIDDEN).all(dim=-1).any())


def one_width(trial: Trial) -> Finding | None:
    """Tokens as wide as the result: what is done to x or with it only where the shapes agree."""
    if trial.one_width:
        return None
    trial.one_width = True
    try:
        found = trial.apart(*trial.build(), trial.usual_x())
        return Finding(Kind.RESULT_WIDTH) if found and found.line is None else found
    finally:
        trial.one_width = False


def many_tokens(trial: Trial) -> Finding | None:
    """A text longer than context_length, and a context that is longer than the others asked for."""
    mine, _ = trial.build()
    x = trial.usual_x(num_tokens=CONTEXT_LENGTH + 2)
    with suppress(FaultFound):  # it may refuse
        if run(mine, x).shape[:2] != x.shape[:2]:
            cut = trial.first(mine, x, lambda o: o.values.shape[:2] == (B, CONTEXT_LENGTH))
            return Finding(Kind.LENGTH_CROPPED, cut.line if cut else None)
    modules, x = trial.build(context_length=MANY_TOKENS), draw(1, MANY_TOKENS, trial.d_in(), seed=1)
    try:
        where = trial.apart(*modules, x, when=f"context_length={MANY_TOKENS}")
    except FaultFound as found:
        return found.finding.knowing(length=MANY_TOKENS)
    if where is None:
        return None
    line = where.line or trial.text.line_with(r"tri[ul]|arange")
    return Finding(Kind.LENGTH, line, {"length": MANY_TOKENS})


def many_heads(trial: Trial) -> Finding | None:
    """More heads than ten, whose names are in another order as text."""
    if trial.right is CausalAttention:
        return None
    x = draw(B, NUM_TOKENS, trial.d_in(MANY_HEADS), seed=1)
    where = trial.apart(*trial.build(MANY_HEADS), x, MANY_HEADS, f"num_heads={MANY_HEADS}")
    return where and Finding(Kind.HEADS_MANY, where.line, {"num_heads": MANY_HEADS})


def large_scores(trial: Trial) -> Finding | None:
    """Scores far apart: what hides must be lower than any score, as -inf is."""
    mine, _ = trial.build(num_heads=1)
    x = trial.marked_tokens()
    x[:, :, NUM_TOKENS] = 1  # one column is the same for all tokens
    if wrong := _rows_far_apart(trial, mine, x):
        return wrong
    for near, far in ((0.0, FAR), (-FAR, 0.0)):
        W_query, W_key = torch.zeros(2, HEAD_DIM, trial.d_in(1))
        W_query[0, NUM_TOKENS] = HEAD_DIM**0.5
        W_key[0, :NUM_TOKENS] = far
        W_key[0, 0] = near
        matrices = {"W_query": W_query, "W_key": W_key}
        first = trial.attn_weights_of(mine, x, 1, **matrices)[:, 0, 0, :NUM_TOKENS]
        if (first[:, 1:] > 1e-3).any():
            made = trial.first(mine, x, _is_filled, trial.weights(1))
            return Finding(Kind.MASK_NOT_LOW, made.line if made else None, {"far": FAR})
        if first.isnan().any():
            trial.note(Kind.NOTE_SCORES)
            return None
    mine, ours = trial.build()
    weights = {
        name: weight * (20 if "W_value" not in name and "out" not in name else 1)
        for name, weight in trial.random_weights(ours).items()
    }
    x = trial.usual_x()
    have, want = trial.run(mine, x, weights), run(ours, x, weights)
    if close(have, want, 2e-3):
        return None
    if have.isnan().any():
        trial.note(Kind.NOTE_SCORES)
        return None
    where = trial.departure(mine, x, weights, trial.most_heads)
    return Finding(Kind.SCORES_LARGE, where.line if where else None)


def _rows_far_apart(trial: Trial, mine: nn.Module, x: Tensor) -> Finding | None:
    """Tell a softmax by hand that fails where the scores of a row are all alike, but far from 0."""
    W_query, W_key = torch.zeros(2, HEAD_DIM, trial.d_in(1))
    levels = LEVEL * torch.tensor([1, -1, 1, -1, 1])
    W_query[0, :NUM_TOKENS], W_key[0, NUM_TOKENS] = HEAD_DIM**0.5 * levels, 1
    matrices = {"W_query": W_query, "W_key": W_key}
    odd = trial.attn_weights_of(mine, x, 1, **matrices).isnan().any(dim=-1)[0, 0]
    if not odd.any():
        return None
    wrong = ("exp", "max", "amax")  # the largest of all rows, or of none
    made = trial.first(mine, x, lambda o: o.name.startswith(wrong), trial.weights(1, **matrices))
    level = float(levels[odd.nonzero()[0, 0]])
    facts = {"level": level, "exp": "infinite" if level > 0 else "0"}
    return made and Finding(Kind.SOFTMAX_LARGEST, made.line, facts)


def _is_filled(operation: Operation) -> bool:
    """Return whether very negative numbers are in the future of a tensor, and nowhere else."""
    values = operation.values
    if values.shape[-2:] != (NUM_TOKENS, NUM_TOKENS) or not values.is_floating_point():
        return bool(operation.parents and values.is_floating_point() and (values < -15).any())
    return bool((values[..., causal_mask(NUM_TOKENS)] < -15).all())


class Devices(TorchFunctionMode):
    """Stops where tensors of two devices meet, which not all of torch's functions do."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function, unless it is given tensors of two devices."""
        met = {one.device for one in args if isinstance(one, Tensor) and one.ndim}
        if len(met) > 1 and func.__name__ not in BRINGS:
            raise RuntimeError("not on the expected device")
        return func(*args, **(kwargs or {}))


BRINGS = ("to", "type_as", "copy_", "__getitem__", "__setitem__")


def another_device(trial: Trial) -> Finding | None:
    """Moved to another device, the module takes all that it needs along."""
    mine, _ = trial.build()
    left = [n for part in mine.modules() for n, v in vars(part).items() if isinstance(v, Tensor)]
    x = trial.usual_x()
    try:
        with Origins([x, *mine.parameters(), *mine.buffers()]) as origins:
            run(mine, x)
        if origins.elsewhere:  # the first use of meta in a process takes seconds
            mine, x = mine.to("meta"), x.to("meta")
            with Devices():
                run(mine, x)
    except FaultFound as found:
        if found.finding.kind is not Kind.ERROR_DEVICE:
            return None
        line = trial.text.line_with(rf"self\.{left[0]}\b[^=]*=(?!=)", "forward") if left else None
        if left:
            return Finding(Kind.MASK_NO_BUFFER, line, {"name": left[0]})
        trial.note(Kind.NOTE_DEVICE, line=found.line)
    return None


def another_dtype(trial: Trial) -> Finding | None:
    """In bfloat16, the module makes nothing in float32; in float16, nothing that is too large."""
    for dtype in (torch.bfloat16, torch.float16):
        mine, _ = trial.build()
        mine, x = mine.to(dtype), trial.usual_x().to(dtype)
        try:
            trial.run(mine, x)
        except FaultFound as found:
            if found.finding.kind in (Kind.ERROR_DTYPE, Kind.RESULT_DTYPE):
                trial.note(Kind.NOTE_DTYPE, line=trial.line_of_dtype(mine, x) or found.line)
            elif "overflow" in found.finding.facts.get("message", ""):
                trial.note(Kind.NOTE_HALF, line=found.line)
    return None


def initial_values(trial: Trial) -> Finding | None:
    """New modules differ from one another, and their projections are random."""
    torch.default_generator.manual_seed(5)
    mine, ours = trial.build()
    torch.default_generator.manual_seed(6)
    other, _ = trial.build()
    names = trial.make.parameter_names(mine, dict(ours.named_parameters())).values()
    twins = dict(other.named_parameters())
    matrices = {n: p.detach() for n, p in mine.named_parameters() if n in names and p.ndim == 2}
    for name, matrix in matrices.items():
        size = float(matrix.abs().max())
        even = bool((matrix == matrix.flatten()[0]).all())
        value = f"{matrix.flatten()[0]:.4g}, all of them" if even else f"large as {size:.3g}"
        if even or not 1e-6 < size < 20:
            return Finding(Kind.INIT_VALUES, _begins(trial, name), {"name": name, "value": value})
        if matrix.equal(twins[name]):
            seeded = trial.text.line_with(r"manual_seed|seed\(") or _begins(trial, name)
            return Finding(Kind.INIT_SEED, seeded, {"name": name})
    for (a, first), (b, second) in itertools.combinations(matrices.items(), 2):
        if first.shape == second.shape and first.equal(second):
            return Finding(Kind.INIT_EQUAL, _begins(trial, b), {"name": a, "twin": b})
    return None


def _begins(trial: Trial, name: str) -> SourceLine | None:
    return trial.line_that_filled(name) or trial.line_of_parameter(name)
