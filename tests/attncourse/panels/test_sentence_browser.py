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

FRANCE, ITALY, JAPAN, GERMANY = TEXTS[:4]
FROM = "with its numbers from"
REOPENED = """async text => {  // the widget as JupyterLab restores it, without a kernel
    const file = new Blob([text], { type: "text/javascript" });
    const { default: widget } = await import(URL.createObjectURL(file));
    const el = document.querySelector("main").appendChild(document.createElement("div"));
    const get = name => name === "live" || sheets[0];
    widget.render({ el, model: { comm_live: false, get, on() {}, off() {} } });
}"""

CHOOSE = """(box, wanted) => {  // at once, as a table of the first page does
    for (const [name, text] of Object.entries(wanted)) {
        const list = box.querySelector(`select[aria-label="${name}"]`);
        list.value = text;
        list.dispatchEvent(new Event("change"));
    }
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
    sentence = box.get_by_role("combobox", name="your sentence").element_handle()
    while not sentence.evaluate("list => list === document.activeElement"):
        press("Tab")  # past the words and what the head is given
    press("ArrowDown")  # Italy; what was chosen there makes room
    says(box, "The model goes on with Rome, 0.38. From “is”, L23H4 looks at Italy")
    press("ArrowUp")
    others = box.get_by_role("combobox", name="second sentence")
    others.select_option(ITALY)
    expect(box.get_by_role("group", name="your guess")).to_contain_text("with Italy's numbers")
    box.get_by_role("radio", name=FROM).check()
    said = recorded_answers()[key_of({"text": FRANCE, "head": [23, 4], "from": ITALY})]
    says(box, said["line"])
    expect(box.get_by_role("listitem").first).to_have_text("Rome0.47")
    expect(box.get_by_role("listitem").filter(has_text="Paris")).to_have_text("Paris0.00")
    italian = recorded_answers()[key_of({"text": ITALY, "head": [23, 4]})]["aloud"]
    expect(box.get_by_text("From the second sentence: " + ", ".join(italian))).to_be_visible()
    expect(box.locator(".attn-asks")).to_have_attribute("data-sign", "⇄ ")
    expect(box.locator(".attn-lender")).to_have_text("ThecapitalofItalyis")
    expect(box.locator(".attn-lender b")).to_have_text("Italy")
    expect(box.locator(".attn-answer")).to_have_text("Rome")
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
    says(box, "Berlin, 0.79")
    box.get_by_role("radio", name="what muting does").check()
    says(box, "Berlin, 0.79. Without that, muting L23H4 costs Paris most")
    assert box.bounding_box()["height"] == pytest.approx(height, abs=0.5)
    photograph(box, f"sentence.{width}.{scheme}.berlin")
    assert violations(page, once=True) == []
    parts = (
        box.get_by_role("group", name="L23H4 is"),
        *map(box.locator, (".attn-next", ".attn-looks", ".attn-heads")),
    )
    change, bars, arcs, grid = (part.bounding_box() for part in parts)
    assert arcs["y"] < change["y"] < bars["y"] < grid["y"]  # as the focus goes
    if width == 390:  # a change and its bars on one screen, a head and its arcs on one
        assert bars["y"] + bars["height"] - change["y"] < 800
        parts[-1].evaluate("grid => grid.scrollIntoView({ block: 'end' })")
        arcs, grid = (part.bounding_box() for part in parts[-2:])
        assert 0 <= arcs["y"] < arcs["y"] + arcs["height"] < grid["y"] + 1
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
        assert (bars.evaluate(running) > 0) == (wanted == "no-preference")
        says(box, "is muted")


def test_numbers_travel_from_the_last_word_above_to_the_last_word_below(open_box):
    at = "part => { const { x, width } = part.getBoundingClientRect(); return x + width / 2; }"
    for wanted in ("no-preference", "reduce"):
        box = open_box(390, reduced_motion=wanted)
        box.get_by_role("radio", name=FROM).check()
        lent = box.locator(".attn-lent")
        moving = lent.evaluate("part => part.getAnimations({ subtree: true }).length")
        assert (moving > 0) == (wanted == "no-preference")
        says(box, "Berlin, 0.79")
        above, below, way = (
            box.locator(part).last.evaluate(at)
            for part in (".attn-lender span", ".attn-token", ".attn-way path")
        )
        assert above == pytest.approx(below, abs=1)
        assert way == pytest.approx(below, abs=2)
        expect(lent).to_have_attribute("aria-hidden", "true")


def test_the_answer_comes_in_the_sentence_and_not_before_the_numbers(open_box):
    """Where motion is wanted; else at once. Bars, sentence and line say one thing."""
    told = """panel => [".attn-answer", ".attn-next > :first-child span", "[role=status]"]
        .map(part => panel.querySelector(part).textContent)"""
    for wanted in ("no-preference", "reduce"):
        box = open_box(reduced_motion=wanted)
        says(box, "Paris, 0.77")
        answer, last = box.locator(".attn-answer"), box.locator(".attn-token").last
        before = box.evaluate(told)
        assert before[:2] == ["Paris", "Paris"]
        box.get_by_role("radio", name=FROM).check()
        if wanted == "no-preference":
            assert box.evaluate(told) == before
            assert last.evaluate("word => word.getAnimations().length") == 1  # as they arrive
        else:
            assert box.evaluate(told)[:2] == ["Berlin", "Berlin"]
        expect(answer).to_have_text("Berlin")
        _, bar, line = box.evaluate(told)
        assert bar == "Berlin"
        assert "Berlin, 0.79" in line
        gap = answer.bounding_box()["x"] - last.bounding_box()["x"] - last.bounding_box()["width"]
        assert 0 < gap < 20
        box.get_by_role("radio", name="muted", exact=True).check()
        expect(answer).to_have_text("Paris")


def test_a_guess_is_asked_of_each_pair_and_the_right_word_fills(open_box):
    box = open_box(reduced_motion="reduce")
    own, lent = "Paris", "Berlin"
    asked = box.get_by_role("group", name="your guess")
    assert recorded_answers()[key_of({"text": FRANCE})]["words"][0][0] == own
    put = {"text": FRANCE, "head": [23, 4], "from": GERMANY}
    assert recorded_answers()[key_of(put)]["words"][0][0] == lent
    asked.get_by_role("button", name="Hamburg").click()
    says(box, "The model goes on with Berlin, 0.79. You said Hamburg. The model says Berlin.")
    expect(asked.locator(".attn-right")).to_have_text(lent)
    expect(asked.get_by_role("button", name="Hamburg")).to_have_attribute("aria-pressed", "true")
    assert violations(box.page, once=True) == []
    box.get_by_role("radio", name="as it is").check()
    expect(asked).to_be_hidden()
    box.get_by_role("radio", name=FROM).check()
    says(box, "Berlin, 0.79.")
    assert "guesses" not in box.get_by_role("status").text_content()
    box.get_by_role("radio", name="as it is").check()
    box.get_by_role("combobox", name="your sentence").select_option("The capital of Japan is")
    expect(asked).to_contain_text("Guess: with Germany's numbers")
    asked.get_by_role("button", name="Berlin", exact=True).click()
    says(
        box,
        "You said Berlin. So does the model, though its sentence says Japan. 1 of 2 guesses right.",
    )
    for word, told in {
        lent: f"You said {lent}. So does the model, though its sentence says France.",
        own: f"You said {own}, and the sentence asks for it. The model says {lent}.",
    }.items():
        again = open_box(reduced_motion="reduce")
        again.get_by_role("button", name=word, exact=True).click()
        says(again, told)
    skipped = open_box(reduced_motion="reduce")
    skipped.get_by_role("radio", name=FROM).check()
    expect(skipped.get_by_role("group", name="your guess")).to_be_hidden()
    skipped.get_by_role("radio", name="as it is").check()  # the answer has been seen
    expect(skipped.get_by_role("group", name="your guess")).to_be_hidden()


def test_what_muting_does_is_told_after_the_numbers_arrived(open_box):
    box = open_box()
    box.get_by_role("radio", name="what muting does to Paris").check()
    says(box, "muting L23H4 costs Paris most")
    box.get_by_role("radio", name=FROM).check()
    says(box, "Berlin, 0.79")
    box.get_by_role("button", name="Swap").click()
    says(box, "from “The capital of France is”: Berlin falls")
    says(box, "Without that, muting L23H4 costs Berlin most")
    assert box.locator(".attn-answer").text_content() == "Paris"
    box.get_by_role("radio", name="muted", exact=True).check()
    says(box, "L23H4 is muted: Berlin falls")
    box.get_by_role("radio", name="what muting does").check(force=True)
    box.get_by_role("radio", name="weight on").check()
    box.get_by_role("radio", name="what muting does").check()
    says(box, "Of all 270, no other costs Berlin more.")
    assert "Without that" not in box.get_by_role("status").text_content()


def test_another_answer_moves_no_word(open_box):
    box = open_box(reduced_motion="reduce")
    says(box, "Paris")
    places = []
    for change in ("as it is", FROM, "muted"):
        box.get_by_role("radio", name=change, exact=True).check()
        expect(box.get_by_role("radio", name=change, exact=True)).to_be_checked()
        places.append(box.locator(".attn-token").first.bounding_box()["x"])
    assert max(places) - min(places) < 0.5


def test_two_sentences_are_swapped_and_a_link_leads_back(open_box):
    box = open_box()
    box.get_by_role("radio", name=FROM).check()
    says(box, "Berlin, 0.79")
    box.get_by_role("button", name="Swap").click()
    says(box, "L23H4 has its numbers from “The capital of France is”: Berlin falls")
    expect(box.get_by_role("combobox", name="your sentence")).to_have_value(GERMANY)
    expect(box.get_by_role("combobox", name="second sentence")).to_have_value(FRANCE)
    box.page.wait_for_function("location.hash === '#of=Germany&from=France'")
    box.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    box.get_by_role("button", name="Copy link").click()
    expect(box.get_by_role("button", name="Copied", exact=True)).to_be_visible()
    assert box.page.evaluate("navigator.clipboard.readText()") == box.page.url
    again = open_box(state="#of=Cuba&from=Japan")
    says(again, "L23H4 has its numbers from “The capital of Japan is”")
    expect(again.locator(".attn-tokens")).to_contain_text("Cuba")
    expect(again.get_by_role("group", name="your guess")).to_be_hidden()
    again.get_by_role("radio", name="as it is").check()
    again.get_by_role("combobox", name="your sentence").select_option(FRANCE)
    again.page.wait_for_function("location.hash === ''")
    again.evaluate(CHOOSE, {"your sentence": JAPAN, "second sentence": ITALY})
    again.get_by_role("radio", name=FROM).check()
    says(again, "L23H4 has its numbers from “The capital of Italy is”: Tokyo falls")
    muted = open_box(state="#of=Spain&muted=L23H4")
    says(muted, "L23H4 is muted: Madrid")
    for strange in ("#of=Atlantis&from=Italy", "#of=Italy&from=Italy&x", "#a-section"):
        expect(open_box(state=strange).get_by_role("status")).to_contain_text("goes on with")


def test_without_a_kernel_it_says_which_key_to_press(open_box):
    box = open_box()
    box.page.evaluate(REOPENED, MODULE.read_text(encoding="utf-8"))
    again = box.nth(1)
    says(again, "No kernel answers. Click into this cell and press Shift+Enter")
    cell(again, "L11H6").click()
    says(again, "From “is”, L11H6 looks at itself (0.94)")
    again.get_by_role("radio", name="muted", exact=True).check()
    says(again, "No kernel answers.")
