"""The processor's own time, processes of their own, and what autograd keeps."""

import sys
import time

import torch

from attncourse import speed

WIDTH, HEADS, TOKENS = 21, 7, 11
SMALL = {"num_tokens": TOKENS, "width": WIDTH, "num_heads": HEADS}


def test_the_seconds_of_this_process_are_not_those_of_a_sleep():
    slept = speed.cpu_seconds(lambda: time.sleep(0.05))
    assert slept < 0.04 or sys.platform == "win32"
    assert speed.cpu_seconds(lambda: torch.randn(400, 400) @ torch.randn(400, 400)) > 0


def test_fresh_processes_time_each_variant_in_each_round():
    names = ("weight split", "stacked heads")
    found = speed.time_in_new_processes(names, rounds=1, **SMALL)
    assert list(found) == ["as usual", "blocks kept"]
    for by_name in found.values():
        assert {name: len(runs) for name, runs in by_name.items()} == dict.fromkeys(names, 1)
        runs = [run for some in by_name.values() for run in some]
        assert all(run.ms > 0 and run.page_faults >= 0 for run in runs)
