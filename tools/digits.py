"""Run the notebooks under several numerics, and name what would print differently.

    python tools/digits.py [notebook ...]

A processor without wide vectors, another code path of MKL or oneDNN, or more threads add the same
numbers in another order. Here each notebook runs once under each of them. What its cells show, as
nbval compares it, is held against what is stored: each difference is named, and the exit status is
then 1. The numbers that are shown are kept with more decimals too, so that one sees how far they
move without being printed differently. What a cell rounds and does not show is not compared, and a
numerics that is this machine's own is not run twice. Without arguments: all of notebooks/.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

import nbformat
import torch
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # nbval learns what a cell rounds in the same way

from execute_notebooks import normalize  # noqa: E402
from support.notebook_tools import DATA_URI, text_of  # noqa: E402
from support.rounding import NOTE_IN_KERNEL, is_uncompared, numbers  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}  # a thread that waits sleeps: others may work here
NUMERICS = {
    "as it is": {},
    "ATen without vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "ATen with AVX2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "MKL and oneDNN with SSE": {"MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "two threads": dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2") | PASSIVE,
}

Cell = dict[str, set[Decimal]]  # each number that is shown, with all that was rounded to it


class Run(NamedTuple):
    """What the compared cells of a notebook show, by their place, counted from 1."""

    texts: dict[int, str]
    numbers: dict[int, Cell]


class Shift(NamedTuple):
    """How far one number moves that is shown, in units of its last printed place."""

    size: Decimal
    notebook: str
    cell: int
    printed: str

    def __str__(self) -> str:
        return f"{self.size:.4f} ({self.printed}, {self.notebook}, cell {self.cell})"


def is_own(numerics: dict[str, str]) -> bool:
    """Return whether this machine computes so anyway."""
    own = {"ATEN_CPU_CAPABILITY": torch.backends.cpu.get_cpu_capability().lower()}
    return numerics == own


def shown(notebook: dict) -> dict[int, str]:
    """Return what nbval compares of a notebook, cell by cell."""
    return {
        place: "\n".join(
            DATA_URI.sub("", text_of({**output, "traceback": []})) for output in cell["outputs"]
        )
        for place, cell in enumerate(normalize(notebook)["cells"], 1)
        if cell["cell_type"] == "code" and not is_uncompared(cell)
    }


def run(path: Path, numerics: dict[str, str]) -> Run:
    """Run a notebook under these numerics. A cell that raises shows what it raises."""
    notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    noted: dict[int, list[tuple[str, str, bool]]] = {}
    with tempfile.TemporaryDirectory(prefix="digits-") as folder:
        notes = Path(folder) / "notes.json"

        def keep(cell_index: int, **_: object) -> None:
            if notes.is_file():
                noted[cell_index] = json.loads(notes.read_text(encoding="utf-8"))
                notes.unlink()

        set_up = NOTE_IN_KERNEL.replace("NOTES", repr(str(notes)))
        notebook.cells.insert(0, nbformat.v4.new_code_cell(set_up))
        NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
            coalesce_streams=True,
            allow_errors=True,
            store_widget_state=False,
            extra_arguments=["--log-level=ERROR"],
            on_cell_executed=keep,
        ).execute(env={"OMP_NUM_THREADS": "1", **os.environ, **numerics})
    del notebook.cells[0]
    texts = shown(json.loads(nbformat.writes(notebook)))
    found: dict[int, Cell] = {}
    earlier: Cell = {}  # a text may be made in one cell and shown in another
    for place, cell in enumerate(notebook.cells, 1):
        here: Cell = {}
        for printed, sharp, _draws in noted.get(place, []):
            here.setdefault(printed, set()).add(Decimal(sharp))
            if "." in printed:  # a whole number is a count, more likely
                earlier.setdefault(printed, set()).add(Decimal(sharp))
        known = earlier | here
        for printed in set(numbers(cell)) & known.keys() if place in texts else ():
            found.setdefault(place, {})[printed] = known[printed]
    return Run(texts, found)


def shifts(name: str, before: dict[int, Cell], after: dict[int, Cell]) -> Iterator[Shift]:
    """Yield for each number that both runs show how far it has moved.

    A cell may round several numbers to the same text: each is compared with the nearest.

    >>> before = {3: {"0.12": {Decimal("0.1230"), Decimal("0.1180")}}}
    >>> [str(shift) for shift in shifts("05", before, {3: {"0.12": {Decimal("0.1181")}}})]
    ['0.0100 (0.12, 05, cell 3)']
    """
    for cell, found in after.items():
        for printed, sharps in found.items():
            unit = Decimal(1).scaleb(Decimal(printed).as_tuple().exponent)
            for sharp in sharps if printed in before.get(cell, {}) else ():
                nearest = min(abs(sharp - known) for known in before[cell][printed])
                yield Shift(nearest / unit, name, cell, printed)


def find_moved(before: str, after: str) -> list[str]:
    """Return the words that differ between two texts.

    >>> find_moved("loss 0.12 of 3", "loss 0.13 of 3")
    ['0.12 became 0.13']
    >>> find_moved("the same 1", "the same 1")
    []
    """
    old, new = before.split(), after.split()
    return [
        f"{' '.join(old[i:j]) or 'nothing'} became {' '.join(new[k:m]) or 'nothing'}"
        for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if kind != "equal"
    ] or ["other spaces"] * (before != after)


def main(arguments: list[str]) -> int:
    """Compare, and print a line for each numerics."""
    paths = [Path(argument) for argument in arguments] or NOTEBOOKS
    tried = {name: numerics for name, numerics in NUMERICS.items() if not is_own(numerics)}
    largest: dict[str, list[Shift]] = {name: [] for name in tried}
    counts, differs = dict.fromkeys(tried, 0), False
    for path in paths:
        stored = shown(json.loads(path.read_text(encoding="utf-8")))
        runs: list[Run] = []
        for name, numerics in tried.items():
            runs.append(run(path, numerics))
            found = list(shifts(path.name[:2], runs[0].numbers, runs[-1].numbers))
            counts[name] += len(found)
            largest[name] += sorted(found)[-1:]
            for cell, text in runs[-1].texts.items():
                for moved in find_moved(stored[cell], text):
                    differs = True
                    print(f"{path.name}, cell {cell}: {moved}, {name}", flush=True)
    for name in NUMERICS:
        if name in tried:
            shift = max(largest[name], default="no number")
            print(f"{name}: {counts[name]} numbers, the largest shift {shift}")
        else:
            print(f"{name}: this machine's own")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
