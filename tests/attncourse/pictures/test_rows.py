"""Rows of bars: each bar is as long as its number, on an axis that stays."""

import pytest
import torch

from attncourse.pictures.palette import QUIET, head_color
from attncourse.pictures.rows import HIGH, small_bars_picture, softmax_picture
from attncourse.pictures.scene import BOOK, Box, Scene
from support.pictures import check_readable, words

WORDS = ("Your", " journey", " starts", " with", " one")
SCORES = torch.tensor([1.0, -0.5, 2.0, 3.0, 0.25])
WEIGHTS = torch.tensor([0.25, 0.0625, 0.6875, 0.0, 0.0])
CHARTS = {
    row: {f"width {n}": torch.softmax(SCORES * n * scale, -1) for n in (2, 8, 32, 128, 512)}
    for row, scale in (("raw", 1.0), ("scaled", 0.1))
}
EVERY = {
    "a row": softmax_picture(WORDS, SCORES, WEIGHTS, 2),
    "the last row": softmax_picture(WORDS, SCORES, torch.softmax(SCORES, -1), 4),
    "already masked": softmax_picture(
        WORDS, SCORES.masked_fill(torch.arange(5) > 2, -torch.inf), WEIGHTS, 2
    ),
    "charts": small_bars_picture(CHARTS),
}


def bars(scene: Scene, color: str) -> list[Box]:
    return [item for item in scene.items if isinstance(item, Box) and item.fill == color]


@pytest.mark.parametrize("scene", EVERY.values(), ids=EVERY)
def test_everything_fits_and_can_be_read(scene):
    check_readable(scene)
    assert scene.width <= BOOK


def test_a_row_goes_from_scores_to_weights():
    scene = EVERY["a row"]
    found = bars(scene, head_color(0))
    texts = [item.text for item in words(scene)]
    assert texts.count("−inf") == 2
    assert [t for t in texts if t == "2.00"] == ["2.00"] * 2  # as a score, and under the mask
    for weight in WEIGHTS[:3].tolist():
        assert f"{weight:.2f}" in texts
    assert "0.00" not in texts  # the future is blank
    heights = sorted(bar.height for bar in found)
    expected = [*(HIGH * WEIGHTS[:3]).tolist(), *(HIGH / 3.5 * s for s in (1.0, 0.5, 2.0))]
    assert heights == pytest.approx(sorted(expected))
    assert {bar.fill for bar in bars(scene, QUIET)} == {QUIET}
    assert scene.alt == (
        "The row of starts, from scores to weights. with, one: the score becomes −inf, the weight "
        "0. The weights, which sum to 1: starts 0.69, Your 0.25, journey 0.06."
    )


def test_a_negative_score_goes_down_from_zero():
    scene = EVERY["a row"]
    up = bars(scene, head_color(0))[0]
    down = next(b for b in bars(scene, head_color(0)) if b.height == pytest.approx(HIGH / 7))
    assert up.y + up.height == pytest.approx(down.y)


def test_small_charts_share_one_axis_and_name_their_largest_weight():
    scene = EVERY["charts"]
    assert len(bars(scene, QUIET)) == 10
    assert {ground.height for ground in bars(scene, QUIET)} == {HIGH}
    heights = [bar.height for bar in bars(scene, head_color(0))]
    expected = [HIGH * w for row in CHARTS.values() for c in row.values() for w in c.tolist()]
    assert heights == pytest.approx(expected)
    texts = [item.text for item in words(scene)]
    assert [text for text in texts if text.startswith("width")] == list(CHARTS["raw"])
    assert "largest 1.00" in texts
    assert scene.alt.startswith("Bars from 0 to 1. raw: largest weight at width 2: key 4 0.86, ")
