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
from attncourse.panels.states import Panel
from attncourse.panels.touch import Touch, map_from, write_lines
from attncourse.pictures.letters import text_width, wrap
from attncourse.pictures.matrices import difference_picture
from attncourse.pictures.palette import FAINT, HEAD_COLORS, INK, MARKED, PAPER, QUIET, text_color
from attncourse.pictures.scene import Box, Item, Scene, Words, above, beside
from attncourse.pictures.weights import weights_picture
from attncourse.variants.hunt import ALL_MISTAKES
from attncourse.variants.mistakes import Mistake, OnePageAttention, make
from attnlib.functional import causal_mask
from attnlib.modules import MultiHeadAttention

BY_NAME = {mistake.name: mistake for mistake in ALL_MISTAKES}
PARTS = {  # of the forward, each by what its lines have and those of the parts below have not
    "W_query": "queries, keys, values",
    "x.transpose": "split and merge",
    "is_future": "mask",
    "head_dim**0.5": "scale",
    "softmax": "softmax and dropout",
    "out_proj": "output",
    "context_vec": "split and merge",
}
CAUGHT, PASSES = "caught", "passes"
CELL = 16.0  # of a map, in pixels: two maps and their names are as wide as a phone
COLUMN, TELL, CODE = 346.0, 340.0, 12.0  # what a phone shows, and text in it; letters of code

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


def draw_gallery(data: Exhibit) -> Scene:
    """Draw the line, right weights above wrong ones, the verdicts, and how far outputs are off."""
    return beside(*_halves(data), gap=4)


def draw_narrow_gallery(data: Exhibit) -> Scene:
    """Draw the same for a phone, one half below the other."""
    return above(*_halves(data))


def _halves(data: Exhibit) -> tuple[Scene, Scene]:
    """Return the line with the maps, and what the checks say, each as wide as a phone."""
    shown = above(_headline(data), _maps("right", data.right_weights), gap=4)
    if data.difference is None or data.attn_weights is None:
        return shown, above(_verdicts(data), _stopped(data.verdicts), gap=12)
    title = "outputs: |wrong - right|"
    off = difference_picture(data.difference, journey().tokens, title, narrow=True)
    told = above(above(_verdicts(data), off, gap=16), _said(data.verdicts), gap=16)
    return above(shown, _maps("wrong", data.attn_weights), gap=4), told


def part_of(mistake: str) -> str:
    """Return the part of the forward whose line a mistake changes."""
    right = BY_NAME[mistake].right
    return next(part for sign, part in PARTS.items() if sign in right)


def _place_of_part(mistake: str) -> int:
    return list(dict.fromkeys(PARTS.values())).index(part_of(mistake))


def _stopped(verdicts: dict[str, Verdict]) -> Scene:
    """Return where forward stopped, the line of code there, and what PyTorch says of it."""
    fault = verdicts["equality"].faults[0]
    where = f"Stopped in {fault.line.function}, line {fault.line.number}" if fault.line else ""
    line = fault.line.text if fault.line else ""
    error = f"{fault.facts['error']}: {fault.facts['message']}"
    code, said = _code_lines(line), wrap(error, TELL)
    if verdicts["shape"]:
        said += wrap(
            "The check of shapes asks with context_length tokens at most, here one: the numbers "
            "of one token are in reading order all the same.",
            TELL,
        )
    parts = enumerate([f"{where}:", *code, *said])
    words = [Words(4, 10 + 19 * i, part, "start") for i, part in parts]
    for i in range(1, 1 + len(code)):
        words[i] = words[i]._replace(x=10, size=CODE, mono=True)
    alt = f"{where}: {line}. {error}"
    return Scene(COLUMN, 2 + 19 * len(words), alt, tuple(words))


def _maps(title: str, attn_weights: Tensor) -> Scene:
    """Return the weights under a title; a 0 in the future is hidden, what leaks is framed."""
    framed = leaks(attn_weights)
    hidden = causal_mask(attn_weights.shape[-1]) & ~framed
    maps = weights_picture(attn_weights, journey().tokens, hidden, CELL, marked=framed)
    count = int(framed.sum())
    alt = f"{title.capitalize()}: {maps.alt}"
    alt += f" {count} cells in the future have a weight." if count else ""
    heading = Words(4, 9, title, "start", bold=True), Words(4, 27, "training", "start", FAINT)
    return Scene(maps.width, maps.height, alt, (*heading, *maps.items))


def leaks(attn_weights: Tensor) -> Tensor:
    """Return which weights lie in the future and are not 0, NaN among them."""
    return (attn_weights != 0) & causal_mask(attn_weights.shape[-1])


def touch_gallery(data: Exhibit, scene: Scene) -> Touch:
    """Return the cells of the right and the wrong maps; each says what the other has there."""
    shown = {"right": data.right_weights, "wrong": data.attn_weights}
    both = {title: weights for title, weights in shown.items() if weights is not None}
    heads = [(title, h) for title, weights in both.items() for h in range(len(weights))]
    maps = [
        map_from(
            first,
            f"{title}, head {h}",
            h,
            {what: write_lines(weights[h], causal=False) for what, weights in both.items()},
        )
        for (title, h), first in zip(heads, scene.named("map"), strict=True)
    ]
    return Touch(journey().tokens, maps, arcs=False)


def _headline(data: Exhibit) -> Scene:
    """Return the line as it should be, and below it as it is."""
    alt, first = f"{data.mistake.name}, {data.condition}", data.mistake.after
    items: list[Item] = []
    y = 0.0
    for mistake in (first, data.mistake) if first else (data.mistake,):
        for which, line, fill in (
            ("right", mistake.right, QUIET),
            ("wrong", mistake.wrong, MARKED),
        ):
            said = _code_lines(f"{which}: {line or '(no such line)'}")
            high = 15.0 * len(said) + 3
            items.append(Box(4, y, COLUMN - 8, high - 1.5, fill=fill, radius=2))
            items += (
                Words(10 if not i else 22, y + 9 + 15 * i, part, "start", size=CODE, mono=True)
                for i, part in enumerate(said)
            )
            y += high
    return Scene(COLUMN, y, f"{alt}.", tuple(items))


def _code_lines(line: str) -> list[str]:
    """Return a line of code in lines as wide as a phone, each broken where Python may be."""
    lines, most = [line], int((COLUMN - 26) / text_width("-", CODE, mono=True))
    while len(lines[-1]) > most:
        rest = lines.pop()
        ends = [i for i in range(1, most) if rest[i] in ".(" or rest[i - 1] in " ("]
        lines += [rest[: ends[-1]].rstrip(), rest[ends[-1] :]]
    return lines


def _verdicts(data: Exhibit) -> Scene:
    """Return the names of the checks, each with its outcome below, in one row."""
    items: list[Item] = []
    for i, (name, verdict) in enumerate(data.verdicts.items()):
        x = 4 + 82.0 * i
        fill = PAPER if verdict else HEAD_COLORS[4]
        outcome, ink = (PASSES, INK) if verdict else (CAUGHT, text_color(fill))
        items.append(Words(x + 36, 8, name))
        items.append(Box(x, 20, 72, 26, fill=fill, stroke=FAINT if verdict else fill, radius=4))
        items.append(Words(x + 36, 33, outcome, color=ink, bold=not verdict))
    return Scene(COLUMN, 48, f"{_outcomes(data.verdicts)}.", tuple(items))


def _said(verdicts: dict[str, Verdict]) -> Scene:
    """Return what the checks that catch it say, in lines as wide as a phone."""
    said = [str(verdict) for verdict in verdicts.values() if not verdict] or ["All four pass."]
    lines = ["The checks, in eval, say", *(line for each in said for line in wrap(each, TELL))]
    words = [Words(4, 10 + 19 * i, line, "start", bold=not i) for i, line in enumerate(lines)]
    alt = "Below, what the checks that catch it say."  # with digits that end on one machine only
    return Scene(COLUMN, 19 * len(lines) + 2, alt, tuple(words))


def _outcomes(verdicts: dict[str, Verdict], between: str = ", ") -> str:
    return between.join(
        f"{name} {PASSES if verdict else CAUGHT}" for name, verdict in verdicts.items()
    )


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


GALLERY = Panel(
    name="gallery",
    controls={
        "mistake": tuple(sorted(BY_NAME, key=_place_of_part)),
        "condition": tuple(CONDITIONS),
    },
    default={"mistake": "mask one too late", "condition": "as usual"},
    compute=compute_gallery,
    draw=draw_gallery,
    draw_narrow=draw_narrow_gallery,
    readout=readout_gallery,
    touch=touch_gallery,
    groups={"mistake": part_of},
    telling=(
        {"mistake": "minus 1e4", "condition": "as usual"},
        {"mistake": "mask one too late", "condition": "as usual"},
    ),
)
