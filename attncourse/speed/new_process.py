"""Measure variants in a process of their own, which has no history and a memory of its own kind."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

from attncourse.speed.timing import (
    count_page_faults,
    cpu_seconds,
    forward,
    time_in_turns,
)
from attnlib.convert import split_to_stacked
from attnlib.modules import MultiHeadAttention

# Tell the C library of Linux (glibc) to keep every block of memory that is given back, however
# large. Other systems ignore it.
KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**33), "MALLOC_TRIM_THRESHOLD_": str(2**33)}


def _stacked_heads(split: MultiHeadAttention) -> nn.Module:
    bare = copy.deepcopy(split)
    nn.init.eye_(bare.out_proj.weight)
    nn.init.zeros_(bare.out_proj.bias)
    return nn.Sequential(split_to_stacked(bare), copy.deepcopy(split.out_proj))


# By name: makes of a MultiHeadAttention a module that computes the same, with a copy of its weights
VARIANTS: dict[str, Callable[[MultiHeadAttention], nn.Module]] = {
    "stacked heads": _stacked_heads,
    "weight split": copy.deepcopy,
}


class Run(NamedTuple):
    """What one call took, by cpu_seconds, and how many page faults it caused."""

    ms: float
    page_faults: int


Runs = dict[str, list[Run]]  # of each name, a Run for each round


def run_python(script: str, **environment: str) -> str:
    """Run Python code in a fresh process, with these variables set, and return what it prints."""
    command = [sys.executable, "-c", script]
    variables = {**os.environ, **environment}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
    return ran.stdout


def _settle_memory(*mib: int) -> None:
    """Fill blocks of memory and give them back, so that what runs next finds the smaller ones.

    The C library of Linux keeps a block that is given back if it has seen one as large before, up
    to 32 MiB. The first of two such blocks teaches it, the second is kept, and from then on twice
    as much in all, which must be less than a block whose page faults are counted.
    """
    for size in mib:
        torch.zeros(size, 2**18)


def time_variants(
    names: Sequence[str], num_tokens: int, width: int, num_heads: int, rounds: int
) -> Runs:
    """Time variants in this process, which should be a new one."""
    _settle_memory(22, 22)
    torch.set_num_threads(1)
    torch.manual_seed(123)
    split = MultiHeadAttention(width, width, num_tokens, 0.0, num_heads)
    x = torch.randn(1, num_tokens, width)
    calls = {name: forward(VARIANTS[name](split.eval()).eval(), x) for name in names}
    _settle_memory(22, 256)  # larger than all blocks of a pass together
    faults: dict[str, list[int]] = {name: [] for name in calls}

    def count(name: str) -> None:
        faults[name].append(count_page_faults(calls[name]))

    turns = {name: partial(count, name) for name in calls}
    took = time_in_turns(turns, budget=0.0, fewest=rounds, clock=cpu_seconds)
    return {name: list(map(Run, (1e3 * s for s in took[name]), faults[name])) for name in calls}


def time_in_new_processes(
    names: Sequence[str],
    num_tokens: int = 1024,
    width: int = 768,
    num_heads: int = 12,
    rounds: int = 3,
) -> dict[str, Runs]:
    """Time variants in turns in a new process, then in another that keeps its memory.

    The variants, of VARIANTS, have the same weights. Each runs once a round. The result has the
    rounds "as usual", and those with "blocks kept".
    """
    call = f"time_variants({list(names)}, {num_tokens}, {width}, {num_heads}, {rounds})"
    script = (
        "import json; from attncourse.speed.new_process import time_variants; "
        f"print(json.dumps({call}))"
    )
    printed = {"as usual": run_python(script), "blocks kept": run_python(script, **KEPT)}
    return {
        how: {name: [Run(*run) for run in runs] for name, runs in json.loads(text).items()}
        for how, text in printed.items()
    }
