"""What a learner reads: stubs, one sentence for each kind of fault, and what errors mean."""

# ruff: noqa: E501  # tables: one case on a line

import pytest
import torch
from torch import nn

from attncourse.checks import (
    check_causal_attention,
    check_stacked_heads,
    check_weight_split,
)
from attncourse.checks.errors import CODES, finding_of
from attncourse.checks.findings import SENTENCES, Finding
from attncourse.checks.sentences import LONGEST, cause_of, in_full, sentence
from attncourse.tracing.operations import SourceLine
from attncourse.tracing.tracer import locate
from support.learner_classes import (
    ONE_BUFFER,
    SPLIT_COURSE,
    SPLIT_HELPERS,
    STACK_LINE,
    several,
    write,
)

ONE_HEAD, SPLIT, STACKED = ONE_BUFFER[1], SPLIT_COURSE[1], STACK_LINE[1]

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


@pytest.mark.parametrize(
    ("check", "text", "last"),
    [
        (
            check_causal_attention,
            ONE_HEAD.replace("        return context_vec\n", ""),
            "context_vec = ",
        ),
        (check_stacked_heads, STACKED.replace("return torch", "torch"), "torch.cat("),
        (check_stacked_heads, STACKED.replace("return torch", "joined = torch"), "joined = "),
    ],
)
def test_a_missing_return_is_told_from_a_stub(check, text, last):
    verdict = check(write(text))
    assert verdict.code == "result.none"
    assert verdict.line.text.startswith(last)


def test_lines_that_stop_at_the_line_of_the_stub():
    stop = {"        return context_vec\n": "        raise NotImplementedError\n"}
    verdict = check_causal_attention(write(several(ONE_HEAD, stop)))
    assert verdict.code == "stub.raise"
    lines = STACKED.splitlines(keepends=True)
    raised = "        raise NotImplementedError\n"
    in_init = "".join([*lines[:4], raised, *lines[4:]])
    assert check_stacked_heads(write(in_init)).code == "stub.raise"
    untouched = "".join([*lines[:3], raised, *lines[6:]])
    assert check_stacked_heads(write(untouched)).sentence == "not attempted yet"


# Sentences: one for each kind

LINE = SourceLine(
    "MyMultiHeadAttention.forward", 12, "context_vec = attn_weights @ values  # " + "x" * 90
)
FACTS = {
    "error": "RuntimeError", "message": "size mismatch", "shapes": {"keys": (2, 5)},
    "sizes": {"b": 2, "num_tokens": 5, "d_out": 39}, "name": "queries", "names": ("keys", "values"),
    "has": "W_query.weight, W_key.weight", "otherwise": "", "have": (2, 5), "want": (2, 39),
    "operation": "add", "factor": 0.125, "right": 0.28, "makes": "scores", "what": "columns",
    "given": "d_out, d_in", "wanted": "d_in, d_out", "token": 0, "other": 1, "how": "in another order",
    "pair": ("keys", "queries"), "by": "num_tokens", "number": -0.0, "num_tokens": 5, "far": 1e6,
    "axes": "i", "dtype": torch.float64, "x_dtype": torch.float32, "returned": "list", "p": 0.25,
    "d_out": 39, "num_heads": 3, "context_length": 11, "turn": ".T", "where": " in forward",
    "origin": "it was defined before", "defined": "Mine",
}  # fmt: skip


def example(code: str) -> Finding:
    facts = {"have": 2, "want": 3} if code == "size.wrong" else {}
    return Finding(code, LINE, {**FACTS, **facts})


@pytest.mark.parametrize("code", SENTENCES)
def test_every_code_has_a_sentence_that_is_short(code):
    finding = example(code)
    said = sentence(finding)
    assert len(said) <= LONGEST
    assert not set("{}!?") & set(said)
    assert "-0" not in said
    assert cause_of(finding) in in_full(finding)


def test_a_code_without_a_sentence_is_refused():
    with pytest.raises(ValueError, match=r"'mask.typo' has no sentence in sentences\.toml"):
        Finding("mask.typo")


# Errors are read by torch's and Python's own words, which may change with a version. For each
# alternative of a pattern, code that raises an error with these words.

X = torch.ones(2, 3)


def endless() -> None:
    endless()


RAISES = {
    "recursion depth": endless,
    "view size is not compatible": lambda: X.T.view(6),
    "is invalid for input of size": lambda: X.view(2, 2),
    "but got float": lambda: X.view(2, 3.0),
    "float' object cannot be interpreted": lambda: range(3.0),
    "of type float": lambda: nn.Linear(3, 2.0),
    "same dtype": lambda: X @ X.T.double(),
    "expected scalar type": lambda: X[None] @ X.T[None].double(),
    "must have the same": lambda: nn.Linear(3, 2)(X.double()),
    "dtypes must be": lambda: torch.baddbmm(X[None], X[None].double(), X[None].double()),
    r"t\(\) expects a tensor with <= 2": lambda: X[None].t(),
    "Tensors, not ModuleList": lambda: torch.cat(nn.ModuleList([nn.ReLU()])),
    "expected Tensor as element": lambda: torch.cat([nn.ReLU()]),
    r"\[ModuleList\] is missing": lambda: nn.ModuleList([nn.ReLU()])(X),
    "cannot be multiplied": lambda: X @ X,
    "Expected size": lambda: X[None] @ X[None],
    "must match": lambda: X + X.T,
    "shape of the mask": lambda: X[X.T > 0],
    "broadcast": lambda: X.clone().__setitem__([0, 1], torch.ones(5)),
    "Dimension out of range": lambda: X.transpose(1, 2),
}


def test_every_pattern_has_an_error_that_asks_for_it():
    assert list(RAISES) == [words for pattern, _ in CODES for words in pattern.split("|")]


@pytest.mark.parametrize("words", RAISES)
def test_torch_still_uses_the_words_that_tell_an_error(words):
    (code,) = (code for pattern, code in CODES if words in pattern.split("|"))
    with pytest.raises(Exception, match=words) as caught:
        RAISES[words]()
    found = finding_of(locate(caught.value))
    assert found.code in (code, "error")  # without shapes, of which the sentence would speak
    assert found.facts["message"]


@pytest.mark.parametrize(
    ("base", "right", "wrong", "code", "shapes"),
    [
        (ONE_BUFFER, "keys.transpose(1, 2)", "keys.T", "error.T", {"queries", "keys"}),
        (ONE_BUFFER, "self.mask[:num_tokens, :num_tokens]", "self.mask", "error.mask-cut", {"attn_scores", "self.mask"}),
        (SPLIT_COURSE, "num_tokens, self.d_out)", "num_tokens, d_in)", "error.view-size", {"context_vec"}),
        (SPLIT_HELPERS, "k = self.split(self.W_key(x))", "k = self.W_key(x)", "error.shapes", {"q", "k"}),
    ],
)  # fmt: skip
def test_an_error_is_told_with_the_shapes_that_met(base, right, wrong, code, shapes):
    check, text = base
    verdict = check(write(several(text, {right: wrong})))
    assert verdict.code == code, verdict.sentence
    assert set(verdict.faults[0].facts["shapes"]) == shapes
    assert "Shapes there: " in verdict.more
    assert len(verdict.sentence) <= LONGEST
