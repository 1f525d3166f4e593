"""A reader's JupyterLab: every notebook is run and every slider is moved in a real browser.

What a panel must show is computed here, by attnlib in this process, and compared with what stands
on the page. Screenshots of all of it land in tests/screenshots/.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    TimeoutError,
    expect,
    sync_playwright,
)

import sliders_page
from attnlib.panels.heads import WEIGHT_SPLIT
from attnlib.panels.panel import Panel, spelled
from sliders_page import panels_of
from support.browser_tools import NO_BROWSER, open_browser, running_jupyterlab
from support.notebook_tools import MAY_RAISE, NOTEBOOKS, ROOT, code_cells, read, tags

pytestmark = pytest.mark.browser

SCREENSHOTS = Path(__file__).with_name("screenshots")
SECONDS = 1000  # Playwright counts in milliseconds
ERRORS = "[data-mime-type$='.error'], [data-mime-type$='.stderr']"

LOOK = """panel => ({
    readouts: [...panel.querySelectorAll(".attnlib-readout")].map(line => line.textContent),
    pictures: [...panel.querySelectorAll(".attnlib-picture > svg")].map(svg => svg.outerHTML),
    svgs: panel.querySelectorAll("svg").length,
    outputs: panel.closest(".jp-Cell")?.querySelectorAll(".jp-OutputArea-child").length,
})"""
IS_DRAWN = """([panel, svg]) => {
    const sheet = document.createElement("div");
    sheet.innerHTML = svg;
    return sheet.innerHTML === panel.querySelector(".attnlib-picture")?.innerHTML;
}"""
SCROLL = """paper => {
    const before = paper.scrollTop;
    paper.scrollBy(0, paper.clientHeight);
    return paper.scrollTop > before;
}"""
HAVE_RUN = """([mayRaise, errors]) => {
    const cells = [...document.querySelectorAll(".jp-Notebook .jp-CodeCell")];
    const hasCount = cell => /\\d/.test(cell.querySelector(".jp-InputPrompt").textContent);
    const failed = (cell, i) => !mayRaise[i] && cell.querySelector(errors);
    return cells.every(hasCount) || cells.some(failed);
}"""

expect.set_options(timeout=20 * SECONDS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = open_browser(playwright)
        if found is None and os.environ.get("CI") == "true":
            pytest.fail(NO_BROWSER)
        if found is None:
            pytest.skip(NO_BROWSER)
        yield found
        found.close()


@pytest.fixture(scope="module")
def lab(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict]:
    """JupyterLab on a copy of the notebooks without outputs, so that all that shows is new."""
    folder = tmp_path_factory.mktemp("lesson")
    (folder / "notebooks").mkdir()
    for path in NOTEBOOKS:
        notebook = read(path)
        for _, cell in code_cells(notebook):
            cell |= {"outputs": [], "execution_count": None}
        (folder / "notebooks" / path.name).write_text(json.dumps(notebook), encoding="utf-8")
    shutil.copytree(ROOT / "images", folder / "images")
    with running_jupyterlab(folder, tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture
def page(lab: dict, browser: Browser) -> Iterator[Page]:
    """A page that fails its test if it logs an error or asks any other machine for anything."""
    context = browser.new_context(
        viewport={"width": 1400, "height": 1000},
        base_url=lab["url"],
        extra_http_headers={"Authorization": f"token {lab['token']}"},
    )
    context.set_default_timeout(60 * SECONDS)
    page = context.new_page()
    complaints = listen_to(page, lab["url"])
    yield page
    page.close()
    for kernel in context.request.get("api/kernels").json():
        context.request.delete(f"api/kernels/{kernel['id']}")
    context.close()
    assert not complaints, "\n".join(complaints)


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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_and_its_sliders_move(path: Path, page: Page):
    notebook = read(path)
    page.goto(f"lab/tree/notebooks/{path.name}?reset")
    run_all(page, notebook)
    cells = page.locator(".jp-Notebook .jp-Cell")

    prompts = page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").all_text_contents()
    for (i, cell), prompt in zip(code_cells(notebook), prompts, strict=True):
        errors = cells.nth(i - 1).locator(ERRORS).all_text_contents()
        assert MAY_RAISE in tags(cell) or not errors, f"cell {i}: {errors}"
        assert re.search(r"\d", prompt), f"cell {i} did not run"

    for image in page.locator(".jp-MarkdownCell img").all():
        name = f"the image '{image.get_attribute('alt')}'"
        expect(image, name).not_to_have_js_property("naturalWidth", 0)

    panels = panels_of(notebook)
    assert panels, f"{path.name} has no slider"
    expect(page.locator(".attnlib-panel")).to_have_count(len(panels))
    for old in SCREENSHOTS.glob(f"{path.stem}.*.png"):
        old.unlink()
    photograph_all(page, path.stem)
    for i, panel in panels:
        box = cells.nth(i - 1).locator(".attnlib-panel")
        move_sliders(page, box, panel, path.stem)
        drag_slider(page, box, panel)
    expect(page.locator(".jp-Dialog")).to_have_count(0)


BUSY = (
    "from attnlib.panels import WEIGHT_SPLIT\nfrom attnlib.panels.widgets import PanelBox\n\n"
    "PanelBox(WEIGHT_SPLIT)",
    "import time\n\ntime.sleep(600)",
)
LIVE = (BUSY[0].replace("PanelBox", "LivePanelBox"),)


def test_a_slider_moves_while_the_kernel_is_busy(lab: dict, page: Page):
    notebook = open_notebook(page, lab, "busy", BUSY)
    choose_run_all(page, notebook)
    box = page.locator(".attnlib-panel")
    box.wait_for()
    move_sliders(page, box, WEIGHT_SPLIT, "busy")
    prompt = page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").nth(1)
    expect(prompt).to_have_text("[*]:")


def test_a_live_panel_follows_its_slider(lab: dict, page: Page):
    notebook = open_notebook(page, lab, "live", LIVE)
    run_all(page, notebook)
    box = page.locator(".attnlib-panel")
    move_sliders(page, box, WEIGHT_SPLIT, "live")
    drag_slider(page, box, WEIGHT_SPLIT)


def open_notebook(page: Page, lab: dict, name: str, sources: tuple[str, ...]) -> dict:
    """Open a new notebook of code cells."""
    notebook = read(NOTEBOOKS[0])
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"] = [{**cell, "id": f"c{i}", "source": s} for i, s in enumerate(sources)]
    Path(lab["root_dir"], f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    page.goto(f"lab/tree/{name}.ipynb?reset")
    return notebook


def test_sliders_on_a_page_without_a_kernel(browser: Browser, tmp_path: Path):
    path = tmp_path / "sliders.html"
    sliders_page.main([str(path)])
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    complaints = listen_to(page, path.as_uri())
    page.goto(path.as_uri())
    boxes = page.locator(".attnlib-panel")
    panels = [panel for path in NOTEBOOKS for _, panel in panels_of(read(path))]
    expect(boxes).to_have_count(len(panels))
    for i, panel in enumerate(panels):
        state = dict(panel.default)
        before = check_shows(page, boxes.nth(i), panel, state)
        for control, values in panel.controls.items():
            slider = boxes.nth(i).get_by_role("slider", name=control, exact=True)
            slider.focus()
            for key, value in moves(values, panel.default[control]):
                state[control] = value
                page.keyboard.press(key)
                after = check_shows(page, boxes.nth(i), panel, state)
                assert after["pictures"] != before["pictures"], f"{state}: the same picture"
                expect(slider).to_have_attribute("aria-valuetext", spelled(value))
                before = after
        photograph(boxes.nth(i), f"page.{panel.name}".replace(" ", "-"))
    page.close()
    assert not complaints, "\n".join(complaints)


def choose_run_all(page: Page, notebook: dict) -> None:
    """Wait for the kernel and choose Run All Cells from the menu."""
    idle = page.locator("#jp-main-statusbar").get_by_text("| Idle")  # connected, nothing to do
    dialog = page.locator(".jp-Dialog")
    idle.or_(dialog).first.wait_for()
    assert dialog.all_text_contents() == []
    expect(page.locator(".jp-Notebook .jp-Cell")).to_have_count(len(notebook["cells"]))
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def run_all(page: Page, notebook: dict) -> None:
    """Run all cells and wait until they have run."""
    choose_run_all(page, notebook)
    may_raise = [MAY_RAISE in tags(cell) for _, cell in code_cells(notebook)]
    page.wait_for_function(HAVE_RUN, arg=[may_raise, ERRORS], timeout=240 * SECONDS)
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()


def move_sliders(page: Page, box: Locator, panel: Panel, name: str) -> None:
    """Move each slider by keyboard to its last value, its first, and back to its default."""
    state = dict(panel.default)
    before = check_shows(page, box, panel, state)
    for control, values in panel.controls.items():
        slider = box.locator(".widget-slider", has=page.get_by_text(control, exact=True))
        slider.get_by_role("slider").focus()
        for key, value in moves(values, panel.default[control]):
            state[control] = value
            page.keyboard.press(key)
            after = check_shows(page, box, panel, state)
            assert after["pictures"] != before["pictures"], f"{state}: the same picture as before"
            assert after["outputs"] == before["outputs"], f"{state}: a new output below the panel"
            expect(slider.locator(".widget-readout")).to_have_text(spelled(value))
            before = after
            if value in (values[0], values[-1]):
                here = f"{name}.{panel.name}.{control}={spelled(value)}"
                photograph(box, here.replace(" ", "-"))


def drag_slider(page: Page, box: Locator, panel: Panel) -> None:
    """Press keys faster than pictures can be drawn: the last value is shown, and stays."""
    control, values = next(iter(panel.controls.items()))
    slider = box.locator(".widget-slider", has=page.get_by_text(control, exact=True))
    slider.get_by_role("slider").focus()
    way = [*moves(values, panel.default[control])]
    keys = (way * (1 + 20 // len(way)))[: max(20, len(way)) - 1]  # ends beside the start
    for key, _ in keys:
        page.keyboard.press(key)
    state = {**panel.default, control: keys[-1][1]}
    check_shows(page, box, panel, state)
    page.wait_for_timeout(SECONDS / 2)
    check_shows(page, box, panel, state)


def moves(values: tuple[Any, ...], default: Any) -> Iterator[tuple[str, Any]]:
    """Yield each key to press and the value that it leads to."""
    start, last = values.index(default), len(values) - 1
    places = [*range(start, last), *range(last, 0, -1), *range(start + 1)]
    for here, there in pairwise(places):
        yield "ArrowRight" if there > here else "ArrowLeft", values[there]


def check_shows(page: Page, box: Locator, panel: Panel, state: dict[str, Any]) -> dict[str, Any]:
    """Wait until the panel shows the state, one line and one picture; return what it shows."""
    data = panel.compute(**state)
    scene, line = panel.draw(data), panel.readout(data)
    try:
        drawn = [box.element_handle(), scene.svg()]
        page.wait_for_function(IS_DRAWN, arg=drawn, timeout=20 * SECONDS)
    except TimeoutError:
        pytest.fail(f"{state}: the picture is not the one that attnlib draws")
    shown = box.evaluate(LOOK)
    assert shown["readouts"] == [line]
    assert len(shown["pictures"]) == shown["svgs"] == 1, f"{state}: drawn twice"
    expect(box.locator("svg")).to_have_attribute("aria-label", scene.alt)
    return shown


def photograph(box: Locator, name: str) -> None:
    box.screenshot(path=SCREENSHOTS / f"{name}.png")


def photograph_all(page: Page, name: str) -> None:
    """Save the whole notebook, one screen after the other."""
    paper = page.locator(".jp-WindowedPanel-outer")
    paper.evaluate("paper => paper.scrollTo(0, 0)")
    for number in count(1):
        photograph(paper, f"{name}.{number:02}")
        if not paper.evaluate(SCROLL):
            break
