"""Write the course as a website that needs no Python and no network: build/book/index.html.

    python tools/book.py [folder]

The notebooks are shown as they are stored; nothing is run but the panels, whose states are drawn
ahead. The sliders are those of the notebooks, by the same module.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sphinx.cmd.build import build_main

from sliders_page import LOOKS, MODULE, MOUNT, ROOT, panels_of, section
from working_copy import read

SOURCE = ROOT / "build" / "book-source"
DOCTREES = ROOT / "build" / "book-doctrees"
BOOK = ROOT / "build" / "book"
# inline: a browser loads no module by file://
FRONT_END = (
    f"<style>{LOOKS.read_text('utf-8')}</style>\n"
    f'<script type="module">{MODULE.read_text("utf-8")}{MOUNT}</script>'
)


def with_live_panels(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook whose sliders move in a page: their output is the panel with its states."""
    shown: dict[int, list[str]] = {}
    for place, panel in panels_of(notebook):
        shown.setdefault(place, []).append(section(panel))
    for place, sections in shown.items():
        cell = notebook["cells"][place - 1]
        printed = [output for output in cell["outputs"] if output["output_type"] == "stream"]
        once = [FRONT_END] if place == max(shown) else []
        data = {"text/html": "\n".join([*sections, *once])}
        live = {"output_type": "display_data", "data": data, "metadata": {}}
        cell["outputs"] = [*printed, live]
    return notebook


def put_together(source: Path) -> None:
    """Write into a folder what Sphinx reads: settings, start page, notebooks, images, docs."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "book", source)
    shutil.copytree(ROOT / "docs", source / "docs")
    shutil.copytree(ROOT / "images", source / "images")
    (source / "notebooks").mkdir()
    for path in sorted((ROOT / "notebooks").glob("0[1-9]_*.ipynb")):
        text = json.dumps(with_live_panels(read(path)), ensure_ascii=False)
        (source / "notebooks" / path.name).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Write the book; what Sphinx warns of is an error."""
    book = Path(arguments[0]) if arguments else BOOK
    put_together(SOURCE)
    shutil.rmtree(book, ignore_errors=True)
    return build_main(
        ["-b", "html", "-W", "--keep-going", "-q", "-d", str(DOCTREES), str(SOURCE), str(book)]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
