"""Where the notebooks of the course are: beside the package in a checkout, in it when installed."""

from __future__ import annotations

import shutil
from pathlib import Path

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
        f"no notebooks in {INSTALLED} nor in {CHECKOUT}: install attncourse from its wheel"
    )


def lessons() -> list[Path]:
    """Return the notebooks of the course, in their order: the lessons, then the appendices."""
    return sorted((course() / "notebooks").glob("[0-9a][0-9]_*.ipynb"))


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
