"""Typical wrong answers to the exercises of lesson 05, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

ANSWERS = {
    "both_masks": Answers(
        "Right: the module's True hides, SDPA's True shows.",
        {
            "one mask for both": ({"~is_future": "is_future"}, "With SDPA's mask each token sees"),
            "the wrong way round": (
                {"is_future, ~": "~is_future, "},
                "With the module's mask each token sees its future and nothing else: there True",
            ),
            "the diagonal hidden": (
                {"triu(diagonal=1)": "triu()"},
                "With the module's mask no token sees itself",
            ),
            "one token ahead": ({"diagonal=1": "diagonal=2"}, "With the module's mask token 0"),
            "the lower triangle": (
                {"triu(diagonal=1)": "tril(diagonal=-1)"},
                "With the module's mask tokens look ahead: rows are queries, columns are keys.",
            ),
            "ones and zeros": (
                {".bool()": "", "~is_future": "1 - is_future"},
                "With the module's mask nothing is hidden. Numbers are added to the scores:",
            ),
            "whole numbers": ({".bool()": ".int()"}, "The dtype of the module's mask is"),
            "one mask": ({", ~is_future": ""}, "It must return two masks"),
            "a row": ({", ~is_future": "[0], ~is_future"}, "The shape of the module's mask is"),
            "a finite number for both": (
                {".bool()": " * -1e9", "~is_future": "is_future"},
                "and means one thing. Note: A score could be lower than the number that hides.",
            ),
        },
    ),
    "cross_attention": Answers(
        "Right: for 4 tokens that look at 4, for 3 that look at 5, and for 5 that look at 3.",
        {
            "queries from memory": (
                {"(x)": "(other)", "(memory)": "(x)", "(other)": "(memory)"},
                "Queries come from memory: it is x that",
            ),
            "values from x": ({"W_value(memory)": "W_value(x)"}, "Values come from x: what is"),
            "keys from x": ({"W_key(memory)": "W_key(x)"}, "Keys come from x: it is memory that"),
            "two matrices swapped": (
                {"W_key": "W_other", "W_value": "W_key", "W_other": "W_value"},
                "Keys and values have each other's matrix: W_key makes",
            ),
            "all from x": ({"(memory)": "(x)"}, "Both keys and values come from the text"),
            "a causal mask": (
                {", values)": ", values, causal_mask(x.shape[1]))"},
                "The future is hidden, but memory is there as a whole: take the mask away.",
            ),
            "no out_proj": (
                {"module.out_proj(merge_heads(context_vec)": "merge_heads(context_vec"},
                "out_proj is missing.",
            ),
            "merge by view": (
                {"merge_heads(context_vec": "context_vec.reshape(*x.shape[:2], -1"},
                "The heads are merged without the transpose: use",
            ),
            "no merge": (
                {"merge_heads(context_vec)": "context_vec"},
                "Stopped in cross_attention, line 6: ",
            ),
            "the module itself": (
                {".out_proj(merge_heads(context_vec)": "(x"},
                "This is the causal self-attention of x: memory is not looked at.",
            ),
            "both results": (
                {"context_vec, _ =": "context_vec ="},
                "Stopped in cross_attention, line 6: ",
            ),
        },
    ),
    "padded_mask": Answers(
        "Right: no NaN, and the words of 5 texts come out as if each text were alone.",
        {
            "padding forgotten": (
                {"is_padding[:, None]": "torch.zeros(len(is_padding), 1, 1).bool()"},
                "In text 1 the queries see [1, 2, 3, 4, 5, 6, 7, 8] keys, not [1, 1, 1, 2, 3,",
            ),
            "one mask": ({" | is_padding[:, None]": ""}, "It is torch.bool, (8, 8); it must be"),
            "no dimension added": (
                {"is_padding[:, None]": "is_padding"},
                "Stopped in padded_mask, line 3: ",
            ),
            "empty rows": (
                {" & ~torch.eye(num_tokens, dtype=torch.bool)": ""},
                "In text 1 query 0 sees no key: its row becomes NaN.",
            ),
            "padding hidden as a query": ({"[:, None]": "[:, :, None]"}, "The padding's queries"),
            "the padding of the first text": (
                {"[:, None]": "[:1, None].expand(len(is_padding), 1, -1)"},
                "In text 1 the queries see [1, 2, 3, 4, 5, 6, 7, 8] keys, not [1, 1, 1, 2,",
            ),
            "True for visible": (
                {"return ": "return ~(", "bool)": "bool))"},
                "Your True shows. In the module's mask True means: hide.",
            ),
            "a mask for each head": (
                {"return hidden": "return hidden.repeat_interleave(2, dim=0)"},
                "It is torch.bool, (6, 8, 8); it must be torch.bool, (3,",
            ),
            "eye of numbers": ({", dtype=torch.bool": ""}, "Stopped in padded_mask, line 4:"),
            "numbers": ({"return ": "return -1e9 * (", "bool)": "bool))"}, "It is torch.float32,"),
        },
    ),
}
