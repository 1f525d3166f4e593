"""The picture can be touched: what its cells say is attnlib's, by pointer and by keyboard."""

import re
from functools import cache
from typing import Any

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

from attncourse.examples import journey, seeded
from attncourse.panels import GALLERY, STACKED_HEADS, TILES, TORCH_EQUALITY, WEIGHT_SPLIT
from attncourse.panels.heads import add_places, build_stack
from attncourse.panels.states import Panel
from attncourse.panels.touch import Looks, head_maps, listen
from attncourse.pictures.palette import HEAD_COLORS, contrast, head_color, line_color
from attncourse.pictures.scene import Box, Scene
from attnlib import MultiHeadAttention
from support.cases import ALL_PANELS
from support.touch_tools import box_of, opened, write_page

browser_test = pytest.mark.browser
WITH_MAPS = (STACKED_HEADS, WEIGHT_SPLIT)
WITH_TWO = (GALLERY, TORCH_EQUALITY)
each_panel = pytest.mark.parametrize("panel", [*WITH_MAPS, *WITH_TWO], ids=lambda p: p.name)

TOP_LEFT = """([box, x, y]) => {
    const svg = box.querySelector("svg"), { left, top, width } = svg.getBoundingClientRect();
    const scale = width / svg.viewBox.baseVal.width;
    return [left + x * scale, top + y * scale];
}"""


# What is sent


def read(number: str) -> float:
    return float(number.replace("−", "-"))


def ends(panel: Panel) -> list[dict[str, Any]]:
    return [panel.states()[0], panel.states()[-1]]


@each_panel
def test_every_cell_lies_where_it_is_drawn_and_says_the_weights_there(panel):
    for state in ends(panel):
        data = panel.compute(**state)
        scene = panel.draw(data)
        touch = panel.touch(data, scene)
        assert touch.maps
        drawn = {(b.x, b.y) for b in scene.items if isinstance(b, Box) and b.width == b.height}
        for shown in touch.maps:
            for place in range(len(next(iter(shown.numbers.values())))):
                assert (shown.x, shown.y + place * shown.cell) in drawn
        heads = data.attn_weights.reshape(-1, *data.attn_weights.shape[-2:])
        said = {"gallery": "wrong", "torch equality": "ours"}.get(panel.name, "weight")
        for shown, weights in zip(touch.maps[-len(heads) :], heads, strict=True):
            for query, row in enumerate(shown.numbers[said]):
                numbers = [read(number) for number in row.split(" ")]
                expected = weights[query, : len(numbers)]
                made = torch.tensor(numbers)
                torch.testing.assert_close(made, expected, atol=6e-4, rtol=0, equal_nan=True)
                assert not weights[query, len(numbers) :].nan_to_num(0.0).any()


def louder(module: MultiHeadAttention) -> MultiHeadAttention:
    """Return a module with its W_query times 12, as the panel of the weight split has it."""
    module.W_query.weight.detach().mul_(12)
    return module


@pytest.mark.parametrize(
    ("panel", "build"),
    [
        (STACKED_HEADS, lambda: build_stack(3)),
        (WEIGHT_SPLIT, lambda: louder(MultiHeadAttention(3, 12, 6, 0.0, 3))),
    ],
)
def test_dot_products_and_values_are_those_of_the_projections(panel, build):
    """By hand: head by head, from the rows of the weight matrices."""
    with seeded():
        module = build()
    x = journey().inputs if panel is not STACKED_HEADS else add_places(journey().inputs)
    state = panel.default | ({"num_heads": 3} if "num_heads" in panel.controls else {})
    data = panel.compute(**state)
    maps = panel.touch(data, panel.draw(data)).maps
    parts = dict(module.named_parameters())
    stacked = {
        kind: torch.cat([p for n, p in parts.items() if f"W_{kind}.weight" in n]).detach()
        for kind in ("query", "key", "value")
    }
    width = len(stacked["query"]) // len(maps)
    for h, shown in enumerate(maps):
        rows = slice(h * width, (h + 1) * width)
        queries, keys, values = (x @ stacked[kind][rows].T for kind in ("query", "key", "value"))
        for query, row in enumerate(shown.numbers["dot product"]):
            made = torch.tensor([read(number) for number in row.split(" ")])
            torch.testing.assert_close(
                made, (queries @ keys.T)[query, : query + 1], atol=6e-4, rtol=0
            )
        for said, value in zip(shown.values, values, strict=True):
            start = said.strip("()").split(", ")[: min(width, 4)]
            made = torch.tensor([read(number) for number in start])
            torch.testing.assert_close(made, value[:4], atol=6e-3, rtol=0)


def test_listening_hears_every_layer_and_lets_go():
    with seeded():
        module = MultiHeadAttention(3, 8, 6, 0.0, 2)
    made = listen(module, journey().inputs[None])
    assert (made.attn_scores.shape, made.values.shape) == ((2, 6, 6), (2, 6, 4))
    assert not any(part._forward_hooks for part in module.modules())


def test_a_head_has_its_name_its_color_and_its_row():
    scene = Scene(40, 40, "", (Box(3, 5, 7, 7, name="map"), Box(13, 5, 7, 7, name="map")))
    values = torch.tensor([[[1.0, -0.001]], [[0.0, 2.0]]])
    seen = Looks(torch.tensor([[[0.25]], [[-0.5]]]), values)
    first, second = head_maps(scene, torch.ones(2, 1, 1), seen)
    said = {"dot product": ["0.250"], "weight": ["1.000"]}
    assert first == ("head 0", head_color(0), 3, 5, 7, said, ["(1.00, 0.00)"])
    said = {"dot product": ["−0.500"], "weight": ["1.000"]}
    assert second == ("head 1", head_color(1), 13, 5, 7, said, ["(0.00, 2.00)"])


# In a browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_page(tmp_path_factory.mktemp("touch") / "panels.html", ALL_PANELS)


def touched(panel: Panel, state: dict[str, Any]) -> dict[str, Any]:
    page = page_of(panel.name, tuple(state.values()))
    places = page["scenes"][0]["places"]
    maps = [
        {**shown, "x": x, "y": y, "cell": cell}
        for shown, (x, y, cell) in zip(page["touch"]["maps"], places, strict=True)
    ]
    return {**page["touch"], "maps": maps}


@cache
def page_of(name: str, state: tuple[Any, ...]) -> dict[str, Any]:
    (panel,) = (panel for panel in ALL_PANELS if panel.name == name)
    return panel.page(dict(zip(panel.controls, state, strict=True)))


def sentence(panel: Panel, state: dict[str, Any], head: int, query: int, key: int) -> str:
    touch = touched(panel, state)
    shown = touch["maps"][head]
    start = f"{shown['name']}; query {touch['tokens'][query]}, key {touch['tokens'][key]}; "
    rows = {what: lines[query].split(" ") for what, lines in shown["numbers"].items()}
    if all(key >= len(row) for row in rows.values()):
        return start + "hidden: in the future"
    told = [f"{what} {row[key]}" for what, row in rows.items()]
    if shown["values"]:
        told.append(f"mixes in the value {shown['values'][key]}")
    return start + "; ".join(told)


def middle(page: Page, box: Locator, panel: Panel, state: dict, cell: tuple[int, int, int]) -> Any:
    head, query, key = cell
    shown = touched(panel, state)["maps"][head]
    x, y = shown["x"] + (key + 0.5) * shown["cell"], shown["y"] + (query + 0.5) * shown["cell"]
    box.scroll_into_view_if_needed()
    return page.evaluate(TOP_LEFT, [box.element_handle(), x, y])


@browser_test
def test_a_pointer_finds_every_cell(page):
    box, hint = box_of(page, STACKED_HEADS), box_of(page, STACKED_HEADS).locator(".attn-hint p")
    state = dict(STACKED_HEADS.default)
    expect(hint).to_contain_text("Point at a cell")
    for query in range(6):
        for key in range(6):
            cell = (1, query, key)
            page.mouse.move(*middle(page, box, STACKED_HEADS, state, cell))
            assert hint.text_content() == sentence(STACKED_HEADS, state, *cell)


@browser_test
def test_the_same_by_keyboard(page):
    """Tab leads from map to map, the arrows from cell to cell, and no further than its edge."""
    box, hint = box_of(page, STACKED_HEADS), box_of(page, STACKED_HEADS).locator(".attn-hint p")
    state = dict(STACKED_HEADS.default)
    box.locator(".attn-sheet").focus()
    page.keyboard.press("Tab")
    place = [5, 0]
    for key, down, across in [
        ("ArrowRight", 0, 1),
        ("ArrowUp", -1, 0),
        ("ArrowDown", 1, 0),
        ("ArrowDown", 0, 0),
        ("ArrowLeft", 0, -1),
        ("ArrowLeft", 0, 0),
        ("End", 0, 5),
        ("ArrowRight", 0, 0),
        ("Home", 0, -5),
    ]:
        page.keyboard.press(key)
        place = [place[0] + down, place[1] + across]
        said = sentence(STACKED_HEADS, state, 0, *place)
        assert hint.text_content() == said
        focused = page.locator(":focus")
        assert focused.get_attribute("role") == "gridcell"
        assert focused.get_attribute("aria-label") == said
    page.keyboard.press("Tab")
    assert hint.text_content() == sentence(STACKED_HEADS, state, 1, *place)


@browser_test
def test_a_token_shows_its_row_and_its_arcs(page):
    box = box_of(page, STACKED_HEADS)
    tokens = box.get_by_role("group", name="query", exact=True)
    weights = STACKED_HEADS.compute(num_heads=2).attn_weights
    for query, token in enumerate(journey().tokens):
        tokens.get_by_role("radio", name=token, exact=True).press("Space")
        row = ", ".join(
            f"{other} {weight:.3f}"
            for other, weight in zip(
                journey().tokens, weights[0, query, : query + 1].tolist(), strict=False
            )
        )
        expect(box.locator(".attn-hint p")).to_have_text(f"head 0; query {token}; weight: {row}")
        expect(box.locator(".attn-arcs i")).to_have_count(query + 1)
    drawn = box.locator(".attn-arcs i").evaluate_all("all => all.map(i => i.style.borderWidth)")
    wide = [float(width.removesuffix("px")) for width in drawn]
    torch.testing.assert_close(torch.tensor(wide), 1 + 7 * weights[0, 5], atol=0.01, rtol=0)


@browser_test
def test_a_map_is_brought_up_and_goes_back(page):
    box, state = box_of(page, STACKED_HEADS), dict(STACKED_HEADS.default)
    grid = box.get_by_role("grid", name="head 1", exact=True)
    small, whole = grid.bounding_box(), box.bounding_box()
    page.mouse.click(*middle(page, box, STACKED_HEADS, state, (1, 3, 2)))
    weight = sentence(STACKED_HEADS, state, 1, 3, 2).split("weight ")[1].split(";")[0]
    expect(box.locator(".attn-tip")).to_have_text(f"with → starts: {weight}")
    assert grid.bounding_box()["width"] == small["width"]  # a touch reads, and moves nothing
    box.get_by_role("button", name="Enlarge this map").click()
    assert grid.bounding_box()["width"] > 1.5 * small["width"]
    assert box.bounding_box()["height"] == whole["height"]
    page.mouse.move(*middle(page, box, STACKED_HEADS, state, (1, 4, 1)))
    said = sentence(STACKED_HEADS, state, 1, 4, 1)
    expect(box.locator(".attn-hint p")).to_have_text(said)
    box.get_by_role("button", name="Show all maps").click()
    assert grid.bounding_box()["width"] == small["width"]
    box.get_by_role("gridcell").nth(1).press("Enter")
    assert grid.bounding_box()["width"] > 1.5 * small["width"]
    box.get_by_role("slider").press("Home")  # one head: the one that was up is gone
    expect(box.locator(".attn-lens")).not_to_have_attribute("style", re.compile("scale"))


@browser_test
def test_on_a_phone_an_enlarged_map_fits_the_width(browser, address):
    with opened(browser, address, viewport={"width": 390, "height": 900}) as page:
        box = box_of(page, GALLERY)
        grid = box.get_by_role("grid", name="wrong, head 1", exact=True)
        height, small = box.bounding_box()["height"], grid.bounding_box()["width"]
        box.get_by_role("gridcell").nth(3).press("Enter")
        sheet, up = box.locator(".attn-sheet").bounding_box(), grid.bounding_box()
        assert up["width"] > 1.5 * small
        assert sheet["x"] <= up["x"]
        assert up["x"] + up["width"] <= sheet["x"] + sheet["width"]
        assert box.bounding_box()["height"] == height


IN_SIGHT = """box => {
    const { left, right } = box.querySelector(".attn-words").getBoundingClientRect();
    const chosen = box.querySelector(".attn-words :checked").parentElement.getBoundingClientRect();
    return chosen.left >= left - 1 && chosen.right <= right + 1;
}"""


@browser_test
def test_on_a_phone_every_token_is_in_sight(browser, address):
    with opened(browser, address, viewport={"width": 390, "height": 900}) as page:
        box = box_of(page, STACKED_HEADS)
        for query in (5, 0, 3, 5):
            page.mouse.move(*middle(page, box, STACKED_HEADS, STACKED_HEADS.default, (0, query, 0)))
            page.wait_for_function(IN_SIGHT, arg=box.element_handle())


COLORS = """([box, lines]) => {
    const paper = getComputedStyle(box).backgroundColor;
    const strokes = [...box.querySelectorAll(".attn-picture [stroke]")]
        .filter(item => lines.includes(item.getAttribute("stroke")))
        .map(item => getComputedStyle(item).stroke);
    const arcs = [...box.querySelectorAll(".attn-arcs i")]
        .map(arc => getComputedStyle(arc).borderTopColor);
    const hexadecimal = part => Number(part).toString(16).padStart(2, "0");
    return [paper, ...strokes, ...arcs].map(color =>
        "#" + color.match(/\\d+/g).map(hexadecimal).join(""));
}"""


@browser_test
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_and_arcs_are_seen_on_the_paper(page, scheme):
    """In the colors that the browser computes, for the arcs of twelve heads and all lines."""
    page.emulate_media(color_scheme=scheme)
    lines = [line_color(color) for color in HEAD_COLORS]
    seen = set()

    def look(box: Locator) -> None:
        paper, *colors = page.evaluate(COLORS, [box.element_handle(), lines])
        assert colors
        assert {color for color in colors if contrast(color, paper) < 3} == set()
        seen.update(colors)

    split = box_of(page, WEIGHT_SPLIT)
    split.get_by_role("slider", name="num_heads").press("End")
    for cell in split.get_by_role("gridcell").all():
        cell.focus()
        look(split)
    assert len(seen) == 12
    box_of(page, TILES).get_by_role("slider", name="step").press("ArrowRight")
    look(box_of(page, TILES))


@browser_test
def test_touching_moves_nothing_and_a_panel_fills_the_screen_for_a_wall(page):
    box, state = box_of(page, GALLERY), dict(GALLERY.default)
    before = box.bounding_box()
    for query in range(6):
        page.mouse.move(*middle(page, box, GALLERY, state, (3, query, 5)))
        assert box.bounding_box() | {"y": 0} == before | {"y": 0}
    box_of(page, STACKED_HEADS).get_by_role("button", name="Full screen").click()
    large = box_of(page, STACKED_HEADS)
    expect(large.get_by_role("button", name="Back to the page")).to_be_visible()
    assert large.bounding_box() == {"x": 0, "y": 0, "width": 1200, "height": 900}
    assert page.evaluate("document.fullscreenElement.scrollHeight") <= 900
    large.get_by_role("button", name="Back to the page").click()
    expect(box_of(page, STACKED_HEADS).get_by_role("button", name="Full screen")).to_be_visible()
    assert box.bounding_box() | {"y": 0} == before | {"y": 0}


@browser_test
def test_a_laptop_shows_the_controls_and_the_picture_together(browser, address):
    """The paper of JupyterLab is 647 pixels high and some 1000 wide on a screen of 1366 x 768."""
    with opened(browser, address, viewport={"width": 1000, "height": 647}) as page:
        for panel in ALL_PANELS:
            box = box_of(page, panel).bounding_box()
            sheet = box_of(page, panel).locator(".attn-sheet").bounding_box()
            assert sheet["y"] + sheet["height"] - box["y"] <= 647, panel.name


@browser_test
def test_a_click_on_a_column_of_the_matrix_zeroes_it_and_another_brings_it_back(page):
    box = box_of(page, WEIGHT_SPLIT)
    column, line = box.locator(".attn-picture").get_by_text("6", exact=True).first, []
    for _ in range(3):
        column.click(force=True)
        line.append(box.get_by_role("status").text_content())
    assert ["Column 6 is 0: head 1 changes by" in said for said in line] == [True, False, True]


COUNT = """() => {
    window.moved = 0;
    Element.prototype.animate = (_frames, { duration }) => { moved += duration === 250; };
}"""


@browser_test
@pytest.mark.parametrize("wish", ["reduce", "no-preference"])
def test_what_changes_is_seen_to_move_where_motion_is_wanted(browser, address, wish):
    with opened(browser, address, reduced_motion=wish) as page:
        page.evaluate(COUNT)
        box_of(page, WEIGHT_SPLIT).get_by_role("slider", name="num_heads").press("ArrowRight")
        assert (page.evaluate("moved") > 0) == (wish == "no-preference")
