"""How wide a text is, without a font at hand: DejaVu Sans, the font of every picture."""

from __future__ import annotations

SIZE = 13.0  # of letters, unless one says otherwise: what can be read at the width of a page

# Hundredths of the font size, for the characters from space to tilde.
_REGULAR = (
    32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34,
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 53,
    100, 68, 69, 70, 77, 63, 58, 77, 75, 29, 29, 66, 56, 86, 75, 79,
    60, 79, 69, 63, 61, 73, 68, 99, 69, 61, 69, 39, 34, 39, 84, 50,
    50, 61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61,
    63, 63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84,
)  # fmt: skip
_BOLD = (
    35, 46, 52, 84, 70, 100, 87, 31, 46, 46, 52, 84, 38, 42, 38, 37,
    70, 70, 70, 70, 70, 70, 70, 70, 70, 70, 40, 40, 84, 84, 84, 58,
    100, 77, 76, 73, 83, 68, 68, 82, 84, 37, 37, 77, 64, 100, 84, 85,
    73, 85, 77, 72, 68, 81, 77, 110, 77, 72, 73, 46, 37, 46, 84, 50,
    50, 67, 72, 59, 72, 68, 44, 72, 71, 34, 34, 67, 34, 104, 71, 69,
    72, 72, 49, 60, 48, 71, 65, 92, 65, 65, 58, 71, 37, 71, 84,
)  # fmt: skip
_MONO, _OTHER = 60, 84  # every character of the mono font; a character not in the tables


def text_width(text: str, size: float = SIZE, bold: bool = False, mono: bool = False) -> float:
    """Return the width of a line of text, in pixels.

    >>> text_width("step", 10), text_width("step", 10, mono=True)
    (21.6, 24.0)
    """
    if mono:
        return _MONO * len(text) * size / 100
    table = _BOLD if bold else _REGULAR
    places = [ord(letter) - ord(" ") for letter in text]
    parts = [table[place] if 0 <= place < len(table) else _OTHER for place in places]
    return sum(parts) * size / 100


def wrap(text: str, width: float, size: float = SIZE, mono: bool = False) -> list[str]:
    """Return a text broken into lines, between words, that are no wider than this.

    >>> wrap("one two three", 50, 12)
    ['one two', 'three']
    """
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size, mono=mono) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
