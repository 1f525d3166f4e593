"""Why the future is not hidden when softmax comes, or more than the future."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from attncourse.checks.diagnosis.path import ASSIGNS, Path, close_or_nan, cut_at, divided
from attncourse.checks.diagnosis.quantities import HIDDEN, Found, find, find_any
from attncourse.checks.findings import Finding, Kind
from attncourse.tracing.operations import Operation
from attnlib.functional import causal_mask

HIDES = {"masked_fill", "where", "add", "iadd", "radd", "baddbmm", "addbmm"}
FILLERS = {"full", "full_like", "ones", "zeros", "mul", "__mul__", "rmul", "__rmul__", "new_full"}
DRAWS = {"triu", "tril", "triu_", "tril_", "gt", "lt", "ge", "le", "__gt__", "__lt__"}
DRAWS |= {"__ge__", "__le__"}
KEEPS = {"__getitem__", "expand", "to", "unsqueeze", "contiguous", "view", "bool", "float"}


# What scores are when softmax takes them


def hidden_in(found: Found) -> Tensor:
    """Return what is hidden in scores."""
    assert found.hidden is not None
    return found.hidden


def future_in(found: Found) -> Tensor:
    """Return what should be hidden in scores."""
    return (found.index["j"] > found.index["i"]).expand(hidden_in(found).shape)


def row_in(found: Found) -> tuple[int, set[int]] | None:
    """Return the one query whose scores these are, and the keys that it sees."""
    if found.index["i"].numel() != 1 or found.index["j"].numel() < 1:
        return None
    hidden = hidden_in(found)
    keys = found.index["j"].expand(hidden.shape)[~hidden]
    return int(found.index["i"]), set(keys.tolist())


def is_transposed(found: Found) -> bool:
    """Return whether the rows of the last two dimensions are keys."""
    layout = found.layout or ()
    return "j" in layout and "i" in layout and layout.index("j") < layout.index("i")


def what_is_wrong(path: Path, found: Found) -> str:
    """Return what is wrong with scores that go into softmax: rows, mask, scale or nothing."""
    row = row_in(found)
    if row is not None and row[1] != set(range(row[0] + 1)):
        return "rows"
    if not hidden_in(found).equal(future_in(found)):
        return "mask"
    return "scale" if abs(found.factor / path.root - 1) > 1e-4 else ""


def hidden_pairs(path: Path, found: Found, hidden: Tensor) -> Tensor | None:
    """Return what is hidden as queries by keys; None if texts or heads differ."""
    size = path.right("scores").shape[-1]
    some, every = torch.zeros(size * size), torch.ones(size * size)
    rows, columns = (found.index[axis].expand(hidden.shape).flatten() for axis in "ij")
    places, flat = rows * size + columns, hidden.flatten().float()
    some.scatter_reduce_(0, places, flat, "amax")
    every.scatter_reduce_(0, places, flat, "amin")
    seen = torch.zeros(size * size).scatter_(0, places, 1.0).bool()
    return some.view(size, size).bool() if bool((some == every)[seen].all()) else None


# Where a mask was made


def mask_maker(path: Path, operation: Operation) -> Operation | None:
    """Return the operation that drew the triangle that this one used, or wrote into a mask."""
    return maker_named(path, operation, DRAWS) or maker_named(path, operation, ASSIGNS)


def maker_named(path: Path, operation: Operation, names: set[str]) -> Operation | None:
    """Return the last operation of some names behind what is not made of x."""
    new, seen = [n for n in operation.parents if n not in path.from_x], set[int]()
    while new:
        number = max(new)
        new.remove(number)
        made = path.operations[number]
        if made.name in names and made.line is not None:
            return made
        if number not in seen:
            seen.add(number)
            new.extend(made.parents)
    return None


# Rules: scores come in, and what comes out is wrong because of the mask


def takes_softmax(path: Path, operation: Operation) -> bool:
    """Return whether an operation takes its scores as softmax does, along the keys."""
    number, before = path.the_scores(operation)
    if before.layout is None:
        return False
    values, old = operation.values.double(), path.operations[number].values.double()
    if values.shape == old.shape:
        for dim, axes in enumerate(before.layout):
            if close_or_nan(values, old.softmax(dim=dim)):
                return axes == "j"
        if values.isnan().any() and not old.isnan().any():
            return bool(old.isneginf().any()) and bool(what_is_wrong(path, before))
    name = operation.name.strip("_")
    steps = ("exp", "max", "amax", "sub", "sigmoid", "tanh", "relu")
    return "softmax" in name or (name.startswith(steps) and not softmax_follows(path, operation))


def softmax_follows(path: Path, operation: Operation) -> bool:
    """Return whether a later operation is a softmax by its name."""
    return any("softmax" in later.name for later in path.operations[operation.number + 1 :])


def everything_hidden(path: Path, operation: Operation) -> Finding | None:
    """Tell an operation that hides every score of some tokens."""
    number, before = path.the_scores(operation)
    values, old = operation.values, path.operations[number].values
    if values.shape != old.shape or path.is_good(operation.number):
        return None
    rows = (values < HIDDEN).all(dim=-1)
    if not rows.any() or bool((old < HIDDEN).all(dim=-1).any()) or before.index["j"].numel() < 2:
        return None
    turned = maker_named(path, operation, {"__invert__", "bitwise_not"})
    if turned is not None and turned.values.dtype is not torch.bool:
        return path.at(turned, Kind.MASK_TURNED)
    maker = mask_maker(path, operation) or operation
    return path.at(maker, Kind.MASK_EVERYTHING)


def row_of_other_keys(path: Path, operation: Operation) -> Finding | None:
    """Tell a loop over the tokens in which one meets other keys than those up to itself."""
    number, before = path.the_scores(operation)
    row = row_in(before) if takes_softmax(path, operation) else None
    if row is None or what_is_wrong(path, before) != "rows":
        return None
    i, seen = row
    first = list(path.chain(number))[-1]
    keys = [n for n, f in path.found.items() if f and f.name == "keys" and n < first.number]
    cut = cut_at(path, max(keys), "t") if keys else None
    return path.at(cut or first, Kind.MASK_ROWS, token=i, low=min(seen), high=max(seen))


def mask_of_other_places(path: Path, operation: Operation) -> Finding | None:
    """Tell what a mask hides, where it hides something and not the future."""
    number, before = path.the_scores(operation)
    if not takes_softmax(path, operation) or what_is_wrong(path, before) != "mask":
        return None
    hidden = hidden_in(before)
    pattern = hidden_pairs(path, before, hidden)
    if pattern is not None and not hidden.any():
        return None
    if is_transposed(before) and hidden.equal(
        (before.index["j"] < before.index["i"]).expand(hidden.shape)
    ):
        return path.at(list(path.chain(number))[-1], Kind.SCORES_TRANSPOSED)
    chain = list(path.chain(number))
    maskers = [
        later
        for later, earlier in itertools.pairwise(chain)
        if _how_many(path, later) != _how_many(path, earlier)
    ]
    too_much = [
        later
        for later in maskers[::-1]
        if (found := path.found[later.number])
        and bool((hidden_in(found) & ~future_in(found)).any())
    ]
    last = [*too_much, *maskers, path.operations[number]][0]
    if pattern is None:
        return path.at(last, Kind.MASK_DIFFERS)
    return _told_by_pattern(path, last, pattern)


def _how_many(path: Path, operation: Operation) -> int:
    found = path.found.get(operation.number)
    return int(found.hidden.sum()) if found is not None and found.hidden is not None else 0


def _told_by_pattern(path: Path, operation: Operation, pattern: Tensor) -> Finding:
    maker = mask_maker(path, operation) or operation
    ones = torch.ones_like(pattern)
    if pattern.equal(ones.tril()) or pattern[1:-1].equal(ones.tril()[1:-1]):
        return path.at(operation, Kind.MASK_INVERTED)
    for wrong, kind in (
        (ones.triu(), Kind.MASK_DIAGONAL),
        (ones.tril(-1), Kind.MASK_PAST),
        (ones.triu(2), Kind.MASK_LATE),
        (ones.triu(3), Kind.MASK_LATE),
    ):
        if pattern.equal(wrong):
            return path.at(maker, kind)
    future = causal_mask(len(pattern))
    leaks, too_much = (~pattern & future).nonzero(), (pattern & ~future).nonzero()
    kind, places = (Kind.MASK_LEAKS, leaks) if len(leaks) else (Kind.MASK_TOO_MUCH, too_much)
    i, j = places[0].tolist()
    return path.at(maker, kind, token=i, other=j)


def mask_not_kept(path: Path, operation: Operation) -> Finding | None:
    """Tell scores whose future is hidden in a tensor that nothing uses."""
    number = _of_bare_scores(path, operation)
    if number is None:
        return None
    plain = path.named["scores"][0]
    for other in path.operations[: operation.number]:
        if other.number in path.leads_here or other.number not in path.from_x:
            continue
        found = find_any(other.values, path.named, ("scores",))
        before = path.found[number]
        if found is None and before is not None and other.values.numel():
            found = find(divided(other.values, before.factor), plain)
        if found is not None and found.hidden is not None and found.hidden.any():
            return path.at(other, Kind.MASK_UNUSED)
    return None


def _of_bare_scores(path: Path, operation: Operation) -> int | None:
    """Return the scores that softmax takes with nothing hidden."""
    number, before = path.the_scores(operation)
    if not takes_softmax(path, operation) or what_is_wrong(path, before) != "mask":
        return None
    return None if hidden_in(before).any() else number


def mask_after_softmax(path: Path, operation: Operation) -> Finding | None:
    """Tell a mask that comes after softmax, or a softmax by hand that counts the future."""
    number = _of_bare_scores(path, operation)
    if number is None:
        return None
    by_hand = None
    for other in path.operations[operation.number + 1 :]:
        values = other.values
        if other.number not in path.leads_here & path.from_x or values.ndim < 2:
            continue
        size = values.shape[-1]
        if size < 2 or values.shape[-2] != size:
            continue
        down = values.sum(dim=-2)
        if bool((values >= 0).all()) and torch.allclose(down, torch.ones_like(down), atol=1e-4):
            return path.at(other, Kind.SOFTMAX_AXIS, axes="i")
        hidden = values[..., causal_mask(size)]
        if not bool(((hidden == 0) | hidden.isinf() | hidden.isnan()).all()):
            continue
        if _is_summed_later(path, other):
            by_hand = by_hand or other
            continue
        if by_hand is None:
            return path.at(other, Kind.MASK_AFTER_SOFTMAX)
    return path.at(by_hand, Kind.SOFTMAX_BY_HAND) if by_hand is not None else None


def _is_summed_later(path: Path, operation: Operation) -> bool:
    """Return whether what is hidden here are exp of scores, whose sum comes later."""
    later = path.operations[operation.number + 1 :]
    parents = [path.operations[n].values for n in path.parents(operation)]
    sums = [p.sum(dim=-1) for p in parents if p.shape == operation.values.shape]
    return any(operation.number in made.parents and "sum" in made.name for made in later) and not (
        any(torch.allclose(s, torch.ones_like(s)) for s in sums)
    )


def mask_that_hides_nothing(path: Path, operation: Operation) -> Finding | None:
    """Tell scores into which nothing hides anything, with the mask that should have."""
    number = _of_bare_scores(path, operation)
    if number is None:
        return None
    for later in path.chain(number):
        masks = [n for n in later.parents if n not in path.from_x]
        if weak := _weak_mask(path, later, masks):
            return weak
        tensors = [path.operations[n] for n in masks if path.operations[n].values.numel() > 1]
        if later.name.strip("_") in HIDES and not all(made.given for made in tensors):
            return path.at(later, Kind.MASK_EMPTY)
    return path.at(operation, Kind.MASK_NONE)


def _weak_mask(path: Path, operation: Operation, masks: list[int]) -> Finding | None:
    """Tell a mask that is added, and either holds no -inf or does not arrive."""
    future = causal_mask(path.right("scores").shape[-1])
    for n in masks:
        values = path.operations[n].values
        if values.shape[-2:] != future.shape or not values.is_floating_point():
            continue
        above, below = values[..., future], values[..., ~future]
        number = float(above.flatten()[0])
        if number > HIDDEN and bool((above == number).all()) and bool((below != number).all()):
            if {number, *below.flatten().tolist()} == {0.0, 1.0}:
                return path.at(operation, Kind.MASK_ADDED)
            made = path.operations[n]
            while made.name in KEEPS and made.parents:
                made = path.operations[made.parents[0]]
            made = made if made.line is not None else operation
            return path.at(made, Kind.MASK_FILL, number=number)
    return None


def mask_of_numbers(path: Path, operation: Operation) -> Finding | None:
    """Tell scores of which some get a number that softmax still gives weight."""
    number, before = path.the_scores(operation)
    values, old = operation.values.double(), path.operations[number].values.double()
    if values.shape != old.shape or before.layout is None:
        return None
    changed = (values - old).abs() > 1e-5
    changed &= ~((values == -torch.inf) & (old == -torch.inf))
    if not changed.any() or changed.all() or not bool((~changed & old.isfinite()).any()):
        return None
    if old[changed].max() < old[~changed & old.isfinite()].min():  # by number, not by place
        return None
    pattern = hidden_pairs(path, before, changed | hidden_in(before))
    fills, added = values[changed], (values - old)[changed]
    if fills.isposinf().any():
        return path.at(operation, Kind.MASK_FILL, number=torch.inf)
    fills = fills[fills.isfinite()]
    hides_future = pattern is None or bool((pattern & causal_mask(len(pattern))).any())
    for numbers, is_added in ((fills, False), (added, True)):
        if not len(numbers) or not hides_future:
            continue
        if float(numbers.max() - numbers.min()) < 1e-4 * max(1.0, float(numbers.abs().max())):
            one = float(numbers[0])
            sums = operation.name.strip("_") in {"add", "iadd", "radd", "sub"}
            maker = maker_named(path, operation, ASSIGNS | FILLERS) if sums else None
            if is_added and one == 1:
                return path.at(operation, Kind.MASK_ADDED)
            return path.at(maker or operation, Kind.MASK_FILL, number=one)
    return path.at(operation, Kind.SCORES_CHANGED)


def nan_of_scores(path: Path, operation: Operation) -> Finding | None:
    """Tell NaN that arises of scores which are none."""
    number, _ = path.the_scores(operation)
    values, old = operation.values, path.operations[number].values
    if not values.isnan().any() or old.isnan().any() or old.isneginf().any():
        return None
    made = (path.operations[n] for n in sorted(path.leads_here))
    first = next(o for o in made if o.values.is_floating_point() and o.values.isnan().any())
    return path.at(first, Kind.MASK_NAN)
