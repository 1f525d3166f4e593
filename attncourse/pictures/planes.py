"""Pictures of queries, keys and values of two numbers: points in a plane."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, INK, PAPER, head_color
from attncourse.pictures.scene import Box, Item, Line, Scene, Words

SIDE, TOP, GAP = 320.0, 24.0, 58.0  # of each plane; above it; between the two
MARGIN = 1.25  # how far a plane reaches beyond its farthest point
BESIDE = (-24, 6), (-14, 20), (22, 12), (0, -18), (22, -12)  # where names stand, from their points


def planes_picture(
    tokens: Sequence[str], query: Tensor, keys: Tensor, values: Tensor, context_vec: Tensor
) -> Scene:
    """Draw the last token's query among the keys; beside them, what it gets among the values.

    Args:
        tokens: five names.
        query: (2).
        keys: (5, 2).
        values: (5, 2).
        context_vec: (2).
    """
    items = _plane(0.5, f"the keys, and the query of {tokens[-1]}", tokens, keys, query)
    items += _plane(
        SIDE + GAP, "the values, and the mixture (diamond)", tokens, values, context_vec
    )
    nearest = tokens[int((values - context_vec).norm(dim=1).argmin())]
    alt = (
        f"Two planes. Left the keys of {', '.join(tokens)}, and the query of {tokens[-1]} as an "
        f"arrow, which points to {tokens[int((keys @ query).argmax())]}. Right the values, and "
        f"their mixture, which lies at the value of {nearest}."
    )
    return Scene(2 * SIDE + GAP + 1, TOP + SIDE + 2, alt, tuple(items))


def _plane(
    left: float, title: str, tokens: Sequence[str], points: Tensor, marked: Tensor
) -> list[Item]:
    reach = MARGIN * max(points.abs().max().item(), marked.abs().max().item())

    def on(point: Tensor) -> tuple[float, float]:
        x, y = (point / reach).tolist()
        return round(left + SIDE * (1 + x) / 2, 1), round(TOP + SIDE * (1 - y) / 2, 1)

    x, y = middle = left + SIDE / 2, TOP + SIDE / 2
    end = on(marked)
    items: list[Item] = [
        Words(left, 10, title, "start", bold=True),
        Box(left, TOP, SIDE, SIDE, None, FAINT),
        Line(((left, y), (left + SIDE, y)), FAINT, 1.0, opacity=0.6),
        Line(((x, TOP), (x, TOP + SIDE)), FAINT, 1.0, opacity=0.6),
        Line((middle, end), INK, 3.0),
    ]
    for token, point, (across, down) in zip(tokens, points, BESIDE, strict=True):
        x, y = on(point)
        items.append(Box(x - 4.5, y - 4.5, 9, 9, head_color(0), PAPER, radius=4.5))
        x, y, half = x + across, y + down, text_width(token) / 2 + 2
        items.append(Line(((x - half, y), (x + half, y)), PAPER, 14.0, opacity=0.6))
        items.append(Words(x, y, token))
    x, y = end
    corners = ((x - 7, y), (x, y - 7), (x + 7, y), (x, y + 7))
    return [*items, Line(corners, PAPER, 1.5, fill=INK)]
