"""The way of the last word through a head: every number of the model stands in its cell."""

from __future__ import annotations

import pytest
import torch

from attncourse.learning import mini_model, sentences
from attncourse.pictures import head_picture
from attncourse.pictures.palette import head_color
from attncourse.pictures.scene import BOOK, Box
from support.pictures import boxes, check_readable, text_in

TEXTS = [sentences()[i].text for i in (0, 29, 47, 119)]


def shown(table: torch.Tensor) -> list[str]:
    return [f"{round(x, 1) + 0.0:.1f}".replace("-", "−") for x in table.flatten().tolist()]


@pytest.mark.parametrize("text", TEXTS)
def test_it_fits_and_can_be_read(text):
    scene = head_picture(mini_model().read(text))
    check_readable(scene)
    assert scene.width == BOOK


@pytest.mark.parametrize("text", TEXTS)
def test_every_number_is_the_models(text):
    read = mini_model().read(text)
    scene = head_picture(read)
    said = [text_in(scene, box) for box in boxes(scene, 41, 25)]
    tables = (read.x, read.queries[-1], read.keys, read.values, read.scores[-1], read.numbers)
    tables += (read.x[-1], read.after - read.before, read.after)
    assert said == [number for table in tables for number in shown(table)]


def test_the_weights_are_bars_and_words():
    read = mini_model().read(TEXTS[1])
    scene = head_picture(read)
    bars = [b for b in scene.items if isinstance(b, Box) and b.fill == head_color(0)]
    long = [bar.width for bar in bars]
    assert [x / sum(long) for x in long] == pytest.approx(read.weights[-1].tolist())
    for token, weight in zip(read.tokens, read.weights[-1].tolist(), strict=True):
        if weight > 0.1:
            assert f"{token} {weight:.2f}" in scene.alt
