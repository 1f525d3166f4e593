"""All heads of a GPT-2 in one picture, and a panel that goes through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib.examples import journey
from attnlib.functional import causal_mask
from attnlib.gpt2.model import GPT2, TINY, journey_ids, tiny_gpt2
from attnlib.panels.panel import Panel
from attnlib.pictures.palette import INK, PAPER, QUIET, head_color, weight_color
from attnlib.pictures.scene import Box, Item, Scene, Words, beside
from attnlib.pictures.tensors import weights_picture

LABEL, TOP, GAP = 62.0, 42.0, 6.0  # names of the layers, title and numbers of the heads, between


class Gpt2Head(NamedTuple):
    """One head of a GPT-2 among all heads; layer and head count from 1."""

    tokens: tuple[str, ...]
    layer: int
    head: int
    maps: Tensor  # (num_layers, num_heads, num_tokens, num_tokens)


def maps_of(model: GPT2, token_ids: Tensor) -> Tensor:
    """Return the weights of all heads for one text, token_ids (1, num_tokens).

    >>> maps_of(tiny_gpt2(), journey_ids(6)).shape
    torch.Size([4, 3, 6, 6])
    """
    with torch.no_grad():
        _, maps = model(token_ids, return_weights=True)
    attn_weights: Tensor = maps[0]
    return attn_weights


def heads_picture(maps: Tensor, chosen: tuple[int, int] | None = None, cell: float = 8.0) -> Scene:
    """Draw the maps of all heads as one picture: a row for each layer, a column for each head.

    Args:
        maps: (num_layers, num_heads, num_tokens, num_tokens).
        chosen: the layer and the head, both from 1, that are framed.
        cell: pixels per weight; what lies above the diagonal of a map is hatched.

    Returns:
        A Scene; a bar above each column has the head's colour.
    """
    num_layers, num_heads, num_tokens, _ = maps.shape
    side = num_tokens * cell
    step = side + GAP
    title = f"all {num_layers * num_heads} heads"
    items: list[Item] = [Words(LABEL, 10, title, 12, INK, "start", bold=True)]
    for h in range(num_heads):
        x = LABEL + h * step
        items.append(Words(x + side / 2, 26, f"{h + 1}", 10))
        items.append(Box(x, 35, side, 4, fill=head_color(h)))
    for layer, heads in enumerate(maps.tolist()):
        y = TOP + layer * step
        items.append(Words(LABEL - 6, y + side / 2, f"layer {layer + 1}", 10, INK, "end"))
        for h, weights in enumerate(heads):
            x = LABEL + h * step
            items.append(Box(x, y, side, side, fill=PAPER, stroke=QUIET, hatched=True))
            for q, row in enumerate(weights):
                for k, weight in enumerate(row[: q + 1]):
                    place = (x + k * cell, y + q * cell, cell, cell)
                    items.append(Box(*place, fill=weight_color(weight)))
    if chosen is not None:
        layer, head = chosen
        corner = (LABEL + (head - 1) * step - 2, TOP + (layer - 1) * step - 2)
        items.append(Box(*corner, side + 4, side + 4, stroke=INK, stroke_width=2.5))
    alt = f"{title}: {num_layers} layers (down) by {num_heads} heads (across)."
    if chosen is not None:
        alt += f" Layer {chosen[0]}, head {chosen[1]} is framed."
    width = LABEL + max(num_heads * step, 8.6 * len(title)) + 4
    return Scene(width, TOP + num_layers * step + 4, alt, tuple(items))


def gpt2_panel(model: GPT2, token_ids: Tensor, tokens: Sequence[str]) -> Panel:
    """Return a panel that goes through the layers and heads of a GPT-2 on one text.

    Args:
        model: any GPT2. It runs once, here.
        token_ids: the text, (1, num_tokens).
        tokens: the names of its tokens.

    Returns:
        A Panel with the controls layer and head, both counted from 1.

    >>> gpt2_panel(tiny_gpt2(), journey_ids(6), journey().tokens).controls["head"]
    (1, 2, 3)
    """
    maps = maps_of(model, token_ids)
    num_layers, num_heads = maps.shape[:2]
    return _panel("heads of a GPT-2", num_layers, num_heads, lambda: maps, tuple(tokens))


def draw_gpt2_head(data: Gpt2Head) -> Scene:
    """Draw the weights of the head, beside all heads with this one framed."""
    one = weights_picture(
        data.maps[data.layer - 1, data.head - 1],
        data.tokens,
        causal_mask(len(data.tokens)),
        title=f"layer {data.layer}, head {data.head}",
    )
    many = data.maps.shape[0] * data.maps.shape[1] > 36
    return beside(one, heads_picture(data.maps, (data.layer, data.head), 5.0 if many else 8.0))


def read_gpt2_head(data: Gpt2Head) -> str:
    """Say where the head looks: the means over its rows, and the last token's favourite."""
    weights = data.maps[data.layer - 1, data.head - 1]
    favourite = int(weights[-1].argmax())
    return (
        f"layer = {data.layer} | head = {data.head} | mean weight on the token itself "
        f"{weights.diagonal().mean():.2f} | on the one before it "
        f"{weights.diagonal(-1).mean():.2f} | {data.tokens[-1]} looks most at "
        f"{data.tokens[favourite]} ({weights[-1, favourite]:.2f})"
    )


def _panel(
    name: str,
    num_layers: int,
    num_heads: int,
    maps: Callable[[], Tensor],
    tokens: tuple[str, ...],
) -> Panel:
    def compute(layer: int, head: int) -> Gpt2Head:
        return Gpt2Head(tokens, layer, head, maps())

    return Panel(
        name,
        {"layer": tuple(range(1, num_layers + 1)), "head": tuple(range(1, num_heads + 1))},
        {"layer": 1, "head": 1},
        compute,
        draw_gpt2_head,
        read_gpt2_head,
    )


@cache
def _tiny_maps() -> Tensor:
    return maps_of(tiny_gpt2(), journey_ids(TINY.vocabulary))


GPT2_HEADS = _panel(
    "gpt2 heads", TINY.num_layers, TINY.num_heads, _tiny_maps, tuple(journey().tokens)
)
