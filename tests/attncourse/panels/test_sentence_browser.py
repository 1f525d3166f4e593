"""The panel of one's own sentence in a page without Python; test_in_jupyterlab has it with one."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from attncourse.panels.sentence import MODULE, TEXTS, key_of, recorded_answers
from book import sentence_section
from support.panel_tools import photograph
from support.touch_tools import violations

pytestmark = pytest.mark.browser

FRANCE, ITALY, JAPAN = TEXTS[:3]
REOPENED = """async text => {  // the widget as JupyterLab restores it, without a kernel
    const file = new Blob([text], { type: "text/javascript" });
    const { default: widget } = await import(URL.createObjectURL(file));
    const el = document.querySelector("main").appendChild(document.createElement("div"));
    const get = name => name === "live" || sheets[0];
    widget.render({ el, model: { comm_live: false, get, on() {}, off() {} } });
}"""


@pytest.fixture
def open_box(open_section: Callable[..., Page]) -> Callable[..., Locator]:
    def box(*how: Any, **options: Any) -> Locator:
        page = open_section(sentence_section(), *how, **options)
        return page.get_by_role("group", name="your sentence")

    return box


def says(box: Locator, text: str) -> None:
    expect(box.get_by_role("status")).to_contain_text(text)


def cell(box: Locator, name: str) -> Locator:
    return box.get_by_role("gridcell", name=f"{name}:")


def test_twelve_countries_by_keyboard(open_box):
    """Rome in Paris; then another head, by arrow keys, of which such a page knows less."""
    box = open_box()
    press = box.page.keyboard.press
    says(box, "The model goes on with Paris, 0.77. From “is”, L23H4 looks at France (0.90)")
    press("Tab")
    press("ArrowDown")  # Italy; what was chosen there makes room
    says(box, "The model goes on with Rome, 0.38. From “is”, L23H4 looks at Italy")
    press("ArrowUp")
    others = box.get_by_role("combobox", name="second sentence")
    others.select_option(ITALY)
    said = recorded_answers()[key_of({"text": FRANCE, "head": [23, 4], "from": ITALY})]
    says(box, said["line"])
    expect(box.get_by_role("listitem").first).to_have_text("Rome0.47")
    expect(box.get_by_role("listitem").filter(has_text="Paris")).to_have_text("Paris0.00")
    italian = recorded_answers()[key_of({"text": ITALY, "head": [23, 4]})]["aloud"]
    expect(box.get_by_text("From the second sentence: " + ", ".join(italian))).to_be_visible()
    expect(box.locator(".attn-asks")).to_have_attribute("data-sign", "⇄ ")
    expect(box.locator(".attn-lender")).to_have_text("ThecapitalofItalyis")
    expect(box.locator(".attn-lender b")).to_have_text("Italy")
    box.get_by_role("radio", name="with its numbers").press("ArrowLeft")
    says(box, "L23H4 is muted: Paris falls from 0.77 to 0.14.")
    expect(box.get_by_text("What it writes: nothing, it is muted.")).to_be_visible()
    expect(box.locator(".attn-asks")).to_have_attribute("data-sign", "✕ ")
    expect(box.locator(".attn-lender")).to_be_hidden()
    box.get_by_role("radio", name="muted", exact=True).press("ArrowLeft")
    expect(box.get_by_text("read aloud: France, Breton, French")).to_be_visible()
    expect(box.locator(".attn-asks")).to_have_attribute("data-sign", "")
    cell(box, "L23H4").press("ArrowRight")
    expect(box.locator(":focus")).to_have_accessible_name(re.compile("^L24H4: .* on France$"))
    press("Enter")
    says(box, "The model goes on with Paris, 0.77. From “is”, L24H4 looks at")
    expect(box.get_by_role("radio", name="muted", exact=True)).to_be_disabled()
    expect(others).to_be_disabled()
    expect(box.get_by_text("A change is recorded for L23H4 only.")).to_be_visible()
    expect(box.get_by_text("In the notebook, with the model, you can type")).to_be_visible()
    box.get_by_role("radio", name="France 0").press("ArrowLeft")
    expect(cell(box, "L24H4")).to_have_accessible_name(re.compile("on of$"))


def test_every_head_is_muted_in_turn_and_one_stands_out(open_box):
    box = open_box()
    box.get_by_role("radio", name="what muting does to Paris").check()
    says(box, "Of all 270, muting L23H4 costs Paris most: 0.77 → 0.14. Half of them leave")
    expect(cell(box, "L23H4 muted")).to_have_accessible_name("L23H4 muted: Paris 0.14, was 0.77")
    expect(box.get_by_role("button", name="muted:").first).to_have_text("L23H4 0.14")
    expect(box.get_by_role("progressbar")).to_have_count(0)
    box.get_by_role("combobox", name="your sentence").select_option(JAPAN)
    says(box, "costs Tokyo most: 0.70 → 0.31")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (700, "light"), (900, "dark")])
def test_nobody_is_shut_out_and_nothing_sticks_out_or_jumps(open_box, width, scheme):
    box = open_box(width, color_scheme=scheme)
    says(box, "Paris")
    height, page = box.bounding_box()["height"], box.page
    photograph(box, f"sentence.{width}.{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box.get_by_role("radio", name="with its numbers").check()
    says(box, "Rome, 0.47")
    box.get_by_role("radio", name="what muting does").check()
    says(box, "Rome, 0.47. Without that, muting L23H4 costs Paris most")
    assert box.bounding_box()["height"] == pytest.approx(height, abs=0.5)
    photograph(box, f"sentence.{width}.{scheme}.rome")
    assert violations(page, once=True) == []
    parts = (
        box.get_by_role("group", name="L23H4 is"),
        *map(box.locator, (".attn-next", ".attn-looks", ".attn-heads")),
    )
    change, bars, arcs, grid = (part.bounding_box() for part in parts)
    assert change["y"] < min(bars["y"], arcs["y"]) < grid["y"]  # as the focus goes
    if width == 390:  # a change and its bars on one screen, a head and its arcs on one
        assert bars["y"] + bars["height"] - change["y"] < 800
        assert grid["y"] + grid["height"] - arcs["y"] < 800
        assert min(arcs["width"], grid["width"] / 16) >= 20


def test_a_bar_moves_to_its_new_place_unless_no_motion_is_wanted(open_box):
    running = "list => list.getAnimations({ subtree: true }).length"
    for wanted in ("no-preference", "reduce"):
        box = open_box(reduced_motion=wanted)
        says(box, "Paris")
        bars = box.get_by_role("list", name="next words")
        box.page.wait_for_timeout(400)
        assert bars.evaluate(running) == 0
        box.get_by_role("radio", name="muted", exact=True).check()
        says(box, "is muted")
        assert (bars.evaluate(running) > 0) == (wanted == "no-preference")


def test_numbers_travel_from_the_last_word_above_to_the_last_word_below(open_box):
    at = "part => { const { x, width } = part.getBoundingClientRect(); return x + width / 2; }"
    for wanted in ("no-preference", "reduce"):
        box = open_box(390, reduced_motion=wanted)
        box.get_by_role("radio", name="with its numbers").check()
        says(box, "Rome, 0.47")
        lent = box.locator(".attn-lent")
        moving = lent.evaluate("part => part.getAnimations({ subtree: true }).length")
        assert (moving > 0) == (wanted == "no-preference")
        above, below, way = (
            box.locator(part).last.evaluate(at)
            for part in (".attn-lender span", ".attn-token", ".attn-way path")
        )
        assert above == pytest.approx(below, abs=1)
        assert way == pytest.approx(below, abs=2)
        expect(lent).to_have_attribute("aria-hidden", "true")


def test_without_a_kernel_it_says_which_key_to_press(open_box):
    box = open_box()
    box.page.evaluate(REOPENED, MODULE.read_text(encoding="utf-8"))
    again = box.nth(1)
    says(again, "No kernel answers. Click into this cell and press Shift+Enter")
    cell(again, "L11H6").click()
    says(again, "From “is”, L11H6 looks at itself (0.94)")
    again.get_by_role("radio", name="muted", exact=True).check()
    says(again, "No kernel answers.")
