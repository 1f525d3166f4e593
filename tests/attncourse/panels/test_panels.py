"""All panels: what they compute is attnlib's, and a page can show every state of theirs."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect
from torch import Tensor

from attncourse.examples import journey
from attncourse.panels import MISTAKE_GALLERY, ONLINE_SOFTMAX, STACKED_HEADS, WEIGHT_SPLIT
from attncourse.panels.panel import PHONE, Panel, format_value, heatmaps
from attncourse.panels.stacked_heads import LOOKS, add_places, build_stack
from attncourse.panels.widgets import PanelWidget
from attncourse.pictures.scene import Text
from attnlib import MultiHeadAttention
from book import section
from support.cases import ALL_PANELS, sheet
from support.panel_tools import box_of, move_controls, violations
from support.pictures import outside, overlapping

INPUTS = journey().inputs
MAX_STATES = 100  # all are drawn when the widget is made
LETTERS = 12  # pixels of the smallest letters


@pytest.fixture(scope="module", params=ALL_PANELS, ids=lambda panel: panel.name)
def panel(request: pytest.FixtureRequest) -> Panel:
    return request.param


@pytest.fixture(scope="module")
def computed(panel: Panel) -> list[Any]:
    return [panel.compute(**state) for state in panel.states()]


# What every panel keeps to


def test_a_sheet_has_every_state_once_in_their_order(panel, computed):
    drawn = sheet(panel.name)
    assert json.loads(json.dumps(drawn, allow_nan=False)) == drawn
    assert len(computed) == len(drawn["pages"]) <= MAX_STATES
    lines = [page["line"] for page in drawn["pages"]]
    assert lines == [panel.readout(data) for data in computed]
    assert len(set(lines)) == len(lines)
    assert not any("\n" in line for line in lines)
    for control, (name, values) in zip(drawn["controls"], panel.controls.items(), strict=True):
        assert control["words"] == [format_value(value) for value in values]
        assert values[control["start"]] == panel.default[name]
        assert control["kind"] != "player" or control["start"] == 0
    maps = [map_ for picture in drawn["pictures"] for map_ in picture["maps"]]
    assert bool(maps) == (panel is not ONLINE_SOFTMAX)


def test_every_picture_can_be_read_on_a_phone(panel, computed):
    for data in computed:
        for scene in panel.draw(data):
            assert outside(scene) == []
            assert overlapping(scene) == []
            shrunk = min(1.0, PHONE / scene.width)
            for item in scene.items:
                if isinstance(item, Text):
                    assert item.size * shrunk >= LETTERS - 0.5
            assert ET.fromstring(scene.svg()).get("aria-label") == scene.alt


def test_panels_leave_the_random_numbers_of_the_reader_alone(panel):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    index = panel.states().index(panel.default)
    assert panel.page(panel.default)["line"] == sheet(panel.name)["pages"][index]["line"]
    assert torch.equal(torch.get_rng_state(), before)


def test_without_a_kernel_some_states_stay_with_their_lines(panel, monkeypatch):
    monkeypatch.setattr(Panel, "to_json", lambda panel: sheet(panel.name))
    box = PanelWidget(panel)
    data, _ = box._repr_mimebundle_()
    start = ", ".join(f"{name}={format_value(value)}" for name, value in panel.default.items())
    assert data["text/plain"] == f"<sliders of the panel '{panel.name}': {start}>"
    assert "Run this cell with Shift+Enter" in data["text/html"]
    assert f"base64,{data['image/png']}" in data["text/html"]
    alt = panel.static_picture().alt
    for state in panel.static_states:
        chosen = {**panel.default, **state}
        assert chosen in panel.states()
        assert panel.readout(panel.compute(**chosen)) in alt
    assert len(box.packed) < 250_000


def test_a_cell_says_its_numbers_or_that_it_is_masked():
    weights = torch.tensor([[[1.0, 0.5], [-0.25, float("nan")]]])
    is_masked = torch.tensor([[False, True], [False, False]])
    (heatmap,) = heatmaps(("a", "b"), weights, is_masked)
    assert heatmap.cells == [["weight 1.000", "masked"], ["weight −0.250", "weight NaN"]]


# Stacked heads and the weight split


@pytest.mark.parametrize("num_heads", STACKED_HEADS.controls["num_heads"])
def test_stacked_heads(num_heads):
    data = STACKED_HEADS.compute(num_heads=num_heads)
    stack = build_stack(num_heads)
    context_vec, attn_weights = stack(add_places(INPUTS)[None], return_weights=True)
    assert torch.equal(data.context_vec, context_vec[0])
    assert torch.equal(data.attn_weights, attn_weights[0])
    columns = {1: (), 2: (2, 3)}.get(num_heads, (2, 3, 4, 5))
    assert data.moved == columns
    line = STACKED_HEADS.readout(data)
    assert f"{2 * num_heads} columns with {5 * num_heads} matrix products" in line
    assert f"head {num_heads - 1} looks {LOOKS[num_heads - 1]}." in line


def test_built_heads_look_where_they_say():
    data = STACKED_HEADS.compute(num_heads=4)
    back = {1: torch.eye(6)[[0, 0, 1, 2, 3, 4]], 2: torch.eye(6)[[0, 0, 0, 1, 2, 3]]}
    everywhere = torch.ones(6, 6).tril() / torch.arange(1, 7)[:, None]
    for h, looks in enumerate((everywhere, back[1], back[2], (back[1] + back[2]) / 2)):
        torch.testing.assert_close(data.attn_weights[h], looks, atol=1e-3, rtol=0)
        brought = data.context_vec[:, 2 * h : 2 * h + 2]
        torch.testing.assert_close(brought, looks @ INPUTS[:, :2], atol=1e-3, rtol=0)


@pytest.mark.parametrize("num_heads", WEIGHT_SPLIT.controls["num_heads"])
@pytest.mark.parametrize("zeroed", ["none", "column 5"])
def test_weight_split(num_heads, zeroed):
    torch.manual_seed(123)
    split = MultiHeadAttention(3, 12, 6, 0.0, num_heads)
    split.W_query.weight.detach().mul_(12)
    _, before = split(INPUTS[None], return_weights=True)
    if zeroed != "none":
        split.W_query.weight.detach()[int(zeroed.split()[1])] = 0
    _, attn_weights = split(INPUTS[None], return_weights=True)
    data = WEIGHT_SPLIT.compute(num_heads=num_heads, zeroed_column=zeroed)
    assert torch.equal(data.attn_weights, attn_weights[0])
    assert torch.equal(data.W_query, split.W_query.weight.T)
    moved: Tensor = (attn_weights - before)[0].abs().amax(dim=(1, 2))
    assert data.moved == tuple(moved.tolist())
    line = WEIGHT_SPLIT.readout(data)
    assert f"of head_dim {12 // num_heads}: " in line
    assert "264 parameters and 6 matrix products" in line
    if zeroed != "none":
        owner = int(zeroed.split()[1]) * num_heads // 12
        assert moved.nonzero().flatten().tolist() == [owner]
        assert f"head {owner} changes by {moved[owner]:.2f}" in line


# In a browser, without a kernel


@pytest.fixture
def open_panels(open_section: Callable[..., Page]) -> Callable[..., Page]:
    def page(*panels: Panel, **options: Any) -> Page:
        sections = "".join(section(panel, sheet(panel.name)) for panel in panels)
        return open_section(sections, **options)

    return page


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_every_control_moves_and_nobody_is_shut_out(open_panels, width, scheme):
    page = open_panels(*ALL_PANELS, width=width, color_scheme=scheme, reduced_motion="reduce")
    for panel in ALL_PANELS:
        move_controls(box_of(page, panel), panel)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


@pytest.mark.browser
def test_a_cell_is_read_by_pointer_and_by_keyboard(open_panels):
    page = open_panels(STACKED_HEADS, MISTAKE_GALLERY)
    box = box_of(page, STACKED_HEADS)
    hint, grid = box.locator(".attn-hint"), box.get_by_role("grid", name="head 1")
    weights = STACKED_HEADS.compute(num_heads=2).attn_weights[1]
    room = grid.bounding_box()
    side = room["width"] / 6
    grid.hover(position={"x": 2.5 * side, "y": 3.5 * side})
    expect(hint).to_have_text(f"head 1; query with, key starts: weight {weights[3, 2]:.3f}")
    grid.get_by_role("gridcell").press("ArrowRight")
    expect(hint).to_have_text(f"head 1; query with, key with: weight {weights[3, 3]:.3f}")
    page.keyboard.press("ArrowRight")
    expect(hint).to_have_text("head 1; query with, key one: masked")
    focused = page.locator(":focus")
    expect(focused).to_have_attribute("aria-label", hint.text_content())


@pytest.mark.browser
def test_a_click_on_a_column_zeroes_it_and_another_brings_it_back(open_panels):
    box = box_of(open_panels(WEIGHT_SPLIT), WEIGHT_SPLIT)
    for expected in ("Column 6 is 0: head 1 changes by", "matrix products."):
        box.locator(".attn-choice").nth(6).click()
        expect(box.get_by_role("status")).to_contain_text(expected)


@pytest.mark.browser
def test_a_panel_plays_to_its_end(open_panels):
    page = open_panels(ONLINE_SOFTMAX)
    page.clock.install()
    box = box_of(page, ONLINE_SOFTMAX)
    box.get_by_role("button", name="Play").click()
    page.clock.run_for(10_000)
    expect(box.get_by_role("status")).to_contain_text("step 10 of 10")
    expect(box.get_by_role("button", name="Play")).to_be_visible()
