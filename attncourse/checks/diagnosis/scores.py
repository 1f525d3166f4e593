"""Why queries and keys that are right give other scores, and these another scale or softmax."""

from __future__ import annotations

import math
import re
from typing import Any

from attncourse.checks.diagnosis.masks import (
    is_transposed,
    softmax_follows,
    takes_softmax,
    what_is_wrong,
)
from attncourse.checks.diagnosis.path import (
    MAY_BE_SCALED,
    PARTS,
    Path,
    Scale,
    apart,
    close_or_nan,
    cut_at,
    holds,
    made_at,
    ratio_of,
    turned_at,
)
from attncourse.checks.diagnosis.quantities import Found
from attncourse.checks.findings import Finding, Kind
from attncourse.tracing.operations import Operation

# Rules: queries, keys or values come in


def tokens_before_heads(path: Path, operation: Operation) -> Finding | None:
    """Tell queries, keys or values whose product would compare the heads of one token."""
    for number, found in path.held(operation).items():
        if found.name not in PARTS or found.layout is None:
            continue
        if {"b", "t"} in map(set, found.layout):
            return path.at(made_at(path, number), Kind.SPLIT_TEXTS, name=found.name)
        if found.layout[-2:-1] == ("b",) and "t" in found.layout and operation.name != "einsum":
            first = min(n for n in path.leads_here if is_turned(path.found.get(n)))
            return path.at(path.operations[first], Kind.SPLIT_TURNED)
        if len(found.layout) != 4:
            continue
        *leading, last, columns = found.layout
        split = {last, columns} == {"h", "d"} and "t" in leading
        if split and ("einsum" not in operation.name or _same_tokens(path, operation)):
            turned = turned_at(path, number)
            made = turned if turned and turned.line != operation.line else made_at(path, number)
            return path.at(made, Kind.SPLIT_NO_TRANSPOSE, name=found.name)
    return None


def _same_tokens(path: Path, operation: Operation) -> bool:
    """Return whether einsum has one letter for the tokens of queries and of keys."""
    equation = next((a for a in operation.arguments if isinstance(a, str)), "").replace(" ", "")
    layouts = [found.layout or () for found in path.held(operation).values()]
    terms = equation.partition("->")[0].split(",")
    letters = {
        term[layout.index("t")]
        for term, layout in zip(terms, layouts, strict=False)
        if "t" in layout and len(layout) == len(term)
    }
    return len(letters) == 1 and len(layouts) == 2


def is_turned(found: Found | None) -> bool:
    """Return whether the tokens come before the texts."""
    layout = (found and found.layout) or ()
    return "t" in layout and "b" in layout and layout.index("t") < layout.index("b")


def weights_of_the_queries(path: Path, operation: Operation) -> Finding | None:
    """Tell values that attention weights have met, and which are as before: each token's own."""
    for number, found in path.held(operation).items():
        for made in path.chain(number, "values") if found.name == "values" else ():
            if "attn_weights" in path.names(made):
                return path.at(made, Kind.CONTEXT_OWN)
    return None


def part_changed(path: Path, operation: Operation) -> Finding | None:
    """Tell an operation on queries, keys or values alone, which changes their numbers."""
    held = path.held(operation)
    names = path.names(operation)
    if len(names) != 1 or len(held) != 1 or operation.parents.count(next(iter(held))) > 1:
        return None
    ((number, found),) = held.items()
    if not operation.values.numel():  # keys[:, :0]
        return path.at(operation, Kind.MASK_EMPTY_ROW, name=found.name)
    values, old = operation.values, path.operations[number].values
    if values.numel() < old.numel() and set(values.flatten().tolist()) <= set(
        old.flatten().tolist()
    ):
        return None  # a cut, which may be right
    return path.at(operation, Kind.PARTS_CHANGED, name=found.name)


def scores_of_heads_added(path: Path, operation: Operation) -> Finding | None:
    """Tell a product that adds up the scores of all heads."""
    if path.num_heads == 1 or not path.names(operation) <= {"queries", "keys", "scores"}:
        return None
    for factor in (1.0, path.root):
        summed = factor * path.right("scores").sum(dim=1, keepdim=True)
        if operation.values.numel() == summed.numel() and holds(operation.values, summed):
            return path.at(operation, Kind.SCORES_SUMMED)
    return None


def of_another_head(path: Path, operation: Operation) -> Finding | None:
    """Tell queries of one head or text that meet the keys of another, or weights and values."""
    held = path.held(operation)
    names = path.names(operation)
    if names not in ({"queries", "keys"}, {"attn_weights", "values"}) or len(held) != 2:
        return None
    numbers = sorted(held, key=lambda n: held[n].name in ("keys", "values"))
    where = apart(path, *numbers) if "einsum" not in operation.name else None
    if where is None:
        return None
    axis, one, other = where
    cuts = [cut for n in numbers[::-1] if (cut := cut_at(path, n, axis)) is not None]
    wrong = cuts[0] if cuts else made_at(path, numbers[1])
    pieces = sum(
        (path.operations[n].name, path.operations[n].line) == (wrong.name, wrong.line)
        for n in path.leads_here
    )
    paired = (
        ("values" in names or pieces > 1) and wrong.name in PAIRED and operation.line != wrong.line
    )
    wrong = operation if paired or wrong.line is None else wrong
    facts: dict[str, Any] = {"axis": axis, "place": one, "other": other}
    first, second = (held[number].name for number in numbers)
    return path.at(wrong, Kind.SCORES_APART, first=first, second=second, **facts)


PAIRED = {"chunk", "split", "unbind", "tensor_split", "__iter__"}


def another_product(path: Path, operation: Operation) -> Finding | None:
    """Tell a product that is not queries times keys."""
    names = path.names(operation)
    if len(path.held(operation)) == 1 and len(operation.parents) == 1:
        return None
    if names == {"queries", "keys"}:
        return path.at(operation, Kind.SCORES_WRONG, sure=False)
    pair = sorted(names) if len(names) > 1 else [*names, *names]
    return path.at(operation, Kind.SCORES_PAIR, pair=tuple(pair))


def cut_otherwise(path: Path, operation: Operation) -> Finding | None:
    """Tell queries, keys or values cut into other columns than those of one head."""
    width = path.right("queries").shape[-1]
    for number, found in path.held(operation).items():
        if path.num_heads == 1 or "h" not in found.index or len(path.held(operation)) < 2:
            continue
        places = found.index["h"] * width + found.index["d"]
        columns = sorted({int(place) for place in places.flatten().tolist()})
        if columns[0] % width == 0 and columns == [*range(columns[0], columns[0] + width)]:
            continue
        if cut_at(path, number, "t") is not None:
            return path.at(made_at(path, number), Kind.SPLIT_TOKENS, name=found.name)
        facts: dict[str, Any] = {"name": found.name, "columns": tuple(columns)}
        if len(columns) <= width or len(columns) % width:
            kind = Kind.SPLIT_COLUMNS if len(columns) == width else Kind.SPLIT_MISSING
            return path.at(made_at(path, number), kind, **facts)
    return None


# Rules: scores come in, and go on as something else


def softmax_of_other_axes(path: Path, operation: Operation) -> Finding | None:
    """Tell a softmax that runs over queries, heads, texts, or several of them."""
    number, before = path.the_scores(operation)
    values, old = operation.values.double(), path.operations[number].values.double()
    if values.shape != old.shape or before.layout is None:
        return None
    for dim, axes in enumerate(before.layout):
        if axes == "j" and close_or_nan(values, (-old).softmax(dim=dim)):
            return path.at(operation, Kind.SCALE_SIGN)
        if close_or_nan(values, old.softmax(dim=dim)):
            if axes == "j" and before.layout[dim] == "j":
                return None
            if axes == "i" and is_transposed(before):
                return path.at(list(path.chain(number))[-1], Kind.SCORES_TRANSPOSED)
            return path.at(operation, Kind.SOFTMAX_AXIS, axes=axes)
    if close_or_nan(values, old.flatten().softmax(0).view(old.shape)):
        return path.at(operation, Kind.SOFTMAX_AXIS, axes="bhij")
    return None


def scale_after_softmax(path: Path, operation: Operation) -> Finding | None:
    """Tell weights that are divided by the root which belongs under the scores."""
    _, before = path.the_scores(operation)
    if not takes_softmax(path, operation) or what_is_wrong(path, before) != "scale":
        return None
    if abs(before.factor - 1) > 1e-4:
        return None
    for later in path.operations[operation.number + 1 :]:
        if operation.number in later.parents and later.number in path.leads_here:
            ratio = ratio_of(later.values, operation.values)
            width = path.root**2
            if ratio is not None and min(abs(ratio - path.root), abs(ratio - width)) < 1e-4:
                return path.at(later, Kind.SCALE_LATE, values=False)
    return None


def wrong_scale(path: Path, operation: Operation) -> Finding | None:
    """Tell scores that softmax takes with another factor than the root of a head's width."""
    number, before = path.the_scores(operation)
    if not takes_softmax(path, operation) or what_is_wrong(path, before) != "scale":
        return None
    finding = scale_finding(before.factor, path.root, path.scales)
    scaler = None
    for later in sorted(path.leads_here & path.from_x):
        found = path.found.get(later)
        if later > number or found is None:
            continue
        if not found.in_order or found.name not in MAY_BE_SCALED:
            continue
        product = math.prod(earlier.factor for earlier in _nearest_found(path, later))
        if abs(found.factor / product - 1) > 1e-4:
            scaler = path.operations[later]
            if before.factor < 0 and found.factor / product < 0:
                break
    scaler = scaler or list(path.chain(number))[-1]
    return path.at(scaler, finding.kind, **finding.facts)


def scale_finding(factor: float, root: float, scales: tuple[Scale, ...]) -> Finding:
    """Return what is wrong with scores that are multiplied by a wrong factor."""
    facts = {"factor": factor, "right": root}
    if factor < 0:
        return Finding(Kind.SCALE_SIGN, None, facts)
    for scale in scales:
        if abs(factor - scale.factor) < 1e-4:
            return Finding(scale.kind, None, {**facts, "by": scale.by, "root": scale.root})
    return Finding(Kind.SCALE_OTHER, None, facts)


def _nearest_found(path: Path, number: int) -> list[Found]:
    nearest: list[Found] = []
    for parent in path.parents(path.operations[number]):
        found = path.found.get(parent)
        if found is None and parent in path.found:
            nearest.extend(_nearest_found(path, parent))
        elif found is not None and found.name in MAY_BE_SCALED:
            nearest.append(found)
    return nearest


def no_softmax(path: Path, operation: Operation) -> Finding | None:
    """Tell scores that meet the values as they are."""
    others = {f.name for n in path.parents(operation) if (f := path.found.get(n))} & set(PARTS)
    return path.at(operation, Kind.SOFTMAX_NONE, name=min(others)) if others else None


def no_exp(path: Path, operation: Operation) -> Finding | None:
    """Tell scores that are divided by their sum, or by that of their distances, as they are."""
    made = " ".join(path.operations[n].name for n in path.leads_here & path.from_x)
    if re.search(r"\bsum\b", made) and not re.search(rf"exp|softmax|{SQUASHES}", made):
        return path.at(operation, Kind.SOFTMAX_NO_EXP)
    return None


def scores_changed(path: Path, operation: Operation) -> Finding | None:
    """Tell that scores were right before this operation, and are not after it."""
    if "softmax" in operation.name:
        return path.at(operation, Kind.SOFTMAX_WRONG)
    if re.search(SQUASHES, operation.name) and not softmax_follows(path, operation):
        return path.at(operation, Kind.SOFTMAX_OTHER)
    return path.at(operation, Kind.SCORES_CHANGED, sure=not takes_softmax(path, operation))


SQUASHES = "sigmoid|tanh|relu|softplus|normalize|softmin|softsign"

# Rules: the steps of a softmax by hand come in


def softmax_by_hand(path: Path, operation: Operation) -> Finding | None:
    """Tell a softmax by hand that goes wrong, or stops before the division."""
    met = path.names(operation) & set(PARTS)
    for number in path.held(operation):
        if "log_softmax" in path.operations[number].name:
            return path.at(path.operations[number], Kind.SOFTMAX_OTHER)
    sums = [path.operations[n] for n in path.parents(operation)]
    if any(made.name == "sum" and made.values.ndim < operation.values.ndim for made in sums):
        return path.at(operation, Kind.ERROR_KEEPDIM, reduces="sum")
    if not met:
        return path.at(operation, Kind.SOFTMAX_BY_HAND)
    step = next(n for n, f in path.held(operation).items() if f.name not in PARTS)
    return path.at(path.operations[step], Kind.SOFTMAX_UNFINISHED, name=min(met))
