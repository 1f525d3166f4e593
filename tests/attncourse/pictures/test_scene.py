"""A scene is the same picture as SVG and as PNG, and nothing on it gets lost."""

import base64
import dataclasses
import io
import json
import re
import xml.etree.ElementTree as ET

import pytest
from nbval.plugin import get_sanitize_patterns
from PIL import Image, ImageColor

from attncourse.pictures.palette import HATCH, INK, PAPER, line_color, on_white, weight_color
from attncourse.pictures.scene import (
    MANY,
    Box,
    Item,
    Line,
    Scene,
    Words,
    above,
    beside,
    caption,
    frame,
    in_rows,
    shift,
)
from support.notebook_tools import ROOT
from support.pictures import SVG, alike, outside, overlapping, pixels, texts

RED, BLUE, ORANGE = "#ff0000", "#0000ff", "#E69F00"
SCENE = Scene(
    100,
    60,
    "A red box & a <blue> line.",
    (
        Box(10, 10, 20, 30, fill=RED),
        Box(60, 10, 20, 20, fill=PAPER, hatched=True),
        Line(((40, 5), (40, 55)), stroke=BLUE, width=4),
        Words(50, 50, 'a < b & "c"', size=9),
    ),
)


def drawn(*items: Item) -> ET.Element:
    return ET.fromstring(Scene(500, 80, "", items).svg())


def test_the_svg_is_well_formed_and_says_what_it_shows():
    root = ET.fromstring(SCENE.svg())
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert root.get("aria-label") == SCENE.alt
    assert (root.get("width"), root.get("height")) == ("100", "60")
    assert root.get("viewBox") == "0 0 100 60"
    assert root.get("style") == "background:var(--attn-paper)"
    assert texts(ET.fromstring(SCENE.svg())) == ['a < b & "c"']


def test_the_svg_has_every_item_in_its_place():
    first, second = ET.fromstring(SCENE.svg()).iter(f"{SVG}rect")
    place = ("x", "y", "width", "height", "fill")
    assert [first.get(key) for key in place] == ["10", "10", "20", "30", RED]
    assert [second.get(key) for key in place] == ["60", "10", "20", "20", "var(--attn-paper)"]
    hatching, line = ET.fromstring(SCENE.svg()).iter(f"{SVG}path")
    assert hatching.get("stroke") == "var(--attn-hatch)"
    assert (line.get("d"), line.get("stroke"), line.get("stroke-width")) == (
        "M40 5L40 55",
        BLUE,
        "4",
    )


def rectangles(path: ET.Element) -> list[tuple[float, ...]]:
    found = re.findall(r"M([-\d.]+) ([-\d.]+)h([-\d.]+)v([-\d.]+)h-\3z", path.get("d") or "")
    assert len(found) == (path.get("d") or "").count("M")
    return [tuple(map(float, one)) for one in found]


@pytest.mark.parametrize("how", [{}, {"stroke": INK}, {"hatched": True}])
def test_many_boxes_of_one_kind_are_a_path_for_each_fill(how):
    """Every cell is covered by its fill, once; all edges are drawn, and all hatching, over it."""
    fills = {(i, j): BLUE if (i + j) % 5 == 0 else RED for i in range(7) for j in range(11)}
    cells = [Box(8 * j, 9 * i, 8, 9, fill, **how) for (i, j), fill in fills.items()]
    svg = drawn(*cells, Box(1, 2, 3, 4, RED))
    *paths, alone = svg
    assert alone.tag == f"{SVG}rect"
    painted = {path.get("fill"): rectangles(path) for path in paths[:2]}
    covered = {
        (y / 9, (x + i) / 8): fill
        for fill, boxes in painted.items()
        for x, y, width, height in boxes
        for i in range(0, int(width), 8)
        if height == 9
    }
    assert covered == fills
    assert sum(len(boxes) for boxes in painted.values()) < len(cells)  # neighbors are one
    if not how:
        assert len(paths) == 2
        return
    over = paths[2]
    assert (len(paths), over.get("fill")) == (3, "none")
    if "stroke" in how:
        assert over.get("stroke") == "var(--attn-ink)"
        assert rectangles(over) == [cell[:4] for cell in cells]
    else:
        one = drawn(cells[0])[1]
        assert over.get("stroke") == one.get("stroke") == "var(--attn-hatch)"
        assert over.get("d", "").startswith(one.get("d", "none"))
        assert over.get("d", "").count("M") == len(cells) * one.get("d", "").count("M")


def test_a_few_boxes_are_drawn_one_by_one_and_so_are_others_among_them():
    cells = [Box(8 * j, 0, 8, 9, RED) for j in range(MANY - 1)]
    last = Box(8 * MANY, 0, 8, 9, RED)
    for items, paths in ((cells, 0), ([*cells, last], 1), ([*cells, SCENE.items[2], last], 1)):
        svg = drawn(*items)
        assert len([*svg.iter(f"{SVG}path")]) == paths
        assert len(svg) == (1 if len(items) == MANY else len(items))


def test_a_shape_has_an_outline_and_round_corners_only_if_it_says_so():
    plain, thin = Box(1, 1, 8, 8, fill=RED), Box(1, 1, 8, 8, stroke=BLUE)
    round_one = Box(1, 1, 8, 8, stroke=INK, stroke_width=2, radius=3)
    first, second, third = drawn(plain, round_one, thin)
    look = ("fill", "stroke", "stroke-width", "rx")
    assert [first.get(key) for key in look] == [RED, None, None, None]
    assert [second.get(key) for key in look] == ["none", "var(--attn-ink)", "2", "3"]
    assert [third.get(key) for key in look] == ["none", BLUE, None, None]  # SVG's own width is 1
    (text,) = drawn(Words(5, 5, "m", size=12))
    assert text.get("fill") == "var(--attn-ink)"


def test_a_thin_mark_in_a_pale_hue_is_darker_than_a_cell():
    marks = (
        Box(2, 2, 6, 6, fill=ORANGE, stroke=ORANGE, stroke_width=2),
        Line(((0, 9), (9, 9)), ORANGE),
    )
    scene = Scene(10, 10, "A box and a line.", marks)
    svg = ET.fromstring(scene.svg())
    (box,), (line,) = svg.iter(f"{SVG}rect"), svg.iter(f"{SVG}path")
    assert (box.get("fill"), box.get("stroke"), line.get("stroke")) == (
        ORANGE,
        *[line_color(ORANGE)] * 2,
    )
    image = pixels(scene, scale=4)
    inside, edge, under = (image.getpixel(place) for place in ((20, 20), (8, 20), (20, 36)))
    assert inside[:3] == ImageColor.getrgb(ORANGE)
    assert edge[:3] == under[:3] == ImageColor.getrgb(line_color(ORANGE))


def test_a_line_is_dashed_or_pale_in_the_svg():
    ways = ({}, {"dashed": True}, {"opacity": 0.25})
    lines = [*drawn(*(Line(((1, 1), (8, 8)), **how) for how in ways)).iter(f"{SVG}path")]
    assert [line.get("stroke-dasharray") for line in lines] == [None, "5 4", None]
    assert [line.get("opacity") for line in lines] == [None, None, "0.25"]


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_png_shows_the_same(scale):
    image = pixels(SCENE, scale)
    assert image.size == (100 * scale, 60 * scale)

    def color(x, y):
        return "#{:02x}{:02x}{:02x}".format(*image.getpixel((int(x * scale), int(y * scale)))[:3])

    assert color(20, 25) == RED
    assert color(40, 30) == BLUE
    assert color(95, 5) == color(3, 57) == on_white(PAPER) == "#ffffff"
    hatched = {color(60 + x, 10 + y) for x in range(1, 20) for y in range(1, 20)}
    assert len(hatched) > 1
    assert min(hatched) >= on_white(HATCH)


def test_how_a_notebook_shows_it():
    assert repr(SCENE) == "<Scene 100 x 60: A red box & a <blue> line.>"
    data, size = SCENE._repr_png_()
    assert alike(Image.open(io.BytesIO(data)).convert("RGBA"), pixels(SCENE, 2))
    assert size == {"width": 100, "height": 60}
    assert not hasattr(SCENE, "_repr_svg_")  # nbval would compare it


def test_a_cell_keeps_its_hue_among_many():
    """Twelve heads with 41 weights each are more than the 256 colors of the small picture.

    The edges of letters have hundreds more, each on a few pixels: they do not crowd out the cells.
    """
    hues = range(12)
    cells = [
        Box(11 * column, 11 * head, 11, 11, weight_color(column / 40, head))
        for head in hues
        for column in range(41)
    ]
    letters = [Words(0, 140 + 14 * head, "weights", color=weight_color(1.0, head)) for head in hues]
    data, _ = Scene(451, 310, "Weights of twelve heads.", (*cells, *letters))._repr_png_()
    shown = Image.open(io.BytesIO(data)).convert("RGB")
    off = []
    for cell in cells:
        drawn = ImageColor.getrgb(on_white(cell.fill))
        seen = shown.getpixel((2 * cell.x + 11, 2 * cell.y + 11))
        off.append(max(abs(a - b) for a, b in zip(seen, drawn, strict=True)))
    assert max(off) <= 8
    assert off.count(0) > 200


def test_a_notebook_gets_the_alt_text_too():
    """Beside the same picture, in HTML: it keeps no alt text with an image/png."""
    (image,) = ET.fromstring(f"<p>{SCENE._repr_html_().replace('>', '/>')}</p>")
    assert image.tag == "img"
    assert image.get("alt") == SCENE.alt
    assert image.get("width") == "100"
    data, _ = SCENE._repr_png_()
    assert image.get("src") == f"data:image/png;base64,{base64.b64encode(data).decode()}"
    assert len(data) < len(SCENE.png())


def test_a_picture_is_described():
    scene = SCENE.described("two triangles")
    assert scene.alt.startswith("Left: token 3 sees key 0, token 4 keys 0 and 1")
    assert scene == dataclasses.replace(SCENE, alt=scene.alt)
    with pytest.raises(ValueError, match=r"one of descriptions.json, got 'A box.': add it there"):
        SCENE.described("A box.")


def test_facts_are_put_into_a_description(monkeypatch):
    monkeypatch.setattr(
        "attncourse.pictures.scene._descriptions", lambda: {"one": "It is {share}."}
    )
    assert SCENE.described("one", share="0.50").alt == "It is 0.50."


def test_every_description_has_a_name_of_its_own():
    text = (ROOT / "attncourse/pictures/descriptions.json").read_text("utf-8")
    groups = json.loads(text, object_pairs_hook=list)  # as a dict it would drop the first of two
    names = [name for _, group in groups for name, _ in group]
    assert len(names) > 10
    assert len(set(names)) == len(names)


def test_every_description_is_used():
    groups = json.loads((ROOT / "attncourse/pictures/descriptions.json").read_text("utf-8"))
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "notebooks").glob("*.ipynb"))
    names = [name for group in groups.values() for name in group]
    assert [name for name in names if json.dumps(f'"{name}"')[1:-1] not in pages] == []


def test_nbval_compares_the_alt_text_and_not_the_bytes():
    """The settings of pytest name the file that says so."""
    settings = (ROOT / "pyproject.toml").read_text()
    assert "--nbval-sanitize-with=tests/nbval_sanitize.cfg" in settings
    patterns = get_sanitize_patterns((ROOT / "tests/nbval_sanitize.cfg").read_text())

    def compared(scene):
        html = scene._repr_html_()
        for pattern, replacement in patterns:
            html = re.sub(pattern, replacement, html)
        return html

    said = "A red box &amp; a &lt;blue&gt; line."
    assert compared(SCENE) == f'<img width="100" alt="{said}" src="PNG">'
    other_bytes = dataclasses.replace(SCENE, items=SCENE.items[:1])
    assert other_bytes._repr_html_() != SCENE._repr_html_()
    assert compared(other_bytes) == compared(SCENE)
    assert compared(SCENE.described("two triangles")) != compared(SCENE)


def test_hatching_stays_in_its_box():
    for width, height in ((20, 20), (5, 40), (40, 5), (33, 17)):
        box = Box(7, 9, width, height, hatched=True)
        (path,) = drawn(box).iter(f"{SVG}path")
        ends = [
            tuple(map(float, end.split())) for end in path.get("d")[1:].replace("M", "L").split("L")
        ]
        assert ends
        assert all(7 <= x <= 7 + width and 9 <= y <= 9 + height for x, y in ends)


def test_text_stands_where_its_anchor_says():
    """Middle, start and end; turned text turns about its anchor, counter-clockwise."""
    reach = 43  # of "mmmm" at this size
    for anchor, left in {"start": 50, "middle": 50 - reach / 2, "end": 50 - reach}.items():
        box = ink(pixels(Scene(100, 40, "", (Words(50, 20, "mmmm", anchor, size=12),))))
        assert (box[0], box[2]) == pytest.approx((left, left + reach), abs=3)
        assert (box[1] + box[3]) / 2 == pytest.approx(20, abs=3)
    turned = ink(pixels(Scene(100, 100, "", (Words(50, 50, "mmmm", "end", size=12, angle=45),))))
    assert turned[2] < 60
    assert turned[1] > 40
    (text,) = drawn(Words(5, 6, "m", "end", size=12, angle=45))
    assert text.get("transform") == "rotate(-45 5 6)"
    assert text.get("text-anchor") == "end"


def ink(image) -> tuple[int, int, int, int]:
    return image.convert("L").point(lambda value: 255 * (value < 200)).getbbox()


def test_dollars_and_backslashes_are_no_formulas():
    scene = Scene(200, 40, "", (Words(100, 20, r"$x_1$ \alpha <>&", size=12),))
    assert texts(ET.fromstring(scene.svg())) == [r"$x_1$ \alpha <>&"]
    assert ink(pixels(scene))[2] - ink(pixels(scene))[0] > 90


def test_what_stands_out_over_the_sheet_is_noticed():
    """By the helper that the tests of all pictures use."""
    fits = Words(50, 20, "in", size=12)
    for item in (
        Box(90, 0, 20, 5),
        Box(0, -3, 5, 5),
        Line(((5, 5), (5, 44))),
        Words(90, 20, "far too long", "start", size=12),
        Words(20, 20, "far too long", "end", size=12),
        Words(50, 3, "Up", size=20),
        Words(50, 20, "sideways", size=12, angle=90),
    ):
        assert set(outside(Scene(100, 40, "", (fits, item)))) == {item}
    assert outside(SCENE) == []


def test_words_in_each_others_way_are_noticed():
    """By the other such helper."""
    one, other, apart = (
        Words(20, 20, "one", size=12),
        Words(35, 24, "other", size=12),
        Words(80, 20, "apart", size=12),
    )
    assert overlapping(Scene(100, 40, "", (one, apart, other))) == [("one", "other")]


# Scenes put together


def test_a_frame_is_seen_on_light_and_on_dark():
    """Ink, and inside it paper: one of the two stands out from any color."""
    inner, outer = frame(10, 20, 52, 24, 3)
    assert (inner.stroke, outer.stroke) == (PAPER, INK)
    assert (outer.x, outer.y, outer.width, outer.height, outer.stroke_width) == (10, 20, 52, 24, 3)
    assert (inner.x, inner.y, inner.width, inner.height) == (13, 23, 46, 18)
    assert inner.fill is outer.fill is None


def test_shifted_items_keep_all_but_their_place():
    box, line, text = shift(
        [Box(1, 2, 3, 4, RED), Line(((0, 0), (1, 1))), Words(5, 6, "w", size=12)], 10, 20
    )
    assert box == Box(11, 22, 3, 4, RED)
    assert line == Line(((10, 20), (11, 21)))
    assert text == Words(15, 26, "w", size=12)


@pytest.mark.parametrize(
    ("join", "size", "place", "with_small"),
    [(beside, (220, 60), (120, 0), (115, 60)), (above, (100, 140), (0, 80), (100, 85))],
)
def test_scenes_side_by_side_and_under_each_other(join, size, place, with_small):
    both = join(SCENE, SCENE, gap=20)
    assert (both.width, both.height) == size
    assert both.items == (*SCENE.items, *shift(SCENE.items, *place))
    assert both.alt == f"{SCENE.alt} {SCENE.alt}"
    assert outside(both) == []
    mixed = join(SCENE, Scene(10, 20, "Small.", ()), gap=5)
    assert (mixed.width, mixed.height) == with_small


def test_scenes_in_rows_stand_side_by_side_while_they_fit():
    rows = in_rows(SCENE, SCENE, SCENE, width=220, gap=20)
    assert (rows.width, rows.height) == (220, 140)
    assert rows.items == above(beside(SCENE, SCENE, gap=20), SCENE, gap=20).items
    assert in_rows(SCENE, SCENE, width=90, gap=20).items == above(SCENE, SCENE, gap=20).items


def test_a_caption_is_broken_into_lines_above_the_scene():
    line = "step = 3 | what this state shows, told in a line that is longer than the picture"
    scene = caption(SCENE, line)
    assert scene.alt == f"{line}. {SCENE.alt}"
    told = scene.items[: -len(SCENE.items)]
    assert " ".join(item.text for item in told) == line
    assert len(told) > 1
    assert [item.height for item in scene.items[-4:-2]] == [30, 20]
    assert outside(scene) == []
    assert overlapping(scene) == []
