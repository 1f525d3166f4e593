"""Read a Scene as a viewer would: what stands where, and does it fit on the sheet?"""

import io
import itertools
import math
import xml.etree.ElementTree as ET

from PIL import Image

from attncourse.pictures.letters import text_width
from attncourse.pictures.scene import Box, Item, Line, Picture, Scene, Text, with_true_minus

SVG = "{http://www.w3.org/2000/svg}"
UP, DOWN = 0.4, 0.38  # of the font size: how far letters reach from the middle of their line


def words(scene: Scene) -> list[Text]:
    """Return the lines of text, in the order of drawing."""
    return [item for item in scene.items if isinstance(item, Text)]


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
    """Assert that all stands on the sheet, in nobody's way, and in the SVG."""
    assert outside(scene) == []
    assert overlapping(scene) == []
    assert min(item.size for item in words(scene)) >= 12
    assert texts(ET.fromstring(scene.svg())) == [with_true_minus(item) for item in words(scene)]


def pixels(picture: Picture) -> Image.Image:
    """Return a picture's PNG, decoded."""
    return Image.open(io.BytesIO(picture.png())).convert("RGBA")


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
        wide = text_width(item.text, item.size, item.bold, item.mono)
        left = {"start": 0.0, "middle": -wide / 2, "end": -wide}[item.anchor]
        cos, sin = math.cos(math.radians(item.angle)), math.sin(math.radians(item.angle))
        points = [
            (item.x + x * cos + y * sin, item.y - x * sin + y * cos)
            for x in (left, left + wide)
            for y in (-UP * item.size, DOWN * item.size)
        ]
    across, down = zip(*points, strict=True)
    return (min(across), max(across)), (min(down), max(down))
