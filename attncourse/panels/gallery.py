"""The panel of mistakes: which of four checks catch each one, under four conditions."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.checks.module_checks import (
    check_causal,
    check_rows_sum_to_one,
    check_same,
    check_shapes,
)
from attncourse.checks.safe_run import CheckFailed, call
from attncourse.checks.verdict import Verdict
from attncourse.examples import journey, one_thread, seeded
from attncourse.panels.panel import Heatmap, Panel, heatmaps
from attncourse.pictures.matrices import difference_picture
from attncourse.pictures.palette import FAINT
from attncourse.pictures.scene import Scene, Text
from attncourse.pictures.weights import weights_picture
from attncourse.variants.faults import ALL_MISTAKES
from attncourse.variants.mistakes import Mistake, OnePageAttention, make
from attnlib.functional import causal_mask
from attnlib.modules import MultiHeadAttention

BY_NAME = {mistake.name: mistake for mistake in ALL_MISTAKES}
CELL = 16.0  # of a map, in pixels: two maps and their names are as wide as a phone

# With this seed and large tokens all visible scores of the first three queries are below -1e4
GALLERY_SEED = 302
CONDITIONS = {  # dropout, dtype, and by what the tokens are multiplied
    "as usual": (0.0, torch.float32, 1.0),
    "large tokens": (0.0, torch.float32, 85.0),
    "half precision": (0.0, torch.float16, 1.0),
    "dropout 0.5": (0.5, torch.float32, 1.0),
}


class Exhibit(NamedTuple):
    """A mistake under a condition: the verdicts of the checks, and how far its outputs are off."""

    mistake: Mistake
    condition: str
    verdicts: dict[str, Verdict]
    difference: Tensor | None  # (num_tokens, d_out); None where forward stops
    attn_weights: Tensor | None  # (num_heads, num_tokens, num_tokens)
    right_weights: Tensor  # (num_heads, num_tokens, num_tokens)


def build(cls: type[MultiHeadAttention], condition: str = "as usual") -> MultiHeadAttention:
    """Return a module for the six tokens under a condition in CONDITIONS, as make does."""
    dropout, dtype, _ = CONDITIONS[condition]
    return make(cls, 2, dropout, GALLERY_SEED).to(dtype)


def tokens(condition: str = "as usual") -> Tensor:
    """Return the six tokens of the course as one text, (1, 6, 3), under a condition."""
    _, dtype, stretch = CONDITIONS[condition]
    return (stretch * journey().inputs[None]).to(dtype)


def examine(cls: type[MultiHeadAttention], condition: str = "as usual") -> dict[str, Verdict]:
    """Return the verdicts of the four module checks on a class, under a condition in CONDITIONS."""
    module, x = build(cls, condition), tokens(condition)
    with one_thread():
        return {
            "shape": check_shapes(module),
            "causality": check_causal(module, x),
            "rows": check_rows_sum_to_one(module, x),
            "equality": check_same(build(OnePageAttention, condition), module, x),
        }


def compute_gallery(mistake: str, condition: str) -> Exhibit:
    """Run a mistaken class and the right one, both in training, with the same random numbers."""
    planted = BY_NAME[mistake]
    verdicts = examine(planted.cls, condition)
    right, right_weights = _in_training(OnePageAttention, condition)
    try:
        wrong, attn_weights = _in_training(planted.cls, condition)
    except CheckFailed:
        return Exhibit(planted, condition, verdicts, None, None, right_weights)
    off = (wrong - right).abs()
    return Exhibit(planted, condition, verdicts, off, attn_weights, right_weights)


def _in_training(cls: type[MultiHeadAttention], condition: str) -> tuple[Tensor, Tensor]:
    with seeded(GALLERY_SEED), torch.no_grad(), one_thread():
        made = call(build(cls, condition).train(), tokens(condition), return_weights=True)
    context_vec, attn_weights = made
    return context_vec[0].float(), attn_weights[0].float()


def draw_gallery(data: Exhibit) -> tuple[Scene, ...]:
    """Draw the right weights, the wrong ones, and how far outputs are off."""
    right = _maps("right", data.right_weights)
    if data.difference is None or data.attn_weights is None:
        return (right,)
    title = "outputs: |wrong - right|"
    off = difference_picture(data.difference, journey().tokens, title)
    return right, _maps("wrong", data.attn_weights), off


def describe_gallery(data: Exhibit) -> str:
    """Return the line of code as it should be and as it is, and what the checks say."""
    first = data.mistake.after
    lines = []
    for mistake in (first, data.mistake) if first else (data.mistake,):
        lines += [f"right: {mistake.right}", f"wrong: {mistake.wrong or '(no such line)'}"]
    caught = [verdict for verdict in data.verdicts.values() if not verdict]
    said = map(str, caught if data.difference is not None else caught[-1:])  # all say the same
    return "\n".join([*lines, *said])


def _maps(title: str, attn_weights: Tensor) -> Scene:
    """Return the weights under a title; a 0 in the future is gray, a weight there is framed."""
    is_masked = zeros_of_the_future(attn_weights)
    framed = causal_mask(attn_weights.shape[-1]) & ~is_masked  # NaN among them
    maps = weights_picture(attn_weights, journey().tokens, is_masked, CELL, marked=framed)
    count = int(framed.sum())
    alt = f"{title.capitalize()}: {maps.alt}"
    alt += f" {count} cells in the future have a weight." if count else ""
    heading = Text(4, 9, title, "start", bold=True), Text(4, 27, "training", "start", FAINT)
    return Scene(maps.width, maps.height, alt, (*heading, *maps.items))


def zeros_of_the_future(attn_weights: Tensor) -> Tensor:
    """Return which weights lie in the future and are 0, as they should be."""
    return (attn_weights == 0) & causal_mask(attn_weights.shape[-1])


def maps_of_gallery(data: Exhibit) -> list[Heatmap]:
    """Return the right maps and the wrong ones."""
    both = {"right": data.right_weights, "wrong": data.attn_weights}
    return [
        heatmap._replace(name=f"{title}, {heatmap.name}")
        for title, weights in both.items()
        if weights is not None
        for heatmap in heatmaps(journey().tokens, weights, zeros_of_the_future(weights))
    ]


def readout_gallery(data: Exhibit) -> str:
    """Return the outcome of each check, and how far off the outputs are."""
    caught = [name for name, verdict in data.verdicts.items() if not verdict]
    listed = " and ".join([*filter(None, [", ".join(caught[:-1])]), *caught[-1:]])
    by = f"caught by {listed}" if caught else "all four checks pass"
    return f"{data.mistake.name}, {data.condition}: {by}. {_told_off(data.difference)}."


def _told_off(difference: Tensor | None) -> str:
    if difference is None:
        return "Forward stops"
    largest = difference.max().item()
    if math.isnan(largest):
        return "Some of its outputs are NaN"
    return f"Its outputs are off by {largest:.3g}" if largest else "Its outputs are right"


MISTAKE_GALLERY = Panel(
    name="gallery",
    controls={
        "mistake": tuple(BY_NAME),
        "condition": tuple(CONDITIONS),
    },
    default={"mistake": "mask one too late", "condition": "as usual"},
    compute=compute_gallery,
    draw=draw_gallery,
    readout=readout_gallery,
    details=describe_gallery,
    maps=maps_of_gallery,
    static_states=(
        {"mistake": "minus 1e4", "condition": "as usual"},
        {"mistake": "mask one too late", "condition": "as usual"},
    ),
)
