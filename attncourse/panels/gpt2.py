"""Panels that go through the heads of a GPT-2: the released one, or the reader's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.gpt2.model import GPT2
from attncourse.gpt2.recorded import TEXTS, RecordedText, recorded
from attncourse.panels.states import Panel
from attncourse.panels.touch import Looks, Pick, Touch, head_maps, listen
from attncourse.pictures.arcs import arcs_in_place
from attncourse.pictures.palette import FAINT, PAPER, amount_color, head_color
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words, beside, frame
from attncourse.pictures.seen import say_number
from attncourse.pictures.weights import heads_picture, weights_picture
from attnlib.functional import causal_mask

# The released model: a head on five texts


class RecordedHead(NamedTuple):
    """One of the 144 heads of the released GPT-2, and what all of them do."""

    layer: int
    head: int
    texts: tuple[RecordedText, ...]
    before: Tensor  # (num_layers, num_heads), mean weight on the token just before
    first: Tensor  # (num_layers, num_heads), mean weight on the first token
    itself: Tensor  # (num_layers, num_heads), mean weight on the token itself


@cache
def _recorded() -> tuple[tuple[RecordedText, ...], Tensor, Tensor, Tensor]:
    """Return the five texts, and three means over them for each head; not over the first token."""
    texts = tuple(recorded(name) for name in TEXTS)
    maps = [text.weights for text in texts]
    before = [each.diagonal(-1, dim1=-2, dim2=-1).mean(dim=-1) for each in maps]
    first = [each[:, :, 1:, 0].mean(dim=-1) for each in maps]
    itself = [each.diagonal(dim1=-2, dim2=-1)[..., 1:].mean(dim=-1) for each in maps]
    means = [torch.stack(each).mean(dim=0) for each in (before, first, itself)]
    return texts, means[0], means[1], means[2]


def compute_recorded_head(head: int, layer: int) -> RecordedHead:
    """Return one head of the released GPT-2 on the five texts.

    >>> round(compute_recorded_head(head=11, layer=4).before[4, 11].item(), 2)
    1.0
    """
    return RecordedHead(layer, head, *_recorded())


ROW = 80.0  # the height of a text with its arcs
SQUARE, TOP = 21.0, 48.0  # of a head in the table; above the table
TABLE = BOOK - 12 * SQUARE - 6  # where the table begins


def draw_recorded_head(data: RecordedHead) -> Scene:
    """Draw the five texts with the head's arcs, beside a table of all heads with this one framed.

    Every picture has the same items in the same order: an arc that is not there is not to be seen.
    """
    items: list[Item] = []
    for i, text in enumerate(data.texts):
        weights = text.weights[data.layer, data.head]
        items += arcs_in_place(text.tokens, weights, (i + 1) * ROW - 10, data.head)
    items += _table(data)
    name = f"{data.layer}.{data.head}"
    told = "; ".join(_favorite(text, data.layer, data.head) for text in data.texts)
    alt = (
        f"Head {name} of GPT-2 as arcs over five texts, each word but the first to the words it "
        f"looks at. The last word of each: {told}. Beside them a table of 12 layers by 12 heads, "
        f"the darker the more weight on the first word; {name} is framed."
    )
    return Scene(BOOK, 5 * ROW + 16, alt, tuple(items))


def _table(data: RecordedHead) -> list[Item]:
    """Return a square for each head, layers down, and a frame around the one that is shown."""
    items: list[Item] = [Words(TABLE - 44, 10, "all 144 heads", "start", bold=True)]
    for h in range(12):
        items.append(Words(TABLE + (h + 0.5) * SQUARE, TOP - 16, f"{h}"))
        ends = ((TABLE + h * SQUARE + 1, TOP - 5), (TABLE + (h + 1) * SQUARE - 1, TOP - 5))
        items.append(Line(ends, head_color(h), 4))
    for layer, row in enumerate(data.first.tolist()):
        y = TOP + layer * SQUARE
        name = f"layer {layer}" if layer in (0, 11) else f"{layer}"
        items.append(Words(TABLE - 6, y + SQUARE / 2, name, "end"))
        for h, share in enumerate(row):
            fill = amount_color(share)
            items.append(Box(TABLE + h * SQUARE, y, SQUARE, SQUARE, fill, PAPER))
    items.append(Box(TABLE, TOP, 12 * SQUARE, 12 * SQUARE, stroke=FAINT))
    x, y = handle_recorded_head(data)
    half = SQUARE / 2
    items += frame(x - half, y - half, SQUARE, SQUARE, 3)
    bottom = TOP + 12 * SQUARE + 20
    told = (
        "Drag the frame. A dark head looks",
        "at the first word, a pale one does not.",
        "An arc goes from a word to an earlier",
        "one that it looks at, a loop to itself;",
        "the thicker, the more weight.",
    )
    for i, line in enumerate(told):
        items.append(Words(TABLE - 44, bottom + 17 * i, line, "start"))
    return items


def handle_recorded_head(data: RecordedHead) -> tuple[float, float]:
    """Return the middle of the head's square in the table."""
    return TABLE + (data.head + 0.5) * SQUARE, TOP + (data.layer + 0.5) * SQUARE


def _favorite(text: RecordedText, layer: int, head: int) -> str:
    """Return where the last word of a text looks most, as a clause."""
    words = [token.strip() for token in text.tokens]
    weight, key = text.weights[layer, head, -1].max(dim=-1)
    itself = "itself" if int(key) == len(words) - 1 else f"“{words[int(key)]}”"
    return f"“{words[-1]}” to {itself} ({say_number(weight.item())})"


def readout_recorded_head(data: RecordedHead) -> str:
    """Return the means of the head over the five texts."""
    means = {"the word before": data.before, "the first word": data.first, "itself": data.itself}
    told = ", ".join(
        f"on {name} {_share(each[data.layer, data.head].item())}" for name, each in means.items()
    )
    spaceship = _favorite(data.texts[0], data.layer, data.head)
    return (
        f"head {data.layer}.{data.head} | mean weight {told} | spaceship text: the last {spaceship}"
    )


def _share(weight: float) -> str:
    return "nothing" if weight < 0.005 else say_number(weight)


GPT2_HEADS = Panel(
    name="gpt2 heads",
    controls={"head": tuple(range(12)), "layer": tuple(range(12))},
    default={"head": 8, "layer": 11},
    compute=compute_recorded_head,
    draw=draw_recorded_head,
    readout=readout_recorded_head,
    handle=handle_recorded_head,
    telling=({"head": 8, "layer": 11}, {"head": 8, "layer": 9}),
)


# The reader's own model: all its heads on one text


class Gpt2Head(NamedTuple):
    """One head of a GPT-2 among all heads; layer and head count from 0."""

    tokens: tuple[str, ...]
    layer: int
    head: int
    maps: Tensor  # (num_layers, num_heads, num_tokens, num_tokens)
    seen: Looks  # of all heads, layer by layer


def maps_of(model: GPT2, token_ids: Tensor) -> Tensor:
    """Return the weights of all heads for one text, token_ids (1, num_tokens).

    >>> from attncourse.gpt2.model import tiny_gpt2
    >>> maps_of(tiny_gpt2(), torch.tensor([[5, 0, 2]])).shape
    torch.Size([4, 3, 3, 3])
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
        A Panel with the controls layer and head, both counted from 0.

    >>> from attncourse.gpt2.model import tiny_gpt2
    >>> gpt2_panel(tiny_gpt2(), torch.tensor([[5, 0, 2]]), "abc").controls["head"]
    (0, 1, 2)
    """
    maps, seen = maps_of(model, token_ids), listen(model, token_ids)
    num_layers, num_heads = maps.shape[:2]
    names = tuple(tokens)

    def compute(layer: int, head: int) -> Gpt2Head:
        return Gpt2Head(names, layer, head, maps, seen)

    return Panel(
        name="heads of a GPT-2",
        controls={"layer": tuple(range(num_layers)), "head": tuple(range(num_heads))},
        default={"layer": 0, "head": 0},
        compute=compute,
        draw=draw_gpt2_head,
        readout=readout_gpt2_head,
        touch=touch_gpt2_head,
        telling=({"layer": 0, "head": 0}, {"layer": num_layers - 1, "head": num_heads - 1}),
    )


def draw_gpt2_head(data: Gpt2Head) -> Scene:
    """Draw the weights of the head, beside all heads with this one framed."""
    one = weights_picture(
        data.maps[data.layer, data.head][None],
        data.tokens,
        causal_mask(len(data.tokens)),
        cell=_cell(data),
        names=[_name(data)],
        hues=[data.head],
    )
    return beside(one, heads_picture(data.maps, (data.layer, data.head), _small(data)))


def _cell(data: Gpt2Head) -> float:
    """Return the pixels per weight of the large map: of a long text fewer."""
    return min(40.0, max(8.0, 320.0 / len(data.tokens)))


def _small(data: Gpt2Head) -> float:
    """Return the pixels per weight where all heads are drawn."""
    few = data.maps.shape[0] * data.maps.shape[1] <= 36
    return min(8.0 if few else 5.0, 60.0 / len(data.tokens))


def _name(data: Gpt2Head) -> str:
    return f"head {data.layer}.{data.head}"


def touch_gpt2_head(data: Gpt2Head, scene: Scene) -> Touch:
    """Return the cells of the large map; a click on a small one brings its head up."""
    num_heads = data.maps.shape[1]
    place = data.layer * num_heads + data.head
    seen = Looks(*(part[place : place + 1] for part in data.seen))
    weights = data.maps[data.layer, data.head][None]
    picks = [
        Pick(*box[:4], {"layer": i // num_heads, "head": i % num_heads})
        for i, box in enumerate(scene.named("head"))
    ]
    return Touch(data.tokens, head_maps(scene, weights, seen, [_name(data)], [data.head]), picks)


def readout_gpt2_head(data: Gpt2Head) -> str:
    """Return where the head looks: means over its rows, and the last token's favorite."""
    weights = data.maps[data.layer, data.head]
    favorite = int(weights[-1].argmax())
    means = {
        "the token before": weights.diagonal(-1),
        "the first": weights[1:, 0],
        "itself": weights.diagonal()[1:],
    }
    told = ", ".join(f"on {name} {row.mean():.2f}" for name, row in means.items())
    start = f"{_name(data)} | "
    start += f"mean weight {told} | " if len(data.tokens) > 1 else ""
    return (
        f"{start}the last token, {data.tokens[-1].strip()}, looks most at "
        f"{data.tokens[favorite].strip()} ({weights[-1, favorite]:.2f})"
    )
