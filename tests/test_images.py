"""The diagrams are what the script beside them draws, and can be read."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from itertools import combinations, pairwise

import matplotlib.image
import numpy as np
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from attnlib.pictures.scene import Line, Scene, Words
from support.notebook_tools import ROOT

IMAGES = ROOT / "images"
DIAGRAMS = runpy.run_path(str(IMAGES / "draw.py"))["DIAGRAMS"]
MARGIN, SLACK = 16, 3  # pixels; a letter may end a little before its line does

Rectangle = tuple[float, float, float, float]  # left, top, right, bottom


@pytest.fixture(scope="module", params=sorted(DIAGRAMS))
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def scene(name) -> Scene:
    return DIAGRAMS[name]()


def test_every_image_is_drawn_by_the_script():
    assert {path.name for path in IMAGES.glob("*.png")} == {f"{name}.png" for name in DIAGRAMS}


def test_it_is_as_stored_byte_for_byte(name, scene):
    stored = (IMAGES / f"{name}.png").read_bytes()
    assert stored == scene.png(), f"{name}.png differs: run `make images`"


def test_it_is_opaque_on_white_with_even_margins(name):
    pixels = matplotlib.image.imread(IMAGES / f"{name}.png")  # (height, width, RGBA), 0 to 1
    height, width, _ = pixels.shape
    assert width <= 2 * 1000
    assert (pixels[..., 3] == 1).all()
    drawn = (pixels[..., :3] < 1).any(axis=-1)
    rows, columns = np.flatnonzero(drawn.any(axis=1)), np.flatnonzero(drawn.any(axis=0))
    ends = (columns[0], width - 1 - columns[-1], rows[0], height - 1 - rows[-1])
    margins = [end / 2 for end in ends]
    assert all(abs(margin - MARGIN) <= SLACK for margin in margins), margins


def test_its_words_can_be_read(scene):
    assert len(scene.alt) > 100
    words = [(item, *outline(item)) for item in scene.items if isinstance(item, Words)]
    for item, left, top, right, bottom in words:
        assert item.size >= 10, item.text
        inside = left >= 0 and top >= 0 and right <= scene.width and bottom <= scene.height
        assert inside, f"{item.text} is cut off"
    for (a, *first), (b, *second) in combinations(words, 2):
        assert not overlap(first, second), f"{a.text} overlaps {b.text}"


def test_no_line_crosses_words(scene):
    words = [(item.text, outline(item)) for item in scene.items if isinstance(item, Words)]
    for line in (item for item in scene.items if isinstance(item, Line)):
        for point in points(line):
            for text, place in words:
                assert not overlap((*point, *point), place), f"a line crosses {text}"


def outline(words: Words) -> Rectangle:
    """Return the rectangle that the letters fill."""
    font = FontProperties(
        family="DejaVu Sans Mono" if words.mono else "DejaVu Sans",
        weight="bold" if words.bold else "normal",
    )
    box = TextPath((0, 0), words.text, words.size, prop=font).get_extents()
    width, rise, drop = box.x1, box.y1, -box.y0
    ahead = {"start": 0.0, "middle": width / 2, "end": width}[words.anchor]
    base = 0.36 * words.size
    if words.angle == 90:
        left, right = words.x + base - rise, words.x + base + drop
        return left, words.y + ahead - width, right, words.y + ahead
    assert words.angle == 0
    left, base = words.x - ahead, words.y + base
    return left, base - rise, left + width, base + drop


def overlap(a: Rectangle, b: Rectangle, gap: float = 2.0) -> bool:
    """Say whether two rectangles come nearer to each other than the gap."""
    across = min(a[2], b[2]) - max(a[0], b[0]) > -gap
    return across and min(a[3], b[3]) - max(a[1], b[1]) > -gap


def points(line: Line) -> Iterator[tuple[float, float]]:
    """Yield points along a line, closer to each other than any letter is wide."""
    for start, end in pairwise(line.points):
        yield from zip(*np.linspace(start, end, 200).T.tolist(), strict=True)
