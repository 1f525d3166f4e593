"""Measure variants in a process of their own, which has no history and a memory of its own kind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch

from attncourse.speed.clock import (
    cpu_seconds,
    forward,
    in_turns,
    page_faults,
    require_equal,
    run_python,
    settle_memory,
)
from attncourse.speed.variants import VARIANTS
from attnlib.modules import MultiHeadAttention

KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**33), "MALLOC_TRIM_THRESHOLD_": str(2**33)}


class Run(NamedTuple):
    """What one call took, by cpu_seconds, and how many page faults it caused."""

    ms: float
    page_faults: int


Runs = dict[str, list[Run]]  # of each name, a Run for each round


def time_variants(
    names: Sequence[str], num_tokens: int, width: int, num_heads: int, rounds: int
) -> Runs:
    """Time variants in this process, which should be a new one."""
    settle_memory()
    torch.set_num_threads(1)
    torch.manual_seed(123)
    split = MultiHeadAttention(width, width, num_tokens, 0.0, num_heads)
    x = torch.randn(1, num_tokens, width)
    calls = {name: forward(VARIANTS[name](split.eval()).eval(), x) for name in names}
    require_equal(calls, 1e-5)
    settle_memory(22, 256)
    faults: dict[str, list[int]] = {name: [] for name in calls}

    def count(name: str) -> None:
        faults[name].append(page_faults(calls[name]))

    turns = {name: partial(count, name) for name in calls}
    seconds = in_turns(turns, budget=0.0, fewest=rounds, clock=cpu_seconds)
    return {name: list(map(Run, (1e3 * s for s in seconds[name]), faults[name])) for name in calls}


def with_and_without_kept_blocks(
    names: Sequence[str],
    num_tokens: int = 1024,
    width: int = 768,
    num_heads: int = 12,
    rounds: int = 3,
) -> dict[str, Runs]:
    """Time variants in turns in a new process, and count their page faults; then in another.

    Blocks of memory are made and given back before the clock starts, as settle_memory says; the
    last is larger than all those of a pass, so that a process that keeps it has room for them.
    In the second process the C library of Linux (glibc) is told to keep every block of memory that
    is given back, however large. Other systems take no notice.

    Args:
        names: of VARIANTS; all are built with the same weights, and must be equal.
        num_tokens: in the one text of the batch.
        width: d_in and d_out.
        num_heads: how many.
        rounds: how often each runs.

    Returns:
        The rounds "as usual", and those with "blocks kept".
    """
    call = f"time_variants({list(names)}, {num_tokens}, {width}, {num_heads}, {rounds})"
    script = f"import json\nfrom attncourse.speed import fresh\nprint(json.dumps(fresh.{call}))"
    told = {"as usual": run_python(script), "blocks kept": run_python(script, **KEPT)}
    return {
        how: {name: [Run(*run) for run in some] for name, some in json.loads(said).items()}
        for how, said in told.items()
    }
