"""Sliders over the panels: one container for each, with a readout in words and a picture."""

from __future__ import annotations

from typing import Any

import ipywidgets

from attnlib.panels import Panel, spelled

# ipywidgets cuts the word beside a slider off after 148 pixels
WHOLE_WORDS = "<style>.attnlib-panel .widget-readout { max-width: none; }</style>"


class PanelBox(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """Sliders, the line that says in words what they show, and the picture.

    A slider can only be put on values that the panel allows. Every state is computed and drawn
    when the box is made, for a panel has few. The browser then turns from one to the other by
    itself, without asking the kernel, which may be busy: the pages lie in stacks within stacks, one
    level for each control, and each stack is linked to its slider.
    """

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.sliders = {
            name: ipywidgets.SelectionSlider(
                options=[(spelled(value), value) for value in values],
                value=panel.default[name],
                description=name,
                tooltip="drag it, or use the arrow keys",
                style={"description_width": "initial"},
                layout={"width": _width(values), "margin": "2px 24px 2px 2px"},
            )
            for name, values in panel.controls.items()
        }
        self._looks = {"layout": ipywidgets.Layout(), "style": ipywidgets.HTML().style}
        fewest_first = sorted(panel.controls, key=lambda name: len(panel.controls[name]))
        pages = self._pages(fewest_first, {})
        parts = [*self.sliders.values(), ipywidgets.HTML(WHOLE_WORDS)]
        controls = ipywidgets.HBox(parts, layout={"flex_flow": "row wrap"})
        super().__init__([controls, pages])
        self.add_class("attnlib-panel")

    def state(self) -> dict[str, Any]:
        """Return the value of each slider."""
        return {name: slider.value for name, slider in self.sliders.items()}

    def __repr__(self) -> str:
        state = ", ".join(f"{name}={spelled(value)}" for name, value in self.state().items())
        return f"<sliders of the panel '{self.panel.name}': {state}>"

    def _pages(self, controls: list[str], state: dict[str, Any]) -> ipywidgets.Widget:
        """Return the page of a state, or the stack of pages over the controls that are left."""
        if not controls:
            return ipywidgets.HTML(self.panel.page(state), **self._looks)
        name, *rest = controls
        slider = self.sliders[name]
        pages = [self._pages(rest, {**state, name: value}) for value in self.panel.controls[name]]
        stack = ipywidgets.Stack(pages, selected_index=slider.index)
        stack.link = ipywidgets.jsdlink((slider, "index"), (stack, "selected_index"))
        return stack


def _width(values: tuple[Any, ...]) -> str:
    """Return the width of a slider that has room for its longest word."""
    return f"{max(320, 260 + 8 * max(len(spelled(value)) for value in values))}px"
