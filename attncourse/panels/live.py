"""Panels that compute in the page: small models in plain JavaScript, equal to those in PyTorch.

A LivePanel is plain data: what its JavaScript is given, and the picture that stays where nothing
can be moved. live.js has what all of them share, attention first; the file of a panel has the rest.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attncourse.examples import journey
from attncourse.gpt2.recorded import TEXTS as GPT2_TEXTS
from attncourse.gpt2.recorded import recorded_attention
from attncourse.learning.mini import CONTEXT_LENGTH, mini_model, page_data
from attncourse.learning.record import HEADS, LETTERS, SAVED_AT, SHOWN, recorded_model, shown_tokens
from attncourse.panels.gallery import build
from attncourse.pictures import Scene, difference_picture, weights_picture
from attncourse.pictures.one_head import head_picture
from attncourse.variants.faults import class_b
from attncourse.variants.mistakes import OnePageAttention
from attnlib.functional import causal_mask

HERE = Path(__file__).parent
STYLE = HERE.joinpath("live.css").read_text("utf-8")


@dataclass(frozen=True)
class LivePanel:
    """A panel whose numbers the browser computes."""

    name: str  # of its .js file, and of its state in the address of a page
    title: str  # as a screen reader says it
    data: Callable[[], dict[str, Any]]  # in the types of JSON
    draw: Callable[[], Scene]  # the picture that stays

    def module(self) -> str:
        """Return its JavaScript: what all such panels share, and its own."""
        files = (HERE / f"{name}.js" for name in ("live", self.name))
        return "\n".join(file.read_text("utf-8") for file in files)

    def to_json(self) -> dict[str, Any]:
        """Return all that a browser needs."""
        return {"name": self.name, "title": self.title, **self.data()}


# The mini model of lessons 01 to 03


def _mini() -> dict[str, Any]:
    return {**page_data(mini_model()), "longest": CONTEXT_LENGTH}


def _draw_mini() -> Scene:
    return head_picture(mini_model().read("The capital of France is"))


MINI_MODEL = LivePanel("mini", "the mini model", _mini, _draw_mini)


# The leak detector of lessons 01 and 06

MISTAKES: dict[str, dict[str, str]] = {  # what live.js changes in a layer, in its words
    "nothing is wrong": {},
    "split without transpose": {"cut": "torn"},
    "merge without transpose": {"join": "torn"},
    "both without transpose": {"cut": "torn", "join": "torn"},
    "mask of the past": {"mask": "the past"},
    "mask one too late": {"mask": "one too late"},
    "mask with the diagonal": {"mask": "the diagonal too"},
    "mask inverted": {"mask": "all but the future"},
    "mask thrown away": {"mask": "nothing"},
    "minus 1e4": {"fill": "-1e4"},
    "minus 1e9": {"fill": "-1e9"},
    "no scale": {"scale": "nothing"},
    "scale by d_out": {"scale": "d_out"},
    "scale by d_in": {"scale": "d_in"},
    "softmax over queries": {"softmax": "over queries"},
    "mask after softmax": {"order": "softmax, mask"},
    "keys and values swapped": {"read": "keys and values swapped"},
    "keys by W_query": {"read": "keys by W_query"},
    "heads in reverse": {"join": "reversed"},
    "no output projection": {"output": "as it is"},
}


def _leak() -> dict[str, Any]:
    tokens, inputs = journey()
    layer = build(OnePageAttention)
    numbers = {"heads": layer.num_heads, "bias": layer.out_proj.bias.tolist()}
    for name in ("W_query", "W_key", "W_value", "out_proj"):
        numbers[name] = getattr(layer, name).weight.tolist()
    return {
        "tokens": list(tokens),
        "inputs": [[round(number, 2) for number in row] for row in inputs.tolist()],
        "mistakes": MISTAKES,
        "layer": numbers,
    }


def _draw_leak() -> Scene:
    """Return how far each output moves when one word is changed, in the class that leaks first."""
    tokens, inputs = journey()
    layer = build(class_b)
    with torch.no_grad():
        changed = inputs + 3 * torch.eye(len(tokens))[:, :, None]  # (num_tokens, num_tokens, d_in)
        before = layer(inputs.expand_as(changed))  # a batch of another size may round otherwise
        moved = (layer(changed) - before).abs().amax(dim=-1)
    title = "class_b: how far outputs move, a column per changed word"
    drawn = difference_picture(moved.T, tokens, title)
    alt = "Each output moves with its own word, those before, and the next; with no later one."
    return replace(drawn, alt=f"A table: {title}. {alt}")


LEAK_DETECTOR = LivePanel("leak", "the leak detector", _leak, _draw_leak)


# The two-layer model of lesson 08


def _letters() -> dict[str, Any]:
    model = recorded_model(SAVED_AT[-1])
    matrices = {
        name: numbers.reshape(-1, numbers.shape[-1]) for name, numbers in model.state_dict().items()
    }
    count = sum(numbers.numel() for numbers in matrices.values())
    packed = b"".join(numbers.numpy().astype("<f4").tobytes() for numbers in matrices.values())
    return {
        "letters": LETTERS,
        "longest": model.context_length,
        "start": SHOWN,
        "shapes": {name: list(numbers.shape) for name, numbers in matrices.items()},
        "bytes": base64.b64encode(packed).decode("ascii"),
        "source": f"Two layers of two heads, {count:,} parameters, trained on letters that repeat",
    }


def _draw_letters() -> Scene:
    """Return where the four heads look in the letters at the start."""
    with torch.no_grad():
        _, weights = recorded_model(SAVED_AT[-1])(shown_tokens(), return_weights=True)
    maps, hidden = weights[0].flatten(end_dim=1), causal_mask(len(SHOWN))
    heads = {name: h for h, name in enumerate(HEADS)}
    drawn = weights_picture(maps, SHOWN, hidden, cell=14, heads=heads, columns=2)
    return replace(drawn, alt=f"Where the four heads of the two-layer model look in {SHOWN}.")


TYPED_LETTERS = LivePanel("letters", "your own letters", _letters, _draw_letters)


# The heads of two language models, ranked by a pattern

RECORDING = HERE / "data" / "sentence.json"  # SmolLM2; tools/record_sentence.py wrote it


def in_percent(weights: Tensor) -> str:
    """Return attention weights in percent, a byte for each that is not in the future, in base64."""
    rows, columns = torch.tril_indices(*weights.shape[-2:])
    percent = weights[..., rows, columns].mul(100).round().to(torch.uint8)
    return base64.b64encode(percent.numpy().tobytes()).decode("ascii")


def _painted() -> dict[str, Any]:
    answers = json.loads(RECORDING.read_text("utf-8"))["answers"]
    smollm2 = [
        {"text": json.loads(asked)["text"], "tokens": said["tokens"], "bytes": said["weights"]}
        for asked, said in answers.items()
        if "weights" in said
    ]
    gpt2 = [
        {"text": text.text, "tokens": list(text.tokens), "bytes": in_percent(text.weights)}
        for text in map(recorded_attention, GPT2_TEXTS)
    ]
    return {
        "models": [
            {"name": "SmolLM2", "layers": 30, "heads": 9, "texts": smollm2[:4]},
            {"name": "GPT-2", "layers": 12, "heads": 12, "texts": gpt2},
        ],
        "note": "Attention weights as recorded, rounded to percent. The number of a head is how "
        "much of the attention of the painted rows falls on painted cells; of a longer text, the "
        "first six words count.",
    }


def _draw_painted() -> Scene:
    """Return a painted pattern, one word back, and the three heads of GPT-2 most like it."""
    text = recorded_attention("spaceship")
    count = len(text.tokens)
    painted = torch.ones(count - 1).diag(-1)
    looks = text.weights.diagonal(-1, -2, -1).mean(dim=-1)  # (num_layers, num_heads)
    best = [divmod(place, looks.shape[1]) for place in looks.flatten().topk(3).indices.tolist()]
    maps = torch.stack([painted, *(text.weights[head] for head in best)])
    names = ["painted", *(f"GPT-2 L{layer}H{head}" for layer, head in best)]
    heads = {name: h for h, name in enumerate(names)}
    return weights_picture(maps, text.tokens, causal_mask(count), cell=16, heads=heads, columns=4)


PAINTED_PATTERN = LivePanel("paint", "all heads by a pattern", _painted, _draw_painted)
