"""Sliders for the panels: for each a container with its sliders, its readout and its picture."""

from __future__ import annotations

from typing import Any

import ipywidgets

from attnlib.panels.panel import Panel, spelled

MOST_PAGES = 100
# ipywidgets cuts the word beside a slider off after 148 pixels
WHOLE_WORDS = "<style>.attnlib-panel .widget-readout { max-width: none; }</style>"


class Sliders(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets ships no types
    """The sliders of a panel, above whatever shows their state.

    A slider can only take the values that the panel allows.
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
        parts = [*self.sliders.values(), ipywidgets.HTML(WHOLE_WORDS)]
        self.controls = ipywidgets.HBox(parts, layout={"flex_flow": "row wrap"})
        super().__init__([self.controls])
        self.add_class("attnlib-panel")

    def state(self) -> dict[str, Any]:
        """Return the value of each slider."""
        return {name: slider.value for name, slider in self.sliders.items()}

    def __repr__(self) -> str:
        state = ", ".join(f"{name}={spelled(value)}" for name, value in self.state().items())
        return f"<sliders of the panel '{self.panel.name}': {state}>"


class PanelBox(Sliders):
    """Sliders, the readout of their state in words, and its picture.

    Every state is computed and drawn when the box is made, because a panel has few. The browser
    then switches pages by itself, even while the kernel is busy: the pages lie in nested Stack
    widgets, one level for each control, and each Stack is linked to its slider.

    Raises:
        ValueError: the panel has more than 100 states.
    """

    def __init__(self, panel: Panel) -> None:
        count = len(panel.states())
        if count > MOST_PAGES:
            raise ValueError(
                f"the panel '{panel.name}' has {count} states, and at most {MOST_PAGES} are drawn "
                "ahead: use LivePanelBox, which draws a state when a slider arrives there"
            )
        super().__init__(panel)
        self._looks = {"layout": ipywidgets.Layout(), "style": ipywidgets.HTML().style}
        fewest_first = sorted(panel.controls, key=lambda name: len(panel.controls[name]))
        self.children = [self.controls, self._pages(fewest_first, {})]

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


class LivePanelBox(Sliders):
    """The same for a panel with many states: each is drawn when a slider reaches it.

    The sliders' `observe` callback sets the text of one HTML widget and nothing else, so the box
    works wherever widgets do, as long as the kernel is idle.
    """

    def __init__(self, panel: Panel) -> None:
        super().__init__(panel)
        self.page = ipywidgets.HTML()
        self.children = [self.controls, self.page]
        for slider in self.sliders.values():
            slider.observe(self._show, names="value")
        self._show()

    def _show(self, _change: object = None) -> None:
        self.page.value = self.panel.page(self.state())


def _width(values: tuple[Any, ...]) -> str:
    """Return the width of a slider that has room for its longest word."""
    return f"{max(320, 260 + 8 * max(len(spelled(value)) for value in values))}px"
