"""The benchmark: a gate before the clock, turns, a floor that was counted, goals that can fail."""

import json
import platform
import re
from itertools import product

import pytest
import torch
from torch import nn

import attnlib
import bench
import goals
from attncourse.speed import clock
from attncourse.speed.clock import BOTH, FORWARD, MATRIX_PRODUCT, Quartiles
from attncourse.speed.count import Work, count_work
from attnlib import FusedMultiHeadAttention, MultiHeadAttention
from goals import HOLDS, MISSES, OPEN, causal_flops, projection_flops
from ways import VARIANTS

WIDTH, HEADS, TOKENS, TEXTS = 21, 7, 11, 2
TINY = bench.Plan(
    width=WIDTH,
    num_heads=HEADS,
    shapes=((TEXTS, TOKENS),),
    half=((TEXTS, TOKENS),),
    compiled=(),
    grid_heads=(3,),
    grid_tokens=(5,),
    cache_tokens=(5, 7, 11),
    long=13,
    mask=13,
    spoken=(),
    all_seconds=0.01,
    final_seconds=0.01,
    grid_seconds=0.01,
    repeats=1,
)
EAGER = [name for name in VARIANTS if name != bench.FLEX]


def split_module(seed: int = 1) -> MultiHeadAttention:
    torch.manual_seed(seed)
    return MultiHeadAttention(WIDTH, WIDTH, TOKENS, 0.0, HEADS).eval()


def x() -> torch.Tensor:
    return torch.randn(TEXTS, TOKENS, WIDTH, generator=torch.Generator().manual_seed(2))


class FakeClock:
    """A clock that runs nothing, notes what it is asked to time, and says how long it took."""

    def __init__(self, ticks: float = 1.0) -> None:
        self.timed: list[clock.Call] = []
        self.ticks = ticks

    def __call__(self, call: clock.Call) -> float:
        self.timed.append(call)
        return self.ticks


# The gate.


@pytest.mark.parametrize("passes", [FORWARD, BOTH])
def test_what_is_not_equal_is_not_timed(passes):
    fake = FakeClock()
    modules = {"right": split_module(), "wrong": split_module(seed=3)}
    words = r"'wrong' is off from 'right' by \d\.\de[-+]\d\d, more than 1\S*e-05; what is not"
    with pytest.raises(ValueError, match=words):
        clock.race(modules, x(), 1.0, passes, clock=fake)
    assert fake.timed == []
    clock.race({"right": split_module(), "same": split_module()}, x(), 1.0, passes, clock=fake)
    assert fake.timed


def test_a_wrong_gradient_is_not_timed():
    """The same outputs do; the gradient of x must be the same too."""

    class Detached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = split_module()

        def forward(self, x):
            return self.inner(x.detach()) + 0 * x

    modules = {"right": split_module(), "detached": Detached()}
    clock.race(modules, x(), 0.01, FORWARD)
    with pytest.raises(ValueError, match="'detached' is off from 'right'"):
        clock.race(modules, x(), 0.01, BOTH)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (torch.ones(3), r"'b' returns \(3,\), 'a' \(2,\)"),
        (torch.tensor([1.0, torch.nan]), "'b' is off from 'a' by nan"),
        (torch.tensor([1.0, 1.5]), r"by 5\.0e-01, more than 0\.25"),
    ],
)
def test_the_gate_names_the_difference(found, words):
    with pytest.raises(ValueError, match=words):
        clock.require_equal({"a": lambda: torch.ones(2), "b": lambda: found}, 0.25)


# The clock.


def test_calls_take_turns_and_turn_around():
    calls = {"a": int, "b": str, "c": float}
    fake = FakeClock()
    samples = clock.in_turns(calls, budget=0.0, fewest=4, clock=fake)
    assert fake.timed == [int, str, float, float, str, int] * 2
    assert samples == {name: [1.0] * 4 for name in calls}


@pytest.mark.parametrize(("budget", "rounds"), [(0.0, 3), (5.5, 5), (100.0, 7)])
def test_the_first_round_says_how_many_fit(monkeypatch, budget, rounds):
    now = iter(range(1000))
    monkeypatch.setattr(clock.time, "perf_counter", lambda: float(next(now)))
    samples = clock.in_turns({"a": int}, budget, most=7, clock=FakeClock())
    assert len(samples["a"]) == rounds


def test_a_progress_bar_goes_to_stdout(capsys):
    clock.in_turns({"a": int}, budget=0.0, clock=FakeClock())
    assert capsys.readouterr() == ("", "")
    clock.in_turns({"a": int}, budget=0.0, clock=FakeClock(), label="some shape")
    out, err = capsys.readouterr()
    assert "some shape: 100%" in out
    assert err == ""


def test_the_clock_of_the_gpu_waits_for_it(monkeypatch):
    """Without a GPU: events that note the order in which they are used."""
    log = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("record")

        def elapsed_time(self, end: object) -> float:
            return 1500.0

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("synchronize"))
    assert bench.cuda_seconds(lambda: log.append("call")) == 1.5
    assert log == ["synchronize", "record", "call", "record", "synchronize"]


def test_ratios_are_of_the_same_round():
    samples = {"a": [1.0, 20.0, 3.0], "b": [2.0, 10.0, 3.0]}
    assert clock.ratio(samples, "a", "b") == Quartiles(0.75, 1.0, 1.5)


# The floor.


@pytest.mark.parametrize("name", EAGER)
def test_flops_are_those_that_torch_counts(name):
    """Every variant asks for the same: the projections, and all pairs of tokens."""
    module = VARIANTS[name](split_module())
    causal = causal_flops(TEXTS, TOKENS, WIDTH)  # of TOKENS + 1 pairs where all are 2 * TOKENS
    every_pair = causal * 2 * TOKENS // (TOKENS + 1)
    assert count_work(module, x()).flops == projection_flops(TEXTS, TOKENS, WIDTH) + every_pair


def test_work_counts_what_is_made_and_not_what_is_viewed():
    class Steps(nn.Module):
        def forward(self, x):
            x = x.transpose(0, 1).reshape(6)  # a view, a copy
            return x.mul_(2.0).sum()  # in place, a number

    assert count_work(Steps(), torch.ones(3, 2)) == Work(flops=0, kernel_calls=3)


# Memory.


def test_peak_memory_is_that_of_the_code():
    size = 64 * 2**20
    added = bench.added_to_peak(f"x = torch.ones({size // 4})")
    assert size <= added < 1.3 * size
    assert bench.added_to_peak("x[:5].sum()", f"x = torch.ones({size // 4})") < 0.3 * size


def added_here(code: str, set_up: str = "") -> int:
    """Run here what added_to_peak gives to a fresh process, whose start takes seconds."""
    exec(f"{set_up}\n{code}", {"torch": torch, "attnlib": attnlib})
    return 2**20


# The cache.


@pytest.mark.parametrize("num_kv_heads", [1, HEADS])
def test_a_token_costs_the_same_output_with_a_cache(num_kv_heads):
    fused = FusedMultiHeadAttention(WIDTH, WIDTH, TOKENS + 1, 0.0, HEADS, num_kv_heads=num_kv_heads)
    calls = bench.next_token(fused.eval(), TOKENS)
    for _ in range(2):  # each call forgets the token it added
        clock.require_equal(calls, 1e-6)
    assert calls["with cache"]().shape == (1, 1, WIDTH)


# The goals.


def entry(kind: str, num_tokens: int = 1024, **samples: list[float]) -> dict:
    """Return a measurement in which the matrix product takes as long as the floor."""
    names = {"fused": goals.FUSED, "ours": goals.OURS, "published": goals.PUBLISHED}
    sizes = {"b": 1, "num_tokens": num_tokens, "width": WIDTH, "num_heads": HEADS}
    how = {"pass": FORWARD, "dtype": "float32", "compiled": False, "product_size": 1024}
    seconds = 1 / goals.products_of_floor(1, num_tokens, WIDTH, 1024)
    found = {names.get(name, name): some for name, some in samples.items()}
    rounds = len(next(iter(samples.values())))
    return {**sizes, **how, "set": kind, "samples": {**found, MATRIX_PRODUCT: rounds * [seconds]}}


def made_up(fused: float = 1.0, ours: float = 0.8, sdpa: float = 1.0, tokens: int = 1024) -> dict:
    final = entry("fastest", tokens, fused=[fused] * 3, sdpa=[sdpa] * 3)
    every = entry("all", tokens, ours=[ours] * 3, published=[1.0] * 3)
    samples = {"with cache": [0.04, 0.05, 0.06], "without": [1.0, 1.0, 1.0]}
    return {
        "machine": {"gpu": None},
        "speed": [every, final],
        "cache": [{"num_tokens": 1024, "num_kv_heads": 2, "alone": [0.05], "samples": samples}],
        "memory": dict(zip(goals.MEMORY, ([99e6], [2e9], [0.03, 0.04, 0.2]), strict=True)),
    }


def verdicts(result: dict) -> dict[str, bool]:
    return {goal.what: goal.verdict for goal in goals.goals(result)}


def test_each_goal_can_hold_and_fail():
    assert verdicts(made_up()) == {
        "fused / sdpa": HOLDS,
        "fused / floor": HOLDS,
        goals.SPLIT_GOAL: HOLDS,
        "next token, with cache / without": OPEN,
        "12 stacked heads, MB added to peak": HOLDS,
        "fused forward, GB added to peak": MISSES,
        "import attnlib over torch, ms": OPEN,
    }


@pytest.mark.parametrize(
    ("changes", "what", "holds"),
    [
        ({"fused": 1.029}, "fused / sdpa", HOLDS),  # within the noise
        ({"fused": 1.031}, "fused / sdpa", MISSES),
        ({"fused": 1.25, "sdpa": 2.0}, "fused / floor", HOLDS),
        ({"fused": 1.26, "sdpa": 2.0}, "fused / floor", MISSES),
        ({"ours": 0.90}, goals.SPLIT_GOAL, HOLDS),
        ({"ours": 0.91}, goals.SPLIT_GOAL, MISSES),
        ({"ours": 1.02, "tokens": 256}, goals.SPLIT_GOAL, HOLDS),  # elsewhere: no slower
        ({"ours": 1.04, "tokens": 256}, goals.SPLIT_GOAL, MISSES),
    ],
)
def test_where_a_goal_begins_to_fail(changes, what, holds):
    assert verdicts(made_up(**changes))[what] == holds


def test_a_floor_that_is_slower_than_the_code_tells_nothing():
    assert verdicts(made_up(fused=0.6, sdpa=2.0))["fused / floor"] == HOLDS
    assert verdicts(made_up(fused=0.4, sdpa=2.0))["fused / floor"] == OPEN


def test_the_language_model_is_held_against_transformers():
    samples = {"512 tokens read": {"ours": [2.0] * 3, "transformers": [1.9] * 3}}
    loads = {"first load, s": [9.0], "later load, s": [1.0], "peak, MB": [850.0]}
    found = list(goals.language_goals({"samples": samples, **loads}))
    assert [(goal.what, goal.where, goal.verdict) for goal in found] == [
        ("language model / transformers", "512 tokens read", MISSES),
        ("first load, s", "language model", MISSES),
        ("later load, s", "language model", HOLDS),
        ("peak, MB", "language model", HOLDS),
    ]


@pytest.mark.parametrize("has_them", [True, False])
def test_without_its_instructions_bfloat16_is_left_out(monkeypatch, has_them):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": has_them})
    timed = []
    monkeypatch.setattr(bench, "one_shape", lambda *args: timed.append(args[4]) or [])
    assert list(bench.speed(TINY)) == [[]] * len(timed)
    assert (torch.bfloat16 in timed) is has_them
    for part in ("speed", "grid", "cache"):
        monkeypatch.setattr(bench, part, lambda plan: [])
    monkeypatch.setattr(bench, "memory", lambda plan: {})
    result = bench.measure(TINY)
    assert ("bfloat16 is left out" in bench.report(result, TINY)) is not has_them


def test_half_precision_is_held_against_the_same_shape_in_float32():
    result = made_up(fused=2.0)
    (_, single) = result["speed"]
    half = {**single, "dtype": "bfloat16", "samples": {**single["samples"], goals.FUSED: [1.0] * 3}}
    other = {**half, "num_tokens": 512}  # nothing in float32 to hold it against
    found = list(goals.half_goals([single, half, other]))
    (goal,) = found
    assert goal.where == "(1, 1024) forward bfloat16"
    assert goal.measured.median == 0.5
    assert goal.verdict == HOLDS


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [(0.9, 1.03, HOLDS), (0.9, 1.04, OPEN), (1.03, 1.2, OPEN), (1.04, 1.2, MISSES)],
)
def test_a_goal_is_judged_with_its_spread(lower, upper, verdict):
    assert goals.Goal("a", "b", Quartiles(lower, 1.03, upper), 1.0, 0.03).verdict == verdict


def test_the_floor_with_gradients():
    """Three times as high; a kernel that makes its scores again has 5 products backward, not 4."""
    sizes = (TEXTS, TOKENS, WIDTH, 5)
    once = goals.products_of_floor(*sizes)
    assert once == (projection_flops(*sizes[:3]) + causal_flops(*sizes[:3])) / (2 * 5**3)
    assert goals.products_of_floor(*sizes, FORWARD, True) == once
    four, five = (goals.products_of_floor(*sizes, BOTH, again) for again in (False, True))
    assert four == pytest.approx(3 * once)
    assert five - four == pytest.approx(causal_flops(*sizes[:3]) / (4 * 5**3))
    trained = {**entry("all", ours=[3.0], fused=[3.0]), "pass": BOTH}
    assert goals.over_floor(trained, goals.FUSED) < goals.over_floor(trained, goals.OURS)


def test_the_flat_cost_of_a_token_is_a_goal():
    result = made_up()
    (cost,) = result["cache"]
    result["cache"] = [
        {**cost, "num_tokens": n, "num_kv_heads": heads, "alone": [t]}
        for n, t in {128: 1.0, 256: 2.0, 512: 4.0, 1024: 5.0, 2048: 9.5}.items()
        for heads in (2, 1)
    ]
    assert verdicts(result)["next token, largest / smallest, t - slope * T"] == MISSES
    for cost in result["cache"]:
        cost["alone"] = [1.0 + cost["num_tokens"] / 100]
    assert verdicts(result)["next token, largest / smallest, t - slope * T"] == HOLDS


def test_the_table_marks_what_does_not_hold():
    lines = goals.table(goals.goals(made_up(fused=1.5))).splitlines()
    failing = [line for line in lines if line.endswith("DOES NOT HOLD")]
    assert [re.split("  +", line)[:2] for line in failing] == [
        ["fused / sdpa", "(1, 1024) forward"],
        ["fused / floor", "(1, 1024) forward"],
        ["fused forward, GB added to peak", "(1, 16384)"],
    ]
    assert re.search(r"1\.5 \(1\.5 to 1\.5\) +1 \+ 3% +DOES NOT HOLD", failing[0])
    assert lines[-1] == "2 of 7 goals hold, 2 cannot be told."


# The file.


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Run all of `make bench-quick` in a tiny size; return what it prints and what it stores."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "QUICK", TINY)
        patch.setattr(bench, "flex_runs", lambda passes: False)  # it would compile for seconds
        patch.setattr(bench, "added_to_peak", added_here)
        printed = []
        patch.setattr("builtins.print", lambda *words, **_: printed.extend(words))
        assert bench.main(["--quick", "--folder", str(folder)]) == 0
    (path,) = folder.iterdir()
    return "\n".join(printed), path


def test_a_run_prints_times_goals_and_why_one_does_not_hold(ran):
    printed, path = ran
    assert "[2] (2, 11) forward + backward" in printed
    assert "fused / floor" in printed
    assert "goals hold, " in printed
    missed = [line for line in printed.splitlines() if line.endswith("DOES NOT HOLD")]
    assert ("where the time goes" in printed) is bool(missed)
    assert printed.endswith(f"stored in {path.name}")


def test_a_run_stores_every_sample(ran):
    _, path = ran
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["schema"] == bench.SCHEMA
    assert found["quick"] is True
    names = "processor cores threads gpu system python torch"
    assert set(found["machine"]) == set(names.split())
    dtypes = ["float32", "bfloat16"][: 1 + bench.has_bfloat16()]
    parts = [(e["dtype"], e["pass"], e["set"]) for e in found["speed"]]
    assert parts == [*product(dtypes, (FORWARD, BOTH), ("all", "fastest"))]
    assert set(found["speed"][0]["samples"]) == {*EAGER, MATRIX_PRODUCT}
    assert [(e["num_heads"], e["num_tokens"]) for e in found["grid"]] == [(3, 5)]
    for some in [e["samples"] for e in found["speed"] + found["grid"] + found["cache"]]:
        assert {len(samples) >= TINY.fewest for samples in some.values()} == {True}
        assert all(sample > 0 for samples in some.values() for sample in samples)
    for point in found["grid"]:
        assert {len(counts) for counts in point["page_faults"].values()} == {TINY.fewest}
    assert re.fullmatch(r"[a-z0-9-]+-quick\.json", path.name)
    node = platform.node()
    assert not node or node not in path.read_text(encoding="utf-8")  # it does not name the computer
    machine = {"processor": "Acme 7", "cores": 5, "threads": 3, "gpu": None, "torch": "2.13.0"}
    assert bench.title({**found, "machine": machine, "date": "2026-01-02"}) == (
        "Acme 7, 5 cores, 3 threads, torch 2.13.0, 2026-01-02"
    )
