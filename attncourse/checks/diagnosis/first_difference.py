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
from attncourse.checks.diagnosis.labeled_run import ASSIGNS, PARTS, RANDOM, LabeledRun
from attncourse.checks.findings import Finding
from attncourse.tracing.operations import Operation

Cause = Callable[[LabeledRun, Operation], Finding | None]


def numbers_drawn(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find an operation that draws random numbers."""
    return run.at(operation, "dropout.eval") if RANDOM.search(operation.name) else None


ALWAYS: tuple[Cause, ...] = (
    numbers_drawn,
    scores.nan_of_a_mask,
    layout.heads_added,
    layout.another_order,
    layout.mixed_up,
    layout.multiplied,
)
CAUSES: Mapping[str, tuple[Cause, ...]] = {  # by what comes in
    "scores": (
        scores.softmax_of_other_axes,
        scores.wrong_keys_of_one_query,
        scores.mask_of_other_places,
        scores.nothing_masked,
        scores.wrong_scale,
        scores.fill_is_too_high,
        scores.no_softmax,
    ),
    "all parts": (layout.tokens_before_heads, scores.another_attention),
    "attn_weights": (scores.weights_and_others,),
    "parts": (scores.another_attention, layout.tokens_before_heads, scores.another_product),
    "result": (layout.out_proj_again,),
}


def stage(names: set[str]) -> str:
    """Return what comes into an operation, by the names of the quantities."""
    if set(PARTS) <= names:
        return "all parts"
    for name in ("scores", "steps of softmax", "attn_weights"):
        if name in names:
            return name
    if names and names <= set(PARTS):
        return "parts"
    return next((name for name in ("context_vec", "result") if name in names), "".join(names))


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
    "steps of softmax": "attention weights, the softmax over the keys",
    "all parts": "context vectors",
    "parts": "scores, queries times keys for each head",
    "attn_weights": "context vectors, attention weights times values for each head",
    "context_vec": "the result",
    "result": "nothing, since the result was complete",
}


def observed(run: LabeledRun, operation: Operation, known: str) -> Finding:
    """Return what is seen of an operation: what comes in is right, and what comes out is not."""
    names = sorted(run.names(operation), key=[*run.named].index)
    projects = known == "x" and any(run.parameter_name(n) for n in operation.parents)
    softmax = known == "scores" and scores.takes_softmax(run, operation)
    code = "changed" if len(names) == 1 and not projects and not softmax else "wrong"
    return run.at(operation, code, name=names[0], names=tuple(names), makes=MAKES.get(known, ""))


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
    bad -= {number for number in bad if _is_partly_filled(run, number)}
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


def _is_partly_filled(run: LabeledRun, number: int) -> bool:
    """Return whether parts of a tensor are set here that begins empty."""
    operation = run.operations[number]
    if operation.name not in ASSIGNS or number == run.result:
        return False
    again = (later for later in run.operations if later.parents[:1] == (number,))
    if any(run.is_good(n) for n in operation.parents[:1]) or not any(
        later.name in ASSIGNS for later in again
    ):
        return False
    while operation.name in ASSIGNS and operation.parents:
        operation = run.operations[operation.parents[0]]
    return operation.number not in run.from_x
