"""A panel that goes through all heads of a GPT-2."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib.examples import journey
from attnlib.functional import causal_mask
from attnlib.gpt2.model import GPT2, TINY, journey_ids, tiny_gpt2
from attnlib.panels.panel import Panel
from attnlib.panels.touch import Looks, Pick, Touch, head_maps, looks
from attnlib.pictures.palette import head_color
from attnlib.pictures.scene import Box, Scene, beside
from attnlib.pictures.tensors import heads_picture, weights_picture


class Gpt2Head(NamedTuple):
    """One head of a GPT-2 among all heads; layer and head count from 1."""

    tokens: tuple[str, ...]
    layer: int
    head: int
    maps: Tensor  # (num_layers, num_heads, num_tokens, num_tokens)
    seen: Looks  # of all heads, layer by layer


def maps_of(model: GPT2, token_ids: Tensor) -> Tensor:
    """Return the weights of all heads for one text, token_ids (1, num_tokens).

    >>> maps_of(tiny_gpt2(), journey_ids(6)).shape
    torch.Size([4, 3, 6, 6])
    """
    with torch.no_grad():
        _, maps = model(token_ids, return_weights=True)
    attn_weights: Tensor = maps[0]
    return attn_weights


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
    maps, seen = maps_of(model, token_ids), looks(model, token_ids)
    num_layers, num_heads = maps.shape[:2]
    return _panel("heads of a GPT-2", num_layers, num_heads, lambda: (maps, seen), tuple(tokens))


def draw_gpt2_head(data: Gpt2Head) -> Scene:
    """Draw the weights of the head, beside all heads with this one framed."""
    one = weights_picture(
        data.maps[data.layer - 1, data.head - 1],
        data.tokens,
        causal_mask(len(data.tokens)),
        title=f"layer {data.layer}, head {data.head}",
        hues=[data.head - 1],
    )
    return beside(one, heads_picture(data.maps, (data.layer, data.head), _small(data), first=1))


def _small(data: Gpt2Head) -> float:
    """Return the pixels per weight where all heads are drawn."""
    return 5.0 if data.maps.shape[0] * data.maps.shape[1] > 36 else 8.0


def touch_gpt2_head(data: Gpt2Head, scene: Scene) -> Touch:
    """Return the cells of the large map; a click on a small one brings its head up."""
    num_layers, num_heads, num_tokens = data.maps.shape[:3]
    place = (data.layer - 1) * num_heads + data.head - 1
    weights = data.maps.flatten(end_dim=1)[place : place + 1]
    seen = Looks(*(part[place : place + 1] for part in data.seen))
    name = f"layer {data.layer}, head {data.head}"
    large = head_maps(scene, 40, [head_color(data.head - 1)], weights, seen, [name])
    side = num_tokens * _small(data)
    sheets = [b for b in scene.items if isinstance(b, Box) and b.width == b.height == side]
    heads = itertools.product(range(1, num_layers + 1), range(1, num_heads + 1))
    small = [
        Pick(box.x, box.y, side, side, {"layer": layer, "head": head})
        for box, (layer, head) in zip(_by_row(sheets), heads, strict=True)
    ]
    return Touch(data.tokens, large, small)


def _by_row(boxes: list[Box]) -> list[Box]:
    return sorted(boxes, key=lambda box: (box.y, box.x))


def readout_gpt2_head(data: Gpt2Head) -> str:
    """Return where the head looks: means over its rows, and the last token's favourite."""
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
    maps: Callable[[], tuple[Tensor, Looks]],
    tokens: tuple[str, ...],
) -> Panel:
    def compute(layer: int, head: int) -> Gpt2Head:
        return Gpt2Head(tokens, layer, head, *maps())

    return Panel(
        name=name,
        controls={"layer": tuple(range(1, num_layers + 1)), "head": tuple(range(1, num_heads + 1))},
        default={"layer": 1, "head": 1},
        compute=compute,
        draw=draw_gpt2_head,
        readout=readout_gpt2_head,
        touch=touch_gpt2_head,
        telling=({"layer": 1, "head": 1}, {"layer": num_layers, "head": num_heads}),
    )


@cache
def _tiny_maps() -> tuple[Tensor, Looks]:
    model, token_ids = tiny_gpt2(), journey_ids(TINY.vocabulary)
    return maps_of(model, token_ids), looks(model, token_ids)


GPT2_HEADS = _panel(
    "gpt2 heads", TINY.num_layers, TINY.num_heads, _tiny_maps, tuple(journey().tokens)
)
