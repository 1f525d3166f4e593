"""Panels that compute in the page: small models in plain JavaScript, equal to those in PyTorch.

A LivePanel is plain data: what its JavaScript is given, and the picture that stays where nothing
can be moved. live.js has what all of them share, attention first; the file of a panel has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attncourse.learning.mini import CONTEXT_LENGTH, mini_model, page_data
from attncourse.pictures import Scene, arcs_picture

HERE = Path(__file__).parent
LOOKS = ("panel.css", "live.css")


@dataclass(frozen=True)
class LivePanel:
    """A panel whose numbers the browser computes."""

    name: str  # of its .js file, and of its state in the address of a page
    title: str  # as a screen reader says it
    data: Callable[[], dict[str, Any]]  # in the types of JSON
    draw: Callable[[], Scene]  # the picture that stays

    def module(self) -> str:
        """Return its JavaScript: what all such panels share, and its own."""
        files = (HERE / f"{name}.js" for name in ("live", self.name))
        return "\n".join(file.read_text("utf-8") for file in files)

    def sheet(self) -> dict[str, Any]:
        """Return all that a browser needs."""
        return {"name": self.name, "title": self.title, **self.data()}


def looks() -> str:
    """Return the styles of all these panels."""
    return "".join((HERE / name).read_text("utf-8") for name in LOOKS)


# The mini model of lessons 01 to 03


def _mini() -> dict[str, Any]:
    return {**page_data(mini_model()), "longest": CONTEXT_LENGTH}


def _draw_mini() -> Scene:
    """Return where the last word looks in the sentence at the start."""
    read = mini_model().read("The capital of France is")
    last = len(read.tokens) - 1
    return arcs_picture(read.tokens, read.weights[None], [""], query=last)


MINI = LivePanel("mini", "the mini model", _mini, _draw_mini)
