"""Sliders moved from Python: what they show is what the panel computes."""

from __future__ import annotations

import dataclasses
import html
import re

import ipywidgets
import pytest
import torch
from traitlets import TraitError

from attnlib.gallery import GALLERY
from attnlib.panels import ONE_HEAD, STACKED_HEADS, WEIGHT_SPLIT, spelled
from attnlib.widgets import PanelBox
from cases import ALL_PANELS

EVERY = pytest.mark.parametrize("panel", ALL_PANELS, ids=lambda panel: panel.name)


def assert_shows(box: PanelBox, state: dict) -> None:
    """Hold what a box shows against what its panel computes for a state."""
    data = box.panel.compute(**state)
    assert box.state() == state
    shown = html.unescape(re.sub("<[^>]*>", "", box.readout.value))
    assert shown == box.panel.readout(data)
    assert box.panel.draw(data).svg() in box.picture.value


def descendants(widget: ipywidgets.Widget) -> list[ipywidgets.Widget]:
    children = getattr(widget, "children", ())
    return [widget, *(found for child in children for found in descendants(child))]


@EVERY
def test_a_box_starts_in_the_state_of_the_static_figure(panel):
    box = PanelBox(panel)
    assert_shows(box, dict(panel.default))
    assert panel.picture().svg() in box.picture.value


@EVERY
def test_each_slider_moved_shows_its_state(panel):
    """To every place of every slider, the others at their start; then to both far corners."""
    box = PanelBox(panel)
    for control, values in panel.controls.items():
        for value in values:
            box.sliders[control].value = value
            assert_shows(box, {**panel.default, control: value})
        box.sliders[control].value = panel.default[control]
    for state in (panel.states()[0], panel.states()[-1]):
        for control, value in state.items():
            box.sliders[control].value = value
        assert_shows(box, state)


@EVERY
def test_a_slider_has_the_states_of_its_panel_and_no_others(panel):
    box = PanelBox(panel)
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
    before = box.picture.value
    with pytest.raises(TraitError, match="Invalid selection: value not found"):
        box.sliders[control].value = value
    assert box.state() == dict(panel.default)
    assert box.picture.value == before


@EVERY
def test_one_move_computes_once_and_draws_once(panel):
    computed, drawn = [], []

    def compute(**state: object) -> object:
        computed.append(state)
        return panel.compute(**state)

    box = PanelBox(dataclasses.replace(panel, compute=compute))
    for part in (box.readout, box.picture):
        part.observe(drawn.append, names="value")
    (control, values), *_ = panel.controls.items()
    other = values[0] if panel.default[control] != values[0] else values[-1]
    computed.clear()
    for _ in range(2):  # the second time it is there already
        box.sliders[control].value = other
        assert computed == [{**panel.default, control: other}]
        assert [change.owner for change in drawn] == [box.readout, box.picture]


@EVERY
def test_its_repr_is_one_line_that_tells_the_state(panel):
    box = PanelBox(panel)
    for state in (panel.states()[0], panel.states()[-1]):
        for control, value in state.items():
            box.sliders[control].value = value
        shown = ", ".join(f"{control}={spelled(value)}" for control, value in state.items())
        assert repr(box) == f"<sliders of the panel '{panel.name}': {shown}>"


@EVERY
def test_it_is_one_container_of_sliders_readout_and_picture(panel):
    box = PanelBox(panel)
    assert isinstance(box, ipywidgets.VBox)
    shown = descendants(box)
    assert shown[-2:] == [box.readout, box.picture]
    assert [widget for widget in shown if widget in box.sliders.values()] == [*box.sliders.values()]
    assert not any(isinstance(widget, ipywidgets.Output) for widget in shown)
    assert "attnlib-readout" in box.readout.value
    assert "attnlib-picture" in box.picture.value


def test_two_boxes_of_one_panel_move_apart():
    first, second = PanelBox(STACKED_HEADS), PanelBox(STACKED_HEADS)
    first.sliders["num_heads"].value = 5
    assert_shows(first, {"num_heads": 5})
    assert_shows(second, {"num_heads": 2})


def test_sliders_leave_the_readers_random_numbers_alone():
    torch.manual_seed(4)
    before = torch.get_rng_state()
    for panel in ALL_PANELS:
        box = PanelBox(panel)
        for control, value in panel.states()[-1].items():
            box.sliders[control].value = value
        assert torch.equal(torch.get_rng_state(), before)
