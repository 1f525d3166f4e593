"""A browser on a page of a few panels, and in it what a reader touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page

from attnlib.panels.panel import Panel
from sliders_page import LOOKS, MODULE, MOUNT, STYLE, section

AXE = files("axe_playwright_python") / "axe.min.js"
AUDIT = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"


def write_page(path: Path, panels: Sequence[Panel]) -> str:
    """Write a page of panels; return its address."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Panels</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}{LOOKS.read_text('utf-8')}</style></head><body><main>",
        "<h1>Panels</h1><h2>Some</h2>",
        *map(section, panels),
        f'</main><script type="module">{MODULE.read_text("utf-8")}{MOUNT}</script></body></html>',
    ]
    path.write_text("\n".join(parts), encoding="utf-8")
    return path.as_uri()


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """Open a page in a window of its own; the errors that it logs fail the test."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda line: line.type == "error" and complaints.append(line.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    yield page
    context.close()
    assert not complaints


def violations(page: Page) -> list[str]:
    """Return what axe-core finds against accessibility, a line for each rule and element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    return [
        f"{found['id']}: {node['target']} {node['failureSummary']}"
        for found in page.evaluate(AUDIT)
        for node in found["nodes"]
    ]


def box_of(page: Page, panel: Panel) -> Locator:
    """Return a panel as a screen reader finds it."""
    return page.get_by_role("group", name=panel.name, exact=True)
