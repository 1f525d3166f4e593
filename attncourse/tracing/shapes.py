"""A trace as a table that begins with the shape, folded where it is long."""

from __future__ import annotations

import html
from typing import NamedTuple

from attncourse.tracing.table import Trace

HEADINGS = ("shape", "tensor", "function", "statement")


class ShapeTable(NamedTuple):
    """The rows of a trace, the shape first; in a notebook under a line that unfolds them."""

    rows: tuple[tuple[str, ...], ...]
    summary: str

    def __repr__(self) -> str:
        rows = [HEADINGS, *self.rows]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        cell = "<td style='text-align:left;white-space:nowrap'><code>{}</code></td>"
        body = "".join(
            f"<tr>{''.join(cell.format(html.escape(text)) for text in row)}</tr>"
            for row in self.rows
        )
        head = "".join(f"<th style='text-align:left'>{heading}</th>" for heading in HEADINGS)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<details><summary>{html.escape(self.summary)}</summary>{table}</details>"


def shape_table(traced: Trace, summary: str = "") -> ShapeTable:
    """Return the steps of a trace as a table of shapes.

    Args:
        traced: from trace(module, x).
        summary: the line that unfolds the table. Empty: how many rows it has.

    >>> from torch import nn, ones
    >>> from attncourse.tracing.tracer import trace
    >>> shape_table(trace(nn.ReLU(), ones(2, 3))).rows[0][:2]
    ('(2, 3)', 'input')
    """
    rows = tuple(
        (str(step.shape), step.name, step.function.rpartition(".")[2], step.source)
        for step in traced.steps
    )
    return ShapeTable(rows, summary or f"The shape after each of {len(rows)} steps")
