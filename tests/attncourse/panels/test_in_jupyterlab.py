"""A reader's copy in JupyterLab: its panels move, are saved, and are there again when reopened."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from test_sentence_browser import FRANCE, cell, says

import working_copy
from attncourse.panels import LEAK, MINI, PAINTED, STACKED_HEADS, TYPED
from attncourse.pictures import Scene
from attncourse.tracing.diffs import Diff
from support.browser_tools import running_jupyterlab
from support.model_tools import the_model
from support.notebook_tools import NOTEBOOKS, ROOT, read
from support.panel_tools import photograph
from support.touch_tools import box_of, violations

pytestmark = pytest.mark.browser

LESSONS = {
    "01_lesson": "from attncourse.panels import LEAK, MINI, PAINTED, STACKED_HEADS, TYPED\n"
    "from attncourse.panels.widgets import LiveBox, PanelBox\n\n"
    "display(PanelBox(STACKED_HEADS), *map(LiveBox, (MINI, LEAK, TYPED, PAINTED)))",
    "02_own": "from attncourse.language import language_model\n"
    "from attncourse.panels.sentence import SentenceBox\n\n"
    "SentenceBox(language_model())",
}
FIGURE, CHANGE = Scene(40, 20, "a figure", ()), Diff("a\nb", "a\nc")
STORED = f"{FIGURE._repr_html_()}{CHANGE._repr_html_()}"
ARCS_IN = """async cell => {  // milliseconds from a click to other arcs, painted
    const arcs = cell.closest("form").querySelector(".attn-loops");
    const before = arcs.innerHTML, start = performance.now();
    cell.click();
    if (arcs.innerHTML === before) return Infinity;
    await new Promise(painted => requestAnimationFrame(() => setTimeout(painted)));
    return performance.now() - start;
}"""
TWELVE = "When the old king came home from the war, he met his"
NASTY = "<img src=x onerror=alert(1)> </script> is"

REACHES = "([bar, least]) => bar.value >= least"


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=reader", "-c", "user.email=reader@example.org")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two short lessons, and the reader's copies of them."""
    if shutil.which("git") is None:
        pytest.skip("no git found")
    folder = tmp_path_factory.mktemp("course")
    (folder / "notebooks").mkdir()
    new = {"cell_type": "code", "id": "c0", "metadata": {}, "outputs": [], "execution_count": None}
    for name, text in LESSONS.items():
        lesson = read(NOTEBOOKS[0]) | {"cells": [new | {"source": text}]}
        (folder / "notebooks" / f"{name}.ipynb").write_text(json.dumps(lesson), encoding="utf-8")
    stored = {"output_type": "display_data", "metadata": {}, "data": {"text/html": STORED}}
    lesson["cells"] = [new | {"source": "1", "outputs": [stored]}]
    (folder / "notebooks" / "03_figure.ipynb").write_text(json.dumps(lesson), encoding="utf-8")
    shutil.copy(ROOT / ".gitignore", folder)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "The course")
    working_copy.update(folder / "notebooks", folder / "work")
    return folder


@pytest.fixture(scope="module")
def lab(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict]:
    """JupyterLab with the settings that `make lab` writes."""
    home = tmp_path_factory.mktemp("home")
    working_copy.set_as_the_book(home / "config")
    file = tmp_path_factory.mktemp("settings") / "overrides.json"
    working_copy.keep_sliders(file)
    settings = read(file)
    with running_jupyterlab(course, home, settings=settings) as server:
        yield server


@pytest.fixture
def context(browser: Browser, lab: dict) -> Iterator[BrowserContext]:
    """A context whose pages must log no error, nor ask anything in a box of its own."""
    context = browser.new_context(
        viewport={"width": 1366, "height": 768},
        base_url=lab["url"],
        extra_http_headers={"Authorization": f"token {lab['token']}"},
    )
    context.set_default_timeout(60_000)
    complaints: list[str] = []
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    context.on("dialog", lambda dialog: complaints.append(dialog.message))
    yield context
    stop_kernels(context)
    context.close()
    assert complaints == []


def open_lesson(context: BrowserContext, name: str, color_scheme: str = "light") -> Page:
    page = context.new_page()
    page.emulate_media(color_scheme=color_scheme)
    page.goto(f"lab/tree/work/{name}.ipynb?reset")
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()
    return page


def run_all(page: Page) -> None:
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def stop_kernels(context: BrowserContext) -> None:
    for kernel in context.request.get("api/kernels").json():
        context.request.delete(f"api/kernels/{kernel['id']}")


def test_what_was_moved_and_saved_is_there_again_with_another_kernel(context, course):
    """And to run and save a copy changes nothing in the repository."""
    page = open_lesson(context, "01_lesson")
    run_all(page)
    box_of(page, STACKED_HEADS).wait_for()
    mini, leak, typed, painted = (
        page.get_by_role("group", name=panel.title) for panel in (MINI, LEAK, TYPED, PAINTED)
    )
    mini.get_by_role("radio", name="muted").check()
    says(mini, "Paris goes from 0.97 to")
    leak.get_by_role("slider", name="one, to be shaken").press("ArrowRight")
    says(leak, "You shake “one”.")
    typed.get_by_role("button", name="L0H1", exact=True).click()
    says(typed, "7 without muting")
    painted.get_by_role("button", name="one word back").click()
    says(painted, "L4H11 of GPT-2 does this best")
    assert "#" not in page.url
    page.wait_for_timeout(1000)
    page.keyboard.press("Control+s")
    copy = course / "work" / "01_lesson.ipynb"
    for _ in range(300):
        text = copy.read_text(encoding="utf-8")
        if "widget-state" in text and text.endswith("}\n"):  # neither as it was nor half written
            break
        page.wait_for_timeout(100)
    (kept,) = read(copy)["metadata"]["widgets"].values()
    models = [model["state"] for model in kept["state"].values() if "sheet" in model["state"]]
    states = {model["sheet"]["name"]: model.get("state") for model in models}
    buffers = [part for model in kept["state"].values() for part in model.get("buffers", [])]
    assert [part["path"] for part in buffers] == [["packed"]]  # of the stacked heads
    assert states["mini"]["head"] == "muted"
    assert states["leak"]["word"] == 4
    assert len(states["letters"]["muted"]) == 16
    assert len(states["paint"]["painted"]) == 5
    assert git(course, "status", "--porcelain") == ""
    page.close()
    stop_kernels(context)

    page = open_lesson(context, "01_lesson", "dark")
    box = box_of(page, STACKED_HEADS)
    says(box, STACKED_HEADS.page(STACKED_HEADS.default)["line"])
    expect(page.get_by_text("Error displaying widget")).to_have_count(0)
    box.get_by_role("slider", name="num_heads", exact=True).press("ArrowRight")
    says(box, STACKED_HEADS.page({"num_heads": 3})["line"])
    box.get_by_role("gridcell").first.press("ArrowRight")
    expect(box.locator(".attn-hint p")).to_contain_text("head 0; query step, key journey")
    sheet = box.locator(".attn-sheet").bounding_box()
    assert sheet["y"] + sheet["height"] - box.bounding_box()["y"] < 600
    box.get_by_role("button", name="Full screen").click()
    expect(box.get_by_role("button", name="Back to the page")).to_be_visible()
    assert [line for line in violations(page) if "attn-" in line] == []


def test_what_was_drawn_on_white_is_dark_in_a_dark_jupyterlab_before_any_cell_runs(context):
    """And as it was drawn in a light one."""
    page = open_lesson(context, "03_figure")
    for drawn in (page.get_by_alt_text("a figure"), page.locator(".jp-RenderedHTML pre")):
        page.evaluate("document.body.dataset.jpThemeLight = 'true'")
        expect(drawn).to_have_css("filter", "none")
        page.evaluate("document.body.dataset.jpThemeLight = 'false'")
        expect(drawn).to_have_css("filter", re.compile(r"^invert\(0.93\) hue-rotate\(180deg\) "))
        assert drawn.is_visible()


def test_a_sentence_of_ones_own(context):  # noqa: PLR0915, one sitting of a reader
    model = the_model()
    page = open_lesson(context, "02_own")
    run_all(page)
    box = page.get_by_role("group", name="your sentence")
    expect(box.get_by_role("status")).to_contain_text("Paris, 0.77", timeout=120_000)
    swap = box.get_by_role("button", name="Swap").bounding_box()
    assert swap["x"] + swap["width"] <= box.locator(".attn-next-words").bounding_box()["x"]
    own = box.get_by_role("textbox", name="your sentence")
    run = model.read(TWELVE)
    assert len(run.tokens) >= 12
    start = monotonic()
    own.fill(TWELVE)
    own.press("Enter")
    says(box, f"The model goes on with {run.next_words(1)[0][0]}")
    took = monotonic() - start
    print(f"{len(run.tokens)} tokens answered in {took:.2f} s")
    assert took < 3 * 1.0
    times, key = [], int(run.weights(23, 4)[-1].argmax())  # of the head that was chosen
    for layer, head in ((23, 3), (7, 5), (12, 8)):
        times.append(cell(box, f"L{layer}H{head}").evaluate(ARCS_IN))
        weight = float(run.weights(layer, head)[-1, key])
        shown = cell(box, f"L{layer}H{head}").get_attribute("aria-label")
        assert f"{weight:.2f}" in shown or f"{weight + 0.005:.2f}" in shown
    print(f"arcs after {', '.join(f'{time:.0f}' for time in times)} ms")
    assert max(times) < 3 * 100

    own.fill(FRANCE)
    own.press("Enter")
    says(box, "Paris, 0.77")
    box.get_by_role("radio", name="France").press("Space")  # L12H8 looked hardest at another word
    cell(box, "L12H8").press("Home")
    for _ in range(23):
        page.keyboard.press("ArrowRight")
    for _ in range(4):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(box.get_by_role("gridcell", selected=True)).to_have_accessible_name(
        "L23H4: 0.90 on France"
    )
    box.get_by_role("radio", name="with its numbers").check()
    says(box, "The model goes on with Berlin, 0.79.")
    other = box.get_by_role("textbox", name="second sentence")
    other.fill("People who live in Japan speak")
    other.press("Enter")
    says(box, "The model goes on with Tokyo, 0.77.")
    box.get_by_role("radio", name="muted", exact=True).check()
    says(box, "Paris falls from 0.77 to 0.14.")

    box.get_by_role("radio", name="what muting does").check()
    bar = box.get_by_role("progressbar").element_handle()
    page.wait_for_function(REACHES, arg=[bar, 2])  # looked at in each frame: a layer is quick
    box.get_by_role("button", name="Stop").click()
    so_far = box.get_by_role("progressbar").get_attribute("value")
    page.wait_for_timeout(1000)
    assert box.get_by_role("progressbar").get_attribute("value") == so_far
    assert 2 <= int(so_far) < 30
    box.get_by_role("button", name="Go on").click()
    page.wait_for_function(REACHES, arg=[bar, int(so_far) + 2])
    box.get_by_role("button", name="Stop").click()
    assert [line for line in violations(page) if "attn-" in line] == []
    photograph(box, "sentence.lab")

    own.fill(" ")
    own.press("Enter")
    says(box, "text is empty")
    own.fill(NASTY)
    own.press("Enter")
    expect(box.locator(".attn-token span").first).to_have_text("<")
    assert box.locator("img").count() == 0
    stop_kernels(context)
    expect(box.get_by_role("radio", name="muted", exact=True)).to_be_enabled()
    own.fill(FRANCE + " the")
    own.press("Enter")
    says(box, "kernel")
