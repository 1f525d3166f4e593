"""What can be touched in a picture: the cells of its maps.

A browser puts a frame around the cell that is touched and says in words what is sent with it. It
computes none of the numbers: they come from here, in the form in which they are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncourse.pictures.palette import head_color
from attncourse.pictures.scene import Box, Scene
from attnlib.functional import split_heads

MOST_VALUES = 4  # of a longer row only so many numbers are said


class Map(NamedTuple):
    """A map in a picture: where its cells are, in pixels, and what each of them says.

    numbers has, by what they are, such as "weight", a line for each query: its numbers, with a
    space between two, from the first key on. A key past the end of the line is hidden.
    """

    name: str
    color: str  # of its head, and of the arcs of its weights
    x: float  # the left side of its first cell
    y: float  # the upper side
    cell: float  # the width and height of a cell
    numbers: dict[str, list[str]]
    values: Sequence[str] = ()  # for each key the row that it mixes in; or none


class Touch(NamedTuple):
    """What of a picture can be touched."""

    tokens: Sequence[str]  # names of queries and keys; of the longest text that the panel shows
    maps: Sequence[Map] = ()  # all with the same tokens, from the first on
    arcs: bool = True  # whether the weights are also drawn as arcs over the tokens
    above: float = 84.0  # pixels over a map that belong to it: its head, the names of keys


def write_lines(matrix: Tensor, causal: bool = True) -> list[str]:
    """Return the rows of a matrix as text, those of a causal one up to the diagonal.

    >>> write_lines(torch.tensor([[1.0, 0.0], [0.25, -0.00001]]))
    ['1.000', '0.250 0.000']
    """
    rows = matrix.tolist()
    kept = (row[: i + 1] if causal else row for i, row in enumerate(rows))
    return [" ".join(map(write_number, row)) for row in kept]


def write_number(value: float, decimals: int = 3) -> str:
    """Return a number as it is read: with a true minus, and no zero has a sign.

    >>> write_number(-0.5), write_number(-0.0001), write_number(float("nan"))
    ('−0.500', '0.000', 'NaN')
    """
    if math.isnan(value):
        return "NaN"
    return f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−")


def write_rows(values: Tensor) -> list[str]:
    """Return the rows of a matrix as text, of long ones the beginning.

    >>> write_rows(torch.tensor([[0.5, -1.0]])), write_rows(torch.zeros(1, 7))
    (['(0.50, −1.00)'], ['(0.00, 0.00, 0.00, 0.00, ... 7 numbers)'])
    """
    more = f", ... {values.shape[1]} numbers" if values.shape[1] > MOST_VALUES else ""
    beginnings = values[:, :MOST_VALUES].tolist()
    return [f"({', '.join(write_number(value, 2) for value in row)}{more})" for row in beginnings]


class Looks(NamedTuple):
    """What heads compare and what they mix, of one text and all heads in their order."""

    attn_scores: Tensor  # query · key, neither scaled nor masked, for each head
    values: Tensor  # the rows, for each head


def listen(model: nn.Module, x: Tensor) -> Looks:
    """Run a model of our classes on one text and listen to its projections.

    Args:
        model: every attention in it has W_query, W_key and W_value, and all heads one width.
        x: what the model takes, for one text.
    """
    parts = [m for m in model.modules() if hasattr(m, "W_query")]
    heard: list[dict[str, Tensor]] = [{} for _ in parts]

    def keep(name: str, into: dict[str, Tensor], _module: Any, _inputs: Any, made: Tensor) -> None:
        into[name] = made

    with ExitStack() as stack, torch.no_grad():
        for part, into in zip(parts, heard, strict=True):
            for name in ("W_query", "W_key", "W_value"):
                projection: nn.Module = getattr(part, name)
                stack.enter_context(projection.register_forward_hook(partial(keep, name, into)))
        model(x)
    scores, values = [], []
    for part, into in zip(parts, heard, strict=True):
        num_heads: int = getattr(part, "num_heads", 1)
        by_head = {
            name: split_heads(made, made.shape[-1] // num_heads)[0] for name, made in into.items()
        }
        scores.append(by_head["W_query"] @ by_head["W_key"].transpose(-2, -1))
        values.append(by_head["W_value"])
    return Looks(torch.cat(scores), torch.cat(values))


def map_from(
    first: Box, name: str, hue: int, numbers: dict[str, list[str]], values: Sequence[str] = ()
) -> Map:
    """Return the map that begins with a cell, in the color of a head."""
    return Map(name, head_color(hue), first.x, first.y, first.width, numbers, values)


def head_maps(scene: Scene, attn_weights: Tensor, seen: Looks) -> list[Map]:
    """Return the maps of causal heads: each cell says its dot product, its weight and its value.

    Args:
        scene: the picture; its boxes named "map" are the first cells of the heads.
        attn_weights: (num_heads, num_tokens, num_tokens).
        seen: of the same heads.
    """
    each = zip(scene.named("map"), seen.attn_scores, attn_weights, seen.values, strict=True)
    return [
        map_from(
            first,
            f"head {h}",
            h,
            {"dot product": write_lines(scores), "weight": write_lines(weights)},
            write_rows(values),
        )
        for h, (first, scores, weights, values) in enumerate(each)
    ]
