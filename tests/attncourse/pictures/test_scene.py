"""A scene is well-formed SVG, and a PNG of the same size, with the alt text in both."""

import base64
import dataclasses
import io
import xml.etree.ElementTree as ET

import pytest
from PIL import Image, ImageColor

from attncourse.pictures.palette import PAPER, hex_color
from attncourse.pictures.scene import Box, Line, Scene, Text, add_caption, arrange_in_rows
from support.pictures import SVG, overlapping, pixels, texts

RED, BLUE, ORANGE = "#ff0000", "#0000ff", "#E69F00"
SCENE = Scene(
    100,
    60,
    'A red box & a <blue> "line".',
    (
        Box(10, 10, 20, 30, fill=RED),
        Box(60, 10, 20, 20, fill=PAPER, hatched=True),
        Line(((40, 5), (40, 55)), stroke=BLUE, width=4),
        Text(50, 50, 'a < b & "c"', size=9),
    ),
)


def test_the_svg_is_well_formed_and_has_the_alt_text():
    root = ET.fromstring(SCENE.svg())
    assert (root.get("role"), root.get("aria-label")) == ("img", SCENE.alt)
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == (
        "100",
        "60",
        "0 0 100 60",
    )
    assert texts(root) == ['a < b & "c"']


def test_the_svg_has_the_colors_of_the_page():
    """The page around an SVG sets the variables, light or dark."""
    root = ET.fromstring(SCENE.svg())
    assert root.get("style") == "background:var(--attn-paper)"
    assert [box.get("fill") for box in root.iter(f"{SVG}rect")] == [RED, "var(--attn-paper)"]
    assert next(root.iter(f"{SVG}text")).get("fill") == "var(--attn-ink)"


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_png_shows_the_svg_at_a_scale(scale):
    image = Image.open(io.BytesIO(SCENE.png(scale))).convert("RGBA")
    assert image.size == (100 * scale, 60 * scale)
    at = {
        name: image.getpixel((x * scale, y * scale))
        for name, x, y in (
            ("box", 20, 25),
            ("line", 40, 30),
            ("paper", 90, 50),
        )
    }
    colors = {
        name: ImageColor.getcolor(c, "RGBA")
        for name, c in (
            ("box", RED),
            ("line", BLUE),
            ("paper", hex_color(PAPER)),
        )
    }
    assert at == colors
    hatched = {
        image.getpixel((x, round(20 * scale))) for x in range(round(61 * scale), round(79 * scale))
    }
    assert len(hatched) > 1


def test_a_png_has_words():
    """The course's own fonts are found; a missing font draws nothing at all."""
    for words in (Text(40, 20, "word"), Text(40, 20, "1.0", mono=True, bold=True)):
        assert len(set(pixels(Scene(80, 40, "", (words,))).get_flattened_data())) > 10


def test_a_notebook_stores_a_small_png_with_the_alt_text():
    png, size = SCENE._repr_png_()
    assert size == {"width": 100, "height": 60}
    assert len(png) < len(SCENE.png())
    image = ET.fromstring(SCENE._repr_html_().removesuffix(">") + "/>")
    assert (image.get("alt"), image.get("width")) == (SCENE.alt, "100")
    assert base64.b64decode(image.get("src").partition(",")[2]) == png
    assert Image.open(io.BytesIO(png)).size == (200, 120)


def test_a_negative_number_in_the_mono_font_has_a_true_minus():
    items = Text(5, 5, "-0.5", mono=True), Text(5, 25, "-0.5"), Text(5, 45, "x[-1]", mono=True)
    assert texts(ET.fromstring(Scene(50, 50, "", items).svg())) == ["−0.5", "-0.5", "x[-1]"]


def test_scenes_side_by_side_and_under_each_other():
    one, other = (Scene(w, h, f"{w}.", (Box(1, 2, 3, 4),)) for w, h in ((100, 60), (50, 80)))
    row = arrange_in_rows(one, other, gap=10)
    assert (row.width, row.height, row.alt) == (160, 80, "100. 50.")
    assert [item[:2] for item in row.items] == [(1, 2), (111, 2)]
    rows = arrange_in_rows(one, other, one, width=170, gap=10)
    assert (rows.width, rows.height) == (160, 150)
    assert [item[:2] for item in rows.items] == [(1, 2), (111, 2), (1, 92)]


def test_a_caption_is_broken_into_lines_and_stands_in_the_alt_text():
    long = "A sentence that is much longer than the picture under it is wide, by far"
    captioned = add_caption(SCENE, long)
    assert " ".join(w.text for w in captioned.items[:-4]) == long
    assert captioned.alt == f"{long}. {SCENE.alt}"
    assert overlapping(captioned) == []


def test_an_alt_text_of_the_course_is_found_by_its_name():
    described = SCENE.described("two triangles")
    assert described == dataclasses.replace(SCENE, alt=described.alt)
    assert described.alt.startswith("Left: token 3")
    with pytest.raises(ValueError, match="'no such text': add it there"):
        SCENE.described("no such text")
