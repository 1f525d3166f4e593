"""The attention scores and weights of the released GPT-2 on five texts, as others published them.

The smallest GPT-2 has 12 layers of 12 heads; head 4.11 is head 11 of layer 4, both counted from 0.
data/README.md names the source and its license.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

DATA = Path(__file__).parent / "data" / "gpt2_small_attention.safetensors"
TEXTS = ("spaceship", "intelligence", "visualization", "planet", "conference")


class RecordedText(NamedTuple):
    """A text, and the attention of all 144 heads on it."""

    text: str
    tokens: tuple[str, ...]  # as GPT-2 reads it, spaces included
    scores: Tensor  # unscaled, unmasked: (num_layers, num_heads, num_tokens, num_tokens)
    weights: Tensor  # of the same shape, the attention weights that GPT-2 used
    next_tokens: tuple[tuple[str, float], ...]  # the ten likeliest with their logits
    token_ids: Tensor  # their numbers in GPT-2's vocabulary, int64, (num_tokens)


def recorded_attention(name: str) -> RecordedText:
    """Return one of the five texts with the scores and weights of all 144 heads.

    Args:
        name: spaceship, intelligence, visualization, planet or conference.

    Raises:
        ValueError: no text is stored under this name; the message lists the names.

    >>> recorded_attention("spaceship").tokens
    ('As', ' the', ' spaceship', ' was', ' approaching', ' the')
    >>> recorded_attention("spaceship").weights[4, 11].argmax(dim=-1).tolist()  # the previous token
    [0, 0, 1, 2, 3, 4]
    """
    if name not in TEXTS:
        raise ValueError(f"no text is stored as {name!r}; stored are {', '.join(TEXTS)}")
    parts, tensors = _stored()
    part = parts[name]
    likeliest = tuple((token["token"], token["logit"]) for token in part["next_token_logits_top10"])
    scores, weights = tensors[f"{name}.scores"].clone(), tensors[f"{name}.weights"].clone()
    ids = torch.tensor(part["token_ids"])
    return RecordedText(part["text"], tuple(part["tokens"]), scores, weights, likeliest, ids)


@cache
def _stored() -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors.torch import load_file

    return json.loads(DATA.with_suffix(".json").read_text("utf-8"))["parts"], load_file(DATA)
