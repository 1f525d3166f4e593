"""Every state of every panel: its numbers are attnlib's, its picture fits and shows them."""

import dataclasses
import json
import math
import xml.etree.ElementTree as ET
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from attncourse.examples import journey
from attncourse.panels.heads import LOOKS, STACKED_HEADS, add_places, build_stack
from attncourse.panels.states import MOST_PAGES, PART_ENDS, PHONE, Panel, _in_json, spell
from attncourse.panels.steps import NUMBER_STEPS
from attncourse.panels.weight_columns import WEIGHT_SPLIT
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import INK, QUIET, THEME, head_color, tint
from attncourse.pictures.scene import BOOK, Box, Scene, Words, typeset
from attnlib import MultiHeadAttention, causal_mask
from support.cases import ALL_PANELS, sheet
from support.panel_tools import picture_in
from support.pictures import SVG, boxes, outside, overlapping, text_in, texts, words

INPUTS = journey().inputs


def states(panel: Panel) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "state", panel.states(), ids=lambda state: " ".join(map(spell, state.values()))
    )


def plain(data: object) -> object:
    """Return a panel's data with its tensors as bytes, so that == compares all of it, NaN too."""
    if isinstance(data, Tensor):
        return str(data.dtype), data.shape, data.detach().numpy().tobytes()
    if isinstance(data, float):
        return repr(data)
    if isinstance(data, dict):
        return {key: plain(value) for key, value in data.items()}
    if dataclasses.is_dataclass(data):
        return plain(vars(data))
    return [plain(item) for item in data] if isinstance(data, (list, tuple)) else data


# All panels


class Shown(NamedTuple):
    state: dict[str, Any]
    data: Any
    scene: Scene
    line: str


def shown(panel: Panel, state: dict[str, Any]) -> Shown:
    data = panel.compute(**state)
    return Shown(state, data, panel.draw(data), panel.readout(data))


@pytest.fixture(scope="module", params=ALL_PANELS, ids=lambda panel: panel.name)
def panel(request: pytest.FixtureRequest) -> Panel:
    return request.param


@pytest.fixture(scope="module")
def every(panel: Panel) -> list[Shown]:
    return [shown(panel, state) for state in panel.states()]


@pytest.fixture(scope="module")
def svgs(every: list[Shown]) -> list[str]:
    return [scene.svg() for _, _, scene, _ in every]


def test_the_states_are_all_that_the_controls_can_reach(panel):
    states = panel.states()
    count = 1
    for control, values in panel.controls.items():
        assert {state[control] for state in states} == set(values)
        count *= len(values)
    assert len(states) == count
    assert len({tuple(state.items()) for state in states}) == count
    assert count <= MOST_PAGES  # few enough to draw them all ahead
    assert panel.default in states


def test_every_picture_can_be_read(every, svgs):
    """It fits on its sheet, no words stand in each other's way, and all are in the SVG."""
    for (state, _, scene, _), svg in zip(every, svgs, strict=True):
        assert outside(scene) == [], state
        assert overlapping(scene) == [], state
        root = ET.fromstring(svg)
        assert root.get("aria-label") == scene.alt
        assert texts(root) == [typeset(item) for item in words(scene)]


def some(every: list[Any]) -> list[Any]:
    """Return at most 24, evenly spread, for what a state more would not show."""
    return every[:: 1 + len(every) // 24]


def test_a_picture_parts_into_its_elements(svgs):
    """The page keeps those that two pictures have in common, with other quotes."""
    for svg in some(svgs):
        one, other = ET.fromstring(svg), ET.fromstring(svg.replace('"', "'"))
        assert ET.tostring(one) == ET.tostring(other)
        first, *parts, last = PART_ENDS.split(svg)
        assert (first[:5], last) == ("<svg ", "</svg>")
        assert [ET.fromstring(part).tag for part in parts] == [
            child.tag.removeprefix(SVG) for child in one
        ]


def test_every_state_reads_differently_in_one_line(every):
    assert len({line for *_, line in every}) == len(every)
    assert not any("\n" in line for *_, line in every)


def test_every_state_looks_different(panel, svgs):
    """But for the first steps of the worked example, which come before the heads."""
    same = 3 if panel is NUMBER_STEPS else 0
    assert len({*svgs}) == len(svgs) - same


def test_panels_are_pure(panel, every):
    """The same state gives the same, and the random numbers of the reader are left alone."""
    torch.manual_seed(1)
    before = torch.get_rng_state()
    for state, data, scene, line in some(every):
        again = shown(panel, state)
        assert (again.scene, again.line) == (scene, line)
        assert plain(again.data) == plain(data)  # and drawing it has not changed it
        assert torch.equal(torch.get_rng_state(), before)


# What a page in a browser gets


@pytest.fixture(scope="module", name="sheet")
def its_sheet(panel: Panel) -> dict[str, Any]:
    return sheet(panel.name)


def test_a_sheet_holds_a_page_for_every_state_in_their_order(panel, sheet, every, svgs):
    assert json.loads(json.dumps(sheet, allow_nan=False)) == sheet
    shared = ["parts", "colors", "forms", "choices", "maps"]
    assert list(sheet) == ["name", "controls", "pages", "sizes", *shared]
    assert sheet["name"] == panel.name
    lines = [page["line"] for page in sheet["pages"]]
    assert lines == [line for *_, line in every]
    pictures = [picture_in(sheet, page) for page in sheet["pages"]]
    assert pictures == [svg.replace('"', "'") for svg in svgs]
    assert len(set(sheet["parts"])) == len(sheet["parts"])


def test_what_a_click_chooses_is_where_it_is_drawn(panel, sheet, every):
    for (_, data, scene, _), page in zip(every, sheet["pages"], strict=True):
        narrow = [panel.draw_narrow(data)] if panel.draw_narrow else []
        for shown, of_page in zip(page["scenes"], [scene, *narrow], strict=True):
            chosen = sheet["choices"][shown["choices"]] if "choices" in shown else []
            drawn = [
                [control, place, [box.x, box.y, box.width, box.height]]
                for control, values in panel.controls.items()
                for place, value in enumerate(values)
                for box in of_page.named(spell(value))
            ]
            assert chosen == drawn


def test_a_sheet_holds_each_map_once(panel, sheet, every):
    assert len({json.dumps(shown) for shown in sheet["maps"]}) == len(sheet["maps"])
    for (_, data, scene, _), page in zip(every, sheet["pages"], strict=True):
        if panel.touch is not None:
            maps = [sheet["maps"][place] for place in page["touch"]["maps"]]
            touch = panel.touch(data, scene)
            assert {**page["touch"], "maps": maps} == _in_json(touch)
            places = [[shown.x, shown.y, shown.cell] for shown in touch.maps]
            assert page["scenes"][0]["places"] == places


def test_on_a_phone_nothing_is_cut_and_the_same_can_be_touched(panel, sheet, every):
    """In the narrow scene, of every state: its width, its letters, its maps."""
    assert panel.draw_narrow is not None
    for (_, data, scene, _), page in zip(every, sheet["pages"], strict=True):
        narrow = panel.draw_narrow(data)
        assert picture_in(sheet, page, 1).count("<text") == narrow.svg().count("<text")
        assert narrow.width <= PHONE / 0.93  # then its smallest letters have 12 pixels
        for item in narrow.items:
            if isinstance(item, Words) and not item.angle:
                assert item.size >= 12
                far = text_width(item.text, item.size, bold=item.bold, mono=item.mono)
                left = {"start": 0.0, "middle": far / 2, "end": far}[item.anchor]
                assert item.x - left >= -1
                assert item.x - left + far <= narrow.width + 1
        if panel.touch is not None:
            touch = panel.touch(data, narrow)
            places = [[shown.x, shown.y, shown.cell] for shown in touch.maps]
            assert page["scenes"][1]["places"] == places
            assert _in_json(touch) == _in_json(panel.touch(data, scene))


def test_a_sheet_has_room_for_its_largest_picture(sheet, every):
    for i, side in enumerate(("width", "height")):
        largest = max(getattr(scene, side) for _, _, scene, _ in every)
        assert largest <= sheet["sizes"][0][i] < largest + 1


def test_a_sheet_says_what_its_controls_are(panel, sheet):
    assert [control["name"] for control in sheet["controls"]] == list(panel.controls)
    for control, (name, values) in zip(sheet["controls"], panel.controls.items(), strict=True):
        assert control["words"] == [spell(value) for value in values]
        assert values[control["start"]] == panel.default[name]


def test_what_plays_starts_at_its_beginning(panel, sheet):
    plays = [control for control in sheet["controls"] if control["kind"] == "time"]
    assert [control["name"] for control in plays] == ([panel.time] if panel.time else [])
    assert all(control["start"] == 0 for control in plays)


def test_the_kinds_of_controls():
    controls = [(panel.name, its) for panel in ALL_PANELS for its in sheet(panel.name)["controls"]]
    kinds = {(name, control["name"]): control["kind"] for name, control in controls}
    assert kinds["tiles", "step"] == "time"
    assert kinds["gallery", "mistake"] == "list"
    assert kinds["gallery", "condition"] == "words"
    assert kinds["stacked heads", "num_heads"] == "number"


def test_text_on_a_color_that_stays_in_the_dark_stays_too(every):
    """Ink of the page's own color would be light on a light tint as soon as the page is dark."""
    for state, _, scene, _ in every:
        under: list[Box] = []
        for item in scene.items:
            if isinstance(item, Box) and item.fill and item.width > 1:
                under.append(item)
            if not isinstance(item, Words):
                continue
            below = [
                box
                for box in under
                if box.x <= item.x <= box.x + box.width and box.y <= item.y <= box.y + box.height
            ]
            if below and below[-1].fill not in THEME:
                assert item.color != INK, (state, item)


# Several heads


def head_colors_in(scene: Scene) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for box in scene.items:
        if isinstance(box, Box) and box.height == 18 and box.fill:
            found.setdefault(text_in(scene, box), set()).add(box.fill)
    return found


@states(STACKED_HEADS)
def test_stacked_heads(state):
    num_heads = state["num_heads"]
    stacked = build_stack(num_heads)
    data = STACKED_HEADS.compute(num_heads=num_heads)
    context_vec, attn_weights = stacked(add_places(INPUTS)[None], return_weights=True)
    assert torch.equal(data.context_vec, context_vec[0])
    assert torch.equal(data.attn_weights, attn_weights[0])
    assert data.tokens == journey().tokens
    assert data.num_heads == num_heads
    assert data.num_parameters == sum(weight.numel() for weight in stacked.parameters())
    scene = STACKED_HEADS.draw(data)
    assert head_colors_in(scene) == {f"head {h}": {head_color(h)} for h in range(num_heads)}
    assert torch.equal(data.W_query, torch.cat([head.W_query.weight for head in stacked.heads]))
    columns = {1: (), 2: (2, 3)}.get(num_heads, (2, 3, 4, 5))
    listed = ", ".join(map(str, columns))
    moved = f"columns {listed} move (framed)" if columns else "nothing moves"
    many = "1 head makes" if num_heads == 1 else f"{num_heads} heads make"
    assert STACKED_HEADS.readout(data) == (
        f"{many} {2 * num_heads} columns with {5 * num_heads} matrix products; "
        f"head {num_heads - 1} looks {LOOKS[num_heads - 1]}. "
        f"If “starts” and “with” change places, then in the row of “one” {moved}."
    )
    cells = boxes(scene, 54, 24)
    values = data.context_vec.flatten().tolist()
    assert [text_in(scene, cell) for cell in cells] == [f"{value:.3f}" for value in values]
    row = cells[4 * 2 * num_heads :]
    if columns:  # one frame around all that move
        (edge,) = boxes(scene, 54 * len(columns) - 2, 22)
        assert (edge.x, edge.y) == (row[columns[0]].x + 1, row[columns[0]].y + 1)
    assert scene.width <= BOOK
    fills = [tint(head_color(column // 2), 0.22) for column in range(2 * num_heads)] * 6
    assert [cell.fill for cell in cells] == fills
    maps = boxes(scene, 19, 19)
    assert [cell.fill == QUIET for cell in maps] == causal_mask(6).flatten().tolist() * num_heads


# the key of each query
SEEN = {"1 word back": [0, 0, 1, 2, 3, 4], "2 words back": [0, 0, 0, 1, 2, 3]}


def test_built_heads_look_where_they_say_and_bring_what_is_there():
    data = STACKED_HEADS.compute(num_heads=4)
    looks = {look: torch.eye(6)[keys] for look, keys in SEEN.items()}
    looks["everywhere"] = torch.ones(6, 6).tril() / torch.arange(1, 7)[:, None]
    looks["1 and 2 words back"] = (looks["1 word back"] + looks["2 words back"]) / 2
    found = zip(LOOKS, data.attn_weights, data.context_vec.split(2, dim=-1), strict=True)
    for look, attn_weights, context_vec in found:
        torch.testing.assert_close(attn_weights, looks[look], atol=1e-3, rtol=0)
        torch.testing.assert_close(context_vec, looks[look] @ INPUTS[:, :2], atol=1e-3, rtol=0)


def test_one_more_head_changes_none_of_the_others():
    for num_heads in range(1, 4):
        fewer, more = (STACKED_HEADS.compute(num_heads=n) for n in (num_heads, num_heads + 1))
        assert torch.equal(more.context_vec[:, : 2 * num_heads], fewer.context_vec)
        assert torch.equal(more.attn_weights[:num_heads], fewer.attn_weights)


@states(WEIGHT_SPLIT)
def test_weight_split(state):
    num_heads, zeroed = state["num_heads"], state["zeroed_column"]
    torch.manual_seed(123)
    split = MultiHeadAttention(3, 12, 6, 0.0, num_heads)
    split.W_query.weight.detach().mul_(12)
    _, before = split(INPUTS[None], return_weights=True)
    if zeroed != "none":
        split.W_query.weight.detach()[int(zeroed.split()[1])] = 0
    _, attn_weights = split(INPUTS[None], return_weights=True)
    moved = (attn_weights - before)[0].abs().amax(dim=(1, 2)).tolist()
    data = WEIGHT_SPLIT.compute(**state)
    assert torch.equal(data.attn_weights, attn_weights[0])
    assert torch.equal(data.W_query, split.W_query.weight.T)
    assert data.moved == tuple(moved)
    assert data.tokens == journey().tokens
    line = (
        f"12 columns, {num_heads} head{'s' if num_heads > 1 else ''} of head_dim "
        f"{12 // num_heads}: scores are divided by √{12 // num_heads} = "
        f"{math.sqrt(12 // num_heads):.2f}. "
        f"{3 * 3 * 12 + 12 * 12 + 12} parameters and 6 matrix products."
    )
    if zeroed != "none":
        owner = int(zeroed.split()[1]) * num_heads // 12
        assert [h for h, by in enumerate(moved) if by] == [owner]
        others = ", no other" if num_heads > 1 else ""
        by = f"{moved[owner]:.2f}"
        line += f" {zeroed.capitalize()} is 0: head {owner} changes by {by}{others}."
    assert WEIGHT_SPLIT.readout(data) == line
    scene = WEIGHT_SPLIT.draw(data)
    tags = "{}" if num_heads == 12 else "head {}"
    assert head_colors_in(scene) == {tags.format(h): {head_color(h)} for h in range(num_heads)}
    touched = WEIGHT_SPLIT.touch(data, scene)
    assert [its.name for its in touched.maps] == [f"head {h}" for h in range(num_heads)]
