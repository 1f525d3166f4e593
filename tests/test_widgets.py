"""Sliders moved from Python: what they show is what the panel computes."""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Mapping
from typing import Any

import ipywidgets
import pytest
import torch
from traitlets import TraitError

from attnlib.gpt2.model import journey_ids, tiny_gpt2
from attnlib.panels.gpt2 import gpt2_panel
from attnlib.panels.heads import ONE_HEAD, STACKED_HEADS, WEIGHT_SPLIT
from attnlib.panels.mistakes import GALLERY
from attnlib.panels.panel import Panel, spelled
from attnlib.panels.widgets import MOST_PAGES, LivePanelBox, PanelBox, Sliders
from support.cases import ALL_PANELS


@pytest.fixture(scope="module", params=ALL_PANELS, ids=lambda panel: panel.name)
def panel(request: pytest.FixtureRequest) -> Panel:
    return request.param


@pytest.fixture(scope="module")
def kept(panel: Panel) -> PanelBox:
    return PanelBox(panel)


@pytest.fixture
def box(kept: PanelBox) -> PanelBox:
    """The box of a panel, made once, its sliders at the start."""
    move(kept, kept.panel.default)
    return kept


def move(box: Sliders, state: Mapping[str, Any]) -> None:
    for control, value in state.items():
        box.sliders[control].value = value


def assert_shows(box: PanelBox, state: dict) -> None:
    """Hold what a box shows against what its panel computes for a state."""
    data = box.panel.compute(**state)
    assert box.state() == state
    page = page_of(box)
    assert html.unescape(re.sub("<svg.*|<[^>]*>", "", page)) == box.panel.readout(data)
    assert box.panel.draw(data).svg() in page


def page_of(box: PanelBox) -> str:
    """Return the page that lies on top once the links have done what a browser makes them do."""
    _, shown = box.children
    while isinstance(shown, ipywidgets.Stack):
        (slider, source), (target, attribute) = shown.link.source, shown.link.target
        assert slider in box.sliders.values()
        assert target is shown
        setattr(target, attribute, getattr(slider, source))
        shown = shown.children[shown.selected_index]
    return shown.value


def descendants(widget: ipywidgets.Widget) -> list[ipywidgets.Widget]:
    children = getattr(widget, "children", ())
    return [widget, *(found for child in children for found in descendants(child))]


def test_a_box_starts_in_the_state_of_the_static_figure(panel):
    box = PanelBox(panel)
    _, shown = box.children
    while isinstance(shown, ipywidgets.Stack):  # before any link has done anything
        shown = shown.children[shown.selected_index]
    assert panel.picture().svg() in shown.value
    assert shown.value == page_of(box)
    assert_shows(box, dict(panel.default))


def test_every_state_that_sliders_reach_is_shown(panel, box):
    for state in panel.states():
        move(box, state)
        assert_shows(box, state)


def test_a_slider_has_the_states_of_its_panel_and_no_others(panel, box):
    assert list(box.sliders) == list(panel.controls)
    for control, slider in box.sliders.items():
        assert isinstance(slider, ipywidgets.SelectionSlider)
        assert slider.description == control
        assert [value for _, value in slider.options] == list(panel.controls[control])
        assert [type(v)(label) for label, v in slider.options] == list(panel.controls[control])


def test_a_slider_of_words_is_wide_enough_for_the_longest():
    sliders = PanelBox(GALLERY).sliders
    assert [label for label, _ in sliders["condition"].options][:2] == [
        "as usual",
        "context_length 1",
    ]
    assert sliders["mistake"].layout.width == "444px"
    assert PanelBox(ONE_HEAD).sliders["dropout"].layout.width == "320px"


@pytest.mark.parametrize(
    ("panel", "control", "value"),
    [
        (GALLERY, "mistake", "no mistake"),
        (WEIGHT_SPLIT, "num_heads", 5),
        (STACKED_HEADS, "num_heads", 0),
        (ONE_HEAD, "num_tokens", 7),
        (ONE_HEAD, "dropout", 1.0),
    ],
)
def test_an_invalid_state_cannot_be_chosen(panel, control, value):
    box = PanelBox(panel)
    before = page_of(box)
    with pytest.raises(TraitError, match="Invalid selection: value not found"):
        box.sliders[control].value = value
    assert box.state() == dict(panel.default)
    assert page_of(box) == before


def test_every_state_is_computed_once_when_the_box_is_made(panel):
    """And a move computes nothing: the kernel may be busy, or slow."""
    computed = []

    def compute(**state: object) -> object:
        computed.append(state)
        return panel.compute(**state)

    box = PanelBox(dataclasses.replace(panel, compute=compute))
    assert len(computed) == len(panel.states())
    assert all(state in computed for state in panel.states())
    move(box, panel.states()[0])
    page_of(box)
    assert len(computed) == len(panel.states())


def test_its_repr_is_one_line_that_tells_the_state(panel, box):
    for state in (panel.states()[0], panel.states()[-1]):
        move(box, state)
        shown = ", ".join(f"{control}={spelled(value)}" for control, value in state.items())
        assert repr(box) == f"<sliders of the panel '{panel.name}': {shown}>"


def test_it_is_one_container_of_sliders_and_pages(panel, box):
    assert isinstance(box, ipywidgets.VBox)
    controls, pages = map(descendants, box.children)
    sliders = [widget for widget in controls if widget in box.sliders.values()]
    assert sliders == [*box.sliders.values()]
    leaves = [widget for widget in pages if not isinstance(widget, ipywidgets.Stack)]
    assert len(leaves) == len(panel.states())
    for leaf in leaves:
        assert type(leaf) is ipywidgets.HTML
        assert leaf.value.count('class="attnlib-readout"') == 1
        assert leaf.value.count('class="attnlib-picture"') == 1


def test_two_boxes_of_one_panel_move_apart():
    first, second = PanelBox(STACKED_HEADS), PanelBox(STACKED_HEADS)
    first.sliders["num_heads"].value = 5
    assert_shows(first, {"num_heads": 5})
    assert_shows(second, {"num_heads": 2})


def test_sliders_leave_the_readers_random_numbers_alone(panel):
    torch.manual_seed(4)
    before = torch.get_rng_state()
    box = PanelBox(panel)
    move(box, panel.states()[-1])
    assert torch.equal(torch.get_rng_state(), before)


# A panel of many states


def test_too_many_states_are_not_drawn_ahead():
    values = tuple(range(MOST_PAGES + 1))
    many = Panel(
        name="many",
        controls={"n": values},
        default={"n": 0},
        compute=lambda n: n,
        draw=lambda n: None,
        readout=str,
    )
    said = r"the panel 'many' has 101 states, and at most 100 are drawn ahead: use LivePanelBox"
    with pytest.raises(ValueError, match=said):
        PanelBox(many)


def test_a_live_box_draws_a_state_when_it_is_there(panel):
    computed = []

    def compute(**state: object) -> object:
        computed.append(state)
        return panel.compute(**state)

    box = LivePanelBox(dataclasses.replace(panel, compute=compute))
    assert computed == [panel.default]
    assert box.page.value == panel.page(panel.default)
    drawn: list[Any] = []
    box.page.observe(drawn.append, names="value")
    state = dict(panel.default)
    for control, values in panel.controls.items():
        state[control] = values[0] if panel.default[control] != values[0] else values[-1]
        computed.clear()
        drawn.clear()
        box.sliders[control].value = state[control]
        assert computed == [state]
        assert len(drawn) == 1
        assert box.page.value == panel.page(state)
    shown = ", ".join(f"{control}={spelled(value)}" for control, value in state.items())
    assert repr(box) == f"<sliders of the panel '{panel.name}': {shown}>"


def test_a_live_box_shows_any_gpt2():
    panel = gpt2_panel(tiny_gpt2(), journey_ids(6), ("a", "b", "c", "d", "e", "f"))
    box = LivePanelBox(panel)
    move(box, {"layer": 3, "head": 2})
    assert box.page.value == panel.page({"layer": 3, "head": 2})
    assert "layer = 3 | head = 2" in box.page.value
