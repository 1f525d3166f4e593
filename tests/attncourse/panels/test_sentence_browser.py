"""The panel of one's own sentence in a browser: in a page without Python, and in JupyterLab."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest
from playwright.sync_api import Browser, Locator, expect

from attncourse.panels.sentence import MODULE, TEXTS, key_of, recorded_answers
from book import FRONT_END, SHEET, sentence_section
from support.browser_tools import found_browser, running_jupyterlab
from support.model_tools import the_model
from support.notebook_tools import NOTEBOOKS, read
from support.panel_tools import photograph
from support.touch_tools import in_place, opened, violations

pytestmark = pytest.mark.browser

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A sentence</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body style="margin: 0"><main><h1>A sentence</h1>@</main></body></html>"""
FRANCE, ITALY, JAPAN = TEXTS[:3]
ARCS_IN = """async cell => {  // milliseconds from a click to arcs of another color, painted
    const arcs = cell.closest("form").querySelector(".attn-loops");
    const color = () => arcs.firstElementChild.getAttribute("stroke");
    const before = color(), start = performance.now();
    cell.click();
    if (color() === before) return Infinity;
    await new Promise(painted => requestAnimationFrame(() => setTimeout(painted)));
    return performance.now() - start;
}"""
REOPENED = """async text => {  // the widget as JupyterLab restores it, without a kernel
    const file = new Blob([text], { type: "text/javascript" });
    const { default: widget } = await import(URL.createObjectURL(file));
    const el = document.querySelector("main").appendChild(document.createElement("div"));
    const get = name => name === "live" || sheets[0];
    widget.render({ el, model: { comm_live: false, get, on() {}, off() {} } });
}"""
CELL = """from attncourse.language import language_model
from attncourse.panels.sentence import SentenceBox

SentenceBox(language_model())"""
TWELVE = "When the old king came home from the war, he met his"
NASTY = "<img src=x onerror=alert(1)> </script> is"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with found_browser() as found:
        yield found


@pytest.fixture
def open_box(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Locator]]:
    path = tmp_path / "page.html"
    section = SHEET.sub(in_place, sentence_section())
    path.write_text(PAGE.replace("@", section + FRONT_END, 1), encoding="utf-8")
    with ExitStack() as stack:

        def box(width: int = 900, **options: object) -> Locator:
            viewport = {"width": width, "height": 800}
            page = opened(browser, path.as_uri(), viewport=viewport, **options)
            return stack.enter_context(page).get_by_role("group", name="your sentence")

        yield box


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
    box.get_by_role("radio", name="with its numbers").press("ArrowLeft")
    says(box, "L23H4 is muted: Paris falls from 0.77 to 0.14.")
    expect(box.get_by_text("read aloud: France, Breton, French")).to_be_visible()
    cell(box, "L23H4").press("ArrowRight")
    expect(box.locator(":focus")).to_have_accessible_name(re.compile("^L24H4: .* on France$"))
    press("Enter")
    says(box, "The model goes on with Paris, 0.77. From “is”, L24H4 looks at")
    expect(box.get_by_role("radio", name="muted", exact=True)).to_be_disabled()
    expect(box.get_by_text("In the notebook, with the model, you can type")).to_be_visible()
    box.get_by_role("radio", name="France 0").press("ArrowLeft")
    expect(cell(box, "L24H4")).to_have_accessible_name(re.compile("on of$"))


def test_every_head_is_muted_in_turn_and_one_stands_out(open_box):
    box = open_box()
    box.get_by_role("radio", name="what muting does to Paris").check()
    says(box, "Muted in turn, L23H4 matters most to Paris: 0.77 becomes 0.14. Half of all heads")
    expect(cell(box, "L23H4 muted")).to_have_accessible_name("L23H4 muted: Paris 0.14, was 0.77")
    expect(box.get_by_role("button", name="muted:").first).to_have_text("L23H4 0.14")
    expect(box.get_by_role("progressbar")).to_have_count(0)
    box.get_by_role("combobox", name="your sentence").select_option(JAPAN)
    says(box, "matters most to Tokyo: 0.70 becomes 0.31")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 700, 900])
def test_nobody_is_shut_out_and_nothing_sticks_out_or_jumps(open_box, width, scheme):
    box = open_box(width, color_scheme=scheme)
    says(box, "Paris")
    height, page = box.bounding_box()["height"], box.page
    photograph(box, f"sentence.{width}.{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box.get_by_role("radio", name="with its numbers").check()
    says(box, "Rome, 0.47")
    box.get_by_role("radio", name="what muting does").check()
    says(box, "Muted in turn")
    assert box.bounding_box()["height"] == pytest.approx(height, abs=0.5)
    photograph(box, f"sentence.{width}.{scheme}.rome")
    assert violations(page) == []
    if width == 390:  # a head and its arcs on one screen
        arcs, grid = (box.locator(part).bounding_box() for part in (".attn-looks", ".attn-heads"))
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


def test_without_a_kernel_it_says_which_key_to_press(open_box):
    box = open_box()
    box.page.evaluate(REOPENED, MODULE.read_text(encoding="utf-8"))
    again = box.nth(1)
    says(again, "No kernel answers. Click into this cell and press Shift+Enter")
    cell(again, "L11H6").click()
    says(again, "From “is”, L11H6 looks at itself (0.94)")
    again.get_by_role("radio", name="muted", exact=True).check()
    says(again, "No kernel answers.")


# In JupyterLab, with the model


@pytest.fixture
def lab_box(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locator]:
    """Yield the panel of a notebook that was just run; its page must log no error."""
    the_model()
    folder = tmp_path_factory.mktemp("lesson")
    new = {"cell_type": "code", "id": "c0", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = read(NOTEBOOKS[0]) | {"cells": [new | {"source": CELL}]}
    (folder / "own.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    with running_jupyterlab(folder, tmp_path_factory.mktemp("home")) as server:
        context = browser.new_context(
            viewport={"width": 1366, "height": 768},
            base_url=server["url"],
            extra_http_headers={"Authorization": f"token {server['token']}"},
        )
        page, errors = context.new_page(), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(dialog.message))
        page.set_default_timeout(60_000)
        page.goto("lab/tree/own.ipynb?reset")
        page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for()
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        box = page.get_by_role("group", name="your sentence")
        expect(box.get_by_role("status")).to_contain_text("Paris, 0.77", timeout=120_000)
        yield box
        context.close()
        assert errors == []


def test_a_sentence_of_ones_own_in_jupyterlab(lab_box):  # noqa: PLR0915, one sitting of a reader
    box, model = lab_box, the_model()
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
    times = []
    for layer, head in ((23, 3), (7, 5), (12, 8)):
        times.append(cell(box, f"L{layer}H{head}").evaluate(ARCS_IN))
        weight = float(run.weights(layer, head)[-1, -2])
        shown = cell(box, f"L{layer}H{head}").get_attribute("aria-label")
        assert f"{weight:.2f}" in shown or f"{weight + 0.005:.2f}" in shown
    print(f"arcs after {', '.join(f'{time:.0f}' for time in times)} ms")
    assert max(times) < 3 * 100

    own.fill(FRANCE)
    own.press("Enter")
    says(box, "Paris, 0.77")
    cell(box, "L12H8").press("Home")
    for _ in range(23):
        box.page.keyboard.press("ArrowRight")
    for _ in range(4):
        box.page.keyboard.press("ArrowUp")
    box.page.keyboard.press("Enter")
    expect(box.get_by_role("gridcell", selected=True)).to_have_accessible_name(
        "L23H4: 0.90 on France"
    )
    box.get_by_role("radio", name="with its numbers").check()
    says(box, "The model goes on with Rome, 0.47.")
    other = box.get_by_role("textbox", name="second sentence")
    other.fill("People who live in Japan speak")
    other.press("Enter")
    says(box, "The model goes on with Tokyo, 0.77.")
    box.get_by_role("radio", name="muted", exact=True).check()
    says(box, "Paris falls from 0.77 to 0.14.")

    box.get_by_role("radio", name="what muting does").check()
    box.get_by_text("2 of 30 layers").wait_for()
    box.get_by_role("button", name="Stop").click()
    so_far = box.get_by_role("progressbar").get_attribute("value")
    box.page.wait_for_timeout(1000)
    assert box.get_by_role("progressbar").get_attribute("value") == so_far
    assert 2 <= int(so_far) < 30
    box.get_by_role("button", name="Go on").click()
    expect(box.get_by_role("status")).to_contain_text("Muted in turn, L23H4", timeout=120_000)
    assert [line for line in violations(box.page) if "attn-" in line] == []
    photograph(box, "sentence.lab")

    own.fill(" ")
    own.press("Enter")
    says(box, "text is empty")
    own.fill(NASTY)
    own.press("Enter")
    expect(box.locator(".attn-token span").first).to_have_text("<")
    assert box.locator("img").count() == 0
    for kernel in box.page.context.request.get("api/kernels").json():
        box.page.context.request.delete(f"api/kernels/{kernel['id']}")
    expect(box.get_by_role("radio", name="muted", exact=True)).to_be_enabled()
    own.fill(FRANCE + " the")
    own.press("Enter")
    says(box, "kernel")
