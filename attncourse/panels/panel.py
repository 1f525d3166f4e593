"""A panel: controls, and what is shown for each of their values, without any slider.

A Panel is plain data: a few controls with a few values each, a pure function from those values to
numbers, and others from the numbers to pictures and text. Nothing here needs a kernel or a browser,
so every state can be computed, tested and drawn in advance.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from attncourse.pictures.scene import Scene, add_caption, arrange_in_rows

PHONE = 332.0  # pixels that a panel has on a phone
MAX_BUTTONS = 6  # more words than these are shown as a list


class Heatmap(NamedTuple):
    """What the cells of a map of attention weights say when a reader points at them."""

    name: str
    tokens: Sequence[str]
    cells: list[list[str]]  # for each query a text for each key


def heatmaps(tokens: Sequence[str], attn_weights: Tensor, is_masked: Tensor) -> list[Heatmap]:
    """Return what the cells of the maps of heads say, (num_heads, num_tokens, num_tokens).

    >>> import torch
    >>> weights, is_masked = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[False, True]])
    >>> heatmaps("ab", weights, is_masked)[0].cells
    [['weight 1.000', 'masked']]
    """
    by_head = zip(attn_weights, is_masked.expand_as(attn_weights), strict=True)
    return [
        Heatmap(f"head {h}", tokens, [_cell_texts(*row) for row in zip(*both, strict=True)])
        for h, both in enumerate(by_head)
    ]


def _cell_texts(weights: Tensor, is_masked: Tensor) -> list[str]:
    told = zip(weights.tolist(), is_masked.tolist(), strict=True)
    return ["masked" if masked else f"weight {format_number(weight)}" for weight, masked in told]


def format_number(value: float, decimals: int = 3) -> str:
    """Return a number with a true minus sign; no zero has a sign.

    >>> format_number(-0.5), format_number(-0.0001), format_number(float("nan"))
    ('−0.500', '0.000', 'NaN')
    """
    if math.isnan(value):
        return "NaN"
    return f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−")


def format_value(value: Any) -> str:
    """Return the value of a control: numbers in short form, words as they are.

    >>> format_value(3), format_value(0.5), format_value("half")
    ('3', '0.5', 'half')
    """
    return value if isinstance(value, str) else f"{value:g}"


@dataclass(frozen=True)
class Panel:
    """Controls, and the pure functions behind them."""

    name: str
    controls: Mapping[str, tuple[Any, ...]]  # all the values that each can take
    default: Mapping[str, Any]  # the value of each control at the start
    compute: Callable[..., Any]  # from the controls' values, as keywords, to the numbers shown
    # pictures that a page puts side by side as long as they fit, so each is as wide as a phone
    draw: Callable[[Any], Sequence[Scene]]
    readout: Callable[[Any], str]  # what the panel shows, in a few sentences
    static_states: tuple[Mapping[str, Any], ...]  # what a page without a kernel shows
    details: Callable[[Any], str] = lambda data: ""  # more lines of text, such as code
    maps: Callable[[Any], Sequence[Heatmap]] = lambda data: ()  # in the order of draw
    animated: str | None = None  # the control that can be played; it starts at its first value

    def states(self) -> list[dict[str, Any]]:
        """Return every state that the controls can reach."""
        values = itertools.product(*self.controls.values())
        return [dict(zip(self.controls, state, strict=True)) for state in values]

    def page(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a state shows, in the types of JSON: its text and its pictures."""
        data = self.compute(**state)
        maps = iter(self.maps(data))
        return {
            "line": self.readout(data),
            "details": self.details(data),
            "pictures": [self._picture(scene, maps) for scene in self.draw(data)],
        }

    def _picture(self, scene: Scene, maps: Iterator[Heatmap]) -> dict[str, Any]:
        """Return a scene as SVG, with the places of its maps and of what a click chooses there."""
        # The first cell of a map is a box named "map". A click on a box that has the name of a
        # value of a control chooses this value.
        choices = [
            [control, i, box.x, box.y, box.width, box.height]
            for control, values in self.controls.items()
            for i, value in enumerate(values)
            for box in scene.boxes_named(format_value(value))
        ]
        return {
            "svg": scene.svg(),
            "width": scene.width,
            "height": scene.height,
            "choices": choices,
            "maps": [
                {"x": box.x, "y": box.y, "cell": box.width, **next(maps)._asdict()}
                for box in scene.boxes_named("map")
            ],
        }

    def to_json(self) -> dict[str, Any]:
        """Return all that a page in a browser needs, in the types of JSON.

        The pages are in the order of states(). Each names its pictures by their indexes, because
        many pages have the same picture.
        """
        controls = [
            {
                "name": name,
                "kind": self._kind(name),
                "words": [format_value(value) for value in values],
                "start": values.index(self.default[name]),
            }
            for name, values in self.controls.items()
        ]
        pages = [self.page(state) for state in self.states()]
        indexes: dict[str, int] = {}
        for page in pages:
            drawn = map(json.dumps, page["pictures"])
            page["pictures"] = [indexes.setdefault(text, len(indexes)) for text in drawn]
        pictures = [json.loads(text) for text in indexes]
        return {"name": self.name, "controls": controls, "pages": pages, "pictures": pictures}

    def _kind(self, control: str) -> str:
        """Return how a control is shown."""
        if control == self.animated:
            return "player"
        values = self.controls[control]
        if not isinstance(values[0], str):
            return "number"
        return "words" if len(values) <= MAX_BUTTONS else "list"

    def static_picture(self) -> Scene:
        """Return what a page without a kernel shows: some states, each under its lines of text."""
        shown = []
        for state in self.static_states:
            data = self.compute(**{**self.default, **state})
            scene = arrange_in_rows(*self.draw(data))
            for line in reversed(self.details(data).splitlines()):
                scene = add_caption(scene, line)
            shown.append(add_caption(scene, self.readout(data)))
        return arrange_in_rows(*shown)


def pack(sheet: dict[str, Any]) -> str:
    """Return what Panel.to_json() returns, compressed by zlib, in base64: a tenth of its size."""
    compressed = zlib.compress(json.dumps(sheet).encode(), 9)
    return base64.b64encode(compressed).decode("ascii")
