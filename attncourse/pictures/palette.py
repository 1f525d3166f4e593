"""The colors of the course: a head has the same color in every diagram, figure and slider."""

from __future__ import annotations

from functools import lru_cache

# Okabe and Ito's color-blind-safe set, then a darker shade of four of them.
HEAD_COLORS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#D55E00",
    "#56B4E9",
    "#B8A800",
    "#8C8C8C",
    "#003F63",
    "#7A5400",
    "#005740",
    "#7B3F60",
)
# Of three heads a line is darker than a cell: else it could hardly be seen on white.
LINE_COLORS = {"#E69F00": "#c18600", "#56B4E9": "#309fbf", "#B8A800": "#a29400"}
# What a page turns light or dark, and what it is on white paper.
THEME = {
    "ink": "#1f2328",
    "faint": "#5f6873",
    "paper": "#ffffff",
    "quiet": "#e6eaee",
    "hatch": "#8b949e",
    "marked": "#fff3b0",
}
WRONG = "#c0002a"  # what frames a cell or a line that must not be as it is
INK, FAINT, PAPER, QUIET, HATCH, MARKED = THEME

DARK_PAPER = "#16191d"


class ThemedColor(str):
    """A color on white paper that has another on a dark page: there, 0 is the paper too."""

    dark: str

    def __new__(cls, light: str, dark: str) -> ThemedColor:
        """Make a string, the color on white, that carries the one on a dark page."""
        color = super().__new__(cls, light)
        color.dark = dark
        return color


POSITIVE, NEGATIVE = "#2166ac", "#b2182b"  # ends of ColorBrewer's RdBu


def head_color(head: int) -> str:
    """Return the color of a head, counted from 0; the thirteenth has the first one's again."""
    return HEAD_COLORS[head % len(HEAD_COLORS)]


def line_color(color: str) -> str:
    """Return the color of a line or another thin mark, whose contrast on white is 3 at least."""
    return LINE_COLORS.get(color, color)


def weight_color(weight: float, head: int = 0) -> str:
    """Return the color of an attention weight: 0 the paper, 1 the color of its head, everywhere."""
    return tint(head_color(head), min(max(weight, 0.0), 1.0))


def amount_color(share: float) -> str:
    """Return the color of an amount that is no weight: 0 white, 1 dark gray."""
    return tint(FAINT, min(max(share, 0.0), 1.0))


def signed_color(value: float, largest: float) -> str:
    """Return the color of a value: -largest red, 0 the paper, +largest blue."""
    return tint(POSITIVE if value > 0 else NEGATIVE, min(abs(value) / largest, 1.0))


def tint(color: str, strength: float) -> ThemedColor:
    """Mix a color with the paper: strength 1 is the color itself, 0 is the paper."""
    bright = _mix(color, PAPER, max(0.0, 0.8 - 4 * _luminance(color)))  # a dark one would sink
    share = round(strength, 2)  # nobody sees more, and a page has few colors to load
    return ThemedColor(_mix(PAPER, color, share), _mix(DARK_PAPER, bright, share))


def text_color(background: str) -> str:
    """Return ink, white or black with a contrast of 4.5 at least; ink on the page's own colors."""
    if background in THEME:
        return INK
    light = _text_on(background)
    return (
        ThemedColor(light, _text_on(background.dark))
        if isinstance(background, ThemedColor)
        else light
    )


@lru_cache(maxsize=4096)  # a picture of many cells has few colors
def _text_on(background: str) -> str:
    inks = sorted((THEME[INK], THEME[PAPER]), key=lambda text: -contrast(text, background))
    return inks[0] if contrast(inks[0], background) >= 4.5 else "#000000"


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colors, from 1 to 21, as WCAG 2 defines it.

    >>> round(contrast("#ffffff", "#767676"), 2)
    4.54
    """
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    shares = [channel / 255 for channel in _channels(color)]
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def hex_color(color: str) -> str:
    """Return a color as hexadecimal: those of the theme as they are on white paper."""
    return THEME.get(color, color)


def css_color(color: str) -> str:
    """Return a color as CSS: those of the theme as variables, which the page around sets."""
    if isinstance(color, ThemedColor):
        return f"light-dark({color},{color.dark})" if color != color.dark else str(color)
    return f"var(--attn-{color})" if color in THEME else color


def _mix(first: str, second: str, share: float) -> str:
    red, green, blue = (
        round(a + (b - a) * share) for a, b in zip(_channels(first), _channels(second), strict=True)
    )
    return f"#{red:02x}{green:02x}{blue:02x}"


@lru_cache(maxsize=4096)
def _channels(color: str) -> tuple[int, int, int]:
    color = hex_color(color)
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
