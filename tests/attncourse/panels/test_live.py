"""The panels that compute: their JavaScript gives PyTorch's numbers, and a reader moves them."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect
from torch import Tensor

from attncourse.learning.mini import MiniModel, mini_model
from attncourse.learning.record import LETTERS, recorded_model
from attncourse.panels.gallery import build
from attncourse.panels.live import (
    LEAK_DETECTOR,
    MINI_MODEL,
    MISTAKES,
    PAINTED_PATTERN,
    TYPED_LETTERS,
    LivePanel,
)
from attncourse.variants.faults import ALL_MISTAKES
from attncourse.variants.mistakes import OnePageAttention
from attnlib.functional import attention
from book import live_section
from support.panel_tools import opened, violations

pytestmark = pytest.mark.browser

PANELS = (MINI_MODEL, LEAK_DETECTOR, TYPED_LETTERS, PAINTED_PATTERN)
COUNT = 24  # inputs for each model; every mistake of the detector comes up
CALL = """async ([text, name, sheet, inputs]) => {  // NaN and infinity are no JSON
    const file = new Blob([text], { type: "text/javascript" });
    const module = await import(URL.createObjectURL(file));
    return inputs.map(input => module[name](sheet, ...input));
}"""


@pytest.fixture
def open_live(open_section: Callable[..., Page]) -> Callable[..., Locator]:
    def box(panel: LivePanel, *how: Any, motion: str = "reduce", **options: Any) -> Locator:
        page = open_section(live_section(panel), *how, reduced_motion=motion, **options)
        return page.get_by_role("group", name=panel.title)

    return box


def computed(browser: Browser, panel: LivePanel, name: str, inputs: list[Any]) -> list[Any]:
    """Return what a function of a panel's module computes from each of the inputs."""
    with opened(browser, "about:blank") as page:
        return page.evaluate(CALL, [panel.module(), name, panel.to_json(), inputs])


def says(box: Locator, text: str) -> None:
    expect(box.get_by_role("status")).to_contain_text(text)


# Against PyTorch


def as_pytorch(model: MiniModel, tokens: list[str], query: Any, numbers: Any) -> dict[str, Tensor]:
    """Return what the mini model computes at the last word, step by step."""
    x = model.embedding.weight[[model.words.index(word) for word in tokens]]
    queries, keys, values = (
        f(x) for f in (model.head.W_query, model.head.W_key, model.head.W_value)
    )
    last = queries[-1] if query is None else torch.tensor(query).to(x)
    mixed, weights = attention(last[None], keys, values)
    mixed = mixed[0] if numbers is None else torch.tensor(numbers).to(x)
    written = model.out_proj(mixed)
    logits = model.embedding.weight @ (x[-1] + written)
    found = {"query": last, "keys": keys, "values": values, "scores": keys @ last}
    found |= {"weights": weights[0], "numbers": mixed, "before": x[-1], "written": written}
    return found | {"logits": logits, "probabilities": logits.softmax(dim=-1)}


@torch.no_grad()
def test_the_mini_model_is_that_of_pytorch(browser):
    model, draw = mini_model(), random.Random(1)
    inputs: list[Any] = []
    for i in range(COUNT):
        tokens = draw.choices(model.words, k=draw.randint(1, 12))
        two = [draw.uniform(-9, 9), draw.uniform(-9, 9)]
        change = [{}, {"query": two}, {"numbers": [0, 0]}, {"query": two, "numbers": two[::-1]}][
            i % 4
        ]
        inputs.append([tokens, change])
    shown = computed(browser, MINI_MODEL, "readMini", inputs)
    exact = mini_model().double()
    for (tokens, change), found in zip(inputs, shown, strict=True):
        query, numbers = change.get("query"), change.get("numbers")
        right = as_pytorch(exact, tokens, query, numbers)
        for name, value in right.items():
            check_near(found[name], value)
        if change == {}:
            check_near(found["probabilities"], model.read(" ".join(tokens)).probabilities)
        if numbers == [0, 0] and query is None:
            check_near(found["probabilities"], model.read_ablated(" ".join(tokens)).probabilities)


CLASSES = {mistake.name: mistake.cls for mistake in ALL_MISTAKES}


@torch.no_grad()
def test_every_mistake_of_the_detector_is_that_of_pytorch(browser):
    draw, names = random.Random(2), [*MISTAKES]
    inputs: list[Any] = []
    for i in range(COUNT):
        size = 85 if i % 7 == 0 else 1
        rows = [[size * draw.gauss(0.5, 0.5) for _ in range(3)] for _ in range(6)]
        inputs.append(
            [rows, MISTAKES[names[i % len(names)]], draw.randrange(6), draw.uniform(-3, 3)]
        )
    shown = computed(browser, LEAK_DETECTOR, "shake", inputs)
    for i, ((rows, _, word, by), found) in enumerate(zip(inputs, shown, strict=True)):
        name = names[i % len(names)]
        layer = build(CLASSES.get(name, OnePageAttention)).double()
        x = torch.tensor(rows, dtype=torch.float64)
        changed = x.clone()
        changed[word] += by
        before, after = layer(x[None])[0], layer(changed[None])[0]
        check_near(found["before"], before)
        check_near(found["after"], after)
        check_near(found["moved"], (after - before).abs().amax(dim=-1))


@torch.no_grad()
def test_the_model_of_letters_is_that_of_pytorch_with_places_ablated(browser):
    draw = random.Random(3)
    inputs: list[Any] = []
    for i in range(COUNT):
        half = draw.choices(range(24), k=draw.randint(1, 24))
        letters = (half * 2)[: draw.randint(1, 2 * len(half))]
        cells = [[head, place] for head in range(4) for place in range(len(letters))]
        inputs.append([letters, draw.sample(cells, k=len(cells) * (i % 3) // 3)])
    shown = computed(browser, TYPED_LETTERS, "readLetters", inputs)
    model = recorded_model(1200).double()
    for (letters, ablated), found in zip(inputs, shown, strict=True):
        with ExitStack() as hooks:
            for layer, its in enumerate(model.layers):
                hooks.enter_context(its.out_proj.register_forward_pre_hook(silence(ablated, layer)))
            logits, weights = model(torch.tensor([letters]), return_weights=True)
        check_near(found["logits"], logits[0, :, 0])
        check_near(found["weights"], weights[0].flatten(end_dim=1))


def silence(ablated: list[list[int]], layer: int) -> Callable[..., tuple[Tensor]]:
    """Return a hook that ablates heads at places, each given as a pair, before they are mixed."""

    def without(_module: torch.nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        by_head = inputs[0].unflatten(-1, (2, 16)).clone()  # (1, num_tokens, num_heads, head_dim)
        for head, place in ablated:
            if head // 2 == layer:
                by_head[:, place, head % 2] = 0
        return (by_head.flatten(-2),)

    return without


def check_near(found: Any, right: Tensor) -> None:
    """Fail unless all numbers are within 1e-5, and NaN where the right ones are."""
    torch.testing.assert_close(
        torch.tensor(found, dtype=torch.float64), right.double(), rtol=0, atol=1e-5, equal_nan=True
    )


# In the hands of a reader


def test_the_mini_model_answers_with_the_numbers_of_another_sentence(open_live):
    box = open_live(MINI_MODEL)
    says(box, "The model goes on with Paris, 0.97.")
    box.get_by_role("radio", name="those of").check()
    says(box, "The model goes on with Rome, 0.98. Paris goes from 0.97 to 0.00.")
    box.get_by_role("radio", name="ablated").check()
    says(box, "Paris goes from 0.97 to")
    sentence = box.get_by_role("combobox", name="sentence", exact=True)
    sentence.fill("The capital of Atlantis is")
    says(box, "“Atlantis” is not among the 42 words that this model knows.")
    assert box.locator("[inert]").count() == 6  # what is stale is pale
    sentence.fill("The capital of Spain is")
    says(box, "Madrid goes from 0.97")
    assert box.locator("[inert]").count() == 0


def test_a_query_is_dragged_and_its_place_is_in_the_address(open_live):
    box = open_live(MINI_MODEL)
    plane = box.locator(".attn-plane").first
    room = plane.bounding_box()
    plane.click(position={"x": 0.9 * room["width"], "y": 0.6 * room["height"]})
    assert "0.99" not in box.get_by_role("row", name="France").text_content()
    expect(box.get_by_role("radio", name="your ●")).to_be_checked()
    box.page.wait_for_function("location.hash.includes('mini.query')")
    again = open_live(MINI_MODEL, state=f"#{box.page.url.split('#')[1]}")
    place = box.get_by_role("slider", name="query").get_attribute("aria-valuetext")
    moved = again.get_by_role("slider", name="query")
    expect(moved).to_have_attribute("aria-valuetext", place)


def test_a_shaken_word_shows_which_outputs_move(open_live):
    box = open_live(LEAK_DETECTOR)
    box.get_by_role("slider", name="with, to be shaken").press("ArrowRight")
    says(box, "You shake “with”. Of the outputs, “with”, “one” and “step” move; nothing before it")
    box.get_by_text("Break it switch by switch").click()
    box.get_by_role("radio", name="over queries").check()
    says(box, "It leaks. Outputs before “with” move: “Your”, “journey” and “starts”.")
    expect(box.get_by_role("combobox", name="The layer has")).to_have_value("softmax over queries")
    box.get_by_role("button", name="Start again").click()
    box.get_by_role("button", name="Shake all six").click()
    says(box, "Nothing before a shaken word moves.")
    box.get_by_role("combobox", name="The layer has").select_option("mask thrown away")
    says(box, "It leaks: 15 of 15 places before a shaken word move.")


def test_guesses_of_typed_letters_break_when_a_head_is_ablated(open_live):
    box = open_live(TYPED_LETTERS)
    says(box, "right of 7 letters after one that was there before.")
    right = box.locator(".attn-right").count()
    box.get_by_role("button", name="L0H1", exact=True).click()
    says(box, "without ablation")
    assert box.locator(".attn-right").count() < right
    box.get_by_role("button", name="Restore all").click()
    assert box.locator(".attn-right").count() == right
    box.get_by_role("textbox", name="your letters").fill("Dog fast, dog fast")
    says(box, "letters after one that was there before")
    assert box.get_by_role("radio").count() == len([c for c in "dogfastdogfast" if c in LETTERS])


def test_heads_rank_themselves_by_a_painted_pattern(open_live):
    box = open_live(PAINTED_PATTERN)
    says(box, "Paint where a head could look, and all heads rank themselves.")
    for i in range(1, 6):
        box.get_by_role("button", name=f"from word {i} to word {i - 1}").press("Enter")
    says(box, "Of 414 heads, L4H11 of GPT-2 does this best: 1.00. Of SmolLM2: L")
    box.get_by_role("button", name="Clear").click()
    says(box, "Paint where a head could look")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (900, "light")])
def test_nobody_is_shut_out_and_nothing_sticks_out(open_section, width, scheme):
    page = open_section("".join(map(live_section, PANELS)), width, color_scheme=scheme)
    for panel in PANELS:
        expect(page.get_by_role("group", name=panel.title).get_by_role("status")).not_to_be_empty()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
