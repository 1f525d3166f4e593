"""The panel of mistakes: which of four checks catch each one, under four conditions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attnlib.checks.attempt import Diagnosis, call, one_thread
from attnlib.checks.mistakes import (
    BY_NAME,
    CONDITIONS,
    GALLERY_SEED,
    Mistake,
    OnePageAttention,
    build,
    examine,
    tokens,
)
from attnlib.checks.verdicts import Verdict
from attnlib.examples import journey, seeded
from attnlib.modules import MultiHeadAttention
from attnlib.panels.panel import Panel
from attnlib.pictures.palette import FAINT, HEAD_COLORS, INK, MARKED, PAPER, QUIET
from attnlib.pictures.scene import Box, Item, Scene, Words, above, beside
from attnlib.pictures.tensors import difference_picture, weights_picture

CAUGHT, PASSES = "caught", "passes"


class Exhibit(NamedTuple):
    """A mistake under a condition: the verdicts of the checks, and how far its outputs are off."""

    mistake: Mistake
    condition: str
    verdicts: dict[str, Verdict]
    difference: Tensor | None  # (num_tokens, d_out); None where forward stops
    attn_weights: Tensor | None  # (num_heads, num_tokens, num_tokens)


def compute_gallery(mistake: str, condition: str) -> Exhibit:
    """Run a mistaken class and the right one, both in training, with the same random numbers."""
    planted = BY_NAME[mistake]
    verdicts = examine(planted.cls, condition)
    right, _ = _in_training(OnePageAttention, condition)
    try:
        wrong, attn_weights = _in_training(planted.cls, condition)
    except Diagnosis:
        return Exhibit(planted, condition, verdicts, None, None)
    return Exhibit(planted, condition, verdicts, (wrong - right).abs(), attn_weights)


def _in_training(cls: type[MultiHeadAttention], condition: str) -> tuple[Tensor, Tensor]:
    with seeded(GALLERY_SEED), torch.no_grad(), one_thread():
        made = call(build(cls, condition).train(), tokens(condition), return_weights=True)
    context_vec, attn_weights = made
    return context_vec[0].float(), attn_weights[0].float()


def draw_gallery(data: Exhibit) -> Scene:
    """Draw the line, the verdicts beside the weights, and how far the outputs are off."""
    names = journey().tokens
    head = _headline(data)
    if data.difference is None or data.attn_weights is None:
        reason = data.verdicts["equality"].sentence.removeprefix("Cannot be told. ")
        reason = reason.partition(" | ")[0]
        words = Words(4, 10, reason, 11, INK, "start", mono=True)
        stopped = Scene(8 + 6.7 * len(reason), 20, reason, (words,))
        return above(head, _verdicts(data), stopped)
    in_no_head = (data.attn_weights == 0).all(dim=0)  # NaN is not 0
    maps = weights_picture(data.attn_weights, names, in_no_head, cell=24, title="its weights")
    off = difference_picture(data.difference, names, "outputs: |wrong - right|")
    return above(head, beside(_verdicts(data), maps), off)


def _headline(data: Exhibit) -> Scene:
    """Return the line that is wrong below the one that is right."""
    items: list[Item] = [
        Words(4, 10, f"{data.mistake.name}, {data.condition}", 13, INK, "start", bold=True)
    ]
    lines = (("-", data.mistake.right, QUIET), ("+", data.mistake.wrong, MARKED))
    for i, (sign, line, fill) in enumerate(lines):
        y = 34 + 20 * i
        items.append(Box(4, y - 9, 660, 18, fill=fill))
        items.append(Words(10, y, f"{sign} {line or '(nothing)'}", 11, INK, "start", mono=True))
    return Scene(668, 66, f"{data.mistake.name}, {data.condition}.", tuple(items))


def _verdicts(data: Exhibit) -> Scene:
    """Return the names of the checks, each with its outcome."""
    items: list[Item] = []
    for i, (name, verdict) in enumerate(data.verdicts.items()):
        y, fill = 24 + 34 * i, PAPER if verdict else HEAD_COLORS[4]
        outcome, ink = (PASSES, FAINT) if verdict else (CAUGHT, PAPER)
        items.append(Words(80, y + 13, name, 12, INK, "end"))
        items.append(Box(90, y, 90, 26, fill=fill, stroke=FAINT if verdict else fill, radius=4))
        items.append(Words(135, y + 13, outcome, 12, ink, bold=not verdict))
    return Scene(200, 160, f"{_outcomes(data.verdicts)}.", tuple(items))


def _outcomes(verdicts: dict[str, Verdict], between: str = ", ") -> str:
    return between.join(
        f"{name} {PASSES if verdict else CAUGHT}" for name, verdict in verdicts.items()
    )


def readout_gallery(data: Exhibit) -> str:
    """Return the outcome of each check, and how far off the outputs are."""
    off = "forward stops" if data.difference is None else f"off by {data.difference.max():.3g}"
    return f"{data.mistake.name} | {data.condition} | {_outcomes(data.verdicts, ' | ')} | {off}"


GALLERY = Panel(
    name="gallery",
    controls={"mistake": tuple(BY_NAME), "condition": tuple(CONDITIONS)},
    default={"mistake": "split without transpose", "condition": "as usual"},
    compute=compute_gallery,
    draw=draw_gallery,
    readout=readout_gallery,
)
