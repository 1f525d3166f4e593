"""A reader's JupyterLab, in a real browser: every slider is moved, every image is there.

What a panel must show is computed here, by attnlib in this process, and compared with what stands
on the page. The sliders of all lessons stand in one notebook, each in its own cell alone; nbval
runs the rest, and `test_book.py` goes through all states of every panel.
"""

import json
import re
import shutil
from collections.abc import Iterator

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from playwright.sync_api import Page, expect

from attncourse.panels.panel import Panel
from attncourse.panels.stacked_heads import STACKED_HEADS
from book import panels_of
from support.browser_tools import found_browser, running_jupyterlab
from support.notebook_tools import NOTEBOOKS, ROOT, markdown_cells, read, source
from support.panel_tools import SECONDS, check_stays, drag_slider, listen_to, move_sliders

pytestmark = pytest.mark.browser

STOPS = 3  # of each control: both ends and the middle
BUSY = "import time\n\ntime.sleep(600)"
LARGE = (
    "import attncourse.panels.panel\n\nattncourse.panels.states.MOST_PAGES = 1",
    "from attncourse.panels import STACKED_HEADS\n"
    "from attncourse.panels.widgets import PanelWidget\n\nPanelBox(STACKED_HEADS)",
)
IMAGE = re.compile(r"!\[[^\]]+\]\([^)]+\)")
HAVE_RUN = """errors => document.querySelector(errors)
    || [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].slice(0, -1)
        .every(prompt => /\\d/.test(prompt.textContent))"""
OFTEN = 0.2 * SECONDS  # to look in every frame would take the processor that the kernel needs
ERRORS = "[data-mime-type$='.error'], [data-mime-type$='.stderr']"


def all_sliders() -> tuple[dict, list[Panel]]:
    """Return a notebook of all lessons' images and panels: their cells need no others.

    Behind them is a panel whose pages come from the kernel, one by one, and a cell that keeps the
    kernel busy.
    """
    images, texts, panels = [], [], []
    for notebook in map(read, NOTEBOOKS):
        for i, panel in panels_of(notebook):
            panels.append(panel)
            texts.append(source(notebook["cells"][i - 1]))
        images += [found for _, text in markdown_cells(notebook) for found in IMAGE.findall(text)]
    assert images
    assert len(panels) >= 4
    cells = [new_code_cell(text) for text in (*texts, *LARGE, BUSY)]
    return notebook | {"cells": [new_markdown_cell("\n".join(images)), *cells]}, panels


@pytest.fixture
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """JupyterLab on that notebook: it logs no error and asks no other machine for anything."""
    folder = tmp_path_factory.mktemp("lesson")
    (folder / "notebooks").mkdir()
    text = json.dumps(all_sliders()[0])
    (folder / "notebooks" / "sliders.ipynb").write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "images", folder / "images")
    with (
        found_browser() as browser,
        running_jupyterlab(folder, tmp_path_factory.mktemp("jupyter")) as lab,
    ):
        page = browser.new_page(
            viewport={"width": 1400, "height": 1000},
            base_url=lab["url"],
            extra_http_headers={"Authorization": f"token {lab['token']}"},
        )
        page.set_default_timeout(60 * SECONDS)
        complaints = listen_to(page, lab["url"])
        page.goto("lab/tree/notebooks/sliders.ipynb?reset")
        yield page
        page.close()
        assert not complaints, "\n".join(complaints)


def test_every_slider_moves_while_the_kernel_is_busy(page: Page):
    """But for one, before, whose pages the kernel sends one by one."""
    notebook, panels = all_sliders()
    idle, dialog = (
        page.locator("#jp-main-statusbar").get_by_text("| Idle"),
        page.locator(".jp-Dialog"),
    )
    idle.or_(dialog).first.wait_for()
    assert dialog.all_text_contents() == []
    prompts = page.locator(".jp-CodeCell .jp-InputPrompt")
    expect(prompts).to_have_count(len(notebook["cells"]) - 1)
    for i in range(prompts.count() - 1):
        start(page, i)
    page.wait_for_function(HAVE_RUN, arg=ERRORS, timeout=240 * SECONDS, polling=OFTEN)
    idle.wait_for()
    assert page.locator(ERRORS).all_text_contents() == []
    for image in page.locator(".jp-MarkdownCell img").all():
        name = f"the image '{image.get_attribute('alt')}'"
        expect(image, name).not_to_have_js_property("naturalWidth", 0)

    boxes = page.locator(".attn-panel")
    expect(boxes).to_have_count(len(panels) + 1)
    move_sliders(page, boxes.last, STACKED_HEADS, "large", stops=STOPS)
    check_stays(page, boxes.last, STACKED_HEADS, drag_slider(page, boxes.last, STACKED_HEADS))

    start(page, -1)
    expect(prompts.last).to_have_text("[*]:")
    for number, panel in enumerate(panels):
        move_sliders(page, boxes.nth(number), panel, "busy", stops=STOPS)
    check_stays(page, boxes.first, panels[0], drag_slider(page, boxes.first, panels[0]))
    expect(prompts.last).to_have_text("[*]:")
    expect(dialog).to_have_count(0)


def start(page: Page, place: int) -> None:
    page.locator(".jp-CodeCell .jp-InputPrompt").nth(place).click()
    page.keyboard.press("Control+Enter")
