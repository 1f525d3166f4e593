"""Run the notebooks under several numerics, and name what would print differently.

    python tools/digits.py [notebook ...]

A processor without wide vectors, another code path of MKL or oneDNN, or more threads add the same
numbers in another order. Here each notebook runs once under each of them. What its cells show, as
nbval compares it, is compared with what is stored: each difference is printed, and the exit status
is then 1. Without arguments: all of notebooks/.
"""

from __future__ import annotations

import json
import os
import sys
from difflib import SequenceMatcher
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # what nbval compares is known to the tests

from execute_notebooks import normalize  # noqa: E402
from support.notebook_tools import DATA_URI, source, tags, text_of  # noqa: E402

NUMERICS = {
    "ATen without vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "ATen with AVX2": {"ATEN_CPU_CAPABILITY": "avx2"},
    "MKL and oneDNN with SSE": {"MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "two threads": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},
}


def is_uncompared(cell: dict) -> bool:
    """Return whether nbval ignores what a cell shows."""
    marks = ("nbval-ignore-output", "NBVAL_IGNORE_OUTPUT")
    return any(mark in tags(cell) or f"# {mark}" in source(cell) for mark in marks)


def shown(notebook: dict) -> dict[int, str]:
    """Return what nbval compares of a notebook, by the place of the cell, counted from 1."""
    return {
        place: "\n".join(
            DATA_URI.sub("", text_of({**output, "traceback": []})) for output in cell["outputs"]
        )
        for place, cell in enumerate(normalize(notebook)["cells"], 1)
        if cell["cell_type"] == "code" and not is_uncompared(cell)
    }


def run(path: Path, numerics: dict[str, str]) -> dict[int, str]:
    """Run a notebook under these numerics. A cell that raises shows what it raises."""
    notebook = nbformat.read(path, as_version=4)
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


def changed_words(before: str, after: str) -> list[str]:
    """Return the words that differ between two texts.

    >>> changed_words("loss 0.12 of 3", "loss 0.13 of 3")
    ['0.12 became 0.13']
    """
    old, new = before.split(), after.split()
    return [
        f"{' '.join(old[i:j]) or 'nothing'} became {' '.join(new[k:m]) or 'nothing'}"
        for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def main(arguments: list[str]) -> int:
    """Print a line for each word that differs; return 1 if there is one."""
    paths = [Path(argument) for argument in arguments] or sorted(ROOT.glob("notebooks/*.ipynb"))
    differs = False
    for path in paths:
        stored = shown(json.loads(path.read_text(encoding="utf-8")))
        for name, numerics in NUMERICS.items():
            for cell, text in run(path, numerics).items():
                for changed in changed_words(stored[cell], text):
                    differs = True
                    print(f"{path.name}, cell {cell}: {changed}, {name}", flush=True)
    print("Some words differ." if differs else "Nothing differs.")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
