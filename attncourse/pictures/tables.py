"""Two tables in HTML: shapes line by line, and which faults show at which test input."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from attncourse.pictures.palette import HEAD_COLORS, QUIET, hex_color, text_color, tint

# of sizes, the smallest first
SIZE_COLORS = (hex_color(QUIET), *(tint(HEAD_COLORS[hue], 0.45) for hue in (3, 4, 5, 2, 6)))


class TracedTensor(Protocol):
    """A tensor that a line made: a step of a trace."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def source(self) -> str: ...
    @property
    def values(self) -> Tensor: ...


@dataclass(frozen=True, repr=False)
class ShapeTable:
    """The shape of the tensor that each line made, each size in a color of its own.

    Args:
        steps: of a trace, such as trace(module, x).steps.
        meanings: what each size is, the legend; sizes that are not in it have no color.
        stopped: the line that raised, and why, if one did.
        followed: a number; where a tensor has it, its index stands at the end of the row.
    """

    steps: Sequence[TracedTensor]
    meanings: Mapping[int, str]
    stopped: str = ""
    followed: int | None = None

    def __repr__(self) -> str:
        steps = [f"{step.name} {step.shape}  {self._index(step)}".strip() for step in self.steps]
        return "\n".join([*steps, *self.stopped.splitlines()])

    def _repr_html_(self) -> str:
        legend = ", ".join(f"{self._size(n)} {self.meanings[n]}" for n in sorted(self.meanings))
        left = "style='text-align:left'"
        rows = "".join(
            f"<tr><td {left}>{' '.join(map(self._size, step.shape))}</td>"
            f"<td {left}><code>{html.escape(step.source)}</code></td>"
            f"<td>{self._index(step)}</td></tr>"
            for step in self.steps
        )
        names = f"<tr><th {left}>shape</th><th {left}>made by</th><th>index</th></tr>"
        stopped = html.escape(self.stopped).replace("\n", "<br>")
        table = f"<p>{legend}</p><table><thead>{names}</thead>{rows}</table>"
        return f"{table}<p>{stopped}</p>" if stopped else table

    def _size(self, size: int) -> str:
        """Return a size of a shape in its color."""
        place = [*sorted(self.meanings), size].index(size)
        if place == len(self.meanings):
            return f"<b>{size}</b>"
        fill = SIZE_COLORS[place % len(SIZE_COLORS)]
        style = f"background:{fill};color:{hex_color(text_color(fill))};padding:0 .6em"
        return f"<b style='{style}'>{size}</b>"

    def _index(self, step: TracedTensor) -> str:
        """Return the index of the followed number, nothing where a tensor lacks it."""
        if self.followed is None or not step.values.is_floating_point():
            return ""
        found = (step.values.round() == self.followed).nonzero().tolist()
        return f"{self.followed} at {found[0]}" if found else ""


SHOWN = {
    "always show": "● always",
    "sometimes show": "◐ sometimes",
    "show as NaN only": "NaN",
    "never show": "– never",
}
Rows = Mapping[str, Mapping[str, str]]  # by row, by test input, what is in the cell


@dataclass(frozen=True)
class FaultTable:
    """How the faults of each part of a class show at each test input.

    Args:
        shows: by part and test input, one of SHOWN.
        answers: by name of a class, what each test input finds: right, wrong or NaN. They stand
            above the parts.
        ruled_out: the parts that the answers rule out, each with a test input that does. Their
            names are struck through, and the cell that rules them out is bold.
    """

    shows: Rows
    answers: Rows = field(default_factory=dict)
    ruled_out: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        inputs = next(iter(self.shows.values()))
        return f"<FaultTable of {len(self.shows)} parts at {len(inputs)} test inputs>"

    def _repr_html_(self) -> str:
        inputs = "".join(f"<th scope='col'>{name}</th>" for name in next(iter(self.shows.values())))
        rows = [_row(html.escape(name), cells, "") for name, cells in self.answers.items()]
        for part, cells in self.shows.items():
            ruled_by = self.ruled_out.get(part, "")
            said = {name: SHOWN[kind] for name, kind in cells.items()}
            rows.append(_row(f"<s>{part}</s>" if ruled_by else part, said, ruled_by))
        return f"<table><thead><tr><td></td>{inputs}</tr></thead>{''.join(rows)}</table>"


def _row(name: str, cells: Mapping[str, str], bold: str) -> str:
    shown = [f"<b>[{said}]</b>" if column == bold else said for column, said in cells.items()]
    return f"<tr><th scope='row'>{name}</th><td>{'</td><td>'.join(shown)}</td></tr>"
