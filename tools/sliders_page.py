"""Write the sliders of all notebooks into one HTML page that needs no Python and no network.

    python tools/sliders_page.py [page.html]

Every state of every panel is computed by attnlib and drawn ahead; the page only chooses which of
them to show. Without arguments: build/sliders.html.
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

from attnlib.panels.panel import Panel, spelled

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGE = ROOT / "build" / "sliders.html"
PANEL_BOX = re.compile(r"\bPanelBox\((\w+)\)")
IMPORT = re.compile(r"^from (attnlib[.\w]*) import (.+)", re.MULTILINE)

STYLE = """
body { font-family: system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
section, .attnlib-panel { margin-bottom: 3rem; }
label { display: inline-block; margin: 0 1.5rem 0.5rem 0; }
input { vertical-align: middle; width: 16rem; }
.attnlib-readout { margin-bottom: 0.5rem; }
"""
SCRIPT = """
for (const panel of document.querySelectorAll(".attnlib-panel")) {
    const pages = panel.querySelectorAll("template");
    const sliders = [...panel.querySelectorAll("input")];
    const turn = () => {
        const place = (sum, slider) => sum * (1 + Number(slider.max)) + Number(slider.value);
        const page = pages[sliders.reduce(place, 0)].content.cloneNode(true);
        panel.querySelector(".attnlib-page").replaceChildren(page);
        for (const slider of sliders) {
            const word = JSON.parse(slider.dataset.words)[slider.value];
            slider.setAttribute("aria-valuetext", word);
            slider.parentElement.querySelector("output").textContent = word;
        }
    };
    panel.addEventListener("input", turn);
    turn();
}
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


def slider(name: str, values: Sequence[Any], default: Any) -> str:
    """Return a control of a panel as HTML."""
    words = html.escape(json.dumps([spelled(value) for value in values]))
    start = values.index(default)
    return (
        f'<label>{html.escape(name)} <input type="range" aria-label="{html.escape(name)}" '
        f'min="0" max="{len(values) - 1}" value="{start}" autocomplete="off" '
        f'data-words="{words}"> '
        f"<output>{html.escape(spelled(default))}</output></label>"
    )


def section(panel: Panel) -> str:
    """Return a panel as HTML: its sliders, the page at the start, and a template of every page."""
    sliders = [slider(name, values, panel.default[name]) for name, values in panel.controls.items()]
    pages = [f"<template>{panel.page(state)}</template>" for state in panel.states()]
    start = f'<div class="attnlib-page">{panel.page(panel.default)}</div>'
    return "\n".join(['<div class="attnlib-panel">', *sliders, start, *pages, "</div>"])


def page(notebooks: Sequence[Mapping[str, Any]]) -> str:
    """Return the whole page, a section for each notebook."""
    parts = [
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">',
        "<title>Multi-head causal attention: the sliders</title>",
        f"<style>{STYLE}</style>",
        "<h1>Multi-head causal attention: the sliders</h1>",
        "<p>Every picture was computed and drawn by attnlib. Drag a slider, or use the arrow keys. "
        "What the pictures mean is said in the notebooks.</p>",
    ]
    for notebook in notebooks:
        title = "".join(notebook["cells"][0]["source"]).splitlines()[0].removeprefix("# ")
        parts += [f"<section>\n<h2>{html.escape(title)}</h2>"]
        parts += [section(panel) for _, panel in panels_of(notebook)]
        parts += ["</section>"]
    return "\n".join([*parts, f"<script>{SCRIPT}</script>\n</html>\n"])


def main(arguments: Sequence[str]) -> None:
    """Write the page."""
    path = Path(arguments[0]) if arguments else PAGE
    path.parent.mkdir(parents=True, exist_ok=True)
    text = page([json.loads(path.read_text(encoding="utf-8")) for path in NOTEBOOKS])
    path.write_text(text, encoding="utf-8", newline="\n")
    print(f"{path}: {len(text) / 1e6:.1f} MB, open it in a browser")


if __name__ == "__main__":
    main(sys.argv[1:])
