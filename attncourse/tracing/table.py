"""The result of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor


class Step(NamedTuple):
    """One tensor that one line made or changed, as it was right after that line."""

    line: int  # counted from the function's first line, which is 1
    source: str  # the statement
    name: str  # the variable
    change: str  # given, new, re-bound, in place or returned
    values: Tensor  # a copy

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return tuple(self.values.shape)


class Failure(NamedTuple):
    """Where forward stopped, why, and the tensors that met there."""

    function: str
    line: int
    source: str
    error: BaseException
    shapes: dict[str, tuple[int, ...]]

    def __str__(self) -> str:
        met = ", ".join(f"{name} {shape}" for name, shape in self.shapes.items())
        return (
            f"Stopped in {self.function}, line {self.line}: {self.source}\n"
            f"{type(self.error).__name__}: {self.error}" + (f"\nShapes there: {met}" if met else "")
        )


@dataclass(frozen=True)
class Trace:
    """What one run of forward did: its steps, its result, and its failure if it failed.

    Indexing by name gives the last step of that variable.
    """

    steps: list[Step]
    result: Any
    failure: Failure | None

    def __getitem__(self, name: str) -> Step:
        named = [step for step in self.steps if step.name == name]
        if not named:
            names = ", ".join(dict.fromkeys(step.name for step in self.steps))
            raise KeyError(f"no step made a tensor named {name!r}; there are: {names}")
        return named[-1]
