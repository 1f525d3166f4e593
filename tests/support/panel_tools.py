"""A panel in a browser: its controls are moved, and what it shows is what attncourse computes.

Serves JupyterLab and pages without a kernel alike.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect

from attncourse.panels.panel import MAX_BUTTONS, Panel, format_value
from book import SHEET_FILE
from support.cases import sheet

SECONDS = 1000  # Playwright counts in milliseconds
SHOWN = """([panel, svgs]) => {
    const plain = document.createElement("div");
    plain.innerHTML = svgs.join("");
    const drawn = panel.querySelectorAll(".attn-pictures:not([aria-hidden]) svg");
    const form = panel.querySelector("form").getBoundingClientRect();
    const controls = [...panel.querySelectorAll("input, select")].map(control => {
        const { x, y, width } = control.getBoundingClientRect();
        return [x - form.x, y - form.y, width].map(Math.round);
    });
    const same = [...drawn].map(svg => svg.outerHTML).join("") === plain.innerHTML;
    return [same, JSON.stringify(controls)];
}"""
AXE = files("axe_playwright_python") / "axe.min.js"
BY_SIZE_AND_COLOR = ("color-contrast", "link-in-text-block", "scrollable-region-focusable")
AUDIT = """async ([unseen, rules]) => {
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
    for (const text of document.body.querySelectorAll("*")) {
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
    axe.configure({ rules: [{ id: "color-contrast", selector: "[data-kind]" }] });
    const { violations } = await axe.run(
        { include: [["html"]], exclude: unseen.map(selector => [selector]) },
        { resultTypes: ["violations"], preload: false, ...(rules.length && { runOnly: rules }) },
    );
    for (const text of document.querySelectorAll("[data-kind]")) delete text.dataset.kind;
    return violations;
}"""

expect.set_options(timeout=20 * SECONDS)


def listen_to(page: Page, home: str) -> list[str]:
    """Return a list to which the page's errors are added, and what it asks of others than home."""
    complaints: list[str] = []

    def listen(line: ConsoleMessage) -> None:
        if line.type == "error":
            complaints.append(f"console: {line.text}")

    def watch(request: Request) -> None:
        if not request.url.startswith((home, "data:", "blob:")):
            complaints.append(f"asks for {request.url}")

    page.on("console", listen)
    page.on("pageerror", lambda error: complaints.append(f"uncaught: {error}"))
    page.on("request", watch)
    return complaints


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """Open a page in a window of its own; the errors that it logs fail the test."""
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
    page = context.new_page()
    complaints = listen_to(page, "")  # it may ask for anything
    page.goto(address)
    yield page
    context.close()
    assert not complaints


def in_place(script: re.Match[str]) -> str:
    """Return the states of a panel in the page itself, where a lesson names a file."""
    return f'<script class="sheet">{script[1].join(SHEET_FILE)}</script>'


def box_of(page: Page, panel: Panel) -> Locator:
    """Return a panel as a screen reader finds it."""
    return page.get_by_role("group", name=panel.name, exact=True)


def choose(box: Locator, panel: Panel, control: str, value: Any) -> None:
    """Set a control, found as a screen reader finds it, to a value."""
    values = panel.controls[control]
    if not isinstance(value, str):
        slider = box.get_by_role("slider", name=control, exact=True)
        slider.fill(str(values.index(value)))
        expect(slider).to_have_attribute("aria-valuetext", format_value(value))
    elif len(values) > MAX_BUTTONS:
        box.get_by_role("combobox", name=control, exact=True).select_option(value)
    else:
        group = box.get_by_role("group", name=control, exact=True)
        group.get_by_role("radio", name=value, exact=True).check()


def move_controls(box: Locator, panel: Panel) -> None:
    """Move each control to its last value, its first, and back to its default."""
    state = dict(panel.default)
    before = check_shows(box, panel, state)
    for control, values in panel.controls.items():
        for value in (values[-1], values[0], panel.default[control]):
            choose(box, panel, control, value)
            state[control] = value
            assert check_shows(box, panel, state) == before, f"{state}: a control moves"


def check_shows(box: Locator, panel: Panel, state: dict[str, Any]) -> str:
    """Fail unless the panel shows the line and the pictures of the state.

    Returns:
        Where its controls are.
    """
    drawn = sheet(panel.name)
    page = drawn["pages"][panel.states().index(state)]
    expect(box.get_by_role("status")).to_have_text(page["line"])
    svgs = [drawn["pictures"][i]["svg"] for i in page["pictures"]]
    is_same, controls = box.page.evaluate(SHOWN, [box.element_handle(), svgs])
    assert is_same, f"{state}: other pictures"
    return controls


def violations(page: Page, unseen: Sequence[str] = (), rules: Sequence[str] = ()) -> list[str]:
    """Return what axe-core finds against accessibility, a line for each rule and element.

    The contrast is measured once for all texts that have color, size, weight and grounds in common,
    because axe needs long for each.

    Args:
        page: where to look.
        unseen: CSS selectors of what is left out.
        rules: the names of those to ask, or none for all.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    return [
        f"{found['id']}: {node['target']} {node['failureSummary']}"
        for found in page.evaluate(AUDIT, [list(unseen), list(rules)])
        for node in found["nodes"]
    ]
