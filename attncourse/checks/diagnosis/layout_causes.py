"""Causes of heads, tokens and columns in wrong places, and of wrong steps after the attention.

As in score_causes, a cause returns a finding only if the numbers of the run show it.
"""

from __future__ import annotations

import torch

from attncourse.checks.diagnosis.labeled_run import PARTS, LabeledRun, made_at
from attncourse.checks.diagnosis.quantities import Match
from attncourse.checks.findings import Finding
from attncourse.tracing.operations import Operation
from attnlib.functional import merge_heads


def misplaced(run: LabeledRun, operation: Operation) -> Match | None:
    """Return what an operation made of a quantity that came in right, if it left its place."""
    made = run.labels.get(operation.number)
    names = run.names(operation) - {"scores", "attn_weights"}
    if made is None or made.in_order or made.name not in names:
        return None
    return made


def mixed_up(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find a split or a merge after which a row holds numbers of several tokens or heads."""
    made = misplaced(run, operation)
    if made is None or made.layout is not None or run.num_heads == 1:
        return None
    # view and reshape keep the numbers in reading order: that of (b, num_tokens, d_out) in a split,
    # that of (b, num_heads, num_tokens, head_dim) in a merge
    right = run.right(made.name)
    if made.name in PARTS:
        right = merge_heads(right)
    numbers = operation.values.double().flatten() / made.factor
    if made.name not in (*PARTS, "context_vec") or numbers.shape != right.flatten().shape:
        return None
    if "t" in made.kept or not torch.allclose(numbers, right.flatten(), atol=1e-4):
        return None
    return run.at(operation, "merge.mixed" if right.ndim == 4 else "split.mixed", name=made.name)


def another_order(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find heads, tokens or columns that have changed places."""
    made = misplaced(run, operation)
    if made is None or made.moved is None:
        return None
    what, how = made.moved
    where, parents = operation, run.parents(operation)
    if "repeated" in how and len(parents) > 1:  # the line that makes the same head each time
        where = run.operations[parents[-1]]
    return run.at(where, "order", name=made.name, what=what, how=how)


def tokens_before_heads(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find queries, keys or values whose product compares the heads of one token."""
    for number, label in run.held(operation).items():
        if label.name not in PARTS or len(label.layout or ()) != 4 or operation.name == "einsum":
            continue
        *leading, last, columns = label.layout or ()
        if {last, columns} == {"h", "d"} and "t" in leading:
            return run.at(made_at(run, number), "split.no-transpose", name=label.name)
    return None


def odd_one_out(run: LabeledRun) -> Finding | None:
    """Find which of queries, keys and values is split in another way than the other two."""
    ways: dict[str, tuple[int, bool]] = {}
    for number, label in run.labels.items():
        layout = label.layout or () if label is not None else ()
        if label is not None and label.name in PARTS and len(layout) == 4 and "h" in layout:
            ways[label.name] = number, layout.index("t") < layout.index("h")
    told = [way for _, way in ways.values()]
    if len(told) == len(PARTS) and told.count(True) == 1:
        name, (number, _) = next(item for item in ways.items() if item[1][1])
        return run.at(made_at(run, number), "split.no-transpose", name=name)
    return None


def ends_too_early(run: LabeledRun) -> Finding | None:
    """Find a result that is right as far as it goes, and not the end."""
    label, operation = run.labels[run.result], run.operations[run.result]
    target = "result" if "result" in run.named else "context_vec"
    if label is None:
        return None
    if label.name == target:
        return None
    if target == "result" and label.name == "context_vec":
        return run.at(operation, "out_proj.missing")
    return run.at(operation, "result.other", name=label.name)
