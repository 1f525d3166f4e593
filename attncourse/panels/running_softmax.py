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
from attncourse.panels.states import PHONE, Panel
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

ROW_TOP, ROW_HIGH = 44.0, 30.0
KEPT_TOP = 152.0
SIDE = 204.0  # of the plane


class Places(NamedTuple):
    """Where things stand, in pixels: on a wide sheet, or on a phone's."""

    width: float
    left: float  # of the first key
    cell: float  # the width of a key
    gap: float  # between tiles
    before: float  # the middle of the numbers before the step
    now: float  # and after it
    plane: tuple[float, float]  # the corner of the plane

    def key(self, key: int) -> float:
        """Return the left side of a key."""
        return self.left + key * self.cell + (key // TILE_SIZE) * self.gap


WIDE = Places(BOOK, 96.0, 88.0, 14.0, 180.0, 300.0, (424.0, 144.0))
NARROW = Places(PHONE, 6.0, 51.0, 8.0, 170.0, 284.0, (64.0, 306.0))
ACROSS, UP = (0.22, 0.74), (0.04, 0.56)  # what part of the plane of values is shown


def draw_tile_step(data: TileStep) -> Scene:
    """Draw the tiles, the numbers that are kept, and the average so far among the values."""
    return _draw(data, WIDE)


def draw_narrow_tiles(data: TileStep) -> Scene:
    """Draw the same for a phone, the values below the numbers."""
    return _draw(data, NARROW)


def _draw(data: TileStep, places: Places) -> Scene:
    items = (*_tiles(data, places), *_kept(data, places), *_plane(data, places.plane))
    where = "none yet" if data.tile is None else f"tile {data.tile}, {data.tokens_of_tile}"
    seen = "; it is not read" if data.skipped else ""
    alt = (
        f"Six keys in three tiles, in fast memory {where}{seen}. Below, the numbers that are kept "
        f"for the query {TOKENS[data.query]}, and its average so far among the values read."
    )
    return Scene(places.width, places.plane[1] + SIDE + 52, alt, items)


def _tiles(data: TileStep, places: Places) -> list[Item]:
    middle, cell_wide = ROW_TOP + ROW_HIGH / 2, places.cell
    items: list[Item] = []
    if places is WIDE:
        items.append(Words(places.left - 12, middle, "scores", "end", bold=True))
    current = -1 if data.tile is None else data.tile
    read = NUM_TILES if data.kind == DIVIDE else max(current, 0)
    for tile in range(NUM_TILES):
        x, wide = places.key(tile * TILE_SIZE), TILE_SIZE * cell_wide
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
        x, hidden = places.key(key), key > data.query
        lit = key // TILE_SIZE == current and not data.skipped
        fill = QUIET if hidden else MARKED if lit else PAPER
        items.append(Words(x + cell_wide / 2, 32, word, bold=key == data.query))
        items.append(Box(x + 1, ROW_TOP, cell_wide - 2, ROW_HIGH, fill, None if hidden else FAINT))
        if lit:
            text = "−inf" if hidden else write_number(data.attn_scores[key].item(), 2)
            items.append(Words(x + cell_wide / 2, middle, text))
    return items


def _kept(data: TileStep, places: Places) -> list[Item]:
    top, before_x, now_x = KEPT_TOP, places.before, places.now
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
    return items


def _say(data: TileStep) -> str:
    """Return what happens in this step."""
    if data.kind == START:
        return "Nothing is read yet: no sum, and no score is larger than minus infinity."
    if data.kind == DIVIDE:
        x, y = (_told(value) for value in (data.now.mixed / data.now.total).tolist())
        return f"Mixed / total = ({x}, {y}) is the context vector."
    if data.skipped:
        left_out = {SCORES: "it is not read", CORRECT: "nothing to correct", ADD: "nothing to add"}
        word = TOKENS[data.query]
        return f"Tile {data.tile} holds only the future of “{word}”: {left_out[data.kind]}."
    if data.kind == SCORES:
        return f"Tile {data.tile}: its keys and values arrive, and the query's scores with them."
    if data.kind == ADD:
        return "exp(score − largest) is added to total, the same times the value to mixed."
    if data.tile == 0:
        return "The first maximum: there is nothing to correct yet."
    factor = _told(data.correction or 0.0)
    if data.correction == 1:
        return "No larger score: the correction is 1, and nothing changes."
    return f"A larger score: total and mixed become smaller, times exp(old − new) = {factor}."


def _told(value: float) -> str:
    return "−inf" if value == -torch.inf else write_number(value)


def _place(point: Tensor, corner: tuple[float, float]) -> tuple[float, float]:
    x, y = point.tolist()
    across, up = (x - ACROSS[0]) / (ACROSS[1] - ACROSS[0]), (y - UP[0]) / (UP[1] - UP[0])
    return corner[0] + across * SIDE, corner[1] + SIDE * (1 - up)


DOT, RING = 4.0, 8.0  # radius of a value, and of the average around it
READ = 6.5  # radius of the ring around a value in fast memory


def _plane(data: TileStep, corner: tuple[float, float]) -> list[Item]:
    """Draw the values, what of them was read, the average so far, and where it will end."""
    title, orange = "the values, and their average", head_color(HUE)
    items: list[Item] = [
        Words(corner[0], corner[1] - 16, title, "start", bold=True),
        Box(*corner, SIDE, SIDE, None, FAINT),
    ]
    places = [_place(value, corner) for value in data.values]
    seen = places[: data.query + 1]
    tile = 0 if data.tile is None else data.tile * TILE_SIZE
    done = tile + TILE_SIZE * (data.kind == ADD) if data.kind != DIVIDE else len(TOKENS)
    arrived = seen[tile : tile + TILE_SIZE] if data.kind in (SCORES, CORRECT) else []
    items += _cross(_place(data.context_vec, corner))  # below a dot, which is seen in its middle
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
        items.append(_disc(_place(data.now.mixed / data.now.total, corner), RING, None, INK))
    return items + _legend(corner[0], corner[1] + SIDE)


def _disc(place: tuple[float, float], radius: float, fill: str | None, stroke: str) -> Box:
    x, y = place
    wide = 1.0 if fill else 2.0
    return Box(x - radius, y - radius, 2 * radius, 2 * radius, fill, stroke, wide, radius)


def _cross(place: tuple[float, float]) -> list[Item]:
    x, y = place
    return [Line(((x - 9, y - up), (x + 9, y + up)), INK, 1.5) for up in (9, -9)]


def _legend(left: float, bottom: float) -> list[Item]:
    """Return what the marks mean, in two lines below the plane."""
    orange, y, z = head_color(HUE), bottom + 18, bottom + 40
    places = [(left + x, y) for x in (9, 146)] + [(left + x, z) for x in (9, 84, 168)]
    average, end, added, read, unread = places
    marks: list[Item] = [_disc(average, RING, None, INK), *_cross(end)]
    marks += [_disc(added, DOT, orange, FAINT), _disc(read, DOT, QUIET, FAINT)]
    marks += [_disc(read, READ, None, orange), _disc(unread, DOT, QUIET, FAINT)]
    names = ("average so far", "where it ends", "added", "arrived", "not read")
    return marks + [
        Words(x + 15, y, name, "start", FAINT) for (x, y), name in zip(places, names, strict=True)
    ]


def readout_tile_step(data: TileStep) -> str:
    """Return the step, and what happens in it."""
    return f"Query “{TOKENS[data.query]}”, step {data.step} of {len(STEPS) - 1}. {_say(data)}"


TILES = Panel(
    name="tiles",
    controls={"query": TOKENS, "step": tuple(range(len(STEPS)))},
    default={"query": "step", "step": 0},
    compute=compute_tile_step,
    draw=draw_tile_step,
    draw_narrow=draw_narrow_tiles,
    readout=readout_tile_step,
    time="step",
    telling=({"step": 3}, {"step": 8}, {"step": 10}),
)
