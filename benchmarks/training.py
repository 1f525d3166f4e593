"""How much longer the training cells of the notebooks take beside two busy processes.

    python benchmarks/training.py [--rounds 1] [notebook ...]

Each notebook runs in a kernel of its own up to its last training cell: alone, then beside two
processes that only count. No variable of the environment sets the number of threads, since none
does for a reader. On two cores three processes that want one each get two thirds of it: so 1.5
times as long is the goal, and the least that is possible there.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median
from subprocess import Popen

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
TRAINS = re.compile(r"(?<!def )\btrain\(")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
BUSY = 2  # processes
MOST = 1.5  # times as long: the goal
SLACK = 0.1  # of it: what a clock may be off


def training_cells(notebook: nbformat.NotebookNode) -> list[int]:
    """Return the places of the cells that train a model, not of those that only say how.

    >>> cells = ["def train(x): ...", "model = train(1)"]
    >>> made = [nbformat.v4.new_code_cell(cell) for cell in cells]
    >>> training_cells(nbformat.v4.new_notebook(cells=made))
    [1]
    """
    return [
        i
        for i, cell in enumerate(notebook.cells)
        if cell.cell_type == "code" and TRAINS.search(cell.source)
    ]


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes counting."""
    running = [Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def seconds(path: Path) -> dict[int, float]:
    """Run a notebook up to its last training cell; return how long each of these took."""
    notebook = nbformat.read(path, as_version=4)
    places = training_cells(notebook)
    notebook.cells = notebook.cells[: places[-1] + 1]
    folder = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=1800, record_timing=True, resources=folder).execute()
    taken = {}
    for place in places:
        times = notebook.cells[place].metadata.execution
        ends = (times["iopub.execute_input"], times["shell.execute_reply"])
        start, end = (datetime.fromisoformat(text.replace("Z", "+00:00")) for text in ends)
        taken[place] = (end - start).total_seconds()
    return taken


def main(arguments: list[str]) -> int:
    """Measure the notebooks, alone and beside busy processes in turns; print a line for a cell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="without any, all that train")
    parser.add_argument("--rounds", type=int, default=1)
    chosen = parser.parse_args(arguments)
    for name in THREADS:
        os.environ.pop(name, None)
    paths = chosen.notebooks or sorted(NOTEBOOKS.glob("0*.ipynb"))
    paths = [path for path in paths if training_cells(nbformat.read(path, as_version=4))]
    print(f"{'notebook':<8} {'cell':>4} {'alone':>7} {'beside':>7} {'ratio':>6}  goal: {MOST:g}")
    held = []
    for path in paths:
        alone, beside = [], []
        for _ in range(chosen.rounds):
            alone.append(seconds(path))
            with busy(BUSY):
                beside.append(seconds(path))
        for place in alone[0]:
            one, two = (median(taken[place] for taken in runs) for runs in (alone, beside))
            held.append(two / one <= MOST * (1 + SLACK))
            told = "holds" if held[-1] else "does not hold"
            row = (
                f"{path.stem[:2]:<8} {place:>4} {one:>6.1f}s {two:>6.1f}s {two / one:>6.2f}  {told}"
            )
            print(row, flush=True)
    print(f"holds for {sum(held)} of {len(held)} cells")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
