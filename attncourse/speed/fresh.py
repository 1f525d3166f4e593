"""Measure variants in a process of their own, which has no history and a memory of its own kind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from attncourse.speed.clock import Call, cpu_seconds, faults_so_far, run_python
from attncourse.speed.results import aligned

USUAL, BLOCKS_KEPT = "as usual", "blocks kept"
KEPT = {"MALLOC_MMAP_THRESHOLD_": str(2**33), "MALLOC_TRIM_THRESHOLD_": str(2**33)}

IMPORTS = """import json
import torch
from attncourse import speed
from attnlib import MultiHeadAttention
"""
SET_UP = """
speed.settle_memory()
torch.set_num_threads(1)
torch.manual_seed(123)
split = MultiHeadAttention({width}, {width}, {num_tokens}, 0.0, {num_heads}).eval()
x = torch.randn(1, {num_tokens}, {width})
calls = {{name: speed.forward(speed.VARIANTS[name](split).eval(), x) for name in {names}}}
speed.require_equal(calls, 1e-5)
speed.settle_memory(22, 256)
"""
TIME = """
faults = {{name: [] for name in calls}}
turns = {{
    name: lambda name=name, call=call: faults[name].append(speed.page_faults(call))
    for name, call in calls.items()
}}
seconds = speed.in_turns(turns, budget=0.0, fewest={rounds}, clock=speed.cpu_seconds)
print(json.dumps([seconds, faults]))
"""
PEAK = """
from attncourse.speed.clock import peak_bytes
torch.set_num_threads(1)
torch.manual_seed(123)
split = MultiHeadAttention({width}, {width}, {num_tokens}, 0.0, {num_heads})
module = speed.VARIANTS[{name!r}](split)
x = torch.randn(1, {num_tokens}, {width})
few = x[:, :16]
speed.forward(module, few)()
start = peak_bytes()
speed.forward(module, x)()
forward = peak_bytes() - start
speed.forward_and_backward(module, x)()
print(json.dumps([forward, peak_bytes() - start]))
"""


class Run(NamedTuple):
    """What one call took, by cpu_seconds, and how many page faults it caused."""

    ms: float
    page_faults: int


class Peak(NamedTuple):
    """By how many bytes a variant raised the peak memory of a process."""

    forward: int
    both: int  # with the backward pass


def in_fresh_process(
    names: Sequence[str],
    blocks_kept: bool = False,
    num_tokens: int = 1024,
    width: int = 768,
    num_heads: int = 12,
    rounds: int = 3,
) -> list[dict[str, Run]]:
    """Time variants in turns in a new process, and count their page faults.

    Blocks of memory are made and given back before the clock starts, as settle_memory says; the
    last is larger than all those of a pass, so that a process that keeps it has room for them.

    Args:
        names: of VARIANTS; all are built with the same weights, and must be equal.
        blocks_kept: whether the C library of Linux (glibc) is told to keep every block of memory
            that is given back, however large. Other systems take no notice.
        num_tokens: in the one text of the batch.
        width: d_in and d_out.
        num_heads: how many.
        rounds: how often each runs.

    Returns:
        For each round a Run for each name.
    """
    sizes = {"num_tokens": num_tokens, "width": width, "num_heads": num_heads}
    script = IMPORTS + (SET_UP + TIME).format(names=list(names), rounds=rounds, **sizes)
    seconds, faults = json.loads(run_python(script, **(KEPT if blocks_kept else {})))
    return [
        {name: Run(1e3 * seconds[name][i], faults[name][i]) for name in names}
        for i in range(rounds)
    ]


def with_and_without_kept_blocks(
    names: Sequence[str], processes: int = 1, **options: int
) -> dict[str, list[dict[str, Run]]]:
    """Time variants in fresh processes, alternately as usual and with all blocks of memory kept.

    Args:
        names: of VARIANTS.
        processes: how many of each kind.
        options: of in_fresh_process.

    Returns:
        The rounds "as usual", and those with "blocks kept", of all processes.
    """
    runs: dict[str, list[dict[str, Run]]] = {USUAL: [], BLOCKS_KEPT: []}
    for _ in range(processes):
        for arm, some in runs.items():
            some += in_fresh_process(names, blocks_kept=arm == BLOCKS_KEPT, **options)
    return runs


def runs_table(runs: Mapping[str, Sequence[Mapping[str, Run]]]) -> str:
    """Return a line for each variant and arm: what its rounds took, the least and the most.

    >>> found = [{"a": Run(2.0, 7)}, {"a": Run(4.0, 7)}]
    >>> print(runs_table({"as usual": found}))
                 ms      page faults
    a, as usual  2 to 4  7
    """
    rows = [["", "ms", "page faults"]]
    for name in next(iter(runs.values()))[0]:
        for arm, some in runs.items():
            columns = zip(*(run[name] for run in some), strict=True)
            rows.append([f"{name}, {arm}", *map(_ends, columns)])
    return aligned(rows)


def _ends(samples: Sequence[float]) -> str:
    least, most = f"{min(samples):,.0f}", f"{max(samples):,.0f}"
    return least if least == most else f"{least} to {most}"


def saved_by_keeping(runs: Mapping[str, Sequence[Mapping[str, Run]]], name: str) -> Run:
    """Return how much less a variant takes, in its quickest round, with all blocks kept.

    The quickest, since another program on the machine can only make a round slower.

    >>> runs = {"as usual": [{"a": Run(5.0, 7)}], "blocks kept": [{"a": Run(2.0, 3)}]}
    >>> saved_by_keeping(runs, "a")
    Run(ms=3.0, page_faults=4)
    """
    usual, kept = (min(run[name] for run in runs[arm]) for arm in (USUAL, BLOCKS_KEPT))
    return Run(usual.ms - kept.ms, usual.page_faults - kept.page_faults)


def new_and_used_block(*shape: int, rounds: int = 5) -> tuple[Run, Run]:
    """Return what it takes to fill a tensor with zeros: a new one, and one that was filled before.

    Args:
        shape: of the tensor, float32.
        rounds: how often each is filled.

    Returns:
        The medians: with a tensor that is made, filled and given back, and with one that is there.
    """
    used = torch.zeros(shape)

    def fill_a_new_one() -> None:
        torch.empty(shape).zero_()

    calls: tuple[Call, Call] = (fill_a_new_one, used.zero_)
    found: tuple[list[Run], list[Run]] = ([], [])
    for _ in range(rounds):
        for runs, call in zip(found, calls, strict=True):
            before = faults_so_far()
            seconds = cpu_seconds(call)
            runs.append(Run(1e3 * seconds, faults_so_far() - before))
    new, old = (
        Run(_median([run.ms for run in runs]), round(_median([run.page_faults for run in runs])))
        for runs in found
    )
    return new, old


def peak(name: str, num_tokens: int = 1024, width: int = 768, num_heads: int = 12) -> Peak:
    """Return by how much a variant raises the peak memory of a new process.

    Args:
        name: of VARIANTS.
        num_tokens: in the one text of the batch.
        width: d_in and d_out.
        num_heads: how many.
    """
    script = IMPORTS + PEAK.format(
        name=name, num_tokens=num_tokens, width=width, num_heads=num_heads
    )
    return Peak(*json.loads(run_python(script)))


def _median(samples: Sequence[float]) -> float:
    return sorted(samples)[len(samples) // 2]
