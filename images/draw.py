"""Draw the diagrams of the course: `python images/draw.py` writes each beside this file.

Every number in a diagram is computed here, by attnlib, on the running example. All diagrams are
equally wide, so that a page shows them at one scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

import attnlib
from attnlib.examples import SEED, journey
from attnlib.pictures.palette import FAINT, INK, PAPER, head_color, text_color, tint, weight_color
from attnlib.pictures.scene import Box, Item, Line, Scene, Words
from attnlib.pictures.tensors import head_tag

WIDTH, MARGIN = 880.0, 16.0
RIGHT = WIDTH - MARGIN
CELL = 20.0  # a cell of a matrix
NUMBER = 36.0  # its width where a number is written in
NAMES = 53.0  # what the names of the tokens take
DEVICE_WIDTH, DEVICE_HEIGHT = 652.0, 90 + 6 * CELL  # of the frame around a device
GREY = tint(INK, 0.75)  # words that explain
EDGE = tint(FAINT, 0.6)
TOKENS, INPUTS = journey()
NO_HEAD = -1

Colors = Sequence[Sequence[str | None]]  # of cells; None is hatched
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


def note(x: float, y: float, text: str, align: Align = "middle") -> Words:
    """Return a line of explanation."""
    return Words(x, y, text, 12, GREY, align)


def notes(
    x: float, y: float, *lines: str, align: Align = "middle", step: float = 16.0
) -> list[Item]:
    """Return lines of explanation under each other, the first at y."""
    return [note(x, y + step * i, line, align) for i, line in enumerate(lines)]


def heading(x: float, y: float, text: str) -> Words:
    """Return a heading, from x on."""
    return Words(x, y, text, 14, INK, "start", bold=True)


def grid(
    x: float,
    y: float,
    colors: Colors,
    texts: Texts | None = None,
    width: float = CELL,
    height: float = CELL,
    size: float = 11,
) -> list[Item]:
    """Return cells in rows, with words in them; a cell without a colour is hatched."""
    filled: list[Item] = []
    hatched: list[Item] = []
    for r, row in enumerate(colors):
        for c, color in enumerate(row):
            left, top = x + c * width, y + r * height
            if color is None:
                hatched.append(Box(left, top, width, height, PAPER, EDGE, hatched=True))
                continue
            filled.append(Box(left, top, width, height, color, PAPER))
            if texts:
                middle = (left + width / 2, top + height / 2)
                filled.append(Words(*middle, texts[r][c], size, text_color(color)))
    return filled + hatched


def cell_color(head: int) -> str:
    """Return the colour of a cell that belongs to a head, or to NO_HEAD."""
    return tint(FAINT, 0.25) if head == NO_HEAD else tint(head_color(head), 0.32)


def matrix(
    x: float, y: float, name: str, values: Tensor, heads: Sequence[int], texts: Texts | None = None
) -> list[Item]:
    """Return a matrix under its name and above its shape, each column in the colour of its head."""
    width = NUMBER if texts else CELL
    middle = x + len(heads) * width / 2
    colors = [[cell_color(head) for head in heads]] * len(values)
    return [
        Words(middle, y - 13, name, 13, bold=True),
        *grid(x, y, colors, texts, width),
        note(middle, y + len(values) * CELL + 13, str(tuple(values.shape))),
    ]


def token_names(right: float, y: float, height: float = CELL, bold: str = "") -> list[Item]:
    """Return the six tokens beside their rows, ending at the right."""
    return [
        Words(right - 7, y + (i + 0.5) * height, token, 12, INK, "end", bold=token == bold)
        for i, token in enumerate(TOKENS)
    ]


def weight_map(x: float, y: float, weights: Tensor, color: str, cell: float) -> list[Item]:
    """Return attention weights as shades of one colour, those that are 0 hatched."""
    colors = [[tint(color, w**0.5) if w else None for w in row] for row in weights.tolist()]
    return grid(x, y, colors, width=cell, height=cell)


def arrow(start: Point, end: Point, color: str = INK) -> list[Item]:
    """Return a line with a filled head at its end."""
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    neck = (end[0] - 8 * math.cos(angle), end[1] - 8 * math.sin(angle))
    across = (4 * math.sin(angle), -4 * math.cos(angle))
    left = (neck[0] + across[0], neck[1] + across[1])
    right = (neck[0] - across[0], neck[1] - across[1])
    return [Line((start, neck), color), Line((end, left, right), stroke=None, fill=color)]


def bent_arrow(*points: Point, color: str = INK) -> list[Item]:
    """Return an arrow along several points."""
    return [Line(points[:-1], color), *arrow(points[-2], points[-1], color)]


# The diagrams.


def road_so_far() -> Scene:
    """Draw the four stages, from simplified to multi-head attention."""
    alt = (
        "Four stages in a row. One, simplified: attention weights straight from x. Two, "
        "trainable: the matrices W_query, W_key and W_value come in. Three, causal: later tokens "
        "are hidden, the upper triangle is hatched. Four, multi-head: several such triangles at "
        "once, one colour for each head."
    )
    torch.manual_seed(SEED)
    head = attnlib.CausalAttention(3, 2, 6, 0.0)
    _, trainable = attnlib.attention(head.W_query(INPUTS), head.W_key(INPUTS), head.W_value(INPUTS))
    _, _, multi_head = stacked_heads(3)
    simplified = torch.softmax(INPUTS @ INPUTS.T, dim=-1)

    card, gap, tall, cell, top = 188.0, 32.0, 246.0, 16.0, 120.0
    side = 6 * cell
    stages = (
        ("1  Simplified", "weights straight from x"),
        ("2  Trainable", "new: weight matrices"),
        ("3  Causal", "new: no look ahead"),
        ("4  Multi-head", "new: several heads"),
    )
    items: list[Item] = []
    middles = [MARGIN + i * (card + gap) + card / 2 for i in range(4)]
    for middle, (name, what_is_new) in zip(middles, stages, strict=True):
        items.append(Box(middle - card / 2, MARGIN, card, tall, stroke=EDGE, radius=8))
        items.append(Words(middle, MARGIN + 20, name, 14, bold=True))
        items.append(note(middle, top + side + 24, what_is_new))
    for middle in middles[1:]:
        y = MARGIN + tall / 2
        items += arrow((middle - card / 2 - gap + 5, y), (middle - card / 2 - 5, y))

    left = [middle - side / 2 for middle in middles]
    items.append(note(middles[0], top - 16, "x @ xᵀ"))
    items.append(note(middles[2], top - 16, "above the diagonal: −inf"))
    items += weight_map(left[0], top, simplified, GREY, cell)
    for place, name in ((-58, "W_query"), (0, "W_key"), (58, "W_value")):
        x = middles[1] + place
        items.append(Words(x, 66, name, 11))
        items += grid(x - 9, 76, [[cell_color(0)] * 2] * 3, width=9, height=9)
    items += weight_map(left[1], top, trainable, head_color(0), cell)
    items += weight_map(left[2], top, multi_head[0], head_color(0), cell)
    for h in (2, 1, 0):
        x, y = left[3] + (h - 1) * 15, top - h * 15
        items += weight_map(x, y, multi_head[h], head_color(h), cell)
        items.append(Box(x, y, side, side, stroke=head_color(h), stroke_width=1.5))

    for first, last, text in (
        (0, 1, "the road here"),
        (2, 2, "notebook 01"),
        (3, 3, "notebooks 02 and 03"),
    ):
        start, end, y = middles[first] - card / 2, middles[last] + card / 2, MARGIN + tall + 10
        items.append(Line(((start, y), (start, y + 8), (end, y + 8), (end, y)), FAINT))
        items.append(Words((start + end) / 2, y + 24, text, 12, bold=first > 1))
    return Scene(WIDTH, MARGIN + tall + 56, alt, tuple(items))


def causal_mask() -> Scene:
    """Draw who may see whom, and the weights that follow."""
    alt = (
        "Left, a grid of the six tokens, queries down, keys across: cells up to the diagonal are "
        "filled, the future above it is hatched, so journey sees Your and journey. Right, after "
        "the scores above the diagonal become -inf, the weights after softmax: nothing above the "
        "diagonal, and each row sums to 1."
    )
    torch.manual_seed(SEED)
    head = attnlib.CausalAttention(3, 2, 6, 0.0)
    weights = head(INPUTS[None], return_weights=True)[1][0]
    is_future = attnlib.causal_mask(6)
    row = TOKENS.index("journey")
    seen = [token for token, hidden in zip(TOKENS, is_future[row], strict=True) if not hidden]

    width, height, top = 46.0, 34.0, 84.0
    side, tall = 6 * width, 6 * height
    left, right = MARGIN + 26 + NAMES, RIGHT - 36 - side
    may_see = [
        [None if hidden else tint(FAINT, 0.75 if q == row else 0.3) for hidden in hiddens]
        for q, hiddens in enumerate(is_future.tolist())
    ]
    shades = [[weight_color(w) if w else None for w in row] for row in weights.tolist()]
    items = [
        Words(MARGIN + 6, top + tall / 2, "queries", 12, GREY, angle=90),
        heading(left, 22, "What each query may see"),
        *grid(left, top, may_see, width=width, height=height),
        note(left, top + tall + 20, f"{TOKENS[row]} sees {' and '.join(seen)}", "start"),
        heading(right, 22, "attn_weights after softmax"),
        *grid(right, top, shades, two_decimals(weights), width, height),
        note(right, top + tall + 20, "hatched: the future, its weight is 0", "start"),
        note(right + side + 22, top - 13, "sum"),
    ]
    for q, total in enumerate(weights.sum(dim=-1).tolist()):
        items.append(note(right + side + 22, top + (q + 0.5) * height, f"{total:.2f}"))
    for x in (left, right):
        items += token_names(x, top, height, bold=TOKENS[row])
        items += [note(x + side / 2, top - 32, "keys")]
        items += [
            Words(x + (k + 0.5) * width, top - 13, token, 11) for k, token in enumerate(TOKENS)
        ]
        items.append(Box(x, top + row * height, side, height, stroke=INK, stroke_width=2))
    middle, y = (left + side + right - NAMES) / 2, top + tall / 2
    for i, line in enumerate(("scores above", "the diagonal", "become −inf")):
        items.append(Words(middle, y - 50 + 17 * i, line))
    items += arrow((middle - 44, y + 6), (middle + 44, y + 6))
    items.append(Words(middle, y + 24, "softmax"))
    return Scene(WIDTH, top + tall + 42, alt, tuple(items))


def two_heads() -> Scene:
    """Draw two stacked heads, from x to the columns of Z."""
    alt = (
        "The six tokens, x of shape (6, 3), go into two heads. Head 1, blue, has Wq₁, Wk₁, Wv₁ "
        "and gives Z₁ of shape (6, 2); head 2, orange, has Wq₂, Wk₂, Wv₂ and gives Z₂. Side by "
        "side they are Z of shape (6, 4), two columns for each head."
    )
    stacked, context_vec, attn_weights = stacked_heads(2)
    tall, lane, gap, wide = 6 * CELL, 212.0, 20.0, 444.0
    left, right = MARGIN + NAMES, RIGHT - 4 * NUMBER  # where x and Z begin
    fork = left + 3 * NUMBER + 23
    frame = fork + 24
    middle = MARGIN + lane + gap / 2
    top = middle - tall / 2
    items = [
        *token_names(left, top),
        *matrix(left, top, "x", INPUTS, [NO_HEAD] * 3, two_decimals(INPUTS)),
        *matrix(right, top, "Z", context_vec, [0, 0, 1, 1], two_decimals(context_vec)),
        Line(((fork - 15, middle), (fork, middle))),
    ]
    for h, lower in enumerate("₁₂"):
        color, y = head_color(h), MARGIN + h * (lane + gap)
        axis = y + 57 + tall / 2  # on which all matrices of the head are centred
        items.append(Box(frame, y, wide, lane, tint(color, 0.06), color, 1.5, radius=8))
        items += head_tag(frame + 14, y + 13, 56, h)
        items.append(Words(frame + 80, y + 22, f"heads[{h}]", 12, GREY, "start", mono=True))

        x = frame + 14
        for name in ("W_query", "W_key", "W_value"):
            weight = stacked.get_parameter(f"heads.{h}.{name}.weight").T
            items += matrix(x, axis - 1.5 * CELL, f"W{name[2]}{lower}", weight, [h, h])
            x += 2 * CELL + 16
        items += arrow((x - 9, axis), (x + 14, axis))
        x += 22
        items.append(Words(x + tall / 2, axis - tall / 2 - 13, "attn_weights", 13, bold=True))
        items += weight_map(x, axis - tall / 2, attn_weights[h], color, CELL)
        items.append(note(x + tall / 2, axis + tall / 2 + 13, str(tuple(attn_weights[h].shape))))
        x += tall
        items += arrow((x + 8, axis), (x + 31, axis))
        part = context_vec[:, 2 * h : 2 * h + 2]
        items += matrix(x + 38, axis - tall / 2, f"Z{lower}", part, [h, h], two_decimals(part))

        items += bent_arrow((fork, middle), (fork, axis), (frame - 5, axis))
        column = right + (2 * h + 1) * NUMBER
        edge = middle + (tall / 2 + 5) * (2 * h - 1)
        items += bent_arrow((frame + wide + 1, axis), (column, axis), (column, edge), color=color)
    below = MARGIN + 2 * lane + gap + 22
    items += notes(
        frame,
        below,
        "Wq₁ is heads[0].W_query.weight.T; Wk₁, Wv₁ and head 2 likewise.",
        "Hatched: the future, its weight is 0. Z = torch.cat([Z₁, Z₂], dim=-1)",
        align="start",
        step=18,
    )
    return Scene(WIDTH, below + 41, alt, tuple(items))


def one_product_split() -> Scene:
    """Draw two products, and the one product that is cut into the same two results."""
    alt = (
        "Top, stacked heads: two products, x @ Wq₁ = Q₁ and x @ Wq₂ = Q₂. Bottom, weight split: "
        "one product with W_query, whose left two columns are Wq₁ and right two Wq₂, gives Q of "
        "shape (6, 4), which is cut into the same Q₁ and Q₂."
    )
    stacked, _, _ = stacked_heads(2)
    split = attnlib.stacked_to_split(stacked)
    queries = attnlib.split_heads(split.W_query(INPUTS[None]), num_heads=2)[0]
    first, second = (stacked.get_parameter(f"heads.{h}.W_query.weight").T for h in range(2))
    tall, pad = 6 * CELL, 8.0
    left, top, half = MARGIN + NAMES, 70.0, 70.0 + 6 * CELL + 36
    right = RIGHT - 7 * NUMBER - 64
    lower = half + 70
    stop = RIGHT - 4 * NUMBER - 20
    start = left + 11 * NUMBER + 64
    middle, axis = (start + stop) / 2, lower + tall / 2
    items = [
        heading(MARGIN, 22, "Stacked heads: two products"),
        *product(left, top, ("Wq₁", "Q₁"), first, [0, 0]),
        *product(right, top, ("Wq₂", "Q₂"), second, [1, 1]),
        Line(((MARGIN, half), (RIGHT, half)), EDGE, 1.0),
        heading(MARGIN, half + 26, "Weight split: one product, then a cut"),
        *product(left, lower, ("W_query", "Q"), split.W_query.weight.T, [0, 0, 1, 1]),
        *arrow((start + pad, axis), (stop - pad, axis)),
        Words(middle, axis - 15, "split_heads", 12, mono=True),
        note(middle, axis + 16, "Q₁, Q₂ as above"),
        *matrix(stop, lower, "Q₁", queries[0], [0, 0], two_decimals(queries[0])),
        *matrix(RIGHT - 2 * NUMBER, lower, "Q₂", queries[1], [1, 1], two_decimals(queries[1])),
    ]
    below = lower + tall + 44
    items += notes(
        MARGIN,
        below,
        f"num_tokens = {len(TOKENS)}, d_in = {split.d_in}, num_heads = {split.num_heads}, "
        f"head_dim = {split.head_dim}, d_out = {split.d_out} in all. Q stands for queries.",
        "Weights are drawn as x meets them. nn.Linear stores the transpose: W_query.weight is "
        f"{tuple(split.W_query.weight.shape)}, {split.head_dim} rows for each head.",
        align="start",
        step=18,
    )
    return Scene(WIDTH, below + 41, alt, tuple(items))


def product(
    x: float, y: float, names: tuple[str, str], weight: Tensor, heads: Sequence[int]
) -> list[Item]:
    """Return x @ weight = queries, 32 pixels for each sign."""
    axis = y + 3 * CELL
    second = x + 3 * NUMBER + 32
    third = second + len(heads) * NUMBER + 32
    queries = INPUTS @ weight
    return [
        *token_names(x, y),
        *matrix(x, y, "x", INPUTS, [NO_HEAD] * 3, two_decimals(INPUTS)),
        Words(second - 16, axis, "@", 15),
        *matrix(second, axis - 1.5 * CELL, names[0], weight, heads, two_decimals(weight)),
        Words(third - 16, axis, "=", 15),
        *matrix(third, y, names[1], queries, heads, two_decimals(queries)),
    ]


def view_and_transpose() -> Scene:
    """Draw how view and transpose regroup numbered cells by head, and what view alone does."""
    alt = (
        "Three tokens of width 4, their cells numbered 0 to 11. view cuts each token into two "
        "heads, transpose puts the heads first: head 1 holds 0 1, 4 5, 8 9. transpose, contiguous "
        "and view lead back. In a frame, the trap: view straight to (2, 3, 2) gives head 1 the "
        "numbers 0 to 5, which mixes tokens and heads."
    )
    x = torch.arange(12).view(3, 4)  # (num_tokens, d_out)
    viewed = x.view(3, 2, 2)  # (num_tokens, num_heads, head_dim)
    by_head = viewed.transpose(0, 1)  # (num_heads, num_tokens, head_dim)
    first, top = 68.0, 112.0  # where the cells begin
    items = [
        *there_and_back(first, top, x, viewed, by_head),
        *the_trap(668.0, top, x),
        *in_memory(first, viewed, by_head),
    ]
    return Scene(WIDTH, 442 + 2 * MARGIN, alt, tuple(items))


def there_and_back(
    first: float, top: float, x: Tensor, viewed: Tensor, by_head: Tensor
) -> list[Item]:
    """Return the cells in their three shapes, and the arrows between these."""
    second, third, axis = 350.0, 568.0, 220.0
    items: list[Item] = []
    for middle, values, *names in (
        (first + 64, x, "(num_tokens,", "d_out)"),
        (second + 32, viewed, "(num_tokens,", "num_heads,", "head_dim)"),
        (third + 32, by_head, "(num_heads,", "num_tokens,", "head_dim)"),
    ):
        items.append(Words(middle, 36, str(tuple(values.shape)), 14, bold=True))
        items += notes(middle, 56, *names)

    items += head_tag(first, axis - 61, 64, 0) + head_tag(first + 64, axis - 61, 64, 1)
    items += numbered(first, axis - 39, x)
    items += token_labels(first, axis - 39)
    items += notes(first + 64, axis + 58, "one text;", "in a batch b comes first")
    for t in range(3):
        y = axis + (t - 1) * 70
        items += numbered(second, y - 26, viewed[t])
        items.append(Words(second - 7, y, f"token {t + 1}", 12, INK, "end"))
    items += blocks_of_heads(third, top, by_head)

    for start, end, there, back in (
        (first + 128, second - 54, "view", ("contiguous,", "view")),
        (second + 64, third - 54, "transpose", ("transpose",)),
    ):
        middle = (start + end) / 2
        items.append(Words(middle, axis - 36, there))
        items += arrow((middle - 34, axis - 20), (middle + 34, axis - 20))
        items += arrow((middle + 34, axis + 20), (middle - 34, axis + 20), GREY)
        items += notes(middle, axis + 36, *back)
    return items


def the_trap(left: float, top: float, x: Tensor) -> list[Item]:
    """Return a frame with the cells that view alone puts under each head."""
    mixed = x.view(2, 3, 2)
    cells = left + 64
    middle = (left + RIGHT) / 2
    items: list[Item] = []
    items.append(Box(left, MARGIN, RIGHT - left, 442, stroke=FAINT, stroke_width=1.5, radius=8))
    items.append(Words(middle, 36, "The trap", 14, bold=True))
    items += notes(middle, 56, f"{tuple(x.shape)} viewed", f"as {tuple(mixed.shape)} at once")
    items += blocks_of_heads(cells, top, mixed)
    for h, block in enumerate(mixed.tolist()):
        y = top + h * 116
        items.append(note(cells - 7, y + 9, "read as", "end"))
        items.append(note(cells + 71, y + 9, "really", "start"))
        for t, row in enumerate(block):
            token = row[0] // 4
            name = f"token {token + 1}"
            items.append(
                Words(cells + 71, y + 35 + t * 26, name, 12, INK, "start", bold=token != t)
            )
    items += notes(
        left + 16,
        362,
        "view keeps the order in",
        "memory and only cuts it.",
        "The first six numbers",
        "become head 1, whichever",
        "head they belong to.",
        align="start",
        step=17,
    )
    return items


def in_memory(left: float, viewed: Tensor, by_head: Tensor) -> list[Item]:
    """Return the cells in the order in which memory holds them, before and after attention."""
    items: list[Item] = []
    for y, text, values in (
        (362, "in memory: view cuts this line, transpose moves nothing", viewed),
        (
            420,
            "after attention it lies head by head: contiguous rewrites it, then view can cut",
            by_head,
        ),
    ):
        items.append(note(left, y, text, "start"))
        items += numbered(left, y + 12, values.reshape(1, 12))
    return items


def numbered(x: float, y: float, values: Tensor) -> list[Item]:
    """Return cells that keep the colour of their head, wherever view and transpose take them."""
    rows = values.tolist()
    colors = [[cell_color(value // 2 % 2) for value in row] for row in rows]
    return grid(x, y, colors, [[str(value) for value in row] for row in rows], 32, 26, size=13)


def token_labels(right: float, y: float) -> list[Item]:
    """Return the names of three numbered tokens beside their rows, ending at the right."""
    return [Words(right - 7, y + 13 + 26 * t, f"token {t + 1}", 12, INK, "end") for t in range(3)]


def blocks_of_heads(x: float, y: float, values: Tensor) -> list[Item]:
    """Return two blocks under each other, each under the name of its head."""
    items: list[Item] = []
    for h in range(2):
        top = y + h * 116
        items += head_tag(x, top, 64, h)
        items += numbered(x, top + 22, values[h])
        items += token_labels(x, top + 22)
    return items


def heads_over_devices() -> Scene:
    """Draw two devices with a head each, and the sum of what they make."""
    alt = (
        "Two devices, one below the other, each with the same x and with one head: its columns of "
        "W_query, W_key and W_value, its columns Z of the context vectors, and its rows of W_out, "
        "which give a part of shape (6, 4). To the right, the all-reduce: both parts and b_out "
        "are added up to out, which then stands on both devices."
    )
    torch.manual_seed(SEED)
    split = attnlib.MultiHeadAttention(3, 4, 6, 0.0, num_heads=2)
    out, attn_weights = split(INPUTS[None], return_weights=True)
    w_out, values = split.out_proj.weight.T, attnlib.split_heads(split.W_value(INPUTS[None]), 2)
    gap = 18.0
    items: list[Item] = []
    for h in range(2):
        made = attn_weights[0, h] @ values[0, h]
        part = made @ w_out[2 * h : 2 * h + 2]
        items += device(MARGIN + h * (DEVICE_HEIGHT + gap), h, made, part)
    items += all_reduce(MARGIN + DEVICE_HEIGHT + gap / 2, out[0])
    below = MARGIN + 2 * DEVICE_HEIGHT + gap + 20
    bias = ", ".join(f"{value:.2f}" for value in split.out_proj.bias.tolist())
    items += notes(
        MARGIN,
        below,
        f"out = part 1 + part 2 + b_out, with b_out = ({bias}), all rounded. After the "
        "all-reduce, out stands on both devices.",
        "Weights are drawn as x meets them. nn.Linear stores the transpose: rows there are "
        "columns here.",
        align="start",
        step=18,
    )
    return Scene(WIDTH, below + 41, alt, tuple(items))


def device(top: float, h: int, made: Tensor, part: Tensor) -> list[Item]:
    """Return a device with head h, from x to its part of the sum."""
    own = 14.0  # a cell of W_query, W_key and W_value
    x, y = MARGIN + NAMES + 10, top + 62
    axis = y + 3 * CELL
    small = x + 3 * CELL + 84
    context = small + 2 * own + 78
    rows = context + 2 * CELL + 32
    last = rows + 4 * CELL + 32
    items: list[Item] = [Box(MARGIN, top, DEVICE_WIDTH, DEVICE_HEIGHT, stroke=EDGE, radius=8)]
    items.append(heading(MARGIN + 12, top + 20, f"Device {h + 1}"))
    items += head_tag(MARGIN + 92, top + 11, 64, h)
    items += token_names(x, y)
    items += matrix(x, y, "x", INPUTS, [NO_HEAD] * 3)
    items.append(Words(x + 3 * CELL + 16, axis, "@", 15))
    for i, name in enumerate(("W_query", "W_key", "W_value")):
        place = axis + (i - 1) * (3 * own + 8)
        items.append(Words(small - 6, place, name, 11, INK, "end"))
        items += grid(small, place - 1.5 * own, [[cell_color(h)] * 2] * 3, None, own, own)
    items += arrow((small + 2 * own + 8, axis), (context - 8, axis))
    items.append(note(small + 2 * own + 38, axis - 13, "attention"))
    items += matrix(context, y, f"Z{'₁₂'[h]}", made, [h] * 2)
    items.append(Words(context + 2 * CELL + 16, axis, "@", 15))
    shades = [[cell_color(h)] * 4] * 2
    items += grid(rows, axis - CELL, shades)
    items.append(Words(rows + 2 * CELL, axis - CELL - 13, "W_out", 13, bold=True))
    items.append(note(rows + 2 * CELL, axis + CELL + 13, "(2, 4)"))
    items.append(Words(rows + 4 * CELL + 16, axis, "=", 15))
    items += matrix(last, y, f"part {h + 1}", part, [h] * 4, two_decimals(part))
    return items


def all_reduce(centre: float, out: Tensor) -> list[Item]:
    """Return the sum between two devices, and an arrow to it from each."""
    left, edge = RIGHT - 4 * NUMBER, MARGIN + DEVICE_WIDTH + 6
    middle = left + 2 * NUMBER
    start, end = centre - 3 * CELL, centre + 3 * CELL
    items = matrix(left, start, "out", out, [NO_HEAD] * 4, two_decimals(out))
    for axis, stop in ((start - 92, start - 26), (end + 92, end + 26)):
        items += bent_arrow((edge, axis), (middle, axis), (middle, stop))
    items.append(note(left, start - 106, "all-reduce: add", "start"))
    return items


DIAGRAMS: dict[str, Callable[[], Scene]] = {
    "road_so_far": road_so_far,
    "causal_mask": causal_mask,
    "two_heads": two_heads,
    "one_product_split": one_product_split,
    "view_and_transpose": view_and_transpose,
    "heads_over_devices": heads_over_devices,
}

if __name__ == "__main__":
    for name, draw in DIAGRAMS.items():
        Path(__file__).with_name(f"{name}.png").write_bytes(draw().png())
