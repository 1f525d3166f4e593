"""The panel in which a query is turned: keys, values and the context vector are points of a plane.

They are those of the mini model, in a sentence about France. Keys and values stay; the query of the
last word is the reader's. attnlib computes each of its positions on a fine grid, and a handle in
the picture is dragged from one to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.learning.mini import COUNTRIES, Reading, mini_model
from attncourse.panels.states import Panel
from attncourse.panels.touch import write_number
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, INK, PAPER, QUIET, head_color
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words
from attnlib.functional import attention

TEXT = "The capital of France is"
TURNS = tuple(range(0, 360, 5))  # degrees, counter-clockwise from the trained query
PERCENT = (25, 50, 100, 200)  # of the length of the trained query
SHRUNK = 2.5  # the query is drawn at this part of its length, or it would leave the plane


Point = tuple[float, float]


class Plane(NamedTuple):
    """A query, turned and stretched, and what attention makes of it."""

    turned: int
    percent: int
    query: Tensor  # (head_dim)
    keys: Tensor  # (num_tokens, head_dim)
    values: Tensor  # (num_tokens, head_dim)
    attn_scores: Tensor  # (num_tokens)
    attn_weights: Tensor  # (num_tokens)
    context_vec: Tensor  # (head_dim)
    tokens: tuple[str, ...]
    others: Tensor  # the values of all countries, (num_countries, head_dim)


@cache
def _read() -> tuple[Reading, Tensor]:
    """Return the sentence as the mini model reads it, and the values of all its countries."""
    model = mini_model()
    names = [country.name for country in COUNTRIES]
    return model.read(TEXT), torch.stack([model.read(name).values[0] for name in names])


def compute_plane(turned: int, percent: int) -> Plane:
    """Let the last word ask with its own query, turned and stretched.

    >>> compute_plane(0, 100).attn_weights.argmax().item()  # its own query finds France
    3
    """
    read, others = _read()
    angle = math.radians(turned)
    turn = torch.tensor(
        [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    )  # (head_dim, head_dim)
    query = percent / 100 * turn @ read.queries[-1]  # (head_dim)
    context_vec, attn_weights = attention(query[None], read.keys, read.values)
    attn_scores = read.keys @ query  # (num_tokens)
    made = (attn_scores, attn_weights[0], context_vec[0])
    return Plane(turned, percent, query, read.keys, read.values, *made, read.tokens, others)


# The picture, as wide as a page: two planes, and below them a row for each token.

SIDE, TOP = 320.0, 24.0  # of each plane; above it
KEYS = (-2.9, 2.1, -2.5)  # from where to where the first plane reaches across, and its lower end
VALUES = (-8.8, 8.8, -8.8)
VALUES_LEFT = BOOK - SIDE - 2
ROWS, ROW = TOP + SIDE + 42, 22.0  # where the rows begin; the height of one
ZERO, FARTHEST = 190.0, 80.0  # where a bar of a score begins, and how far the longest one reaches
WEIGHTS, WIDEST = 400.0, 230.0  # where a bar of a weight begins, and how long a weight of 1 is
LARGEST = 13.0  # score at the end of a bar


def _round(x: float, y: float) -> Point:
    return round(x, 1), round(y, 1)


def _on(plane: tuple[float, float, float], left: float, point: Tensor) -> Point:
    """Return where a point of a plane stands in the picture."""
    low, high, bottom = plane
    x, y = point.tolist()
    scale = SIDE / (high - low)
    return left + (x - low) * scale, TOP + SIDE - (y - bottom) * scale


def handle_plane(data: Plane) -> tuple[float, float]:
    """Return where the tip of the query stands."""
    return _on(KEYS, 0, data.query / SHRUNK)


def draw_plane(data: Plane) -> Scene:
    """Draw the query among the keys, the mixture of the values, each token's score and weight."""
    rows = len(data.tokens)
    return Scene(
        BOOK,
        ROWS + rows * ROW + 4,
        f"The query of {data.tokens[-1]}, turned by {data.turned} degrees, {data.percent}% as "
        f"long, among {rows} keys; beside it the context vector among the values; below, a bar for "
        "each score and weight.",
        (*_query_and_keys(data), *_mixture(data), *_rows(data)),
    )


def _sheet(left: float, title: str) -> list[Item]:
    return [
        Words(left, 10, title, "start", bold=True),
        Box(left + 0.5, TOP + 0.5, SIDE, SIDE, None, FAINT),
    ]


def _dot(place: Point, size: float, fill: str | None, stroke: str = PAPER) -> Box:
    x, y = _round(place[0] - size / 2, place[1] - size / 2)
    return Box(x, y, round(size, 1), round(size, 1), fill, stroke, radius=round(size / 2, 1))


def _query_and_keys(data: Plane) -> list[Item]:
    items = _sheet(0, f"the keys; the query of {data.tokens[-1]}, drawn at {1 / SHRUNK:g}")
    x, y = _on(KEYS, 0, torch.zeros(2))
    end = _round(*handle_plane(data))
    places = [_on(KEYS, 0, key) for key in data.keys]
    return [
        *items,
        Line(((1, y), (SIDE, y)), FAINT, 1.0, opacity=0.6),
        Line(((x, TOP + 1), (x, TOP + SIDE)), FAINT, 1.0, opacity=0.6),
        Line(((x, y), end), INK, 3.0),
        *(_dot(place, 9, head_color(0)) for place in places),
        *_labels(data.tokens, places, BESIDE_KEYS),
        _dot(end, 16, None, INK)._replace(stroke_width=2.0),  # a name shows through it
    ]


# Where the middle of a name stands, to the right of its point and below it, in pixels.
BESIDE_KEYS = (-22, 4), (-14, 20), (20, 14), (0, -18), (16, -14)
BESIDE_VALUES = (32, 4), (46, 20), (24, -12), (0, -22), (0, 22)


def _labels(tokens: Sequence[str], places: Sequence[Point], beside: Sequence[Point]) -> list[Item]:
    """Return the names of points; a strip of paper under each makes the lines behind it pale."""
    items: list[Item] = []
    for token, place, (across, down) in zip(tokens, places, beside, strict=True):
        x, y = place[0] + across, place[1] + down
        half = text_width(token) / 2 + 2
        items.append(Line((_round(x - half, y), _round(x + half, y)), PAPER, 14.0, opacity=0.6))
        items.append(Words(*_round(x, y), token))
    return items


def _mixture(data: Plane) -> list[Item]:
    """Return the values, each as large as its weight, and the context vector."""
    title, color = "the values; the context vector:", head_color(0)
    countries = [
        (country.name, _on(VALUES, VALUES_LEFT, value))
        for country, value in zip(COUNTRIES, data.others, strict=True)
        if country.name not in data.tokens
    ]
    places = [_on(VALUES, VALUES_LEFT, value) for value in data.values]
    end = _round(*_on(VALUES, VALUES_LEFT, data.context_vec))
    weighted = list(zip(places, data.attn_weights.tolist(), strict=True))
    return [
        *_sheet(VALUES_LEFT, title),
        diamond(_round(VALUES_LEFT + text_width(title, bold=True) + 16, 10)),
        Line(tuple(hull([_round(*place) for place in places])), None, fill=color, opacity=0.12),
        *(_dot(place, 6, FAINT) for _, place in countries),
        *(Words(*_round(x, y - 14), name, color=FAINT) for name, (x, y) in countries),
        *_labels(data.tokens, places, BESIDE_VALUES),
        # the width is never 1, which an SVG would leave out
        *(Line((place, end), color, 0.95 + round(6 * weight, 1)) for place, weight in weighted),
        *(_dot(place, 6 + 20 * weight**0.5, color) for place, weight in weighted),
        diamond(end),
    ]


def diamond(place: Point) -> Line:
    """Return the mark of a context vector."""
    x, y = place
    corners = ((x - 8, y), (x, y - 8), (x + 8, y), (x, y + 8))
    return Line(corners, PAPER, 1.5, fill=INK)


def hull(points: Sequence[Point]) -> list[Point]:
    """Return the corners of the smallest convex shape around the points, in their order."""
    ordered = sorted(set(points))
    if len(ordered) < 3:
        return ordered
    halves = []
    for line in (ordered, ordered[::-1]):
        half: list[Point] = []
        for x, y in line:
            while len(half) > 1 and (half[-1][0] - half[-2][0]) * (y - half[-2][1]) <= (
                half[-1][1] - half[-2][1]
            ) * (x - half[-2][0]):
                half.pop()
            half.append((x, y))
        halves += half[:-1]
    return halves


def _rows(data: Plane) -> list[Item]:
    """Return a row for each token: its score as a bar from the middle, its weight as a bar."""
    items: list[Item] = [
        Words(ZERO, ROWS - 14, "score: query · key", bold=True),
        Words(WEIGHTS, ROWS - 14, "attention weight, after / √2", "start", bold=True),
    ]
    end = WEIGHTS + WIDEST + 8
    for i, token in enumerate(data.tokens):
        y, middle = ROWS + i * ROW, ROWS + (i + 0.5) * ROW
        score, weight = data.attn_scores[i].item(), data.attn_weights[i].item()
        long = FARTHEST * abs(score) / LARGEST
        left = ZERO if score >= 0 else ZERO - long
        items += [
            Words(66, middle, token, "end"),
            Box(round(left, 1), y + 4, round(long, 1), ROW - 8, FAINT),
            Words(ZERO + 150, middle, write_number(score, 2), "end", mono=True),
            Box(WEIGHTS, y + 4, WIDEST, ROW - 8, QUIET),
            Box(WEIGHTS, y + 4, round(WIDEST * weight, 1), ROW - 8, head_color(0)),
            Words(end, middle, write_number(weight), "start", mono=True),
        ]
    return [*items, Line(((ZERO, ROWS), (ZERO, ROWS + len(data.tokens) * ROW)), FAINT, 1.0)]


def readout_plane(data: Plane) -> str:
    """Return what the query finds."""
    first = int(data.attn_weights.argmax())
    context_vec = ", ".join(write_number(x) for x in data.context_vec.tolist())
    return (
        f"query: turned by {data.turned}°, {data.percent}% as long | most weight: "
        f"{data.tokens[first]}, score {write_number(data.attn_scores[first].item())}, weight "
        f"{write_number(data.attn_weights[first].item())} | context vector ({context_vec})"
    )


PLANE = Panel(
    name="plane",
    controls={"turned": TURNS, "percent": PERCENT},
    default={"turned": 0, "percent": 100},
    compute=compute_plane,
    draw=draw_plane,
    readout=readout_plane,
    handle=handle_plane,
    telling=(
        {"turned": 0, "percent": 100},
        {"turned": 0, "percent": 25},
    ),
)
