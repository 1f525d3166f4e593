"""Which quantity of attention each operation of one run has made."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from attncourse.checks.quantities import HIDDEN, Found, Quantity, find, find_any, scaled
from attncourse.tracing.operations import Operation, Recording

MOST = 1500  # operations that are looked at
MAY_BE_SCALED = ("queries", "keys", "scores")
CONSTANTS = re.compile(r"_like$|^new_|^is|^(eq|ne|lt|gt|le|ge|__(eq|ne|lt|gt|le|ge)__)$")


class Path:
    """The operations of one run, and which quantity each of them made.

    Args:
        recording: of the constructor, if possible, and of one run of forward.
        result: the number of the operation that made the result.
        x: the number of x.
        named: the quantities of this x and these weights.
        widths: numbers that a scale may come from, and what to say of each.
        width: what the width of a head is called, "head_dim" or "d_out".
    """

    def __init__(
        self,
        recording: Recording,
        result: int,
        x: int,
        named: Mapping[str, tuple[Quantity, ...]],
        widths: tuple[tuple[float, str, str], ...],
        width: str = "head_dim",
    ) -> None:
        self.operations = recording.operations
        self.result = result
        self.named = named
        self.widths = widths
        self.width = width
        self.root = named["queries"][1].factor
        self.num_heads = named["queries"][0].values.shape[1]
        self.from_x = self._follow(x)
        self.leads_here = self._lead_to(result)
        self.found: dict[int, Found | None] = {}
        for number in sorted(self.leads_here & self.from_x)[:MOST]:
            self.found[number] = self._look(self.operations[number])

    def _follow(self, x: int) -> set[int]:
        """Return the operations whose numbers come from x, and not only its shape."""
        reached = {x}
        for operation in self.operations[x + 1 :]:
            if CONSTANTS.search(operation.name) or not operation.values.is_floating_point():
                continue
            if reached.intersection(operation.parents):
                reached.add(operation.number)
        return reached

    def _lead_to(self, result: int) -> set[int]:
        reached, new = {result}, [result]
        while new:
            for parent in self.operations[new.pop()].parents:
                if parent not in reached:
                    reached.add(parent)
                    new.append(parent)
        return reached

    def _parents(self, operation: Operation) -> list[int]:
        return [n for n in dict.fromkeys(operation.parents) if n in self.from_x]

    def _good(self, number: int) -> bool:
        found = self.found.get(number)
        if found is None or not found.in_order:
            return False
        return found.name in MAY_BE_SCALED or abs(found.factor - 1) < 1e-4

    def _look(self, operation: Operation) -> Found | None:
        """Return which quantity an operation made."""
        values = operation.values
        if not values.numel():
            return None
        found = find_any(values, self.named)
        if found is not None and found.in_order:
            return found
        parents = [n for n in self._parents(operation) if self.found.get(n) is not None]
        for number in parents:
            before = self.found[number]
            ratio = _ratio(values, self.operations[number].values)
            if before is not None and before.in_order and ratio is not None:
                return scaled(before, ratio)
        plain = self.named["scores"][0]
        if found is None and values.numel() == plain.values.numel() and values.isfinite().all():
            factor = float(values.norm() / plain.values.norm())
            again = find(values.double() / factor, plain) if factor else None
            if again is not None and again.in_order:
                return scaled(again, factor)
        if not parents:
            return found
        factors = [self.found[n].factor for n in parents]  # type: ignore[union-attr]
        names = {self.found[n].name for n in parents}  # type: ignore[union-attr]
        if names == {"queries", "keys"} and len(factors) == 2:
            guess = factors[0] * factors[1]
            again = find(divided(values, guess), plain)
            if again is not None and again.in_order:
                return scaled(again, guess)
        if names == {"scores"} or (found is None and len(parents) == 1):
            factor = factors[0]
            name = self.found[parents[0]].name  # type: ignore[union-attr]
            if name in MAY_BE_SCALED and factor:  # a cut, a transpose or a mask of scaled numbers
                again = find(divided(values, factor), self.named[name][0])
                if again is not None:
                    return scaled(again, factor)
        return found


def divided(values: Tensor, factor: float) -> Tensor:
    """Return values by a factor; what hides stays, also where the factor is negative."""
    values = values.double()
    return torch.where(values < HIDDEN, values, values / factor)


def _ratio(values: Tensor, old: Tensor) -> float | None:
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
