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
    head_color,
    in_page,
    line_color,
    on_white,
    signed_color,
    text_color,
    tint,
    weight_color,
)

TO_LAB = ImageCms.buildTransform(
    ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB"
)


def channels(color: str) -> list[int]:
    return [int(color[place : place + 2], 16) for place in (1, 3, 5)]


def lab(color: str) -> tuple[float, float, float]:
    """Return a place in CIE Lab, where equal distances look equally large."""
    pixel = ImageCms.applyTransform(Image.new("RGB", (1, 1), color), TO_LAB).getpixel((0, 0))
    lightness, *a_and_b = pixel
    return (lightness * 100 / 255, *((value + 128) % 256 - 128 for value in a_and_b))  # signed


@pytest.mark.parametrize(
    ("one", "other", "ratio"),
    [
        ("#000000", "#ffffff", 21.0),
        ("#ffffff", "#ffffff", 1.0),
        ("#777777", "#ffffff", 4.48),
        ("#0072b2", "#ffffff", 5.19),
        ("#d55e00", "#1f2328", 4.09),
    ],
)
def test_contrast_is_that_of_wcag(one, other, ratio):
    assert contrast(one, other) == contrast(other, one) == pytest.approx(ratio, abs=0.02)


def test_twelve_heads_have_twelve_colors_and_then_they_start_again():
    assert len(set(HEAD_COLORS)) == len(HEAD_COLORS) == 12
    assert [head_color(head) for head in range(12)] == list(HEAD_COLORS)
    assert head_color(12) == head_color(0)


def test_no_two_heads_look_alike():
    for head, color in enumerate(HEAD_COLORS):
        for other in HEAD_COLORS[:head]:
            assert math.dist(lab(color), lab(other)) > 20


def test_weights_go_from_pale_to_dark():
    """From white to the color of the head; an amount that is no weight, to gray."""
    for color in (*(partial(weight_color, head=head) for head in range(12)), amount_color):
        steps = [color(step / 20) for step in range(21)]
        darkness = [contrast(step, "#ffffff") for step in steps]
        assert darkness == sorted(darkness)
        assert len(set(steps)) == 21
        assert steps[0] == "#ffffff"
    assert [weight_color(1.0, head) for head in range(12)] == [c.lower() for c in HEAD_COLORS]


def test_colors_out_of_range_are_those_of_the_ends():
    assert weight_color(-1) == weight_color(0)
    assert weight_color(2) == weight_color(1)
    assert signed_color(9, 3) == signed_color(3, 3)


def test_signed_colors_are_red_white_and_blue():
    red, _, blue = channels(signed_color(-2.0, 2.0))
    assert red > 2 * blue
    red, _, blue = channels(signed_color(2.0, 2.0))
    assert blue > 2 * red
    assert min(channels(signed_color(0.0, 2.0))) > 240
    assert signed_color(0.0, 0.0) == signed_color(0.0, 1.0)


def test_a_tint_lies_between_white_and_the_color():
    assert tint("#0072b2", 1.0) == "#0072b2"
    assert tint("#0072b2", 0.0) == on_white(PAPER) == "#ffffff"
    assert tint("#000000", 0.5) == "#808080"


@pytest.mark.parametrize(
    "background",
    [
        *HEAD_COLORS,
        *(weight_color(w / 10, head) for w in range(11) for head in range(12)),
        *(signed_color(v, 5) for v in range(-5, 6)),
    ],
)
def test_text_can_be_read_on_every_background(background):
    assert text_color(background) in (on_white(INK), on_white(PAPER), "#000000")
    assert contrast(text_color(background), background) >= 4.5


# What a page turns light or dark

PAGE = (Path(attncourse.panels.__file__).parent / "panel.css").read_text(encoding="utf-8")
OWN = r"(?:var\([\w-]+, )?light-dark\((#\w{6}), (#\w{6})\)"  # unless the page has one of its own
PAGE_COLORS = re.findall(rf"--attn-(\w+): {OWN}", PAGE)


def test_the_colors_of_the_theme_have_names():
    assert (on_white(INK), in_page(INK)) == ("#1f2328", "var(--attn-ink)")
    assert (on_white("#0072b2"), in_page("#0072b2")) == ("#0072b2", "#0072b2")
    assert (on_white("none"), in_page("none")) == ("none", "none")


def test_on_a_color_of_the_theme_the_text_is_its_ink():
    """A color in hexadecimal is the same in the dark, so the text on it is, too."""
    assert {text_color(color) for color in (PAPER, QUIET, MARKED)} == {INK}
    assert text_color(tint(head_color(0), 0.2)) == on_white(INK)


def test_a_page_has_every_color_of_the_theme_one_for_how_much_and_one_for_edges():
    assert sorted(name for name, _, _ in PAGE_COLORS) == sorted([*THEME, "blue", "edge"])
    assert set(re.findall(r"var\(--attn-(\w+)\)", PAGE)) <= {
        *THEME,
        *("accent", "blue", "edge", "width", "height", "whole", "share", "tokens", "letters"),
        *("around", "high"),
    }


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_can_be_read(dark):
    colors = {name: (light, black)[dark] for name, light, black in PAGE_COLORS}
    for ground in (PAPER, QUIET, MARKED):
        for text in (INK, FAINT):
            assert contrast(colors[text], colors[ground]) > 4.5, (text, ground)
        assert contrast(colors["blue"], colors[ground]) > 3
    assert contrast(colors["blue"], colors[PAPER]) > 4.5  # as text it stands on paper alone
    assert contrast(colors[HATCH], colors[PAPER]) > 3
    if not dark:
        assert colors == {"blue": "#0072b2", "edge": colors["edge"], **THEME}


def test_the_lines_of_every_head_are_seen_light_and_dark():
    """Those of the darker heads turn with the page."""
    (paper,) = ((light, black) for name, light, black in PAGE_COLORS if name == "paper")
    turned = re.findall(
        r'\[stroke="(#\w{6})"\] { --attn-head-line: light-dark\(\1, (#\w{6})\); '
        r"stroke: var\(--attn-head-line\); }",
        PAGE,
    )
    lines = [line_color(color) for color in HEAD_COLORS]
    for line in lines:
        assert contrast(line, paper[0]) >= 3, line
        assert contrast(dict(turned).get(line, line), paper[1]) >= 3, line
    dark = {line for line in lines if contrast(line, paper[1]) < 3}
    assert set(dict(turned)) == dark | {HEAD_COLORS[4]}  # an arc of it may be half transparent


def test_a_line_is_darker_where_its_head_is_pale_and_looks_like_no_other():
    lines = [line_color(color) for color in HEAD_COLORS]
    assert [head for head, line in enumerate(lines) if line != HEAD_COLORS[head]] == [1, 5, 6]
    for head, line in enumerate(lines):
        assert math.dist(lab(line), lab(HEAD_COLORS[head])) < 20
        for other in range(12):
            if other != head:
                assert math.dist(lab(line), lab(lines[other])) > 20
                assert math.dist(lab(line), lab(HEAD_COLORS[other])) > 20


@pytest.mark.parametrize("head", range(12))
def test_on_a_dark_page_zero_is_the_paper_and_every_number_is_read(head):
    assert weight_color(0.0, head).dark == DARK_PAPER
    assert f"light-dark(#ffffff, {DARK_PAPER})" in PAGE
    for percent in range(101):
        fill = weight_color(percent / 100, head)
        assert contrast(text_color(fill).dark, fill.dark) >= 4.5
        both = fill if fill == fill.dark else f"light-dark({fill},{fill.dark})"
        assert in_page(fill) == both
    assert contrast(fill.dark, DARK_PAPER) >= 3
    assert in_page(PAPER) == "var(--attn-paper)"
    assert in_page(head_color(head)) == head_color(head)


@pytest.mark.parametrize("share", [-1.0, -0.5, 0.0, 0.5, 1.0])
def test_signed_colors_turn_with_the_page(share):
    fill = signed_color(share, 1.0)
    assert contrast(text_color(fill).dark, fill.dark) >= 4.5
    assert (contrast(fill.dark, DARK_PAPER) < 1.3) == (share == 0.0)
