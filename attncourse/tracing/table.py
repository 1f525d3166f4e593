"""The result of a trace, and its display as a table."""

from __future__ import annotations

import html
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Step(NamedTuple):
    """One tensor that one line made or changed, as it was right after that line."""

    function: str  # the function that holds the line
    line: int  # counted from the function's first line, which is 1
    source: str  # the statement
    last_line: int  # of the statement
    name: str  # the variable
    change: str  # given, new, re-bound, in place or returned
    dims: tuple[str, ...]  # the names in the line's shape comment, if it has one
    shape: tuple[int, ...]
    dtype: torch.dtype
    strides: tuple[int, ...]
    contiguous: bool
    values: Tensor  # a copy

    def memory(self) -> str:
        """Return how the tensor lies in memory."""
        return "contiguous" if self.contiguous else f"strides {self.strides}"


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


HEADINGS = ("step", "function", "line", "statement", "tensor", "change", "shape", "memory")


class Trace:
    """What one run of forward did: its steps, its result, and its failure if it failed.

    Indexing by number gives that step; by name, the last step of that variable.
    """

    def __init__(
        self, steps: list[Step], result: Any, failure: Failure | None, sources: dict[str, str]
    ) -> None:
        self.steps = steps
        self.result = result
        self.failure = failure
        self.sources = sources  # of each function that was followed

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, key: int | str) -> Step:
        if isinstance(key, int):
            return self.steps[key]
        named = [step for step in self.steps if step.name == key]
        if not named:
            names = ", ".join(dict.fromkeys(step.name for step in self.steps))
            raise KeyError(f"no step made a tensor named {key!r}; there are: {names}")
        return named[-1]

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table: one row for each step, in the order of HEADINGS."""
        return [
            (
                str(number),
                step.function.rpartition(".")[2],
                str(step.line),
                step.source,
                step.name,
                step.change,
                str(step.shape),
                step.memory(),
            )
            for number, step in enumerate(self.steps, start=1)
        ]

    def __repr__(self) -> str:
        rows = [HEADINGS, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        return "\n".join([*lines, *([str(self.failure)] if self.failure else [])])

    def _repr_html_(self) -> str:
        head = "".join(f"<th style='text-align:left'>{heading}</th>" for heading in HEADINGS)
        cell = "<td style='text-align:left;white-space:pre'>{}</td>"
        rows = ["".join(cell.format(html.escape(text)) for text in row) for row in self.rows()]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        end = f"<pre>{html.escape(str(self.failure))}</pre>" if self.failure else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{end}"
