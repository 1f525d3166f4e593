"""A class that reads a variable of the notebook around it is told so, and not another cause."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from attncourse.checks import check_causal_attention, check_stacked_heads, check_weight_split
from attnlib import CausalAttention, causal_mask
from support.exercise_tools import run_cell
from support.wrong_classes import STACKED, several, write

# What the notebooks have when the class is written
NOTEBOOK = {
    "d_out": 2,
    "b": 1,
    "num_tokens": 6,
    "num_heads": 2,
    "head_dim": 2,
    "batch": torch.ones(2, 6, 3),
    "place": torch.arange(6),
    "is_future": causal_mask(6),
    "causal_mask": causal_mask,
    "W_query": nn.Linear(3, 2, bias=False),
    "attn_weights": torch.full((6, 6), 1 / 6),
    "context_vec": torch.ones(2, 6, 4),
    "head_0": CausalAttention(3, 2, 6, 0.0),
    "Z0": torch.ones(2, 6, 2),
    "Z1": torch.ones(2, 6, 2),
}
LAYERS = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, {}qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
"""
HEAD = f"""{LAYERS.format("")}
    def forward(self, x):
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = queries @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5
        place = torch.arange(x.shape[1])
        is_future = place[None, :] > place[:, None]
        hidden = scores.masked_fill(is_future, -torch.inf)
        weights = self.dropout(torch.softmax(hidden, dim=-1))
        return weights @ values
"""
SPLIT = (
    LAYERS.format("num_heads, ")
    + """\
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.out_proj = nn.Linear(d_out, d_out)

    def split(self, made):
        b, num_tokens, _ = made.shape
        return made.view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x):
        num_tokens = x.shape[1]
        queries = self.split(self.W_query(x))
        keys = self.split(self.W_key(x))
        values = self.split(self.W_value(x))
        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        is_future = causal_mask(num_tokens)
        scores = scores.masked_fill(is_future, -torch.inf)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        return self.out_proj((weights @ values).transpose(1, 2).flatten(2))
"""
)
JOIN = "[head(x) for head in self.heads]"
UNPACK = "        b, num_tokens, _ = made.shape\n"
ROOT = "keys.shape[-1] ** 0.5"
PLACE = "        place = torch.arange(x.shape[1])\n"
MASK = f"{PLACE}        is_future = place[None, :] > place[:, None]\n"
WIDTH = "and this head is 7 wide: take the width from the tensor, keys.shape[-1]."
LENGTH = "for 6 tokens, and x has 5: make it from x.shape[1]."
LAYERS_OF_ITS_OWN = "compute with x, and with the module's own layers."
HEADS_OF_ITS_OWN = "compute with x, and with the module's own heads."


@pytest.mark.parametrize(
    ("check", "text"),
    [(check_causal_attention, HEAD), (check_stacked_heads, STACKED), (check_weight_split, SPLIT)],
)
def test_a_notebook_around_a_right_class_changes_nothing(check, text):
    assert check(write(text, **NOTEBOOK))


@pytest.mark.parametrize(
    ("right", "wrong", "line", "sentence"),
    [
        (ROOT, "d_out**0.5", "d_out**0.5", f"d_out here is the notebook's variable, 2, {WIDTH}"),
        (ROOT, "d_out", "/ d_out", f"d_out here is the notebook's variable, 2, {WIDTH}"),
        (
            f"        scores = queries @ keys.transpose(-2, -1) / {ROOT}\n",
            "        root = d_out**0.5\n        scores = queries @ keys.transpose(-2, -1) / root\n",
            "root = d_out**0.5",
            f"d_out here is the notebook's variable, 2, {WIDTH}",
        ),
        (ROOT, "2**0.5", "/ 2**0.5", f"2 here is a fixed number, {WIDTH}"),
        (ROOT, "math.sqrt(64)", "sqrt(64)", f"64 here is a fixed number, {WIDTH}"),
        (MASK, "", "masked_fill", f"is_future here is the notebook's variable, {LENGTH}"),
        (PLACE, "", "is_future =", f"place here is the notebook's variable, {LENGTH}"),
        (
            "self.W_query(x)",
            "W_query(x)",
            "W_query(x)",
            "W_query here is the notebook's variable: the module's own is self.W_query.",
        ),
        (
            "weights @ values",
            "attn_weights @ values",
            "attn_weights",
            f"attn_weights here is the notebook's variable: {LAYERS_OF_ITS_OWN}",
        ),
        (
            "return weights @ values",
            "return context_vec",
            "return context_vec",
            f"context_vec here is the notebook's variable: {LAYERS_OF_ITS_OWN}",
        ),
    ],
)
def test_one_head(right, wrong, line, sentence):
    verdict = check_causal_attention(write(several(HEAD, (right, wrong)), **NOTEBOOK))
    assert not verdict
    assert verdict.faults[0].cause.startswith(sentence)
    assert line in verdict.line.text


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("(Z0, Z1)", f"Z0 and Z1 here are the notebook's variables: {HEADS_OF_ITS_OWN}"),
        ("(head_0(x),)", f"head_0 here is the notebook's variable: {HEADS_OF_ITS_OWN}"),
        (
            JOIN.replace("(x)", "(batch)"),
            f"batch here is the notebook's variable: {HEADS_OF_ITS_OWN}",
        ),
    ],
)
def test_stacked_heads(wrong, sentence):
    verdict = check_stacked_heads(write(several(STACKED, (JOIN, wrong)), **NOTEBOOK))
    assert not verdict
    assert verdict.faults[0].cause.startswith(sentence)
    assert wrong in verdict.line.text


@pytest.mark.parametrize(
    ("right", "wrong", "sentence"),
    [
        (
            "/ self.head_dim**0.5",
            "/ head_dim**0.5",
            "head_dim here is the notebook's variable, 2, and this head is 7 wide: write "
            "self.head_dim.",
        ),
        (
            UNPACK,
            "",
            "b and num_tokens here are the notebook's variables, 1 and 6: take b and num_tokens "
            "from made.shape.",
        ),
        (
            "self.num_heads, self.head_dim)",
            "num_heads, self.head_dim)",
            "num_heads here is the notebook's variable, 2: write self.num_heads.",
        ),
        (
            "made.shape\n",
            "x.shape\n",
            "x here is the notebook's variable: compute with made, and with the module's own "
            "layers.",
        ),
        (
            "self.W_query(x)",
            "W_query(x)",
            "W_query here is the notebook's variable: the module's own is self.W_query.",
        ),
        (
            "        num_tokens = x.shape[1]\n",
            "",
            "num_tokens here is the notebook's variable, 6: take num_tokens from x.shape.",
        ),
    ],
)
def test_a_weight_split(right, wrong, sentence):
    notebook = NOTEBOOK | {"x": torch.ones(1, 6, 3), "W_query": torch.ones(3, 4)}
    verdict = check_weight_split(write(several(SPLIT, (right, wrong)), **notebook))
    assert not verdict
    assert verdict.faults[0].cause.startswith(sentence)


def test_a_function_of_the_notebook_cannot_write_self():
    """Defined in a cell of its own, as the split by view and transpose of notebook 03 is."""
    cell = "def split(part):\n    return part.view(b, 6, num_heads, 2).transpose(1, 2)\n"
    space = dict(NOTEBOOK)
    run_cell(cell, space, "<another cell>")
    text = several(SPLIT, ("self.split(self.W_key(x))", "split(self.W_key(x))"))
    verdict = check_weight_split(write(text, **NOTEBOOK, split=space["split"]))
    assert "take b from part.shape, and take num_heads as arguments" in verdict.sentence


@pytest.mark.parametrize(
    ("length", "shown"), [("6", 6), ("x.shape[0]", 2), ("len(x)", 2), ("x.shape[-1]", 11)]
)
def test_a_mask_for_other_tokens(length, shown):
    said = f"The mask is for {shown} tokens, and x has 5: make it from x.shape[1]. So it stops in"
    verdict = check_causal_attention(write(HEAD.replace("arange(x.shape[1])", f"arange({length})")))
    assert verdict.faults[0].cause.startswith(said)
    assert verdict.line.text == f"place = torch.arange({length})"
    text = HEAD.replace(MASK, "").replace(
        "masked_fill(is_future", f"masked_fill(torch.ones({length}, {length}).triu(1).bool()"
    )
    assert check_causal_attention(write(text)).faults[0].cause.startswith(said)
    text = SPLIT.replace("causal_mask(num_tokens)", f"causal_mask({length})")
    verdict = check_weight_split(write(text, causal_mask=causal_mask))
    assert verdict.faults[0].cause.startswith(said)
    assert verdict.line.text == f"is_future = causal_mask({length})"


def test_one_side_of_a_mask_for_other_tokens():
    text = several(HEAD, ("> place[:, None]", "> torch.arange(6)[:, None]"))
    said = "One side of the mask is for 6 tokens, and x has 5: make it from x.shape[1]."
    assert said in check_causal_attention(write(text)).sentence


def test_an_error_before_a_mask_for_other_tokens_is_not_put_down_to_it():
    text = several(
        HEAD,
        (MASK, ""),
        ("        queries, keys, values", f"{MASK}        queries, keys, values"),
        ("arange(x.shape[1])", "arange(x.shape[0])"),
        ("keys.transpose(-2, -1)", "keys.T"),
    )
    assert check_causal_attention(write(text)).sentence.endswith(
        ".T reverses all three dimensions: write .transpose(-2, -1)."
    )


def test_an_error_of_another_cause_is_not_put_down_to_a_variable_of_the_notebook():
    text = several(HEAD, (ROOT, "math.sqrt(d_out)"), ("keys.transpose(-2, -1)", "keys.T"))
    verdict = check_causal_attention(write(text, **NOTEBOOK))  # d_out is 2, as are the texts
    assert verdict.sentence.endswith(".T reverses all three dimensions: write .transpose(-2, -1).")


def test_the_number_of_texts_is_named_where_it_is_the_divisor():
    text = several(HEAD, (ROOT, "x.shape[0] ** 0.5"))
    verdict = check_causal_attention(write(text, **NOTEBOOK))
    assert verdict.code == "scale.batch"
    assert "you divide by the root of the number of texts" in verdict.sentence
    text = several(HEAD, (ROOT, "W_query.weight.shape[0] ** 0.5"))  # 2 as well, whatever x is
    verdict = check_causal_attention(write(text, **NOTEBOOK))
    assert verdict.code == "scale.wrong"
    assert "look at what you divide them by" in verdict.sentence
