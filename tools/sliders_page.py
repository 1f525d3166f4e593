"""Write the sliders of all notebooks into one HTML page that needs no Python and no network.

    python tools/sliders_page.py [page.html]

Every state of every panel is computed by attnlib and drawn ahead; the page shows them by the module
that shows them in a notebook. Without arguments: build/sliders.html.
"""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from attnlib.panels.panel import Panel

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("0[1-9]_*.ipynb"))
PAGE = ROOT / "build" / "sliders.html"
PANEL_BOX = re.compile(r"\bPanelBox\(([A-Z]\w*)\)")
IMPORT = re.compile(r"^from (attnlib[.\w]*) import (.+)", re.MULTILINE)
MODULE, LOOKS = (ROOT / "attnlib" / "panels" / f"panel.{kind}" for kind in ("js", "css"))

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 64rem; padding: 1rem; }
section { margin-top: 3rem; }
"""
MOUNT = """
for (const sheet of document.querySelectorAll('script[type="application/json"]'))
    mount(sheet.previousElementSibling, JSON.parse(sheet.textContent));
"""


def panels_of(notebook: Mapping[str, Any]) -> list[tuple[int, Panel]]:
    """Return the panels that a notebook shows, each with the place of its cell, from 1."""
    cells = [
        (i, "".join(cell["source"]))
        for i, cell in enumerate(notebook["cells"], start=1)
        if cell["cell_type"] == "code"
    ]
    imported = {
        name: module
        for _, text in cells
        for module, names in IMPORT.findall(text)
        for name in names.split(", ")
    }
    shown = [(i, name) for i, text in cells for name in PANEL_BOX.findall(text)]
    return [(i, getattr(import_module(imported[name]), name)) for i, name in shown]


def section(panel: Panel) -> str:
    """Return a panel as HTML: the page at the start, and all that replaces it as JSON."""
    start = panel.page(panel.default)
    return (
        f"<h3>{html.escape(panel.name)}</h3>\n"
        f'<div class="attn-panel"><p>{html.escape(start["line"])}</p>'
        f'<div class="attn-sheet">{start["picture"]}</div></div>\n'
        f'<script type="application/json">{in_script(panel.sheet())}</script>'
    )


def in_script(data: object) -> str:
    """Return data as JSON that ends no script element and begins no comment in one."""
    return json.dumps(data, ensure_ascii=False).replace("</", "<\\/").replace("<!", "<\\u0021")


def heading(notebook: Mapping[str, Any]) -> str:
    """Return the title of a notebook as HTML."""
    title = "".join(notebook["cells"][0]["source"]).splitlines()[0].removeprefix("# ")
    return re.sub("`(.+?)`", r"<code>\1</code>", html.escape(title))


def page(notebooks: Sequence[Mapping[str, Any]]) -> str:
    """Return the whole page, a section for each notebook."""
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>Multi-head causal attention: the sliders</title>",
        f"<style>{STYLE}{LOOKS.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n<main>",
        "<h1>Multi-head causal attention: the sliders</h1>",
        "<p>attnlib computed and drew every picture. Drag a slider, or use the arrow keys. "
        "The notebooks say what the pictures mean.</p>",
        "<noscript><p>Without JavaScript each panel stays as it is at the start.</p></noscript>",
    ]
    for notebook in notebooks:
        parts += [f"<section>\n<h2>{heading(notebook)}</h2>"]
        parts += [section(panel) for _, panel in panels_of(notebook)]
        parts += ["</section>"]
    script = f'<script type="module">{MODULE.read_text(encoding="utf-8")}{MOUNT}</script>'
    return "\n".join([*parts, "</main>", script, "</body>\n</html>\n"])


def main(arguments: Sequence[str]) -> None:
    """Write the page."""
    path = Path(arguments[0]) if arguments else PAGE
    path.parent.mkdir(parents=True, exist_ok=True)
    text = page([json.loads(path.read_text(encoding="utf-8")) for path in NOTEBOOKS])
    path.write_text(text, encoding="utf-8", newline="\n")
    print(f"{path}: {len(text) / 1e6:.1f} MB, open it in a browser")


if __name__ == "__main__":
    main(sys.argv[1:])
