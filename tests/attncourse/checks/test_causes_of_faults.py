"""A sentence says what is wrong of this class, and not of its usual kind; no sentence is untrue."""

# ruff: noqa: E501  # a table: one slip on a line

from __future__ import annotations

import pytest

from attncourse.checks import check_causal_attention, check_stacked_heads, check_weight_split
from support.many_styles import BY_HAND, EINSUM, FLAT, FUNCTION, LOOP, NANO
from support.wrong_classes import ONE_HEAD, SPLIT, STACKED, several, write

FILLED = STACKED.replace(
    "        return torch.cat([head(x) for head in self.heads], dim=-1)\n",
    "        n, made = len(self.heads), None\n"
    "        for place, head in enumerate(self.heads):\n"
    "            part = head(x)\n"
    "            if made is None:\n"
    "                made = part.new_zeros(*x.shape[:2], n * part.shape[-1])\n"
    "            begin = place * part.shape[-1]\n"
    "            made[..., begin : begin + part.shape[-1]] = part\n"
    "        return made\n",
)
PRIOR = SPLIT.replace(
    "        context = (weights @ values).transpose(1, 2).flatten(2)\n",
    "        rows, at = torch.zeros_like(values), 0\n"
    "        while at < t:\n"
    "            rows[:, :, at] = (weights[:, :, at : at + 1] @ values).squeeze(2)\n"
    "            at += 1\n"
    "        context = rows.transpose(1, 2).flatten(2)\n",
)
LINEAR = SPLIT.replace(
    "self.W_value(x).view",
    "nn.functional.linear(x, self.W_value.weight, self.W_value.bias).view",
)
BUFFER = ONE_HEAD.replace(
    "        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)\n",
    "        hide = self.mask.bool()[:num_tokens, :num_tokens]\n"
    "        scores = scores.masked_fill(hide, -torch.inf)\n",
)
HELPED = ONE_HEAD.replace(
    "        keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)\n",
    "        queries, keys, values = self.three(x)\n",
) + (
    "\n    def three(self, given):\n"
    "        return self.W_query(given), self.W_key(given), self.W_value(given)\n"
)
SUMMED = BY_HAND.replace(
    "        for i in range(n):\n            S[:, i, i + 1:] = -torch.inf\n        A = self.soft(S)\n",
    "        past = torch.ones(n, n, dtype=S.dtype).tril()\n"
    "        powers = (S - S.amax(-1, True)).exp()\n"
    "        powers = powers * past\n"
    "        whole = powers.sum(-1, keepdim=True)\n"
    "        A = powers / whole\n",
)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (check_stacked_heads, FILLED),
        (check_weight_split, PRIOR),
        (check_weight_split, LINEAR),
        (check_causal_attention, BUFFER),
        (check_causal_attention, HELPED),
        (check_causal_attention, SUMMED),
    ],
)
def test_the_classes_are_right_before_they_are_changed(check, text):
    verdict = check(write(text))
    assert verdict, verdict.sentence


CASES = {
    # which columns, tokens or texts are mixed
    "columns dealt out": (
        check_weight_split, NANO,
        [("k.view(B, T, self.n_head, self.n_embd // self.n_head)", "k.view(B, T, self.n_embd // self.n_head, self.n_head).transpose(2, 3)")],
        "split.columns", "k = k.view(", "The heads get other columns of the keys",
    ),
    "columns that overlap": (
        check_weight_split, LOOP,
        [("slice(h * self.size, (h + 1) * self.size)", "slice(h, h + self.size)")],
        "split.missing", "cols = slice(h, h + self.size)", "columns 1 to 7 of the queries",
    ),
    "texts and heads": (
        check_weight_split, FLAT,
        [("y.view(B, self.n_head, T, self.size)", "y.view(self.n_head, B, T, self.size).transpose(0, 1)")],
        "merge.texts", "y = y.view(self.n_head, B,", "Here the texts come first, and the heads within",
    ),
    "heads like tokens": (
        check_weight_split, LOOP,
        [("y = torch.cat(outs, -1)", "y = torch.cat(outs, 1).view(*x.shape[:2], -1)")],
        "merge.axis", "torch.cat(outs, 1)", "dim=-1",
    ),
    # where a bound, a mask, a number was made
    "a bound": (
        check_stacked_heads, FILLED,
        [("begin = place * part.shape[-1]", "begin = place")],
        "result.unwritten", "begin = place", "never written",
    ),
    "a loop without the last": (
        check_stacked_heads, FILLED,
        [("enumerate(self.heads)", "enumerate(self.heads[:2])")],
        "result.unwritten", "enumerate(self.heads[:2])", "Columns 14 to 20",
    ),
    "a step of two": (
        check_weight_split, PRIOR, [("at += 1", "at += 2")],
        "result.unwritten", "at += 2", "Tokens 1 and 3",
    ),
    "a late begin": (
        check_weight_split, PRIOR, [("torch.zeros_like(values), 0", "torch.zeros_like(values), 1")],
        "result.unwritten", "", "Token 0",
    ),
    "a mask cut once": (
        check_causal_attention, BUFFER,
        [("self.mask.bool()[:num_tokens, :num_tokens]", "self.mask.bool()[:, :num_tokens]")],
        "mask.cut", "hide = self.mask.bool()[:, :num_tokens]", "cut rows and columns",
    ),
    "a mask too small": (
        check_causal_attention, BUFFER,
        [("torch.ones(context_length, context_length)", "torch.ones(d_out, d_out)"), ("if num_tokens > len(self.mask)", "if False")],
        "mask.small", "torch.ones(d_out, d_out)", "(d_out, d_out) = (7, 7)",
    ),
    "texts instead of tokens": (
        check_causal_attention, BUFFER,
        [("num_tokens = x.shape[1]", "num_tokens, texts, _ = x.shape"), ("if num_tokens > len(self.mask)", "if False")],
        "mask.cut", "num_tokens, texts, _ = x.shape", "(b, b)",
    ),
    "out in another order": (
        check_causal_attention, HELPED,
        [("self.W_query(given), self.W_key(given)", "self.W_key(given), self.W_query(given)")],
        "parts.swapped", "return self.W_key(given)", "changed places",
    ),
    # what is not there
    "no bias": (
        check_weight_split, LINEAR, [("self.W_value.weight, self.W_value.bias", "self.W_value.weight")],
        "projection.bias", "nn.functional.linear(x, self.W_value.weight)", "W_value: its bias is missing here. self.W_value(x)",
    ),
    "no bias, which changes no weight": (
        check_weight_split, SPLIT,
        [("self.W_key(x).view", "nn.functional.linear(x, self.W_key.weight).view")],
        "gradient", "nn.functional.linear(x, self.W_key.weight)", "W_key.bias gets no gradient: is it used?",
    ),
    # softmax by hand
    "summed over the queries": (
        check_causal_attention, SUMMED, [("powers.sum(-1, keepdim=True)", "powers.sum(1, keepdim=True)")],
        "softmax.axis", "A = powers / whole", "runs over the queries",
    ),
    "summed before": (
        check_causal_attention, SUMMED,
        [("        powers = powers * past\n        whole = powers.sum(-1, keepdim=True)\n", "        whole = powers.sum(-1, keepdim=True)\n        powers = powers * past\n")],
        "softmax.early-sum", "whole = powers.sum", "counts the future",
    ),
    # what may be seen
    "the wrong side of what may be seen": (
        check_weight_split, EINSUM, [("device=x.device).tril()", "device=x.device).triu()")],
        "mask.past", "triu()", "What is drawn here is what may be seen",
    ),
    "where's two numbers swapped": (
        check_weight_split, EINSUM, [('torch.where(keep, att, float("-inf"))', 'torch.where(keep, float("-inf"), att)')],
        "mask.swapped", "torch.where(keep, float", "where takes its first number where the condition is True",
    ),
    # the mode
    "eval in forward": (
        check_weight_split, SPLIT, [("        b, t, _ = x.shape\n", "        b, t, _ = x.shape\n        self.train(False)\n")],
        "mode.changed", "self.train(False)", "the mode belongs to the caller",
    ),
    "a new layer in each call": (
        check_weight_split, SPLIT, [("self.drop(scores.softmax(dim=-1))", "nn.Dropout(self.drop.p)(scores.softmax(dim=-1))")],
        "dropout.eval", "nn.Dropout(self.drop.p)", "make it once, in __init__",
    ),
    "torch's attention drops in eval": (
        check_weight_split, FUNCTION, [("self.dropout.p if self.training else 0.0", "self.dropout.p")],
        "dropout.eval", "", "dropout_p=p if self.training else 0.0",
    ),
    "sums after dropout": (
        check_weight_split, NANO, [("        y = att @ v\n", "        att = att / (att.sum(-1, keepdim=True) + 1e-9)\n        y = att @ v\n")],
        "dropout.sums", "att = att / (att.sum", "sum to 1 again after dropout",
    ),
    "in place": (
        check_weight_split, SPLIT, [("nn.Dropout(dropout)", "nn.Dropout(dropout, True)")],
        "gradient.in-place", "", "without inplace",
    ),
    # what one usual run does not show
    "no buffer": (
        check_causal_attention, ONE_HEAD, [('self.register_buffer("mask", mask)', "self.mask = mask")],
        "mask.no-buffer", "self.mask = mask", 'self.register_buffer("mask", ...)',
    ),
    "zeros are padding": (
        check_weight_split, SPLIT,
        [("        weights = self.drop", "        empty = (x == 0).all(-1)[:, None, None]\n        scores = scores.masked_fill(empty, -1e30)\n        weights = self.drop")],
        "x.zeros", "empty = (x == 0)", "padding",
    ),
    "copied heads": (
        check_stacked_heads, STACKED,
        [("for _ in range(num_heads)])", "for _ in range(num_heads)])\n        for head in self.heads[1:]:\n            head.load_state_dict(self.heads[0].state_dict())")],
        "init.copied-heads", "load_state_dict", "the heads are copies",
    ),
    "zeros at the beginning": (
        check_weight_split, SPLIT, [("        self.drop = ", "        self.W_key.weight.data.fill_(0)\n        self.drop = ")],
        "init.values", "self.W_key.weight.data.fill_(0)", "begin as 0",
    ),
    # a learner's own refusal
    "an assertion the other way round": (
        check_weight_split, NANO, [("assert d_out % num_heads == 0", "assert num_heads % d_out == 0")],
        "init.error", "assert num_heads", "num_heads % d_out is 3 % 21 = 3: you mean d_out % num_heads, which is 0",
    ),
    "refuses what is shorter": (
        check_causal_attention, ONE_HEAD, [("if num_tokens > len(self.mask)", "if num_tokens < len(self.mask)")],
        "error.ValueError", "raise ValueError", "num_tokens=5 and context_length=13, which is right",
    ),
    "an argument too many": (
        check_causal_attention, ONE_HEAD, [("def forward(self, x):", "def forward(self, x, padding):")],
        "error.TypeError", "def forward(self, x, padding):", "padding",
    ),
    "less comes out": (
        check_weight_split, SPLIT, [("        b, t, _ = x.shape\n", "        x = x[:, 1:]\n        b, t, _ = x.shape\n")],
        "result.tokens", "x = x[:, 1:]", "5 tokens come in here, and 4 go on",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_cause_is_told_of_this_class(name):
    check, text, pairs, code, line, words = CASES[name]
    verdict = check(write(several(text, *pairs)))
    assert not verdict
    assert verdict.code in code.split("|"), verdict.sentence
    assert line in (verdict.line.text if verdict.line else ""), verdict.sentence
    assert words in verdict.sentence


def test_no_sentence_has_an_empty_name():
    wrong = LINEAR.replace("self.W_value.bias)", "None)")
    assert "self.(x)" not in check_weight_split(write(wrong)).sentence


def test_a_mask_that_is_brought_along_may_be_an_attribute():
    own = several(
        ONE_HEAD,
        ('self.register_buffer("mask", mask)', "self.mask = mask"),
        ("self.mask.bool()[", "self.mask.to(x.device).bool()["),
    )
    assert check_causal_attention(write(own))


def test_numbers_that_grow_too_small_are_not_said_to_grow_too_large():
    small = check_causal_attention(write(SUMMED)).sentence
    assert "0 / 0 is NaN" in small
    assert "overflows" not in small
    large = SUMMED.replace("(S - S.amax(-1, True)).exp()", "S.exp()")
    assert "exp overflows" in check_causal_attention(write(large)).sentence


def test_a_fault_comes_without_the_note_on_a_mask_that_broadcasts():
    quiet = several(
        ONE_HEAD, ("if num_tokens > len(self.mask)", "if False"), ("weights = self.drop(", "(")
    )
    verdict = check_causal_attention(write(quiet))
    assert not verdict
    assert "mask.broadcasts" not in {note.code for note in verdict.notes}
