"""Typical wrong answers to the exercises of lesson 05, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

ANSWERS = {
    "MyAttention": Answers(
        "Right: one text or two, with attn_mask or is_causal, and dropout in training only.",
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
            "all from x": ({"(memory)": "(x)"}, "memory is not looked at: keys and values come"),
            "always causal": (
                {"**mask)\n        return": "is_causal=True)\n        return"},
                "The future is hidden, and nobody asked for it: only **mask",
            ),
            "no mask": (
                {"p, **mask)": "p)"},
                "attn_mask does not arrive: pass **mask on to SDPA.",
            ),
            "divided twice": (
                {"sdpa(queries,": "sdpa(queries / self.head_dim**0.5,"},
                "Divided twice: SDPA divides by the root of head_dim itself.",
            ),
            "no out_proj": (
                {"self.out_proj(attnlib": "(attnlib"},
                "out_proj is missing.",
            ),
            "merge by reshape": (
                {"attnlib.merge_heads(context_vec)": "context_vec.reshape(*x.shape[:2], -1)"},
                "The heads are merged without the transpose: use",
            ),
            "no merge": ({"attnlib.merge_heads(context_vec)": "context_vec"}, "line 8: return"),
            "one wide head": (
                {"self.head_dim": "self.d_out"},
                "There is one wide head: split queries",
            ),
            "drops in eval": (
                {"self.dropout.p if self.training else 0.0": "self.dropout.p"},
                "It drops in eval mode too: SDPA does not know the mode.",
            ),
            "never drops": (
                {"self.dropout.p if self.training else 0.0": "0.0"},
                "In training no weight is dropped: SDPA needs dropout_p=self.dropout.p",
            ),
            "drops a constant share": (
                {"self.dropout.p if self.training": "0.5 if self.training"},
                "Made with dropout 0.2, it drops another share: which one is in self.dropout.p.",
            ),
            "drops of the output": (
                {
                    "dropout_p=p, ": "",
                    "attnlib.merge_heads(context_vec)": (
                        "self.dropout(attnlib.merge_heads(context_vec))"
                    ),
                },
                "Single numbers are dropped, not attention weights: leave the dropout to SDPA",
            ),
            "returns two": (
                {"return self": "return context_vec, self"},
                "forward returns a tuple: SDPA has no weights to return.",
            ),
        },
    ),
    "padded_mask": Answers(
        "Right: no row is empty, and the words of 5 texts come out as if each were alone.",
        {
            "padding forgotten": (
                {" & ~is_padding[:, None]": " & torch.ones(len(is_padding), 1, 1).bool()"},
                "In text 1 the words see [3, 4, 5, 6, 7, 8] keys, not [1, 2, 3, 4, 5, 6].",
            ),
            "one mask": (
                {" & ~is_padding[:, None]": "", "[:, None]": "[None, None]"},
                "It is torch.bool, (1, 1, 8, 8); it must be",
            ),
            "no axis added": (
                {"~is_padding[:, None]": "~is_padding"},
                "Stopped in padded_mask, line 3: ",
            ),
            "empty rows": (
                {"    may_attend = may_attend | torch.eye(num_tokens, dtype=torch.bool)\n": ""},
                "In text 1 query 0 may look at nothing: an average over nothing.",
            ),
            "padding hidden as a query": (
                {"~is_padding[:, None]": "~is_padding[:, :, None]"},
                "The padding's queries are hidden. Its keys must be",
            ),
            "True hides": (
                {"return may_attend": "return ~may_attend"},
                "Your True hides. In SDPA's",
            ),
            "no axis of heads": (
                {"return may_attend[:, None]": "return may_attend"},
                "Where SDPA has its heads, it would find your 3 texts: put a 1 there",
            ),
            "numbers": ({"attend[:, None]": "attend[:, None].float()"}, "It is torch.float32,"),
        },
    ),
    "for_module": Answers(
        "Right: three shapes of mask, for 3 texts and 2 heads, 2 and 3, 2 and 2.",
        {
            "not turned": ({"~": ""}, "Your True shows. In the module's mask True means: hide."),
            "heads outside": (
                {".flatten": ".transpose(0, 1).flatten"},
                "The heads take turns with the texts the wrong way round: the module wants all",
            ),
            "not flattened": ({".flatten(0, 1)": ""}, "It is torch.bool, (3, 2, 5, 5); it must"),
            "the first text for all": (
                {"may_attend.expand(shape)": "may_attend.expand(shape)[:1].expand(shape)"},
                "Wrong for a mask of shape (3, 1, 1, 5): not every text has its own.",
            ),
        },
    ),
}
