"""The tracer: what it records, what it leaves alone, and what it says when forward fails."""

import importlib
import linecache
import random
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import attnlib
from attncourse.tracing import trace
from attncourse.tracing.tracer import locate
from attnlib import MultiHeadAttention


@pytest.fixture
def split():
    torch.manual_seed(2)
    return MultiHeadAttention(11, 15, context_length=13, dropout=0.0, num_heads=3)


@pytest.fixture
def x():
    torch.manual_seed(3)
    return torch.randn(2, 7, 11)


def story(traced):
    return [(step.name, step.change, step.shape) for step in traced.steps]


class OneLineForms(nn.Module):
    def forward(self, x):
        y = x * 2
        half = y[:, :1]
        y.add_(1)
        y = y.relu()
        return half @ half.mT


def test_new_view_in_place_rebound_and_returned_are_told_apart():
    x = torch.arange(6.0).view(2, 3)
    traced = trace(OneLineForms(), x)
    assert story(traced) == [
        ("x", "given", (2, 3)),
        ("y", "new", (2, 3)),
        ("half", "new", (2, 1)),
        ("y", "in place", (2, 3)),
        ("half", "in place", (2, 1)),  # a view of y: it changed too
        ("y", "re-bound", (2, 3)),
        ("return", "returned", (2, 2)),
    ]


def test_values_are_those_of_that_moment():
    x = torch.arange(6.0).view(2, 3)
    traced = trace(OneLineForms(), x)
    before, after = [step.values for step in traced.steps if step.name == "half"]
    assert before.tolist() == [[0.0], [6.0]]
    assert after.tolist() == [[1.0], [7.0]]


class Loop(nn.Module):
    def forward(self, x):
        parts = []
        for i in range(3):
            part = x[i] * i
            parts.append(part)
        doubled = [part * 2 for part in parts]
        total = sum(doubled)
        return total


def test_a_loop_and_a_comprehension_are_followed_turn_by_turn():
    traced = trace(Loop(), torch.ones(3, 2))
    names = [step.name for step in traced.steps]
    assert names.count("part") == 3
    for kept in ("parts", "doubled"):
        indexed = [name for name in names if name.startswith(kept)]
        assert indexed == [f"{kept}[0]", f"{kept}[1]", f"{kept}[2]"]
    assert traced["total"].values.tolist() == [6.0, 6.0]


class Comprehensions(nn.Module):
    def forward(self, x):
        doubled = [part * 2 for part in x.split(1)]
        x = [
            x + 1
            for x in doubled
        ]  # fmt: skip
        for y in [part * 3 for part in x]:
            z = y + 1
        return torch.cat([z * part for part in x])


def test_the_variables_of_a_comprehension_are_not_the_functions():
    """From Python 3.12 on it runs in the function's own frame, and its variables show there."""
    steps = [
        (step.line, step.name, step.change)
        for step in trace(Comprehensions(), torch.ones(2, 3)).steps
    ]
    assert steps == [
        (1, "x", "given"),
        (2, "doubled[0]", "new"),
        (2, "doubled[1]", "new"),
        (3, "x[0]", "new"),
        (3, "x[1]", "new"),
        (7, "y", "new"),
        (8, "z", "new"),
        (7, "y", "re-bound"),
        (8, "z", "re-bound"),
        (9, "return", "returned"),
    ]


class ForgottenTranspose(nn.Module):
    def __init__(self):
        super().__init__()
        self.W_query = nn.Linear(10, 10)

    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.W_query(x).view(b, num_tokens, 2, 5)
        keys = x.view(b, num_tokens, 2, 5).transpose(1, 2)
        attn_scores = (
            queries
            @ keys.transpose(2, 3)
        )  # fmt: skip
        return attn_scores


def test_an_exception_keeps_the_steps_and_names_the_line_and_the_shapes():
    traced = trace(ForgottenTranspose(), torch.ones(1, 7, 10))
    assert [step.name for step in traced.steps] == ["x", "queries", "keys"]
    assert traced.result is None
    failure = traced.failure
    assert failure.source == "attn_scores = ( queries @ keys.transpose(2, 3) )"
    assert failure.line == 5
    in_order = [("queries", (1, 7, 2, 5)), ("keys", (1, 2, 7, 5))]
    assert list(failure.shapes.items()) == in_order  # in that of the line
    assert isinstance(failure.error, RuntimeError)
    assert "Shapes there: queries (1, 7, 2, 5), keys (1, 2, 7, 5)" in str(failure)


def test_an_exception_that_forward_handles_is_no_failure():
    class Careful(nn.Module):
        def forward(self, x):
            try:
                return x.view(5, 5)
            except RuntimeError:
                return x * 3

    traced = trace(Careful(), torch.ones(2))
    assert traced.failure is None
    assert traced.result.tolist() == [3.0, 3.0]


def test_a_call_that_never_reaches_forward_is_reported(split):
    traced = trace(split, torch.ones(1), 2, 3, 4)
    assert traced.steps == []
    assert "takes from 2 to 3 positional arguments" in str(traced.failure)


TYPED = """
import torch
class Typed(torch.nn.Module):
    def forward(self, x):
        y = x.transpose(0, 1)  # (d_in, num_tokens)
        return y
"""


def test_a_class_typed_into_a_notebook_cell_is_followed():
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        assert shell.run_cell(TYPED).success
        traced = trace(shell.user_ns["Typed"](), torch.ones(2, 3))
    finally:
        InteractiveShell.clear_instance()
    assert traced["y"].source == "y = x.transpose(0, 1)"


def test_a_forward_without_source_still_gives_shapes():
    space = {}
    exec(TYPED, space)
    step = trace(space["Typed"](), torch.ones(2, 3))["y"]
    assert (step.shape, step.source) == ((3, 2), "(source not available)")


@pytest.mark.parametrize("fails", [False, True])
def test_an_active_trace_function_is_active_again_afterwards(split, x, fails):
    def other(frame, event, arg):
        return None

    before = sys.gettrace()
    sys.settrace(other)
    try:
        traced = trace(split, x[0] if fails else x)
        active = sys.gettrace()
    finally:
        sys.settrace(before)
    assert active is other
    assert (traced.failure is not None) == fails


def test_nothing_stays_on_the_module_and_gradients_still_flow(split, x):
    attributes = set(vars(split))
    traced = trace(split, x.requires_grad_())
    traced.result.sum().backward()
    assert set(vars(split)) == attributes
    assert x.grad.abs().sum() > 0
    assert not any(step.values.requires_grad for step in traced.steps)


def test_inference_mode_decorated_forwards_and_tensors_kept_on_the_module_work(split, x):
    class Keeper(nn.Module):
        @torch.no_grad()
        def forward(self, x):
            self.last = x * 2
            return x

    with torch.inference_mode():
        assert len(trace(split, x).steps) == 12
    assert trace(Keeper(), x)["self.last"].change == "new"


# Whose line it is

OURS = Path(attnlib.__file__).parent


def from_file(file: Path, text: str):
    linecache.cache[str(file)] = len(text), None, text.splitlines(keepends=True), str(file)
    space = {"torch": torch}
    exec(compile(text, str(file), "exec"), space)
    return space["f"]


def where(call) -> tuple[str, str]:
    try:
        call()
    except Exception as error:
        failure = locate(error)
        return failure.function, failure.source
    return "", "it does not fail"


@pytest.mark.parametrize(
    "fails",
    [
        lambda: random.choice([]),
        lambda: importlib.import_module("no_such_module"),
        lambda: torch.ones(2) @ nn.Linear(2, 2)(torch.ones(3)),
        lambda: attnlib.split_heads(torch.ones(1, 2, 3), 2),
    ],
    ids=["the standard library", "Python's own start", "torch", "attnlib"],
)
def test_a_failure_in_a_library_is_placed_at_the_line_that_called_it(fails):
    def mine():
        return fails()

    assert where(mine) == ("mine", "return fails()")


@pytest.mark.parametrize("folder", [OURS, Path(random.__file__).parent])
def test_a_folder_whose_name_begins_like_a_librarys_belongs_to_the_reader(folder):
    f = from_file(folder.with_name(f"{folder.name}_mine") / "y.py", "def f():\n    return 1 / 0\n")
    assert where(f) == ("f", "return 1 / 0")


def test_what_is_not_there_or_no_module_is_refused(split, x):
    assert trace(split, x)["queries"].shape == (2, 3, 7, 5)
    with pytest.raises(KeyError, match="no step made a tensor named 'query'; there are: x, quer"):
        trace(split, x)["query"]
    with pytest.raises(TypeError, match=r"module must be an nn\.Module, not str"):
        trace("split", x)
