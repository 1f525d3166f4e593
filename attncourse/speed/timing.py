"""Time functions in turns, so that the numbers can be compared.

A machine's speed drifts during a measurement, so candidates alternate, round after round: the drift
affects all of them alike.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

Call = Callable[[], Any]
Clock = Callable[[Call], float]


class Quartiles(NamedTuple):
    """The values below which lie a quarter, a half and three quarters of the samples."""

    lower: float
    median: float
    upper: float


def quartiles(samples: Iterable[float]) -> Quartiles:
    """Return the quartiles of samples; for a single sample, that sample three times.

    >>> quartiles([4.0, 1.0, 2.0, 3.0, 5.0])
    Quartiles(lower=2.0, median=3.0, upper=4.0)
    """
    samples = list(samples)
    if len(samples) == 1:
        return Quartiles(samples[0], samples[0], samples[0])
    return Quartiles(*statistics.quantiles(samples, n=4, method="inclusive"))


def ratio(samples: Mapping[str, list[float]], name: str, other: str) -> Quartiles:
    """Return the quartiles of one name's time over another's, paired round by round.

    >>> ratio({"slow": [2.0, 6.0], "fast": [1.0, 3.0]}, "slow", "fast").median
    2.0
    """
    return quartiles(a / b for a, b in zip(samples[name], samples[other], strict=True))


def seconds(call: Call) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def cpu_seconds(call: Call) -> float:
    """Return the processor time of a call, the system's work for it included.

    What other processes take of the processor in between does not count. Use it with one thread:
    those of several are added up. Windows counts processor time too coarsely, so there it is the
    time that passes.
    """
    now = time.perf_counter if sys.platform == "win32" else time.process_time
    start = now()
    call()
    return now() - start


def count_page_faults(call: Call) -> int:
    """Return how many page faults a call causes: first touches of a page of memory."""
    before = _page_faults_so_far()
    call()
    return _page_faults_so_far() - before


def _page_faults_so_far() -> int:
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().num_page_faults)
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def time_in_turns(
    calls: Mapping[str, Call],
    budget: float,
    fewest: int = 3,
    most: int = 40,
    clock: Clock = seconds,
) -> dict[str, list[float]]:
    """Time calls in rounds, one after the other, every second round backwards.

    Each call must have run before, so that no set-up is timed. The first round decides how many
    fit into budget, in seconds, between fewest and most. Returns for each name the seconds of each
    round.

    >>> time_in_turns({"a": int, "b": int}, budget=1.0, most=3, clock=lambda call: 0.5)
    {'a': [0.5, 0.5, 0.5], 'b': [0.5, 0.5, 0.5]}
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    rounds = fewest
    done = 0
    start = time.perf_counter()
    while done < rounds:
        for name in names:
            samples[name].append(clock(calls[name]))
        names.reverse()
        done += 1
        if done == 1:
            fit = int(budget / max(time.perf_counter() - start, 1e-9))
            rounds = min(max(fewest, fit), most)
    return samples


def forward(module: nn.Module, x: Tensor) -> Call:
    """Return a function that runs the module without gradients."""
    return torch.no_grad()(lambda: module(x))


def time_generation(
    models: Mapping[str, Any], token_ids: Sequence[int], steps: int
) -> tuple[dict[str, float], dict[str, list[int]]]:
    """Let models continue the same tokens, in turns, a token at a time.

    The first token is not timed, because a cache is filled there. Returns for each name the
    milliseconds of the median step, of processor time, and all its tokens.
    """
    tokens = {name: each.generate_ids(token_ids, steps + 1) for name, each in models.items()}
    generated = {name: [next(each)] for name, each in tokens.items()}

    def step(name: str) -> None:
        generated[name].append(next(tokens[name]))

    took = time_in_turns(
        {name: partial(step, name) for name in models}, 0, steps, clock=cpu_seconds
    )
    return {name: 1e3 * quartiles(each).median for name, each in took.items()}, generated
