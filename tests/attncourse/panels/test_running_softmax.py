"""The panel of the running softmax: every step against attention itself."""

import pytest
import torch

from attncourse.panels.running_softmax import (
    ADD,
    CORRECT,
    STEPS,
    TILE_SIZE,
    TILES,
    TOKENS,
    WIDE,
    _place,
    compute_tile_step,
    head_and_scores,
)
from attncourse.pictures.palette import QUIET, head_color
from attncourse.pictures.scene import Box, Scene
from attnlib import attention, causal_mask

ALL_STEPS = range(len(STEPS))


@pytest.mark.parametrize("query", TOKENS)
def test_it_ends_where_attention_ends(query):
    last = compute_tile_step(query, len(STEPS) - 1)
    queries, keys, values = head_and_scores()
    right = attention(queries, keys, values, causal_mask(len(keys)))[0][last.query]
    torch.testing.assert_close(last.now.mixed / last.now.total, right)
    torch.testing.assert_close(last.context_vec, right)


@pytest.mark.parametrize("query", TOKENS)
@pytest.mark.parametrize("step", [i for i in ALL_STEPS if STEPS[i] == ADD])
def test_after_each_tile_it_is_attention_over_the_keys_so_far(query, step):
    data = compute_tile_step(query, step)
    queries, keys, values = head_and_scores()
    q, seen = data.query, min(TILE_SIZE * (data.tile + 1), data.query + 1)
    right, _ = attention(queries[q : q + 1], keys[:seen], values[:seen])
    torch.testing.assert_close((data.now.mixed / data.now.total)[None], right)
    assert data.now.largest == data.attn_scores[:seen].max().item()


@pytest.mark.parametrize("query", TOKENS)
def test_a_correction_moves_no_average(query):
    for step in (i for i in ALL_STEPS if STEPS[i] == CORRECT and i > 2):
        data = compute_tile_step(query, step)
        before, now = (part.mixed / part.total for part in (data.before, data.now))
        torch.testing.assert_close(now, before)
        assert data.correction <= 1


def test_a_tile_of_the_future_changes_nothing():
    for step in ALL_STEPS:
        data = compute_tile_step("journey", step)
        if data.tile is not None and data.tile > 0:
            assert data.skipped
            assert data.now.total == data.before.total
            told = f"Tile {data.tile} holds only the future of “journey”: "
            assert told in TILES.readout(data)


def test_no_score_is_shown_but_those_of_the_tile():
    for step in ALL_STEPS:
        data = compute_tile_step("step", step)
        shown = [words.text for words in TILES.draw(data).items if hasattr(words, "text")]
        scores = [f"{score:.2f}".replace("-", "−") for score in data.attn_scores]
        tile = range(0) if data.tile is None else range(2 * data.tile, 2 * data.tile + 2)
        assert [i for i in range(6) if scores[i] in shown] == list(tile)


def mark_at(scene: Scene, value: torch.Tensor) -> tuple[str | None, bool]:
    """Return the fill of the dot that is seen at a value, and whether a ring is around it."""
    x, y = _place(value, WIDE.plane)
    round_ones = [
        box
        for box in scene.items
        if isinstance(box, Box)
        and (box.x + box.radius, box.y + box.radius) == pytest.approx((x, y))
    ]
    dots = [box.fill for box in round_ones if box.fill]
    return dots[-1], head_color(1) in [box.stroke for box in round_ones]


@pytest.mark.parametrize("query", TOKENS)
@pytest.mark.parametrize("step", ALL_STEPS)
def test_a_value_has_a_ring_when_it_arrives_and_is_orange_once_it_is_added(query, step):
    data = compute_tile_step(query, step)
    scene = TILES.draw(data)
    for key, value in enumerate(data.values):
        arrives = 3 * (key // TILE_SIZE) + 1
        added = key <= data.query and step >= arrives + 2
        here = key <= data.query and arrives <= step < arrives + 2
        assert mark_at(scene, value) == (head_color(1) if added else QUIET, here)


@pytest.mark.parametrize("query", TOKENS)
@pytest.mark.parametrize("step", ALL_STEPS)
def test_what_was_added_is_seen_where_values_all_but_coincide(query, step):
    """The values of journey and starts lie nearer than a dot is wide."""
    data = compute_tile_step(query, step)
    items = TILES.draw(data).items
    (x, y), (near_x, near_y) = (_place(value, WIDE.plane) for value in data.values[1:3])
    assert abs(x - near_x) < 4
    assert abs(y - near_y) < 4
    dots = [box for box in items if isinstance(box, Box) and box.fill and box.radius]
    seen = [dot.fill for dot in dots if abs(dot.x + 4 - x) < 4 and abs(dot.y + 4 - y) < 4]
    assert (seen[-1] == head_color(1)) == (data.query > 0 and step > 2)


def test_a_tile_that_is_named_is_framed_also_if_it_is_not_read():
    for step in range(7, 10):
        scene = TILES.draw(compute_tile_step("with", step))
        (frame,) = [box for box in scene.items if isinstance(box, Box) and box.height == 62]
        assert frame.stroke != head_color(1)
        assert frame.x > 400  # the third tile


def test_the_words_say_what_the_step_does():
    said = [TILES.readout(compute_tile_step("step", step)) for step in ALL_STEPS]
    assert "step 8 of 10. A larger score: total and mixed become smaller, times" in said[8]
    assert said[8].endswith("exp(old − new) = 0.632.")
    assert said[-1].endswith("Mixed / total = (0.515, 0.380) is the context vector.")
