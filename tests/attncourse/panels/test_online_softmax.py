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
from attnlib import attention


@pytest.mark.parametrize("query", TOKENS)
def test_after_each_tile_it_is_attention_over_the_keys_so_far(query):
    queries, keys, values = projections()
    for step, kind in enumerate(STEPS):
        data = compute_tile_step(query, step)
        before, now = (sums.mixed / sums.total for sums in (data.before, data.now))
        if kind == ADD:
            q, seen = data.query, min(TILE_SIZE * (data.tile + 1), data.query + 1)
            right, _ = attention(queries[q : q + 1], keys[:seen], values[:seen])
            torch.testing.assert_close(now[None], right)
            assert data.now.largest == data.attn_scores[:seen].max().item()
        if kind == CORRECT and step > 2:  # a correction moves no average
            torch.testing.assert_close(now, before)
            assert data.correction <= 1


def test_the_words_say_what_the_step_does():
    said = [ONLINE_SOFTMAX.readout(compute_tile_step("step", step)) for step in range(len(STEPS))]
    assert "step 8 of 10. A larger score: total and mixed become smaller, times" in said[8]
    assert said[-1].endswith("Mixed / total = (0.515, 0.380) is the context vector.")
    skipped = compute_tile_step("journey", 4)
    assert skipped.now.total == skipped.before.total
    assert "Tile 1 holds only the future of “journey”" in ONLINE_SOFTMAX.readout(skipped)
