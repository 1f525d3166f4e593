"""Queries, keys, values and context vectors of width 2, as arrows and points of a plane."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from attnlib.pictures.letters import text_width
from attnlib.pictures.palette import FAINT, INK, PAPER, QUIET, head_color, line_color, tint
from attnlib.pictures.scene import BOOK, Box, Item, Line, Scene, Words, above, beside
from attnlib.pictures.seen import number, told_apart

SIZE, TOP = 13.0, 26.0  # of letters; above the plane
EMPTY = 14.0  # pixels between the outermost points and the frame
Point = tuple[float, float]
Area = tuple[float, float, float, float]  # left, top, right, bottom


def plane_picture(
    words: Sequence[str],
    values: Tensor,
    attn_weights: Tensor | None = None,
    query: int | None = None,
    title: str = "",
    keys: Tensor | None = None,
    query_vec: Tensor | None = None,
    hue: int = 0,
    side: float = 336.0,
    room: Sequence[Point] = (),
) -> Scene:
    """Draw vectors of width 2 in the plane, as dots: values, or keys and a query, an arrow.

    Args:
        words: the names of the tokens.
        values: (num_tokens, 2): the dots. Where keys are given, the values are not drawn.
        attn_weights: (num_tokens): what the query gives to each token; a dot's area follows it,
            and a diamond, the context vector, is where the values have that mean. None: dots alone.
        query: the place of the query's token. Only tokens up to it are its past, coloured and
            enclosed by their hull; later ones are grey. None: all are.
        title: what is drawn, above the plane and in the alt text.
        keys: (num_tokens, 2): drawn in place of the values. None: draw the values.
        query_vec: (2): the query, an arrow from the origin among the keys.
        hue: the head, counted from 0, that gives the colour.
        side: pixels of a side of the plane.
        room: more points that must fit in, so that several planes can have one scale.

    Returns:
        A Scene; one scale for both axes, the origin marked where it lies inside.
    """
    points = values if keys is None else keys
    if points.ndim != 2 or points.shape[1] != 2 or len(points) != len(words):
        raise ValueError(
            f"{'values' if keys is None else 'keys'} must be ({len(words)}, 2), two numbers for "
            f"each word, got {tuple(points.shape)}: a plane has two dimensions"
        )
    last = len(words) - 1 if query is None else query
    names = told_apart(words)
    weights = [0.0] * len(words) if attn_weights is None else attn_weights.tolist()
    mean = None
    if keys is None and attn_weights is not None:
        mean = tuple((attn_weights[: last + 1, None] * values[: last + 1]).sum(dim=0).tolist())
    shown = [tuple(point) for point in points.tolist()]
    more = [*room, (0.0, 0.0)] if keys is not None else [*room]
    more += [tuple(query_vec.tolist())] if query_vec is not None else []
    place = _placing([*shown, *more], side)
    color = head_color(hue)
    items: list[Item] = [Words(0, 10, title, SIZE, INK, "start", bold=True)] if title else []
    items.append(Box(0.5, TOP + 0.5, side, side, None, FAINT))
    past = [place(point) for point in shown[: last + 1]]
    if keys is None:
        corners = hull(past)
        if len(corners) > 2:
            items.append(Line(tuple(corners), None, fill=tint(color, 0.12)))
            items.append(Line((*corners, corners[0]), tint(color, 0.5), 1.0))
    else:
        items += _axes(place((0.0, 0.0)), side)
    lines: list[Item] = []
    dots: list[Item] = []
    taken: list[Area] = []
    for i, point in enumerate(shown):
        x, y = place(point)
        seen = i <= last
        ink = color if seen else FAINT
        radius = 3.0 + (8.0 if keys is not None else 13.0) * math.sqrt(weights[i])
        fill = (tint(color, 0.75) if weights[i] else color) if seen else QUIET
        dots.append(_dot((x, y), radius if weights[i] else 4.0, fill, ink))
        taken.append((x - radius, y - radius, x + radius, y + radius))
    if mean is not None:
        x, y = place(mean)
        for i in range(last + 1):
            lines.append(Line((place(shown[i]), (x, y)), color, 0.5 + 4.0 * weights[i]))
            taken += _along(place(shown[i]), (x, y))
        dots.append(diamond((x, y)))
        taken.append((x - 8, y - 8, x + 8, y + 8))
    if query_vec is not None:
        end = place(tuple(query_vec.tolist()))
        lines += _arrow(place((0.0, 0.0)), end, head_color(4), 3.0)
        taken += _along(place((0.0, 0.0)), end)
        taken.append((end[0] - 6, end[1] - 6, end[0] + 6, end[1] + 6))
    items += [*lines, *dots]
    across, down = zip(*map(place, shown), strict=True)
    middle = (sum(across) / len(across), sum(down) / len(down))
    labels: list[_Name] = []
    for together in _close([place(point) for point in shown]):
        texts = [names[i] for i in together]
        at = place(shown[together[0]])
        labels.append(_Name(texts, at, query in together, together[0] <= last, middle))
    if mean is not None:
        labels.append(_Name(["context vector"], place(mean), True, True, None))
    if query_vec is not None:
        said = f"query of {names[last]}" if query is not None else "query"
        start, end = place((0.0, 0.0)), place(tuple(query_vec.tolist()))
        along = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        labels.insert(0, _Name([said], along, True, True, middle))
    for label in labels:
        items += _label(label, side, taken)
    wide = max(side, text_width(title, SIZE, bold=True)) + 2
    return Scene(
        wide, TOP + side + 4, _alt(title, names, shown, weights, last, mean, keys), tuple(items)
    )


def positions_picture(
    words: Sequence[str],
    keys: Tensor,
    values: Tensor,
    query_vecs: Tensor,
    attn_weights: Tensor,
    titles: Sequence[str] = (),
    shrunk: float = 1.0,
    hue: int = 0,
) -> Scene:
    """Draw what several positions of a query do, side by side: keys above, values below.

    Args:
        words: the names of the tokens.
        keys: (num_tokens, 2).
        values: (num_tokens, 2).
        query_vecs: (num_positions, 2).
        attn_weights: (num_positions, num_tokens).
        titles: of the positions. None given: query 1, query 2 and so on.
        shrunk: a query is drawn as its length divided by this, and the picture says so.
        hue: the head, counted from 0, that gives the colour.
    """
    gap, count = 14.0, len(query_vecs)
    side = (BOOK - gap * (count - 1)) / count - 2
    columns, said = [], []
    room = [tuple(point) for point in [*keys.tolist(), *(query_vecs / shrunk).tolist()]]
    for p, (query_vec, weights) in enumerate(zip(query_vecs, attn_weights, strict=True)):
        title = titles[p] if titles else f"query {p + 1}"
        look = plane_picture(
            words, values, weights, None, title, keys, query_vec / shrunk, hue, side, room
        )
        mixed = plane_picture(words, values, weights, None, "", None, None, hue, side)
        columns.append(above(look, mixed, gap=0))
        x, y = (weights[:, None] * values).sum(dim=0).tolist()
        order = sorted(range(len(words)), key=lambda i: -weights[i].item())[:2]
        most = " and ".join(f"{told_apart(words)[i]} ({number(weights[i].item())})" for i in order)
        angle = math.degrees(math.atan2(*query_vec.flip(0).tolist())) % 360
        said.append(
            f"{title}, at {number(angle, 0)} degrees: most weight on {most}; "
            f"the context vector is at ({number(x)}, {number(y)})."
        )
    start = (
        f"{count} positions of a query, above among the keys, below what they make of the values."
    )
    note = "The larger the dot, the more attention weight."
    note += f" The query is drawn at 1/{shrunk:g} of its length." if shrunk != 1 else ""
    drawn = beside(*columns, gap=gap)
    below = Words(0, drawn.height + 8, note, SIZE, FAINT, "start")
    alt = f"{start} {' '.join(said)}"
    return Scene(drawn.width, drawn.height + 18, alt, (*drawn.items, below))


def _close(places: Sequence[Point]) -> list[list[int]]:
    """Return the points in groups: those that one cannot tell apart are together."""
    groups: list[list[int]] = []
    for i, place in enumerate(places):
        near = [group for group in groups if math.dist(places[group[0]], place) < 4]
        if near:
            near[0].append(i)
        else:
            groups.append([i])
    return groups


def _placing(points: Sequence[Point], side: float) -> Callable[[Point], Point]:
    """Return the function from a point of the plane to its place in the picture."""
    lows = [min(point[axis] for point in points) for axis in (0, 1)]
    highs = [max(point[axis] for point in points) for axis in (0, 1)]
    middle = [(low + high) / 2 for low, high in zip(lows, highs, strict=True)]
    reach = max(high - low for low, high in zip(lows, highs, strict=True)) or 1.0
    scale = (side - 2 * (EMPTY + 22)) / reach

    def place(point: Point) -> Point:
        x = side / 2 + (point[0] - middle[0]) * scale
        return round(x, 1), round(TOP + side / 2 - (point[1] - middle[1]) * scale, 1)

    return place


def _axes(origin: Point, side: float) -> list[Item]:
    """Return the lines through the origin."""
    x, y = origin
    return [
        Line(((1, y), (side, y)), QUIET, 1.0),
        Line(((x, TOP + 1), (x, TOP + side)), QUIET, 1.0),
    ]


def _dot(place: Point, radius: float, fill: str, stroke: str) -> Box:
    x, y, r = place[0], place[1], round(radius, 1)
    return Box(round(x - r, 1), round(y - r, 1), 2 * r, 2 * r, fill, stroke, radius=r)


def diamond(place: Point) -> Line:
    """Return the mark of a context vector."""
    x, y = place
    corners = ((x - 8, y), (x, y - 8), (x + 8, y), (x, y + 8))
    return Line(corners, PAPER, 1.5, fill=INK)


def _arrow(start: Point, end: Point, color: str, width: float) -> list[Item]:
    """Return an arrow with a filled head, its size by the width of its line."""
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    long = min(5.0 + 2.0 * width, math.dist(start, end))
    neck = (end[0] - long * math.cos(angle), end[1] - long * math.sin(angle))
    across = (0.45 * long * math.sin(angle), -0.45 * long * math.cos(angle))
    corners = (
        end,
        *((round(neck[0] + s * across[0], 1), round(neck[1] + s * across[1], 1)) for s in (1, -1)),
    )
    stop = (round(neck[0], 1), round(neck[1], 1))
    head = Line(corners, None, fill=line_color(color))
    return [Line((start, stop), color, round(width, 2)), head]


def _along(start: Point, end: Point) -> list[Area]:
    """Return small areas along a line, which no name should cover."""
    shares = [i / 12 for i in range(13)]
    middles = [
        (start[0] + (end[0] - start[0]) * t, start[1] + (end[1] - start[1]) * t) for t in shares
    ]
    return [(x - 4, y - 4, x + 4, y + 4) for x, y in middles]


class _Name(NamedTuple):
    """What is written beside a point: lines of text, and from where they should point away."""

    texts: Sequence[str]
    at: Point
    bold: bool
    seen: bool
    away_from: Point | None


def _label(name: _Name, side: float, taken: list[Area]) -> list[Item]:
    """Return a name beside its point, where as little as possible stands; taken gets its place."""
    wide = max(text_width(text, SIZE, name.bold) for text in name.texts)
    tall = 16.0 * len(name.texts)
    frame = (2.0, TOP + 2, side - 2, TOP + side - 2)
    outward = None
    if name.away_from is not None and name.away_from != name.at:
        outward = math.atan2(name.at[1] - name.away_from[1], name.at[0] - name.away_from[0])
    places = []
    for far in (11.0, 14.0, 18.0, 26.0, 36.0):
        for turn in range(16):
            angle = math.pi * turn / 8
            x = name.at[0] + math.cos(angle) * (far + wide / 2)
            y = name.at[1] + math.sin(angle) * (far - 5 + tall / 2)
            area = (x - wide / 2, y - tall / 2, x + wide / 2, y + tall / 2)
            free = wide * tall - _common(area, frame)
            cost = 20 * free + sum(_common(area, other) for other in taken) + 3 * far
            if outward is not None:
                cost += 40 * (1 - math.cos(angle - outward))
            places.append((cost, x, y, area))
    _, x, y, area = min(places)
    taken.append((area[0] - 6, area[1], area[2] + 6, area[3]))
    ink, top = INK if name.seen else FAINT, y - tall / 2 + 8
    return [
        Words(round(x, 1), round(top + 16 * i, 1), text, SIZE, ink, bold=name.bold)
        for i, text in enumerate(name.texts)
    ]


def _common(one: Area, other: Area) -> float:
    """Return how many square pixels two areas share."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return max(across, 0.0) * max(down, 0.0)


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


def _alt(
    title: str,
    names: Sequence[str],
    shown: Sequence[Point],
    weights: Sequence[float],
    last: int,
    mean: Point | None,
    keys: Tensor | None,
) -> str:
    """Return where everything stands, and which weights mix the context vector."""
    what = "Values as dots" if keys is None else "Keys as dots"
    points = ", ".join(
        f"{name} at ({number(x)}, {number(y)})" for name, (x, y) in zip(names, shown, strict=True)
    )
    said = f"{title}: {what[0].lower()}{what[1:]}" if title else what
    alt = f"{said}: {points}."
    if any(weights):
        order = sorted(range(last + 1), key=lambda i: -weights[i])
        alt += " Weights: " + ", ".join(f"{names[i]} {number(weights[i])}" for i in order) + "."
    if mean is not None:
        alt += f" Their mean, the context vector, is at ({number(mean[0])}, {number(mean[1])})"
        alt += ", inside the hull of the past." if last > 1 else "."
    return alt
