"""A panel in a notebook: the same controls, line and picture as in a page without a kernel.

panel.js draws them, and live.js those that compute; both run in JupyterLab, Notebook, VS Code and
Colab by way of anywidget.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from attncourse.panels.live import LOOKS, LivePanel
from attncourse.panels.states import Panel, bundle_of, make_bundle, spell

HERE = Path(__file__).parent


class Shown(anywidget.AnyWidget):
    """What a browser draws from its sheet; beside it in a notebook, a picture that stays."""

    sheet = traitlets.Dict().tag(sync=True)

    def bundle(self) -> dict[str, str]:
        """Return the picture that a page without a kernel shows."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the live view, and beside it the picture."""
        made: tuple[dict[str, Any], dict[str, Any]] | None = super()._repr_mimebundle_(**kwargs)
        return made and ({**made[0], **self.bundle()}, made[1])


class PanelBox(Shown):
    """The controls of a panel, the line that says in words what they show, and the picture.

    Every state is computed and drawn when the box is made, for a panel has few. The browser then
    turns from one to the other by itself, even while the kernel is busy. Of a panel with more
    than 100 states each is drawn when a control first arrives there.

    Args:
        panel: what to show.
    """

    _esm = HERE / "panel.js"
    _css = HERE / "panel.css"
    sheet = traitlets.Dict()
    packed = traitlets.Bytes().tag(sync=True)  # the sheet, a fifth as large

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        sheet = panel.sheet()
        super().__init__(sheet=sheet, packed=zlib.compress(json.dumps(sheet).encode()))
        self.on_msg(self._draw)

    def _draw(self, _widget: object, message: object, _buffers: object) -> None:
        """Send the page that the browser asks for; what asks for no page gets no answer."""
        states = self.panel.states()
        match message:
            case {"draw": int(place)} if 0 <= place < len(states):
                self.send({"place": place, "page": self.panel.page(states[place])})

    def bundle(self) -> dict[str, str]:
        return make_bundle(self.panel)

    def __repr__(self) -> str:
        start = ", ".join(f"{name}={spell(value)}" for name, value in self.panel.default.items())
        return f"<sliders of the panel '{self.panel.name}': {start}>"


class LiveBox(Shown):
    """A panel that computes by itself: a kernel is never asked.

    Args:
        panel: what to show.
    """

    _css = HERE.joinpath("panel.css").read_text("utf-8") + LOOKS.read_text("utf-8")
    state = traitlets.Dict().tag(sync=True)  # what the reader chose; it is saved with the notebook

    def __init__(self, panel: LivePanel) -> None:
        self.panel = panel
        self._esm = panel.module()
        super().__init__(sheet=panel.sheet())

    def bundle(self) -> dict[str, str]:
        return bundle_of(self.panel.draw())

    def __repr__(self) -> str:
        return f"<{self.panel.title}, to be moved>"
