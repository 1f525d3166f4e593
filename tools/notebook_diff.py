"""Show what has changed in a notebook, cell by cell: what `git diff` calls once `make dev` has run.

    git diff notebooks
    git show --ext-diff HEAD -- notebooks/01_causal_attention.ipynb

Of a picture only its alt text is shown, and whether it is another one; ids and counts are left out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys

import nbformat
from nbdime import diff_notebooks
from nbdime.prettyprint import PrettyPrintConfig, pretty_print_notebook_diff

BYTES = re.compile(r"[A-Za-z0-9+/=]{200,}")  # as base64


def readable(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a notebook with a short fingerprint for the bytes of each picture."""
    text = BYTES.sub(
        lambda found: f"picture {hashlib.sha256(found[0].encode()).hexdigest()[:8]}",
        json.dumps(notebook),
    )
    notebook = nbformat.from_dict(json.loads(text))
    for cell in notebook.cells:
        cell.pop("id", None)
        for part in (cell, *cell.get("outputs", [])):
            if "execution_count" in part:
                part["execution_count"] = None
    return notebook


def read(path: str) -> nbformat.NotebookNode:
    """Return a notebook; where git has none, an empty one."""
    if path == os.devnull:
        return nbformat.v4.new_notebook()
    return readable(nbformat.read(path, as_version=4))


def main(path: str, old: str, new: str) -> None:
    """Print the difference of two files, under the name that they have in the repository."""
    before, after = read(old), read(new)
    print(f"diff {path}")
    config = PrettyPrintConfig(out=sys.stdout, use_color=sys.stdout.isatty())
    pretty_print_notebook_diff(path, path, before, diff_notebooks(before, after), config)


if __name__ == "__main__":  # git gives: path, old file, its hash, its mode, the same of the new
    main(sys.argv[1], sys.argv[2], sys.argv[5])
