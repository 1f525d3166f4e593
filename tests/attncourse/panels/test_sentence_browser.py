"""The panel of one's own sentence in a page without Python; test_in_jupyterlab has it with one."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from attncourse.panels.sentence import TEXTS, recorded_answers, request_key
from book import sentence_section
from support.panel_tools import violations

pytestmark = pytest.mark.browser

FRANCE, ITALY, JAPAN, GERMANY = TEXTS[:4]
FROM = "with its numbers from"


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


def test_a_head_is_ablated_and_gets_the_numbers_of_another_country(open_box):
    box = open_box(reduced_motion="reduce")
    says(box, "The model goes on with Paris, 0.77. From “is”, L23H4 looks at France (0.90)")
    box.get_by_role("combobox", name="second sentence").select_option(ITALY)
    box.get_by_role("radio", name=FROM).check()
    says(
        box,
        recorded_answers()[request_key({"text": FRANCE, "head": [23, 4], "from": ITALY})]["line"],
    )
    expect(box.get_by_role("listitem").first).to_have_text("Rome0.47")
    expect(box.locator(".attn-answer")).to_have_text("Rome")
    italian = recorded_answers()[request_key({"text": ITALY, "head": [23, 4]})]["aloud"]
    expect(box.get_by_text("From the second sentence: " + ", ".join(italian))).to_be_visible()
    box.get_by_role("radio", name="ablated", exact=True).check()
    says(box, "L23H4 is ablated: Paris falls from 0.77 to 0.14.")
    box.get_by_role("radio", name="as it is").check()
    cell(box, "L23H4").press("ArrowRight")
    box.page.keyboard.press("Enter")
    says(box, "The model goes on with Paris, 0.77. From “is”, L24H4 looks at")
    expect(box.get_by_role("radio", name="ablated", exact=True)).to_be_disabled()
    expect(box.get_by_text("A change is recorded for L23H4 only.")).to_be_visible()


def test_a_guess_is_answered(open_box):
    box = open_box(reduced_motion="reduce")
    asked = box.get_by_role("group", name="your guess")
    asked.get_by_role("button", name="Hamburg").click()
    says(box, "The model goes on with Berlin, 0.79. You said Hamburg. The model says Berlin.")
    expect(asked.locator(".attn-right")).to_have_text("Berlin")


def test_two_sentences_are_swapped_and_a_link_leads_back(open_box):
    box = open_box(reduced_motion="reduce")
    box.get_by_role("radio", name=FROM).check()
    box.get_by_role("button", name="Swap").click()
    says(box, "L23H4 has its numbers from “The capital of France is”: Berlin falls")
    box.page.wait_for_function("location.hash === '#of=Germany&from=France'")
    again = open_box(state="#of=Cuba&from=Japan")
    says(again, "L23H4 has its numbers from “The capital of Japan is”")
    says(open_box(state="#of=Spain&ablated=L23H4"), "L23H4 is ablated: Madrid")
    says(open_box(state="#of=Atlantis&from=Italy"), "goes on with")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (900, "light")])
def test_nobody_is_shut_out_and_nothing_sticks_out_or_jumps(open_box, width, scheme):
    box = open_box(width, color_scheme=scheme, reduced_motion="reduce")
    says(box, "Paris")
    height, page = box.bounding_box()["height"], box.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box.get_by_role("radio", name=FROM).check()
    box.get_by_role("radio", name="what ablation does").check()
    says(box, "Berlin, 0.79. Without that, ablating L23H4 costs Paris most")
    assert box.bounding_box()["height"] == pytest.approx(height, abs=0.5)
    assert violations(page) == []


def test_every_head_is_ablated_in_turn_and_one_stands_out(open_box):
    box = open_box()
    box.get_by_role("radio", name="what ablation does to Paris").check()
    says(box, "Of all 270, ablating L23H4 costs Paris most: 0.77 → 0.14. Half of them leave")
    expect(cell(box, "L23H4 ablated")).to_have_accessible_name(
        "L23H4 ablated: Paris 0.14, was 0.77"
    )
    expect(box.get_by_role("button", name="ablated:").first).to_have_text("L23H4 0.14")
    expect(box.get_by_role("progressbar")).to_have_count(0)
    box.get_by_role("combobox", name="your sentence").select_option(JAPAN)
    says(box, "costs Tokyo most: 0.70 → 0.31")
