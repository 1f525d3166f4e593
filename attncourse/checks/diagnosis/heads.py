"""Why the numbers of a quantity come out in other places: splits, merges and what follows."""

from __future__ import annotations

from typing import Any

from attncourse.checks.diagnosis.path import ASSIGNS, PARTS, Path, holds, made_at, turned_at
from attncourse.checks.diagnosis.quantities import Found
from attncourse.checks.findings import Finding, Kind
from attncourse.tracing.operations import Operation


def misplaced(path: Path, operation: Operation) -> Found | None:
    """Return what an operation made of a quantity that came in right, if it left its place."""
    made = path.found.get(operation.number)
    names = path.names(operation) - {"scores", "attn_weights", "steps of softmax"}
    if made is None or made.in_order or made.name not in names:
        return None
    return made


def numbers_changed(path: Path, operation: Operation) -> Finding | None:
    """Tell an operation that changes some numbers, as relu does, and no places."""
    made, (number, *more) = misplaced(path, operation), path.parents(operation)
    if made is None or made.moved is not None or more or operation.name in ASSIGNS:
        return None
    old, new = path.operations[number].values.flatten(), operation.values.flatten()
    if old.shape != new.shape or old.sort().values.equal(new.sort().values):
        return None
    changed = {"context_vec": Kind.CONTEXT_CHANGED, "result": Kind.RESULT_CHANGED}
    changed["x"] = Kind.X_CHANGED
    return path.at(operation, changed.get(made.name, Kind.PARTS_CHANGED), name=made.name)


def changed_after_the_merge(path: Path, operation: Operation) -> Finding | None:
    """Tell an operation that moves context vectors which had been joined already."""
    made = misplaced(path, operation)
    if made is None or made.name != "context_vec":
        return None
    for number, found in path.held(operation).items():
        layout = found.layout or ()
        joined = len(layout) == 3 and layout[:2] == ("b", "t") and set(layout[2]) == {"h", "d"}
        if joined and path.num_heads > 1 and number in path.leads_here:
            return path.at(operation, Kind.CONTEXT_CHANGED)
    return None


def another_order(path: Path, operation: Operation) -> Finding | None:
    """Tell heads, tokens or columns that have changed places."""
    made = misplaced(path, operation)
    if made is None or made.moved is None:
        return None
    what, how = made.moved
    if made.name != "context_vec" or what != "columns":
        return path.at(operation, Kind.ORDER, name=made.name, what=what, how=how)
    if "repeated" in how:
        return path.at(operation, Kind.MERGE_REPEATED)
    alternates = how == "alternating"
    where = _of_the_merge(path, operation) if alternates else operation
    return path.at(where, Kind.MERGE_ALTERNATING if alternates else Kind.MERGE_ORDER, how=how)


def mixed_split(path: Path, operation: Operation) -> Finding | None:
    """Tell a split after which a head has numbers that belong to others."""
    made = misplaced(path, operation)
    if made is None or made.name not in PARTS or path.num_heads == 1:
        return None
    kept, columns = made.mixture or ("", ())
    facts: dict[str, Any] = {"name": made.name, "columns": columns}
    if {"b", "t"} <= set(kept) and len(columns) == path.right("queries").shape[-1]:
        return path.at(operation, Kind.SPLIT_MISSING, **facts)
    if {"b", "t"} <= set(kept):
        return path.at(operation, Kind.SPLIT_COLUMNS, **facts)
    b, _, num_tokens, _ = path.right("queries").shape
    if operation.values.shape[:2] == (num_tokens, b):
        return path.at(operation, Kind.SPLIT_SWAPPED, **facts)
    return path.at(operation, Kind.SPLIT_MIXED, **facts)


def odd_one_out(path: Path) -> Finding | None:
    """Tell which of queries, keys and values is split in another way than the other two."""
    ways: dict[str, tuple[int, Any]] = {}
    for number, found in path.found.items():
        layout = (found and found.layout) or ()
        if found is not None and found.name in PARTS and len(layout) == 4 and layout[-1] == "d":
            is_split = "h" in layout
            ways[found.name] = number, is_split and layout.index("t") < layout.index("h")
            if not is_split:
                ways[found.name] = number, None
    told = [way for _, way in ways.values()]
    for name, (number, way) in ways.items():
        if len(told) == len(PARTS) and told.count(way) == 1 and way is not False:
            kind = Kind.SPLIT_NO_TRANSPOSE if way else Kind.ERROR_NOT_SPLIT
            return path.at(made_at(path, number), kind, name=name, names=(name,))
    return None


def mixed_merge(path: Path, operation: Operation) -> Finding | None:
    """Tell a merge after which a row does not hold the heads of one token."""
    made = misplaced(path, operation)
    if made is None or made.name != "context_vec":
        return None
    kept, _ = made.mixture or ("", ())
    before = [n for n in path.parents(operation) if path.found.get(n) is not None]
    held = path.found[before[0]] if len(before) == 1 else None
    layout = (held and held.layout) or ()
    for dim, axes in enumerate(layout):
        if len(axes) > 1 and "h" in axes and "t" in axes:
            return path.at(made_at(path, before[0]), Kind.MERGE_AXIS, dim=dim, axes=axes)
    if "t" in kept and "b" not in kept:
        return path.at(operation, Kind.MERGE_TEXTS)
    return path.at(_of_the_merge(path, operation), Kind.MERGE_MIXED)


def _of_the_merge(path: Path, operation: Operation) -> Operation:
    """Return where the context vectors were turned wrongly before they were joined."""
    before = path.parents(operation)
    turned = turned_at(path, before[0]) if len(before) == 1 else None
    found = path.found.get(turned.number) if turned is not None else None
    if turned is None or found is None or found.layout is None or found.name != "context_vec":
        return operation
    return operation if "".join(found.layout) in ("bthd", "bhtd") else turned


def multiplied(path: Path, operation: Operation) -> Finding | None:
    """Tell a quantity that is multiplied by a number, as nothing in attention does."""
    made = path.found.get(operation.number)
    names = path.names(operation) - {"steps of softmax"}
    if made is None or not made.in_order or made.name not in names:
        return None
    if made.name == "attn_weights" and abs(made.factor - path.root) < 1e-4:
        return path.at(operation, Kind.SCALE_LATE, values=True)
    return path.at(operation, Kind.MULTIPLIED, name=made.name, factor=made.factor)


def taken_apart_in_another_order(path: Path, operation: Operation) -> Finding | None:
    """Tell the line that takes one projection of all three apart in another order."""
    number = next(n for n, f in path.held(operation).items() if f.name == "projections")
    chain = list(path.chain(number, "projections"))
    first = chain[-2] if len(chain) > 1 else operation
    size = path.right("queries").shape[-1] * path.num_heads
    return path.at(first, Kind.SPLIT_PARTS, size=size)


# Rules: context vectors come in


def heads_added(path: Path, operation: Operation) -> Finding | None:
    """Tell heads that are added, averaged or compared number by number."""
    right = path.right("context_vec")
    if right.shape[1] == 1:
        return None
    held = [found for found in path.held(operation).values() if found.name == "context_vec"]
    heads = {int(found.index["h"]) for found in held if found.index["h"].numel() == 1}
    meet = len(heads) > 1 and operation.values.numel() == right[:, 0].numel()
    together = right.mean(dim=1), right.sum(dim=1), right.amax(dim=1)
    if meet or any(holds(operation.values, made) for made in together):
        return path.at(operation, Kind.MERGE_ADDED)
    return None


def shape_of_the_result(path: Path) -> Finding | None:
    """Return why a result has another shape, where its numbers are context vectors."""
    operation, found = path.operations[path.result], path.found.get(path.result)
    if added := heads_added(path, operation):
        return added
    if found is None or found.layout is None:
        return None
    if found.name not in ("context_vec", "result"):
        return path.at(operation, Kind.RESULT_OTHER, name=found.name)
    right = path.right("context_vec")
    num_heads = right.shape[1]
    if num_heads == 1 or found.name != "context_vec":
        return None
    heads = sorted(set(found.index["h"].flatten().tolist()))
    if len(heads) < num_heads:
        return path.at(operation, Kind.MERGE_SOME_HEADS, heads=tuple(heads), num_heads=num_heads)
    for dim, axes in enumerate(found.layout):
        if "h" in axes and "d" not in axes:
            return path.at(operation, Kind.MERGE_AXIS, dim=dim, axes=axes)
    return None
