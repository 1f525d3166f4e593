"""Where the notebooks of the course are: beside the package in a checkout, in it when installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from attncourse.classroom.exercises import Notebook

HERE = Path(__file__).resolve().parent
INSTALLED, CHECKOUT = HERE / "course", HERE.parents[1]


def course() -> Path:
    """Return the folder that holds the folders notebooks and images.

    Raises:
        FileNotFoundError: the package was installed without its notebooks.
    """
    for folder in (INSTALLED, CHECKOUT):
        if (folder / "notebooks").is_dir() and (folder / "images").is_dir():
            return folder
    raise FileNotFoundError(
        f"no notebooks in {INSTALLED} nor in {CHECKOUT}: install attnlib from its wheel or a clone"
    )


def lessons() -> list[Path]:
    """Return the notebooks of the course, in their order: the lessons, then the appendices."""
    return sorted((course() / "notebooks").glob("[0-9a][0-9]_*.ipynb"))


def read_notebook(path: Path) -> Notebook:
    """Read a notebook.

    Raises:
        ValueError: the file is no notebook of format 4; the message says what it is instead.
    """
    try:
        notebook: Notebook = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path.name} is not a notebook, which is JSON: {error}") from error
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise ValueError(f"{path.name} is JSON but not a notebook of format 4: it has no cells")
    return notebook


def write_notebook(notebook: Notebook, path: Path) -> None:
    """Write a notebook, as Jupyter does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")


def copy_course(folder: Path) -> list[str]:
    """Copy notebooks and images into a folder; files that are there already stay as they are.

    Returns:
        The names of the notebooks that were there already.
    """
    kept = []
    for name in ("notebooks", "images"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for image in (course() / "images").glob("*.png"):
        shutil.copy2(image, folder / "images" / image.name)
    for lesson in lessons():
        mine = folder / "notebooks" / lesson.name
        if mine.exists():
            kept.append(lesson.name)
        else:
            shutil.copy2(lesson, mine)
    return kept
