"""The panel in which a query is turned: keys, values and the context vector are points of a plane.

The first head of the course has queries, keys and values of width 2. Its keys and values stay; the
query is the reader's. attnlib computes each of its positions on a fine grid, and a handle in the
picture is dragged from one to the next.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib.examples import journey, seeded
from attnlib.functional import attention
from attnlib.modules import CausalAttention
from attnlib.panels.panel import Panel
from attnlib.panels.touch import number
from attnlib.pictures.palette import FAINT, INK, PAPER, QUIET, head_color
from attnlib.pictures.scene import Box, Item, Line, Scene, Words

ANGLES = tuple(range(0, 360, 5))  # degrees, counter-clockwise from the right
LENGTHS = (1, 5, 10, 15, 20)
SHRUNK = 20  # the query is drawn at this part of its length, or it would leave the plane


class Plane(NamedTuple):
    """A query at an angle and a length, and what attention makes of it."""

    tokens: tuple[str, ...]
    angle: int
    length: int
    query: Tensor  # (head_dim)
    keys: Tensor  # (num_tokens, head_dim)
    values: Tensor  # (num_tokens, head_dim)
    attn_scores: Tensor  # (num_tokens)
    attn_weights: Tensor  # (num_tokens)
    context_vec: Tensor  # (head_dim)


@cache
def _keys_and_values() -> tuple[Tensor, Tensor]:
    """Return those of the first head of the course for its six tokens."""
    with seeded():
        head = CausalAttention(3, 2, context_length=6, dropout=0.0)
    with torch.no_grad():
        return head.W_key(journey().inputs), head.W_value(journey().inputs)


def compute_plane(angle: int, length: int) -> Plane:
    """Let a query that sees all six tokens read them.

    >>> compute_plane(180, 20).attn_weights.argmax().item()  # journey has the key furthest left
    1
    """
    keys, values = _keys_and_values()
    turned = math.radians(angle)
    query = length * torch.tensor([math.cos(turned), math.sin(turned)])  # (head_dim)
    context_vec, attn_weights = attention(query[None], keys, values)
    attn_scores = keys @ query  # (num_tokens)
    tokens = journey().tokens
    made = (attn_scores, attn_weights[0], context_vec[0])
    return Plane(tokens, angle, length, query, keys, values, *made)


# The picture: on the left query and keys, on the right values; between them a row for each token.

SIDE, TOP = 300.0, 24.0  # of each plane; above it
KEYS = (-1.1, 1.1, -1.1)  # from where to where the first plane reaches across, and its lower end
VALUES = (-0.79, -0.31, -0.225)
BARS, BAR, ROW = 390.0, 110.0, 40.0
VALUES_LEFT = BARS + 2 * BAR + 150
LARGEST = 18.0  # score at the end of a bar


def _on(plane: tuple[float, float, float], left: float, point: Tensor) -> tuple[float, float]:
    """Return where a point of a plane stands in the picture."""
    low, high, bottom = plane
    x, y = point.tolist()
    scale = SIDE / (high - low)
    return left + (x - low) * scale, TOP + SIDE - (y - bottom) * scale


def handle_plane(data: Plane) -> tuple[float, float]:
    """Return where the tip of the query stands."""
    return _on(KEYS, 0, data.query / SHRUNK)


def draw_plane(data: Plane) -> Scene:
    """Draw the query among the keys, the score and weight of each token, and the mixture."""
    return Scene(
        VALUES_LEFT + SIDE + 8,
        TOP + SIDE + 8,
        f"The query at {data.angle} degrees, {data.length} long, among six keys; beside it a bar "
        f"for each score and weight; among the values the context vector.",
        (*_query_and_keys(data), *_rows(data), *_mixture(data, VALUES_LEFT)),
    )


def _sheet(left: float, title: str) -> list[Item]:
    return [
        Words(left, 10, title, 13, INK, "start", bold=True),
        Box(left + 0.5, TOP + 0.5, SIDE, SIDE, None, QUIET),
    ]


def _dot(place: tuple[float, float], size: float, fill: str, stroke: str = PAPER) -> Box:
    x, y = (round(at - size / 2, 1) for at in place)
    return Box(x, y, round(size, 1), round(size, 1), fill, stroke, radius=round(size / 2, 1))


def _query_and_keys(data: Plane) -> list[Item]:
    items = _sheet(0, f"the query (drawn at 1/{SHRUNK}) and the keys")
    origin = _on(KEYS, 0, torch.zeros(2))
    x, y = origin
    items.append(Line(((x - SIDE / 2, y), (x + SIDE / 2, y)), QUIET, 1.0))
    items.append(Line(((x, y - SIDE / 2), (x, y + SIDE / 2)), QUIET, 1.0))
    for token, key in zip(data.tokens, data.keys, strict=True):
        place = _on(KEYS, 0, key)
        items.append(_dot(place, 9, head_color(0)))
        items.append(_label(token, place, BESIDE_KEYS[token]))
    tip = handle_plane(data)
    end = (round(tip[0], 1), round(tip[1], 1))
    items.append(Line((origin, end), head_color(4), 3.0))
    items.append(_dot(end, 16, head_color(4), INK))
    return items


# Where a token's name stands beside its point: to the right and down, in pixels
BESIDE_KEYS = {
    "Your": (0.0, -13.0),
    "journey": (-6.0, -13.0),
    "starts": (-6.0, 14.0),
    "with": (9.0, 2.0),
    "one": (9.0, -2.0),
    "step": (0.0, 15.0),
}
BESIDE_VALUES = {
    "Your": (10.0, 0.0),
    "journey": (10.0, -12.0),
    "starts": (10.0, 12.0),
    "with": (10.0, -2.0),
    "one": (0.0, 14.0),
    "step": (4.0, -13.0),
}


def _label(token: str, place: tuple[float, float], beside: tuple[float, float]) -> Words:
    anchor = "start" if beside[0] > 8 else "middle"
    return Words(place[0] + beside[0], place[1] + beside[1], token, 12, INK, anchor)  # type: ignore[arg-type]


def _rows(data: Plane) -> list[Item]:
    """Return a row for each token: its score as a bar from the middle, its weight as a bar."""
    zero, start = BARS + BAR / 2, BARS + BAR + 70
    items: list[Item] = [
        Words(zero, 10, "query · key", 13, INK, bold=True),
        Words(start, 10, "weight", 13, INK, "start", bold=True),
    ]
    bottom = TOP + 24 + 6 * ROW
    items.append(Line(((zero, TOP + 12), (zero, bottom)), FAINT, 1.0))
    for i, token in enumerate(data.tokens):
        y = TOP + 24 + i * ROW
        score, weight = data.attn_scores[i].item(), data.attn_weights[i].item()
        long = BAR / 2 * abs(score) / LARGEST
        left = zero if score >= 0 else zero - long
        items.append(Words(BARS - 14, y + ROW / 2, token, 13, INK, "end"))
        items.append(Box(round(left, 1), y + 6, round(long, 1), ROW - 12, head_color(4)))
        said = Words(BARS + BAR + 52, y + ROW / 2, number(score, 2), 13, INK, "end", mono=True)
        items.append(said)
        items.append(Box(start, y + 6, BAR, ROW - 12, QUIET))
        items.append(Box(start, y + 6, round(BAR * weight, 1), ROW - 12, head_color(0)))
        at = start + BAR + 6
        items.append(Words(at, y + ROW / 2, number(weight), 13, INK, "start", mono=True))
    return items


def _mixture(data: Plane, left: float) -> list[Item]:
    """Return the values, each as large as its weight, and the context vector."""
    items = _sheet(left, "the values, mixed into the context vector")
    place = _on(VALUES, left, data.context_vec)
    end = (round(place[0], 1), round(place[1], 1))
    for value, weight in zip(data.values, data.attn_weights.tolist(), strict=True):
        width = 0.505 + round(6 * weight, 2)  # never 1, which an SVG would leave out
        items.append(Line((_on(VALUES, left, value), end), head_color(0), width))
    for token, value, weight in zip(
        data.tokens, data.values, data.attn_weights.tolist(), strict=True
    ):
        at = _on(VALUES, left, value)
        items.append(_dot(at, 6 + 24 * weight**0.5, head_color(0)))
        items.append(_label(token, at, BESIDE_VALUES[token]))
    items.append(_dot(end, 14, head_color(4), INK))
    return items


def readout_plane(data: Plane) -> str:
    """Return what the query finds."""
    first = int(data.attn_weights.argmax())
    context_vec = ", ".join(number(x) for x in data.context_vec.tolist())
    return (
        f"query: {data.angle}°, length {data.length} | most weight: {data.tokens[first]}, "
        f"query · key {number(data.attn_scores[first].item(), 2)}, weight "
        f"{number(data.attn_weights[first].item())} | context vector ({context_vec})"
    )


PLANE = Panel(
    name="plane",
    controls={"angle": ANGLES, "length": LENGTHS},
    default={"angle": 135, "length": 10},
    compute=compute_plane,
    draw=draw_plane,
    readout=readout_plane,
    handle=handle_plane,
    telling=(
        {"angle": 270, "length": 15},
        {"angle": 180, "length": 5},
        {"angle": 180, "length": 20},
    ),
)
