"""A notebook in JupyterLab: its panels move, are saved, and are there again when reopened."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from test_sentence_browser import FRANCE, cell, says

import working_copy
from attncourse.panels import LEAK_DETECTOR, MINI_MODEL, PAINTED_PATTERN, STACKED_HEADS
from attncourse.panels import TYPED_LETTERS as LETTERS
from support.browser_tools import running_jupyterlab
from support.cases import ALL_PANELS
from support.model_tools import the_model
from support.notebook_tools import NOTEBOOKS, read
from support.panel_tools import SECONDS, box_of, listen_to, move_controls, violations

pytestmark = pytest.mark.browser

LESSONS = {
    "00_slider": """\
from attncourse.panels import STACKED_HEADS
from attncourse.panels.widgets import PanelWidget

PanelWidget(STACKED_HEADS)""",
    "01_panels": """\
from attncourse import panels
from attncourse.panels.widgets import LiveWidget, PanelWidget

still = panels.STACKED_HEADS, panels.WEIGHT_SPLIT, panels.MISTAKE_GALLERY, panels.ONLINE_SOFTMAX
live = panels.MINI_MODEL, panels.LEAK_DETECTOR, panels.TYPED_LETTERS, panels.PAINTED_PATTERN
display(*map(PanelWidget, still), *map(LiveWidget, live))""",
    "02_own": """\
from attncourse.language import language_model
from attncourse.panels.sentence import SentenceWidget

SentenceWidget(language_model())""",
}
NASTY = "<img src=x onerror=alert(1)> </script> is"


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with short lessons."""
    folder = tmp_path_factory.mktemp("course")
    new = {"cell_type": "code", "id": "c0", "metadata": {}, "outputs": [], "execution_count": None}
    for name, text in LESSONS.items():
        lesson = read(NOTEBOOKS[0]) | {"cells": [new | {"source": text}]}
        (folder / f"{name}.ipynb").write_text(json.dumps(lesson), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def lab(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict]:
    """JupyterLab with the settings that `make lab` writes."""
    home = tmp_path_factory.mktemp("home")
    file = tmp_path_factory.mktemp("settings") / "overrides.json"
    working_copy.save_widget_state(file)
    with running_jupyterlab(course, home, read(file)) as server:
        yield server


@pytest.fixture
def context(browser: Browser, lab: dict) -> Iterator[BrowserContext]:
    """A context whose pages must log no error, nor ask anything of another machine."""
    context = browser.new_context(
        viewport={"width": 1366, "height": 768},
        base_url=lab["url"],
        extra_http_headers={"Authorization": f"token {lab['token']}"},
    )
    context.set_default_timeout(60 * SECONDS)
    complaints: list[list[str]] = []
    context.on("page", lambda page: complaints.append(listen_to(page, lab["url"])))
    yield context
    stop_kernels(context)
    context.close()
    assert not any(complaints)


def open_lesson(context: BrowserContext, name: str, color: str = "light", run: bool = True) -> Page:
    page = context.new_page()
    page.emulate_media(color_scheme=color, reduced_motion="reduce")
    page.goto(f"lab/tree/{name}.ipynb?reset")
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()
    if run:
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        page.locator(".attn-panel").first.wait_for(timeout=120 * SECONDS)  # the kernel draws
    return page


def stop_kernels(context: BrowserContext) -> None:
    for kernel in context.request.get("api/kernels").json():
        context.request.delete(f"api/kernels/{kernel['id']}")


def axe_on_panels(page: Page) -> list[str]:
    """Return what axe finds in panels; JupyterLab has faults of its own."""
    return [line for line in violations(page) if "attn-" in line]


def save(page: Page, course: Path, name: str) -> None:
    page.wait_for_timeout(1 * SECONDS)  # until the state is sent to the kernel
    page.keyboard.press("Control+s")
    for _ in range(300):
        text = (course / f"{name}.ipynb").read_text(encoding="utf-8")
        if "widget-state" in text and text.endswith("}\n"):  # neither as it was nor half written
            return
        page.wait_for_timeout(100)
    pytest.fail("the state of the panels is not saved")


def test_the_slider_of_heads_moves_and_is_saved(context, course):
    page = open_lesson(context, "00_slider")
    move_controls(box_of(page, STACKED_HEADS), STACKED_HEADS)
    assert axe_on_panels(page) == []
    save(page, course, "00_slider")


@pytest.mark.slow
def test_every_control_moves_and_is_saved(context, course):
    page = open_lesson(context, "01_panels")
    for panel in ALL_PANELS:
        move_controls(box_of(page, panel), panel)
    mini, leak, typed, painted = (
        page.get_by_role("group", name=panel.title)
        for panel in (MINI_MODEL, LEAK_DETECTOR, LETTERS, PAINTED_PATTERN)
    )
    mini.get_by_role("radio", name="ablated").check()
    says(mini, "Paris goes from 0.97 to")
    leak.get_by_role("slider", name="one, to be shaken").press("ArrowRight")
    says(leak, "You shake “one”.")
    typed.get_by_role("button", name="L0H1", exact=True).click()
    says(typed, "7 without ablation")
    painted.get_by_role("button", name="one word back").click()
    says(painted, "L4H11 of GPT-2 does this best")
    assert axe_on_panels(page) == []
    save(page, course, "01_panels")
    page.close()
    stop_kernels(context)

    page = open_lesson(context, "01_panels", "dark", run=False)
    move_controls(box_of(page, STACKED_HEADS), STACKED_HEADS)
    expect(page.get_by_text("Error displaying widget")).to_have_count(0)
    assert axe_on_panels(page) == []
    says(page.get_by_role("group", name=MINI_MODEL.title), "Paris goes from 0.97 to")
    says(page.get_by_role("group", name=LEAK_DETECTOR.title), "You shake “one”.")


@pytest.mark.slow
def test_a_sentence_of_ones_own(context):
    model = the_model()
    box = open_lesson(context, "02_own").get_by_role("group", name="your sentence")
    says(box, "Paris, 0.77")
    own = box.get_by_role("textbox", name="your sentence")
    text = "When the old king came home from the war, he met his"
    own.fill(text)
    own.press("Enter")
    says(box, f"The model goes on with {model.read(text).next_words(1)[0][0]}")
    own.fill(FRANCE)
    own.press("Enter")
    says(box, "Paris, 0.77")
    cell(box, "L23H4").click()
    box.get_by_role("radio", name="ablated", exact=True).check()
    says(box, "Paris falls from 0.77 to 0.14.")
    assert axe_on_panels(box.page) == []
    own.fill(NASTY)
    own.press("Enter")
    expect(box.locator(".attn-token span").first).to_have_text("<")
    assert box.locator("img").count() == 0
    stop_kernels(context)
    expect(box.get_by_role("radio", name="ablated", exact=True)).to_be_enabled()
    own.fill(FRANCE + " the")
    own.press("Enter")
    says(box, "kernel")
