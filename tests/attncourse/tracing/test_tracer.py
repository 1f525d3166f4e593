"""The tracer: what it records, what it leaves alone, and what it says when forward fails."""

import importlib
import linecache
import random
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
from torch import nn

import attnlib
from attncourse.tracing import trace
from attncourse.tracing.table import HEADINGS
from attncourse.tracing.tracer import locate
from attnlib import MultiHeadAttention, MultiHeadAttentionWrapper


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


def test_strides_and_contiguity_are_recorded(split, x):
    traced = trace(split, x)
    queries = [step for step in traced.steps if step.name == "queries"]
    assert [step.shape for step in queries] == [(2, 7, 15), (2, 3, 7, 5)]
    assert [step.contiguous for step in queries] == [True, False]
    assert queries[1].strides == (105, 5, 15, 1)
    assert queries[1].dims == ("b", "num_heads", "num_tokens", "head_dim")
    assert queries[1].dtype == torch.float32


def test_the_result_is_what_the_module_returns(split, x):
    assert torch.equal(trace(split, x).result, split(x))
    context_vec, attn_weights = trace(split, x, return_weights=True).result
    assert torch.equal(context_vec, split(x))
    assert attn_weights.shape == (2, 3, 7, 7)


def test_depth_0_stays_in_forward_and_depth_1_enters_our_functions_but_never_torch(split, x):
    own = {"MultiHeadAttention.forward"}
    assert {step.function for step in trace(split, x).steps} == own
    deeper = {step.function for step in trace(split, x, depth=1).steps}
    assert deeper == own | {"split_heads", "causal_mask", "attention", "merge_heads"}


def test_depth_steps_into_nested_modules(x):
    stacked = MultiHeadAttentionWrapper(11, 5, context_length=13, dropout=0.0, num_heads=3)
    functions = [step.function for step in trace(stacked, x, depth=1).steps]
    assert functions.count("CausalAttention.forward") == 3 * 6  # q, k, v, mask, two results
    assert "attention" not in functions
    assert "attention" in [step.function for step in trace(stacked, x, depth=2).steps]


class Loop(nn.Module):
    def forward(self, x):
        parts = []
        for i in range(3):
            part = x[i] * i
            parts.append(part)
        doubled = [part * 2 for part in parts]
        named = {"sum": sum(doubled)}
        return named["sum"]


def test_a_loop_and_a_comprehension_are_followed_turn_by_turn():
    traced = trace(Loop(), torch.ones(3, 2))
    names = [step.name for step in traced.steps]
    assert names.count("part") == 3
    for kept in ("parts", "doubled"):
        indexed = [name for name in names if name.startswith(kept)]
        assert indexed == [f"{kept}[0]", f"{kept}[1]", f"{kept}[2]"]
    assert traced["named['sum']"].values.tolist() == [6.0, 6.0]


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
        (step.line, step.name, step.change) for step in trace(Comprehensions(), torch.ones(2, 3))
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


def test_tensors_are_named_two_levels_deep():
    class Nested(nn.Module):
        def forward(self, x):
            named = {"a": {"b": x + 1, "deeper": {"c": x + 2}}, "list": [x + 3, [[x + 4]]]}
            pairs = [(x + 5, x + 6)]
            return named["list"][0] * pairs[0][0]

    traced = trace(Nested(), torch.zeros(1))
    names = [step.name for step in traced.steps]
    kept = ["named['a']['b']", "named['list'][0]", "pairs[0][0]", "pairs[0][1]"]
    assert names == ["x", *kept, "return"]
    assert traced["pairs[0][1]"].values.tolist() == [6.0]


class Conditions(nn.Module):
    def forward(self, x):
        if (
            x.sum() > 0
            and (x @ x).sum() > 0
        ):  # fmt: skip
            return x
        for y in x @ x:
            x = y
        return x


def test_of_a_statement_with_a_body_its_head_is_named():
    failure = trace(Conditions(), torch.ones(2, 3)).failure
    assert (failure.line, failure.source) == (2, "if (")
    assert failure.shapes == {"x": (2, 3)}
    failure = trace(Conditions(), -torch.ones(2, 3)).failure
    assert (failure.line, failure.source) == (7, "for y in x @ x:")


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
    assert "Shapes there: queries (1, 7, 2, 5), keys (1, 2, 7, 5)" in repr(traced)
    assert "Shapes there" in traced._repr_html_()


def test_an_exception_in_a_part_is_reported_where_it_was_raised(split):
    failure = trace(split, torch.ones(1, 7, 10), depth=1).failure
    assert failure.function == "require_input"
    assert "d_in=11, not 10" in str(failure)
    assert trace(split, torch.ones(1, 7, 10)).failure.function == "MultiHeadAttention.forward"


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
    assert len(traced) == 0
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
    assert traced["y"].dims == ("d_in", "num_tokens")


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
        assert len(trace(split, x)) == 12
    assert trace(Keeper(), x)["self.last"].change == "new"


def test_both_displays_hold_the_same_rows(split, x):
    traced = trace(split, x)
    text = repr(traced).splitlines()
    table = ET.fromstring(traced._repr_html_())
    html_rows = [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]
    assert html_rows == [list(HEADINGS), *map(list, traced.rows())]
    assert len(text) == len(traced) + 1
    for row, line in zip(traced.rows(), text[1:], strict=True):
        assert all(cell in line for cell in row)


@pytest.mark.parametrize("fails", [False, True])
def test_signs_of_html_are_shown_as_they_are(fails):
    class Signs(nn.Module):
        def forward(self, x):
            outside = (x < 1) | (x > 2)
            return outside < torch.ones(3)

    traced = trace(Signs(), torch.ones(2 if fails else 3))
    table = ET.fromstring(f"<div>{traced._repr_html_()}</div>")
    shown = ["".join(part.itertext()) for part in (*table.iter("td"), *table.iter("pre"))]
    assert "outside = (x < 1) | (x > 2)" in shown
    assert (traced.failure is not None) == fails
    assert shown[-1] == (str(traced.failure) if fails else traced.rows()[-1][-1])


# Whose line it is

OURS, THEIRS = Path(attnlib.__file__).parent, Path(torch.__file__).parent


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


def test_a_library_whose_name_begins_like_torchs_is_followed():
    text = "def f(x):\n    y = x * 2\n    return y\n"
    calls = {
        name: from_file(THEIRS.with_name(name) / "y.py", text) for name in ("torch", "torchvision")
    }

    class Caller(nn.Module):
        def forward(self, x):
            return calls["torch"](x) + calls["torchvision"](x)

    functions = [step.function for step in trace(Caller(), torch.ones(2), depth=1).steps]
    assert functions.count("f") == 1


def test_indexing_by_number_and_by_name(split, x):
    traced = trace(split, x)
    assert traced[0].name == "x"
    assert traced["queries"].shape == (2, 3, 7, 5)
    with pytest.raises(KeyError, match="no step made a tensor named 'query'; there are: x, quer"):
        traced["query"]


@pytest.mark.parametrize(
    ("module", "depth", "error", "message"),
    [
        ("split", 0, TypeError, "module must be an nn.Module, not str"),
        (nn.ReLU(), -1, ValueError, "depth must be 0 or a positive int, not -1"),
        (nn.ReLU(), True, ValueError, "depth must be 0 or a positive int, not True"),
    ],
)
def test_bad_arguments_are_refused(module, depth, error, message):
    with pytest.raises(error, match=message):
        trace(module, torch.ones(1), depth=depth)
