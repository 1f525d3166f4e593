"""Where the time of a forward goes: phases, processes of their own, and what autograd keeps."""

import sys
import time

import pytest
import torch

from attncourse import speed
from attncourse.speed.fresh import Run
from attncourse.speed.phases import PHASES, TILE_PHASES
from attnlib import MultiHeadAttention, attention, causal_mask, tiled_attention

WIDTH, HEADS, TOKENS = 21, 7, 11
SMALL = {"num_tokens": TOKENS, "width": WIDTH, "num_heads": HEADS}
IN_PIECES = {"projections", "scores", "scale", "mask", "softmax", "mix"}
EXPECTED = {
    "stacked heads": IN_PIECES,
    "weight split": IN_PIECES,
    "weight split, as published": IN_PIECES,
    "FusedMultiHeadAttention": {"projections", "fused kernel"},
}


@pytest.mark.parametrize("name", EXPECTED)
@torch.no_grad()
def test_every_kernel_is_put_under_its_phase(name):
    torch.manual_seed(1)
    split = MultiHeadAttention(WIDTH, WIDTH, TOKENS, 0.0, HEADS).eval()
    call = speed.forward(speed.VARIANTS[name](split).eval(), torch.randn(2, TOKENS, WIDTH))
    found = speed.phases(call, rounds=2)
    assert set(found) - {"rest"} == EXPECTED[name]
    assert list(found) == [phase for phase in PHASES if phase in found]
    assert all(phase.seconds >= 0 and phase.page_faults >= 0 for phase in found.values())


@torch.no_grad()
def test_what_is_kept_from_tile_to_tile_is_a_phase(monkeypatch):
    seen = []
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: seen.append(1) or torch.bmm(a, b))
    inputs = torch.randn(3, HEADS, TOKENS, 3)
    found = speed.tile_phases(lambda: tiled_attention(*inputs, tile_size=3), rounds=1)
    assert list(found) == list(TILE_PHASES)
    assert len(seen) == 2 * 4  # of each tile
    assert all(phase.seconds > 0 for phase in found.values())


def test_the_seconds_of_this_process_are_not_those_of_a_sleep():
    slept = speed.cpu_seconds(lambda: time.sleep(0.05))
    assert slept < 0.04 or sys.platform == "win32"
    assert speed.cpu_seconds(lambda: torch.randn(400, 400) @ torch.randn(400, 400)) > 0


def test_the_setting_of_huge_pages_is_one_word_or_nothing():
    assert speed.huge_pages() in {"", "always", "madvise", "never"}


def test_fresh_processes_time_what_they_have_compared():
    names = ("weight split", "stacked heads")
    found = speed.with_and_without_kept_blocks(names, rounds=2, **SMALL)
    assert list(found) == ["as usual", "blocks kept"]
    for by_name in found.values():
        assert {name: len(runs) for name, runs in by_name.items()} == dict.fromkeys(names, 2)
        runs = [run for some in by_name.values() for run in some]
        assert all(run.ms > 0 and run.page_faults >= 0 for run in runs)


def test_what_is_saved_is_told_between_the_quickest_rounds():
    usual = [Run(ms, faults) for ms, faults in ((9.0, 60), (5.0, 70), (7.0, 80))]
    kept = [Run(ms, faults) for ms, faults in ((2.0, 3), (4.0, 2), (99.0, 1))]
    runs = {"as usual": {"a": usual}, "blocks kept": {"a": kept}}
    assert speed.saved_by_keeping(runs, "a") == Run(3.0, 67)


def test_a_block_that_was_written_before_is_there():
    new, used = speed.new_and_used_block(12, 1024, 1024, rounds=3)
    assert new.ms > 0
    assert used.ms > 0
    assert used.page_faults <= max(new.page_faults, 16)


def test_the_backward_pass_raises_the_peak_further():
    found = speed.peak("weight split", num_tokens=512, width=24, num_heads=12)
    scores = 12 * 512**2 * 4
    assert scores <= found.forward < found.both


def test_what_autograd_keeps():
    mask = causal_mask(TOKENS)
    inputs = torch.randn(3, HEADS, TOKENS, 3)
    a_tensor, pairs = HEADS * TOKENS * 3 * 4, HEADS * TOKENS**2 * 4
    everything = speed.kept_for_backward(lambda *qkv: attention(*qkv, mask)[0], *inputs)
    assert pairs <= everything <= 4 * a_tensor + pairs + TOKENS**2
    in_tiles = speed.kept_for_backward(lambda *qkv: tiled_attention(*qkv, tile_size=3), *inputs)
    assert in_tiles == 4 * a_tensor + HEADS * TOKENS * 4  # q, k, v, the output, log of the total
