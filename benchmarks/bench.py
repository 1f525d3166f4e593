"""Time every variant side by side, and compare the numbers with the goals.

    python benchmarks/bench.py [--quick] [--folder FOLDER]

Every sample is stored in benchmarks/results/<machine>.json; the goals are printed as a
table. A goal that does not hold is followed by a profile. With --quick: fewer shapes and rounds,
and a file that git ignores.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import shutil
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import goals
from attncourse.speed.clock import (
    BOTH,
    FORWARD,
    PASSES,
    Call,
    in_turns,
    page_faults,
    race,
    require_equal,
    run_python,
    seconds,
)
from attnlib import MultiHeadAttention
from attnlib.fused import FusedMultiHeadAttention
from machines import machine, machine_name
from speaking import speaking
from ways import VARIANTS

SCHEMA = 1
RESULTS = Path(__file__).with_name("results")
FUSED, FLEX = goals.FUSED, "FlexAttention, compiled"
GRID_HEADS, GRID_TOKENS = (1, 3, 6, 12, 24), (64, 128, 256, 512, 1024)
WITH_GRADIENTS = (  # the others differ from one of these in a line or two
    "weight split, as published",
    "stacked heads",
    "weight split",
    "SDPA, is_causal",
    "nn.MultiheadAttention, need_weights=False",
    FUSED,
)
WITHOUT_BFLOAT16 = (
    "bfloat16 is left out: this processor has no instructions for it, so PyTorch emulates them, "
    "and the times would tell of the processor"
)
FINALISTS = 2  # this many of the fastest others run more rounds with the fused class


class Plan(NamedTuple):
    """What is measured, and how many seconds the rounds of one measurement may take."""

    width: int = 768
    num_heads: int = 12
    shapes: tuple[tuple[int, int], ...] = ((1, 1024), (8, 1024), (8, 256), (1, 4096))
    half: tuple[tuple[int, int], ...] = ((1, 1024), (8, 256))  # in bfloat16; a GPU takes all
    passes: tuple[str, ...] = (FORWARD, BOTH)
    compiled: tuple[tuple[int, int], ...] = ((1, 1024), (8, 1024), (8, 256), (1, 4096))
    grid_heads: tuple[int, ...] = GRID_HEADS
    grid_tokens: tuple[int, ...] = GRID_TOKENS
    cache_tokens: tuple[int, ...] = (128, 256, 512, 1024, 2048)
    long: int = 16384  # tokens of the one long pass
    mask: int = 8192  # context_length of the stacked heads
    spoken: tuple[int, ...] = (512, 64)  # tokens that the language model reads, and writes
    spoken_seconds: float = 30.0  # a round takes two, and a goal of 1.0 needs many
    all_seconds: float = 6.0
    final_seconds: float = 6.0
    grid_seconds: float = 1.5
    fewest: int = 3  # rounds, even if they take longer than the budget
    repeats: int = 5  # of an import, in fresh processes


QUICK = Plan(
    shapes=((1, 1024), (8, 256)),
    half=(),
    passes=(FORWARD,),
    compiled=(),
    grid_heads=(),
    cache_tokens=(128, 1024, 2048),
    spoken=(),
    all_seconds=4.0,
    final_seconds=4.0,
    repeats=3,
)


def measure(plan: Plan, quick: bool = False) -> dict[str, Any]:
    """Measure everything that a plan lists and return it as what the results file holds."""
    torch.manual_seed(123)
    return {
        "schema": SCHEMA,
        "quick": quick,
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "speed": [entry for entries in speed(plan) for entry in entries],
        "grid": list(grid(plan)),
        "cache": list(cache(plan)),
        "memory": memory(plan),
        "language": speaking(*plan.spoken, plan.spoken_seconds) if plan.spoken else {},
        "left_out": [] if has_bfloat16() or not plan.half else [WITHOUT_BFLOAT16],
    }


def speed(plan: Plan) -> Iterator[list[dict[str, Any]]]:
    """Yield the measurements of each shape: all variants, then the fastest ones once more."""
    half, compiled = plan.half if has_bfloat16() else (), ()
    if torch.cuda.is_available():
        half, compiled = plan.shapes, plan.compiled
    for dtype, shapes, compiled_shapes in (
        (torch.float32, plan.shapes, plan.compiled),
        (torch.bfloat16, half, compiled),
    ):
        for b, num_tokens in shapes:
            for passes in plan.passes:
                yield one_shape(plan, b, num_tokens, passes, dtype)
        for b, num_tokens in compiled_shapes:
            yield compiled_shape(plan, b, num_tokens, dtype)


def has_bfloat16() -> bool:
    """Return whether this machine has instructions for bfloat16."""
    found = torch.cpu.get_capabilities()
    return torch.cuda.is_available() or any("bf16" in name and found[name] for name in found)


def one_shape(
    plan: Plan, b: int, num_tokens: int, passes: str, dtype: torch.dtype
) -> list[dict[str, Any]]:
    """Time all variants at one shape, and the fused class against the fastest others again."""
    names = [name for name in VARIANTS if name != FLEX or flex_runs(passes)]
    names = names if passes == FORWARD else [name for name in names if name in WITH_GRADIENTS]
    modules, x = build(plan, names, b, num_tokens, plan.num_heads, dtype)
    label = f"({b}, {num_tokens}) {passes}"
    timed = Timed(plan, b, num_tokens, plan.num_heads, passes)
    every = timed.entry("all", modules, x, plan.all_seconds, label)
    order = sorted(goals.medians(every), key=goals.medians(every).__getitem__)
    fastest = [FUSED, *[name for name in order if name != FUSED][:FINALISTS]]
    chosen = {name: modules[name] for name in fastest}
    final = timed.entry("fastest", chosen, x, plan.final_seconds, f"{label}, the fastest")
    return [every, final]


def compiled_shape(plan: Plan, b: int, num_tokens: int, dtype: torch.dtype) -> list[dict[str, Any]]:
    """Time the compiled fused class against FlexAttention, and on a GPU against all, compiled."""
    if not flex_runs(FORWARD):
        return []
    torch.compiler.reset()
    names = list(VARIANTS) if torch.cuda.is_available() else [FLEX, FUSED]
    modules, x = build(plan, names, b, num_tokens, plan.num_heads, dtype)
    for name in names:  # FlexAttention's kernel is compiled already
        modules[name] = modules[name] if name == FLEX else torch.compile(modules[name])
    timed = Timed(plan, b, num_tokens, plan.num_heads, FORWARD, compiled=True)
    label = f"({b}, {num_tokens}) compiled"
    return [timed.entry("fastest", modules, x, plan.final_seconds, label)]


def flex_runs(passes: str) -> bool:
    """Return whether FlexAttention runs: on a CPU it needs AVX2, a compiler, and no gradients."""
    if torch.cuda.is_available():
        return True
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        return False
    return passes == FORWARD and any(map(shutil.which, ("g++", "clang++", "cl")))


def grid(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield all eager variants over heads and tokens, batch 1, each point in a fresh process.

    Whether a large tensor needs new memory depends on what its process has freed before. A fresh
    process has freed nothing.
    """
    context = multiprocessing.get_context("spawn")
    for num_heads in plan.grid_heads:
        for num_tokens in plan.grid_tokens:
            with ProcessPoolExecutor(1, context) as fresh:
                yield fresh.submit(grid_point, plan, num_heads, num_tokens).result()


def grid_point(plan: Plan, num_heads: int, num_tokens: int) -> dict[str, Any]:
    """Time all eager variants at one point of the grid, and count page faults in the same turns."""
    torch.manual_seed(123)
    names = [name for name in VARIANTS if name != FLEX]
    modules, x = build(plan, names, 1, num_tokens, num_heads, torch.float32)
    timed = Timed(plan, 1, num_tokens, num_heads, FORWARD)
    label = f"{num_heads} heads, {num_tokens} tokens"
    entry = timed.entry("grid", modules, x, plan.grid_seconds, label)
    calls = {name: PASSES[FORWARD](module, x) for name, module in modules.items()}
    counts = in_turns(calls, 0.0, fewest=plan.fewest, clock=page_faults)
    entry["page_faults"] = {name: counts[name] for name in ("stacked heads", goals.OURS)}
    return entry


class Timed(NamedTuple):
    """The conditions of a measurement, stored beside its samples."""

    plan: Plan
    b: int
    num_tokens: int
    num_heads: int
    passes: str
    compiled: bool = False

    def entry(
        self, kind: str, modules: dict[str, nn.Module], x: torch.Tensor, budget: float, label: str
    ) -> dict[str, Any]:
        """Check that the modules are equal, time them, and return what is stored."""
        size = 8192 if x.is_cuda else min(1024, 8 * self.plan.width)
        samples = race(
            modules,
            x,
            budget,
            self.passes,
            size,
            clock=cuda_seconds if x.is_cuda else seconds,
            fewest=self.plan.fewest,
            label=label,
        )
        return {
            "set": kind,
            "b": self.b,
            "num_tokens": self.num_tokens,
            "width": self.plan.width,
            "num_heads": self.num_heads,
            "pass": self.passes,
            "dtype": str(x.dtype).removeprefix("torch."),
            "compiled": self.compiled,
            "product_size": size,
            "samples": round_samples(samples),
        }


def build(
    plan: Plan, names: list[str], b: int, num_tokens: int, num_heads: int, dtype: torch.dtype
) -> tuple[dict[str, nn.Module], torch.Tensor]:
    """Return the variants with the weights of one module, and an input."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    split = MultiHeadAttention(plan.width, plan.width, num_tokens, 0.0, num_heads)
    split = split.to(device, dtype).eval()
    modules = {name: VARIANTS[name](split).eval() for name in names}
    return modules, torch.randn(b, num_tokens, plan.width, device=device, dtype=dtype)


def cache(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield what one more token costs, with a cache and without, for each number of key heads."""
    for num_kv_heads in (plan.num_heads, 1):
        sizes = (plan.width, plan.width, max(plan.cache_tokens) + 1, 0.0, plan.num_heads)
        fused = FusedMultiHeadAttention(*sizes, num_kv_heads=num_kv_heads).eval()
        calls = {num_tokens: next_token(fused, num_tokens) for num_tokens in plan.cache_tokens}
        for pair in calls.values():
            require_equal(pair, 1e-5)
        cached = {str(num_tokens): pair["with cache"] for num_tokens, pair in calls.items()}
        alone = in_turns(cached, plan.grid_seconds, most=200, label="with a cache")
        for num_tokens, pair in calls.items():
            label = f"cache of {num_kv_heads} heads, {num_tokens} tokens"
            yield {
                "num_tokens": num_tokens,
                "num_kv_heads": num_kv_heads,
                "alone": round_samples(alone)[str(num_tokens)],
                "samples": round_samples(in_turns(pair, plan.grid_seconds, label=label)),
            }


def next_token(fused: FusedMultiHeadAttention, num_tokens: int) -> dict[str, Call]:
    """Return two functions that compute the output for one more token, with a cache and without.

    The cache holds num_tokens tokens; each call overwrites the token that the last one added.
    """
    x = torch.randn(1, num_tokens + 1, fused.d_in)
    cache = fused.new_cache(batch_size=1, max_tokens=num_tokens + 1)
    with torch.no_grad():
        fused(x[:, :-1], cache=cache)

    def with_cache() -> torch.Tensor:
        cache.num_tokens = num_tokens
        with torch.no_grad():
            return fused(x[:, -1:], cache=cache)

    def without() -> torch.Tensor:
        with torch.no_grad():
            return fused(x)[:, -1:]

    return {"with cache": with_cache, "without": without}


def memory(plan: Plan) -> dict[str, list[float]]:
    """Return bytes and seconds, each measured in processes of their own."""
    width, num_heads = plan.width, plan.num_heads
    stacked = added_to_peak(
        f"attnlib.MultiHeadAttentionWrapper({width}, {width // num_heads}, {plan.mask}, 0.0, "
        f"{num_heads})"
    )
    fused = added_to_peak(
        "with torch.no_grad(): fused(x)",
        f"fused = attnlib.FusedMultiHeadAttention({width}, {width}, {plan.long}, 0.0, "
        f"{num_heads}).eval()\nx = torch.randn(1, {plan.long}, {width})",
    )
    imports = [import_seconds() for _ in range(plan.repeats)]
    return dict(zip(goals.MEMORY, ([stacked], [fused], imports), strict=True))


def title(result: dict[str, Any]) -> str:
    """Return one line about the machine that a result is from."""
    found = result["machine"]
    name = found["gpu"] or found["processor"]
    threads = found["threads"]
    plural = "" if threads == 1 else "s"
    return (
        f"{name}, {found['cores']} cores, {threads} thread{plural}, "
        f"torch {found['torch']}, {result['date']}"
    )


def added_to_peak(code: str, set_up: str = "") -> int:
    """Return by how many bytes code raises the peak memory of a fresh process, after set_up."""
    script = (
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import torch, attnlib\nfrom peak import peak_bytes\n"
        f"{set_up}\nbefore = peak_bytes()\n{code}\nprint(peak_bytes() - before)"
    )
    return int(run_python(script))


def cuda_seconds(call: Call) -> float:
    """Return how long a call takes on the GPU, by events that the GPU itself records."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000  # it counts in milliseconds


def import_seconds() -> float:
    """Return how long `import attnlib` takes in a fresh process that has imported torch."""
    script = (
        "import time, torch\nstart = time.perf_counter()\nimport attnlib\n"
        "print(time.perf_counter() - start)"
    )
    return float(run_python(script))


def round_samples(samples: dict[str, list[float]]) -> dict[str, list[float]]:
    """Return samples to a tenth of a microsecond."""
    return {name: [round(sample, 7) for sample in some] for name, some in samples.items()}


def profile_of(plan: Plan, entry: dict[str, Any], name: str) -> str:
    """Return which kernels a variant spends its time in."""
    dtype = getattr(torch, entry["dtype"])
    sizes = entry["b"], entry["num_tokens"], entry["num_heads"]
    modules, x = build(plan, [name], *sizes, dtype)
    call = PASSES[entry["pass"]](modules[name], x)
    call()
    on_gpu = [ProfilerActivity.CUDA] if x.is_cuda else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the profiler itself
        with profile(activities=[ProfilerActivity.CPU, *on_gpu]) as profiled:
            call()
    by = "self_device_time_total" if x.is_cuda else "self_cpu_time_total"
    events = sorted(profiled.key_averages(), key=lambda event: -getattr(event, by))[:6]
    total = sum(getattr(event, by) for event in profiled.key_averages())
    lines = [
        f"    {getattr(event, by) / 1e3:9.2f} ms {getattr(event, by) / total:6.1%}"
        f"  {event.count:4d} x {event.key}"
        for event in events
    ]
    return "\n".join([f"  {name} at {goals.place(entry)}: where the time goes", *lines])


def report(result: dict[str, Any], plan: Plan) -> str:
    """Return the times, the goals, and a profile of each variant that misses one."""
    found = goals.goals(result)
    missed = {(goal.what, goal.where) for goal in found if goal.verdict == goals.MISSES}
    profiles = []
    for entry in result["speed"]:
        where = goals.place(entry)
        fused = any(what.startswith("fused") and place == where for what, place in missed)
        if fused and entry["set"] == "fastest" and not entry["compiled"]:
            profiles.append(profile_of(plan, entry, FUSED))
        if (goals.SPLIT_GOAL, where) in missed and entry["set"] == "all":
            profiles += [profile_of(plan, entry, n) for n in (goals.OURS, goals.PUBLISHED)]
    left_out = result.get("left_out", [])
    return "\n\n".join(
        [title(result), goals.times(result), goals.table(found), *left_out, *profiles]
    )


def main(arguments: list[str]) -> int:
    """Measure, store and print; return 0 even where a goal does not hold: it is a measurement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where the file is written")
    options = parser.parse_args(arguments)
    plan = QUICK if options.quick else Plan()
    result = measure(plan, options.quick)
    name = machine_name(result["machine"]) + ("-quick" if options.quick else "")
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"{name}.json"
    path.write_text(json.dumps(result) + "\n", encoding="utf-8")
    print(report(result, plan), f"\nstored in {path.name}", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
