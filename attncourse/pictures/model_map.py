"""Where attention sits in a model: words as lines through its layers, heads as curves."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, HATCH, INK, PAPER, QUIET, head_color
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words

LEFT, TOP, APART = 72.0, 58.0, 36.0  # of the lines, and between two
BEHIND = 104.0  # room for the next word
SEEN = 0.2  # the smallest weight that is drawn


def model_map(
    tokens: Sequence[str],
    weights: Tensor,
    head: tuple[int, int],
    said: str,
    width: float = BOOK,
) -> Scene:
    """Draw a decoder from left to right, at its last word.

    Each word is a line, the residual stream. In each layer the heads bring something from other
    words to the last one, drawn as curves, and an MLP adds to each word alone, drawn as a square.

    Args:
        tokens: the words.
        weights: (num_layers, num_heads, num_tokens, num_tokens).
        head: the layer and the number of the head that is drawn in color.
        said: the next word.
        width: of the sheet; on a narrow one the ends have no names.

    Returns:
        A Scene. A curve stands for a weight of at least SEEN on a word between the first, on which
        heads rest, and the last.
    """
    num_layers, last = len(weights), len(tokens) - 1
    right = width - BEHIND
    step = (right - LEFT) / num_layers
    bottom = TOP + last * APART
    named = f"{num_layers} layers: attention, then an MLP"
    items: list[Item] = [Words((LEFT + right) / 2, 14, named, color=FAINT)]
    if width >= BOOK:
        items.append(Words(LEFT, 14, "embedding", "start", FAINT))
        items.append(Words(width - 14, 14, "next word", "end", FAINT))
    side = min(5.0, step - 2)
    for i, token in enumerate(tokens):
        y = TOP + i * APART
        items.append(Words(LEFT - 10, y, token, "end", size=16, bold=i == last))
        items.append(Line(((LEFT, y), (right, y)), INK if i == last else HATCH, 1.5))
        items += (
            Box(LEFT + (layer + 0.8) * step - side / 2, y - side / 2, side, side, QUIET, HATCH)
            for layer in range(num_layers)
        )
    curves = [(layer, h, key) for layer, h, key in _looks(weights, last) if (layer, h) != head]
    for layer, h, key in [*curves, *(look for look in _looks(weights, last) if look[:2] == head)]:
        weight, is_it = weights[layer, h, last, key].item(), (layer, h) == head
        x, y = LEFT + (layer + 0.1) * step, TOP + key * APART
        points = tuple(_curve(x, y, x + 0.45 * step, bottom))
        color = head_color(0) if is_it else FAINT
        items.append(Line(points, color, 4.0 if is_it else 1.5, opacity=1.0 if is_it else weight))
        if is_it:
            name = f"L{layer}H{h}"
            items.append(Words(x + step / 4, bottom + 18, name, color=head_color(0), bold=True))
    wide = text_width(said, 18, bold=True) + 24
    items.append(Line(((right, bottom), (right + 8, bottom)), INK, 1.5))
    items.append(Box(right + 8, bottom - 16, wide, 32, head_color(0), radius=8))
    items.append(Words(right + 8 + wide / 2, bottom, said, color=PAPER, size=18, bold=True))
    layer, h = head
    alt = (
        f"The model from left to right: {len(tokens)} words as lines through {num_layers} layers. "
        f"{len(curves)} pale curves lead from other words to “{tokens[-1]}”, one in blue is head "
        f"{h} of layer {layer}. At the end of the last line: {said}."
    )
    return Scene(width, bottom + 30, alt, tuple(items))


def _looks(weights: Tensor, last: int) -> list[tuple[int, int, int]]:
    """Return the layers, heads and keys of what the last word clearly looks at."""
    seen = weights[:, :, last, 1:last] >= SEEN
    return [(layer, h, key + 1) for layer, h, key in seen.nonzero().tolist()]


def _curve(left: float, top: float, right: float, bottom: float) -> list[tuple[float, float]]:
    """Return a smooth way down: level where it begins, level where it ends."""
    shares = [i / 16 for i in range(17)]
    return [(left + (right - left) * t, top + (bottom - top) * t * t * (3 - 2 * t)) for t in shares]
