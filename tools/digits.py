"""Compute the printed numbers of the notebooks under several numerics, and say how far they move.

    python tools/digits.py [notebook ...]

A processor without wide vectors, another code path of MKL or oneDNN, or more threads add the same
numbers in another order. Here each notebook runs once under each of them. Every number that a cell
prints is kept with more decimals, and compared with what it is on this machine as it is. A number
that prints differently is named, and the exit status is then 1. Without arguments: all of
notebooks/.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # nbval learns what a cell rounds in the same way

from support.rounding import NOTE_IN_KERNEL, golden_numbers, is_uncompared  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NUMERICS = {
    "as it is": {},
    "ATen without vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "ATen with AVX2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "MKL and oneDNN with SSE": {"MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "two threads": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"},
}
BASELINE = next(iter(NUMERICS))

Cell = dict[str, list[Decimal]]  # each printed number, with all that was rounded to it


class Shift(NamedTuple):
    """How far one printed number moves, in units of its last printed place."""

    size: Decimal
    notebook: str
    cell: int
    printed: str

    def __str__(self) -> str:
        return f"{self.size:.4f} ({self.printed}, {self.notebook}, cell {self.cell})"


def numbers_of(path: Path, numerics: dict[str, str]) -> dict[int, Cell]:
    """Run a notebook under these numerics; return what each compared cell rounds."""
    notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    found: dict[int, Cell] = {}
    with tempfile.TemporaryDirectory(prefix="digits-") as folder:
        notes = Path(folder) / "notes.json"

        def keep(cell: nbformat.NotebookNode, cell_index: int, **_: object) -> None:
            if cell.cell_type != "code" or not notes.is_file():
                return
            pairs = json.loads(notes.read_text(encoding="utf-8"))
            notes.unlink()
            if cell_index == 0 or is_uncompared(cell):
                return
            for printed, sharp, _draws in pairs:
                found.setdefault(cell_index, {}).setdefault(printed, []).append(Decimal(sharp))

        set_up = NOTE_IN_KERNEL.replace("NOTES", repr(str(notes)))
        notebook.cells.insert(0, nbformat.v4.new_code_cell(set_up))
        NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
            extra_arguments=["--log-level=ERROR"],
            on_cell_executed=keep,
        ).execute(env={"OMP_NUM_THREADS": "1", **os.environ, **numerics})
    return found


def shifts(name: str, before: dict[int, Cell], after: dict[int, Cell]) -> Iterator[Shift]:
    """Yield for each number that both runs print how far it has moved.

    A cell may round several numbers to the same text: each is compared with the nearest.

    >>> before = {3: {"0.12": [Decimal("0.1230"), Decimal("0.1180")]}}
    >>> [str(shift) for shift in shifts("05", before, {3: {"0.12": [Decimal("0.1181")]}})]
    ['0.0100 (0.12, 05, cell 3)']
    """
    for cell, numbers in after.items():
        for printed, sharps in numbers.items():
            unit = Decimal(1).scaleb(Decimal(printed).as_tuple().exponent)
            for sharp in sharps if printed in before.get(cell, {}) else ():
                nearest = min(abs(sharp - known) for known in before[cell][printed])
                yield Shift(nearest / unit, name, cell, printed)


def find_moved(before: dict[int, Cell], after: dict[int, Cell]) -> list[tuple[int, str]]:
    """Return the numbers that only one of two runs prints, with their cells.

    >>> find_moved({3: {"0.12": [], "0.5": []}}, {3: {"0.13": [], "0.5": []}})
    [(3, '0.12'), (3, '0.13')]
    """
    cells = sorted(before.keys() | after.keys())
    return [
        (cell, printed)
        for cell in cells
        for printed in sorted(before.get(cell, {}).keys() ^ after.get(cell, {}).keys())
        if printed.lstrip("-") not in golden_numbers()
    ]


def main(arguments: list[str]) -> int:
    """Compare, and print a line for each numerics."""
    paths = [Path(argument) for argument in arguments] or NOTEBOOKS
    largest: dict[str, list[Shift]] = {name: [] for name in NUMERICS}
    counts, differs = dict.fromkeys(NUMERICS, 0), False
    for path in paths:
        before = numbers_of(path, NUMERICS[BASELINE])
        for name, numerics in NUMERICS.items():
            after = numbers_of(path, numerics)
            found = list(shifts(path.name[:2], before, after))
            counts[name] += len(found)
            largest[name] += sorted(found)[-1:]
            for cell, printed in find_moved(before, after):
                differs = True
                print(f"{path.name}, cell {cell}: {printed} only once, with {name}", flush=True)
    for name, found in largest.items():
        shown = max(found) if found else "no number"
        print(f"{name}: {counts[name]} numbers, the largest shift {shown}")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
