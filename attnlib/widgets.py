"""Sliders over the panels: one container for each, with a readout in words and a picture."""

from __future__ import annotations

import html
from typing import Any

import ipywidgets

from attnlib.panels import Panel


class PanelBox(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """Sliders, the line that says in words what they show, and the picture.

    A slider can only be put on values that the panel allows. Its `observe` callback sets the
    text of two HTML widgets and nothing else, so the panel works wherever widgets do.
    """

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self.sliders = {
            name: ipywidgets.SelectionSlider(
                options=[(f"{value:g}", value) for value in values],
                value=panel.default[name],
                description=name,
                tooltip="drag it, or use the arrow keys",
                style={"description_width": "initial"},
                layout={"width": "320px", "margin": "2px 24px 2px 2px"},
            )
            for name, values in panel.controls.items()
        }
        self.readout = ipywidgets.HTML()
        self.picture = ipywidgets.HTML()
        for slider in self.sliders.values():
            slider.observe(self._show, names="value")
        self._show()
        controls = ipywidgets.HBox(list(self.sliders.values()), layout={"flex_flow": "row wrap"})
        super().__init__([controls, self.readout, self.picture])
        self.add_class("attnlib-panel")

    def state(self) -> dict[str, Any]:
        """Return the value of each slider."""
        return {name: slider.value for name, slider in self.sliders.items()}

    def __repr__(self) -> str:
        state = ", ".join(f"{name}={value:g}" for name, value in self.state().items())
        return f"<sliders of the panel '{self.panel.name}': {state}>"

    def _show(self, _change: object = None) -> None:
        data = self.panel.compute(**self.state())
        line = html.escape(self.panel.readout(data))
        self.readout.value = f'<div class="attnlib-readout" role="status">{line}</div>'
        self.picture.value = f'<div class="attnlib-picture">{self.panel.draw(data).svg()}</div>'
