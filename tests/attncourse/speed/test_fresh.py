"""The processor's own time, processes of their own, and what autograd keeps."""

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from attncourse import speed
from attnlib import attention, causal_mask

WIDTH, HEADS, TOKENS = 21, 7, 11
SMALL = {"num_tokens": TOKENS, "width": WIDTH, "num_heads": HEADS}


def test_the_seconds_of_this_process_are_not_those_of_a_sleep():
    slept = speed.cpu_seconds(lambda: time.sleep(0.05))
    assert slept < 0.04 or sys.platform == "win32"
    assert speed.cpu_seconds(lambda: torch.randn(400, 400) @ torch.randn(400, 400)) > 0


def test_fresh_processes_time_what_they_have_compared():
    names = ("weight split", "stacked heads")
    found = speed.with_and_without_kept_blocks(names, rounds=1, **SMALL)
    assert list(found) == ["as usual", "blocks kept"]
    for by_name in found.values():
        assert {name: len(runs) for name, runs in by_name.items()} == dict.fromkeys(names, 1)
        runs = [run for some in by_name.values() for run in some]
        assert all(run.ms > 0 and run.page_faults >= 0 for run in runs)


def kept_for_backward(function: Callable[..., Tensor], inputs: Tensor) -> int:
    """Return how many bytes autograd keeps of a function of three inputs."""
    seen = {}  # the tensors stay alive, so that no place is taken twice
    keep = lambda tensor: seen.setdefault(tensor.data_ptr(), tensor)  # noqa: E731
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        function(*(one.clone().requires_grad_() for one in inputs))
    return sum(tensor.nbytes for tensor in seen.values())


def test_what_autograd_keeps():
    mask = causal_mask(TOKENS)
    inputs = torch.randn(3, HEADS, TOKENS, 3)
    a_tensor, pairs = HEADS * TOKENS * 3 * 4, HEADS * TOKENS**2 * 4
    everything = kept_for_backward(lambda *qkv: attention(*qkv, mask)[0], inputs)
    assert pairs <= everything <= 4 * a_tensor + pairs + TOKENS**2
