"""Copy the notebooks into work/, where a reader may write into them.

    python tools/working_copy.py              # what `make lab` does before it opens JupyterLab
    python tools/working_copy.py fresh 03     # start notebook 03 over; the old one is kept aside

A notebook that the reader has changed is never overwritten. One that was only run is not changed:
what counts are the sources of its cells, not their outputs. git ignores work/.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RECORD = ".copied.json"  # in work/: the sources of each notebook when it was copied
STYLES = ROOT / "attncourse" / "panels" / "panel.css", ROOT / "book" / "lab.css"
FONTS = ROOT / "book" / "fonts"
CONFIG = "etc/jupyter"
SETTINGS = "share/jupyter/lab/settings/overrides.json"
GUESS = "**Your guess"
WIDGET_CALL = re.compile(r"\b(Panel|Sentence|Live)Widget\(")
RUN_ME = "Run this cell with Shift+Enter: something to move by hand appears here."
LANGUAGE = {  # what the kernel says of itself: JupyterLab writes it, where it is not yet there
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": platform.python_version(),
}
WIDGETS = "@jupyter-widgets/jupyterlab-manager:plugin"


def fingerprint(notebook: dict[str, Any]) -> str:
    """Return a hash of what a reader can write: the kinds and the sources of the cells."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def answer_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells that settle a guess: those tagged `answer`.

    After a *Your guess* that has none before the next one, it is the first cell with an output.
    """
    found: list[dict[str, Any]] = []
    asked: list[dict[str, Any]] | None = None  # since a guess, the cells with an output
    for cell in [*notebook["cells"], {"cell_type": "markdown", "source": GUESS}]:
        if "answer" in cell.get("metadata", {}).get("tags", ()):
            found.append(cell)
            asked = None
        elif cell["cell_type"] == "markdown" and GUESS in "".join(cell["source"]):
            found += (asked or [])[:1]
            asked = []
        elif cell.get("outputs") and asked is not None:
            asked.append(cell)
    return [cell for cell in found if not shows_widget(cell)]


def shows_widget(cell: dict[str, Any]) -> bool:
    """Return whether a cell shows something that is moved by hand."""
    return bool(WIDGET_CALL.search("".join(cell["source"])))


def without_answers(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook that tells nothing before its cells have run.

    What settles a guess has no output, and in the place of a slider, of which the stored picture
    shows several states, stands the key that brings it.
    """
    for cell in answer_cells(notebook):
        cell["outputs"] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and shows_widget(cell):
            data = {"text/plain": [RUN_ME], "text/html": [f"<blockquote>{RUN_ME}</blockquote>"]}
            cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
    return notebook


def read(path: Path) -> dict[str, Any]:
    """Read a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def update(source: Path, work: Path) -> list[str]:
    """Copy each notebook that is new, or newer than a copy that the reader has not changed.

    Args:
        source: the folder of the notebooks.
        work: the reader's folder; made if it is not there.

    Returns:
        A sentence for each notebook that was not copied although it has changed.
    """
    work.mkdir(exist_ok=True)
    record = work / RECORD
    copied = _recorded(record)
    kept = []
    for path in sorted(source.glob("*.ipynb")):
        lesson, mine = read(path), work / path.name
        now = fingerprint(lesson)
        if copied.get(path.name) == now and mine.exists():
            continue
        if mine.exists() and _sources(mine) not in (copied.get(path.name), now):
            kept.append(
                f"{path.name} has a newer version, and you have written into yours, which stays "
                f"as it is; to start over: make fresh NB={path.name[:2]}"
            )
            continue
        lesson["metadata"]["language_info"] = LANGUAGE  # opened, it has nothing to save
        mine.write_text(
            json.dumps(without_answers(lesson), indent=1, ensure_ascii=False) + "\n", "utf-8"
        )
        copied[path.name] = now
    record.write_text(json.dumps(copied, indent=1) + "\n")
    return kept


def _recorded(record: Path) -> dict[str, str]:
    """Return what was copied; a record that is missing or damaged knows of nothing."""
    try:
        copied: dict[str, str] = json.loads(record.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return copied


def _sources(path: Path) -> str:
    """Return a copy's fingerprint; a file that is no notebook any more counts as changed."""
    try:
        return fingerprint(read(path))
    except (ValueError, KeyError, TypeError):
        return "damaged"


def start_over(name: str, source: Path, work: Path) -> str:
    """Put a fresh copy in the place of the reader's, and keep that under another name.

    Args:
        name: how the notebook's name begins, such as 03.
        source: the folder of the notebooks.
        work: the reader's folder.

    Raises:
        ValueError: no notebook, or more than one, begins so.
    """
    found = sorted(source.glob(f"{Path(name).name}*"))
    if len(found) != 1 or not name:
        names = ", ".join(path.name[:2] for path in sorted(source.glob("*.ipynb")))
        raise ValueError(f"NB={name!r} names {len(found)} notebooks, not one; there are: {names}")
    (path,) = found
    mine, said = work / path.name, ""
    if mine.exists():
        stem = f"{mine.stem}.{time.strftime('%Y-%m-%d.%H%M%S')}"
        aside = mine.with_stem(stem)
        for number in count(2):
            if not aside.exists():
                break
            aside = mine.with_stem(f"{stem}.{number}")
        mine.rename(aside)
        said = f"; your old one is {aside.name}"
    update(source, work)
    return f"{path.name} is new{said}"


def save_widget_state(path: Path) -> None:
    """Let JupyterLab save what its sliders show: reopened without a kernel, they still move.

    Args:
        path: the file of settings for all users of an environment; other settings in it stay.
    """
    settings = read(path) if path.exists() else {}
    settings.setdefault(WIDGETS, {})["saveState"] = True
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def style_like_the_book(config: Path, styles: Sequence[Path] = STYLES, fonts: Path = FONTS) -> None:
    """Let JupyterLab look as the book does, its figures dark in the dark before any cell has run.

    Args:
        config: the folder of settings for all users of an environment; other settings in it stay.
        styles: the CSS that JupyterLab reads when it starts, in this order.
        fonts: the folder of the typefaces.
    """
    custom, path = config / "custom", config / "jupyter_server_config.json"
    shutil.copytree(fonts, custom, dirs_exist_ok=True)
    css = "".join(part.read_text("utf-8") for part in styles)
    (custom / "custom.css").write_text(css, encoding="utf-8")
    settings = read(path) if path.exists() else {}
    settings.setdefault("LabApp", {})["custom_css"] = True
    server = settings.setdefault("ServerApp", {}).setdefault("tornado_settings", {})
    server["static_custom_path"] = [str(custom.resolve())]
    path.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Update the reader's copies, or start one over."""
    if sys.prefix != sys.base_prefix:  # an environment of its own, as `make setup` makes one
        save_widget_state(Path(sys.prefix, SETTINGS))
        style_like_the_book(Path(sys.prefix, CONFIG))
    source, work = ROOT / "notebooks", ROOT / "work"
    if not arguments:
        for sentence in update(source, work):
            print(sentence)
        return 0
    try:
        print(start_over(arguments[1] if len(arguments) > 1 else "", source, work))
    except ValueError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
