"""The first line at which a learner's forward differs from attention, and the cause if it is sure.

Every tensor that forward makes is looked up among the quantities of attention. The result is not
the right one, so there is, going back from it, a first operation whose inputs are right and whose
result is not. Its line is the answer. CAUSES are tried on it in order, and the first that the
numbers of the run confirm gives the sentence. If none does, the sentence says what is observed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attncourse.checks.diagnosis import layout_causes as layout
from attncourse.checks.diagnosis import score_causes as scores
from attncourse.checks.diagnosis.labeled_run import PARTS, RANDOM, LabeledRun
from attncourse.checks.findings import Finding
from attncourse.tracing.operations import Operation

Cause = Callable[[LabeledRun, Operation], Finding | None]


def numbers_drawn(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find an operation that draws random numbers."""
    return run.at(operation, "dropout.eval") if RANDOM.search(operation.name) else None


ALWAYS: tuple[Cause, ...] = (
    numbers_drawn,
    scores.nan_of_a_mask,
    layout.another_order,
    layout.mixed_up,
)
CAUSES: Mapping[str, tuple[Cause, ...]] = {  # by what comes in
    "scores": (
        scores.softmax_of_other_axes,
        scores.mask_of_other_places,
        scores.nothing_masked,
        scores.wrong_scale,
        scores.fill_is_too_high,
        scores.no_softmax,
    ),
    "all parts": (layout.tokens_before_heads, scores.another_attention),
    "parts": (scores.another_attention, layout.tokens_before_heads, scores.another_product),
}


def stage(names: set[str]) -> str:
    """Return what comes into an operation, by the names of the quantities."""
    if set(PARTS) <= names:
        return "all parts"
    for name in ("scores", "attn_weights"):
        if name in names:
            return name
    if names <= set(PARTS):
        return "parts"
    return next(name for name in ("context_vec", "result", "x") if name in names)


def cause(run: LabeledRun, operation: Operation) -> Finding | None:
    """Return the first cause that explains an operation, else what is observed of it."""
    names = run.names(operation)
    if not names:
        return None
    known = stage(names)
    for rule in (*ALWAYS, *CAUSES.get(known, ())):
        found = rule(run, operation)
        if found is not None:
            return found
    return observed(run, operation, known)


# What an operation should make of what comes in, for the sentence that names no cause
MAKES = {
    "x": "queries, keys or values, each by its own layer",
    "scores": "attention weights, the softmax of the masked and scaled scores over the keys",
    "all parts": "context vectors",
    "parts": "scores, queries times keys for each head",
    "attn_weights": "context vectors, attention weights times values for each head",
    "context_vec": "the result",
    "result": "nothing, since the result was complete",
}


def observed(run: LabeledRun, operation: Operation, known: str) -> Finding:
    """Return what is seen of an operation: what comes in is right, and what comes out is not."""
    names = tuple(sorted(run.names(operation), key=[*run.named].index))
    makes = MAKES["attn_weights" if names == ("values",) else known]  # values meet no keys
    return run.at(operation, "wrong", names=names, makes=makes)


def first_difference(run: LabeledRun) -> Finding | None:
    """Return the first line that differs from attention; None if nothing can be said."""
    if run.is_good(run.result):
        return layout.ends_too_early(run)
    bad, new = {run.result}, [run.result]
    while new:
        for parent in run.parents(run.operations[new.pop()]):
            if parent not in bad and not run.is_good(parent) and parent in run.labels:
                bad.add(parent)
                new.append(parent)
    for number in sorted(bad):
        if not bad.intersection(run.operations[number].parents):
            found = cause(run, run.operations[number])
            if found is not None:
                return found
    return None


def first_difference_before_an_error(run: LabeledRun) -> Finding | None:
    """Return the same of a run that an error stopped: the result is what was made last."""
    last = [n for n in sorted(run.from_x) if run.operations[n].line is not None]
    for number in last:
        run.look_up_to(number)
    for number in last[::-1][:3]:  # an error shows at most a few operations after its cause
        run.look_up_to(number)
        if not run.is_good(number):
            found = first_difference(run)
            if found is not None and found.names_cause and found.step in BEFORE_AN_ERROR:
                return found
    return layout.odd_one_out(run)


BEFORE_AN_ERROR = ("split", "scores", "values", "merge", "order", "parts")
