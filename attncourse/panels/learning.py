"""A panel over a stored training: what its heads are good for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.learning.model import EVERYWHERE, AttentionModel, mute_head
from attncourse.learning.patterns import is_ambiguous
from attncourse.learning.record import (
    HEADS,
    LETTERS,
    LONGER,
    SAVED_AT,
    SHOWN,
    Measured,
    longer_tokens,
    measure,
    recorded_model,
)
from attncourse.learning.tasks import NO_ANSWER
from attncourse.panels.states import Panel
from attncourse.panels.touch import Looks, Pick, Touch, head_maps, listen
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import (
    FAINT,
    HATCH,
    INK,
    MARKED,
    PAPER,
    QUIET,
    head_color,
    line_color,
)
from attncourse.pictures.scene import Box, Item, Line, Scene, Words, above
from attncourse.pictures.seen import say_number
from attncourse.pictures.weights import weights_picture
from attnlib.functional import causal_mask

NAMES = HEADS
MUTE_CHOICES = ("no head", *NAMES, "L1H0 and L1H1")
LAST_KEY = 24  # the longest distance: no key that is needed lies further on
PLACES = {
    "everywhere": EVERYWHERE,
    "places 0 to 24": slice(LAST_KEY + 1),
    "places 25 to 47": slice(LAST_KEY + 1, None),
}
WATCHED = (("1 back", "2 back"),) * 2 + (("induction", "two letters"),) * 2  # of each head


# What the heads do, in words and place by place


def _maps(model: AttentionModel, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        _, attn_weights = model(tokens, return_weights=True)
    maps: Tensor = attn_weights[0].flatten(end_dim=1)
    return maps


def _number(text: str) -> list[str]:
    """Return the letters of a text, each with its place."""
    return [f"{letter}{i}".translate(SUBSCRIPTS) for i, letter in enumerate(text)]


def _right(now: Measured) -> str:
    return f"right: clear {_percent(now.clear)}, ambiguous {_percent(now.ambiguous)}"


def _percent(share: float) -> str:
    """Return a share in percent, off the rounding boundaries."""
    return f"{say_number(100 * share, 0)}%"


def _shares(now: Measured, muted: Sequence[int] = ()) -> str:
    """Return what the heads give to their patterns: those of layer 0 where keys are needed."""
    said = []
    for name, heads in (("1 back", (0, 1)), ("2 back", (0,)), ("induction", (2, 3))):
        shares = now.by_place[name]
        upto = LAST_KEY + 1 if heads[0] < 2 else None
        means = {NAMES[h]: shares[h][:upto].nanmean().item() for h in heads if h not in muted}
        told = ", ".join(f"{head} {say_number(mean)}" for head, mean in means.items())
        if told:
            said.append(f"{name}: {told}")
    return " | ".join(said)


CELL = 14.0  # of a map, in pixels
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
SMALL = 7.0  # of a map of the longer text
SIDE = CELL * len(SHOWN)
PROFILE = 62.0  # pixels from 0 to 1


def _profiles(maps: Scene, now: Measured, muted: Sequence[int] = (), where: str = "") -> Scene:
    """Draw under each map how much the head gives to its two patterns, place by place.

    Args:
        maps: what stands above.
        now: of each head, its share of a pattern at each place.
        muted: the heads that are.
        where: at which places, of PLACES; there a muted head is hatched.
    """
    top, bottom, last = 24.0, 24.0 + PROFILE, 47
    first, *_ = maps.named("map")
    items: list[Item] = [  # the scale of all four
        Words(first.x - 6, top + 4, "1", "end", FAINT),
        Words(first.x - 6, bottom - 4, "0", "end", FAINT),
    ]
    for h, (names, cell) in enumerate(zip(WATCHED, maps.named("map"), strict=True)):
        x, step = cell.x, SIDE / last
        items.append(Words(x, 10, "— {}   - - {}".format(*names), "start"))
        items.append(Box(x, top, SIDE, PROFILE, PAPER, HATCH))
        for i, name in enumerate(names):
            shares = now.by_place[name][h].clone()
            if h in muted:
                shares[PLACES[where]] = torch.nan
            points = tuple(
                (round(x + place * step, 1), round(top + PROFILE * (1 - share), 1))
                for place, share in enumerate(shares.tolist())
                if not math.isnan(share)  # else no query here has the pattern
            )
            if points:
                items.append(Line(points, head_color(h), 2.0, dashed=i == 1))
        items.append(Words(x, bottom + 10, "0", "start", FAINT))
        items.append(Words(x + LAST_KEY * step, bottom + 10, str(LAST_KEY), color=FAINT))
        items.append(Words(x + SIDE, bottom + 10, str(last), "end", FAINT))
        items.append(Words(x + 0.75 * SIDE, bottom + 10, "place", color=FAINT))
        cut = x + step * (LAST_KEY + 0.5)
        items.append(Line(((cut, top), (cut, bottom)), FAINT, 1.0, dashed=True))
        if h in muted:
            start, stop, _ = PLACES[where].indices(last + 1)
            begin, end = (x + step * min(max(i - 0.5, 0), last) for i in (start, stop))
            items.append(Box(begin, top, end - begin, PROFILE, PAPER, HATCH, hatched=True))
            items += _muted((begin + end) / 2, top + PROFILE / 2)
    return Scene(maps.width, bottom + 24, f"By place: {_shares(now, muted)}.", tuple(items))


def _muted(x: float, y: float) -> list[Item]:
    """Return the word, on paper of its own: it stands on hatching."""
    wide = text_width("muted", bold=True) + 10
    return [Box(x - wide / 2, y - 10, wide, 20, PAPER), Words(x, y, "muted", bold=True)]


# Mute a head -> accuracy


class MutedHeads(NamedTuple):
    """The trained model with one head muted, or none, or both of layer 1, at some places."""

    mute: str
    where: str
    heads: tuple[int, ...]
    now: Measured
    whole: Measured  # with nothing muted
    attn_weights: Tensor  # (num_layers * num_heads, num_tokens, num_tokens)
    answers: Tensor  # (num_tokens); NO_ANSWER in the first copy
    guesses: Tensor  # (num_tokens)
    seen: Looks


def compute_muted_heads(mute: str, where: str) -> MutedHeads:
    """Mute heads of the trained model; run it on the held-out batch and on the sequence drawn."""
    heads = tuple(h for h, name in enumerate(HEADS) if name in mute)
    model, tokens = recorded_model(SAVED_AT[-1]), longer_tokens()
    for h in heads:
        model = mute_head(model, layer=h // 2, head=h % 2, places=PLACES[where])
    attn_weights = _maps(model, tokens)
    for h in heads:
        attn_weights[h, PLACES[where]] = torch.nan  # muted: what it read is not used
    with torch.no_grad():
        guesses = model(tokens)[0, :, 0].argmax(dim=-1)  # (num_tokens)
    again = LONGER.index(LONGER[0], 1)  # where the second copy begins
    answers = tokens[0].roll(again - 1)  # (num_tokens)
    answers[:again] = NO_ANSWER
    whole = measure(recorded_model(SAVED_AT[-1]))
    now = measure(model) if heads else whole
    seen = listen(model, tokens)
    return MutedHeads(mute, where, heads, now, whole, attn_weights, answers, guesses, seen)


def draw_muted_heads(data: MutedHeads) -> Scene:
    """Draw the maps that are left, where the heads look by place, what the model guesses."""
    places = [str(i) if i and i % 8 == 0 else "" for i in range(len(LONGER))]
    is_future = causal_mask(len(LONGER))
    maps = weights_picture(data.attn_weights, places, is_future, SMALL, NAMES, columns=4)
    begin, stop, _ = PLACES[data.where].indices(len(LONGER))
    low = SMALL * (begin + 2 * (stop - begin) / 3)  # about the middle of what is hatched
    first = maps.named("map")
    said = [item for h in data.heads for item in _muted(first[h].x + low / 2, first[h].y + low)]
    alt = "Where each head looks, place by place, queries down, keys across."
    cells = [item for item in maps.items if not isinstance(item, Box) or item.name != "hidden"]
    future = [Box(cell.x, cell.y, SIDE, SIDE, QUIET) for cell in first]  # one box for all of it
    maps = Scene(maps.width, maps.height, alt, (*future, *cells, *said))
    return above(maps, _profiles(maps, data.now, data.heads, data.where), _guesses(data), gap=4)


def touch_muted_heads(data: MutedHeads, scene: Scene) -> Touch:
    """Return the cells of the maps; a click on one mutes its head, or nothing if it was muted."""
    maps = head_maps(scene, data.attn_weights, data.seen, NAMES)
    for shown in maps:
        rows = shown.numbers["weight"]
        rows[:] = [row.replace("NaN", "muted") for row in rows]
    heads = [Pick(m.x, m.y, SIDE, SIDE, {"mute": _other(data.mute, m.name)}) for m in maps]
    return Touch(_number(LONGER), maps, heads)


def _other(muted: str, name: str) -> str:
    return MUTE_CHOICES[0] if muted == name else name


def readout_muted_heads(data: MutedHeads) -> str:
    """Return what is muted, and how often the model is right."""
    two = data.now.by_place["two letters"][2:].nanmean(dim=1).tolist()
    matched = ", ".join(
        f"{NAMES[h]} {'muted' if h in data.heads else say_number(share)}"
        for h, share in zip((2, 3), two, strict=True)
    )
    return f"muted: {data.mute}, {data.where} | {_right(data.now)} | two letters: {matched}"


def _guesses(data: MutedHeads) -> Scene:
    """Draw a row of tokens, the model's guess under each, and two bars for what is right."""
    left, top, cell, high = 84.0, 20.0, 20.0, 24.0
    unclear = is_ambiguous(longer_tokens())[0].tolist()
    items: list[Item] = [
        Words(left - 6, top + (i + 0.5) * high, name, "end")
        for i, name in enumerate(("token", "next", "guess", "ambiguous"))
    ]
    wrong = []
    for i, letter in enumerate(LONGER):
        x, answer, guess = left + (i + 0.5) * cell, int(data.answers[i]), int(data.guesses[i])
        items.append(Words(x, top + high / 2, letter, mono=True))
        if answer == NO_ANSWER:
            continue
        if answer != guess:
            wrong.append(f"{letter} at place {i}")
            place = (x - cell / 2 + 1, top + 2 * high + 1, cell - 2, high - 2)
            items.append(Box(*place, MARKED, INK))
        items.append(Words(x, top + 1.5 * high, LETTERS[answer], mono=True))
        guessed = Words(x, top + 2.5 * high, LETTERS[guess], mono=True)
        items.append(guessed._replace(bold=answer != guess))
        if unclear[i]:
            items.append(Words(x, top + 3.5 * high, "•"))
    if data.heads:
        begin, stop, _ = PLACES[data.where].indices(len(LONGER))
        ends = (left + begin * cell + 2, top - 2), (left + stop * cell - 2, top - 2)
        items.append(Line(ends, INK, 2.0))
        items.append(Words(left + (begin + stop) / 2 * cell, 8, "muted here", bold=True))
    start, across = left + len(LONGER) * cell + 96, 200.0
    items.append(Words(start, top - 2, "right, of all test places", "start", bold=True))
    items.append(Words(start, top + 16, "dashed: with no head muted", "start"))
    for name, share, whole, hue, y in (
        ("clear", data.now.clear, data.whole.clear, 5, top + high + 6),
        ("ambiguous", data.now.ambiguous, data.whole.ambiguous, 4, top + 2 * high + 12),
    ):
        middle, end = y + high / 2, start + across * whole
        items += [
            Words(start - 8, middle, name, "end"),
            Box(start, y, across, high, fill=QUIET),
            Box(start, y, across * share, high, fill=line_color(head_color(hue))),
            Line(((end, y - 2), (end, y + high + 2)), INK, 1.0, dashed=True),
            Words(start + across + 8, middle, _percent(share), "start", bold=True),
        ]
    alt = f"Muted: {data.mute}, {data.where}. {_right(data.now)}."
    alt += f" In the text shown the guess is wrong after {', '.join(wrong) or 'no letter'}."
    return Scene(start + across + 64, top + 4 * high + 8, alt, tuple(items))


# The panel


MUTE = Panel(
    name="mute a head",
    controls={"mute": MUTE_CHOICES, "where": tuple(PLACES)},
    default={"mute": MUTE_CHOICES[0], "where": "everywhere"},
    compute=compute_muted_heads,
    draw=draw_muted_heads,
    readout=readout_muted_heads,
    touch=touch_muted_heads,
    telling=(
        {"mute": "L0H0", "where": "places 0 to 24"},
        {"mute": "L0H1", "where": "places 25 to 47"},
    ),
)
