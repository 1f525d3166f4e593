"""The colours of the course: a head has the same colour in every diagram, figure and slider."""

from __future__ import annotations

# Okabe and Ito's colour-blind-safe set, then a darker shade of four of them.
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
# What a page turns light or dark, and what it is on white paper.
THEME = {
    "ink": "#1f2328",
    "faint": "#8b949e",
    "paper": "#ffffff",
    "quiet": "#eef1f4",
    "hatch": "#c4cbd3",
    "marked": "#fff3b0",
}
INK, FAINT, PAPER, QUIET, HATCH, MARKED = THEME

# ColorBrewer YlGnBu for weights (0 to 1), RdBu for signed values (-1 to 1).
_WEIGHTS = ("#ffffd9", "#edf8b1", "#c7e9b4", "#7fcdbb", "#41b6c4", "#1d91c0", "#225ea8", "#0c2c84")
_SIGNED = ("#b2182b", "#ef8a62", "#fddbc7", "#f7f7f7", "#d1e5f0", "#67a9cf", "#2166ac")


def head_color(head: int) -> str:
    """Return the colour of a head, counted from 0; the thirteenth has the first one's again."""
    return HEAD_COLORS[head % len(HEAD_COLORS)]


def weight_color(weight: float) -> str:
    """Return the colour of an attention weight: 0 pale yellow, 1 dark blue, everywhere."""
    return _between(_WEIGHTS, weight)


def signed_color(value: float, largest: float) -> str:
    """Return the colour of a value: -largest red, 0 near white, +largest blue."""
    return _between(_SIGNED, 0.5 + 0.5 * value / largest if largest else 0.5)


def tint(color: str, strength: float) -> str:
    """Mix a colour with white: strength 1 is the colour itself, 0 is white."""
    return _mix(PAPER, color, strength)


def text_color(background: str) -> str:
    """Return black or white, whichever reads better on the background; ink on the page's own."""
    if background in THEME:
        return INK
    red, green, blue = _channels(background)
    return THEME[INK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else PAPER]


def on_white(color: str) -> str:
    """Return a colour as hexadecimal: those of the theme as they are on white paper."""
    return THEME.get(color, color)


def in_page(color: str) -> str:
    """Return a colour as CSS: those of the theme as variables, which the page around sets."""
    return f"var(--attn-{color})" if color in THEME else color


def _between(stops: tuple[str, ...], share: float) -> str:
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    below = min(int(place), len(stops) - 2)
    return _mix(stops[below], stops[below + 1], place - below)


def _mix(first: str, second: str, share: float) -> str:
    pairs = zip(_channels(first), _channels(second), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _channels(color: str) -> tuple[int, int, int]:
    color = on_white(color)
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
