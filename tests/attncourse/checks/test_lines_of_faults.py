"""A fault is told of the line that made the wrong value, also where it is used elsewhere."""

from __future__ import annotations

import pytest

from attncourse.checks import check_causal_attention, check_stacked_heads, check_weight_split
from support.many_styles import BY_HAND, NANO, ROW_BY_ROW
from support.many_styles import LOOP as LOOP_BY_HEADS
from support.wrong_classes import ONE_HEAD, SPLIT, STACKED, several, write

TRIANGLE = "        mask = torch.triu(torch.ones(context_length, context_length), diagonal=1)\n"
LOOP = """\
        mask = torch.zeros(context_length, context_length)
        for i in range(context_length):
            for j in range(i + 1, context_length):
                mask[i, j] = -torch.inf
"""
FILL = "scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)"
BY_LOOP = ONE_HEAD.replace(TRIANGLE, LOOP).replace(
    FILL, "scores = scores + self.mask[:num_tokens, :num_tokens].to(x.dtype)"
)
LOOP_OVER_HEADS = STACKED.replace(
    "        return torch.cat([head(x) for head in self.heads], dim=-1)\n",
    "        parts = []\n"
    "        for head in self.heads:\n"
    "            made = head(x)\n"
    "            parts.append(made)\n"
    "        return torch.cat(parts, dim=-1)\n",
)
WRITTEN = STACKED.replace(
    "        return torch.cat([head(x) for head in self.heads], dim=-1)\n",
    "        result = x.new_zeros(*x.shape[:2], 7 * len(self.heads))\n"
    "        for h in range(len(self.heads)):\n"
    "            result[:, :, 7 * h : 7 * h + 7] = self.heads[h](x)\n"
    "        return result\n",
)


def test_the_classes_are_right_before_they_are_changed():
    assert check_causal_attention(write(BY_LOOP))
    assert check_stacked_heads(write(LOOP_OVER_HEADS))
    assert check_stacked_heads(write(WRITTEN))


@pytest.mark.parametrize(
    ("pairs", "code", "line"),
    [
        ((("range(i + 1,", "range(i,"),), "mask.diagonal", "for j in range(i, context_length):"),
        ((("mask[i, j]", "mask[j, i]"),), "mask.past", "mask[j, i] = -torch.inf"),
        ((("= -torch.inf", "= -9.0"),), "mask.fill", "mask[i, j] = -9.0"),
        (
            (("[:num_tokens, :num_tokens].to", "[num_tokens - 1, :num_tokens].to"),),
            "mask.empty",
            "scores = scores + self.mask[num_tokens - 1, :num_tokens].to(x.dtype)",
        ),
    ],
)
def test_a_mask_that_a_loop_fills(pairs, code, line):
    verdict = check_causal_attention(write(several(BY_LOOP, *pairs)))
    assert (verdict.code, verdict.line.text) == (code, line)


def test_a_scale_from_the_constructor_is_quoted_there():
    wrong = several(
        ONE_HEAD,
        (TRIANGLE, TRIANGLE + "        self.scale = d_in**-0.5\n"),
        ("scores / keys.shape[-1] ** 0.5", "scores * self.scale"),
    )
    verdict = check_causal_attention(write(wrong))
    assert (verdict.code, verdict.line.text) == ("scale.d-in", "self.scale = d_in**-0.5")


def test_a_scaling_that_nothing_reads_is_quoted():
    wrong = several(ONE_HEAD, ("scores = scores / keys", "scaled = scores / keys"))
    verdict = check_causal_attention(write(wrong))
    assert (verdict.code, verdict.line.text) == (
        "scale.none",
        "scaled = scores / keys.shape[-1] ** 0.5",
    )


def test_a_helper_that_gets_its_arguments_in_another_order():
    wrong = several(
        ONE_HEAD,
        ("scores = queries @ keys.transpose(1, 2)", "scores = self.scores(keys, queries)"),
    )
    helper = "    def scores(self, queries, keys):\n        return queries @ keys.transpose(1, 2)\n"
    verdict = check_causal_attention(write(wrong + "\n" + helper))
    assert verdict.code == "scores.transposed"
    assert verdict.line.text == "scores = self.scores(keys, queries)"


def test_a_mask_of_zero_times_infinity_is_nan():
    wrong = several(
        ONE_HEAD,
        (FILL, "scores = scores + self.mask[:num_tokens, :num_tokens] * -torch.inf"),
    )
    verdict = check_causal_attention(write(wrong))
    assert verdict.code == "mask.nan"
    assert "0 * inf is NaN" in verdict.sentence


def test_a_root_of_negative_scores_is_told():
    wrong = several(
        ONE_HEAD, ("scores / keys.shape[-1] ** 0.5", "(scores / keys.shape[-1]) ** 0.5")
    )
    verdict = check_causal_attention(write(wrong))
    assert verdict.code == "scores.root"


def test_values_of_one_head_that_are_changed_are_not_called_a_split():
    wrong = several(
        ONE_HEAD, ("self.W_query(x), self.W_value(x)", "self.W_query(x), self.W_value(x).relu()")
    )
    verdict = check_causal_attention(write(wrong))
    assert verdict.code == "values.changed"
    assert "heads" not in verdict.sentence


@pytest.mark.parametrize(
    ("pairs", "code", "line"),
    [
        (
            (("        return torch.cat(parts", "            return torch.cat(parts"),),
            "loop.return",
            "return torch.cat(parts, dim=-1)",
        ),
        (
            (
                ("        parts = []\n", ""),
                ("            made =", "            parts = []\n            made ="),
            ),
            "loop.list",
            "parts = []",
        ),
        (
            (("made = head(x)", "x = head(x)"), ("append(made)", "append(x)")),
            "heads.chained",
            "x = head(x)",
        ),
        (
            (
                ("sizes = d_in,", "self.parts = []\n        sizes = d_in,"),
                ("        parts = []\n        for", "        parts = self.parts\n        for"),
            ),
            "state.list",
            "parts = self.parts",
        ),
    ],
)
def test_what_a_loop_over_the_heads_shows(pairs, code, line):
    verdict = check_stacked_heads(write(several(LOOP_OVER_HEADS, *pairs)))
    assert (verdict.code, verdict.line.text) == (code, line)


def test_columns_that_are_never_written_are_named():
    wrong = several(WRITTEN, ("result[:, :, 7 * h : 7 * h + 7]", "result[:, :, :7]"))
    verdict = check_stacked_heads(write(wrong))
    assert verdict.code == "result.unwritten"
    assert "Columns 7 to 20 of the result are never written" in verdict.sentence


def test_one_head_that_is_repeated_is_told():
    wrong = several(STACKED, ("[head(x) for head", "[self.heads[0](x) for head"))
    assert "Columns 7 to 13 are head 0 again" in check_stacked_heads(write(wrong)).sentence


def test_a_coincidence_of_sizes_is_said():
    wrong = several(SPLIT, ("self.width**-0.5", "self.n**-0.5"))
    assert "the root of 3: num_heads, or d_in // num_heads" in (
        check_weight_split(write(wrong)).sentence
    )


def test_one_tensor_twice_in_pytorchs_attention_is_told():
    start, end = (
        ONE_HEAD.index("        scores = queries"),
        ONE_HEAD.index("        return context"),
    )
    text = (
        ONE_HEAD[:start]
        + "        context = nn.functional.scaled_dot_product_attention(\n"
        + "            queries, keys, keys, is_causal=True\n        )\n"
        + ONE_HEAD[end:]
    )
    verdict = check_causal_attention(write(text))
    assert verdict.code == "parts.twice"
    assert "here come queries, keys and keys" in verdict.sentence


def test_a_width_that_is_right_is_not_blamed_for_a_second_scaling():
    wrong = several(
        ONE_HEAD,
        (TRIANGLE, TRIANGLE + "        self.d_k = d_out\n"),
        ("scores / keys.shape[-1] ** 0.5", "scores / self.d_k"),
    )
    verdict = check_causal_attention(write(wrong))
    assert (verdict.code, verdict.line.text) == ("scale.no-root", "scores = scores / self.d_k")


# The line behind an error


@pytest.mark.parametrize(
    ("check", "text", "pairs", "code", "line"),
    [
        pytest.param(
            check_causal_attention,
            BY_HAND,
            [("e.sum(dim=-1, keepdim=True)", "e.sum(dim=-1)")],
            "keepdim",
            "return e / e.sum(dim=-1)",
            id="a sum without keepdim",
        ),
        pytest.param(
            check_causal_attention,
            BY_HAND,
            [("        return e / e.sum", "        e / e.sum")],
            "helper.none",
            "e / e.sum(dim=-1, keepdim=True)",
            id="a helper without return",
        ),
        pytest.param(
            check_causal_attention,
            ONE_HEAD,
            [("self.drop = nn.Dropout(dropout)", "self.drop = dropout")],
            "layer.none",
            "self.drop = dropout",
            id="a number that is called",
        ),
        pytest.param(
            check_stacked_heads,
            STACKED,
            [("CausalAttention(*sizes)", "CausalAttention(d_in, d_out, dropout, context_length)")],
            "arguments.context_length",
            "CausalAttention(d_in, d_out, dropout, context_length)",
            id="arguments that changed places",
        ),
        pytest.param(
            check_stacked_heads,
            STACKED,
            [("CausalAttention(*sizes)", "CausalAttention(d_in, d_out, context_length, 0.0)")],
            "arguments.dropout",
            "CausalAttention(d_in, d_out, context_length, 0.0)",
            id="a number for an argument",
        ),
        pytest.param(
            check_stacked_heads,
            STACKED,
            [("CausalAttention(*sizes)", "CausalAttention(d_in, d_out, context_length, dropout)")],
            "arguments.qkv_bias",
            "CausalAttention(d_in, d_out, context_length, dropout)",
            id="an argument that is not passed on",
        ),
        pytest.param(
            check_weight_split,
            NANO,
            [("split(self.n_embd, dim=2)", "unflatten(2, (self.n_head, 3, -1)).unbind(3)")]
            + [
                (f"{name} = {name}.view(B, T, self.n_head, self.n_embd // self.n_head).tr", new)
                for name, new in (("k", "k = k.tr"), ("q", "q = q.tr"), ("v", "v = v.tr"))
            ],
            "split.parts",
            "q, k, v =",
            id="three parts in another order",
        ),
        pytest.param(
            check_causal_attention,
            ROW_BY_ROW,
            [("slice(0, t + 1)", "slice(0, t + 2)")],
            "mask.rows",
            "",
            id="a row that sees one token too many",
        ),
        pytest.param(
            check_weight_split,
            LOOP_BY_HEADS,
            [("kh = k[:, :, cols]", "kh = k[:, :, : self.size]")],
            "scores.apart",
            "kh = k[:, :, : self.size]",
            id="keys of another head",
        ),
        pytest.param(
            check_weight_split,
            SPLIT,
            [
                (
                    "keys = self.W_key(x).view(b, t, self.n, self.width).transpose(1, 2)",
                    "keys = self.W_key(x).view(b, t, self.n, self.width)",
                ),
                (
                    "queries = self.W_query(x).view(b, t, self.n, self.width).transpose(1, 2)",
                    "queries = self.W_query(x).view(b, t, self.n, self.width)",
                ),
            ],
            "split.no-transpose",
            "self.width)",
            id="tokens before heads",
        ),
    ],
)
def test_the_line_behind_a_fault_is_quoted(check, text, pairs, code, line):
    verdict = check(write(several(text, *pairs)))
    assert verdict.code == code, verdict.sentence
    assert verdict.line is not None
    assert line in verdict.line.text


def test_a_mask_that_is_one_row_for_all_is_not_called_a_missing_bias():
    wrong = several(
        SPLIT, ("dtype=x.dtype).triu(1)", "dtype=x.dtype).triu(1)[:1]")
    )  # row 0 hides all but token 0
    verdict = check_weight_split(write(wrong))
    assert verdict.code.startswith("mask."), verdict.sentence


def test_a_mask_kept_for_the_first_length_is_told():
    wrong = several(
        ONE_HEAD,
        (
            "self.mask.bool()[:num_tokens, :num_tokens]",
            "self.cut",
        ),
        (
            "        scores = queries @",
            "        if not hasattr(self, 'cut'):\n"
            "            self.cut = self.mask.bool()[:num_tokens, :num_tokens]\n"
            "        scores = queries @",
        ),
    )
    verdict = check_causal_attention(write(wrong))
    assert verdict.code == "state.kept", verdict.sentence
    assert verdict.line is not None
    assert "self.cut" in verdict.line.text


def test_a_bias_that_is_never_used_does_not_hide_another_fault():
    wrong = several(ONE_HEAD, ("scores = scores / keys.shape[-1] ** 0.5", "pass"))
    wrong = wrong.replace("bias=qkv_bias", "bias=False")
    codes = [fault.code for fault in check_causal_attention(write(wrong)).faults]
    assert codes == ["scale.none", "parameters.bias-never"]


def test_the_while_that_never_ends_is_quoted():
    wrong = several(
        ONE_HEAD,
        (
            "        scores = queries @",
            "        while num_tokens:\n            pass\n        scores = queries @",
        ),
    )
    verdict = check_causal_attention(write(wrong), seconds=1.0)
    assert verdict.code == "time"
    assert verdict.line is not None
    assert verdict.line.text == "while num_tokens:"
