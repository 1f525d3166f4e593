"""One run of a learner's forward: its operations, and which quantity each of them made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncourse.checks.diagnosis.quantities import HIDDEN, Found, Quantity, find, find_any, scaled
from attncourse.checks.findings import Finding, Kind
from attncourse.tracing.operations import Operation, SourceLine

MOST_OPERATIONS = 1500  # that are looked at
PARTS = ("queries", "keys", "values")
MAY_BE_SCALED = ("queries", "keys", "scores")
CONSTANTS = re.compile(r"_like$|^new_|^is|^(eq|ne|lt|gt|le|ge|__(eq|ne|lt|gt|le|ge)__)$")
RANDOM = re.compile(
    r"dropout|bernoulli|^rand|normal_|^normal$|multinomial|uniform_|poisson|gumbel|exponential_"
)
ASSIGNS = {"__setitem__", "copy_", "index_copy_", "index_put_", "scatter_", "narrow_copy"}
CUTS = {"__getitem__", "narrow", "select", "index_select", "chunk", "split", "tensor_split"}
TURNS = {"permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "mT", "einsum"}
TURNS |= {"stack", "rearrange"}
PASSES = {"contiguous", "clone", "unbind", "to", "squeeze"} | CUTS


class Scale(NamedTuple):
    """A factor that scores are multiplied by in error, and what it comes of."""

    factor: float
    kind: Kind
    by: str = ""  # the name of a size
    root: bool = True  # whether it is the size's root


@dataclass
class Path:
    """The operations of one run, and which quantity each of them made.

    Args:
        operations: of the constructor, if possible, and of one run of forward.
        result: the number of the operation that made the result.
        x: the number of x.
        named: the quantities of this x and these weights.
        scales: factors that a wrong scale may be.
        width: what the width of a head is called, "head_dim" or "d_out".
    """

    operations: list[Operation]
    result: int
    x: int
    named: Mapping[str, tuple[Quantity, ...]]
    scales: tuple[Scale, ...]
    width: str = "head_dim"
    found: dict[int, Found | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.look_up_to(self.result)

    @property
    def root(self) -> float:
        """The right scale."""
        return self.named["queries"][1].factor

    @property
    def num_heads(self) -> int:
        """How many heads there are."""
        return self.right("queries").shape[1]

    def right(self, name: str) -> Tensor:
        """Return a quantity as it should be."""
        return self.named[name][0].values

    @cached_property
    def from_x(self) -> set[int]:
        """The operations whose numbers come from x, and not only its shape."""
        reached = {self.x}
        for operation in self.operations[self.x + 1 :]:
            if CONSTANTS.search(operation.name) or not operation.values.is_floating_point():
                continue
            if reached.intersection(operation.parents):
                reached.add(operation.number)
        return reached

    def look_up_to(self, result: int) -> None:
        """Take an operation for the result, and look up all that leads to it."""
        self.result = result
        self.leads_here, new = {result}, [result]
        while new:
            for parent in self.operations[new.pop()].parents:
                if parent not in self.leads_here:
                    self.leads_here.add(parent)
                    new.append(parent)
        for number in sorted(self.leads_here & self.from_x)[:MOST_OPERATIONS]:
            if number not in self.found:
                self.found[number] = self.look(self.operations[number])

    def parents(self, operation: Operation) -> list[int]:
        """Return the numbers of an operation's inputs that come from x."""
        return [n for n in dict.fromkeys(operation.parents) if n in self.from_x]

    def is_good(self, number: int) -> bool:
        """Return whether an operation made a quantity as it may be."""
        found = self.found.get(number)
        if found is None or not found.in_order:
            return False
        return found.name in MAY_BE_SCALED or abs(found.factor - 1) < 1e-4

    def held(self, operation: Operation) -> dict[int, Found]:
        """Return what comes into an operation as it should be, by number."""
        held = {n: self.found.get(n) for n in self.parents(operation) if self.is_good(n)}
        return {n: found for n, found in held.items() if found is not None}

    def names(self, operation: Operation) -> set[str]:
        """Return the names of the quantities that come into an operation as they should be."""
        return {found.name for found in self.held(operation).values()}

    def the_scores(self, operation: Operation) -> tuple[int, Found]:
        """Return the scores that come into an operation."""
        return next((n, f) for n, f in self.held(operation).items() if f.name == "scores")

    def chain(self, number: int, name: str = "scores") -> Iterator[Operation]:
        """Yield the operations on one quantity that led here, the last one first."""
        current: int | None = number
        while current is not None:
            yield self.operations[current]
            before = self.parents(self.operations[current])
            current = next((n for n in before if (f := self.found.get(n)) and f.name == name), None)

    def given_name(self, number: int) -> str:
        """Return the name of the parameter that an operation only copies or turns."""
        operation = self.operations[number]
        while operation.parents and number not in self.from_x:
            operation = self.operations[operation.parents[0]]
        return operation.name if operation.given else ""

    def line_of(self, operation: Operation) -> SourceLine | None:
        """Return the line of an operation, or of the nearest one before it that has a line."""
        while operation.line is None and operation.parents:
            operation = self.operations[operation.parents[0]]
        return operation.line

    def at(self, operation: Operation, kind: Kind, *, sure: bool = True, **facts: Any) -> Finding:
        """Return a finding at an operation's line."""
        facts = {"operation": operation.name, "width": self.width, **facts}
        return Finding(kind, self.line_of(operation), facts, sure)

    def look(self, operation: Operation) -> Found | None:
        """Return which quantity an operation made."""
        values = operation.values
        if not values.numel():
            return None
        found = find_any(values, self.named)
        if found is not None and found.in_order:
            return found
        parents = {n: held for n in self.parents(operation) if (held := self.found.get(n))}
        for number, before in parents.items():
            ratio = ratio_of(values, self.operations[number].values)
            if before.in_order and ratio is not None:
                return scaled(before, ratio)
        plain = self.named["scores"][0]
        if found is None and values.numel() == plain.values.numel() and values.isfinite().all():
            factor = float(values.norm() / plain.values.norm())
            again = find(values.double() / factor, plain) if factor else None
            if again is not None and again.in_order:
                return scaled(again, factor)
        if not parents:
            return found
        factors = [before.factor for before in parents.values()]
        names = {before.name for before in parents.values()}
        if names == {"queries", "keys"} and len(factors) == 2:
            guess = factors[0] * factors[1]
            again = find(divided(values, guess), plain)
            if again is not None and again.in_order:
                return scaled(again, guess)
        if names == {"scores"} or (found is None and len(parents) == 1):
            return self._scaled_alike(values, next(iter(names)), factors[0]) or found
        return found

    def _scaled_alike(self, values: Tensor, name: str, factor: float) -> Found | None:
        """Return a quantity scaled as the one it is made of: a cut, a turn or a mask of it."""
        if name not in MAY_BE_SCALED or not factor:
            return None
        again = find(divided(values, factor), self.named[name][0])
        return again and scaled(again, factor)


def divided(values: Tensor, factor: float) -> Tensor:
    """Return values by a factor; what hides stays, also where the factor is negative."""
    values = values.double()
    return torch.where(values < HIDDEN, values, values / factor)


def ratio_of(values: Tensor, old: Tensor) -> float | None:
    """Return the one factor between two tensors; None if there is none."""
    if values.shape != old.shape:
        return None
    told = old.isfinite() & (old.abs() > 1e-3)
    if not told.any() or not bool((values.isfinite() == old.isfinite()).all()):
        return None
    ratios = (values[told] / old[told]).double()
    first = float(ratios.median())
    if not (ratios - first).abs().max() <= 1e-4 * max(abs(first), 1e-6) or first == 0:
        return None
    near = old.isfinite() & ~told
    return first if close_or_nan(values[near].double(), old[near].double() * first) else None


def close_or_nan(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors agree, where NaN agrees with NaN."""
    same = (a - b).abs() <= 1e-5
    same |= (a == b) | (a.isnan() & b.isnan())
    return bool(same.all())


def holds(tensor: Tensor, right: Tensor) -> bool:
    """Return whether a tensor holds the numbers of another, in whatever layout."""
    if tensor.numel() > right.numel() or not tensor.numel():
        return False
    axes = "bhij" if right.shape[-1] == right.shape[-2] else "bhtd"
    axes = axes if right.ndim == 4 else "btd"
    return find(tensor, Quantity("", axes, right.nan_to_num(0.0))) is not None


# Where a tensor was cut or turned


def unscaled(path: Path, number: int) -> int:
    """Go back over operations that leave each number in its place, such as a factor."""
    while True:
        found, before = path.found.get(number), path.parents(path.operations[number])
        held = path.found.get(before[0]) if len(before) == 1 else None
        if found is None or held is None or found.layout is None:
            return number
        same = (held.name, held.layout) == (found.name, found.layout)
        if path.operations[number].name in TURNS or not same:
            return number
        if any(not held.index[axis].equal(found.index[axis]) for axis in found.index):
            return number
        number = before[0]


def made_at(path: Path, number: int) -> Operation:
    """Return the operation that cut or turned a quantity last, of those that have a line."""
    number = unscaled(path, number)
    while path.operations[number].line is None and path.operations[number].parents:
        number = path.operations[number].parents[0]
    return path.operations[number]


def turned_at(path: Path, number: int) -> Operation | None:
    """Return the operation that last ordered the dimensions of a quantity, if one did."""
    number = unscaled(path, number)
    while path.found.get(number) is not None:
        operation = path.operations[number]
        if operation.name in TURNS and operation.line is not None:
            return operation
        if not operation.parents or operation.name not in PASSES:
            return None
        number = operation.parents[0]
    return None


def cut_at(path: Path, number: int, axis: str) -> Operation | None:
    """Return the operation that took some places along an axis out of a quantity."""
    while (made := path.found.get(number)) is not None and axis in made.index:
        operation = path.operations[number]
        number = next((n for n in path.parents(operation) if path.found.get(n)), -1)
        before = path.found.get(number)
        if before is None or axis not in before.index:
            return None
        if set(made.index[axis].flatten().tolist()) != set(before.index[axis].flatten().tolist()):
            return operation
    return None


def apart(path: Path, one: int, other: int) -> tuple[str, int, int] | None:
    """Return the axis, text or head, and the places at which two operands do not fit.

    It is told only of tensors whose two last dimensions are tokens and columns, or tokens twice.
    """
    first, second = path.found[one], path.found[other]
    if first is None or second is None or None in (first.layout, second.layout):
        return None
    for axis in ("h", "b"):
        if axis not in first.index or axis not in second.index:
            continue
        a, b = first.index[axis], second.index[axis]
        if [part.shape[-2:].numel() for part in (a, b)] != [1, 1]:
            continue
        try:
            shape = (a[..., 0, 0] + b[..., 0, 0]).shape
        except RuntimeError:
            continue
        pairs = zip(*(part[..., 0, 0].expand(shape).flatten() for part in (a, b)), strict=True)
        for mine, others in pairs:
            if mine != others:
                return axis, int(mine), int(others)
    return None
