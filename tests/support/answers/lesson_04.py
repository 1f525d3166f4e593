"""Typical wrong repairs of the broken forwards of lesson 04, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

RIGHT = (
    "Broken{} is right: no token sees a later one, outputs and gradients are those of attnlib's "
    "MultiHeadAttention."
)
FIT = "Two axes meet here that do not fit: "
MERGED = "merged = context_vec.transpose(1, 2).flatten(2)"
KEY = "key.transpose(2, 3)"
WRONG = {
    1: {
        "a mask that fits": (
            {"causal_mask(x.shape[1])": "causal_mask(1)"},
            "Token 0 sees token 1: nothing is hidden. The future must be hidden.",
        ),
    },
    2: {
        "the width of a head": ({"x.shape[1]": "self.head_dim"}, "make it from x.shape[1]."),
    },
    3: {
        "the queries turned": ({f"query @ {KEY}": "query.transpose(2, 3) @ key"}, FIT),
        "the wrong axes": (
            {KEY: "key.transpose(1, 2)"},
            "A product takes the last two dimensions of each tensor, and two others change places",
        ),
    },
    4: {
        "no transpose": (
            {MERGED: "merged = context_vec.flatten(2)"},
            "The heads are put along dimension 1: torch.cat must join their columns.",
        ),
    },
    5: {
        "no transpose": (
            {MERGED: "merged = context_vec.view(*stream.shape[:2], -1)"},
            "The merge mixes tokens and heads",
        ),
    },
    6: {
        "heads and width swapped": (
            {"self.num_heads, self.head_dim)": "self.head_dim, self.num_heads)"},
            "The heads get other columns of the queries than their own",
        ),
        "tokens for d_in": (
            {"self.num_heads, self.head_dim)": "self.num_heads, inputs.shape[1])"},
            "view is asked for num_tokens = 5 where head_dim = 19 belongs.",
        ),
    },
    7: {
        "another transpose": (
            {MERGED: "merged = context_vec.transpose(2, 3).reshape(*stream.shape[:2], -1)"},
            "The merge mixes tokens and heads",
        ),
    },
    8: {
        "reversed": (
            {MERGED: "merged = context_vec.flip(1).transpose(1, 2).flatten(2)"},
            "The heads of the context vectors are in another order here",
        ),
    },
    9: {
        "transposed": (
            {
                "(*inputs.shape[:2], self.num_heads": "(self.num_heads, *inputs.shape[:2]",
                ".view(split).transpose(1, 2)": ".view(split).transpose(0, 1)",
            },
            "The split mixes tokens and heads of the queries, or texts: view goes through",
        ),
    },
}
ANSWERS = {f"Broken{i}": Answers(RIGHT.format(i), wrong) for i, wrong in WRONG.items()}
