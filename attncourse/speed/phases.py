"""Where the time of a forward pass goes: each call of a kernel timed and put under its phase."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attncourse.speed.clock import Call, cpu_seconds, faults_so_far, settle_memory

PROJECTIONS, SCORES, SCALE, MASK = "projections", "scores", "scale", "mask"
SOFTMAX, MIX, KERNEL, REST = "softmax", "mix", "fused kernel", "rest"
PHASES = (PROJECTIONS, SCORES, SCALE, MASK, SOFTMAX, MIX, KERNEL, REST)
PRODUCTS, KEPT = "products", "total and mixed"
TILE_PHASES = (PRODUCTS, KEPT, REST)


class Phase(NamedTuple):
    """What a phase of one forward pass costs."""

    seconds: float
    page_faults: float


def phases(call: Call, rounds: int = 5) -> dict[str, Phase]:
    """Time the phases of attention inside a call that runs it.

    Every kernel is timed where torch starts it, by cpu_seconds, so the cost of Python between two
    of them is in none: with few tokens the phases are less than the whole. Memory is settled
    before, as settle_memory says.

    Args:
        call: runs a forward pass; must have run before.
        rounds: how often it is run.

    Returns:
        For each phase that occurs, in the order of PHASES, the medians over the rounds.

    >>> from attnlib.functional import attention
    >>> list(phases(lambda: attention(*torch.ones(3, 2, 5, 4))))
    ['scores', 'scale', 'softmax', 'mix', 'rest']
    """
    return _time(call, rounds, PHASES, _phase)


def tile_phases(call: Call, rounds: int = 5) -> dict[str, Phase]:
    """Time the phases of a call of tiled_attention, as phases does.

    They are the matrix products, the updates of what is kept from tile to tile, and the rest:
    exponentials, masks, maxima.

    >>> from attnlib import tiled_attention
    >>> list(tile_phases(lambda: tiled_attention(*torch.ones(3, 5, 4), tile_size=2)))
    ['products', 'total and mixed', 'rest']
    """
    return _time(call, rounds, TILE_PHASES, _tile_phase)


PhaseOf = Callable[[str, Any, Any], str]  # from a kernel's name, its arguments and its result


def _time(call: Call, rounds: int, names: Sequence[str], phase_of: PhaseOf) -> dict[str, Phase]:
    settle_memory()
    runs = []
    for _ in range(rounds):
        with _Stopwatch(phase_of) as stopwatch:
            call()
        runs.append(stopwatch.spent)
    found = {}
    for name in names:
        if any(name in run for run in runs):
            spent = [run[name] for run in runs]
            found[name] = Phase(*(statistics.median(column) for column in zip(*spent, strict=True)))
    return found


class _Stopwatch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types
    def __init__(self, phase_of: PhaseOf) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase_of = phase_of
        self.spent: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = []
        faults = faults_so_far()
        seconds = cpu_seconds(lambda: results.append(func(*args, **(kwargs or {}))))
        faults, result = faults_so_far() - faults, results[0]
        name = self.phase_of(str(func.overloadpacket), args, result)
        before = self.spent[name]
        self.spent[name] = (before[0] + seconds, before[1] + faults)
        return result


def _phase(kernel: str, args: Any, result: Any) -> str:
    """Return the phase that a kernel belongs to, by its name and by what it makes."""
    kernel = kernel.removeprefix("aten.")
    if "scaled_dot_product" in kernel:
        return KERNEL
    if kernel in {"mm", "addmm"}:
        return PROJECTIONS
    if kernel in {"bmm", "baddbmm"}:
        return SCORES if result.shape[-1] == result.shape[-2] else MIX
    if kernel in {"div", "div_", "mul", "mul_"}:
        return SCALE
    if kernel in {"masked_fill", "masked_fill_", "gt", "bitwise_not"}:
        return MASK
    if kernel == "_to_copy" and isinstance(result, Tensor) and result.dtype == torch.bool:
        return MASK
    return SOFTMAX if kernel == "_softmax" else REST


def _tile_phase(kernel: str, args: Any, result: Any) -> str:
    kernel = kernel.removeprefix("aten.")
    if kernel in {"mm", "bmm"}:
        return PRODUCTS
    return KEPT if kernel in {"mul", "add"} else REST
