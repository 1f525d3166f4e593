"""Execute notebooks in place and store them in one fixed form.

    python tools/execute_notebooks.py [notebook ...]

A notebook is written only if every cell ran, nothing came on stderr, and no cell raised except
those tagged `raises-exception`. Without arguments: all of notebooks/.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}
WIDGET = "application/vnd.jupyter.widget-view+json"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def normalize(notebook: dict) -> dict:
    """Return the notebook without anything that differs between two runs of the same cells."""
    taken: set[str] = set()
    return {
        "cells": [_cell(cell, taken) for cell in notebook["cells"]],
        "metadata": METADATA,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def to_text(notebook: dict) -> str:
    """Return the one text a notebook is stored as."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def execute(path: Path) -> None:
    """Run one notebook from top to bottom and store it, or raise with the cell that is at fault."""
    stored = normalize(json.loads(path.read_text(encoding="utf-8")))
    notebook = nbformat.reads(to_text(stored), as_version=4)
    NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        coalesce_streams=True,
        record_timing=False,
        store_widget_state=False,
        extra_arguments=["--log-level=ERROR"],  # not that its port is local and plain
    ).execute()
    for number, cell in enumerate(notebook.cells, start=1):
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise ValueError(f"cell {number} writes to stderr: {output['text'].strip()}")
    text = to_text(normalize(json.loads(nbformat.writes(notebook))))
    path.write_text(text, encoding="utf-8", newline="\n")


def _cell(cell: dict, taken: set[str]) -> dict:
    """Keep a cell's kind, id, tags, source and outputs."""
    source = _lines(cell["source"])
    tags = cell["metadata"].get("tags")
    kept = {
        "cell_type": cell["cell_type"],
        "id": _cell_id(cell, source, taken),
        "metadata": {"tags": tags} if tags else {},
        "source": source,
    }
    if "attachments" in cell:
        kept["attachments"] = cell["attachments"]
    if cell["cell_type"] == "code":
        kept["execution_count"] = cell.get("execution_count")
        kept["outputs"] = [_output(o) for o in cell.get("outputs", []) if not _is_blank(o)]
    return kept


def _cell_id(cell: dict, source: list[str], taken: set[str]) -> str:
    """Keep a cell's id; a cell without one gets the hash of its first text."""
    start = cell.get("id") or hashlib.sha256("".join(source).encode()).hexdigest()[:8]
    cell_id, copies = start, 1
    while cell_id in taken:
        copies += 1
        cell_id = f"{start}-{copies}"
    taken.add(cell_id)
    return cell_id


def _is_blank(output: dict) -> bool:
    """Whether nothing of an output can be seen: a line of progress that wiped itself away."""
    return output["output_type"] == "stream" and not "".join(output["text"]).strip()


def _output(output: dict) -> dict:
    """Drop what a page cannot show without its kernel: live views, frames of library files."""
    kept = dict(output)
    if "data" in kept:
        kept["data"] = {
            kind: data if kind.endswith("json") else _lines(data)
            for kind, data in kept["data"].items()
            if kind != WIDGET
        }
    if "text" in kept:
        kept["text"] = _lines(kept["text"])
    if "traceback" in kept:
        frames = [ANSI.sub("", frame) for frame in kept["traceback"]]
        kept["traceback"] = [frame for frame in frames if not frame.startswith("File ")]
    return kept


def _lines(text: str | list[str]) -> list[str]:
    return "".join(text).splitlines(keepends=True)


def main(arguments: list[str]) -> int:
    """Execute the named notebooks, or all; return how many could not be stored."""
    paths = [Path(argument) for argument in arguments] or sorted(NOTEBOOKS.glob("*.ipynb"))
    failures = 0 if paths else 1
    for path in paths:
        try:
            execute(path)
        except (CellExecutionError, ValueError) as error:
            print(f"{path.name}: NOT stored. {error}", file=sys.stderr)
            failures += 1
        else:
            print(f"{path.name}: stored")
    return failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
