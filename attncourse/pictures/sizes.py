"""Where the heads are in GPT-2's c_attn."""

from __future__ import annotations

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, INK, head_color, tint
from attncourse.pictures.scene import Box, Item, Line, Scene, Words


def c_attn_picture(width: int, num_heads: int, head: int) -> Scene:
    """Draw c_attn as GPT-2's file has it, and below it what nn.Linear wants of it.

    Args:
        width: of the model; c_attn is (width, 3 * width).
        num_heads: how many heads share each third.
        head: counted from 0; its columns, and the rows that they become, are in full color.

    Returns:
        A Scene: above, columns are colored by the heads that own them, below, rows.

    Raises:
        ValueError: there is no such head, or the width cannot be shared out.
    """
    if width % num_heads or not 0 <= head < num_heads:
        raise ValueError(
            f"width={width} must be a multiple of num_heads={num_heads}, and head={head} one of "
            f"0 to {num_heads - 1}"
        )
    side, gap, left, top = 180.0, 24.0, 76.0, 52.0
    stripe, head_dim = side / num_heads, width // num_heads
    names = ("queries", "keys", "values")
    weights = ("W_query.weight", "W_key.weight", "W_value.weight")
    joined = left + gap  # c_attn has no gaps; it stands in the middle
    second = top + side + 74
    shape, title = f"({width}, {3 * width})", "in nn.Linear: cut in three, and each part transposed"
    items: list[Item] = [
        Words(joined, 10, f"c_attn.weight in the file: {shape}", "start", bold=True),
        Words(joined - 8, top + side / 2, "x @", "end", FAINT, mono=True),
        Words(left, second - 34, title, "start", bold=True),
        Words(left - 8, second + side / 2, "x @ W.T", "end", FAINT, mono=True),
    ]
    owned = []
    for part, (name, weight) in enumerate(zip(names, weights, strict=True)):
        x, y = joined + part * side, left + part * (side + gap)
        for h in range(num_heads):
            fill, begin = tint(head_color(h), 1.0 if h == head else 0.25), h * stripe
            items.append(Box(round(x + begin, 2), top, round(stripe, 2), side, fill))
            items.append(Box(y, round(second + begin, 2), side, round(stripe, 2), fill))
        first = part * width + head * head_dim
        owned.append(f"{first} to {first + head_dim - 1}")
        tip = round(x + (head + 0.5) * stripe, 2)
        middle = min(tip, x + side - text_width(owned[-1]) / 2 + stripe)
        items += [
            Box(x, top, side, side, stroke=INK),
            Box(y, second, side, side, stroke=INK),
            Words(x + side / 2, top - 14, name),
            Words(y + side / 2, second - 12, weight, mono=True),
            Words(round(middle, 2), top + side + 14, owned[-1]),
            Line(((tip, top + side), (tip, top + side + 5)), INK, 1.5),
        ]
    rows = f"rows {head * head_dim} to {(head + 1) * head_dim - 1}"
    items.append(Words(left + 1.5 * side + gap, second + side + 16, f"{rows} of each"))
    alt = (
        f"Above, c_attn.weight of {width} rows and {3 * width} columns: a third each for queries, "
        f"keys and values, in each third a stripe of {head_dim} columns for each of {num_heads} "
        f"heads. Head {head} has columns {', '.join(owned)}. Below, the thirds as nn.Linear stores "
        f"them: transposed, so that a head's columns become rows; head {head} has {rows} of each."
    )
    return Scene(left + 3 * side + 2 * gap + 8, second + side + 30, alt, tuple(items))
