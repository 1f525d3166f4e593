"""Rows of bars: each bar is as long as its number, on an axis that stays."""

import pytest
import torch

from attncourse.pictures.palette import QUIET, head_color
from attncourse.pictures.rows import HIGH, muted_picture, small_bars_picture, softmax_picture
from attncourse.pictures.scene import BOOK, Box, Scene
from support.pictures import check_readable, words

WORDS = ("Your", " journey", " starts", " with", " one")
SCORES = torch.tensor([1.0, -0.5, 2.0, 3.0, 0.25])
WEIGHTS = torch.tensor([0.25, 0.0625, 0.6875, 0.0, 0.0])
CHARTS = {
    row: {f"width {n}": torch.softmax(SCORES * n * scale, -1) for n in (2, 8, 32, 128, 512)}
    for row, scale in (("raw", 1.0), ("scaled", 0.1))
}
LEFT = torch.full((30, 9), 0.75).index_put(
    (torch.tensor([23, 2]), torch.tensor([4, 7])), torch.tensor([0.125, 1.0])
)
EVERY = {
    "a row": softmax_picture(WORDS, SCORES, WEIGHTS, 2),
    "the last row": softmax_picture(WORDS, SCORES, torch.softmax(SCORES, -1), 4),
    "already masked": softmax_picture(
        WORDS, SCORES.masked_fill(torch.arange(5) > 2, -torch.inf), WEIGHTS, 2
    ),
    "charts": small_bars_picture(CHARTS),
    "muted": muted_picture(LEFT, 0.75, "Paris"),
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


def test_the_last_row_has_no_future_and_nothing_is_masked():
    texts = [item.text for item in words(EVERY["the last row"])]
    assert "masked" not in texts
    assert "−inf" not in texts
    assert texts.count("3.00") == 1
    assert EVERY["the last row"].height == EVERY["a row"].height - 46


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


def test_a_muted_head_hangs_from_the_line_or_rises_above_it():
    scene = EVERY["muted"]
    drawn = [item for item in scene.items if isinstance(item, Box)]
    assert len(drawn) == 270
    falls = [bar for bar in drawn if bar.height]
    assert [(bar.y + bar.height, bar.fill) for bar in falls] == [
        (pytest.approx(34 + 150 * 0.25), head_color(0)),
        (pytest.approx(34 + 150 * 0.875), head_color(1)),
    ]
    assert falls[0].y == 34
    assert [bar.height for bar in falls] == [pytest.approx(37.5), pytest.approx(93.75)]
    assert [drawn.index(bar) for bar in falls] == [2 * 9 + 7, 23 * 9 + 4]
    assert scene.alt.endswith("None muted: 0.75. The lowest is L23H4: 0.125.")
