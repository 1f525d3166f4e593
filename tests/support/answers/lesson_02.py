"""Typical wrong answers to the exercises of lesson 02, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

ANSWERS = {
    "MultiHeadAttentionWrapper": Answers(
        "MultiHeadAttentionWrapper is right: no token sees a later one, outputs and gradients "
        "are those of attnlib's MultiHeadAttentionWrapper, and in training dropout falls on "
        "single attention weights.",
        {
            "along the batch": ({", dim=-1": ""}, "line 2: return torch.cat([head(x) for head in"),
            "not joined": ({"torch.cat(": "", ", dim=-1)": ""}, "forward(x) returns a list of 3,"),
            "the list called": (
                {"torch.cat([head(x) for head in self.heads], dim=-1": "self.heads(x"},
                "line 2: return self.heads(x)",
            ),
            "the list of heads joined": (
                {"[head(x) for head in self.heads]": "self.heads"},
                "line 2: return torch.cat(self.heads,",
            ),
            "a generator": (
                {"[head(x) for head in self.heads], dim=-1": ("head(x) for head in self.heads")},
                "line 2: return torch.cat(head(x) for head in",
            ),
            "the first head only": (
                {"in self.heads": "in self.heads[:1]"},
                "line 2: return torch.cat([head(x) for head",
            ),
            "no return": ({"return torch": "torch"}, "line 2: torch.cat([head(x) for head in"),
            "the stub's line left": (
                {"        return": "        raise NotImplementedError\n        return"},
                "line 2: raise NotImplementedError | Your lines stop at `raise",
            ),
            "two heads of three": (
                {"in self.heads": "in self.heads[:2]"},
                "line 2: return torch.cat([head(x) for head",
            ),
        },
    ),
    "without_head": Answers(
        "Right: the columns of the silent head are 0, and no other number moved.",
        {
            "no copy": ({"deepcopy(stacked)": "stacked"}, "The stack itself has changed: silence"),
            "queries of 0": ({"W_value": "W_query"}, "Head 1 still writes up to 0.61. An even"),
            "counted from 1": ({"heads[h]": "heads[h - 1]"}, "Head 1 must be silent, and the"),
            "taken out": (
                {"nn.init.zeros_(silent.heads[h].W_value.weight)": "del silent.heads[h]"},
                "The shape is (2, 6, 4), not (2, 6, 6): a silent head keeps its columns, as",
            ),
            "the layer": ({"W_value.weight": "W_value"}, "AttributeError: 'Linear' object has no"),
            "only a copy": (
                {"    nn.init.zeros_(silent.heads[h].W_value.weight)\n": ""},
                "Head 1 must be silent, and its columns are as they were.",
            ),
        },
    ),
}
