"""What a learner reads: stubs, one sentence for each kind of fault, and what errors mean."""

# ruff: noqa: E501  # tables: one case on a line

import pytest
import torch
from torch import nn

from attncourse.checks import (
    Finding,
    Kind,
    check_causal_attention,
    check_stacked_heads,
    check_weight_split,
)
from attncourse.checks.errors import KINDS, finding_of
from attncourse.checks.sentences import (
    LONGEST,
    REMEDIES,
    cause_of,
    details,
    in_full,
    sentence,
)
from attncourse.tracing.operations import SourceLine
from attncourse.tracing.tracer import locate
from attnlib import CausalAttention
from support.many_styles import FLAT
from support.wrong_classes import ONE_HEAD, SPLIT, STACKED, change, write

# Stubs

SIGNATURE = "self, d_in, d_out, context_length, dropout, num_heads=1, qkv_bias=False"
BEGIN = f"class Mine(nn.Module):\n    def __init__({SIGNATURE}):\n        "
STUBS = {
    "a class that says pass": "class Mine(nn.Module):\n    pass",
    "a forward that says pass": f"{BEGIN}super().__init__()\n\n    def forward(self, x):\n        pass\n",
    "a forward that says ...": ONE_HEAD[: ONE_HEAD.index("    def forward")].replace(
        "dropout, qkv_bias", "dropout, num_heads=1, qkv_bias"
    )
    + "    def forward(self, x):\n        ...\n",
    "a forward that raises": f"{BEGIN}super().__init__()\n\n    def forward(self, x):\n        raise NotImplementedError\n",
    "an __init__ that raises": f"{BEGIN}raise NotImplementedError\n\n    def forward(self, x):\n        return x\n",
}  # fmt: skip


@pytest.mark.parametrize("check", [check_causal_attention, check_stacked_heads, check_weight_split])
@pytest.mark.parametrize("stub", [None, *STUBS.values()], ids=["None", *STUBS])
def test_a_stub_is_not_attempted_yet(check, stub):
    verdict = check(write(stub) if stub else None)
    assert not verdict
    assert repr(verdict) == "not attempted yet"
    assert "Not attempted yet" in verdict._repr_html_()


def test_an_empty_init_is_not_attempted_either():
    stub = f"class Mine(nn.Module):\n    def __init__({SIGNATURE}): pass\n"
    verdict = check_causal_attention(write(stub + "    def forward(self, x): pass\n"))
    assert verdict.sentence == "not attempted yet: __init__ does not call super().__init__()"


def test_an_error_with_words_is_no_stub():
    stub = STUBS["an __init__ that raises"]
    verdict = check_causal_attention(write(stub.replace("Error\n", 'Error("no mask yet")\n')))
    assert "NotImplementedError: no mask yet." in verdict.sentence


def test_a_beginning_without_a_return_is_not_attempted_yet():
    begun = ONE_HEAD[: ONE_HEAD.index("        keys, queries")] + "        keys = self.W_key(x)\n"
    assert check_causal_attention(write(begun)).sentence == (
        "not attempted yet: forward makes keys and returns None. Is the return missing?"
    )


@pytest.mark.parametrize(
    ("check", "text", "last"),
    [
        (check_causal_attention, ONE_HEAD.replace("        return context\n", ""), "context = "),
        (check_stacked_heads, STACKED.replace("return torch", "torch"), "torch.cat("),
        (check_stacked_heads, STACKED.replace("return torch", "joined = torch"), "joined = "),
    ],
)
def test_a_missing_return_is_told_from_a_stub(check, text, last):
    verdict = check(write(text))
    assert verdict.code == "result.none"
    assert verdict.line.text.startswith(last)


def test_lines_that_stop_at_the_line_of_the_stub():
    verdict = check_causal_attention(
        change(ONE_HEAD, "        return context\n", "        raise NotImplementedError\n")
    )
    assert verdict.code == "stub.raise"
    lines = STACKED.splitlines(keepends=True)
    raised = "        raise NotImplementedError\n"
    in_init = "".join([*lines[:4], raised, *lines[4:]])
    assert check_stacked_heads(write(in_init)).code == "stub.raise"
    untouched = "".join([*lines[:3], raised, *lines[5:]])
    assert check_stacked_heads(write(untouched)).sentence == "not attempted yet"


# Sentences: one for each kind

LINE = SourceLine(
    "MyMultiHeadAttention.forward", 12, "context_vec = attn_weights @ values  # " + "x" * 90
)
FACTS = {
    "error": "RuntimeError", "message": "size mismatch", "shapes": {"keys": (2, 5)}, "when": "",
    "sizes": {"b": 2, "num_tokens": 5, "d_out": 39}, "name": "queries", "names": ("keys", "values"),
    "twin": "W_key.weight", "has": "W_query.weight, W_key.weight", "otherwise": "", "have": (2, 5),
    "want": (2, 39), "meaning": "width of one head", "value": "0", "head": 1, "before": 0, "ran": 1,
    "num_heads": 3, "missing": (1, 2), "operation": "add", "variables": {"d_out": 2, "x": None},
    "use": "compute with x", "layer": "W_query", "holds": {"q": "keys", "k": "queries"},
    "given": ("queries", "keys", "keys"), "factor": 0.125, "right": 0.28, "what": "columns",
    "how": "reversed", "columns": (1, 2, 3), "width": "head_dim", "size": 39, "axis": "h",
    "place": 0, "other": 1, "equation": "bihd,bjhd->bhij", "letter": "d", "token": 0,
    "pair": ("keys", "queries"), "by": "num_tokens", "root": True, "shows": False, "nan": True,
    "all": True, "number": -0.0, "added": False, "length": 67, "num_tokens": 5, "one_side": True,
    "far": 1e6, "low": 0, "high": 2, "axes": "i", "sum": 0.5, "keys": 3, "mean": True, "dim": 1,
    "first": "queries", "complete": True, "heads": (0, 1), "left": 4,
    "bias": "", "dtype": torch.float64, "x_dtype": torch.float32, "returned": "list of 3",
    "places": (1, 2), "filler": "zeros", "none": True, "call": 1, "p": 0.25, "share": 0.5, "b": 2,
    "why": "it does not fit", "context_length": 11, "d_out": 39, "asked": 23, "reduces": "sum",
    "turn": ".T", "dims": 3, "argument": "d_in", "which": "", "level": 200.0, "exp": "infinite",
    "second": "keys", "plain": "dict", "there": "eval", "near": "W_value", "line": LINE, "text": 0,
}  # fmt: skip
OWN_FACTS = {
    Kind.HEADS_COUNT: {"have": 2, "want": 3},
    Kind.MERGE_AXIS: {"axes": "h"},
    Kind.DROPOUT_ACTIVE: {"how": "new"},
}


def example(kind: Kind) -> Finding:
    return Finding(kind, LINE, {**FACTS, **OWN_FACTS.get(kind, {})})


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_one_sentence_that_is_short(kind):
    finding = example(kind)
    for again in (False, True):
        said = sentence(finding, again)
        assert len(said) <= LONGEST
        assert not set("{}!") & set(said)
        assert "-0" not in said
    assert cause_of(finding) in sentence(finding)
    assert cause_of(finding) in in_full(finding)
    assert "counted from 1" not in details(finding)


def test_no_sentence_stands_twice():
    said = [cause_of(example(kind)) for kind in Kind]
    assert len(set(said)) == len(said)


def test_the_finished_line_comes_at_the_second_try_with_the_same_fault():
    wrong = change(SPLIT, "return self.out_proj(context)", "return context")
    other = change(SPLIT, " * self.width**-0.5", "")
    assert check_weight_split(other).code == "scale.none"
    first, second = check_weight_split(wrong), check_weight_split(wrong)
    assert first.faults == second.faults
    assert REMEDIES[Kind.OUT_PROJ_MISSING] not in first.sentence
    assert second.sentence == f"{first.sentence} {REMEDIES[Kind.OUT_PROJ_MISSING]}"
    assert check_weight_split(other).sentence == sentence(check_weight_split(other).faults[0])
    check_stacked_heads(None)  # another exercise has its own tries
    assert check_weight_split(other).sentence.endswith("Divide them by head_dim**0.5.")


def test_a_sentence_says_under_which_condition_an_error_comes():
    long = change(SPLIT, "b, t, _ = x.shape", "b, t, _ = x.shape\n        assert t < 20, 'long'")
    verdict = check_weight_split(long)
    assert (verdict.question, verdict.code) == ("length", "error")
    assert "With context_length=67: AssertionError: long." in verdict.sentence


# Errors are read by torch's and Python's own words, which may change with a version. For each
# alternative of a pattern, code that raises an error with these words.

X = torch.ones(2, 3)


class NoSuper(nn.Module):
    def __init__(self):
        self.part = nn.ReLU()


def endless() -> None:
    endless()


RAISES = {
    r"softmax\(\) missing": lambda: X.softmax(),
    r"Softmax\.__init__": lambda: nn.Softmax(X, dim=-1),
    r"__init__\(\) [gmt]": lambda: CausalAttention(3, 2, 6, 0.0, num_heads=2),
    r"forward\(\) [gmt]": lambda: CausalAttention(3, 2, 6, 0.0)(),
    "recursion depth": endless,
    "before Module.__init__": NoSuper,
    "view size is not compatible": lambda: X.T.view(6),
    "is invalid for input of size": lambda: X.view(2, 2),
    "but got float": lambda: X.view(2, 3.0),
    "float' object cannot be interpreted": lambda: range(3.0),
    "of type float": lambda: nn.Linear(3, 2.0),
    "expected device": lambda: X + X.to("meta"),
    "same dtype": lambda: X @ X.T.double(),
    "expected scalar type": lambda: X[None] @ X.T[None].double(),
    "must have the same": lambda: nn.Linear(3, 2)(X.double()),
    "dtypes must be": lambda: torch.baddbmm(X[None], X[None].double(), X[None].double()),
    r"t\(\) expects a tensor with <= 2": lambda: X[None].t(),
    "Dimension out of range": lambda: X.transpose(1, 2),
    "Tensors, not generator": lambda: torch.cat(row for row in X),
    "Tensors, not map": lambda: torch.cat(map(torch.relu, X)),
    "Tensors, not ModuleList": lambda: torch.cat(nn.ModuleList([nn.ReLU()])),
    "expected Tensor as element": lambda: torch.cat([nn.ReLU()]),
    r"\[ModuleList\] is missing": lambda: nn.ModuleList([nn.ReLU()])(X),
    r"call numpy\(\)": lambda: nn.Linear(3, 2)(X).numpy(),
    "numpy.ndarray": lambda: torch.softmax(X.numpy(), -1),
    "NoneType": lambda: None @ X,
    "'tuple' object": lambda: (X, X).shape,
    "not tuple": lambda: torch.relu((X, X)),
    "only supports boolean masks": lambda: X.masked_fill(X, 0.0),
    "object is not callable": lambda: X.shape[0](X),
    "cannot be multiplied": lambda: X @ X,
    r"size of the tensor \(0\)": lambda: X.clone().__setitem__(
        (..., slice(3, None)), torch.ones(2, 5)
    ),
    "Expected size": lambda: X[None] @ X[None],
    "must match": lambda: X + X.T,
    "shape of the mask": lambda: X[X.T > 0],
    "broadcast": lambda: X.clone().__setitem__([0, 1], torch.ones(5)),
}


def test_every_pattern_has_an_error_that_asks_for_it():
    assert list(RAISES) == [words for pattern, _ in KINDS for words in pattern.split("|")]


@pytest.mark.parametrize("words", RAISES)
def test_torch_still_uses_the_words_that_tell_a_kind(words):
    (kind,) = (kind for pattern, kind in KINDS if words in pattern.split("|"))
    with pytest.raises(Exception, match=words) as caught:
        RAISES[words]()
    found = finding_of(locate(caught.value))
    assert found.kind is kind
    assert found.facts["message"]


@pytest.mark.parametrize(
    ("text", "right", "wrong", "kind", "shapes"),
    [
        (ONE_HEAD, "keys.transpose(1, 2)", "keys.T", "error.T", {"queries", "keys"}),
        (ONE_HEAD, "[:num_tokens, :num_tokens]", "", "error.mask-cut", {"scores", "self.mask"}),
        (SPLIT, ".transpose(1, 2).flatten(2)", ".transpose(1, 2).reshape(b, t, 23)", "error.view-asked", {"weights", "values"}),
        (SPLIT, "keys = self.W_key(x).view(b, t, self.n, self.width).transpose(1, 2)", "keys = self.W_key(x)[:, None].squeeze(1)", "error.not-split", {"queries", "keys"}),
        (FLAT, "t.view(B, T, self.n_head, self.size)", "t.unflatten(2, (self.n_head + 1, -1))", "error", {"t"}),
    ],
)  # fmt: skip
def test_an_error_is_told_by_the_shapes_that_met(text, right, wrong, kind, shapes):
    check = check_causal_attention if text is ONE_HEAD else check_weight_split
    verdict = check(change(text, right, wrong))
    assert verdict.code == kind, verdict.sentence
    assert set(verdict.faults[0].facts["shapes"]) == shapes
    assert "Shapes there: " in verdict.more
    assert len(verdict.sentence) <= LONGEST
