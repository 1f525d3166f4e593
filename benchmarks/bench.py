"""Time the ways to write attention side by side, and compare the numbers with the goals.

    python benchmarks/bench.py [--quick]

The ways run in turns, round after round, so that a machine that gets slower slows all of them. A
goal is a measurement, not a test: a busy machine misses some. Every sample is stored in
build/bench.json. With --quick there are fewer shapes and rounds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncourse.compare import TOLERANCES
from attncourse.speed.new_process import run_python
from attncourse.speed.timing import (
    Call,
    Quartiles,
    count_page_faults,
    forward,
    quartiles,
    ratio,
    seconds,
    time_in_turns,
)
from attnlib import FusedMultiHeadAttention, MultiHeadAttention
from ways import VARIANTS

FORWARD, BOTH = "forward", "forward + backward"
RESULT = Path(__file__).parents[1] / "build" / "bench.json"
FUSED, FLEX = "FusedMultiHeadAttention", "FlexAttention, compiled"
SLOW_BACKWARD = ("fused QKV matrix", "einsum", "nn.MultiheadAttention, need_weights=True")
FINALISTS = 2  # this many of the fastest others run more rounds with the fused class
REPEATS = 5  # of an import, each in a fresh process
MATRIX_PRODUCT = "matrix product"  # timed with all others: the drift of the machine shows in it
PRODUCT_SIZE = 1024  # rows and columns of its two matrices
HOLDS, MISSES = "holds", "DOES NOT HOLD"


def forward_and_backward(module: nn.Module, x: Tensor) -> Call:
    """Return a function that computes the gradients of x and all weights, and returns x's."""
    x = x.detach().requires_grad_()
    wanted = [x, *module.parameters()]
    slope = torch.linspace(-1.0, 1.0, x.numel(), device=x.device).view_as(x).to(x.dtype)
    return torch.enable_grad()(lambda: torch.autograd.grad(module(x), wanted, slope)[0])


def require_equal(calls: Mapping[str, Call], tolerance: float) -> None:
    """Run every call once and raise ValueError unless all return what the first returns.

    The tolerance is multiplied by the largest number expected where that is above 1, as a gradient
    in half precision may be.
    """
    (first, call), *rest = calls.items()
    expected = call()
    tolerance *= max(1.0, expected.abs().max().item())
    for name, call in rest:
        found, problem = call(), ""
        if found.shape != expected.shape:
            problem = f"returns {tuple(found.shape)}, '{first}' {tuple(expected.shape)}"
        elif not (off := (found - expected).abs().max().item()) <= tolerance:  # also for NaN
            problem = f"is off from '{first}' by {off:.1e}, more than {tolerance:g}"
        if problem:
            raise ValueError(f"'{name}' {problem}; what is not the same function is not timed")


def time_modules(
    modules: Mapping[str, nn.Module],
    x: Tensor,
    budget: float,
    call: Callable[[nn.Module, Tensor], Call] = forward,
    label: str = "",
    **options: Any,
) -> dict[str, list[float]]:
    """Check that the modules compute the same, then time them in turns with a matrix product.

    A module that differs from the first raises ValueError, and nothing is timed.

    Args:
        modules: by name.
        x: the input, (b, num_tokens, width).
        budget: how many seconds the rounds may take.
        call: makes of a module and x what is timed, and what it returns must be equal.
        label: printed before the first round.
        options: passed on to time_in_turns, whose samples are returned.
    """
    calls = {name: call(module, x) for name, module in modules.items()}
    require_equal(calls, TOLERANCES[x.dtype])
    print(label, flush=True)
    size = (PRODUCT_SIZE, PRODUCT_SIZE)
    a, b = (torch.randn(size, dtype=x.dtype, device=x.device) for _ in range(2))
    out = torch.mm(a, b)
    return time_in_turns(
        {**calls, MATRIX_PRODUCT: lambda: torch.mm(a, b, out=out)}, budget, **options
    )


PASSES = {FORWARD: forward, BOTH: forward_and_backward}


class Plan(NamedTuple):
    """What is measured, and for how many seconds the rounds of one measurement may run."""

    width: int = 768
    num_heads: int = 12
    shapes: tuple[tuple[int, int], ...] = ((1, 1024), (8, 1024), (8, 256), (1, 4096))
    passes: tuple[str, ...] = (FORWARD, BOTH)
    grid_heads: tuple[int, ...] = (1, 3, 12)
    grid_tokens: tuple[int, ...] = (64, 256, 1024)
    cached: int = 1024  # tokens in the cache when the next one comes
    long: int = 16384  # tokens of the pass whose peak memory is measured
    budget: float = 6.0
    fewest: int = 3  # rounds, even if they take longer than the budget


QUICK = Plan(shapes=((1, 1024), (8, 256)), passes=(FORWARD,), grid_heads=(), budget=4.0)


class Goal(NamedTuple):
    """A measured number, and the largest median and upper quartile that are allowed."""

    what: str
    measured: Quartiles
    median: float
    upper: float

    @property
    def verdict(self) -> str:
        """Whether it holds."""
        holds = self.measured.median <= self.median and self.measured.upper <= self.upper
        return HOLDS if holds else MISSES


def speed_goal(where: str, samples: dict[str, list[float]]) -> Goal:
    """Compare the fused class with the fastest of the other ways, round by round."""
    medians = {name: quartiles(each).median for name, each in samples.items()}
    best = min(set(medians) - {FUSED, MATRIX_PRODUCT}, key=medians.__getitem__)
    # 3 %: two runs of the same code differ by as much
    return Goal(f"{where}: fused / {best}", ratio(samples, FUSED, best), 1.03, 1.06)


def cache_goal(samples: dict[str, list[float]]) -> Goal:
    """Compare the next token with a cache with computing all tokens again."""
    share = ratio(samples, "with cache", "without")
    return Goal("next token: with cache / without", share, 1 / 20, 1 / 20)


def mask_goal(samples: dict[str, list[float]]) -> Goal:
    """Compare the next token with a mask with the next token without."""
    share = ratio(samples, "with cache, masked", "with cache")
    return Goal("next token: masked / not masked", share, 1.05, 1.10)


def memory_goals(found: dict[str, list[float]]) -> Iterator[Goal]:
    """Compare bytes and seconds with their limits."""
    limits = {"fused forward, GB added to peak": 1.0, "import attnlib over torch, s": 0.05}
    for what, limit in limits.items():
        yield Goal(what, quartiles(found[what]), limit, limit)


def table(goals: Iterable[Goal]) -> str:
    """Return a line for each goal."""
    return "\n".join(
        f"{goal.what:<60} {goal.measured.median:6.3f} "
        f"({goal.measured.lower:.3f} to {goal.measured.upper:.3f}), "
        f"at most {goal.median:g}: {goal.verdict}"
        for goal in goals
    )


def build(
    plan: Plan, names: Iterable[str], b: int, num_tokens: int, num_heads: int
) -> tuple[dict[str, nn.Module], torch.Tensor]:
    """Return some of the ways with the weights of one module, and an input."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    split = MultiHeadAttention(plan.width, plan.width, num_tokens, 0.0, num_heads)
    split = split.to(device).eval()
    modules = {name: VARIANTS[name](split).eval() for name in names}
    return modules, torch.randn(b, num_tokens, plan.width, device=device)


def time_shape(plan: Plan, b: int, num_tokens: int, passes: str) -> dict[str, dict[str, Any]]:
    """Time all ways at one shape, then the fastest ones once more, in more rounds."""
    names = [name for name in VARIANTS if name != FLEX or flex_runs(passes)]
    if passes == BOTH:
        names = [name for name in names if name not in SLOW_BACKWARD]
    modules, x = build(plan, names, b, num_tokens, plan.num_heads)
    clock = cuda_seconds if x.is_cuda else seconds
    options: dict[str, Any] = {"clock": clock, "fewest": plan.fewest}
    where = f"({b}, {num_tokens}) {passes}"
    every = time_modules(modules, x, plan.budget, PASSES[passes], label=where, **options)
    others = sorted(set(names) - {FUSED}, key=lambda name: quartiles(every[name]).median)
    chosen = {name: modules[name] for name in (FUSED, *others[:FINALISTS])}
    label = f"{where}, the fastest"
    final = time_modules(chosen, x, plan.budget, PASSES[passes], label=label, **options)
    return {where: {"all": every, "fastest": final}}


def flex_runs(passes: str) -> bool:
    """Return whether FlexAttention runs: on a CPU it needs AVX2, a compiler, and no gradients."""
    if torch.cuda.is_available():
        return True
    has_avx = torch.backends.cpu.get_cpu_capability().startswith("AVX")
    return has_avx and passes == FORWARD and any(map(shutil.which, ("g++", "clang++", "cl")))


def grid(plan: Plan) -> Iterator[dict[str, Any]]:
    """Time all ways over heads and tokens, each point in a fresh process.

    Whether a large tensor needs new memory depends on what its process has freed before. A fresh
    process has freed nothing.
    """
    context = multiprocessing.get_context("spawn")
    for num_heads in plan.grid_heads:
        for num_tokens in plan.grid_tokens:
            with ProcessPoolExecutor(1, context) as fresh:
                yield fresh.submit(grid_point, plan, num_heads, num_tokens).result()


def grid_point(plan: Plan, num_heads: int, num_tokens: int) -> dict[str, Any]:
    """Time all ways at one point of the grid, and count page faults in turns."""
    torch.manual_seed(123)
    names = [name for name in VARIANTS if name != FLEX]
    modules, x = build(plan, names, 1, num_tokens, num_heads)
    label = f"{num_heads} heads, {num_tokens} tokens"
    samples = time_modules(modules, x, plan.budget / 4, fewest=plan.fewest, label=label)
    calls = {name: forward(module, x) for name, module in modules.items()}
    faults = time_in_turns(calls, 0.0, fewest=plan.fewest, clock=count_page_faults)
    return {"where": label, "samples": samples, "page_faults": faults}


def next_token(fused: FusedMultiHeadAttention, num_tokens: int) -> dict[str, Call]:
    """Return functions that compute the output for one more token, with a cache and without.

    One of them has a mask, which masks nothing: it costs the same, and all results are equal. The
    cache holds num_tokens tokens; each call overwrites the token that the last one added.
    """
    is_masked = torch.zeros(1, 1, 1, num_tokens + 1, dtype=torch.bool)
    x = torch.randn(1, num_tokens + 1, fused.d_in)
    cache = fused.new_cache(batch_size=1, max_tokens=num_tokens + 1)
    with torch.no_grad():
        fused(x[:, :-1], cache=cache)

    def with_cache(**options: torch.Tensor) -> torch.Tensor:
        cache.num_tokens = num_tokens
        with torch.no_grad():
            return fused(x[:, -1:], cache=cache, **options)

    def without() -> torch.Tensor:
        with torch.no_grad():
            return fused(x)[:, -1:]

    masked = partial(with_cache, is_masked=is_masked)
    return {"with cache": with_cache, "with cache, masked": masked, "without": without}


def time_cache(plan: Plan) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Time the next token with a cache and without; then with a mask and without."""
    sizes = (plan.width, plan.width, plan.cached + 1, 0.0, plan.num_heads)
    calls = next_token(FusedMultiHeadAttention(*sizes).eval(), plan.cached)
    require_equal(calls, 1e-5)
    masked = {name: calls[name] for name in ("with cache", "with cache, masked")}
    return time_in_turns(calls, plan.budget), time_in_turns(masked, plan.budget, most=400)


def memory(plan: Plan) -> dict[str, list[float]]:
    """Measure bytes and seconds, each in processes of their own. Peak memory needs Linux."""
    sizes = f"{plan.width}, {plan.width}, {plan.long}, 0.0, {plan.num_heads}"
    peak = (
        "import torch, attnlib\n"
        "def peak():\n"
        "    line = next(l for l in open('/proc/self/status') if l.startswith('VmHWM'))\n"
        "    return int(line.split()[1]) * 1024\n"
        f"fused = attnlib.FusedMultiHeadAttention({sizes}).eval()\n"
        f"x = torch.randn(1, {plan.long}, {plan.width})\nbefore = peak()\n"
        "with torch.no_grad(): fused(x)\nprint((peak() - before) / 1e9)"
    )
    imports = (
        "import time, torch\nstart = time.perf_counter()\nimport attnlib\n"
        "print(time.perf_counter() - start)"
    )
    return {
        "fused forward, GB added to peak": [float(run_python(peak))],
        "import attnlib over torch, s": [float(run_python(imports)) for _ in range(REPEATS)],
    }


def cuda_seconds(call: Call) -> float:
    """Return how long a call takes on the GPU, by events that the GPU itself records."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000  # it counts in milliseconds


def machine() -> dict[str, Any]:
    """Describe this machine, without its network name."""
    return {
        "date": datetime.date.today().isoformat(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "processor": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "torch": torch.__version__,
    }


def measure(plan: Plan) -> dict[str, Any]:
    """Measure everything that a plan lists."""
    torch.manual_seed(123)
    speed: dict[str, dict[str, Any]] = {}
    for b, num_tokens in plan.shapes:
        for passes in plan.passes:
            speed |= time_shape(plan, b, num_tokens, passes)
    cache, mask = time_cache(plan)
    parts = {"grid": list(grid(plan)), "cache": cache, "mask": mask, "memory": memory(plan)}
    return {"machine": machine(), "speed": speed, **parts}


def report(result: dict[str, Any]) -> str:
    """Return the medians in milliseconds, then the goals."""
    lines = [str(result["machine"])]
    timed = {where: entry["all"] for where, entry in result["speed"].items()}
    timed |= {point["where"]: point["samples"] for point in result["grid"]}
    for where, samples in timed.items():
        lines.append(f"\n{where}, median milliseconds")
        lines += [f"  {1e3 * quartiles(s).median:9.2f}  {name}" for name, s in samples.items()]
    for point in result["grid"]:
        faults = {name: int(quartiles(each).median) for name, each in point["page_faults"].items()}
        lines.append(f"{point['where']}, page faults: {faults}")
    goals = [speed_goal(where, entry["fastest"]) for where, entry in result["speed"].items()]
    goals += [cache_goal(result["cache"]), mask_goal(result["mask"])]
    goals += memory_goals(result["memory"])
    return "\n".join([*lines, "", table(goals)])


def main(arguments: list[str]) -> int:
    """Measure, store and print; return 0 even where a goal does not hold: it is a measurement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="about a minute")
    options = parser.parse_args(arguments)
    result = measure(QUICK if options.quick else Plan())
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(report(result), f"\nstored in {RESULT}", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
