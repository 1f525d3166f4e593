"""A panel that goes through all heads of a GPT-2."""

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
from attnlib.pictures.scene import Scene, beside
from attnlib.pictures.tensors import heads_picture, weights_picture


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
    maps: Callable[[], Tensor],
    tokens: tuple[str, ...],
) -> Panel:
    def compute(layer: int, head: int) -> Gpt2Head:
        return Gpt2Head(tokens, layer, head, maps())

    return Panel(
        name=name,
        controls={"layer": tuple(range(1, num_layers + 1)), "head": tuple(range(1, num_heads + 1))},
        default={"layer": 1, "head": 1},
        compute=compute,
        draw=draw_gpt2_head,
        readout=readout_gpt2_head,
    )


@cache
def _tiny_maps() -> Tensor:
    return maps_of(tiny_gpt2(), journey_ids(TINY.vocabulary))


GPT2_HEADS = _panel(
    "gpt2 heads", TINY.num_layers, TINY.num_heads, _tiny_maps, tuple(journey().tokens)
)
