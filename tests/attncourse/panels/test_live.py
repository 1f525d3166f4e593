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

from attncourse.examples import journey
from attncourse.gpt2 import recorded
from attncourse.learning.mini import MiniModel, mini_model
from attncourse.learning.record import LETTERS, recorded_model
from attncourse.panels.gallery import build
from attncourse.panels.live import LEAK, MINI, MISTAKES, PAINTED, TYPED, LivePanel
from attncourse.panels.widgets import LiveBox
from attncourse.variants.hunt import ALL_MISTAKES
from attncourse.variants.mistakes import OnePageAttention
from attnlib.functional import attention
from book import live_section
from support.panel_tools import photograph
from support.touch_tools import opened, violations

pytestmark = pytest.mark.browser

PANELS = (MINI, LEAK, TYPED, PAINTED)
OF_CHANCE_OR_NOWHERE = {  # what the detector leaves out
    "mask of the context",
    "dropout before softmax",
    "dropout in eval",
    "view without contiguous",
}
COUNT = 200  # texts for each model
CALL = """async ([text, name, sheet, inputs]) => {  // NaN and infinity are no JSON
    const file = new Blob([text], { type: "text/javascript" });
    const module = await import(URL.createObjectURL(file));
    return inputs.map(input => module[name](...(sheet ? [sheet] : []), ...input));
}"""
FRAME = """async ([root, selector]) => {  // milliseconds from an input to the next frame
    const drawn = new MutationObserver(() => {});
    drawn.observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
    const box = root.querySelector(selector), start = performance.now();
    for (const kind of ["input", "change"]) box.dispatchEvent(new Event(kind, { bubbles: true }));
    if (!drawn.takeRecords().length) return Infinity;
    await new Promise(painted => requestAnimationFrame(() => setTimeout(painted)));
    return performance.now() - start;
}"""


@pytest.fixture
def open_live(open_section: Callable[..., Page]) -> Callable[..., Locator]:
    def box(panel: LivePanel, *how: Any, motion: str = "reduce", **options: Any) -> Locator:
        page = open_section(live_section(panel), *how, reduced_motion=motion, **options)
        return page.get_by_role("group", name=panel.title)

    return box


def computed(
    browser: Browser, panel: LivePanel, name: str, inputs: list[Any], of_sheet: bool = True
) -> list[Any]:
    """Return what a function of a panel's module computes from each of the inputs."""
    with opened(browser, "about:blank") as page:
        return page.evaluate(CALL, [panel.module(), name, of_sheet and panel.sheet(), inputs])


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
    shown = computed(browser, MINI, "readMini", inputs)
    exact = mini_model().double()
    for (tokens, change), found in zip(inputs, shown, strict=True):
        query, numbers = change.get("query"), change.get("numbers")
        right = as_pytorch(exact, tokens, query, numbers)
        for name, value in right.items():
            check_near(found[name], value)
        if change == {}:
            check_near(found["probabilities"], model.read(" ".join(tokens)).probabilities)
        if numbers == [0, 0] and query is None:
            check_near(found["probabilities"], model.read_muted(" ".join(tokens)).probabilities)


CLASSES = {mistake.name: mistake.cls for mistake in ALL_MISTAKES}


def test_the_detector_has_the_mistakes_of_lesson_06():
    assert set(MISTAKES) - {"nothing is wrong"} == set(CLASSES) - OF_CHANCE_OR_NOWHERE


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
    shown = computed(browser, LEAK, "shake", inputs)
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
def test_the_model_of_letters_is_that_of_pytorch_with_places_muted(browser):
    draw = random.Random(3)
    inputs: list[Any] = []
    for i in range(COUNT):
        half = draw.choices(range(24), k=draw.randint(1, 24))
        letters = (half * 2)[: draw.randint(1, 2 * len(half))]
        cells = [[head, place] for head in range(4) for place in range(len(letters))]
        inputs.append([letters, draw.sample(cells, k=len(cells) * (i % 3) // 3)])
    shown = computed(browser, TYPED, "readLetters", inputs)
    model = recorded_model(1200).double()
    for (letters, muted), found in zip(inputs, shown, strict=True):
        with ExitStack() as hooks:
            for layer, its in enumerate(model.layers):
                hooks.enter_context(its.out_proj.register_forward_pre_hook(silence(muted, layer)))
            logits, weights = model(torch.tensor([letters]), return_weights=True)
        check_near(found["logits"], logits[0, :, 0])
        check_near(found["weights"], weights[0].flatten(end_dim=1))


def silence(muted: list[list[int]], layer: int) -> Callable[..., tuple[Tensor]]:
    """Return a hook that mutes heads at places, each given as a pair, before they are mixed."""

    def without(_module: torch.nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        by_head = inputs[0].unflatten(-1, (2, 16)).clone()  # (1, num_tokens, num_heads, head_dim)
        for head, place in muted:
            if head // 2 == layer:
                by_head[:, place, head % 2] = 0
        return (by_head.flatten(-2),)

    return without


def test_likeness_is_the_share_of_the_painted_rows(browser):
    draw, texts = random.Random(4), PAINTED.sheet()["models"][1]["texts"]
    maps = computed(browser, PAINTED, "mapsOf", [[text] for text in texts], of_sheet=False)
    right = recorded("spaceship").weights.flatten(end_dim=1)
    for head, rows in enumerate(maps[0]):
        filled = torch.tensor([row + [0.0] * (6 - len(row)) for row in rows])
        torch.testing.assert_close(filled, right[head], rtol=0, atol=0.00501)
    inputs = [
        [
            draw.choice(draw.choice(maps)),
            draw.sample([6 * i + j for i in range(6) for j in range(i + 1)], i % 21),
        ]
        for i in range(COUNT)
    ]
    shown = computed(browser, PAINTED, "likeness", inputs, of_sheet=False)
    for (rows, painted), found in zip(inputs, shown, strict=True):
        weights = torch.zeros(6, 6, dtype=torch.float64)
        where = torch.zeros(6, 6, dtype=torch.bool)
        for i, row in enumerate(rows[:6]):
            weights[i, : i + 1] = torch.tensor(row, dtype=torch.float64)
        for cell in painted:
            where[cell // 6, cell % 6] = True
        shares = (weights * where).sum(-1)[where.any(-1)]
        check_near(found, shares.mean() if painted else torch.tensor(0.0))


def check_near(found: Any, right: Tensor) -> None:
    """Fail unless all numbers are within 1e-5, and NaN where the right ones are."""
    torch.testing.assert_close(
        torch.tensor(found, dtype=torch.float64), right.double(), rtol=0, atol=1e-5, equal_nan=True
    )


# In the hands of a reader


@torch.no_grad()
def leaks(layer: torch.nn.Module) -> bool:
    """Return whether an output moves, to another number, when a later word is shaken."""
    x = journey().inputs
    changed = x + 3 * torch.eye(len(x))[:, :, None]
    moved = (layer(changed) - layer(x[None])).abs().amax(dim=-1)  # row: the word that is shaken
    return bool((moved.tril(-1) > 1e-6).any())


def test_two_numbers_of_another_sentence_bring_its_answer(open_live):
    box = open_live(MINI)
    says(box, "The model goes on with Paris, 0.97.")
    box.get_by_role("radio", name="those of").check()
    says(box, "The model goes on with Rome, 0.98. Paris goes from 0.97 to 0.00.")
    box.get_by_role("combobox", name="other sentence").fill("People who live in japan speak")
    says(box, "The model goes on with Tokyo")
    box.get_by_role("radio", name="muted").check()
    says(box, "Paris goes from 0.97 to")
    guess = mini_model().read_muted("The capital of France is").next_words(1)[0][0]
    expect(box.get_by_role("slider", name="hands over")).to_have_attribute(
        "aria-valuetext", f"(0.00, 0.00): next word {guess}"
    )
    box.get_by_role("combobox", name="sentence", exact=True).fill("The capital of Atlantis is")
    says(box, "“Atlantis” is not among the 42 words that this model knows.")
    stale = box.locator(".attn-plane, .attn-scroll, .attn-ranking, .attn-stage-of-words")
    assert stale.count() == box.locator("[inert]").count() == 6
    box.get_by_role("combobox", name="sentence", exact=True).fill("The capital of Spain is")
    says(box, "Madrid goes from 0.97")
    assert box.locator("[inert]").count() == 0


def test_a_query_is_dragged_and_its_place_is_in_the_address(open_live):
    box = open_live(MINI)
    says(box, "Paris, 0.97")
    query = box.get_by_role("slider", name="query")
    row = box.get_by_role("row", name="France")
    assert "0.99" in row.text_content()
    plane = box.locator(".attn-plane").first
    room = plane.bounding_box()
    plane.click(position={"x": 0.9 * room["width"], "y": 0.6 * room["height"]})
    assert "0.99" not in row.text_content()
    expect(box.get_by_role("radio", name="your ●")).to_be_checked()
    box.page.wait_for_function("location.hash.includes('mini.query')")
    dragged, before = box.page.url, query.get_attribute("aria-valuetext")
    query.press("ArrowLeft")
    assert query.get_attribute("aria-valuetext") != before
    box.page.wait_for_function("dragged => location.href !== dragged", arg=dragged)
    again = open_live(MINI, state=f"#{box.page.url.split('#')[1]}")
    expect(again.get_by_role("slider", name="query")).to_have_attribute(
        "aria-valuetext", query.get_attribute("aria-valuetext")
    )


def test_softmax_over_queries_lights_up_the_past_and_the_right_layer_does_not(open_live):
    box = open_live(LEAK)
    says(box, "Take hold of a word and shake it.")
    word = box.get_by_role("slider", name="with, to be shaken")
    word.press("ArrowRight")
    expect(word).to_have_attribute("aria-valuenow", "0.25")
    assert word.evaluate("word => word.style.getPropertyValue('--by')") == "0"  # it is let go
    says(box, "You shake “with”. Of the outputs, “with”, “one” and “step” move; nothing before it")
    box.get_by_text("Break it switch by switch").click()
    box.get_by_role("radio", name="over queries").check()
    says(box, "It leaks. Outputs before “with” move: “Your”, “journey” and “starts”.")
    expect(box.get_by_role("combobox", name="The layer has")).to_have_value("softmax over queries")
    assert box.locator("td.attn-leaks").count() == 3
    leaky = sum(leaks(build(CLASSES[name])) for name in set(MISTAKES) - {"nothing is wrong"})
    expect(box.get_by_text(f"1 of {leaky} mistakes that leak exposed")).to_be_visible()
    box.get_by_role("button", name="Start again").click()
    box.get_by_role("button", name="Shake all six").click()
    assert box.locator("td.attn-leaks").count() == 0
    says(box, "Nothing before a shaken word moves.")
    x, layer = journey().inputs, build(OnePageAttention)
    changed = x.clone()
    changed[1] += 3
    far = (layer(changed[None]) - layer(x[None])).abs().amax(dim=-1)[0].tolist()
    shown = [row.locator("td").nth(1).text_content() for row in box.get_by_role("row").all()[1:]]
    assert shown == ["0", *(f"{number:.2f}" for number in far[1:])]
    box.get_by_role("combobox", name="The layer has").select_option("mask with the diagonal")
    assert "NaN" in box.get_by_role("row").nth(1).text_content()
    says(box, "Of 15 places before a shaken word none moves. 5 of them are NaN.")
    box.get_by_role("combobox", name="The layer has").select_option("mask thrown away")
    says(box, "It leaks: 15 of 15 places before a shaken word move.")
    outputs, squares = box.locator(".attn-words-out > div"), box.get_by_role("row").all()[1:]
    for i, row in enumerate(squares):  # an output says its largest leak; the last has none
        told = [cell.text_content() for cell in row.locator("td").all()]
        far = max(map(float, told[i + 1 :] or told))
        said = f"{far:.{2 if far < 10 else 1}f}"
        expect(outputs.nth(i)).to_contain_text(f"▲ {said}" if i < 5 else said)
    box.get_by_role("button", name="Start again").click()
    expect(outputs.nth(5)).to_contain_text("still")


def test_a_word_is_shaken_by_hand(open_live):
    box = open_live(LEAK, has_touch=True)
    word, mouse = box.get_by_role("slider", name="one, to be shaken"), box.page.mouse
    room = word.bounding_box()
    mouse.move(room["x"] + 20, room["y"] + 20)
    mouse.down()
    mouse.move(room["x"] + 56, room["y"] + 20, steps=4)
    expect(word).to_have_attribute("aria-valuetext", "shaken by 3.00")
    says(box, "You shake “one”. Of the outputs, “one” and “step” move; nothing before it does.")
    mouse.up()
    says(box, "You shake “one”. Of the outputs, “one” and “step” move; nothing before it does.")
    box.get_by_role("slider", name="step, to be shaken").click()
    says(box, "Of the outputs, “step” moves")


def test_guesses_of_typed_letters_break_when_a_head_is_brushed_away(open_live):
    box = open_live(TYPED)
    says(box, "right of 7 letters after one that was there before.")
    right = box.locator(".attn-right").count()
    box.get_by_role("button", name="L0H1", exact=True).click()
    says(box, "without muting")
    assert box.locator(".attn-right").count() < right
    assert box.locator(".attn-broken").count() > 0
    box.get_by_role("button", name="Unmute all").click()
    assert box.locator(".attn-right").count() == right
    cells = box.get_by_role("group", name="L1H0, place by place").get_by_role("button").all()
    start, end = (cells[i].bounding_box() for i in (3, 6))
    mouse = box.page.mouse
    mouse.move(start["x"] + 4, start["y"] + 9)
    mouse.down()
    mouse.move(end["x"] + 4, end["y"] + 9, steps=9)
    mouse.up()
    assert box.locator(".attn-off").count() == 4
    box.get_by_role("textbox", name="your letters").fill("Dog fast, dog fast")
    says(box, "letters after one that was there before")
    assert box.get_by_role("radio").count() == len([c for c in "dogfastdogfast" if c in LETTERS])
    box.get_by_role("textbox", name="your letters").fill("AB 12! " + 50 * "a")
    note = "Left out, since it reads a to x: 1 2 !. It reads 48 letters at most."
    expect(box.get_by_text(note)).to_be_visible()
    assert min(cell.bounding_box()["width"] for cell in cells) >= 24


def test_heads_rank_themselves_by_a_painted_pattern(open_live):
    box = open_live(PAINTED)
    says(box, "Paint where a head could look, and all heads rank themselves.")
    cells = [  # found once: among hundreds of buttons a name is long to look for
        box.get_by_role("button", name=f"from word {i} to word {i - 1}").element_handle()
        for i in range(1, 6)
    ]
    room, mouse = cells[0].bounding_box(), box.page.mouse
    mouse.move(room["x"] + 9, room["y"] + 9)
    mouse.down()
    mouse.up()
    says(box, "Of 414 heads, ")
    for cell in cells[1:]:
        cell.press("Enter")
    says(box, "Of 414 heads, L4H11 of GPT-2 does this best: 1.00. Of SmolLM2: L")
    says(box, "SmolLM2 reads five words here: the last row is not asked.")
    expect(box.get_by_text("GPT-2: its 144 heads, most like your pattern first")).to_be_visible()
    expect(box.get_by_text("From the left: L4H11, ")).to_be_visible()
    head = box.get_by_role("button", name="L5H5: ").last.element_handle()
    head.hover()
    expect(box.get_by_text("GPT-2, L5H5, in percent")).to_be_visible()
    head.click()
    mouse.move(0, 0)
    expect(box.get_by_text("GPT-2, L5H5, in percent")).to_be_visible()
    box.page.wait_for_function("location.hash.includes('L5H5')")
    head.press("Home")
    box.get_by_role("button", name="Clear").click()
    says(box, "Paint where a head could look")
    box.get_by_role("button", name="from word 5 to word 2").press("Enter")
    says(box, "Of 144 heads, L9H8 of GPT-2 does this best: 0.68. SmolLM2 reads five words here")
    expect(box.get_by_text("SmolLM2: its 270 heads, layers across, heads down")).to_be_visible()
    smollm2 = box.get_by_role("group", name="heads of SmolLM2")
    smollm2.get_by_role("button", name="L0H0").press("ArrowRight")
    expect(box.locator(":focus")).to_have_accessible_name("L1H0")


def test_a_page_that_turns_dark_draws_the_maps_of_heads_again(open_live):
    box = open_live(PAINTED)
    ink = """canvas => [...canvas.getContext("2d").getImageData(0, 0, 1, 1).data].slice(0, 3)"""
    first = box.get_by_role("group", name="heads of GPT-2").locator("canvas").first
    light = first.evaluate(ink)
    box.page.evaluate("document.body.dataset.theme = 'dark'")
    box.page.wait_for_timeout(100)
    dark = first.evaluate(ink)
    assert sum(dark) > sum(light)
    box.page.emulate_media(color_scheme="dark")
    box.page.evaluate("delete document.body.dataset.theme")
    box.page.wait_for_timeout(100)
    assert first.evaluate(ink) == dark


@pytest.mark.parametrize("state", ["#mini.query=NaN,1&mini.head=x", "#mini.numbers=1&mini.text="])
def test_a_link_that_is_not_ours_does_no_harm(open_live, state):
    box = open_live(MINI, state=state)
    expect(box.get_by_role("status")).not_to_be_empty()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (900, "light")])
@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.name)
def test_nobody_is_shut_out_and_nothing_sticks_out(open_live, panel, width, scheme):
    box = open_live(panel, width, color_scheme=scheme)
    expect(box.get_by_role("status")).not_to_be_empty()
    assert box.page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(box.page, once=True) == []
    photograph(box, f"{panel.name}.{width}.{scheme}")


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.name)
def test_an_answer_is_there_within_100_ms(open_live, panel):
    box = open_live(panel, motion="no-preference")
    expect(box.get_by_role("status")).not_to_be_empty()
    inputs = [box.element_handle(), "input, select"]
    least = min(box.page.evaluate(FRAME, inputs) for _ in range(9))  # others share the machine
    print(f"{panel.name}: {least:.0f} ms")
    assert least < 100


# In a notebook


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.name)
def test_the_box_of_a_notebook_has_all_of_it_and_a_picture(panel):
    box = LiveBox(panel)
    assert box.sheet == panel.sheet()
    assert "export default asWidget(mount)" in box._esm
    assert repr(box) == f"<{panel.title}, to be moved>"
    data, _ = box._repr_mimebundle_()
    assert {"text/html", "image/png", "text/plain"} <= set(data)
    assert panel.draw().alt in data["text/html"]
