"""Draw the diagrams of the course: `python images/draw.py` writes each beside this file.

Every number in a diagram is computed here, by attnlib, on the running example, or comes from the
recording of a language model. All are equally wide, so that a page shows them at one scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

import attnlib
from attncourse.examples import SEED, journey
from attncourse.panels.sentence import (
    COUNTRY_HEAD,
    TEXTS,
    recorded_answers,
    request_key,
    static_picture,
    unpack_weights,
)
from attncourse.pictures.cells import head_tag
from attncourse.pictures.letters import SIZE
from attncourse.pictures.palette import (
    FAINT,
    INK,
    PAPER,
    QUIET,
    head_color,
    line_color,
    text_color,
    tint,
)
from attncourse.pictures.scene import Box, Item, Line, Scene, Text, shift

WIDTH, MARGIN = 700.0, 16.0  # the width of a page, so that nothing is shrunk
RIGHT = WIDTH - MARGIN
CELL = 20.0  # a cell of a matrix
NUMBER = 39.0  # its width where a number is written in
NAMES = 60.0  # what the names of the tokens take
GRAY = tint(INK, 0.75)  # words that explain
EDGE = tint(FAINT, 0.6)
TOKENS, INPUTS = journey()
NO_HEAD = -1

Colors = Sequence[Sequence[str | None]]  # of cells; None is the future, flat gray
Texts = Sequence[Sequence[str]]
Align = Literal["start", "middle", "end"]
Point = tuple[float, float]


# The computed part.


def stacked_heads(num_heads: int) -> tuple[attnlib.MultiHeadAttentionWrapper, Tensor, Tensor]:
    """Make stacked heads right after the seed; return them, their output and their weights."""
    torch.manual_seed(SEED)
    stacked = attnlib.MultiHeadAttentionWrapper(3, 2, 6, 0.0, num_heads)
    context_vec, attn_weights = stacked(INPUTS[None], return_weights=True)
    return stacked, context_vec[0], attn_weights[0]


def two_decimals(values: Tensor) -> Texts:
    """Return the numbers of a matrix as they are written in."""
    return [[f"{value:.2f}" for value in row] for row in values.tolist()]


# Shapes that return in several diagrams, each drawn from its top left corner.


def note(x: float, y: float, text: str, align: Align = "middle") -> Text:
    """Return a line of explanation."""
    return Text(x, y, text, align, GRAY)


def notes(
    x: float, y: float, *lines: str, align: Align = "middle", step: float = 16.0
) -> list[Item]:
    """Return lines of explanation under each other, the first at y."""
    return [note(x, y + step * i, line, align) for i, line in enumerate(lines)]


def grid(
    x: float,
    y: float,
    colors: Colors,
    texts: Texts | None = None,
    width: float = CELL,
    height: float = CELL,
    size: float = SIZE,
) -> list[Item]:
    """Return cells in rows, with words in them; a cell without a color is the future."""
    items: list[Item] = []
    for r, row in enumerate(colors):
        for c, color in enumerate(row):
            left, top = x + c * width, y + r * height
            items.append(Box(left, top, width, height, color or QUIET, PAPER))
            if texts and color is not None:
                middle = (left + width / 2, top + height / 2)
                items.append(Text(*middle, texts[r][c], color=text_color(color), size=size))
    return items


def cell_color(head: int) -> str:
    """Return the color of a cell that belongs to a head, or to NO_HEAD."""
    return tint(FAINT, 0.25) if head == NO_HEAD else tint(head_color(head), 0.32)


def matrix(
    x: float, y: float, name: str, values: Tensor, heads: Sequence[int], texts: Texts | None = None
) -> list[Item]:
    """Return a matrix under its name and above its shape, each column in the color of its head."""
    width = NUMBER if texts else CELL
    middle = x + len(heads) * width / 2
    colors = [[cell_color(head) for head in heads]] * len(values)
    return [
        Text(middle, y - 13, name, bold=True),
        *grid(x, y, colors, texts, width),
        note(middle, y + len(values) * CELL + 13, str(tuple(values.shape))),
    ]


def token_names(right: float, y: float, height: float = CELL, bold: str = "") -> list[Item]:
    """Return the six tokens beside their rows, ending at the right."""
    return [
        Text(right - 7, y + (i + 0.5) * height, token, "end", bold=token == bold)
        for i, token in enumerate(TOKENS)
    ]


def weight_map(x: float, y: float, weights: Tensor, color: str, cell: float) -> list[Item]:
    """Return attention weights as shades of one color; those that are 0 are the future."""
    colors = [[tint(color, w) if w else None for w in row] for row in weights.tolist()]
    return grid(x, y, colors, width=cell, height=cell)


def arrow(start: Point, end: Point, color: str = INK) -> list[Item]:
    """Return a line with a filled head at its end."""
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    neck = (end[0] - 8 * math.cos(angle), end[1] - 8 * math.sin(angle))
    across = (4 * math.sin(angle), -4 * math.cos(angle))
    left = (neck[0] + across[0], neck[1] + across[1])
    right = (neck[0] - across[0], neck[1] - across[1])
    return [
        Line((start, neck), color),
        Line((end, left, right), stroke=None, fill=line_color(color)),
    ]


def bent_arrow(*points: Point, color: str = INK) -> list[Item]:
    """Return an arrow along several points."""
    return [Line(points[:-1], color), *arrow(points[-2], points[-1], color)]


# The diagrams.


def transplant() -> Scene:
    """Return what the panel of the first page leaves where nothing can be moved, on a page."""
    told = static_picture()
    items = tuple(shift(told.items, 12, 9))  # its own margins are narrower
    return Scene(WIDTH, told.height + 15, told.alt, items)


def two_heads() -> Scene:
    """Draw two stacked heads, from x to the columns of Z."""
    alt = (
        "The six tokens, x of shape (6, 3), go into two heads. In head 0, blue, x with Wq₀ and "
        "Wk₀ makes the attention weights, a triangle of shape (6, 6). Only then the values join: "
        "weights @ V₀, where V₀ is x with Wv₀, is Z₀ of shape (6, 2). Head 1, orange, does the "
        "same with its own matrices. Side by side Z₀ and Z₁ are context_vec of shape (6, 4), two "
        "columns for each head."
    )
    _, context_vec, attn_weights = stacked_heads(2)
    own, cell, lane, gap, wide = 14.0, 15.0, 244.0, 18.0, 364.0
    tall = 6 * cell
    left, right = MARGIN + NAMES, RIGHT - 4 * NUMBER  # where x and Z begin
    fork = left + 3 * 16 + 14
    frame = fork + 14
    middle = MARGIN + lane + gap / 2
    top = middle - 3 * CELL
    gray = [[cell_color(NO_HEAD)] * 3] * 6
    items = [
        *token_names(left, top),
        Text(left + 24, top - 13, "x", bold=True),
        *grid(left, top, gray, width=16, height=CELL),
        note(left + 24, top + 6 * CELL + 13, str(tuple(INPUTS.shape))),
        *matrix(right, top, "context_vec", context_vec, [0, 0, 1, 1], two_decimals(context_vec)),
        Line(((fork - 10, middle), (fork, middle))),
    ]
    for h, lower in enumerate("₀₁"):
        color, y = head_color(h), MARGIN + h * (lane + gap)
        start = y + 64  # of the map, of the values and of Z₀ or Z₁
        axis, last = start + tall / 2, start + tall + 55  # of the map; of W_value
        cells = [[cell_color(h)] * 2] * 3
        items.append(Box(frame, y, wide, lane, tint(color, 0.06), color, 1.5, radius=8))
        items += head_tag(frame + 12, y + 12, 62, h, f"head {h}")
        items.append(Text(frame + 84, y + 21, f"head_{h}", "start", GRAY, mono=True))
        for name, place in ((f"Wq{lower}", axis - 60), (f"Wk{lower}", axis + 12)):
            items.append(Text(frame + 30, place, name, bold=True))
            items += grid(frame + 16, place + 11, cells, width=own, height=own)
        items += arrow((frame + 54, axis), (frame + 96, axis))
        items.append(note(frame + 74, axis - 13, "scores"))
        x = frame + 104
        items.append(Text(x + tall / 2, start - 13, "attention weights", bold=True))
        items += weight_map(x, start, attn_weights[h], color, cell)
        items.append(note(x + tall / 2, start + tall + 13, str(tuple(attn_weights[h].shape))))
        items.append(Text(x + tall + 14, axis, "@", size=15))
        x += tall + 28
        items.append(Text(x + own, start - 13, f"V{lower}", bold=True))
        items += grid(x, start, [[cell_color(h)] * 2] * 6, width=own, height=cell)
        items += arrow((x + own, last - 25), (x + own, start + tall + 5))
        items += grid(x, last - 21, cells, width=own, height=own)
        items.append(Text(x - 8, last, f"Wv{lower}", "end", bold=True))
        items.append(Text(x + 2 * own + 13, axis, "=", size=15))
        z = x + 2 * own + 26
        part = context_vec[:, 2 * h : 2 * h + 2]
        items.append(Text(z + NUMBER, start - 13, f"Z{lower}", bold=True))
        items += grid(z, start, [[cell_color(h)] * 2] * 6, two_decimals(part), NUMBER, cell)
        items.append(note(z + NUMBER, start + tall + 13, str(tuple(part.shape))))

        items += bent_arrow((fork, middle), (fork, axis), (frame + 12, axis))
        items += bent_arrow((fork, axis), (fork, last), (x - 42, last))
        column = right + (2 * h + 1) * NUMBER
        edge = middle + (3 * CELL + (30 if h else 25)) * (2 * h - 1)
        items += bent_arrow((frame + wide + 1, axis), (column, axis), (column, edge), color=color)
    below = MARGIN + 2 * lane + gap + 22
    items += notes(
        MARGIN,
        below,
        "Wq₀ is head_0.W_query.weight.T and Q₀ is x @ Wq₀; the other matrices likewise.",
        "The scores are Q₀ @ K₀.T; then scale, mask, softmax. Gray: the future, its weight is 0.",
        "context_vec: the columns of Z₀, then those of Z₁.",
        align="start",
        step=18,
    )
    return Scene(WIDTH, below + 59, alt, tuple(items))


def view_and_transpose() -> Scene:
    """Draw how view and transpose regroup numbered cells by head."""
    alt = (
        "Three tokens of width 8, their cells numbered 0 to 23. view cuts the row of each token "
        "into two heads of width 4, transpose puts the heads first: head 0 holds 0 to 3, 8 to 11, "
        "16 to 19. Below, memory: still 0 to 23 in a line."
    )
    viewed = NUMBERED.view(3, 2, 4)  # (num_tokens, num_heads, head_dim)
    first, second, third = MARGIN + 53, 364.0, RIGHT - 4 * SMALL  # where the cells begin
    top, axis = 112.0, 220.0
    items = [
        *shape_above(first + 4 * SMALL, NUMBERED, "(num_tokens,", "d_out)"),
        *shape_above(second + 2 * SMALL, viewed, "(num_tokens,", "num_heads,", "head_dim)"),
        *shape_above(third + 2 * SMALL, BY_HEAD, "(num_heads,", "num_tokens,", "head_dim)"),
        *head_tag(first, axis - 61, 4 * SMALL, 0),
        *head_tag(first + 4 * SMALL, axis - 61, 4 * SMALL, 1),
        *numbered(first, axis - 39, NUMBERED),
        *token_labels(first, axis - 39),
        *blocks_of_tokens(second, axis, viewed),
        *blocks_of_heads(third, top, BY_HEAD),
        *move(first + 8 * SMALL, second - 56, axis, "view"),
        *move(second + 4 * SMALL, third - 56, axis, "transpose"),
        note(first, 362, "in memory: view cuts this line, transpose moves nothing", "start"),
        *numbered(first, 374, NUMBERED.view(1, 24)),
    ]
    return Scene(WIDTH, 400 + MARGIN, alt, tuple(items))


def merge() -> Scene:
    """Draw the way back: transpose, a copy into reading order, and the cut into rows."""
    alt = (
        "Two heads, each a table of three tokens; in memory head 0 comes first. transpose puts the "
        "tokens first and moves nothing: token 0, framed, is at places 0 to 3 and 12 to 15. "
        "contiguous copies all into reading order, 0 to 23, and view cuts that into rows of eight."
    )
    back = BY_HEAD.transpose(0, 1)  # (num_tokens, num_heads, head_dim)
    first, second, third = MARGIN + 53, 300.0, RIGHT - 8 * SMALL
    top, axis = 112.0, 220.0
    items = [
        *shape_above(first + 2 * SMALL, BY_HEAD, "(num_heads,", "num_tokens,", "head_dim)"),
        *shape_above(second + 2 * SMALL, back, "(num_tokens,", "num_heads,", "head_dim)"),
        *shape_above(third + 4 * SMALL, NUMBERED, "(num_tokens,", "d_out)"),
        *blocks_of_heads(first, top, BY_HEAD),
        *blocks_of_tokens(second, axis, back),
        *numbered(third, axis - 39, NUMBERED),
        *move(first + 4 * SMALL, second - 56, axis, "transpose"),
        *move(second + 4 * SMALL, third, axis, "contiguous, view"),
        note(first, 362, "in memory, after transpose: token 0 is in two pieces", "start"),
        *numbered(first, 374, BY_HEAD.reshape(1, 24)),
        note(first, 422, "in memory, after contiguous: a copy, and token 0 in one piece", "start"),
        *numbered(first, 434, NUMBERED.view(1, 24)),
    ]
    for x, y, cells, rows in (
        (second, axis - 96, 4, 2),
        (third, axis - 39, 8, 1),
        (first, 374.0, 4, 1),
        (first + 12 * SMALL, 374.0, 4, 1),
        (first, 434.0, 8, 1),
    ):
        items.append(Box(x, y, cells * SMALL, rows * 26, stroke=INK, stroke_width=2.5))
    return Scene(WIDTH, 460 + MARGIN, alt, tuple(items))


def view_alone() -> Scene:
    """Draw what view alone puts under each head."""
    alt = (
        "(3, 8) viewed as (2, 3, 4) at once. Head 0 gets the numbers 0 to 11, head 1 gets 12 to "
        "23. The rows read as tokens 0, 1 and 2 are really of tokens 0, 0 and 1 in head 0, and of "
        "1, 2 and 2 in head 1."
    )
    mixed = torch.arange(24).view(2, 3, 4)
    items: list[Item] = notes(
        MARGIN,
        MARGIN + 8,
        f"(3, 8) viewed as {tuple(mixed.shape)}",
        "at once: view keeps the",
        "order in memory and only",
        "cuts it, the first half for",
        "head 0, whichever head",
        "the numbers belong to.",
        align="start",
        step=17,
    )
    for h, block in enumerate(mixed.tolist()):
        cells, y = 286.0 + h * 247, MARGIN
        items += head_tag(cells, y, 4 * SMALL, h)
        items += numbered(cells, y + 22, mixed[h])
        items += token_labels(cells, y + 22)
        items.append(note(cells - 7, y + 9, "read as", "end"))
        items.append(note(cells + 4 * SMALL + 7, y + 9, "really", "start"))
        for t, row in enumerate(block):
            token = row[0] // 8
            words = Text(cells + 4 * SMALL + 7, y + 35 + t * 26, f"token {token}", "start")
            items.append(words._replace(bold=token != t))
    return Scene(WIDTH, MARGIN + 100 + MARGIN, alt, tuple(items))


SMALL = 24.0  # the width of a numbered cell
NUMBERED = torch.arange(24).view(3, 8)  # (num_tokens, d_out)
BY_HEAD = NUMBERED.view(3, 2, 4).transpose(0, 1)  # (num_heads, num_tokens, head_dim)


def induction_circuit() -> Scene:
    """Draw two heads of two layers, and the stream of the token between them."""
    alt = (
        "Four tokens as columns, each with its stream going up: qu, enty, three dots, qu again. "
        "Below, head L16H0: an arrow from the first qu to enty, which writes into the stream of "
        "enty: I follow qu. Above, head L18H6: the query of the last qu, who follows qu, meets the "
        "key of enty: I follow qu. An arrow takes the value of enty to the last qu."
    )
    columns = {"qu": 150.0, "enty": 316.0, "…": 483.0, " qu ": 650.0}
    low, high, bottom = 210.0, 96.0, 270.0  # the two layers, and the tokens
    items: list[Item] = []
    for token, x in columns.items():
        items.append(Line(((x, bottom - 14), (x, MARGIN)), EDGE, 5.0))
        items.append(Box(x - 34, bottom - 14, 68, 28, PAPER, INK, 1.2, radius=6))
        items.append(Text(x, bottom, token.strip(), bold=True))
    first, after, _, last = columns.values()
    blue, orange = head_color(0), head_color(1)
    items += head_tag(MARGIN, low - 11, 76, 0, "L16H0")
    items += arrow((first + 4, low), (after - 4, low), blue)
    items.append(note((first + after) / 2, low - 14, "one back"))
    items.append(Box(after + 8, low - 30, 118, 24, tint(blue, 0.15), blue, 1.2, radius=6))
    items.append(Text(after + 67, low - 18, "I follow qu"))
    match, value = high + 26, high - 34  # the query meets the key, then the value goes
    items += head_tag(MARGIN, high - 15, 76, 1, "L18H6")
    items += arrow((after + 67, low - 30), (after + 67, match + 13), EDGE)
    items.append(Line(((after + 134, match), (last - 126, match)), EDGE, 2.0))
    items.append(Box(after + 8, match - 12, 126, 24, tint(blue, 0.15), blue, 1.2, radius=6))
    items.append(Text(after + 71, match, "key: I follow qu"))
    items.append(Box(last - 126, match - 12, 118, 24, tint(orange, 0.15), orange, 1.2, radius=6))
    items.append(Text(last - 67, match, "who follows qu?"))
    items += arrow((after + 4, value), (last - 4, value), orange)
    items.append(note((after + last) / 2 - 70, value - 14, "value"))
    return Scene(WIDTH, bottom + 14 + MARGIN, alt, tuple(items))


def numbered(x: float, y: float, values: Tensor) -> list[Item]:
    """Return cells that keep the color of their head, wherever view and transpose take them."""
    rows = values.tolist()
    colors = [[cell_color(value // 4 % 2) for value in row] for row in rows]
    return grid(x, y, colors, [[str(value) for value in row] for row in rows], SMALL, 26, size=13)


def shape_above(middle: float, values: Tensor, *names: str) -> list[Item]:
    """Return the shape of a stage, and the names of its dimensions."""
    shape = Text(middle, 24, str(tuple(values.shape)), size=14, bold=True)
    return [shape, *notes(middle, 46, *names)]


def move(start: float, end: float, y: float, name: str) -> list[Item]:
    """Return an arrow from one stage to the next, under the names of what leads there."""
    middle, steps = (start + end) / 2, name.split(", ")
    items: list[Item] = [
        Text(middle, y - 16 * (len(steps) - i), step) for i, step in enumerate(steps)
    ]
    return items + arrow((middle - 18, y), (middle + 18, y))


def token_labels(right: float, y: float) -> list[Item]:
    """Return the names of three numbered tokens beside their rows, ending at the right."""
    return [Text(right - 7, y + 13 + 26 * t, f"token {t}", "end") for t in range(3)]


def blocks_of_tokens(x: float, axis: float, values: Tensor) -> list[Item]:
    """Return three blocks under each other, each beside the name of its token."""
    items: list[Item] = []
    for t in range(3):
        y = axis + (t - 1) * 70
        items += numbered(x, y - 26, values[t])
        items.append(Text(x - 7, y, f"token {t}", "end"))
    return items


def blocks_of_heads(x: float, y: float, values: Tensor) -> list[Item]:
    """Return two blocks under each other, each under the name of its head."""
    items: list[Item] = []
    for h in range(2):
        top = y + h * 116
        items += head_tag(x, top, 4 * SMALL, h)
        items += numbered(x, top + 22, values[h])
        items += token_labels(x, top + 22)
    return items


LEAST = 0.2  # the smallest weight that the map of the model shows


def model_map() -> Scene:
    """Draw the language model from left to right, at the last token of the first sentence.

    A token is a line, its residual stream. In each layer an attention head that brings something
    from another token to the last one is a curve, and the MLP a square on each line. The first
    token, to which heads attend when they have nothing else to do, has no curves.
    """
    plain = recorded_answers()[request_key({"text": TEXTS[0]})]
    tokens, answer = [token.strip() for token in plain["tokens"]], plain["words"][0][0]
    weights = unpack_weights(plain)[:, :, -1]  # (num_layers, num_heads, num_tokens)
    num_layers, last = len(weights), len(tokens) - 1
    left, top, step, apart = 76.0, 36.0, 9.6, 40.0
    right, bottom = left + num_layers * step, top + last * apart
    named = f"{num_layers} layers: attention, then an MLP"
    items: list[Item] = [note((left + right) / 2, 12, named)]
    for i, token in enumerate(tokens):
        y = top + i * apart
        items.append(Text(left - 10, y, token, "end", size=16, bold=i == last))
        items.append(Line(((left, y), (right, y)), INK if i == last else EDGE, 1.5))
        squares = [left + (layer + 0.8) * step for layer in range(num_layers)]
        items += [Box(x - 2.5, y - 2.5, 5, 5, QUIET, EDGE) for x in squares]
    found = [
        (layer, h, key + 1) for layer, h, key in (weights[..., 1:-1] >= LEAST).nonzero().tolist()
    ]
    for layer, h, key in sorted(found, key=lambda one: one[:2] == COUNTRY_HEAD):  # that one on top
        is_carrier = (layer, h) == COUNTRY_HEAD
        x, y = left + (layer + 0.1) * step, top + key * apart
        shares = [i / 16 for i in range(17)]  # level where the curve begins and where it ends
        curve = [(x + 0.45 * step * t, y + (bottom - y) * t * t * (3 - 2 * t)) for t in shares]
        color, wide = (head_color(0), 4.0) if is_carrier else (FAINT, 1.5)
        opacity = 1.0 if is_carrier else weights[layer, h, key].item()
        items.append(Line(tuple(curve), color, wide, opacity=opacity))
        if is_carrier:
            name = f"L{layer}H{h}"
            items.append(Text(x, bottom + 18, name, color=color, bold=True))
    items.append(Box(right + 8, bottom - 16, 76, 32, head_color(0), radius=8))
    items.append(Text(right + 46, bottom, answer, color=PAPER, size=18, bold=True))
    alt = (
        f"The model from left to right: {len(tokens)} tokens as lines through {num_layers} layers. "
        f"{len(found) - 1} pale curves lead from other tokens to {tokens[-1]!r}, one in blue is "
        f"head {COUNTRY_HEAD[1]} of layer {COUNTRY_HEAD[0]}. At the end of the last line: {answer}."
    )
    return Scene(right + 92, bottom + 30, alt, tuple(items))


DIAGRAMS: dict[str, Callable[[], Scene]] = {
    "transplant": transplant,
    "two_heads": two_heads,
    "view_and_transpose": view_and_transpose,
    "view_alone": view_alone,
    "merge": merge,
    "induction_circuit": induction_circuit,
    "model_map": model_map,
}

if __name__ == "__main__":
    for name, draw in DIAGRAMS.items():
        Path(__file__).with_name(f"{name}.png").write_bytes(draw().png())
