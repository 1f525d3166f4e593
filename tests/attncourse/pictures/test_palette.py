"""Colors that can be told apart, and text that can be read on them."""

import math
import re
from functools import partial
from pathlib import Path

import pytest
from PIL import Image, ImageCms

import attncourse.panels
from attncourse.pictures.palette import (
    DARK_PAPER,
    FAINT,
    HATCH,
    HEAD_COLORS,
    INK,
    MARKED,
    PAPER,
    QUIET,
    THEME,
    amount_color,
    contrast,
    css_color,
    head_color,
    hex_color,
    line_color,
    signed_color,
    text_color,
    weight_color,
)

TO_LAB = ImageCms.buildTransform(
    ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB"
)
HEADS = range(12)
BACKGROUNDS = [
    *HEAD_COLORS,
    *(weight_color(w / 10, head) for w in range(11) for head in HEADS),
    *(signed_color(v, 5) for v in range(-5, 6)),
]
# What a page turns light or dark
PAGE = (Path(attncourse.panels.__file__).parent / "panel.css").read_text(encoding="utf-8")
OWN = r"(?:var\([\w-]+, )?light-dark\((#\w{6}), (#\w{6})\)"  # unless the page has one of its own
PAGE_COLORS = {name: both for name, *both in re.findall(rf"--attn-(\w+): {OWN}", PAGE)}


def lab(color: str) -> tuple[float, float, float]:
    """Return a place in CIE Lab, where equal distances look equally large."""
    pixel = ImageCms.applyTransform(Image.new("RGB", (1, 1), color), TO_LAB).getpixel((0, 0))
    lightness, *a_and_b = pixel
    return (lightness * 100 / 255, *((value + 128) % 256 - 128 for value in a_and_b))  # signed


def test_contrast_is_that_of_wcag():
    for one, other, ratio in (
        ("#000000", "#ffffff", 21.0),
        ("#777777", "#ffffff", 4.48),
        ("#d55e00", "#1f2328", 4.09),
    ):
        assert contrast(one, other) == contrast(other, one) == pytest.approx(ratio, abs=0.02)


def test_no_two_heads_look_alike():
    lines = [line_color(color) for color in HEAD_COLORS]
    for head, color in enumerate(HEAD_COLORS):
        for other in range(head):
            assert math.dist(lab(color), lab(HEAD_COLORS[other])) > 20
            assert math.dist(lab(lines[head]), lab(lines[other])) > 20


def test_weights_go_from_white_to_the_color_of_the_head():
    for color in (*(partial(weight_color, head=head) for head in HEADS), amount_color):
        steps = [color(step / 20) for step in range(21)]
        darkness = [contrast(step, "#ffffff") for step in steps]
        assert darkness == sorted(darkness)
        assert len(set(steps)) == 21
        assert steps[0] == color(-1.0) == "#ffffff"
        assert steps[-1] == color(2.0)


def test_text_can_be_read_on_every_background():
    for background in BACKGROUNDS:
        assert contrast(text_color(background), background) >= 4.5
        dark = getattr(background, "dark", background)
        assert (
            contrast(getattr(text_color(background), "dark", text_color(background)), dark) >= 4.5
        )
    assert {text_color(color) for color in (PAPER, QUIET, MARKED)} == {INK}  # they turn together


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_can_be_read(dark):
    colors = {name: both[dark] for name, both in PAGE_COLORS.items()}
    assert {*THEME} <= {*colors}
    for ground in (PAPER, QUIET, MARKED):
        for text in (INK, FAINT):
            assert contrast(colors[text], colors[ground]) > 4.5, (text, ground)
    assert contrast(colors[HATCH], colors[PAPER]) > 3
    if not dark:
        assert {name: colors[name] for name in THEME} == THEME


def test_the_lines_of_every_head_are_seen_light_and_dark():
    """Those of the darker heads turn with the page."""
    turned = dict(
        re.findall(r'\[stroke="(#\w{6})"\] { stroke: light-dark\(\1, (#\w{6})\); }', PAGE)
    )
    for line in map(line_color, HEAD_COLORS):
        assert contrast(line, hex_color(PAPER)) >= 3, line
        assert contrast(turned.get(line, line), PAGE_COLORS[PAPER][1]) >= 3, line


def test_on_a_dark_page_zero_is_the_paper():
    assert PAGE_COLORS[PAPER][1] == DARK_PAPER
    for head in HEADS:
        assert weight_color(0.0, head).dark == DARK_PAPER
        assert contrast(weight_color(1.0, head).dark, DARK_PAPER) >= 3
    assert contrast(signed_color(0.0, 1.0).dark, DARK_PAPER) < 1.3
    half = weight_color(0.5)
    assert css_color(half) == f"light-dark({half},{half.dark})"
    assert (css_color(PAPER), css_color(head_color(0))) == ("var(--attn-paper)", head_color(0))
