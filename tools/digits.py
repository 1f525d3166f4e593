"""Run the notebooks under several numerics, and name what would print differently.

    python tools/digits.py [notebook ...]

A processor without wide vectors, another code path of MKL or oneDNN, or more threads add the same
numbers in another order. Each notebook runs once under each of them. What its cells show, as nbval
compares it, is compared with what is stored: each difference is named, and the exit status is then
1. Numerics that are this machine's own are not run. Without arguments: all of notebooks/.
"""

from __future__ import annotations

import json
import os
import sys
from difflib import SequenceMatcher
from pathlib import Path

import nbformat
import torch
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from execute_notebooks import normalize  # noqa: E402
from support.notebook_tools import DATA_URI, source, tags, text_of  # noqa: E402

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
UNCOMPARED = ("nbval-ignore-output", "NBVAL_IGNORE_OUTPUT")
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}  # a thread that waits sleeps: others may work here
NUMERICS = {
    "as it is": {},
    "ATen without vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "ATen with AVX2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "MKL and oneDNN with SSE": {"MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "two threads": dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2") | PASSIVE,
}


def is_own(numerics: dict[str, str]) -> bool:
    """Return whether this machine computes so anyway."""
    own = {"ATEN_CPU_CAPABILITY": torch.backends.cpu.get_cpu_capability().lower()}
    return numerics == own


def is_compared(cell: dict) -> bool:
    """Return whether nbval compares what a cell shows."""
    return not any(mark in tags(cell) or f"# {mark}" in source(cell) for mark in UNCOMPARED)


def shown(notebook: dict) -> dict[int, str]:
    """Return what nbval compares of a notebook, cell by cell."""
    return {
        place: "\n".join(
            DATA_URI.sub("", text_of({**output, "traceback": []})) for output in cell["outputs"]
        )
        for place, cell in enumerate(normalize(notebook)["cells"], 1)
        if cell["cell_type"] == "code" and is_compared(cell)
    }


def run(path: Path, numerics: dict[str, str]) -> dict[int, str]:
    """Run a notebook under these numerics. A cell that raises shows what it raises."""
    notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        coalesce_streams=True,
        allow_errors=True,
        store_widget_state=False,
        extra_arguments=["--log-level=ERROR"],
    ).execute(env={"OMP_NUM_THREADS": "1", **os.environ, **numerics})
    return shown(json.loads(nbformat.writes(notebook)))


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
    """Compare, and print a line for each difference."""
    paths = [Path(argument) for argument in arguments] or NOTEBOOKS
    differs = False
    for path in paths:
        stored = shown(json.loads(path.read_text(encoding="utf-8")))
        for name, numerics in NUMERICS.items():
            if is_own(numerics):
                continue
            for cell, text in run(path, numerics).items():
                for moved in find_moved(stored[cell], text):
                    differs = True
                    print(f"{path.name}, cell {cell}: {moved}, {name}", flush=True)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
