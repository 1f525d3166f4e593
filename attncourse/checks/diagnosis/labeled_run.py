"""One run of a learner's forward: its operations, each labelled with the quantity that it made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from attncourse.checks.diagnosis.quantities import MASKED, Match, Quantity, find, find_any, scaled
from attncourse.checks.findings import Finding
from attncourse.tracing.operations import Operation, SourceLine

# Looking a tensor up takes about 0.1 ms. Loops over single numbers make more operations than this,
# and then the rest has no labels.
MOST_OPERATIONS = 1500
# Factors and results are compared with this tolerance: float32 sums of at most 67 products differ
# by up to 1e-6, and the factors that are told apart differ by more than 1 %.
NEAR = 1e-4
PARTS = ("queries", "keys", "values")
MAY_BE_SCALED = ("queries", "keys", "scores")
CONSTANTS = re.compile(r"_like$|^new_|^is|^(eq|ne|lt|gt|le|ge|__(eq|ne|lt|gt|le|ge)__)$")
RANDOM = re.compile(
    r"dropout|bernoulli|^rand|normal_|^normal$|multinomial|uniform_|poisson|gumbel|exponential_"
)
ASSIGNS = {"__setitem__", "copy_", "index_copy_", "index_put_", "scatter_", "narrow_copy"}
TURNS = {"permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "mT", "einsum"}
TURNS |= {"stack", "rearrange"}


class LabeledRun:
    """The operations of one run, and which quantity each of them made.

    Args:
        operations: of the constructor, if possible, and of one run of forward.
        result: the number of the operation that made the result.
        x: the number of x.
        named: the quantities of this x and these weights.
        sizes: the sizes of the module and of x by name.
    """

    def __init__(
        self,
        operations: list[Operation],
        result: int,
        x: int,
        named: Mapping[str, tuple[Quantity, ...]],
        sizes: Mapping[str, int],
    ) -> None:
        self.operations, self.x, self.named, self.sizes = operations, x, named, sizes
        self.labels: dict[int, Match | None] = {}
        self.look_up_to(result)

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
        """Take an operation for the result, and label all that leads to it."""
        self.result = result
        self.leads_here, new = {result}, [result]
        while new:
            for parent in self.operations[new.pop()].parents:
                if parent not in self.leads_here:
                    self.leads_here.add(parent)
                    new.append(parent)
        for number in sorted(self.leads_here & self.from_x)[:MOST_OPERATIONS]:
            if number not in self.labels:
                self.labels[number] = self._label(self.operations[number])

    def parents(self, operation: Operation) -> list[int]:
        """Return the numbers of an operation's inputs that come from x."""
        return [n for n in dict.fromkeys(operation.parents) if n in self.from_x]

    def is_good(self, number: int) -> bool:
        """Return whether an operation made a quantity as it may be."""
        label = self.labels.get(number)
        if label is None or not label.in_order:
            return False
        return label.name in MAY_BE_SCALED or abs(label.factor - 1) < NEAR

    def held(self, operation: Operation) -> dict[int, Match]:
        """Return what comes into an operation as it should be, by number."""
        held = {n: self.labels.get(n) for n in self.parents(operation) if self.is_good(n)}
        return {n: label for n, label in held.items() if label is not None}

    def names(self, operation: Operation) -> set[str]:
        """Return the names of the quantities that come into an operation as they should be."""
        return {label.name for label in self.held(operation).values()}

    def the_scores(self, operation: Operation) -> tuple[int, Match]:
        """Return the scores that come into an operation."""
        return next((n, f) for n, f in self.held(operation).items() if f.name == "scores")

    def chain(self, number: int, name: str = "scores") -> Iterator[Operation]:
        """Yield the operations on one quantity that led here, the last one first."""
        current: int | None = number
        while current is not None:
            yield self.operations[current]
            before = self.parents(self.operations[current])
            current = next(
                (n for n in before if (f := self.labels.get(n)) and f.name == name), None
            )

    def line_of(self, operation: Operation) -> SourceLine | None:
        """Return the line of an operation, or of the nearest one before it that has a line."""
        while operation.line is None and operation.parents:
            operation = self.operations[operation.parents[0]]
        return operation.line

    def at(self, operation: Operation, code: str, **facts: Any) -> Finding:
        """Return a finding at an operation's line."""
        facts = {"operation": operation.name, **facts}
        return Finding(code, self.line_of(operation), facts)

    def _label(self, operation: Operation) -> Match | None:
        """Return which quantity an operation made, also with a factor that is not the right one."""
        values = operation.values
        if not values.numel():
            return None
        label = find_any(values, self.named)
        if label is not None and label.in_order:
            return label
        parents = {n: held for n in self.parents(operation) if (held := self.labels.get(n))}
        for number, before in parents.items():
            ratio = ratio_of(values, self.operations[number].values)
            if before.in_order and ratio is not None:
                return scaled(before, ratio)
        plain = self.named["scores"][0]
        if label is None and values.numel() == plain.values.numel() and values.isfinite().all():
            factor = float(values.norm() / plain.values.norm())
            again = find(values.double() / factor, plain) if factor else None
            if again is not None and again.in_order:
                return scaled(again, factor)
        if label is None and len(parents) == 1:
            # a cut, a turn or a mask of something that is scaled
            before = next(iter(parents.values()))
            return self._with_factor(values, before.name, before.factor)
        return label

    def _with_factor(self, values: Tensor, name: str, factor: float) -> Match | None:
        if name not in MAY_BE_SCALED or not factor:
            return None
        again = find(divided(values, factor), self.named[name][0])
        return again and scaled(again, factor)


def divided(values: Tensor, factor: float) -> Tensor:
    """Return values by a factor; what is masked stays, also where the factor is negative."""
    values = values.double()
    return torch.where(values < MASKED, values, values / factor)


def ratio_of(values: Tensor, old: Tensor) -> float | None:
    """Return the one factor between two tensors; None if there is none."""
    if values.shape != old.shape:
        return None
    told = old.isfinite() & (old.abs() > 1e-3)  # the ratio of smaller numbers is not exact
    if not told.any() or not bool((values.isfinite() == old.isfinite()).all()):
        return None
    ratios = (values[told] / old[told]).double()
    first = float(ratios.median())
    if not (ratios - first).abs().max() <= NEAR * max(abs(first), 1e-6) or first == 0:
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


def made_at(run: LabeledRun, number: int) -> Operation:
    """Return the operation that cut or turned a quantity last, of those that have a line."""
    operation, label = run.operations[number], run.labels.get(number)
    while label is not None and operation.name not in TURNS:
        before = run.parents(operation)
        held = run.labels.get(before[0]) if len(before) == 1 else None
        if held is None or (held.name, held.layout) != (label.name, label.layout):
            break
        operation, label = run.operations[before[0]], held
    while operation.line is None and operation.parents:
        operation = run.operations[operation.parents[0]]
    return operation
