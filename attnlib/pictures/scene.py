"""A picture as plain data: boxes, words and lines, in pixels, the origin at the top left.

The same data is drawn in two ways: as a PNG (by matplotlib) for figures stored in a notebook, and
as an SVG for sliders, where a new picture must appear at once.
"""

from __future__ import annotations

import base64
import html
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

from attnlib.pictures.letters import wrapped
from attnlib.pictures.palette import HATCH, INK, PAPER, in_page, on_white

if TYPE_CHECKING:  # matplotlib is loaded when the first PNG is drawn
    from matplotlib.artist import Artist
    from matplotlib.patches import Patch

FONT = "DejaVu Sans, Verdana, Geneva, sans-serif"
MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"
ALIGNMENT: dict[str, Literal["left", "center", "right"]]
ALIGNMENT = {"start": "left", "middle": "center", "end": "right"}

BOOK = 700.0  # pixels: the width of a page; a wider picture is shrunk to it


class Box(NamedTuple):
    """A rectangle; hatching means that there is no value here."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    stroke: str | None = None
    stroke_width: float = 1.0
    radius: float = 0.0
    hatched: bool = False


class Words(NamedTuple):
    """A line of text, centred on its height at (x, y)."""

    x: float
    y: float
    text: str
    size: float = 12.0
    color: str = INK
    anchor: Literal["start", "middle", "end"] = "middle"
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

    def described(self, alt: str) -> Scene:
        """Return the same picture with another alt text: say what is to be seen in it."""
        if not alt.strip():
            raise ValueError(f"alt must say what is to be seen, got {alt!r}: write a sentence")
        return replace(self, alt=alt)

    def svg(self) -> str:
        """Return the scene as one SVG element; its ink and paper are variables of the page."""
        size = f'width="{self.width:g}" height="{self.height:g}"'
        view = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        style = f'font-family="{FONT}" style="background:{in_page(PAPER)}"'
        alt = html.escape(self.alt)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} {style} role="img" '
            f'aria-label="{alt}">' + "".join(_svg(item) for item in self.items) + "</svg>"
        )

    def png(self, scale: float = 2.0) -> bytes:
        """Return the scene as a PNG file with `scale` dots per pixel."""
        return _png(self, scale)

    def _repr_html_(self) -> str:
        """Return the PNG with its alt text: a notebook keeps none beside an image/png."""
        data = base64.b64encode(_small_png(self)).decode("ascii")
        alt = html.escape(self.alt)
        return f'<img width="{self.width:.0f}" alt="{alt}" src="data:image/png;base64,{data}">'

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        return _small_png(self), {"width": round(self.width), "height": round(self.height)}


def moved(items: Sequence[Item], x: float, y: float) -> list[Item]:
    """Return the items shifted to the right by x and down by y."""
    return [_moved(item, x, y) for item in items]


def _moved(item: Item, x: float, y: float) -> Item:
    match item:
        case Line():
            return item._replace(points=tuple((px + x, py + y) for px, py in item.points))
        case Box() | Words():
            return item._replace(x=item.x + x, y=item.y + y)


def beside(*scenes: Scene, gap: float = 24.0) -> Scene:
    """Put scenes next to each other, their tops aligned."""
    items: list[Item] = []
    x = 0.0
    for scene in scenes:
        items += moved(scene.items, x, 0)
        x += scene.width + gap
    height = max(scene.height for scene in scenes)
    return Scene(x - gap, height, " ".join(scene.alt for scene in scenes), tuple(items))


def above(*scenes: Scene, gap: float = 16.0) -> Scene:
    """Put scenes one above the other, their left sides aligned."""
    items: list[Item] = []
    y = 0.0
    for scene in scenes:
        items += moved(scene.items, 0, y)
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


def captioned(scene: Scene, line: str, size: float = 13.0) -> Scene:
    """Put a line of text, broken where it must be, above a scene and into its alt text."""
    width = max(scene.width, 260.0)
    items: list[Item] = []
    y = size
    for part in wrapped(line, width - 8, size):
        items.append(Words(4, y, part, size, INK, "start"))
        y += 1.4 * size
    alt = f"{line}. {scene.alt}"
    return Scene(width, y + scene.height, alt, (*items, *moved(scene.items, 0, y)))


def _hatching(box: Box) -> list[Line]:
    """Return the diagonal lines of a box, none if it is not hatched."""
    if not box.hatched:
        return []
    lines, step = [], 6.0
    offset = step
    while offset < box.width + box.height:
        x0, y0 = min(offset, box.width), max(0.0, offset - box.width)
        x1, y1 = max(0.0, offset - box.height), min(offset, box.height)
        ends = ((box.x + x0, box.y + y0), (box.x + x1, box.y + y1))
        lines.append(Line(ends, HATCH, 1.0))
        offset += step
    return lines


def _svg(item: Item) -> str:
    """Return an item as SVG."""
    match item:
        case Box():
            radius = f' rx="{item.radius:g}"' if item.radius else ""
            box = (
                f'<rect x="{item.x:g}" y="{item.y:g}" width="{item.width:g}" '
                f'height="{item.height:g}"{radius} {_paint(item, item.stroke_width)}/>'
            )
            path = "".join(_path(line) for line in _hatching(item))
            hatching = f'<path d="{path}" stroke="{in_page(HATCH)}" fill="none"/>'
            return box + hatching if path else box
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
            return (
                f'<text x="{item.x:g}" y="{item.y + 0.36 * item.size:g}" '
                f'font-size="{item.size:g}" fill="{in_page(item.color)}" '
                f'text-anchor="{item.anchor}"{weight}{family}{turn} '
                f'xml:space="preserve">{html.escape(item.text)}</text>'
            )


def _paint(item: Box | Line, width: float) -> str:
    """Return what fills a shape and what goes around it; where SVG says no width, it is 1."""
    fill = f'fill="{in_page(item.fill or "none")}"'
    if not item.stroke:
        return fill
    wide = f' stroke-width="{width:g}"' if width != 1 else ""
    return f'{fill} stroke="{in_page(item.stroke)}"{wide}'


def _path(line: Line) -> str:
    """Return the points of a line as an SVG path has them."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in line.points)


@lru_cache(maxsize=4)  # a notebook asks twice, for the image and for the image with its alt text
def _small_png(scene: Scene) -> bytes:
    """Return the PNG with 256 colours, a third of the size: a notebook keeps each twice.

    Half of them are the commonest, as they are: a cell keeps its hue, however many hues there are.
    """
    from PIL import Image

    file = io.BytesIO()
    with Image.open(io.BytesIO(scene.png())) as image:
        whole = image.convert("RGB")
    covering = whole.quantize(128, method=Image.Quantize.MAXCOVERAGE).getpalette() or []
    counted = sorted(whole.getcolors(whole.width * whole.height) or [], reverse=True)
    colors = torch.tensor(
        [color for _, color in counted]
    )  # three numbers each, the commonest first
    palette = torch.cat([colors[:128], torch.tensor(covering[: 3 * 128]).view(-1, 3)])
    nearest = torch.cdist(colors.float(), palette.float()).argmin(dim=1).byte()

    as_one = torch.tensor([1 << 16, 1 << 8, 1], dtype=torch.int32)
    pixels = torch.frombuffer(bytearray(whole.tobytes()), dtype=torch.uint8).view(-1, 3)
    places = torch.zeros(1 << 24, dtype=torch.uint8)  # in the palette, of every possible colour
    places[(colors * as_one).sum(dim=1)] = nearest
    of_pixels = places[(pixels * as_one).sum(dim=1, dtype=torch.int32)]
    few = Image.frombytes("P", whole.size, of_pixels.numpy().tobytes())
    few.putpalette(palette.flatten().tolist())
    few.save(file, format="png", optimize=True)
    return file.getvalue()


def _png(scene: Scene, scale: float) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(scene.width / 72, scene.height / 72), dpi=72 * scale, facecolor=on_white(PAPER)
    )
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, scene.width)
    axes.set_ylim(scene.height, 0)
    axes.axis("off")
    for order, item in enumerate(scene.items):
        for artist in _artists(item):
            artist.set_zorder(order)
            axes.add_artist(artist)
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def _artists(item: Item) -> list[Artist]:
    """Return an item as matplotlib draws it."""
    from matplotlib.patches import Circle, FancyBboxPatch, PathPatch, Rectangle
    from matplotlib.path import Path
    from matplotlib.text import Text

    patch: Patch
    match item:
        case Box():
            corner, rounded = (item.x, item.y), f"round,pad=0,rounding_size={item.radius}"
            if item.width == item.height <= 2 * item.radius:
                middle = (item.x + item.width / 2, item.y + item.height / 2)
                patch = Circle(middle, item.width / 2)
            elif item.radius:
                patch = FancyBboxPatch(corner, item.width, item.height, rounded)
            else:
                patch = Rectangle(corner, item.width, item.height)
            hatching = [artist for line in _hatching(item) for artist in _artists(line)]
            return [_painted(patch, item, item.stroke_width), *hatching]
        case Line():
            corners = [*item.points, item.points[0]] if item.fill else item.points
            patch = PathPatch(Path(corners, closed=item.fill is not None), alpha=item.opacity)
            patch.set_linestyle((0, (5, 4)) if item.dashed else "solid")
            return [_painted(patch, item, item.width)]
        case Words():
            turned = math.radians(item.angle)
            text = Text(
                item.x + 0.36 * item.size * math.sin(turned),
                item.y + 0.36 * item.size * math.cos(turned),
                item.text,
                color=on_white(item.color),
                fontsize=item.size,
                fontweight="bold" if item.bold else "normal",
                fontfamily="DejaVu Sans Mono" if item.mono else "DejaVu Sans",
                horizontalalignment=ALIGNMENT[item.anchor],
                verticalalignment="baseline",
                rotation=item.angle,
                rotation_mode="anchor",
                parse_math=False,
            )
            return [text]


def _painted(patch: Patch, item: Box | Line, width: float) -> Patch:
    """Return the patch in the colours of its item, its outline as wide as given."""
    patch.set_facecolor(on_white(item.fill or "none"))
    patch.set_edgecolor(on_white(item.stroke or "none"))
    patch.set_linewidth(width)
    return patch
