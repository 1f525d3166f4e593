"""Read a Scene as a viewer would: what stands where, and does it fit on the sheet?"""

import io
import itertools
import math
import xml.etree.ElementTree as ET
from functools import cache

import torch
from matplotlib.font_manager import FontProperties, findfont, get_font
from PIL import Image
from torch import Tensor

from attncourse.pictures.scene import Box, Item, Line, Scene, Words, typeset
from attnlib import causal_mask

SVG = "{http://www.w3.org/2000/svg}"


def numbers(*shape: int, seed: int = 2) -> Tensor:
    """Return random numbers, the same for the same seed."""
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def causal_weights(*heads: int, size: int = 5) -> Tensor:
    """Return causal weights, no two alike."""
    scores = numbers(*heads, size, size, seed=1)
    return torch.softmax(scores.masked_fill(causal_mask(size), -torch.inf), dim=-1)


def words(scene: Scene) -> list[Words]:
    """Return the lines of text, in the order of drawing."""
    return [item for item in scene.items if isinstance(item, Words)]


def boxes(scene: Scene, width: float, height: float) -> list[Box]:
    """Return the boxes of one size, in the order of drawing."""
    found = [item for item in scene.items if isinstance(item, Box)]
    return [box for box in found if (box.width, box.height) == (width, height)]


def text_in(scene: Scene, box: Box) -> str | None:
    """Return the text that stands in a box, None if there is none."""
    inside = [
        item.text
        for item in words(scene)
        if box.x < item.x < box.x + box.width and box.y < item.y < box.y + box.height
    ]
    assert len(inside) < 2, f"several texts in one box: {inside}"
    return inside[0] if inside else None


def texts(svg: ET.Element) -> list[str]:
    """Return the texts of an SVG."""
    return [node.text or "" for node in svg.iter(f"{SVG}text")]


def check_readable(scene: Scene) -> None:
    """Assert that all stands on the sheet, in nobody's way, and in the SVG; and what is seen."""
    assert outside(scene) == []
    assert overlapping(scene) == []
    assert min(item.size for item in words(scene)) >= 13
    assert texts(ET.fromstring(scene.svg())) == [typeset(item) for item in words(scene)]
    assert scene.alt.endswith(".")


def pixels(scene: Scene, scale: float = 1.0) -> Image.Image:
    """Return a scene's PNG, decoded."""
    return Image.open(io.BytesIO(scene.png(scale))).convert("RGBA")


def outside(scene: Scene, slack: float = 1.0) -> list[Item]:
    """Return the items that stand out over the sheet, by more than the slack in pixels."""
    limits = ((-slack, scene.width + slack), (-slack, scene.height + slack))
    return [
        item
        for item in scene.items
        for extent, (low, high) in [*zip(extents(item), limits, strict=True)]
        if not low <= extent[0] <= extent[1] <= high
    ]


def overlapping(scene: Scene) -> list[tuple[str, str]]:
    """Return the pairs of texts, of those that are not turned, that stand in each other's way."""
    placed = [(item.text, *extents(item)) for item in words(scene) if not item.angle]
    return [
        (one, other)
        for (one, *first), (other, *second) in itertools.combinations(placed, 2)
        if all(a[0] < b[1] and b[0] < a[1] for a, b in zip(first, second, strict=True))
    ]


def extents(item: Item) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return from where to where an item reaches, across and down."""
    if isinstance(item, Line):
        points = list(item.points)
    elif isinstance(item, Box):
        points = [(item.x, item.y), (item.x + item.width, item.y + item.height)]
    else:
        right, up, down = size_of(item.text, item.size, item.bold, item.mono)
        shift = {"start": 0.0, "middle": -right / 2, "end": -right}[item.anchor]
        baseline = 0.36 * item.size
        turn = math.radians(item.angle)
        points = [
            (
                item.x + x * math.cos(turn) + y * math.sin(turn),
                item.y - x * math.sin(turn) + y * math.cos(turn),
            )
            for x in (shift, right + shift)
            for y in (baseline - up, baseline - down)
        ]
    across, down_ = zip(*points, strict=True)
    return (min(across), max(across)), (min(down_), max(down_))


def size_of(text: str, size: float, bold: bool, mono: bool) -> tuple[float, float, float]:
    """Return how far a text reaches to the right, up and down from where it starts."""
    letters = [letter_size(letter, bold, mono) for letter in text]
    across, up, down = zip(*letters, strict=True) if letters else ((0.0,), (0.0,), (0.0,))
    return sum(across) * size, max(up) * size, min(down) * size


@cache
def letter_size(letter: str, bold: bool, mono: bool) -> tuple[float, float, float]:
    """Return the same of a single letter, in units of the font size."""
    family = "DejaVu Sans Mono" if mono else "DejaVu Sans"
    font = get_font(findfont(FontProperties(family=family, weight="bold" if bold else "normal")))
    font.set_size(100, 72)
    glyph = font.load_char(ord(letter))
    _, low, _, high = glyph.bbox
    return glyph.linearHoriAdvance / 65536 / 100, high / 64 / 100, low / 64 / 100
