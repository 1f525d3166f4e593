"""The planted mistakes: one line each, and which of the module checks see them."""

import difflib
from pathlib import Path

import pytest
import torch

from attncourse.checks.exercises import check_weight_split
from attncourse.checks.module_checks import (
    check_causal,
    check_rows_sum_to_one,
    check_same,
    check_shapes,
)
from attncourse.tracing import trace
from attncourse.variants import mistakes
from attncourse.variants.mistakes import MISTAKES, OnePageAttention
from attnlib import MultiHeadAttention
from support.cases import CONTEXT_LENGTH, D_IN, HEAD_DIM, B, H, T, tokens
from support.caught_mistakes import CAUGHT
from support.shape_comments import reading

SIZES = {"d_in": D_IN, "d_out": H * HEAD_DIM, "context_length": CONTEXT_LENGTH, "num_heads": H}
BY_NAME = {mistake.name: mistake for mistake in MISTAKES}
each_mistake = pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)


def build(cls: type[MultiHeadAttention], **changes: float) -> MultiHeadAttention:
    torch.manual_seed(1)
    return cls(**{**SIZES, "dropout": 0.0, **changes})


# The right page


def test_the_page_computes_what_the_class_computes():
    assert check_same(build(MultiHeadAttention), build(OnePageAttention))
    assert check_weight_split(OnePageAttention)


def test_the_page_has_true_shape_comments():
    found = reading(Path(mistakes.__file__))
    sizes = {"b": B, "num_tokens": T, "num_heads": H, "head_dim": HEAD_DIM, "d_out": H * HEAD_DIM}
    found.run(sizes, lambda: build(OnePageAttention)(tokens()))
    assert found.lies == found.unreached() == []


# One line


@each_mistake
def test_one_line_differs(mistake):
    lines = list(difflib.ndiff(mistake.before.splitlines(), mistake.text.splitlines()))
    removed = [line[1:].partition("  #")[0].strip() for line in lines if line[0] == "-"]
    added = [line[1:].strip() for line in lines if line[0] == "+"]
    assert (removed, added) == ([mistake.right], [mistake.wrong] if mistake.wrong else [])


@each_mistake
def test_it_is_a_class_with_a_name_and_a_source(mistake):
    assert issubclass(mistake.cls, MultiHeadAttention)
    assert mistake.cls is mistake.cls
    assert mistake.cls.__name__.lower() == mistake.name.replace(" ", "")
    assert repr(build(mistake.cls)).startswith(f"{mistake.cls.__name__}(\n  d_in=11, d_out=15")
    statements = {step.source for step in trace(build(mistake.cls), tokens()).steps}
    assert "attn_scores = queries @ keys.transpose(2, 3)" in statements


# Which module check sees which mistake, at dropout 0


@each_mistake
def test_what_each_check_sees(mistake):
    module = build(mistake.cls)
    verdicts = (
        check_shapes(module),
        check_causal(module),
        check_rows_sum_to_one(module),
        check_same(build(MultiHeadAttention), module),
    )
    assert tuple(not verdict for verdict in verdicts) == CAUGHT[mistake.name]


def test_the_one_that_raises_says_where():
    verdict = check_shapes(build(BY_NAME["view without contiguous"].cls))
    assert verdict.sentence.startswith(
        "Stopped in OnePageAttention.forward, line 16: "
        "context_vec = context_vec.view(b, num_tokens, self.d_out) | After a transpose the numbers "
    )


# Each gets its diagnosis

CODES = {
    "split without transpose": "split.mixed",
    "merge without transpose": "merge.mixed",
    "both without transpose": "split.mixed",
    "mask of the past": "mask.past",
    "mask one too late": "mask.late",
    "mask with the diagonal": "mask.diagonal",
    "mask inverted": "mask.inverted",
    "mask thrown away": "mask.unused",
    "mask of the context": "",  # it fails at context_length=1 alone
    "minus 1e4": "mask.not-low",
    "minus 1e9": "",  # it fails in half precision alone: that is a note
    "no scale": "scale.none",
    "scale by d_out": "scale.width",
    "scale by d_in": "scale.width",
    "softmax over queries": "softmax.axis",
    "dropout before softmax": "dropout.place",
    "dropout in eval": "dropout.eval",
    "keys and values swapped": "scores.pair",
    "view without contiguous": "error.view-order",
    "heads in reverse": "order",
    "no output projection": "out_proj.missing",
}
# The line that is quoted, where it is not the one that is wrong: what goes wrong shows later
QUOTED = {
    "merge without transpose": "context_vec = context_vec.view(b, num_tokens, self.d_out)",
    "both without transpose": "x = x.view(b, self.num_heads, num_tokens, self.head_dim)",
    "minus 1e9": None,
    "no scale": "attn_scores = queries @ keys.transpose(2, 3)",
    "view without contiguous": "context_vec = context_vec.view(b, num_tokens, self.d_out)",
    "no output projection": "return (context_vec, attn_weights) if return_weights else context_vec",
}


@each_mistake
def test_the_exercise_check_names_the_line(mistake):
    verdict = check_weight_split(mistake.cls)
    quoted = verdict.line.text if verdict.line else None
    assert quoted == QUOTED.get(mistake.name, mistake.wrong)
    assert verdict.code == CODES[mistake.name]
    assert verdict.holds == (quoted is None)
    assert quoted is None or quoted in verdict.sentence
