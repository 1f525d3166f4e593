"""The diagrams are what the script beside them draws, and can be read."""

import runpy
from itertools import combinations, pairwise

import numpy as np
import pytest
from PIL import Image

from attncourse.pictures.palette import head_color, tint
from attncourse.pictures.scene import BOOK, Box, Item, Line, Scene, Words, shift
from support.notebook_tools import ROOT
from support.pictures import alike, check_readable, extents, pixels, words

IMAGES = ROOT / "images"
DIAGRAMS = runpy.run_path(str(IMAGES / "draw.py"))["DIAGRAMS"]
MARGIN, SLACK = 16, 3  # pixels; a letter may end a little before its line does
GAP = 2.0  # what is nearer than that touches

Extents = tuple[tuple[float, float], tuple[float, float]]  # across and down


@pytest.fixture(scope="module", params=sorted(DIAGRAMS))
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def scene(name) -> Scene:
    return DIAGRAMS[name]()


def test_every_image_is_drawn_by_the_script():
    assert {path.name for path in IMAGES.glob("*.png")} == {f"{name}.png" for name in DIAGRAMS}


def test_it_is_as_stored(name, scene):
    """Pixel by pixel: the bytes of the file depend on the builds of zlib and matplotlib too."""
    assert alike(stored(name), pixels(scene, 2.0)), f"{name}.png differs: run `make images`"


@pytest.mark.parametrize(
    ("item", "changed"),
    [
        (Words(0, 0, "with", size=12), {"text": "wlth"}),
        (Words(0, 0, "0.43", size=12), {"text": "0.48"}),
        (Words(0, 0, "step", size=12), {"y": 6.0}),
        (Box(0, 0, 20, 20, tint(head_color(0), 0.32)), {"fill": tint(head_color(0), 0.4)}),
        (Box(0, 0, 20, 20, "#ffffff", "#c8cdd2", hatched=True), {"hatched": False}),
    ],
)
def test_a_small_change_is_noticed(item, changed):
    """One letter, one digit, a place, a shade, hatching."""
    before, after = on_a_sheet(item), on_a_sheet(item._replace(**changed))
    assert alike(before, before)
    assert not alike(before, after)


def test_it_is_opaque_on_white_with_even_margins(name):
    image = np.asarray(stored(name))  # (height, width, RGBA)
    height, width, _ = image.shape
    assert width <= 2 * 1000
    assert (image[..., 3] == 255).all()
    drawn = (image[..., :3] < 255).any(axis=-1)
    rows, columns = np.flatnonzero(drawn.any(axis=1)), np.flatnonzero(drawn.any(axis=0))
    ends = (columns[0], width - 1 - columns[-1], rows[0], height - 1 - rows[-1])
    margins = [end / 2 for end in ends]
    assert all(abs(margin - MARGIN) <= SLACK for margin in margins), margins


def test_its_words_can_be_read(scene):
    assert len(scene.alt) > 100
    assert scene.width == BOOK  # a page shows it as large as it is drawn
    check_readable(scene)
    for (a, first), (b, second) in combinations([(w.text, extents(w)) for w in words(scene)], 2):
        assert not overlap(first, second), f"{a} overlaps {b}"


def test_no_line_crosses_words(scene):
    said = words(scene)
    low, high = np.array([extents(item) for item in said]).transpose(2, 0, 1)  # each (words, 2)
    for line in (item for item in scene.items if isinstance(item, Line)):
        at = points(line)[:, None]  # (points, 1, 2)
        near = (np.minimum(at, high) - np.maximum(at, low) > -GAP).all(axis=-1).any(axis=0)
        crossed = [item.text for item, hit in zip(said, near, strict=True) if hit]
        assert not crossed, f"a line crosses {crossed}"


def stored(name: str) -> Image.Image:
    return Image.open(IMAGES / f"{name}.png").convert("RGBA")


def on_a_sheet(item: Item) -> Image.Image:
    return pixels(Scene(80, 40, "One item.", tuple(shift([item], 30, 15))), 2.0)


def overlap(one: Extents, other: Extents) -> bool:
    """Return whether two rectangles are nearer to each other than the gap."""
    pairs = zip(one, other, strict=True)
    return all(min(a[1], b[1]) - max(a[0], b[0]) > -GAP for a, b in pairs)


def points(line: Line) -> np.ndarray:
    """Return 200 points of each part of a line, one a row."""
    return np.concatenate([np.linspace(*ends, 200) for ends in pairwise(line.points)])
