"""What the sliders show, without any slider: states, numbers, picture.

A panel is plain data: a few controls with a few values each, a pure function from those values to
numbers, and two more from the numbers to a picture and to a line of text. Nothing here needs a
kernel or a browser, so every state can be computed, tested and drawn in advance.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from attnlib.pictures.scene import Scene


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
    """

    name: str
    controls: Mapping[str, tuple[Any, ...]]
    default: Mapping[str, Any]
    compute: Callable[..., Any]
    draw: Callable[[Any], Scene]
    readout: Callable[[Any], str]

    def states(self) -> list[dict[str, Any]]:
        """Return every state that the controls can reach."""
        values = itertools.product(*self.controls.values())
        return [dict(zip(self.controls, state, strict=True)) for state in values]

    def picture(self) -> Scene:
        """Return the picture of the state at the start."""
        return self.draw(self.compute(**self.default))

    def page(self, state: Mapping[str, Any]) -> str:
        """Return a state as HTML: the readout, and the picture below it."""
        data = self.compute(**state)
        line = html.escape(self.readout(data))
        return (
            f'<div class="attnlib-readout" role="status">{line}</div>'
            f'<div class="attnlib-picture">{self.draw(data).svg()}</div>'
        )


def spelled(value: Any) -> str:
    """Return the value of a control as a slider shows it: numbers in short form, words as they are.

    >>> spelled(3), spelled(0.5), spelled("half")
    ('3', '0.5', 'half')
    """
    return value if isinstance(value, str) else f"{value:g}"
