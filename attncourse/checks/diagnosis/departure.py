"""The line at which a learner's forward leaves the path, and why: RULES has all reasons in order.

Every tensor that forward makes is looked up among the quantities of attention. The result is not
the right one; so, going back from it, there is a first operation whose inputs are right and whose
result is not. Its line is the answer, and the first rule that fits names the cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from torch import Tensor, nn

from attncourse.checks.diagnosis import heads, masks, results, scores
from attncourse.checks.diagnosis.path import ASSIGNS, PARTS, RANDOM, Path
from attncourse.checks.diagnosis.quantities import Quantity, find_any
from attncourse.checks.findings import Finding, Kind
from attncourse.tracing.operations import Operation, SourceLine
from attncourse.tracing.tracer import trace

Rule = Callable[[Path, Operation], Finding | None]


def numbers_drawn(path: Path, operation: Operation) -> Finding | None:
    """Tell an operation that draws random numbers, or takes some in."""
    if RANDOM.search(operation.name):
        return path.at(operation, Kind.DROPOUT_ACTIVE)
    new = [n for n in operation.parents if n > path.x and n not in path.from_x]
    seen = set[int]()
    while new:
        number = new.pop()
        if RANDOM.search(path.operations[number].name):
            made = path.operations[number]
            return path.at(operation, Kind.RANDOM_LAYERS if made.grad else Kind.RANDOM)
        if number not in seen:
            seen.add(number)
            before = path.operations[number].parents
            new += [n for n in before if n > path.x and n not in path.from_x]
    return None


# What comes in, and the rules for it, in order. A rule that changes fewer than three verdicts of
# `make ablate` says beside it why it stays.
RULES: Mapping[str, tuple[Rule, ...]] = {
    "": (
        numbers_drawn,
        results.one_text_for_all,  # or joining the texts is told as a change of the context
        heads.heads_added,  # or a mean over heads, or their maximum, is told as a mixed merge
        heads.numbers_changed,  # or relu of the queries is told as a wrong split
        heads.changed_after_the_merge,  # or a reshape after a right merge is told as the merge
        heads.another_order,
        heads.mixed_split,
        heads.mixed_merge,
        heads.multiplied,  # or a factor on the weights is told as another product
    ),
    "projections": (heads.taken_apart_in_another_order,),  # one for all three has no other
    "scores": (
        masks.everything_hidden,  # ~ on integers, a mask of ones: frequent, one case here
        scores.softmax_of_other_axes,
        scores.scale_after_softmax,  # or the division is told to be missing
        scores.scores_of_heads_added,  # or a letter that einsum drops is told as a wrong split
        masks.row_of_other_keys,
        masks.mask_of_other_places,
        masks.mask_not_kept,
        masks.mask_after_softmax,
        masks.mask_that_hides_nothing,
        scores.wrong_scale,
        masks.nan_of_scores,  # 0 * inf is the classic of masks that are multiplied
        masks.mask_of_numbers,
        scores.no_exp,  # or the sum is told as a change of the scores
        scores.no_softmax,  # or a forgotten softmax is told as a change of the scores
        scores.scores_changed,
    ),
    "steps of softmax": (scores.no_exp, scores.softmax_by_hand),
    "all parts": (
        scores.tokens_before_heads,
        results.scaled_before_pytorch,  # or the learner is told to divide, which the line does
        results.another_attention,
    ),
    "attn_weights": (
        results.weights_changed,
        results.weights_meet_no_values,
        results.weights_transposed,  # or the product is told to be wrong, and not why
        scores.of_another_head,  # values[0] in a loop over heads
        results.another_context,  # the last of its kind: it quotes the line
    ),
    "parts": (
        results.another_attention,  # of keys and values that are one tensor
        scores.weights_of_the_queries,  # or "bhij,bihd->bihd" is told as a change of the values
        scores.part_changed,
        scores.scores_of_heads_added,
        scores.tokens_before_heads,
        scores.cut_otherwise,
        scores.of_another_head,  # keys[0] in a loop over heads has no other rule
        scores.another_product,
    ),
    "context_vec": (results.context_changed,),
    "result": (results.result_changed,),  # the only rule after out_proj
    "x": (results.x_changed,),
}


def stage(names: set[str]) -> str:
    """Return what comes into an operation, a key of RULES, by the names of the quantities."""
    if set(PARTS) <= names:
        return "all parts"
    for name in ("projections", "scores", "steps of softmax", "attn_weights"):
        if name in names:
            return name
    if names and names <= set(PARTS):
        return "parts"
    return next((name for name in ("context_vec", "result") if name in names), "".join(names))


def explain(path: Path, operation: Operation) -> Finding | None:
    """Return what the first rule that fits says of an operation that leaves the path."""
    names = path.names(operation)
    for rule in (*RULES[""], *RULES.get(stage(names), ())) if names else ():
        found = rule(path, operation)
        if found is not None:
            return found
    return None


def departure(path: Path) -> Finding | None:
    """Return the first line that leaves the path; None if nothing can be said."""
    if path.is_good(path.result) and not _repeats(path, path.result):
        return results.ends_too_early(path)
    empty = any(not path.operations[n].values.numel() for n in path.leads_here & path.from_x)
    unwritten = None if empty else results.unwritten(path)
    path.found = {n: None if _repeats(path, n) else found for n, found in path.found.items()}
    bad, new = {path.result}, [path.result]
    while new:
        for parent in path.parents(path.operations[new.pop()]):
            if parent not in bad and not path.is_good(parent) and parent in path.found:
                bad.add(parent)
                new.append(parent)
    bad -= {number for number in bad if _is_partly_filled(path, number)}
    for number in sorted(bad):
        if not bad.intersection(path.operations[number].parents):
            found = explain(path, path.operations[number])
            if found is not None:
                cut = found.kind is Kind.SPLIT_MISSING  # of which nothing fills the last column
                return found if cut or unwritten is None else unwritten
    return unwritten


def departure_before_an_error(path: Path) -> Finding | None:
    """Return the same of a run that an error stopped: the result is what was made last."""
    last = [n for n in sorted(path.from_x) if path.operations[n].line is not None]
    for number in last:
        path.look_up_to(number)
    for number in last[::-1][:3]:
        path.look_up_to(number)
        if path.is_good(number):
            joins = re.search("cat|stack|shape|view|flatten", path.operations[number].name)
            shape = heads.shape_of_the_result(path) if joins and number == last[-1] else None
            if shape is not None and shape.kind is Kind.MERGE_AXIS:
                return shape
            continue
        found = departure(path)
        if found is not None and found.sure and found.kind.step in BEFORE_AN_ERROR:
            return found
    return heads.odd_one_out(path)


BEFORE_AN_ERROR = ("split", "scores", "values", "parts", "merge")


def _repeats(path: Path, number: int) -> bool:
    """Return whether a result or context vectors hold the same numbers for several tokens."""
    found, values = path.found.get(number), path.operations[number].values
    if found is None or found.layout is None:
        return False
    if found.name == "values":  # values may be repeated on purpose, but not by a product
        before = number
        while not re.search(r"matmul|bmm|einsum|sum", path.operations[before].name):
            parents = path.parents(path.operations[before])
            if len(parents) != 1:
                return False
            (before,) = parents
    elif found.name not in ("context_vec", "result"):
        return False
    return any(not axes and size > 1 for axes, size in zip(found.layout, values.shape, strict=True))


def _is_partly_filled(path: Path, number: int) -> bool:
    """Return whether parts of a tensor are set here that begins empty."""
    operation = path.operations[number]
    if operation.name not in ASSIGNS or number == path.result:
        return False
    again = (later for later in path.operations if later.parents[:1] == (number,))
    if any(path.is_good(n) for n in operation.parents[:1]) or not any(
        later.name in ASSIGNS for later in again
    ):
        return False
    while operation.name in ASSIGNS and operation.parents:
        operation = path.operations[operation.parents[0]]
    return operation.number not in path.from_x


ROLES = {"queries": r"^q(uer\w*|s)?\d?$", "keys": r"^k(eys?|s)?\d?$", "values": r"^v(al\w*|s)?\d?$"}


def misnamed(
    module: nn.Module, x: Tensor, named: Mapping[str, tuple[Quantity, ...]]
) -> Finding | None:
    """Return the line where a variable named like queries, keys or values holds another of them."""
    holds: dict[str, str] = {}
    lines: dict[str, SourceLine] = {}
    for step in trace(module, x, depth=2).steps:
        role = next((r for r, names in ROLES.items() if re.search(names, step.name.lower())), None)
        if role is None or not step.values.is_floating_point() or step.change == "given":
            continue
        found = find_any(step.values, named, PARTS)
        if found is not None and found.name != role:
            holds.setdefault(step.name, found.name)
            lines.setdefault(step.name, SourceLine(step.function, step.line, step.source))
    if not holds:
        return None
    return Finding(Kind.PARTS_SWAPPED, lines[next(iter(holds))], {"holds": holds})
