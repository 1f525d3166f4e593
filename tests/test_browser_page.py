"""The page of all sliders, in a real browser: every state of every panel, and every way to move it.

What a panel must show is computed here, by attnlib in this process, and compared with what stands
on the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import sliders_page
from attnlib.panels.heads import ONE_HEAD, STACKED_HEADS
from attnlib.panels.learning import TRAINING_STEP
from attnlib.panels.mistakes import GALLERY
from attnlib.panels.panel import Panel, spelled
from sliders_page import panels_of
from support.browser_tools import found_browser
from support.cases import ALL_PANELS
from support.notebook_tools import NOTEBOOKS, read
from support.panel_tools import SECONDS, check_shows, listen_to, move_sliders, photograph

pytestmark = pytest.mark.browser

COLORS = """panel => {
    const shown = getComputedStyle(panel);
    const word = getComputedStyle(panel.querySelector("svg text"));
    return { ground: shown.backgroundColor, ink: shown.color, word: word.fill };
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with found_browser() as browser:
        yield browser


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
    for share, value in ((0.99, 4), (0.01, 1)):
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
    page.clock.install(time=datetime(2000, 1, 1))
    page.clock.pause_at(datetime(2000, 1, 2))  # a slow machine changes nothing
    box, values = box_of(page, TRAINING_STEP), TRAINING_STEP.controls["step"]
    button = {name: box.get_by_role("button", name=name) for name in ("Play", "Pause", "Step")}
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
    button["Step"].click()  # after the end comes the beginning
    check_shows(page, box, TRAINING_STEP, {"step": values[0]})


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
