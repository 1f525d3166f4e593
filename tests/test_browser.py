"""A reader's JupyterLab: every slider is moved in its notebook, in a real browser.

What a panel must show is computed here, by attnlib in this process, and compared with what stands
on the page. nbval runs the cells that no slider needs; here they show what is stored. The first
notebook is run whole. `test_book.py` goes through all states of every panel.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from itertools import count
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from attnlib.panels.heads import STACKED_HEADS
from attnlib.panels.split import WEIGHT_SPLIT
from book import panels_of
from support.browser_tools import found_browser, running_jupyterlab
from support.exercise_tools import needed_cells
from support.notebook_tools import MAY_RAISE, NOTEBOOKS, ROOT, code_cells, read, source, tags
from support.panel_tools import (
    SCREENSHOTS,
    SECONDS,
    drag_slider,
    listen_to,
    move_sliders,
    photograph,
)
from support.rounding import is_uncompared

pytestmark = pytest.mark.browser

STOPS = 3  # of each control: both ends and the middle
ERRORS = "[data-mime-type$='.error'], [data-mime-type$='.stderr']"

SCROLL = """paper => {
    const before = paper.scrollTop;
    paper.scrollBy(0, paper.clientHeight);
    return paper.scrollTop > before;
}"""
HAVE_RUN = """([ran, mayRaise, errors]) => {
    const cells = [...document.querySelectorAll(".jp-Notebook .jp-Cell")];
    const hasCount = i => /\\d/.test(cells[i - 1].querySelector(".jp-InputPrompt").textContent);
    const failed = i => !mayRaise.includes(i) && cells[i - 1].querySelector(errors);
    return ran.every(hasCount) || ran.some(failed);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with found_browser() as browser:
        yield browser


def cells_to_run(path: Path) -> set[int]:
    """Return the places of the cells that run in the browser: those that the sliders need.

    Of the first notebook, all: but those whose output is not compared, timings for the most part,
    do nothing there.
    """
    notebook = read(path)
    shown = {i: source(notebook["cells"][i - 1]) for i, _ in panels_of(notebook)}
    if path == NOTEBOOKS[0]:
        shown |= {i: source(c) for i, c in code_cells(notebook) if not is_uncompared(c)}
    return needed_cells(notebook, shown)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict]:
    """JupyterLab on a copy of the notebooks; what runs there has no output yet."""
    folder = tmp_path_factory.mktemp("lesson")
    (folder / "notebooks").mkdir()
    for path in NOTEBOOKS:
        notebook = read(path)
        run = cells_to_run(path)
        for i, cell in code_cells(notebook):
            if i in run or path == NOTEBOOKS[0]:
                cell |= {"outputs": [], "execution_count": None}
            if i not in run and path == NOTEBOOKS[0]:
                cell["source"] = "pass"
        (folder / "notebooks" / path.name).write_text(json.dumps(notebook), encoding="utf-8")
    shutil.copytree(ROOT / "images", folder / "images")
    with running_jupyterlab(folder, tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture(scope="module")
def context(lab: dict, browser: Browser) -> Iterator[BrowserContext]:
    """One for all notebooks: what JupyterLab is made of is loaded once."""
    context = browser.new_context(
        viewport={"width": 1400, "height": 1000},
        base_url=lab["url"],
        extra_http_headers={"Authorization": f"token {lab['token']}"},
    )
    context.set_default_timeout(60 * SECONDS)
    yield context
    context.close()


@pytest.fixture
def page(lab: dict, context: BrowserContext) -> Iterator[Page]:
    """A page that fails its test if it logs an error or asks any other machine for anything."""
    page = context.new_page()
    complaints = listen_to(page, lab["url"])
    yield page
    page.close()
    for kernel in context.request.get("api/kernels").json():
        context.request.delete(f"api/kernels/{kernel['id']}")
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_and_its_sliders_move(path: Path, page: Page):
    notebook = read(path)
    panels = panels_of(notebook)
    assert panels, f"{path.name} has no slider"
    page.goto(f"lab/tree/notebooks/{path.name}?reset")
    if path == NOTEBOOKS[0]:
        run_all(page, notebook)
    else:
        run_some(page, notebook, cells_to_run(path))
    cells = page.locator(".jp-Notebook .jp-Cell")

    prompts = page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").all_text_contents()
    failed = cells.evaluate_all(
        "(cells, errors) => cells.map(cell => cell.querySelector(errors)?.textContent)", ERRORS
    )
    for (i, cell), prompt in zip(code_cells(notebook), prompts, strict=True):
        assert MAY_RAISE in tags(cell) or not failed[i - 1], f"cell {i}: {failed[i - 1]}"
        assert re.search(r"\d", prompt), f"cell {i} did not run"

    for image in page.locator(".jp-MarkdownCell img").all():
        name = f"the image '{image.get_attribute('alt')}'"
        expect(image, name).not_to_have_js_property("naturalWidth", 0)

    expect(page.locator(".attn-panel")).to_have_count(len(panels))
    for old in SCREENSHOTS.glob(f"{path.stem}.*.png"):
        old.unlink()
    if os.environ.get("ATTNLIB_SCREENSHOTS") == "1":
        photograph_all(page, path.stem)
    for i, panel in panels:
        box = cells.nth(i - 1).locator(".attn-panel")
        move_sliders(page, box, panel, path.stem, stops=STOPS)
        drag_slider(page, box, panel)
    expect(page.locator(".jp-Dialog")).to_have_count(0)


BUSY = (
    "from attnlib.panels import WEIGHT_SPLIT\nfrom attnlib.panels.widgets import PanelBox\n\n"
    "PanelBox(WEIGHT_SPLIT)",
    "import time\n\ntime.sleep(600)",
)
LARGE = (
    "import attnlib.panels.panel\n\nattnlib.panels.panel.MOST_PAGES = 1",
    BUSY[0].replace("WEIGHT_SPLIT", "STACKED_HEADS"),
)


def test_a_slider_moves_while_the_kernel_is_busy(lab: dict, page: Page):
    notebook = open_notebook(page, lab, "busy", BUSY)
    choose_run_all(page, notebook)
    box = page.locator(".attn-panel")
    box.wait_for()
    move_sliders(page, box, WEIGHT_SPLIT, "busy")
    prompt = page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").nth(1)
    expect(prompt).to_have_text("[*]:")


def test_a_large_panel_follows_its_slider(lab: dict, page: Page):
    """Its pages come from the kernel, one by one."""
    notebook = open_notebook(page, lab, "large", LARGE)
    run_all(page, notebook)
    box = page.locator(".attn-panel")
    move_sliders(page, box, STACKED_HEADS, "large")
    drag_slider(page, box, STACKED_HEADS)


def open_notebook(page: Page, lab: dict, name: str, sources: tuple[str, ...]) -> dict:
    """Open a new notebook of code cells."""
    notebook = read(NOTEBOOKS[0])
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"] = [{**cell, "id": f"c{i}", "source": s} for i, s in enumerate(sources)]
    Path(lab["root_dir"], f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    page.goto(f"lab/tree/{name}.ipynb?reset")
    return notebook


def wait_for_kernel(page: Page, notebook: dict) -> None:
    """Wait until the notebook is shown whole, and its kernel connected with nothing to do."""
    idle = page.locator("#jp-main-statusbar").get_by_text("| Idle")
    dialog = page.locator(".jp-Dialog")
    idle.or_(dialog).first.wait_for()
    assert dialog.all_text_contents() == []
    expect(page.locator(".jp-Notebook .jp-Cell")).to_have_count(len(notebook["cells"]))


def choose_run_all(page: Page, notebook: dict) -> None:
    """Wait for the kernel and choose Run All Cells from the menu."""
    wait_for_kernel(page, notebook)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def run_all(page: Page, notebook: dict) -> None:
    """Run all cells and wait until they have run."""
    choose_run_all(page, notebook)
    wait_for_cells(page, notebook, [i for i, _ in code_cells(notebook)])


def run_some(page: Page, notebook: dict, places: Collection[int]) -> None:
    """Run the cells at some places, counted from 1, and wait until they have run."""
    wait_for_kernel(page, notebook)
    cells = page.locator(".jp-Notebook .jp-Cell")
    for i in sorted(places):
        cells.nth(i - 1).locator(".jp-InputPrompt").click()
        page.keyboard.press("Control+Enter")
    wait_for_cells(page, notebook, sorted(places))


def wait_for_cells(page: Page, notebook: dict, places: Collection[int]) -> None:
    may_raise = [i for i, cell in code_cells(notebook) if MAY_RAISE in tags(cell)]
    arg = [list(places), may_raise, ERRORS]
    page.wait_for_function(HAVE_RUN, arg=arg, timeout=240 * SECONDS)
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()


def photograph_all(page: Page, name: str) -> None:
    """Save the whole notebook, one screen after the other."""
    paper = page.locator(".jp-WindowedPanel-outer")
    paper.evaluate("paper => paper.scrollTo(0, 0)")
    for number in count(1):
        photograph(paper, f"{name}.{number:02}")
        if not paper.evaluate(SCROLL):
            break
