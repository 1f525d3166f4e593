"""The panel of the online softmax: every step against attention itself."""

import pytest
import torch

from attncourse.panels import ONLINE_SOFTMAX
from attncourse.panels.online_softmax import (
    ADD,
    CORRECT,
    STEPS,
    TILE_SIZE,
    TOKENS,
    compute_tile_step,
    projections,
)
from attncourse.pictures.scene import Text
from attnlib import attention

each_query = pytest.mark.parametrize("query", TOKENS)


@each_query
def test_after_each_tile_it_is_attention_over_the_keys_so_far(query):
    queries, keys, values = projections()
    for step in (i for i, kind in enumerate(STEPS) if kind == ADD):
        data = compute_tile_step(query, step)
        q, seen = data.query, min(TILE_SIZE * (data.tile + 1), data.query + 1)
        right, _ = attention(queries[q : q + 1], keys[:seen], values[:seen])
        torch.testing.assert_close((data.now.mixed / data.now.total)[None], right)
        assert data.now.largest == data.attn_scores[:seen].max().item()


@each_query
def test_a_correction_moves_no_average(query):
    for step in (i for i, kind in enumerate(STEPS) if kind == CORRECT and i > 2):
        data = compute_tile_step(query, step)
        before, now = (sums.mixed / sums.total for sums in (data.before, data.now))
        torch.testing.assert_close(now, before)
        assert data.correction <= 1


def test_a_tile_of_the_future_changes_nothing():
    for step in range(4, 10):
        data = compute_tile_step("journey", step)
        assert data.is_skipped
        assert data.now.total == data.before.total
        told = f"Tile {data.tile} holds only the future of “journey”: "
        assert told in ONLINE_SOFTMAX.readout(data)


def test_no_score_is_shown_but_those_of_the_tile():
    for step in range(len(STEPS)):
        data = compute_tile_step("step", step)
        tiles, _ = ONLINE_SOFTMAX.draw(data)
        shown = [item.text for item in tiles.items if isinstance(item, Text)]
        scores = [f"{score:.2f}".replace("-", "−") for score in data.attn_scores]
        tile = range(0) if data.tile is None else range(2 * data.tile, 2 * data.tile + 2)
        assert [i for i in range(6) if scores[i] in shown] == list(tile)


def test_the_words_say_what_the_step_does():
    said = [ONLINE_SOFTMAX.readout(compute_tile_step("step", step)) for step in range(len(STEPS))]
    assert "step 8 of 10. A larger score: total and mixed become smaller, times" in said[8]
    assert said[8].endswith("exp(old − new) = 0.632.")
    assert said[-1].endswith("Mixed / total = (0.515, 0.380) is the context vector.")
