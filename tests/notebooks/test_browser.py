"""A reader's JupyterLab, in a real browser: the first notebook is run whole, every slider is moved.

What a panel must show is computed here, by attnlib in this process, and compared with what stands
on the page. The sliders of the other notebooks stand in one, with the cells that they need; nbval
runs the rest, and `test_book.py` goes through all states of every panel.
"""

import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from itertools import count

import pytest
from nbformat.v4 import new_code_cell
from playwright.sync_api import Browser, BrowserContext, Page, expect

from attncourse.panels.heads import STACKED_HEADS
from attncourse.panels.states import Panel
from book import panels_of
from support.browser_tools import found_browser, running_jupyterlab
from support.exercise_tools import needed_cells
from support.notebook_tools import MAY_RAISE, NOTEBOOKS, ROOT, code_cells, read, source, tags
from support.panel_tools import (
    SCREENSHOTS,
    SECONDS,
    check_stays,
    drag_slider,
    listen_to,
    move_sliders,
    photograph,
)
from support.rounding import is_uncompared

pytestmark = pytest.mark.browser

STOPS = 3  # of each control: both ends and the middle
FIRST, *OTHERS = NOTEBOOKS
SLIDERS = "sliders.ipynb"
BUSY = "import time\n\ntime.sleep(600)"
LARGE = (
    "import attncourse.panels.states\n\nattncourse.panels.states.MOST_PAGES = 1",
    "from attncourse.panels import STACKED_HEADS\n"
    "from attncourse.panels.widgets import PanelBox\n\nPanelBox(STACKED_HEADS)",
)
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


def first_notebook() -> dict:
    """Return the first notebook without outputs.

    Cells whose output nobody compares, timings for the most part, do nothing.
    """
    notebook = read(FIRST)
    compared = {i: source(cell) for i, cell in code_cells(notebook) if not is_uncompared(cell)}
    needed = needed_cells(notebook, compared)
    for i, cell in code_cells(notebook):
        cell |= {"outputs": [], "execution_count": None}
        if i not in needed:
            cell["source"] = "pass"
    return notebook


def all_sliders() -> tuple[dict, list[Panel]]:
    """Return a notebook of the other notebooks' panels, with the cells that they need.

    Behind them is one whose pages come from the kernel, one by one, and a cell that keeps the
    kernel busy.
    """
    texts, panels = [], []
    for path in OTHERS:
        notebook = read(path)
        shown = {i: source(notebook["cells"][i - 1]) for i, _ in panels_of(notebook)}
        panels += [panel for _, panel in panels_of(notebook)]
        texts += [source(notebook["cells"][i - 1]) for i in sorted(needed_cells(notebook, shown))]
    assert len(panels) >= 4
    notebook = read(FIRST)
    notebook["cells"] = [new_code_cell(text) for text in (*texts, *LARGE, BUSY)]
    return notebook, panels


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict]:
    """JupyterLab on the two notebooks."""
    folder = tmp_path_factory.mktemp("lesson")
    (folder / "notebooks").mkdir()
    for name, notebook in ((FIRST.name, first_notebook()), (SLIDERS, all_sliders()[0])):
        (folder / "notebooks" / name).write_text(json.dumps(notebook), encoding="utf-8")
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


def test_the_first_notebook_runs_whole_and_its_sliders_move(page: Page):
    notebook = first_notebook()
    page.goto(f"lab/tree/notebooks/{FIRST.name}?reset")
    run_all(page, notebook)
    show_no_error(page, notebook, [i for i, _ in code_cells(notebook)])

    for image in page.locator(".jp-MarkdownCell img").all():
        name = f"the image '{image.get_attribute('alt')}'"
        expect(image, name).not_to_have_js_property("naturalWidth", 0)

    panels = panels_of(notebook)
    plain = page.locator(".attn-panel:not(.attn-sentence, .attn-live)")
    expect(plain).to_have_count(len(panels))
    expect(page.locator(".attn-live")).to_have_count(1)
    for old in SCREENSHOTS.glob(f"{FIRST.stem}.*.png"):
        old.unlink()
    if os.environ.get("ATTNLIB_SCREENSHOTS") == "1":
        photograph_all(page, FIRST.stem)
    dragged = []
    for i, panel in panels:
        box = page.locator(".jp-Notebook .jp-Cell").nth(i - 1).locator(".attn-panel")
        move_sliders(page, box, panel, FIRST.stem, stops=STOPS)
        dragged.append((box, panel, drag_slider(page, box, panel)))
    check_stays(page, dragged)
    expect(page.locator(".jp-Dialog")).to_have_count(0)


def test_every_other_slider_moves_while_the_kernel_is_busy(page: Page):
    """But for one, before, whose pages the kernel sends one by one."""
    notebook, panels = all_sliders()
    last = len(notebook["cells"])
    page.goto(f"lab/tree/notebooks/{SLIDERS}?reset")
    run_some(page, notebook, range(1, last))
    show_no_error(page, notebook, range(1, last))
    boxes = page.locator(".attn-panel")
    expect(boxes).to_have_count(len(panels) + 1)
    move_sliders(page, boxes.last, STACKED_HEADS, "large", stops=STOPS)
    check_stays(page, [(boxes.last, STACKED_HEADS, drag_slider(page, boxes.last, STACKED_HEADS))])

    start(page, last)
    prompt = page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").last
    expect(prompt).to_have_text("[*]:")
    dragged = []
    for number, panel in enumerate(panels):
        move_sliders(page, boxes.nth(number), panel, "busy", stops=STOPS)
        dragged.append((boxes.nth(number), panel, drag_slider(page, boxes.nth(number), panel)))
    check_stays(page, dragged)
    expect(prompt).to_have_text("[*]:")
    expect(page.locator(".jp-Dialog")).to_have_count(0)


def show_no_error(page: Page, notebook: dict, places: Collection[int]) -> None:
    """All code cells at some places have run, and none shows an error that is not announced."""
    shown = page.locator(".jp-Notebook .jp-Cell").evaluate_all(
        "(cells, errors) => cells.map(cell => [cell.querySelector('.jp-InputPrompt')?.textContent,"
        " cell.querySelector(errors)?.textContent])",
        ERRORS,
    )
    for i, cell in code_cells(notebook):
        prompt, error = shown[i - 1]
        assert i not in places or re.search(r"\d", prompt), f"cell {i} did not run"
        assert MAY_RAISE in tags(cell) or not error, f"cell {i}: {error}"


def wait_for_kernel(page: Page, notebook: dict) -> None:
    """Wait until the notebook is shown whole, and its kernel connected with nothing to do."""
    idle = page.locator("#jp-main-statusbar").get_by_text("| Idle")
    dialog = page.locator(".jp-Dialog")
    idle.or_(dialog).first.wait_for()
    assert dialog.all_text_contents() == []
    expect(page.locator(".jp-Notebook .jp-Cell")).to_have_count(len(notebook["cells"]))


def run_all(page: Page, notebook: dict) -> None:
    wait_for_kernel(page, notebook)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    wait_for_cells(page, notebook, [i for i, _ in code_cells(notebook)])


def run_some(page: Page, notebook: dict, places: Collection[int]) -> None:
    wait_for_kernel(page, notebook)
    for i in sorted(places):
        start(page, i)
    wait_for_cells(page, notebook, sorted(places))


def start(page: Page, place: int) -> None:
    page.locator(".jp-Notebook .jp-Cell").nth(place - 1).locator(".jp-InputPrompt").click()
    page.keyboard.press("Control+Enter")


def wait_for_cells(page: Page, notebook: dict, places: Collection[int]) -> None:
    may_raise = [i for i, cell in code_cells(notebook) if MAY_RAISE in tags(cell)]
    arg = [list(places), may_raise, ERRORS]
    page.wait_for_function(HAVE_RUN, arg=arg, timeout=240 * SECONDS)
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()


def photograph_all(page: Page, name: str) -> None:
    paper = page.locator(".jp-WindowedPanel-outer")
    paper.evaluate("paper => paper.scrollTo(0, 0)")
    for number in count(1):
        photograph(paper, f"{name}.{number:02}")
        if not paper.evaluate(SCROLL):
            break
