"""Panels in a notebook: with the same JavaScript as in a page without a kernel.

panel.js draws the states of a Panel, live.js is what the panels share that compute in the page.
Both run in JupyterLab, Notebook, VS Code and Colab by way of anywidget. This module needs
anywidget, so it is imported explicitly.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from attncourse.panels.live import STYLE, LivePanel
from attncourse.panels.panel import Panel, format_value, pack
from attncourse.pictures.scene import Scene
from attncourse.renamed import explain_renamed

HERE = Path(__file__).parent
PANEL_STYLE = HERE.joinpath("panel.css").read_text("utf-8")


class WidgetWithPicture(anywidget.AnyWidget):
    """A widget beside which a picture is stored, for pages without a kernel."""

    static_picture: Callable[[], Scene]

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the live view, and beside it the picture."""
        made: tuple[dict[str, Any], dict[str, Any]] | None = super()._repr_mimebundle_(**kwargs)
        if made is None:
            return None
        scene = self.static_picture()
        png, _ = scene._repr_png_()
        html = f"<p>▶ Run this cell with Shift+Enter to move it.</p>{scene._repr_html_()}"
        picture = {"text/html": html, "image/png": base64.b64encode(png).decode("ascii")}
        return {**made[0], **picture}, made[1]


class PanelWidget(WidgetWithPicture):
    """The controls of a panel, the line that says in words what they show, and the pictures.

    Every state is computed and drawn when the widget is made. The browser then changes from one to
    the other by itself, even while the kernel is busy.
    """

    _esm = HERE.joinpath("panel.js").read_text("utf-8")
    _css = PANEL_STYLE
    packed = traitlets.Unicode().tag(sync=True)

    def __init__(self, panel: Panel) -> None:
        self.panel, self.static_picture = panel, panel.static_picture
        super().__init__(packed=pack(panel.to_json()))

    def __repr__(self) -> str:
        default = self.panel.default.items()
        start = ", ".join(f"{name}={format_value(value)}" for name, value in default)
        return f"<sliders of the panel '{self.panel.name}': {start}>"


class LiveWidget(WidgetWithPicture):
    """A panel whose numbers the browser computes: a kernel is never asked."""

    _css = PANEL_STYLE + STYLE
    sheet = traitlets.Dict().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)  # what the reader chose; it is saved with the notebook

    def __init__(self, panel: LivePanel) -> None:
        self.panel, self.static_picture = panel, panel.draw
        self._esm = panel.module()
        super().__init__(sheet=panel.to_json())

    def __repr__(self) -> str:
        return f"<{self.panel.title}, to be moved>"


explain_renamed(__name__)
