"""How wide a text is, without a font at hand.

The widths are those of DejaVu Sans, the widest font that a page may use. Inter, which the book
and all PNGs use, is narrower.
"""

from __future__ import annotations

import json
from pathlib import Path

SIZE = 13.0  # of letters, unless one says otherwise: what can be read at the width of a page

# Hundredths of the font size, for the characters from space to tilde.
_WIDTHS: dict[str, list[int]]
_WIDTHS = json.loads(Path(__file__).with_name("letters.json").read_text("utf-8"))
_MONO, _OTHER = 60, 84  # every character of the mono font; a character not in the tables


def text_width(text: str, size: float = SIZE, bold: bool = False, mono: bool = False) -> float:
    """Return the width of a line of text, in pixels.

    >>> text_width("step", 10), text_width("step", 10, mono=True)
    (21.6, 24.0)
    """
    if mono:
        return _MONO * len(text) * size / 100
    table = _WIDTHS["bold" if bold else "regular"]
    places = [ord(letter) - ord(" ") for letter in text]
    parts = [table[place] if 0 <= place < len(table) else _OTHER for place in places]
    return sum(parts) * size / 100
