"""Typical wrong answers to the exercises of lesson 03, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

ANSWERS = {
    "MultiHeadAttention": Answers(
        "MultiHeadAttention is right: no token sees a later one, outputs and gradients are "
        "those of attnlib's MultiHeadAttention, and in training dropout falls on single "
        "attention weights.",
        {
            "no transpose in the cut": (
                {"return made.transpose(1, 2)": "return made"},
                "The queries come from here with the tokens",
            ),
            "no contiguous": ({"contiguous().": ""}, "put .contiguous() before .view()"),
            "no mask": (
                {"attn_scores = attn_scores.masked_fill(is_future, -torch.inf)": "pass"},
                "line 10: attn_weights = torch.softmax(attn_scores, dim=-1)",
            ),
            "merged to the width of x": (
                {"num_tokens, -1)": "num_tokens, x.shape[-1])"},
                "line 13: context_vec = context_vec.contiguous().view(b, num_tokens, x.shape[-1])",
            ),
            "split to one head": (
                {"num_tokens, -1, ": "num_tokens, "},
                "Is head_dim d_out // num_heads,",
            ),
            "values without heads": ({"split(self.W_value(x)": "W_value(x"}, "The values are not"),
            "no return": ({"return self": "context_vec = self"}, "end with return."),
        },
    ),
    "copy_weights": Answers(
        "Right: three heads of width 5, and one split of width 15.",
        {
            "side by side": (
                {"torch.cat(rows)": "torch.cat(rows, dim=1)"},
                "The matrix is (5, 21), and the parameter that it is copied into is (15, 7).",
            ),
            "not in place": (
                {"getattr(split, name).weight.copy_(torch.cat(rows)": ("weight = torch.cat(rows")},
                "W_query.weight is as it was: nothing",
            ),
            "queries only": ({' "W_key", "W_value"': ""}, "W_key.weight is as it was: nothing"),
            "queries everywhere": ({"getattr(head, name)": "head.W_query"}, "W_key.weight holds,"),
            "heads reversed": (
                {"stacked.heads": "reversed(stacked.heads)"},
                "W_query.weight holds, from top to bottom: head 2, head 1, head 0.",
            ),
            "rows in turn": (
                {"cat(rows)": "stack(rows, dim=1).flatten(0, 1)"},
                "W_query.weight holds, from top to bottom: a mixture, a mixture, a mixture.",
            ),
            "out_proj forgotten": (
                {"nn.init.eye_(split.out_proj.weight)": "pass"},
                "out_proj.weight must be the identity: it still mixes the heads'",
            ),
            "all ones": ({"init.eye_": "init.ones_"}, "out_proj.weight must be the"),
            "bias forgotten": (
                {"nn.init.zeros_(split.out_proj.bias)": "pass"},
                "out_proj.bias must be 0:",
            ),
            "the identity of one width": (
                {
                    "nn.init.eye_(split.out_proj.weight)": (
                        "split.out_proj.weight.copy_(torch.eye(4))"
                    )
                },
                "The matrix is (4, 4), and the parameter that it is copied into is (15, 15). Here",
            ),
            "stacked": ({"torch.cat": "torch.stack"}, "The matrix is (3, 5, 7), and the parameter"),
            "turned": (
                {"torch.cat(rows)": "torch.cat(rows).T"},
                "is (15, 7). nn.Linear stores its matrix transposed, so no .T is needed.",
            ),
            "two heads": ({"torch.cat(rows)": "torch.cat(rows[:2])"}, "The matrix is (10, 7)"),
            "two heads unpacked": (
                {"with torch": "a, b = stacked.heads\n    with torch"},
                "(expected 2). Here are 3 heads of width 5, for tokens of width 7.",
            ),
            "rows by number": (
                {".copy_(torch.cat(rows))": "[:2] = rows[0]"},
                "Tensor sizes: [5, 7]. Here are 3 heads of width 5",
            ),
            "another layer": (
                {
                    "        nn.init.zeros_(split.out_proj.bias)\n": "",
                    "nn.init.eye_(split.out_proj.weight": "split.out_proj = nn.Identity(",
                },
                "split.out_proj is another layer now. Keep the nn.Linear",
            ),
            "with gradients": ({"with torch.no_grad():": "if True:"}, "A parameter that records"),
            "assigned": ({".copy_(torch.cat(rows)": " = torch.cat(rows"}, "A plain tensor is not"),
            "the other way": (
                {
                    "getattr(split, name).weight.copy_(torch.cat(rows))": (
                        "[a.copy_(b) for a, b in zip(rows, getattr(split, name).weight.chunk(3))]"
                    )
                },
                "The stacked heads have changed: copy from them, into split.",
            ),
            "out_proj of zeros": (
                {"init.eye_": "init.zeros_"},
                "out_proj.weight is 0",
            ),
        },
    ),
    "swap_heads": Answers(
        "Right: the heads have changed places, the output has not.",
        {
            "no copy": ({"deepcopy(module)": "module"}, "You changed or returned the module"),
            "rows of out_proj": ({"dims=1": "dims=0"}, "out_proj.weight: you moved its rows,"),
            "the module changed": (
                {"(swapped.W_query, swapped.W_key, swapped.W_value)": "[module.W_query]"},
                "You changed the module itself, and returned a copy of it:",
            ),
            "not stored": (
                {"copy_(projection.weight.roll(width, dims=0)": "roll(width, dims=0"},
                "W_query.weight is as it was: its rows have to change places by head. roll",
            ),
            "a view kept": (
                {
                    "projection.weight.copy_(projection.weight.roll(width, dims=0))": (
                        "a, b = projection.weight.chunk(2)\n            a[:], b[:] = b, a"
                    )
                },
                "W_query.weight: both heads hold the rows of head 1 now.",
            ),
            "the bias too": (
                {"    return": "    swapped.out_proj.bias.data.mul_(2)\n    return"},
                "out_proj.bias has changed: it is added once, belongs to no head, and",
            ),
            "out_proj forgotten": (
                {"swapped.out_proj.weight.copy_(": "deepcopy("},
                "out_proj.weight is as it was: its columns have to change places by head.",
            ),
            "queries only": ({", swapped.W_key, swapped.W_value": ","}, "W_key.weight is as it"),
            "columns": ({"dims=0": "dims=1"}, "W_query.weight: you moved its columns. nn.Linear"),
            "by one row": (
                {"roll(width, dims=0)": "roll(1, dims=0)"},
                "W_query.weight: its rows moved by one, but a head is head_dim of them wide",
            ),
            "row by row": ({"roll(width, dims=0)": "flip(0)"}, "W_query.weight: its rows have not"),
            "with gradients": ({"with torch.no_grad():": "if True:"}, "Stopped in swap_heads,"),
        },
    ),
}
