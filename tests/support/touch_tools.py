"""A browser on a page of a few panels, and in it what a reader touches."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from attncourse.panels.states import Panel
from playwright.sync_api import Browser, Locator, Page

from book import FRONT_END, SHEET, SHEET_FILE, section
from support.cases import ALL_PANELS, sheet

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 64rem; padding: 1rem; }
"""
AXE = files("axe_playwright_python") / "axe.min.js"
BY_SIZE_AND_COLOR = ("color-contrast", "link-in-text-block", "scrollable-region-focusable")
AUDIT = """async ([unseen, rules, once]) => {
    const seen = new Set(), grounds = new Map([[null, ""]]);
    const ground = box => {  // all that may lie under a text in it, or hide it
        if (!grounds.has(box)) {
            const its = getComputedStyle(box), { backgroundColor, backgroundImage } = its;
            const looks = [backgroundColor, backgroundImage, its.opacity, its.position, its.filter];
            const off = box.matches("[disabled], [aria-disabled=true]");
            grounds.set(box, `${ground(box.parentElement)}|${looks}|${off}`);
        }
        return grounds.get(box);
    };
    for (const text of once ? document.body.querySelectorAll("*") : []) {
        if (!text.matches("input, select") && ![...text.childNodes].some(
            node => node.nodeType === Node.TEXT_NODE && node.data.trim())) continue;
        const { color, fontSize, fontWeight, textShadow } = getComputedStyle(text);
        const { right, width, height } = text.getBoundingClientRect();
        const shown = [text.checkVisibility(), right > 0, width > 1, height > 1];
        const off = text.closest("label")?.control?.disabled;
        const kind = [ground(text), color, fontSize, fontWeight, textShadow, shown, off].join();
        if (!seen.has(kind)) text.dataset.kind = seen.size;
        seen.add(kind);
    }
    const selector = once ? "[data-kind]" : "*";
    axe.configure({ rules: [{ id: "color-contrast", selector }] });
    const { violations } = await axe.run(
        { include: [["html"]], exclude: unseen.map(selector => [selector]) },
        { resultTypes: ["violations"], preload: false, ...(rules.length && { runOnly: rules }) },
    );
    for (const text of document.querySelectorAll("[data-kind]")) delete text.dataset.kind;
    return violations;
}"""


def write_page(path: Path, panels: Sequence[Panel]) -> str:
    """Write a page of panels; return its address."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Panels</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head><body><main>",
        "<h1>Panels</h1><h2>Some</h2>",
        *(SHEET.sub(in_place, section(panel, sheet_of(panel))) for panel in panels),
        f"</main>{FRONT_END}</body></html>",
    ]
    path.write_text("\n".join(parts), encoding="utf-8")
    return path.as_uri()


def sheet_of(panel: Panel) -> dict[str, Any]:
    """Return the sheet of a panel; those of the course are kept for other tests."""
    return sheet(panel.name) if panel in ALL_PANELS else panel.sheet()


def in_place(script: re.Match[str]) -> str:
    """Return the states of a panel in the page itself, where a lesson names a file."""
    return f'<script class="sheet">{script[1].join(SHEET_FILE)}</script>'


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


def violations(
    page: Page, unseen: Sequence[str] = (), rules: Sequence[str] = (), *, once: bool = False
) -> list[str]:
    """Return what axe-core finds against accessibility, a line for each rule and element.

    Args:
        page: where to look.
        unseen: CSS selectors of what is left out.
        rules: the names of those to ask, or none for all.
        once: whether to measure the contrast once for all texts that have color, size, weight and
            grounds in common; a line may then name a text by that alone, and not by its class.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    return [
        f"{found['id']}: {node['target']} {node['failureSummary']}"
        for found in page.evaluate(AUDIT, [list(unseen), list(rules), once])
        for node in found["nodes"]
    ]


def box_of(page: Page, panel: Panel) -> Locator:
    """Return a panel as a screen reader finds it."""
    return page.get_by_role("group", name=panel.name, exact=True)
