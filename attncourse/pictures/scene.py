"""A picture as plain data: boxes, words and lines, in pixels, the origin at the top left.

The same data is drawn in two ways: as a PNG (by matplotlib) for figures stored in a notebook, and
as an SVG for sliders, where a new picture must appear at once.
"""

from __future__ import annotations

import base64
import html
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor

from attncourse.pictures.letters import SIZE, wrap
from attncourse.pictures.palette import HATCH, INK, PAPER, in_page, line_color, on_white

if TYPE_CHECKING:  # matplotlib is loaded when the first PNG is drawn
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.path import Path as Outline
    from matplotlib.text import Text
    from matplotlib.transforms import Affine2D
    from PIL import Image

FONT = "DejaVu Sans, Verdana, Geneva, sans-serif"
MONO = "JetBrains Mono, DejaVu Sans Mono, Menlo, Consolas, monospace"
ALIGNMENT: dict[str, Literal["left", "center", "right"]]
ALIGNMENT = {"start": "left", "middle": "center", "end": "right"}

BOOK = 700.0  # pixels: the width of a page; a wider picture is shrunk to it
MANY = 50  # boxes of one size, one after the other, are drawn together


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


class Words(NamedTuple):
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


Item = Box | Words | Line


@dataclass(frozen=True)
class Scene:
    """Items on a white sheet, with an alt text."""

    width: float
    height: float
    alt: str
    items: tuple[Item, ...]

    def __repr__(self) -> str:
        return f"<Scene {self.width:.0f} x {self.height:.0f}: {self.alt}>"

    def described(self, name: str, **facts: object) -> Scene:
        """Return the same picture with an alt text of the course.

        Args:
            name: of a text in descriptions.json, where each lesson has its group.
            facts: what stands in braces in the text.

        Raises:
            ValueError: no text has this name.
        """
        if name not in (texts := _descriptions()):
            raise ValueError(f"name must be one of descriptions.json, got {name!r}: add it there")
        return replace(self, alt=texts[name].format(**facts))

    def named(self, name: str) -> list[Box]:
        """Return the boxes of this name, in the order of drawing."""
        return [item for item in self.items if isinstance(item, Box) and item.name == name]

    def svg(self) -> str:
        """Return the scene as one SVG element; its ink and paper are variables of the page."""
        size = f'width="{self.width:g}" height="{self.height:g}"'
        view = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        style = f'font-family="{FONT}" style="background:{in_page(PAPER)}"'
        alt = html.escape(self.alt)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} {style} role="img" '
            f'aria-label="{alt}">' + "".join(map(_svg, _gathered(self.items))) + "</svg>"
        )

    def png(self, scale: float = 2.0) -> bytes:
        """Return the scene as a PNG file with `scale` dots per pixel."""
        file = io.BytesIO()
        _image(self, scale).save(file, format="png", dpi=(72 * scale, 72 * scale))
        return file.getvalue()

    def _repr_html_(self) -> str:
        """Return the PNG with its alt text: a notebook keeps none beside an image/png."""
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


def shift(items: Sequence[Item], x: float, y: float) -> list[Item]:
    """Return the items shifted to the right by x and down by y."""
    found: list[Item] = []
    for item in items:
        match item:
            case Line():
                points = tuple((px + x, py + y) for px, py in item.points)
                found.append(item._replace(points=points))
            case Box():  # quicker than _replace, and there are thousands
                found.append(Box(item.x + x, item.y + y, *item[2:]))
            case Words():
                found.append(Words(item.x + x, item.y + y, *item[2:]))
    return found


def beside(*scenes: Scene, gap: float = 24.0) -> Scene:
    """Put scenes next to each other, their tops aligned."""
    items: list[Item] = []
    x = 0.0
    for scene in scenes:
        items += shift(scene.items, x, 0)
        x += scene.width + gap
    height = max(scene.height for scene in scenes)
    return Scene(x - gap, height, " ".join(scene.alt for scene in scenes), tuple(items))


def above(*scenes: Scene, gap: float = 16.0) -> Scene:
    """Put scenes one above the other, their left sides aligned."""
    items: list[Item] = []
    y = 0.0
    for scene in scenes:
        items += shift(scene.items, 0, y)
        y += scene.height + gap
    width = max(scene.width for scene in scenes)
    return Scene(width, y - gap, " ".join(scene.alt for scene in scenes), tuple(items))


def in_rows(*scenes: Scene, width: float = BOOK, gap: float = 24.0) -> Scene:
    """Put scenes next to each other as long as they fit into the width, then below each other."""
    rows: list[list[Scene]] = []
    free = 0.0
    for scene in scenes:
        if not rows or scene.width > free:
            rows.append([])
            free = width
        rows[-1].append(scene)
        free -= scene.width + gap
    return above(*(beside(*row, gap=gap) for row in rows), gap=gap)


def frame(x: float, y: float, width: float, height: float, wide: float = 2.5) -> list[Item]:
    """Return a frame that is seen around any color, on light paper and on dark: it has an edge."""
    inside = (x + wide, y + wide, width - 2 * wide, height - 2 * wide)
    return [
        Box(*inside, stroke=PAPER, stroke_width=2.0),
        Box(x, y, width, height, stroke=INK, stroke_width=wide),
    ]


def caption(scene: Scene, line: str) -> Scene:
    """Put a line of text, broken where it must be, above a scene and into its alt text."""
    width = max(scene.width, 260.0)
    lines = [
        Words(4, SIZE + 1.4 * SIZE * i, part, "start")
        for i, part in enumerate(wrap(line, width - 8))
    ]
    y = lines[-1].y + 1.4 * SIZE
    items = (*lines, *shift(scene.items, 0, y))
    return Scene(width, y + scene.height, f"{line}. {scene.alt}", items)


def _hatching(box: Box) -> list[Line]:
    """Return the diagonal lines of a box, none if it is not hatched."""
    lines = []
    for i in range(1, math.ceil((box.width + box.height) / 6) if box.hatched else 0):
        x0, x1 = min(6.0 * i, box.width), max(0.0, 6.0 * i - box.height)
        ends = ((box.x + x0, box.y + 6.0 * i - x0), (box.x + x1, box.y + 6.0 * i - x1))
        lines.append(Line(ends, HATCH, 1.0))
    return lines


class _Cells(NamedTuple):
    """Boxes that differ in place and fill alone, none over another.

    They are one path for each fill, and one for the edges: a page with an element for each of some
    thousand cells takes tens of milliseconds to paint.
    """

    boxes: tuple[Box, ...]

    def fills(self) -> dict[str, list[Box]]:
        """Return what each fill covers; neighbors in a row are one box."""
        found: dict[str, list[Box]] = {}
        for box in self.boxes:
            same = found.setdefault(box.fill or "none", [])
            if same and (same[-1].x + same[-1].width, same[-1].y) == (box.x, box.y):
                same[-1] = same[-1]._replace(width=same[-1].width + box.width)
            else:
                same.append(box)
        return found


def _gathered(items: Sequence[Item]) -> list[Item | _Cells]:
    """Return the items, many boxes of one kind that follow each other as cells."""
    found: list[Item | _Cells] = []
    for kind, group in groupby(items, _kind):
        alike = tuple(group)
        if kind is not None and len(alike) >= MANY:
            found.append(_Cells(alike))  # type: ignore[arg-type]  # what has a kind is a box
        else:
            found += alike
    return found


def _kind(item: Item) -> tuple[object, ...] | None:
    """Return what cells have in common; None for what is drawn by itself."""
    if not isinstance(item, Box) or item.radius or not item.fill:
        return None
    return item.width, item.height, item.stroke, item.stroke_width, item.hatched


def _svg(item: Item | _Cells) -> str:
    """Return an item as SVG."""
    match item:
        case _Cells():
            paths = "".join(
                f'<path d="{_outlines(same)}" fill="{in_page(fill)}"/>'
                for fill, same in item.fills().items()
            )
            first = item.boxes[0]._replace(fill=None)
            edges = f'<path d="{_outlines(item.boxes)}" {_paint(first, first.stroke_width)}/>'
            return paths + (edges if first.stroke else "") + _hatched(*item.boxes)
        case Box():
            radius = f' rx="{item.radius:g}"' if item.radius else ""
            box = (
                f'<rect x="{item.x:g}" y="{item.y:g}" width="{item.width:g}" '
                f'height="{item.height:g}"{radius} {_paint(item, item.stroke_width)}/>'
            )
            return box + _hatched(item)
        case Line():
            closed = "Z" if item.fill else ""
            dashes = ' stroke-dasharray="5 4"' if item.dashed else ""
            opacity = f' opacity="{item.opacity:g}"' if item.opacity < 1 else ""
            paint = _paint(item, item.width)
            return f'<path d="{_path(item)}{closed}" {paint}{dashes}{opacity}/>'
        case Words():
            weight = ' font-weight="bold"' if item.bold else ""
            family = f' font-family="{MONO}"' if item.mono else ""
            place = f"{item.x:g} {item.y:g}"
            turn = f' transform="rotate({-item.angle:g} {place})"' if item.angle else ""
            anchor = (
                "" if item.anchor == "start" else f' text-anchor="{item.anchor}"'
            )  # its default
            spaced = ' xml:space="preserve"' if item.text != " ".join(item.text.split()) else ""
            return (
                f'<text x="{item.x:g}" y="{item.y + 0.36 * item.size:g}" '
                f'font-size="{item.size:g}" fill="{in_page(item.color)}"'
                f"{anchor}{weight}{family}{turn}{spaced}>{html.escape(typeset(item))}</text>"
            )


def typeset(words: Words) -> str:
    """Return a line as it is drawn: there, a negative number in a matrix has a true minus.

    In the mono font that is as wide as a hyphen.

    >>> typeset(Words(0, 0, "-0.50", mono=True)), typeset(Words(0, 0, "x[-1]", mono=True))
    ('−0.50', 'x[-1]')
    """
    negative = words.mono and re.fullmatch(r"-([\d.]+|inf)", words.text)
    return words.text.replace("-", "−") if negative else words.text


def _paint(item: Box | Line, width: float) -> str:
    """Return what fills a shape and what goes around it; where SVG says no width, it is 1."""
    fill = f'fill="{in_page(item.fill or "none")}"'
    if not item.stroke:
        return fill
    wide = f' stroke-width="{width:g}"' if width != 1 else ""
    return f'{fill} stroke="{in_page(line_color(item.stroke))}"{wide}'


def _hatched(*boxes: Box) -> str:
    """Return the diagonal lines of boxes as one path, nothing where none is hatched."""
    path = "".join(_path(line) for box in boxes for line in _hatching(box))
    return f'<path d="{path}" stroke="{in_page(HATCH)}" fill="none"/>' if path else ""


def _outlines(boxes: Sequence[Box]) -> str:
    """Return boxes as an SVG path has them."""
    return "".join(f"M{x:g} {y:g}h{w:g}v{h:g}h{-w:g}z" for x, y, w, h, *_ in boxes)


def _path(line: Line) -> str:
    """Return the points of a line as an SVG path has them."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in line.points)


@lru_cache(maxsize=4)  # a notebook asks twice, for the image and for the image with its alt text
def _small_png(scene: Scene) -> bytes:
    """Return the PNG with 256 colors, a third of the size: a notebook keeps each twice."""
    from PIL import Image

    file = io.BytesIO()
    whole = _image(scene, 2.0)
    counted = whole.convert("RGB").getcolors(whole.width * whole.height) or []
    pixels_of, colors_of = zip(*sorted(counted, reverse=True), strict=True)
    colors = torch.tensor(colors_of)  # three numbers each, the commonest first
    palette = _palette(colors.float(), torch.tensor(pixels_of))
    nearest = torch.cdist(colors.float(), palette).argmin(dim=1).byte()

    pixels = torch.frombuffer(bytearray(whole.tobytes()), dtype=torch.uint8).view(torch.int32)
    places = torch.zeros(1 << 24, dtype=torch.uint8)  # in the palette, of every possible color
    places[(colors * torch.tensor([1, 1 << 8, 1 << 16])).sum(dim=1)] = nearest
    of_pixels = places[pixels & 0xFFFFFF]
    few = Image.frombytes("P", whole.size, of_pixels.numpy().tobytes())
    few.putpalette(palette.int().flatten().tolist())
    few.save(file, format="png")
    return file.getvalue()


def _palette(colors: Tensor, pixels: Tensor) -> Tensor:
    """Return 256 of some colors, each time the one that is farthest from those chosen before.

    A color of many pixels counts as farther, so a cell keeps its hue, however many hues there are.
    """
    chosen = colors[:1]
    far = torch.full((len(colors),), torch.inf)
    for _ in range(255):
        far = far.minimum((colors - chosen[-1]).norm(dim=1))
        chosen = torch.cat([chosen, colors[(far * pixels ** (1 / 3)).argmax()][None]])
    return chosen


def _image(scene: Scene, scale: float) -> Image.Image:
    """Draw with matplotlib's renderer itself: an artist for each of some thousand cells is slow."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure
    from matplotlib.transforms import Affine2D
    from PIL import Image

    size = int(scene.width * scale), int(scene.height * scale)
    renderer = RendererAgg(*size, 72 * scale)
    to_pixels = Affine2D().scale(scale, -scale).translate(0, scene.height * scale)
    figure = Figure(dpi=72 * scale)  # whom a text asks for its dots per inch
    for item in (Box(0, 0, scene.width, scene.height, PAPER), *scene.items):
        if isinstance(item, Words):
            text = _text(item)
            text.set_figure(figure)
            text.set_transform(to_pixels)
            text.draw(renderer)
            continue
        _draw(renderer, item, to_pixels)
        for line in _hatching(item) if isinstance(item, Box) else ():
            _draw(renderer, line, to_pixels)
    return Image.frombuffer("RGBA", size, renderer.buffer_rgba())


def _draw(renderer: RendererAgg, item: Box | Line, to_pixels: Affine2D) -> None:
    """Draw a shape: filled, then its outline."""
    from matplotlib.colors import to_rgba

    paint = renderer.new_gc()
    paint.set_joinstyle("miter")
    width, alpha = (
        (item.stroke_width, None) if isinstance(item, Box) else (item.width, item.opacity)
    )
    paint.set_alpha(alpha)  # type: ignore[arg-type]  # None is what it starts with
    paint.set_linewidth(width if item.stroke else 0)
    edge = to_rgba(on_white(line_color(item.stroke or "none")), alpha)
    paint.set_foreground(edge, isRGBA=True)
    if isinstance(item, Line) and item.dashed:
        paint.set_dashes(0, [5 * width, 4 * width])
    fill = to_rgba(on_white(item.fill), alpha) if item.fill else None
    renderer.draw_path(paint, _path_of(item), to_pixels, fill)
    paint.restore()


def _path_of(item: Box | Line) -> Outline:
    """Return the outline of a shape."""
    from matplotlib.patches import Circle, FancyBboxPatch
    from matplotlib.path import Path as Outline

    if isinstance(item, Line):
        corners = [*item.points, item.points[0]] if item.fill else item.points
        return Outline(corners, closed=item.fill is not None)
    x, y, width, height = item[:4]
    if width == height <= 2 * item.radius:
        circle = Circle((x + width / 2, y + height / 2), width / 2)
        return circle.get_patch_transform().transform_path(circle.get_path())
    if item.radius:
        return FancyBboxPatch(
            (x, y), width, height, f"round,pad=0,rounding_size={item.radius}"
        ).get_path()
    right, lower = x + width, y + height
    return Outline([(x, y), (right, y), (right, lower), (x, lower), (x, y)], closed=True)


@lru_cache(maxsize=1)
def _families() -> tuple[list[str], list[str]]:
    """Return the fonts of words and of numbers: those of the book, for other letters DejaVu's.

    They are narrower than DejaVu's, which letters.py measures.
    """
    from matplotlib.font_manager import fontManager

    for path in sorted(Path(__file__).with_name("fonts").glob("*.ttf")):
        fontManager.addfont(path)
    return ["Inter", "DejaVu Sans"], ["JetBrains Mono", "DejaVu Sans Mono"]


def _text(words: Words) -> Text:
    """Return a line of text, placed as the drawing is, y counted downwards."""
    from matplotlib.text import Text

    turned = math.radians(words.angle)
    return Text(
        words.x + 0.36 * words.size * math.sin(turned),
        words.y + 0.36 * words.size * math.cos(turned),
        typeset(words),
        color=on_white(words.color),
        fontsize=words.size,
        fontweight="bold" if words.bold else "normal",
        fontfamily=_families()[words.mono],
        horizontalalignment=ALIGNMENT[words.anchor],
        verticalalignment="baseline",
        rotation=words.angle,
        rotation_mode="anchor",
        parse_math=False,
    )
