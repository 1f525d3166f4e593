"""Draw the card that a link to the book shows elsewhere: the transplant, as the book begins."""

from __future__ import annotations

import json

from attncourse.panels.sentence import CARRIER, RECORDING, TEXTS, key_of
from attncourse.pictures.letters import text_width
from attncourse.pictures.palette import FAINT, INK, PAPER, head_color, tint
from attncourse.pictures.scene import Box, Item, Scene, Words

WIDE, HIGH = 600, 315  # half as many as pixels
BLUE = head_color(0)
LEFT, LENDER, TEXT = 36.0, 134.0, 218.0  # where both sentences begin; their lines


def card() -> Scene:
    """Return two sentences, 64 numbers on their way from one to the other, and the answer."""
    (text, other), head = TEXTS[:2], list(CARRIER)
    answers = json.loads(RECORDING.read_text("utf-8"))["answers"]
    said = answers[key_of({"text": text, "head": head, "from": other})]["words"][0][0]
    items: list[Item] = [
        Words(LEFT, 46, "Multi-head causal attention,", "start", size=30, bold=True),
        Words(LEFT, 82, "line by line", "start", size=30, bold=True),
    ]
    size = 26.0
    end = LEFT + text_width(text, size)
    lent = end - text_width(other, 20)
    for x, y, words, letters, color in (
        (LEFT, TEXT, text, size, INK),
        (lent, LENDER, other, 20.0, FAINT),
    ):
        items.append(Words(x, y, words, "start", color, size=letters))
    middle = end - text_width("is", size) / 2
    for i in range(64):
        place = middle - 20 + 5 * (i % 8), 153 + 5 * (i // 8)
        items.append(Box(*place, 4, 4, tint(BLUE, 0.3 + i * 29 % 64 / 90)))
    wide = text_width(said, size, bold=True) + 36
    items.append(Box(end + 18, TEXT - 21, wide, 42, BLUE, radius=8))
    items.append(Words(end + 18 + wide / 2, TEXT, said, color=PAPER, size=size, bold=True))
    asked = "What did 64 numbers carry, and how did that head know where to look?"
    items.append(Words(LEFT, 278, asked, "start", FAINT, size=14))
    alt = f"“{text}” with 64 numbers of “{other}”: the model says {said}."
    return Scene(WIDE, HIGH, alt, tuple(items))
