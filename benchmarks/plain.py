"""The usual way to write a panel: `interact`, and a new pyplot figure at every move.

The same numbers as ours, from the panel's own compute; each head's matrix in Axes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

import matplotlib.pyplot as plt
import torch
from ipywidgets import SelectionSlider, interact

from attncourse.panels.states import Panel

MOST = 24  # matrices: pyplot takes a minute for 144, though ours draws as many


def show_plainly(panel: Panel) -> None:
    """Show a panel's sliders, and below them its readout and a figure."""

    def show(**state: Any) -> None:
        data = panel.compute(**state)
        print(panel.readout(data))
        draw_plainly(data)
        plt.show()

    interact(
        show,
        **{
            name: SelectionSlider(options=values, value=panel.default[name], description=name)
            for name, values in panel.controls.items()
        },
    )


def draw_plainly(data: object) -> None:
    """Draw the matrices among the numbers as images; where there is none, bars of the numbers."""
    found = list(islice(matrices(data), MOST))
    if not found:
        sizes = list(numbers(data))
        plt.bar(range(len(sizes)), sizes)
        return
    _, axes = plt.subplots(1, len(found), figsize=(2.2 * len(found), 2.4), squeeze=False)
    for i, (ax, matrix) in enumerate(zip(axes[0], found, strict=True)):
        ax.imshow(matrix)
        ax.set_title(f"matrix {i + 1}")


def matrices(data: object) -> Iterator[torch.Tensor]:
    """Yield the matrices of every tensor with two dimensions or more."""
    if isinstance(data, torch.Tensor):
        if data.dim() >= 2 and data.numel():
            yield from data.detach().float().flatten(0, -3).unbind() if data.dim() > 2 else [data]
    else:
        for part in parts(data):
            yield from matrices(part)


def numbers(data: object) -> Iterator[float]:
    """Yield every plain number."""
    if isinstance(data, int | float):
        yield float(data)
    else:
        for part in parts(data):
            yield from numbers(part)


def parts(data: object) -> list[Any]:
    """Return what a tuple, a list, a mapping or a dataclass holds."""
    if isinstance(data, Mapping):
        return list(data.values())
    if is_dataclass(data):
        return [getattr(data, field.name) for field in fields(data)]
    return list(data) if isinstance(data, tuple | list) else []
