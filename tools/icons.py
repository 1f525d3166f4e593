"""Draw a small picture for each lesson, for the cards on the book's first page.

Their colors are the page's, by class: a and b are two heads, quiet is what is not seen (book.css).
"""

from __future__ import annotations

from collections.abc import Callable

Kind = Callable[[int, int], str]  # of the square in a row and a column

TOKENS = 24, 52, 80, 108, 136  # where the words of a sentence are
WORDS = 74
POINTS_ON = '<path class="line" d="M74 42h22m-6-5 6 5-6 5"/>'


def icon(lesson: int) -> str:
    """Return the picture of a lesson, from 1 to 9, as SVG that no screen reader reads out."""
    first = rome, two_looks, one_head_of_three, regrouped, two_masks
    inside = (*first, leak, tiles, circuit, turned)[lesson - 1]()
    return f'<svg class="icon" viewBox="0 0 160 84" aria-hidden="true">{inside}</svg>'


def rome() -> str:
    """Return a sentence in which a word looks at the one before, and the numbers it hands over."""
    numbers = squares(lambda i, j: f"a{(3 * i + 5 * j) % 3}", (4, 4), (125, 2), size=5, gap=1)
    return words(WORDS) + arc(0, 4, "a thin") + arc(3, 4, "a thick") + numbers


def two_looks() -> str:
    """Return a sentence in which two heads look at two words."""
    return words(WORDS) + arc(1, 4, "a thick") + arc(3, 4, "b thick")


def one_head_of_three() -> str:
    """Return a matrix whose columns belong to heads, and the map of one head."""
    matrix = "".join(
        squares(lambda *_, kind=kind: kind, (2, 3), (28 + 36 * head, 6), size=9)
        for head, kind in enumerate(("quiet", "a1", "quiet"))
    )
    wedge = '<path class="a0" d="M64 28h30L99 38H59z"/>'
    return matrix + wedge + squares(past("a1", "quiet"), (4, 4), (59, 38), size=8.9)


def regrouped() -> str:
    """Return a matrix whose columns become two heads; one number is followed."""
    before = squares(
        lambda i, j: "ink" if (i, j) == (1, 2) else "ab"[j // 2] + "1", (4, 4), (16, 16)
    )
    above = squares(lambda *_: "a1", (4, 2), (112, 4), size=8)
    below = squares(lambda i, j: "ink" if (i, j) == (1, 0) else "b1", (4, 2), (112, 44), size=8)
    return before + POINTS_ON + above + below


def two_masks() -> str:
    """Return two maps: what one mask shows, the other hides."""
    left = squares(past("a1", "quiet"), (5, 5), (10, 11), size=11)
    return left + squares(past("quiet", "b1"), (5, 5), (88, 11), size=11)


def leak() -> str:
    """Return a map in which each word looks at the one after it."""
    kind = lambda i, j: "wrong" if j == i + 1 else past("a1", "quiet")(i, j)  # noqa: E731
    return squares(kind, (6, 6), (47, 9), size=9.5)


def tiles() -> str:
    """Return the tiles of a map, and the one that is near."""
    kind = lambda i, j: "a2" if (i, j) == (2, 1) else past("a1", "quiet")(i, j)  # noqa: E731
    box = '<rect class="ring" x="106" y="23" width="38" height="38" rx="5"/>'
    return (
        squares(kind, (4, 4), (12, 15))
        + POINTS_ON
        + box
        + squares(lambda *_: "a2", (1, 1), (119, 36))
    )


def circuit() -> str:
    """Return two layers: what a head writes in one, a head of the next finds."""
    write = '<path class="b thick" d="M52 67v-3q0-9 14-9t14 9v3"/>'
    read = '<path class="a thick" d="M80 33v-6q0-14 28-14t28 14v6"/>'
    stream = '<path class="line" d="M80 76V42"/>'
    return stream + words(76) + words(42) + write + read


def turned() -> str:
    """Return two arrows at two positions: both are turned, their angle stays."""
    arrows = '<path class="a thick" d="M0 0V-21"/><path class="b thick" d="M0 0 15-14"/>'
    clock = f'<circle class="ring" r="31"/>{arrows}'
    return "".join(
        f'<g transform="translate({x} 42) rotate({degrees})">{clock}</g>'
        for x, degrees in ((42, -25), (118, 95))
    )


def words(y: float) -> str:
    """Return the words of a sentence as points."""
    return "".join(f'<circle class="ink" cx="{x}" cy="{y}" r="3.2"/>' for x in TOKENS)


def arc(key: int, query: int, kind: str) -> str:
    """Return an arc over the words from one to another."""
    x, far = TOKENS[key], TOKENS[query] - TOKENS[key]
    high = min(14 + 0.35 * far, 58)
    return f'<path class="{kind}" d="M{x} {WORDS - 8}c0-{high:g} {far}-{high:g} {far} 0"/>'


def past(seen: str, hidden: str) -> Kind:
    """Return the kinds of a map whose future is hidden."""
    return lambda i, j: seen if j <= i else hidden


def squares(
    kind: Kind, count: tuple[int, int], at: tuple[float, float], size: float = 12, gap: float = 1.5
) -> str:
    """Return rows and columns of squares, each of its kind."""
    side, step = f'width="{size:g}" height="{size:g}" rx="1.5"', size + gap
    return "".join(
        f'<rect class="{kind(i, j)}" x="{at[0] + j * step:g}" y="{at[1] + i * step:g}" {side}/>'
        for i in range(count[0])
        for j in range(count[1])
    )
