"""What the sliders show, without any slider: states, numbers, picture.

A panel is plain data: a few controls with a few values each, a pure function from those values to
numbers, and two more from the numbers to a picture and to a line of text. Nothing here needs a
kernel or a browser, so every state can be computed, tested and drawn in advance.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from attnlib.pictures.scene import Scene, captioned, in_rows

MOST_PAGES = 100  # as many states are drawn ahead, even while the kernel is busy
MOST_BUTTONS = 6  # more words than these are a list

Page = dict[str, str]


@dataclass(frozen=True)
class Panel:
    """Controls, and the three pure functions behind them.

    Args:
        name: the panel's name, shown in its repr.
        controls: all the values that each control can take.
        default: the value of each control at the start.
        compute: from the controls' values (as keywords) to the numbers shown.
        draw: from those numbers to a picture.
        readout: from those numbers to one line of text.
        time: the control that can be played, step by step, if there is one.
        telling: the states that a page without a kernel shows, side by side. None: one control,
            that of the time or the one with the most values, at its first, middle and last value.
    """

    name: str
    controls: Mapping[str, tuple[Any, ...]]
    default: Mapping[str, Any]
    compute: Callable[..., Any]
    draw: Callable[[Any], Scene]
    readout: Callable[[Any], str]
    time: str | None = None
    telling: tuple[Mapping[str, Any], ...] | None = None

    def states(self) -> list[dict[str, Any]]:
        """Return every state that the controls can reach."""
        values = itertools.product(*self.controls.values())
        return [dict(zip(self.controls, state, strict=True)) for state in values]

    def picture(self) -> Scene:
        """Return the picture of the state at the start."""
        return self.draw(self.compute(**self.default))

    def page(self, state: Mapping[str, Any]) -> Page:
        """Return what a state shows: its line of text, and its picture as SVG."""
        data = self.compute(**state)
        return _page(self.readout(data), self.draw(data))

    def sheet(self) -> dict[str, Any]:
        """Return all that a page in a browser needs, in the types of JSON.

        Returns:
            The name; the controls, each with its kind (number, words, list or time), the words
            of its values and the place of its default; a page for each state, in the order of
            states(), or None where more than MOST_PAGES would have to be drawn; the width and
            height that hold every picture drawn.
        """
        controls = [
            {
                "name": name,
                "kind": self._kind(name),
                "words": [spelled(value) for value in values],
                "start": values.index(self.default[name]),
            }
            for name, values in self.controls.items()
        ]
        states = self.states()
        ahead = len(states) <= MOST_PAGES
        pages: list[Page | None] = []
        width = height = 0.0
        for state in states:
            if not ahead and state != dict(self.default):
                pages.append(None)
                continue
            data = self.compute(**state)
            scene = self.draw(data)
            pages.append(_page(self.readout(data), scene))
            width, height = max(width, scene.width), max(height, scene.height)
        size = {"width": math.ceil(width), "height": math.ceil(height)}
        return {"name": self.name, "controls": controls, "pages": pages, **size}

    def telling_states(self) -> list[dict[str, Any]]:
        """Return the states that a page without a kernel shows."""
        if self.telling is not None:
            return [{**self.default, **state} for state in self.telling]
        control = self.time or max(self.controls, key=lambda name: len(self.controls[name]))
        values = self.controls[control]
        places = sorted({0, len(values) // 2, len(values) - 1})
        return [{**self.default, control: values[place]} for place in places]

    def _kind(self, control: str) -> str:
        """Return how a control is shown."""
        if control == self.time:
            return "time"
        values = self.controls[control]
        if not isinstance(values[0], str):
            return "number"
        return "words" if len(values) <= MOST_BUTTONS else "list"


def _page(line: str, scene: Scene) -> Page:
    return {"line": line, "picture": scene.svg()}


def stored(panel: Panel) -> dict[str, str]:
    """Return what stays of a panel where no kernel runs: its telling states in one picture.

    Returns:
        The parts of a mimebundle: text/html, an <img> whose alt text says what each state shows,
        and image/png.
    """
    scene = told(panel)
    png, _ = scene._repr_png_()
    return {"text/html": scene._repr_html_(), "image/png": base64.b64encode(png).decode("ascii")}


def told(panel: Panel) -> Scene:
    """Return the telling states of a panel in one picture, each under its line of text."""
    shown = [panel.compute(**state) for state in panel.telling_states()]
    return in_rows(*(captioned(panel.draw(data), panel.readout(data)) for data in shown))


def spelled(value: Any) -> str:
    """Return the value of a control as a slider shows it: numbers in short form, words as they are.

    >>> spelled(3), spelled(0.5), spelled("half")
    ('3', '0.5', 'half')
    """
    return value if isinstance(value, str) else f"{value:g}"
