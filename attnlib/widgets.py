"""Sliders over the panels: one container for each, with a readout in words and a picture."""

from __future__ import annotations

import html
from typing import Any

import ipywidgets

from attnlib.panels import Panel, spelled

# ipywidgets cuts the word beside a slider off after 148 pixels
WHOLE_WORDS = "<style>.attnlib-panel .widget-readout { max-width: none; }</style>"


class PanelBox(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """Sliders, the line that says in words what they show, and the picture.

    A slider can only be put on values that the panel allows. Its `observe` callback sets the
    text of two HTML widgets and nothing else, so the panel works wherever widgets do. What was
    drawn once is kept: a panel has few states.
    """

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self._drawn: dict[tuple[Any, ...], tuple[str, str]] = {}
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
        self.readout = ipywidgets.HTML()
        self.picture = ipywidgets.HTML()
        for slider in self.sliders.values():
            slider.observe(self._show, names="value")
        self._show()
        parts = [*self.sliders.values(), ipywidgets.HTML(WHOLE_WORDS)]
        controls = ipywidgets.HBox(parts, layout={"flex_flow": "row wrap"})
        super().__init__([controls, self.readout, self.picture])
        self.add_class("attnlib-panel")

    def state(self) -> dict[str, Any]:
        """Return the value of each slider."""
        return {name: slider.value for name, slider in self.sliders.items()}

    def __repr__(self) -> str:
        state = ", ".join(f"{name}={spelled(value)}" for name, value in self.state().items())
        return f"<sliders of the panel '{self.panel.name}': {state}>"

    def _show(self, _change: object = None) -> None:
        state = self.state()
        key = tuple(state.values())
        if key not in self._drawn:
            data = self.panel.compute(**state)
            line = html.escape(self.panel.readout(data))
            self._drawn[key] = (
                f'<div class="attnlib-readout" role="status">{line}</div>',
                f'<div class="attnlib-picture">{self.panel.draw(data).svg()}</div>',
            )
        self.readout.value, self.picture.value = self._drawn[key]


def _width(values: tuple[Any, ...]) -> str:
    """Return the width of a slider that has room for its longest word."""
    return f"{max(320, 260 + 8 * max(len(spelled(value)) for value in values))}px"
