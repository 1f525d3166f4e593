"""A reader's JupyterLab: every notebook is run and every slider is moved in a real browser.

What a panel must show is computed here, by attnlib in this process, and compared with what stands
on the page. Screenshots of all of it land in tests/screenshots/.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
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
from attnlib.panels.gpt2 import GPT2_HEADS
from attnlib.panels.heads import ONE_HEAD, STACKED_HEADS, WEIGHT_SPLIT
from attnlib.panels.learning import TRAINING_STEP
from attnlib.panels.mistakes import GALLERY
from attnlib.panels.panel import MOST_BUTTONS, Panel, spelled
from sliders_page import panels_of
from support.browser_tools import NO_BROWSER, open_browser, running_jupyterlab
from support.cases import ALL_PANELS
from support.exercise_tools import needed_cells
from support.notebook_tools import MAY_RAISE, NOTEBOOKS, ROOT, code_cells, read, source, tags
from support.rounding import is_uncompared

pytestmark = pytest.mark.browser

SCREENSHOTS = Path(__file__).with_name("screenshots")
SECONDS = 1000  # Playwright counts in milliseconds
ERRORS = "[data-mime-type$='.error'], [data-mime-type$='.stderr']"

LOOK = """panel => {
    const { width, height } = panel.getBoundingClientRect();
    const controls = [...panel.querySelectorAll("input, select")].flatMap(control => {
        const { x, y, width } = control.getBoundingClientRect();
        const corner = panel.getBoundingClientRect();
        return [x - corner.x, y - corner.y, width];
    });
    return {
        lines: [...panel.querySelectorAll("[role=status]")].map(line => line.textContent),
        pictures: [...panel.querySelectorAll(".attn-picture > svg")].map(svg => svg.outerHTML),
        svgs: panel.querySelectorAll("svg").length,
        outputs: panel.closest(".jp-Cell")?.querySelectorAll(".jp-OutputArea-child").length,
        room: [width, height, ...controls],
    };
}"""
IS_DRAWN = """([panel, svg]) => {
    const sheet = document.createElement("div");
    sheet.innerHTML = svg;
    return sheet.innerHTML === panel.querySelector(".attn-picture")?.innerHTML;
}"""
COLORS = """panel => {
    const shown = getComputedStyle(panel);
    const word = getComputedStyle(panel.querySelector("svg text"));
    return { ground: shown.backgroundColor, ink: shown.color, word: word.fill };
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
    """JupyterLab on a copy of the notebooks without outputs, so that all that shows is new.

    Cells whose output is not compared, and that nothing else builds on, do nothing there.
    """
    folder = tmp_path_factory.mktemp("lesson")
    (folder / "notebooks").mkdir()
    for path in NOTEBOOKS:
        notebook = read(path)
        shown = {i for i, _ in panels_of(notebook)}
        kept = {
            i: source(cell)
            for i, cell in code_cells(notebook)
            if i in shown or not is_uncompared(cell)
        }
        needed = needed_cells(notebook, kept)
        for i, cell in code_cells(notebook):
            cell |= {"outputs": [], "execution_count": None}
            if i not in needed:  # what nobody compares, timings for the most part: nbval runs it
                cell["source"] = "pass"
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
    expect(page.locator(".attn-panel")).to_have_count(len(panels))
    for old in SCREENSHOTS.glob(f"{path.stem}.*.png"):
        old.unlink()
    if os.environ.get("CI") != "true":  # there nobody looks at them
        photograph_all(page, path.stem)
    for i, panel in panels:
        box = cells.nth(i - 1).locator(".attn-panel")
        move_sliders(page, box, panel, path.stem)
        drag_slider(page, box, panel)
    expect(page.locator(".jp-Dialog")).to_have_count(0)


BUSY = (
    "from attnlib.panels import WEIGHT_SPLIT\nfrom attnlib.panels.widgets import PanelBox\n\n"
    "PanelBox(WEIGHT_SPLIT)",
    "import time\n\ntime.sleep(600)",
)
LARGE = (
    "import attnlib.panels.panel\n\nattnlib.panels.panel.MOST_PAGES = 1",
    BUSY[0].replace("WEIGHT_SPLIT", "GPT2_HEADS"),
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
    move_sliders(page, box, GPT2_HEADS, "large")
    drag_slider(page, box, GPT2_HEADS)


def open_notebook(page: Page, lab: dict, name: str, sources: tuple[str, ...]) -> dict:
    """Open a new notebook of code cells."""
    notebook = read(NOTEBOOKS[0])
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"] = [{**cell, "id": f"c{i}", "source": s} for i, s in enumerate(sources)]
    Path(lab["root_dir"], f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    page.goto(f"lab/tree/{name}.ipynb?reset")
    return notebook


# A page without a kernel


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the page of all sliders."""
    path = tmp_path_factory.mktemp("page") / "sliders.html"
    sliders_page.main([str(path)])
    return path.as_uri()


@pytest.fixture
def open_page(browser: Browser, written: str) -> Iterator[Callable[..., Page]]:
    """Open the page of all sliders, in a window that may be narrow, dark and so on."""
    complaints: list[str] = []
    contexts = []

    def opened(width: int = 1400, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 1000}, **options)
        contexts.append(context)
        page = context.new_page()
        complaints.append(listen_to(page, written))
        page.goto(written)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not any(complaints), complaints


def box_of(page: Page, panel: Panel) -> Locator:
    return page.get_by_role("group", name=panel.name, exact=True)


def test_sliders_on_a_page_without_a_kernel(open_page: Callable[..., Page]):
    page = open_page()
    panels = [panel for path in NOTEBOOKS for _, panel in panels_of(read(path))]
    expect(page.locator(".attn-panel")).to_have_count(len(panels))
    for panel in panels:
        move_sliders(page, box_of(page, panel), panel, "page")


def test_home_and_end(open_page: Callable[..., Page]):
    page = open_page()
    box, state = box_of(page, ONE_HEAD), dict(ONE_HEAD.default)
    for control, values in ONE_HEAD.controls.items():
        slider = box.get_by_role("slider", name=control, exact=True)
        for key, value in (("End", values[-1]), ("Home", values[0])):
            slider.press(key)
            state[control] = value
            check_shows(page, box, ONE_HEAD, state)
            expect(slider).to_have_attribute("aria-valuetext", spelled(value))


def test_a_slider_by_pointer(open_page: Callable[..., Page]):
    """A list and buttons too; the line says what is shown."""
    page = open_page()
    box = box_of(page, STACKED_HEADS)
    slider = box.get_by_role("slider")
    room = slider.bounding_box()
    for share, value in ((0.99, 8), (0.01, 1)):
        slider.click(position={"x": share * room["width"], "y": room["height"] / 2})
        check_shows(page, box, STACKED_HEADS, {"num_heads": value})
    box, state = box_of(page, GALLERY), dict(GALLERY.default)
    state["mistake"] = GALLERY.controls["mistake"][3]
    box.get_by_role("combobox", name="mistake", exact=True).select_option(state["mistake"])
    check_shows(page, box, GALLERY, state)
    state["condition"] = "half precision"
    box.get_by_role("radio", name="half precision", exact=True).check()
    check_shows(page, box, GALLERY, state)


def test_time_plays_and_steps(open_page: Callable[..., Page]):
    page = open_page()
    page.clock.install()
    box, values = box_of(page, TRAINING_STEP), TRAINING_STEP.controls["step"]
    button = {name: box.get_by_role("button", name=name) for name in ("Play", "Pause", "Step")}
    button["Step"].click()  # after the end comes the beginning
    check_shows(page, box, TRAINING_STEP, {"step": values[0]})
    button["Step"].click()
    check_shows(page, box, TRAINING_STEP, {"step": values[1]})
    button["Play"].click()
    check_shows(page, box, TRAINING_STEP, {"step": values[2]})
    page.clock.run_for(SECONDS)
    check_shows(page, box, TRAINING_STEP, {"step": values[3]})
    button["Pause"].click()
    page.clock.run_for(10 * SECONDS)
    check_shows(page, box, TRAINING_STEP, {"step": values[3]})
    button["Play"].click()
    page.clock.run_for(60 * SECONDS)
    check_shows(page, box, TRAINING_STEP, {"step": values[-1]})
    expect(button["Play"]).to_be_visible()


def test_nothing_plays_where_motion_is_not_wanted(open_page: Callable[..., Page]):
    box = box_of(open_page(reduced_motion="reduce"), TRAINING_STEP)
    expect(box.get_by_role("button")).to_have_text(["Step"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_can_be_read_light_and_dark(open_page: Callable[..., Page], scheme: str):
    page = open_page(color_scheme=scheme)
    for panel in (STACKED_HEADS, GALLERY):
        colors = box_of(page, panel).evaluate(COLORS)
        assert contrast(colors["ink"], colors["ground"]) >= 4.5
        assert contrast(colors["word"], colors["ground"]) >= 4.5
        assert (luminance(colors["ground"]) < 0.1) == (scheme == "dark")


@pytest.mark.parametrize("width", [390, 1000])
def test_a_narrow_window(open_page: Callable[..., Page], width: int):
    """Nothing sticks out of the page, and no picture is smaller than three quarters."""
    page = open_page(width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for panel in ALL_PANELS:
        box = box_of(page, panel)
        photograph(box, f"page.{width}.{panel.name}".replace(" ", "-"))
        svg = box.locator("svg")
        share = svg.bounding_box()["width"] / float(svg.get_attribute("width"))
        assert 0.749 <= share <= 1.001
        for control in box.locator("label, button, select").all():
            assert control.bounding_box()["height"] >= 44


def test_a_page_without_javascript(open_page: Callable[..., Page]):
    page = open_page(java_script_enabled=False)
    boxes = page.locator(".attn-panel")
    expect(boxes).to_have_count(len(ALL_PANELS))
    box = boxes.filter(has_text=STACKED_HEADS.page(STACKED_HEADS.default)["line"])
    expect(box.get_by_role("img", name=STACKED_HEADS.picture().alt, exact=True)).to_be_visible()


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as CSS has them, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    shares = zip((0.2126, 0.7152, 0.0722), re.findall(r"[\d.]+", color), strict=False)
    return sum(share * (float(value) / 255) ** 2.2 for share, value in shares)


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
    """Move each control by keyboard to its last value, its first, and back to its default."""
    state = dict(panel.default)
    before = check_shows(page, box, panel, state)
    for control, values in panel.controls.items():
        control_of(box, panel, control, state[control]).focus()  # and the keys keep it there
        for key, value in moves(values, panel.default[control]):
            page.keyboard.press(key)
            state[control] = value
            after = check_shows(page, box, panel, state)
            assert after["pictures"] != before["pictures"], f"{state}: the same picture as before"
            assert after["outputs"] == before["outputs"], f"{state}: a new output below the panel"
            assert after["room"] == pytest.approx(before["room"], abs=0.1), f"{state}: it jumps"
            check_says(box, panel, control, value)
            before = after
            if value in (values[0], values[-1]):
                here = f"{name}.{panel.name}.{control}={spelled(value)}"
                photograph(box, here.replace(" ", "-"))


def control_of(box: Locator, panel: Panel, control: str, value: Any) -> Locator:
    """Return a control as a screen reader finds it; of radio buttons, the one with the value."""
    if not isinstance(value, str):
        return box.get_by_role("slider", name=control, exact=True)
    if len(panel.controls[control]) > MOST_BUTTONS:
        return box.get_by_role("combobox", name=control, exact=True)
    group = box.get_by_role("group", name=control, exact=True)
    return group.get_by_role("radio", name=value, exact=True)


def check_says(box: Locator, panel: Panel, control: str, value: Any) -> None:
    """Check that the control says its value."""
    said = control_of(box, panel, control, value)
    if not isinstance(value, str):
        expect(said).to_have_attribute("aria-valuetext", spelled(value))
        expect(said.locator("xpath=..").locator("output")).to_have_text(spelled(value))
    elif len(panel.controls[control]) > MOST_BUTTONS:
        expect(said.locator("option:checked")).to_have_text(value)
    else:
        expect(said).to_be_checked()


def drag_slider(page: Page, box: Locator, panel: Panel) -> None:
    """Press keys faster than pictures can be drawn: the last value is shown, and stays."""
    control, values = next(iter(panel.controls.items()))
    control_of(box, panel, control, panel.default[control]).focus()
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


@cache
def expected(name: str, state: tuple[Any, ...]) -> tuple[str, str, str]:
    """Return the line, the picture and its alt text that attnlib computes for a state."""
    (panel,) = (panel for panel in ALL_PANELS if panel.name == name)
    data = panel.compute(**dict(zip(panel.controls, state, strict=True)))
    scene = panel.draw(data)
    return panel.readout(data), scene.svg(), scene.alt


def check_shows(page: Page, box: Locator, panel: Panel, state: dict[str, Any]) -> dict[str, Any]:
    """Wait until the panel shows the state, one line and one picture; return what it shows."""
    line, svg, alt = expected(panel.name, tuple(state.values()))
    try:
        drawn = [box.element_handle(), svg]
        page.wait_for_function(IS_DRAWN, arg=drawn, timeout=20 * SECONDS)
    except TimeoutError:
        pytest.fail(f"{state}: the picture is not the one that attnlib draws")
    shown = box.evaluate(LOOK)
    assert shown["lines"] == [line]
    assert len(shown["pictures"]) == shown["svgs"] == 1, f"{state}: drawn twice"
    expect(box.locator("svg")).to_have_attribute("aria-label", alt)
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
