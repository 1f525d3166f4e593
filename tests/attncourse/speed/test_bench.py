"""The benchmark: only what is equal is timed, in turns, and a goal can fail."""

import json

import pytest
import torch
from torch import nn

import bench
from attncourse.speed import timing
from attncourse.speed.timing import Quartiles
from attnlib import FusedMultiHeadAttention, MultiHeadAttention
from ways import VARIANTS

WIDTH, HEADS, TOKENS, BATCH = 21, 7, 11, 2
EAGER = [name for name in VARIANTS if name != bench.FLEX]


def split_module(seed: int = 1) -> MultiHeadAttention:
    torch.manual_seed(seed)
    return MultiHeadAttention(WIDTH, WIDTH, TOKENS, 0.0, HEADS).eval()


def x() -> torch.Tensor:
    return torch.randn(BATCH, TOKENS, WIDTH, generator=torch.Generator().manual_seed(2))


class FakeClock:
    """A clock that runs nothing, notes what it is asked to time, and returns 1."""

    def __init__(self) -> None:
        self.timed: list[timing.Call] = []

    def __call__(self, call: timing.Call) -> float:
        self.timed.append(call)
        return 1.0


@pytest.mark.parametrize("passes", [bench.FORWARD, bench.BOTH])
def test_what_is_not_equal_is_not_timed(passes):
    fake = FakeClock()
    modules = {"right": split_module(), "wrong": split_module(seed=3)}
    words = r"'wrong' is off from 'right' by \d\.\de[-+]\d\d, more than 1\S*e-05; what is not"
    with pytest.raises(ValueError, match=words):
        bench.time_modules(modules, x(), 1.0, bench.PASSES[passes], clock=fake)
    assert fake.timed == []
    bench.time_modules(
        {"right": split_module(), "same": split_module()},
        x(),
        1.0,
        bench.PASSES[passes],
        clock=fake,
    )
    assert fake.timed


def test_a_wrong_gradient_is_not_timed():
    """The outputs are equal, the gradients of x are not."""

    class Detached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = split_module()

        def forward(self, x):
            return self.inner(x.detach()) + 0 * x

    modules = {"right": split_module(), "detached": Detached()}
    bench.time_modules(modules, x(), 0.01, bench.forward)
    with pytest.raises(ValueError, match="'detached' is off from 'right'"):
        bench.time_modules(modules, x(), 0.01, bench.forward_and_backward)


def test_calls_take_turns_and_turn_around():
    calls = {"a": int, "b": str, "c": float}
    fake = FakeClock()
    samples = timing.time_in_turns(calls, budget=0.0, fewest=4, clock=fake)
    assert fake.timed == [int, str, float, float, str, int] * 2
    assert samples == {name: [1.0] * 4 for name in calls}


@pytest.mark.parametrize(("budget", "rounds"), [(0.0, 3), (5.5, 5), (100.0, 7)])
def test_the_first_round_decides_how_many_fit(monkeypatch, budget, rounds):
    now = iter(range(1000))
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(now)))
    samples = timing.time_in_turns({"a": int}, budget, most=7, clock=FakeClock())
    assert len(samples["a"]) == rounds


@pytest.mark.parametrize("name", EAGER)
def test_every_way_is_the_same_function(name):
    split = split_module()
    calls = {"split": lambda: split(x()), name: lambda: VARIANTS[name](split)(x())}
    bench.require_equal(calls, 1e-5)


def test_the_next_token_is_the_same_with_a_cache():
    fused = FusedMultiHeadAttention(WIDTH, WIDTH, TOKENS + 1, 0.0, HEADS)
    calls = bench.next_token(fused.eval(), TOKENS)
    for _ in range(2):  # each call forgets the token it added
        bench.require_equal(calls, 1e-6)


@pytest.mark.parametrize(
    ("median", "upper", "verdict"),
    [(1.03, 1.06, bench.HOLDS), (1.031, 1.06, bench.MISSES), (1.0, 1.07, bench.MISSES)],
)
def test_a_goal_can_hold_and_fail(median, upper, verdict):
    goal = bench.Goal("fused / other", Quartiles(0.9, median, upper), 1.03, 1.06)
    assert goal.verdict == verdict
    assert bench.table([goal]).endswith(verdict)


def test_a_run_prints_its_goals_and_stores_every_sample(monkeypatch, tmp_path, capsys):
    """In a tiny size; FlexAttention would compile for seconds."""
    tiny = bench.Plan(
        width=WIDTH,
        num_heads=HEADS,
        shapes=((BATCH, TOKENS),),
        grid_heads=(),
        cached=TOKENS,
        budget=0.01,
    )
    monkeypatch.setattr(bench, "QUICK", tiny)
    monkeypatch.setattr(bench, "RESULT", tmp_path / "bench.json")
    monkeypatch.setattr(bench, "flex_runs", lambda passes: False)
    monkeypatch.setattr(bench, "run_python", lambda script: "0.01")  # new processes take seconds
    assert bench.main(["--quick"]) == 0
    assert "(2, 11) forward + backward: fused / " in capsys.readouterr().out
    found = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert set(found["speed"]["(2, 11) forward"]["all"]) == {*EAGER, bench.MATRIX_PRODUCT}
    point = bench.grid_point(tiny, 3, 5)
    assert all(sample > 0 for samples in point["samples"].values() for sample in samples)
    assert {len(counts) for counts in point["page_faults"].values()} == {tiny.fewest}
