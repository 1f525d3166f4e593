"""The panel of the online softmax: one query reads its keys tile by tile.

The head is the second of the course, its queries twenty times as long, so that its scores differ
visibly. Each tile of two keys takes three steps: its scores arrive, the sums so far are corrected
to the new maximum, the tile is added. A row of weights is never held.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, cast

import torch
from torch import Tensor

from attncourse.examples import journey, seeded
from attncourse.panels.panel import PHONE, Panel, format_number
from attncourse.pictures.palette import FAINT, MARKED, PAPER, QUIET, head_color
from attncourse.pictures.scene import Box, Item, Scene, Text
from attnlib.functional import causal_mask
from attnlib.modules import CausalAttention, MultiHeadAttentionWrapper

TOKENS = journey().tokens
TILE_SIZE, NUM_TILES = 2, 3
START, SCORES, CORRECT, ADD, DIVIDE = "start", "scores", "correct", "add", "divide"
STEPS = (START, *(step for _ in range(NUM_TILES) for step in (SCORES, CORRECT, ADD)), DIVIDE)
LONGER = 20  # times as long are the queries here
HEAD = 1  # the second


class Sums(NamedTuple):
    """What the kernel keeps of one query from tile to tile."""

    largest: float
    total: float
    mixed: Tensor  # one number for each column of the values


class TileStep(NamedTuple):
    """One step of the online softmax of one query."""

    query: int
    step: int
    kind: str  # of STEPS
    tile: int | None
    attn_scores: Tensor  # (num_tokens), scaled; those of the future -inf
    correction: float | None
    before: Sums
    now: Sums

    @property
    def is_skipped(self) -> bool:
        """Whether the tile holds only keys of the future."""
        return self.tile is not None and self.tile * TILE_SIZE > self.query


@cache
def projections() -> tuple[Tensor, Tensor, Tensor]:
    """Return the queries, keys and values of the second head, the queries made longer."""
    with seeded():
        heads = MultiHeadAttentionWrapper(3, 2, 6, dropout=0.0, num_heads=2).heads
    head = cast(CausalAttention, heads[HEAD])
    x = journey().inputs
    with torch.no_grad():
        return LONGER * head.W_query(x), head.W_key(x), head.W_value(x)


def compute_tile_step(query: str, step: int) -> TileStep:
    """Read the tiles of a query up to a step."""
    queries, keys, values = projections()
    q = TOKENS.index(query)
    scores = queries @ keys.T / keys.shape[1] ** 0.5
    row = scores.masked_fill(causal_mask(len(TOKENS)), -torch.inf)[q]
    now = before = Sums(-torch.inf, 0.0, torch.zeros(2))
    correction = None
    for i in range(1, step + 1):
        before, start = now, TILE_SIZE * ((i - 1) // 3)
        tile = slice(start, start + TILE_SIZE)
        if STEPS[i] == CORRECT:
            largest = max(now.largest, row[tile].max().item())
            correction = torch.tensor(now.largest - largest).exp().item()
            now = Sums(largest, correction * now.total, correction * now.mixed)
        elif STEPS[i] == ADD:
            powers = torch.exp(row[tile] - now.largest)
            total, mixed = now.total + powers.sum().item(), now.mixed + powers @ values[tile]
            now = Sums(now.largest, total, mixed)
    kind = STEPS[step]
    number = None if kind in (START, DIVIDE) else (step - 1) // 3
    return TileStep(q, step, kind, number, row, correction, before, now)


# The pictures: the keys in tiles, and what is kept from tile to tile

TOP, HIGH = 44.0, 30.0  # of the row of keys
KEY, GAP = 51.0, 8.0  # how wide a key is, and the gap between tiles


def draw_tile_step(data: TileStep) -> tuple[Scene, Scene]:
    """Draw the keys in their tiles, and the numbers that are kept."""
    return _draw_tiles(data), _draw_sums(data)


def _draw_tiles(data: TileStep) -> Scene:
    items: list[Item] = []
    for tile in range(NUM_TILES):
        x, wide = 6 + tile * (TILE_SIZE * KEY + GAP), TILE_SIZE * KEY
        is_current = tile == data.tile
        items.append(Text(x + wide / 2, 10, f"tile {tile}", bold=is_current))
        items.append(Text(x + wide / 2, TOP + HIGH + 22, _state_of(tile, data), color=FAINT))
        if is_current:
            color = FAINT if data.is_skipped else head_color(HEAD)
            items.append(Box(x - 4, 20, wide + 8, HIGH + 32, None, color, 2.0))
        for key in range(tile * TILE_SIZE, (tile + 1) * TILE_SIZE):
            items += _draw_key(key, x, data, is_current and not data.is_skipped)
            x += KEY
    where = "none" if data.tile is None else f"tile {data.tile}"
    alt = f"Six keys in three tiles, in fast memory {where}{' (skipped)' * data.is_skipped}."
    return Scene(PHONE, TOP + HIGH + 36, alt, tuple(items))


def _state_of(tile: int, data: TileStep) -> str:
    """Return where a tile is in this step."""
    if tile * TILE_SIZE > data.query:
        return "never read"
    if tile == data.tile:
        return "in fast memory"
    is_read = data.kind == DIVIDE or (data.tile is not None and tile < data.tile)
    return "gone" if is_read else "not read yet"


def _draw_key(key: int, x: float, data: TileStep, has_arrived: bool) -> list[Item]:
    is_masked = key > data.query
    fill = QUIET if is_masked else MARKED if has_arrived else PAPER
    items: list[Item] = [
        Text(x + KEY / 2, 32, TOKENS[key], bold=key == data.query),
        Box(x + 1, TOP, KEY - 2, HIGH, fill, None if is_masked else FAINT),
    ]
    if has_arrived:
        score = data.attn_scores[key].item()
        items.append(Text(x + KEY / 2, TOP + HIGH / 2, _number(score, 2)))
    return items


def _draw_sums(data: TileStep) -> Scene:
    """Draw what is kept before and after the step; what changes is marked."""
    items: list[Item] = [
        Text(2, 10, "kept for this query", "start", bold=True),
        Text(170, 34, "before", color=FAINT),
        Text(284, 34, f"after step {data.step}", color=FAINT),
    ]
    names = ("largest score", "total", "mixed, column 0", "mixed, column 1")
    before, now = ([s.largest, s.total, *s.mixed.tolist()] for s in (data.before, data.now))
    for i, name in enumerate(names):
        y, has_changed = 60 + 26 * i, before[i] != now[i]
        if has_changed:
            items.append(Box(242, y - 12, 84, 24, MARKED))
        items.append(Text(2, y, name, "start"))
        items.append(Text(170, y, _number(before[i]), mono=True))
        items.append(Text(284, y, _number(now[i]), bold=has_changed, mono=True))
    alt = f"The numbers that are kept for the query {TOKENS[data.query]}."
    return Scene(PHONE, 152, alt, tuple(items))


def _explain(data: TileStep) -> str:
    """Return what happens in this step."""
    if data.kind == START:
        return "Nothing is read yet: no sum, and no score is larger than minus infinity."
    if data.kind == DIVIDE:
        x, y = (_number(value) for value in (data.now.mixed / data.now.total).tolist())
        return f"Mixed / total = ({x}, {y}) is the context vector."
    if data.is_skipped:
        left_out = {SCORES: "it is not read", CORRECT: "nothing to correct", ADD: "nothing to add"}
        word = TOKENS[data.query]
        return f"Tile {data.tile} holds only the future of “{word}”: {left_out[data.kind]}."
    if data.kind == SCORES:
        return f"Tile {data.tile}: its keys and values arrive, and the query's scores with them."
    if data.kind == ADD:
        return "exp(score − largest) is added to total, the same times the value to mixed."
    if data.tile == 0:
        return "The first maximum: there is nothing to correct yet."
    factor = _number(data.correction or 0.0)
    if data.correction == 1:
        return "No larger score: the correction is 1, and nothing changes."
    return f"A larger score: total and mixed become smaller, times exp(old − new) = {factor}."


def _number(value: float, decimals: int = 3) -> str:
    return "−inf" if value == -torch.inf else format_number(value, decimals)


def readout_tile_step(data: TileStep) -> str:
    """Return the step, and what happens in it."""
    return f"Query “{TOKENS[data.query]}”, step {data.step} of {len(STEPS) - 1}. {_explain(data)}"


ONLINE_SOFTMAX = Panel(
    name="online softmax",
    controls={"query": TOKENS, "step": tuple(range(len(STEPS)))},
    default={"query": "step", "step": 0},
    compute=compute_tile_step,
    draw=draw_tile_step,
    readout=readout_tile_step,
    animated="step",
    static_states=({"step": 3}, {"step": 8}, {"step": 10}),
)
