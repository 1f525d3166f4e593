"""A picture as plain data: boxes, words and lines, in pixels, the origin at the top left.

A scene is drawn as SVG. A notebook stores a PNG, which is rendered from that SVG.
"""

from __future__ import annotations

import base64
import html
import io
import json
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, Self

import resvg_py

from attncourse.pictures.letters import SIZE
from attncourse.pictures.palette import HATCH, INK, PAPER, css_color, hex_color, line_color

FONT = "DejaVu Sans, Verdana, Geneva, sans-serif"
MONO = "JetBrains Mono, DejaVu Sans Mono, Menlo, Consolas, monospace"
FONT_FILES = [str(path) for path in sorted(Path(__file__).with_name("fonts").glob("*.ttf"))]

PAGE_WIDTH = 700.0  # pixels: the width of a page; a wider picture is shrunk to it


class Box(NamedTuple):
    """A rectangle; hatching means that there is no value here.

    Who must find it again in its scene gives it a name.
    """

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    stroke_width: float = 1.0
    radius: float = 0.0
    hatched: bool = False
    name: str = ""


class Text(NamedTuple):
    """A line of text, centered on its height at (x, y)."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "middle"
    color: str = INK
    size: float = SIZE
    bold: bool = False
    mono: bool = False
    angle: float = 0.0  # degrees, counter-clockwise


class Line(NamedTuple):
    """A straight or broken line through points, or the filled shape that they enclose."""

    points: tuple[tuple[float, float], ...]
    stroke: str | None = INK
    width: float = 1.5
    fill: str | None = None
    dashed: bool = False
    opacity: float = 1.0


Item = Box | Text | Line


class Picture:
    """What a notebook shows as a PNG with an alt text."""

    width: float
    height: float
    alt: str

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name} {self.width:.0f} x {self.height:.0f}: {self.alt}>"

    def png(self) -> bytes:
        """Return the picture as a PNG file, with two dots per pixel."""
        raise NotImplementedError

    def described(self, name: str) -> Self:
        """Return the same picture with an alt text of the course.

        Args:
            name: of a text in descriptions.json, where each lesson has its group.

        Raises:
            ValueError: no text has this name.
        """
        if name not in (texts := _descriptions()):
            raise ValueError(f"name must be one of descriptions.json, got {name!r}: add it there")
        return replace(self, alt=texts[name])  # type: ignore[type-var]  # all are dataclasses

    def _repr_html_(self) -> str:
        """Return the PNG with its alt text, because a notebook keeps none beside an image/png."""
        data = base64.b64encode(_small_png(self)).decode("ascii")
        alt = html.escape(self.alt)
        return f'<img width="{self.width:.0f}" alt="{alt}" src="data:image/png;base64,{data}">'

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        return _small_png(self), {"width": round(self.width), "height": round(self.height)}


@lru_cache(maxsize=1)
def _descriptions() -> dict[str, str]:
    """Return the alt texts of all lessons by their names."""
    groups = json.loads(Path(__file__).with_name("descriptions.json").read_text("utf-8"))
    return {name: text for group in groups.values() for name, text in group.items()}


@lru_cache(maxsize=4)  # a notebook asks twice: for image/png, and for text/html with the alt text
def _small_png(picture: Picture) -> bytes:
    """Return the PNG with at most 256 colors, because a notebook stores it twice."""
    from PIL import Image  # sliders need no PNG

    file = io.BytesIO()
    image = Image.open(io.BytesIO(picture.png())).convert("RGB")
    few = image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(file, format="png", optimize=True)
    return file.getvalue()


@dataclass(frozen=True, repr=False)
class Scene(Picture):
    """Items on a white sheet, with an alt text."""

    width: float
    height: float
    alt: str
    items: tuple[Item, ...]

    def boxes_named(self, name: str) -> list[Box]:
        """Return the boxes of this name, in the order of drawing."""
        return [item for item in self.items if isinstance(item, Box) and item.name == name]

    def svg(self) -> str:
        """Return the scene as one SVG element; the page around it sets its colors."""
        return self._drawn(css_color)

    def png(self, scale: float = 2.0) -> bytes:
        """Return the scene as a PNG file with `scale` dots per pixel, on white paper."""
        return resvg_py.svg_to_bytes(
            svg_string=self._drawn(hex_color),
            background=hex_color(PAPER),
            zoom=scale,
            skip_system_fonts=True,  # with the course's own fonts, every machine draws the same
            font_files=FONT_FILES,
            sans_serif_family="Inter",
        )

    def _drawn(self, color: Callable[[str], str]) -> str:
        size = f'width="{self.width:g}" height="{self.height:g}"'
        view = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        style = f'font-family="{FONT}" style="background:{color(PAPER)}"'
        items = "".join(_svg(item, color) for item in self.items)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} {style} role="img" '
            f'aria-label="{html.escape(self.alt)}">{items}</svg>'
        )


def shift(items: Sequence[Item], x: float, y: float) -> list[Item]:
    """Return the items shifted to the right by x and down by y."""
    return [
        item._replace(points=tuple((px + x, py + y) for px, py in item.points))
        if isinstance(item, Line)
        else item._replace(x=item.x + x, y=item.y + y)
        for item in items
    ]


def arrange_in_rows(*scenes: Scene, width: float = PAGE_WIDTH, gap: float = 24.0) -> Scene:
    """Put scenes next to each other as long as they fit into the width, then below each other."""
    items: list[Item] = []
    x = y = high = right = 0.0
    for scene in scenes:
        if x + scene.width > width and x > 0:
            x, y = 0.0, y + high + gap
            high = 0.0
        items += shift(scene.items, x, y)
        high, right = max(high, scene.height), max(right, x + scene.width)
        x += scene.width + gap
    return Scene(right, y + high, " ".join(scene.alt for scene in scenes), tuple(items))


def frame(x: float, y: float, width: float, height: float, wide: float = 2.5) -> list[Item]:
    """Return a frame that is seen around any color, on light paper and on dark: it has an edge."""
    inside = (x + wide, y + wide, width - 2 * wide, height - 2 * wide)
    return [
        Box(*inside, stroke=PAPER, stroke_width=2.0),
        Box(x, y, width, height, stroke=INK, stroke_width=wide),
    ]


def add_caption(scene: Scene, line: str) -> Scene:
    """Put a line of text, broken where it must be, above a scene and into its alt text."""
    width = max(scene.width, 260.0)
    lines = [
        Text(4, SIZE + 1.4 * SIZE * i, part, "start")
        for i, part in enumerate(textwrap.wrap(line, int(width / 7)))
    ]
    y = lines[-1].y + 1.4 * SIZE
    items = (*lines, *shift(scene.items, 0, y))
    return Scene(width, y + scene.height, f"{line.removesuffix('.')}. {scene.alt}", items)


def _hatching(box: Box) -> list[Line]:
    """Return the diagonal lines of a box, none if it is not hatched."""
    lines = []
    for i in range(1, math.ceil((box.width + box.height) / 6) if box.hatched else 0):
        x0, x1 = min(6.0 * i, box.width), max(0.0, 6.0 * i - box.height)
        ends = ((box.x + x0, box.y + 6.0 * i - x0), (box.x + x1, box.y + 6.0 * i - x1))
        lines.append(Line(ends, HATCH, 1.0))
    return lines


def _svg(item: Item, color: Callable[[str], str]) -> str:
    """Return an item as SVG, its colors in the spelling that color() gives them."""
    match item:
        case Box(x, y, width, height):
            radius = f' rx="{item.radius:g}"' if item.radius else ""
            paint = _paint(item, item.stroke_width, color)
            box = (
                f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"{radius} {paint}/>'
            )
            return box + "".join(_svg(line, color) for line in _hatching(item))
        case Line():
            path = "M" + "L".join(f"{x:g} {y:g}" for x, y in item.points)
            closed = "Z" if item.fill else ""
            dashes = ' stroke-dasharray="5 4"' if item.dashed else ""
            opacity = f' opacity="{item.opacity:g}"' if item.opacity < 1 else ""
            return f'<path d="{path}{closed}" {_paint(item, item.width, color)}{dashes}{opacity}/>'
        case Text():
            anchor = f' text-anchor="{item.anchor}"' if item.anchor != "start" else ""
            weight = ' font-weight="bold"' if item.bold else ""
            family = f' font-family="{MONO}"' if item.mono else ""
            turn = (
                f' transform="rotate({-item.angle:g} {item.x:g} {item.y:g})"' if item.angle else ""
            )
            spaced = ' xml:space="preserve"' if item.text != " ".join(item.text.split()) else ""
            return (
                f'<text x="{item.x:g}" y="{item.y + 0.36 * item.size:g}" '
                f'font-size="{item.size:g}" fill="{color(item.color)}"'
                f"{anchor}{weight}{family}{turn}{spaced}>{html.escape(with_true_minus(item))}</text>"
            )


def with_true_minus(words: Text) -> str:
    """Return a line as it is drawn: a negative number in a matrix has a true minus sign.

    In the mono font a minus sign is as wide as a hyphen.

    >>> [with_true_minus(Text(0, 0, said, mono=True)) for said in ("-0.50", "x[-1]")]
    ['−0.50', 'x[-1]']
    """
    negative = words.mono and re.fullmatch(r"-([\d.]+|inf)", words.text)
    return words.text.replace("-", "−") if negative else words.text


def _paint(item: Box | Line, width: float, color: Callable[[str], str]) -> str:
    """Return the fill and the outline of a shape; SVG's default width of a line is 1."""
    fill = f'fill="{color(item.fill or "none")}"'
    if not item.stroke:
        return fill
    wide = f' stroke-width="{width:g}"' if width != 1 else ""
    return f'{fill} stroke="{color(line_color(item.stroke))}"{wide}'
