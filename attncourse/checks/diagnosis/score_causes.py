"""Causes of wrong scores, masks and attention weights, each verified on the numbers of the run.

A cause takes a run and its first operation whose inputs are right and whose result is not. It
returns a finding only if the wrong formula that it stands for gives the learner's own numbers, or
if what it says can be read off these numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from attncourse.checks.diagnosis.labeled_run import (
    ASSIGNS,
    MAY_BE_SCALED,
    NEAR,
    PARTS,
    LabeledRun,
    close_or_nan,
    divided,
    holds,
)
from attncourse.checks.diagnosis.quantities import Match, find, find_any
from attncourse.checks.findings import Finding
from attncourse.tracing.operations import Operation
from attnlib.functional import causal_mask

# What makes a mask: the line that is told is the nearest of these before the scores
DRAWS = {"triu", "tril", "gt", "lt", "ge", "le", "__gt__", "__lt__", "__ge__", "__le__"}


# What scores are when softmax takes them


def masked_in(match: Match) -> Tensor:
    """Return which scores are masked."""
    assert match.masked is not None
    return match.masked


def future_in(match: Match) -> Tensor:
    """Return which scores should be masked."""
    return (match.index["j"] > match.index["i"]).expand(masked_in(match).shape)


def what_is_wrong(run: LabeledRun, match: Match) -> str:
    """Return what is wrong with scores that go into softmax: mask, scale or nothing."""
    if not masked_in(match).equal(future_in(match)):
        return "mask"
    return "scale" if abs(match.factor / run.root - 1) > NEAR else ""


def masked_pairs(run: LabeledRun, match: Match, masked: Tensor) -> Tensor | None:
    """Return what is masked as queries by keys; None if sequences or heads differ."""
    size = run.right("scores").shape[-1]
    some, every = torch.zeros(size * size), torch.ones(size * size)
    rows, columns = (match.index[axis].expand(masked.shape).flatten() for axis in "ij")
    places, flat = rows * size + columns, masked.flatten().float()
    some.scatter_reduce_(0, places, flat, "amax")
    every.scatter_reduce_(0, places, flat, "amin")
    seen = torch.zeros(size * size).scatter_(0, places, 1.0).bool()
    return some.view(size, size).bool() if bool((some == every)[seen].all()) else None


def softmax_axes(run: LabeledRun, operation: Operation) -> str | None:
    """Return the axes along which an operation is the softmax of its scores, if it is one."""
    number, before = run.the_scores(operation)
    values, old = operation.values.double(), run.operations[number].values.double()
    if before.layout is None or values.shape != old.shape:
        return None
    along = (axes for d, axes in enumerate(before.layout) if close_or_nan(values, old.softmax(d)))
    return next(along, None)


def takes_softmax(run: LabeledRun, operation: Operation) -> bool:
    """Return whether an operation takes its scores as softmax does, along the keys."""
    axes = softmax_axes(run, operation)
    return "softmax" in operation.name if axes is None else axes == "j"


def mask_maker(run: LabeledRun, operation: Operation) -> Operation | None:
    """Return the last operation that drew the mask that this one takes."""
    new, seen = [n for n in operation.parents if n not in run.from_x], set[int]()
    while new:
        number = max(new)
        new.remove(number)
        made = run.operations[number]
        if made.line is not None and {made.name, made.name.rstrip("_")} & (DRAWS | ASSIGNS):
            return made
        if number not in seen:
            seen.add(number)
            new.extend(made.parents)
    return None


# Queries, keys and values come in


def another_attention(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find the order, the mask or the scale with which three right parts give this result."""
    if "attention" not in operation.name and not run.names(operation) >= set(PARTS):
        return None
    q, k, v = (run.right(name) for name in PARTS)
    carried = math.prod(label.factor for label in run.held(operation).values())
    factors = dict.fromkeys([run.root, carried * run.root, carried, 1.0, *wrong_scales(run)])
    for factor, (code, mask) in itertools.product(factors, _wrong_masks(q.shape[-2])):
        weights = (factor * q @ k.mT).masked_fill(mask, -torch.inf).softmax(dim=-1)
        if not any(holds(operation.values, made) for made in (weights @ v, weights)):
            continue
        if code:
            maker = operation if code == "mask.inverted" else mask_maker(run, operation)
            return run.at(maker or operation, code)
        wrong = scale_finding(run, factor)
        return run.at(operation, wrong.code, **wrong.facts)
    return None


def _wrong_masks(size: int) -> list[tuple[str, Tensor]]:
    """Return what a mask may be instead of the future, with its code; first the future itself."""
    ones = torch.ones(size, size, dtype=torch.bool)
    return [
        ("", ones.triu(1)),
        ("mask.none", ~ones),
        ("mask.inverted", ones.tril()),
        ("mask.past", ones.tril(-1)),
        ("mask.diagonal", ones.triu()),
        ("mask.late", ones.triu(2)),
    ]


def another_product(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find a product of other parts than queries and keys."""
    if len(run.held(operation)) == 1 and len(operation.parents) == 1:
        return None
    for one, other in itertools.combinations_with_replacement(PARTS, 2):
        product = run.right(one) @ run.right(other).mT
        factor = math.prod(label.factor for label in run.held(operation).values())
        values = divided(operation.values, factor)
        if {one, other} != {"queries", "keys"} and any(
            holds(values, made) for made in (product, product.mT)
        ):
            wrong = "values" if "values" in (one, other) else one
            where = _twin_of(run, wrong)
            later = (run.operations[n] for n in run.leads_here if n > operation.number)
            exchanged = any("keys" in run.names(made) for made in later)
            if {one, other} == {"queries", "values"} and exchanged:
                where = where or _first_of(run, "values")
            return run.at(where or operation, "scores.pair", pair=(one, other))
    return None


def _first_of(run: LabeledRun, name: str) -> Operation | None:
    """Return the operation that projected a quantity."""
    labels = sorted(run.labels.items())
    return next((run.operations[n] for n, m in labels if m and m.name == name), None)


def _twin_of(run: LabeledRun, name: str) -> Operation | None:
    """Return the later of two projections of one name: it stands for another part."""
    held = {n for n, label in run.labels.items() if label and label.name == name}
    first = sorted({list(run.chain(n, name))[-1].number for n in held})
    if len(first) < 2:
        return None
    return run.operations[first[-1]]


# Scores come in: the scale


def wrong_scales(run: LabeledRun) -> dict[float, tuple[str, str]]:
    """Return factors that scores are multiplied by in error: the code, and the size in question."""
    width = run.right("queries").shape[-1]
    usual = {
        1.0: ("scale.none", ""),
        width**0.5: ("scale.times", ""),
        1 / width: ("scale.no-root", ""),
        0.5 / width: ("scale.half", ""),  # / width ** 1 / 2, which Python reads as half of width
        2 / width: ("scale.half", ""),
    }
    # not the number of sequences, by which nobody divides
    others = {name: size for name, size in run.sizes.items() if name not in ("b", "head_dim")}
    by = {size**-0.5: ("scale.width", name) for name, size in others.items() if size != width}
    return {**by, **usual}


def scale_finding(run: LabeledRun, factor: float) -> Finding:
    """Return what is wrong with scores that are multiplied by a wrong factor."""
    facts = {"factor": factor, "right": run.root}
    for wrong, (code, by) in wrong_scales(run).items():
        if abs(factor - wrong) < NEAR:
            return Finding(code, None, {**facts, "by": by})
    return Finding("scale.wrong", None, facts)


def wrong_scale(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find scores that softmax takes with another factor than the right one."""
    number, before = run.the_scores(operation)
    if not takes_softmax(run, operation) or what_is_wrong(run, before) != "scale":
        return None
    wrong = scale_finding(run, before.factor)
    scaler = None
    for later_number in sorted(run.leads_here & run.from_x):
        label = run.labels.get(later_number)
        if later_number > number or label is None:
            continue
        if not label.in_order or label.name not in MAY_BE_SCALED:
            continue
        product = math.prod(part.factor for part in _scaled_parts(run, later_number))
        if abs(label.factor / product - 1) > NEAR:
            scaler = run.operations[later_number]
    scaler = scaler or list(run.chain(number))[-1]
    return run.at(scaler, wrong.code, **wrong.facts)


def _scaled_parts(run: LabeledRun, number: int) -> Iterator[Match]:
    """Yield the nearest labels before an operation that may carry a factor."""
    for parent in run.parents(run.operations[number]):
        label = run.labels.get(parent)
        if label is None and parent in run.labels:
            yield from _scaled_parts(run, parent)
        elif label is not None and label.name in MAY_BE_SCALED:
            yield label


# Scores come in: softmax


def softmax_of_other_axes(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find a softmax that runs over queries, heads, sequences, or several of them."""
    axes = softmax_axes(run, operation)
    return run.at(operation, "softmax.axis", axes=axes) if axes not in (None, "j") else None


def no_softmax(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find scores that meet the values as they are."""
    return run.at(operation, "softmax.none") if "values" in run.names(operation) else None


# Scores come in: the mask


def mask_of_other_places(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find what a mask hides, where it hides something and not the future."""
    number, before = run.the_scores(operation)
    if not takes_softmax(run, operation) or what_is_wrong(run, before) != "mask":
        return None
    masked = masked_in(before)
    pattern = masked_pairs(run, before, masked)
    if not masked.any():
        return None
    chain = list(run.chain(number))
    maskers = [
        later
        for later, earlier in itertools.pairwise(chain)
        if _masked_count(run, later) != _masked_count(run, earlier)
    ]
    last = [*maskers, run.operations[number]][0]
    if pattern is None:
        return None  # it differs between heads or sequences
    return _mask_finding(run, last, pattern)


def _masked_count(run: LabeledRun, operation: Operation) -> int:
    label = run.labels.get(operation.number)
    return int(label.masked.sum()) if label is not None and label.masked is not None else 0


def _mask_finding(run: LabeledRun, operation: Operation, pattern: Tensor) -> Finding:
    """Return what a pattern masks instead of the future, at the line that made it."""
    maker = mask_maker(run, operation) or operation
    inverted = torch.ones_like(pattern).tril()
    # where the first or last row would be all masked, code may leave it visible
    if pattern.equal(inverted) or pattern[1:-1].equal(inverted[1:-1]):
        return run.at(operation, "mask.inverted")
    for code, wrong in _wrong_masks(len(pattern)):
        if code and pattern.equal(wrong):
            return run.at(maker, code)
    future = causal_mask(len(pattern))
    leaks, too_much = (~pattern & future).nonzero(), (pattern & ~future).nonzero()
    code, places = ("mask.leaks", leaks) if len(leaks) else ("mask.too-much", too_much)
    i, j = places[0].tolist()
    return run.at(maker, code, token=i, other=j)


def nothing_masked(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find why softmax takes scores of which none are masked."""
    number, before = run.the_scores(operation)
    if not takes_softmax(run, operation) or what_is_wrong(run, before) != "mask":
        return None
    if masked_in(before).any():
        return None
    return (
        _masked_and_dropped(run, operation, before)
        or _masked_after_softmax(run, operation)
        or run.at(_empty_mask(run, number) or operation, "mask.none")
    )


def _masked_and_dropped(run: LabeledRun, operation: Operation, before: Match) -> Finding | None:
    """Find masked scores that nothing uses."""
    plain = run.named["scores"][0]
    for other in run.operations[: operation.number]:
        if other.number in run.leads_here or other.number not in run.from_x:
            continue
        label = find_any(other.values, run.named, ("scores",))
        if label is None and other.values.numel():
            label = find(divided(other.values, before.factor), plain)
        if label is not None and label.masked is not None and label.masked.any():
            return run.at(other, "mask.unused")
    return None


def _masked_after_softmax(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find a mask that comes after softmax."""
    rows = operation.values.sum(dim=-1)
    if not torch.allclose(rows, torch.ones_like(rows), atol=1e-4):
        return None
    for other in run.operations[operation.number + 1 :]:
        future = causal_mask(operation.values.shape[-1])
        same = other.number in run.leads_here and other.values.shape == operation.values.shape
        if same and future.any() and bool((other.values[..., future] == 0).all()):
            return run.at(other, "mask.after-softmax")
    return None


def _empty_mask(run: LabeledRun, number: int) -> Operation | None:
    """Return the operation that masks scores with a mask in which nothing is masked."""
    size = run.right("scores").shape[-1]
    for later in run.chain(number):
        masks = [run.operations[n].values for n in later.parents if n not in run.from_x]
        if any(mask.shape[-2:] == (size, size) for mask in masks):
            return later
    return None


def fill_is_too_high(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find scores of which some get a number that softmax still gives weight."""
    number, before = run.the_scores(operation)
    values, old = operation.values.double(), run.operations[number].values.double()
    if values.shape != old.shape or before.layout is None:
        return None
    changed = (values - old).abs() > 1e-5
    changed &= ~((values == -torch.inf) & (old == -torch.inf))
    if not changed.any() or changed.all() or not bool((~changed & old.isfinite()).any()):
        return None
    pattern = masked_pairs(run, before, changed | masked_in(before))
    if pattern is None or not bool((pattern & causal_mask(len(pattern))).any()):
        return None
    fill = float(values[changed][0])
    if not bool((values[changed] - fill).abs().max() < 1e-4 * max(1.0, abs(fill))):
        return None
    return run.at(operation, "mask.fill", number=fill)


def nan_of_a_mask(run: LabeledRun, operation: Operation) -> Finding | None:
    """Find NaN in something that is not made from x, which reaches the scores."""
    if not operation.values.is_floating_point() or not operation.values.isnan().any():
        return None
    others = (run.operations[n] for n in sorted(run.leads_here - run.from_x))
    nan = (o for o in others if o.values.is_floating_point() and o.values.isnan().any())
    first = next(nan, None)
    return run.at(first, "mask.nan") if first is not None and first.line is not None else None
