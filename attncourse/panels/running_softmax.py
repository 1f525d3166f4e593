"""The panel in which one query reads its keys tile by tile, and never holds a row of weights.

The second head of the course, its queries twenty times as long, so that its scores differ visibly.
Each tile of two keys takes three steps: its scores arrive, all that was summed up is corrected to
the new maximum, the tile is added.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, cast

import torch
from torch import Tensor

from attncourse.examples import journey, seeded
from attncourse.panels.states import Panel
from attncourse.panels.touch import write_number
from attncourse.pictures.palette import FAINT, INK, MARKED, PAPER, QUIET, head_color
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words
from attnlib.functional import causal_mask
from attnlib.modules import CausalAttention, MultiHeadAttentionWrapper

TOKENS = journey().tokens
TILE_SIZE, NUM_TILES = 2, 3
START, SCORES, CORRECT, ADD, DIVIDE = "start", "scores", "correct", "add", "divide"
STEPS = (START, *(step for _ in range(NUM_TILES) for step in (SCORES, CORRECT, ADD)), DIVIDE)
LONGER = 20  # times as long are the queries here
HUE = 1  # the second head


class Running(NamedTuple):
    """What the kernel keeps of one query from tile to tile."""

    largest: float
    total: float
    mixed: Tensor  # one number for each column of the values


class TileStep(NamedTuple):
    """One step of the running softmax of one query."""

    query: int
    step: int
    kind: str  # of STEPS
    tile: int | None
    attn_scores: Tensor  # (num_tokens), scaled; those of the future -inf
    values: Tensor  # (num_tokens, head_dim)
    correction: float | None
    before: Running
    now: Running
    context_vec: Tensor  # (head_dim), where it ends

    @property
    def skipped(self) -> bool:
        """Whether the tile holds only keys of the future."""
        return self.tile is not None and self.tile * TILE_SIZE > self.query

    @property
    def tokens_of_tile(self) -> str:
        """The words of the tile."""
        tile = self.tile or 0
        return " and ".join(TOKENS[tile * TILE_SIZE : (tile + 1) * TILE_SIZE])


@cache
def head_and_scores() -> tuple[Tensor, Tensor, Tensor]:
    """Return the queries, keys and values of the second head, the queries made longer."""
    with seeded():
        heads = MultiHeadAttentionWrapper(3, 2, 6, dropout=0.0, num_heads=2).heads
    head = cast(CausalAttention, heads[HUE])
    x = journey().inputs
    with torch.no_grad():
        return LONGER * head.W_query(x), head.W_key(x), head.W_value(x)


def compute_tile_step(query: str, step: int) -> TileStep:
    """Read the tiles of a query up to a step.

    >>> compute_tile_step("step", 8).correction < 1  # one has the largest score of the six
    True
    """
    queries, keys, values = head_and_scores()
    q = TOKENS.index(query)
    scores = queries @ keys.T / keys.shape[1] ** 0.5
    row = scores.masked_fill(causal_mask(len(TOKENS)), -torch.inf)[q]
    now = before = Running(-torch.inf, 0.0, torch.zeros(2))
    correction = None
    for place in range(1, step + 1):
        before, tile = now, slice(*(TILE_SIZE * ((place - 1) // 3 + i) for i in (0, 1)))
        if STEPS[place] == CORRECT:
            largest = max(now.largest, row[tile].max().item())
            correction = torch.tensor(now.largest - largest).exp().item()
            now = Running(largest, correction * now.total, correction * now.mixed)
        elif STEPS[place] == ADD:
            powers = torch.exp(row[tile] - now.largest)
            total, mixed = now.total + powers.sum().item(), now.mixed + powers @ values[tile]
            now = Running(now.largest, total, mixed)
    kind = STEPS[step]
    tile_number = None if kind in (START, DIVIDE) else (step - 1) // 3
    shown = correction if kind == CORRECT else None
    context_vec = torch.softmax(row, dim=0) @ values
    return TileStep(q, step, kind, tile_number, row, values, shown, before, now, context_vec)


# The picture: the row of keys in tiles, what is kept from tile to tile, and a plane of values.

LEFT, CELL, GAP = 96.0, 88.0, 14.0  # of the first key; width of a cell; between tiles
ROW_TOP, ROW_HIGH = 44.0, 30.0
KEPT_TOP = 152.0
PLANE_LEFT, PLANE_TOP, SIDE = 424.0, 144.0, 204.0
ACROSS, UP = (0.22, 0.74), (0.04, 0.56)  # what part of the plane of values is shown


def draw_tile_step(data: TileStep) -> Scene:
    """Draw the tiles, the numbers that are kept, and the average so far among the values."""
    items = (*_tiles(data), *_kept(data), *_plane(data))
    where = "none yet" if data.tile is None else f"tile {data.tile}, {data.tokens_of_tile}"
    seen = "; it is not read" if data.skipped else ""
    alt = (
        f"Six keys in three tiles, in fast memory {where}{seen}. Below, the numbers that are kept "
        f"for the query {TOKENS[data.query]}, and its average so far among the values read."
    )
    return Scene(BOOK, PLANE_TOP + SIDE + 52, alt, items)


def _left(key: int) -> float:
    return LEFT + key * CELL + (key // TILE_SIZE) * GAP


def _tiles(data: TileStep) -> list[Item]:
    middle = ROW_TOP + ROW_HIGH / 2
    items: list[Item] = [Words(LEFT - 12, middle, "scores", "end", bold=True)]
    current = -1 if data.tile is None else data.tile
    read = NUM_TILES if data.kind == DIVIDE else max(current, 0)
    for tile in range(NUM_TILES):
        x, wide = _left(tile * TILE_SIZE), TILE_SIZE * CELL
        named = tile == current
        if named and not data.skipped:
            state = "in fast memory"
        elif tile * TILE_SIZE > data.query:
            state = "never read"
        else:
            state = "gone" if tile < read else "not read yet"
        items.append(Words(x + wide / 2, 10, f"tile {tile}", bold=named))
        if named:
            color = FAINT if data.skipped else head_color(HUE)
            items.append(Box(x - 4, 20, wide + 8, ROW_HIGH + 32, None, color, 2.0))
        items.append(Words(x + wide / 2, ROW_TOP + ROW_HIGH + 22, state, color=FAINT))
    for key, word in enumerate(TOKENS):
        x, hidden = _left(key), key > data.query
        lit = key // TILE_SIZE == current and not data.skipped
        fill = QUIET if hidden else MARKED if lit else PAPER
        items.append(Words(x + CELL / 2, 32, word, bold=key == data.query))
        items.append(Box(x + 1, ROW_TOP, CELL - 2, ROW_HIGH, fill, None if hidden else FAINT))
        if lit:
            text = "−inf" if hidden else write_number(data.attn_scores[key].item(), 2)
            items.append(Words(x + CELL / 2, middle, text))
    return items


def _kept(data: TileStep) -> list[Item]:
    top, before_x, now_x = KEPT_TOP, 180.0, 300.0
    items: list[Item] = [
        Words(2, top - 24, "kept for this query", "start", bold=True),
        Words(before_x, top, "before", color=FAINT),
        Words(now_x, top, f"after step {data.step}", color=FAINT),
    ]
    names = ("largest score", "total", "mixed, column 0", "mixed, column 1")
    kept = ([r.largest, r.total, *r.mixed.tolist()] for r in (data.before, data.now))
    for i, (name, before, now) in enumerate(zip(names, *kept, strict=True)):
        y, changed = top + 26 + 26 * i, before != now
        items.append(Words(2, y, name, "start"))
        if changed:
            items.append(Box(now_x - 42, y - 12, 84, 24, MARKED))
        items.append(Words(before_x, y, _told(before), mono=True))
        items.append(Words(now_x, y, _told(now), bold=changed, mono=True))
    items += [Words(2, top + 142 + 20 * i, line, "start") for i, line in enumerate(_say(data))]
    return items


def _say(data: TileStep) -> tuple[str, str]:
    """Return what happens in this step, in two lines."""
    if data.kind == START:
        return "Nothing is read yet: no sum,", "and no score is larger than minus infinity."
    if data.kind == DIVIDE:
        x, y = (_told(value) for value in (data.now.mixed / data.now.total).tolist())
        return f"mixed / total = ({x}, {y})", "is the context vector."
    if data.skipped:
        left_out = {SCORES: "it is not read", CORRECT: "nothing to correct", ADD: "nothing to add"}
        word = TOKENS[data.query]
        return f"Tile {data.tile} holds only the future of", f"{word}: {left_out[data.kind]}."
    if data.kind == SCORES:
        return f"Tile {data.tile}: its keys and values arrive,", "and the query's scores with them."
    if data.kind == ADD:
        return "exp(score − largest) is added to total,", "the same times the value to mixed."
    if data.tile == 0:
        return "The first maximum. There is nothing", "to correct yet."
    factor = _told(data.correction or 0.0)
    if data.correction == 1:
        return "No larger score: the correction is 1,", "and nothing changes."
    return "A larger score: total and mixed become", f"smaller, times exp(old − new) = {factor}."


def _told(value: float) -> str:
    return "−inf" if value == -torch.inf else write_number(value)


def _place(point: Tensor) -> tuple[float, float]:
    x, y = point.tolist()
    across, up = (x - ACROSS[0]) / (ACROSS[1] - ACROSS[0]), (y - UP[0]) / (UP[1] - UP[0])
    return PLANE_LEFT + across * SIDE, PLANE_TOP + SIDE * (1 - up)


DOT, RING = 4.0, 8.0  # radius of a value, and of the average around it
READ = 6.5  # radius of the ring around a value in fast memory


def _plane(data: TileStep) -> list[Item]:
    """Draw the values, what of them was read, the average so far, and where it will end."""
    title, orange = "the values, and their average", head_color(HUE)
    items: list[Item] = [
        Words(PLANE_LEFT, KEPT_TOP - 24, title, "start", bold=True),
        Box(PLANE_LEFT, PLANE_TOP, SIDE, SIDE, None, FAINT),
    ]
    places = [_place(value) for value in data.values]
    seen = places[: data.query + 1]
    tile = 0 if data.tile is None else data.tile * TILE_SIZE
    done = tile + TILE_SIZE * (data.kind == ADD) if data.kind != DIVIDE else len(TOKENS)
    arrived = seen[tile : tile + TILE_SIZE] if data.kind in (SCORES, CORRECT) else []
    items += _cross(_place(data.context_vec))  # below a dot, which is seen in its middle
    # the values of journey and starts are all but one: what was added lies above
    items += [_disc(place, DOT, QUIET, FAINT) for place in places]
    items += [_disc(place, READ, None, orange) for place in arrived]
    items += [_disc(place, DOT, orange, FAINT) for place in seen[:done]]
    for token, (x, y) in zip(TOKENS, places, strict=True):
        if token != "starts":
            name = "journey and starts" if token == "journey" else token
            left = Words(x - 16, y, name, "end", FAINT)
            right = left._replace(x=x + 16, anchor="start")
            items.append(right if token == "one" else left)  # left of one lies with
    if data.now.total > 0:
        items.append(_disc(_place(data.now.mixed / data.now.total), RING, None, INK))
    return items + _legend()


def _disc(place: tuple[float, float], radius: float, fill: str | None, stroke: str) -> Box:
    x, y = place
    wide = 1.0 if fill else 2.0
    return Box(x - radius, y - radius, 2 * radius, 2 * radius, fill, stroke, wide, radius)


def _cross(place: tuple[float, float]) -> list[Item]:
    x, y = place
    return [Line(((x - 9, y - up), (x + 9, y + up)), INK, 1.5) for up in (9, -9)]


def _legend() -> list[Item]:
    """Return what the marks mean, in two lines below the plane."""
    orange, y, z = head_color(HUE), PLANE_TOP + SIDE + 18, PLANE_TOP + SIDE + 40
    places = [(PLANE_LEFT + x, y) for x in (9, 146)] + [(PLANE_LEFT + x, z) for x in (9, 84, 168)]
    average, end, added, read, unread = places
    marks: list[Item] = [_disc(average, RING, None, INK), *_cross(end)]
    marks += [_disc(added, DOT, orange, FAINT), _disc(read, DOT, QUIET, FAINT)]
    marks += [_disc(read, READ, None, orange), _disc(unread, DOT, QUIET, FAINT)]
    names = ("average so far", "where it ends", "added", "arrived", "not read")
    return marks + [
        Words(x + 15, y, name, "start", FAINT) for (x, y), name in zip(places, names, strict=True)
    ]


def readout_tile_step(data: TileStep) -> str:
    """Return the step, and the numbers that are kept."""
    where = data.kind if data.tile is None else f"tile {data.tile}, {data.kind}"
    if data.correction is not None:
        where = f"tile {data.tile}, correction {_told(data.correction)}"
    skipped = ": not read, its keys are the future" if data.skipped else ""
    x, y = data.now.mixed.tolist()
    return (
        f"query {TOKENS[data.query]}; step {data.step} of {len(STEPS) - 1}; {where}{skipped}"
        f"; largest {_told(data.now.largest)}; total {_told(data.now.total)}; "
        f"mixed ({_told(x)}, {_told(y)})"
    )


TILES = Panel(
    name="tiles",
    controls={"query": TOKENS, "step": tuple(range(len(STEPS)))},
    default={"query": "step", "step": 0},
    compute=compute_tile_step,
    draw=draw_tile_step,
    readout=readout_tile_step,
    time="step",
    telling=({"step": 3}, {"step": 8}, {"step": 10}),
)
