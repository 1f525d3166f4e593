"""Typical wrong answers to the exercises of lesson 02, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

ANSWERS = {
    "MyWrapper": Answers(
        "MyWrapper is right: no token sees a later one, outputs and gradients are those of "
        "attnlib's MultiHeadAttentionWrapper, and in training dropout falls on single "
        "attention weights.",
        {
            "along the tokens": ({"dim=-1": "dim=1"}, "line 2: return torch.cat([head(x) for head"),
            "along the batch": ({", dim=-1": ""}, "line 2: return torch.cat([head(x) for head in"),
            "a new dimension": ({"cat": "stack"}, "line 2: return torch.stack([head(x) for head"),
            "alternating columns": (
                {"cat": "stack", "dim=-1)": "dim=-1).flatten(2)"},
                "The columns of the heads alternate:",
            ),
            "added": (
                {"torch.cat([": "sum([", ", dim=-1)": ")"},
                "line 2: return sum([head(x) for head in",
            ),
            "reversed": (
                {"in self.heads": "in reversed(self.heads)"},
                "line 2: return torch.cat([head(x) for head",
            ),
            "not joined": ({"torch.cat(": "", ", dim=-1)": ""}, "forward(x) returns a list of 3,"),
            "one through the other": (
                {
                    "torch.cat([head(x) for head in self.heads], dim=-1": (
                        "nn.Sequential(*self.heads)(x"
                    )
                },
                "line 2: return nn.Sequential(*self.heads)(x)",
            ),
            "a plain list": ({"nn.ModuleList()": "[]"}, "make it an nn.ModuleList."),
            "the list called": (
                {"torch.cat([head(x) for head in self.heads], dim=-1": "self.heads(x"},
                "line 2: return self.heads(x)",
            ),
            "the heads joined": (
                {"head(x) for": "head for"},
                "line 2: return torch.cat([head for head in",
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
            "a name, no return": (
                {"return torch": "context_vec = torch"},
                "Forward makes context_vec and returns None:",
            ),
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
    "look_at_first": Answers(
        "Right: all six tokens look at token 0 and get its vector.",
        {
            "a column": (
                {"weight[0]": "weight[:, 0]"},
                "Token 5 looks at all tokens evenly: its query is 0, or all keys are equal. Did",
            ),
            "nothing cleared": (
                {"    head.W_query.weight.zero_()\n": ""},
                "Token 5 gives token 0 0.50 of its weight and token 5 0.50: it must all go to",
            ),
            "all entries": (
                {"weight[0] =": "weight[:] ="},
                "Token 5 looks at all tokens evenly: its query, column 5 of W_query.weight, asks",
            ),
            "aimed again": (
                {"back=0": "back=5", "head.W_query.weight.zero_()": "return head"},
                "asks for token 5, which the mask hides.",
            ),
            "the layer": ({"W_query.weight[0]": "W_query[0]"}, "TypeError: 'Linear' object does"),
            "assigned": (
                {"weight[0] = 20": "weight = 20 * torch.eye(6)"},
                (
                    "A plain tensor is not a layer or a parameter: fill one in place, "
                    "weight.copy_(...)."
                ),
            ),
            "assigned to the layer": (
                {"weight[0] = 20": "weight\n    head.W_query = 20 * torch.eye(6)"},
                (
                    "A plain tensor is not a layer or a parameter: fill one in place, "
                    "weight.copy_(...)."
                ),
            ),
            "with gradients": (
                {"head.W_query.weight.": "with torch.enable_grad(): head.W_query.weight."},
                "A parameter that records for gradients must be changed under",
            ),
            "the stub's line left": (
                {"    return": "    raise NotImplementedError\n    return"},
                "Your lines stop at `raise NotImplementedError`: delete that",
            ),
            "a small number": ({"= 20": "= 1"}, "Token 5 gives token 0 only 0.23 of its weight."),
            "the next row": (
                {"weight[0]": "weight[1]"},
                "Token 5 gives token 0 0.00 of its weight and token 1 1.00",
            ),
            "the sign": (
                {"= 20": "= -20"},
                "Token 5 gives token 0 0.00 of its weight and token 1 0.20",
            ),
            "values of 0": (
                {"return head": "nn.init.zeros_(head.W_value.weight)\n    return head"},
                "All look at token 0, but what they get is not its vector: what does",
            ),
            "no return": ({"    return head\n": ""}, "look_at_first returns None: is the return"),
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
            "with gradients": (
                {"nn.init.zeros_(": "", "weight)": "weight.zero_()"},
                "A parameter that records for gradients must be changed under torch.no_grad().",
            ),
            "the layer": ({"W_value.weight": "W_value"}, "AttributeError: 'Linear' object has no"),
            "the head": ({".W_value.weight": ""}, "AttributeError: 'CausalAttention' object has"),
            "the stub's line left": (
                {"    nn": "    raise NotImplementedError\n    nn"},
                "Your lines stop at `raise NotImplementedError`: delete that line.",
            ),
            "only a copy": (
                {"    nn.init.zeros_(silent.heads[h].W_value.weight)\n": ""},
                "Head 1 must be silent, and its columns are as they were.",
            ),
            "no return": ({"    return silent\n": ""}, "without_head returns None: is the return"),
        },
    ),
}
