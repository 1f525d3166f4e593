"""A table of which faults show at which test input, and which of them an answer rules out."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field

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
        rows = [[name, *cells.values()] for name, cells in self.answers.items()]
        for part, cells in self.shows.items():
            note = [f"(ruled out by {self.ruled_out[part]})"] if part in self.ruled_out else []
            rows.append([part, *(SHOWN[kind] for kind in cells.values()), *note])
        lines = [["", *next(iter(self.shows.values()))], *rows]
        return "\n".join("".join(f"{cell:18}" for cell in line).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        inputs = "".join(f"<th scope='col'>{name}</th>" for name in next(iter(self.shows.values())))
        rows = [_row(html.escape(name), cells, "") for name, cells in self.answers.items()]
        for part, cells in self.shows.items():
            ruled_by = self.ruled_out.get(part, "")
            said = {name: SHOWN[kind] for name, kind in cells.items()}
            rows.append(_row(f"<s>{part}</s>" if ruled_by else part, said, ruled_by))
        return f"<table><thead><tr><td></td>{inputs}</tr></thead>{''.join(rows)}</table>"


def _row(name: str, cells: Mapping[str, str], bold: str) -> str:
    row = "".join(
        f"<td><b>[{cell}]</b></td>" if test_input == bold else f"<td>{cell}</td>"
        for test_input, cell in cells.items()
    )
    return f"<tr><th scope='row'>{name}</th>{row}</tr>"
