"""What the heads of the released GPT-2 looked at: numbers that others measured and published.

The smallest GPT-2 has 12 layers of 12 heads; head 4.11 is head 11 of layer 4, both counted from 0.
data/README.md names the two sources and their licenses.
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
NAMED_HEADS = ((5, 5), (10, 7), (11, 10))
SENTENCE_LAYERS = (0, 2, 4, 5)

Head = tuple[int, int]


class RecordedText(NamedTuple):
    """A text and what all 144 heads made of it."""

    text: str
    tokens: tuple[str, ...]  # as GPT-2 reads it, spaces included
    scores: Tensor  # unscaled, unmasked: (num_layers, num_heads, num_tokens, num_tokens)
    weights: Tensor  # of the same shape, the attention weights that GPT-2 used
    next_tokens: tuple[tuple[str, float], ...]  # the ten likeliest with their logits
    token_ids: Tensor  # their numbers in GPT-2's vocabulary, int64, (num_tokens)


class RecordedSentence(NamedTuple):
    """A sentence and the attention weights of some heads, by (layer, head).

    The first token is GPT-2's mark for the beginning of a text. Each of the weights is float32,
    (num_tokens, num_tokens).
    """

    text: str
    tokens: tuple[str, ...]
    weights: dict[Head, Tensor]


def recorded(name: str) -> RecordedText:
    """Return one of the five texts with the scores and weights of all 144 heads.

    Args:
        name: spaceship, intelligence, visualization, planet or conference.

    Raises:
        ValueError: no text is stored under this name; the message lists the names.

    >>> recorded("spaceship").tokens
    ('As', ' the', ' spaceship', ' was', ' approaching', ' the')
    >>> recorded("spaceship").weights[4, 11].argmax(dim=-1).tolist()  # it looks one token back
    [0, 0, 1, 2, 3, 4]
    """
    if name not in TEXTS:
        raise ValueError(f"no text is stored as {name!r}; stored are {', '.join(TEXTS)}")
    part, tensors = _parts()[name], _tensors()
    likeliest = tuple((token["token"], token["logit"]) for token in part["next_token_logits_top10"])
    scores, weights = tensors[f"{name}.scores"].clone(), tensors[f"{name}.weights"].clone()
    ids = torch.tensor(part["token_ids"])
    return RecordedText(part["text"], tuple(part["tokens"]), scores, weights, likeliest, ids)


def best_heads(table: Tensor, how_many: int = 4) -> str:
    """Name the heads with the largest numbers in a table, (num_layers, num_heads), in one line.

    >>> best_heads(torch.tensor([[0.25, 1.0], [0.5, 0.75]]), how_many=2)
    '0.1 1.00  1.1 0.75'
    """
    num_heads = table.shape[-1]
    top = table.flatten().topk(how_many)
    pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
    return "  ".join(f"{i // num_heads}.{i % num_heads} {share:.2f}" for i, share in pairs)


def recorded_names() -> tuple[RecordedSentence, ...]:
    """Return eight sentences in which a name comes back, with heads 5.5, 10.7 and 11.10.

    >>> recorded_names()[0].tokens[10], recorded_names()[0].weights[5, 5].shape
    (' John', torch.Size([15, 15]))
    """
    sentences = []
    for i in range(8):
        part = _parts()[f"names.{i}"]
        weights = {
            (layer, head): _tensors()[f"names.{i}.head{layer}.{head}.weights"].clone()
            for layer, head in NAMED_HEADS
        }
        sentences.append(RecordedSentence(part["text"], tuple(part["tokens"]), weights))
    return tuple(sentences)


def recorded_sentence() -> RecordedSentence:
    """Return one longer text, 25 tokens, with the heads of layers 0, 2, 4 and 5.

    >>> len(recorded_sentence().weights)
    48
    """
    tokens = tuple(_parts()["sentence"]["tokens"])
    weights = {
        (layer, head): _tensors()[f"sentence.layer{layer}.weights"][head].clone()
        for layer in SENTENCE_LAYERS
        for head in range(12)
    }
    return RecordedSentence("".join(tokens[1:]), tokens, weights)


@cache
def _tensors() -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(DATA)


@cache
def _parts() -> dict[str, Any]:
    parts: dict[str, Any] = json.loads(DATA.with_suffix(".json").read_text("utf-8"))["parts"]
    return parts
