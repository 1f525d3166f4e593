"""Two panels over a stored training: what heads learn, and what they are good for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attnlib.functional import causal_mask
from attnlib.learning.model import AttentionModel, mute_head
from attnlib.learning.patterns import scores
from attnlib.learning.record import (
    LETTERS,
    SAVED_AT,
    SHOWN,
    Learned,
    held_out_batch,
    learned,
    recorded_model,
    shown_tokens,
)
from attnlib.learning.tasks import NO_ANSWER
from attnlib.learning.training import accuracy
from attnlib.panels.panel import Panel
from attnlib.panels.touch import Looks, Map, Pick, Touch, head_maps, looks
from attnlib.pictures.palette import FAINT, INK, PAPER, QUIET, head_color, text_color, tint
from attnlib.pictures.scene import Box, Item, Line, Scene, Words, above, moved
from attnlib.pictures.tensors import weights_picture

MUTE_CHOICES = ("no head", "head 1", "head 2", "head 3", "head 4", "heads 3 and 4")
NAMES = tuple(f"head {h + 1}" for h in range(4))  # of both layers, in one count
WATCHED = ("2 back", "1 back", "induction", "induction")  # what heads 1 to 4 come to do


# Training step -> maps and loss


class TrainingStep(NamedTuple):
    """One step among all steps, and the maps of the heads at that step."""

    now: Learned
    steps: tuple[Learned, ...]
    attn_weights: Tensor  # (num_layers * num_heads, num_tokens, num_tokens)
    seen: Looks


def compute_training_step(step: int) -> TrainingStep:
    """Run the model as it was after this many steps on the sequence that is drawn."""
    model = recorded_model(step)
    seen = looks(model, shown_tokens())
    return TrainingStep(learned(step), tuple(map(learned, SAVED_AT)), _maps(model), seen)


def _maps(model: AttentionModel) -> Tensor:
    with torch.no_grad():
        _, attn_weights = model(shown_tokens(), return_weights=True)
    maps: Tensor = attn_weights[0].flatten(end_dim=1)
    return maps


def draw_training_step(data: TrainingStep) -> Scene:
    """Draw the maps of the four heads above the curves of the loss and of the scores."""
    future = causal_mask(len(SHOWN))
    maps = weights_picture(data.attn_weights, SHOWN, future, cell=CELL, columns=4, names=NAMES)
    return above(maps, _curves(data), gap=4)


def touch_training_step(data: TrainingStep, scene: Scene) -> Touch:
    """Return the cells of the maps, and the steps under the charts."""
    charts = [b for b in scene.items if isinstance(b, Box) and (b.width, b.height) == CHART]
    gap = ACROSS / (len(SAVED_AT) - 1)
    steps = [
        Pick(chart.x + (i - 0.5) * gap, chart.y, gap, chart.height + 20, {"step": step})
        for chart in charts
        for i, step in enumerate(SAVED_AT)
    ]
    return Touch(NAMED, _touched(scene, data.attn_weights, data.seen), steps)


def _touched(scene: Scene, attn_weights: Tensor, seen: Looks) -> list[Map]:
    colors = [head_color(h) for h in range(len(attn_weights))]
    return head_maps(scene, CELL, colors, attn_weights, seen, NAMES)


def readout_training_step(data: TrainingStep) -> str:
    """Return how far the training has come."""
    return (
        f"step = {data.now.step} | loss {data.now.loss:.2f} | "
        f"right {100 * data.now.accuracy:.0f} % | {_scores(data.now)}"
    )


def _scores(now: Learned) -> str:
    one, two, three, four = (
        f"head {h + 1} {now.scores[name][h]:.2f}" for h, name in enumerate(WATCHED)
    )
    return f"2 back: {one} | 1 back: {two} | induction: {three}, {four}"


CELL = 14.0  # of a map, in pixels
PLACES = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
NAMED = [f"{letter}{i}".translate(PLACES) for i, letter in enumerate(SHOWN, start=1)]
CHART = ACROSS, HIGH = 330.0, 96.0


class Curve(NamedTuple):
    """A line of a chart: a value from 0 to 1 for each step."""

    values: list[float]
    color: str
    dashed: bool = False


def _curves(data: TrainingStep) -> Scene:
    """Draw the loss, and the score of each head on the pattern of its layer, step by step."""
    largest = max(step.loss for step in data.steps)
    loss = Curve([step.loss / largest for step in data.steps], INK)
    by_head = [  # dashed where an earlier head has the same pattern, and so perhaps the same line
        Curve([step.scores[name][h] for step in data.steps], head_color(h), name in WATCHED[:h])
        for h, name in enumerate(WATCHED)
    ]
    title = "scores: head 1 on 2 back, head 2 on 1 back, 3 and 4 on induction"
    left, top = 64.0, 34.0
    second = left + ACROSS + 64
    items = moved(_chart("loss", f"{largest:.1f}", [loss], data.now.step), left, top)
    items += moved(_chart(title, "1", by_head, data.now.step), second, top)
    alt = (
        f"After {data.now.step} steps: loss {data.now.loss:.2f}, "
        f"right {100 * data.now.accuracy:.0f} %, {_scores(data.now)}."
    )
    return Scene(second + ACROSS + 96, top + HIGH + 36, alt, tuple(items))


def _chart(title: str, highest: str, curves: Sequence[Curve], now: int) -> list[Item]:
    """Return curves over the steps, one step marked. `highest` labels the top of the axis."""
    gap, place = ACROSS / (len(SAVED_AT) - 1), SAVED_AT.index(now)
    items: list[Item] = [
        Words(0, -18, title, 11, INK, "start", bold=True),
        Box(0, 0, ACROSS, HIGH, fill=None, stroke=QUIET),
        Words(-6, 0, highest, 10, INK, "end"),
        Words(-6, HIGH, "0", 10, INK, "end"),
        Line(((place * gap, -6.0), (place * gap, HIGH)), FAINT, 1.0, dashed=True),
    ]
    for values, color, dashed in curves:
        points = tuple((i * gap, HIGH * (1 - value)) for i, value in enumerate(values))
        x, y = points[place]
        items.append(Line(points, color, 2.0, dashed=dashed))
        items.append(Box(x - 3, y - 3, 6, 6, fill=color, stroke=PAPER))
    for i, step in enumerate(SAVED_AT):
        items.append(Words(i * gap, HIGH + 11, str(step), 9, INK, bold=i == place))
    items.append(Words(ACROSS / 2, HIGH + 26, "training step", 10))
    return items


# Mute a head -> accuracy


class MutedHeads(NamedTuple):
    """The trained model with one head muted, or none, or both of layer 2."""

    muted: str
    accuracy: float
    whole: float  # the accuracy with nothing muted
    attn_weights: Tensor  # (num_layers * num_heads, num_tokens, num_tokens)
    answers: Tensor  # (num_tokens); NO_ANSWER in the first half
    guesses: Tensor  # (num_tokens)
    induction: tuple[float | None, ...]  # the scores of heads 3 and 4; None where muted
    seen: Looks


def compute_muted_heads(mute: str) -> MutedHeads:
    """Mute heads of the trained model; run it on the held-out batch and on the sequence drawn."""
    heads = [h for h in range(4) if str(h + 1) in mute]
    model = recorded_model(SAVED_AT[-1])
    for h in heads:
        model = mute_head(model, layer=h // 2, head=h % 2)
    batch, tokens = held_out_batch(), shown_tokens()
    attn_weights = _maps(model)
    attn_weights[heads] = torch.nan  # muted: their output is not used
    with torch.no_grad():
        guesses = model(tokens)[0, :, 0].argmax(dim=-1)  # (num_tokens)
        _, test_weights = model(batch.tokens, return_weights=True)
    answers = tokens[0].roll(-1)  # (num_tokens)
    answers[: len(SHOWN) // 2] = NO_ANSWER
    both = scores(test_weights, batch.tokens)["induction"]
    return MutedHeads(
        mute,
        accuracy(model, batch),
        learned(SAVED_AT[-1]).accuracy,
        attn_weights,
        answers,
        guesses,
        tuple(None if h in heads else both[h] for h in (2, 3)),
        looks(model, tokens),
    )


def draw_muted_heads(data: MutedHeads) -> Scene:
    """Draw the maps that are left, what the model guesses, and how often it is right."""
    muted = [h for h, weights in enumerate(data.attn_weights) if weights.isnan().all()]
    future = causal_mask(len(SHOWN))
    maps = weights_picture(
        data.attn_weights, SHOWN, future, cell=CELL, columns=4, muted=muted, names=NAMES
    )
    return above(maps, _guesses(data), gap=4)


def touch_muted_heads(data: MutedHeads, scene: Scene) -> Touch:
    """Return the cells of the maps; a click on one mutes its head, or nothing if it was muted."""
    maps = _touched(scene, data.attn_weights, data.seen)
    for shown in maps:
        rows = shown.numbers["weight"]
        rows[:] = [row.replace("NaN", "muted") for row in rows]
    side = CELL * len(SHOWN)
    heads = [Pick(m.x, m.y, side, side, {"mute": _other(data.muted, m.name)}) for m in maps]
    return Touch(NAMED, maps, heads)


def _other(muted: str, name: str) -> str:
    return MUTE_CHOICES[0] if muted == name else name


def readout_muted_heads(data: MutedHeads) -> str:
    """Return what is muted, and how often the model is right."""
    third, fourth = ("-" if share is None else f"{share:.2f}" for share in data.induction)
    return (
        f"muted: {data.muted} | right {100 * data.accuracy:.0f} % of {100 * data.whole:.0f} % | "
        f"induction: head 3 {third}, head 4 {fourth}"
    )


def _guesses(data: MutedHeads) -> Scene:
    """Draw a row of tokens, the model's guess under each, and a bar for the accuracy."""
    left, cell, high = 64.0, 26.0, 24.0
    items: list[Item] = []
    for y, name in ((0.0, "token"), (high, "next"), (2 * high, "guess")):
        items.append(Words(left - 6, y + high / 2, name, 11, INK, "end"))
    for i, letter in enumerate(SHOWN):
        x, answer, guess = left + i * cell, int(data.answers[i]), int(data.guesses[i])
        items.append(Words(x + cell / 2, high / 2, letter, 12, mono=True))
        if answer == NO_ANSWER:
            continue
        right = answer == guess
        fill = tint(head_color(2), 0.35) if right else tint(head_color(4), 0.35)
        items.append(Box(x, 2 * high, cell, high, fill=fill, stroke=PAPER))
        items.append(Words(x + cell / 2, 1.5 * high, LETTERS[answer], 12, mono=True))
        guessed, ink = LETTERS[guess], text_color(fill)
        items.append(Words(x + cell / 2, 2.5 * high, guessed, 12, ink, bold=not right, mono=True))
    start, across = left + len(SHOWN) * cell + 70, 260.0
    items.append(Words(start, high / 2, "right, of all repeats", 11, INK, "start", bold=True))
    items.append(Box(start, high, across, high, fill=QUIET))
    items.append(Box(start, high, across * data.accuracy, high, fill=head_color(2)))
    whole = start + across * data.whole
    items.append(Line(((whole, high - 3), (whole, 2 * high + 3)), INK, 1.0, dashed=True))
    share = f"{100 * data.accuracy:.0f} %"
    items.append(Words(start + across + 8, 1.5 * high, share, 12, INK, "start", bold=True))
    alt = f"Muted: {data.muted}. Right: {share}."
    return Scene(start + across + 60, 3 * high + 4, alt, tuple(items))


# The panels


TRAINING_STEP = Panel(
    name="training step",
    controls={"step": SAVED_AT},
    default={"step": SAVED_AT[0]},
    compute=compute_training_step,
    draw=draw_training_step,
    readout=readout_training_step,
    touch=touch_training_step,
    time="step",
)
MUTE = Panel(
    name="mute a head",
    controls={"mute": MUTE_CHOICES},
    default={"mute": MUTE_CHOICES[0]},
    compute=compute_muted_heads,
    draw=draw_muted_heads,
    readout=readout_muted_heads,
    touch=touch_muted_heads,
)
