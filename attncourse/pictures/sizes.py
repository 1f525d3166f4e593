"""Where a model's parameters are: all of them as one bar, and the heads in GPT-2's c_attn."""

from __future__ import annotations

from collections.abc import Sequence

from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, INK, PAPER, head_color, text_color, tint
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words

NARROWEST = 0.6  # pixels of a part, however small


def parts_picture(parts: Sequence[tuple[str, int]], title: str) -> Scene:
    """Draw numbers of parameters as one bar, part after part, with a sum for each name below.

    Args:
        parts: names and numbers, in the order of the bar. Parts of one name have one color.
        title: what they are the parts of.

    Returns:
        A Scene as wide as a page.

    Raises:
        ValueError: there are no parts, or a number is negative.

    >>> parts_picture([("a", 3), ("b", 1), ("a", 4)], "letters").alt
    'letters: 8 in one bar of 3 parts. a 7 (87.5%), b 1 (12.5%).'
    """
    if not parts or min(number for _, number in parts) < 0:
        raise ValueError(f"parts must be one or more numbers from 0 on, got {list(parts)}")
    total = sum(number for _, number in parts)
    sums: dict[str, int] = {}
    for name, number in parts:
        sums[name] = sums.get(name, 0) + number
    colors = {name: head_color(i) for i, name in enumerate(sums)}
    left, top, high = 4.0, 28.0, 44.0
    scale = (BOOK - 2 * left) / total
    items: list[Item] = [Words(left, 10, f"{title}: {total:,}", "start", bold=True)]
    x = left
    for name, number in parts:
        wide, fill = max(number * scale, NARROWEST), colors[name]
        items.append(Box(round(x, 2), top, round(wide, 2), high, fill, PAPER, 0.5))
        if wide > text_width(name) + 8:
            middle = (round(x + wide / 2, 2), top + high / 2)
            items.append(Words(*middle, name, color=text_color(fill)))
        x += number * scale
    told = []
    for i, (name, number) in enumerate(sums.items()):
        y = top + high + 22 + 22 * i
        share = f"{100 * number / total:.{1 if number * 1000 >= total else 2}f}%"
        items += [
            Box(left, y - 7, 14, 14, colors[name]),
            Words(left + 22, y, name, "start"),
            Words(left + 300, y, f"{number:,}", "end", mono=True),
            Words(left + 380, y, share, "end", mono=True),
        ]
        told.append(f"{name} {number:,} ({share})")
    alt = f"{title}: {total:,} in one bar of {len(parts)} parts. {', '.join(told)}."
    return Scene(BOOK, top + high + 22 * len(sums) + 16, alt, tuple(items))


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
