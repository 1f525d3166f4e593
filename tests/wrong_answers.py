"""Typical wrong answers to every exercise, and the sentence that each of them must be told.

A wrong answer is the notebook's own solution with some of its text replaced. A new exercise needs
an entry here, with at least one wrong answer.
"""

from __future__ import annotations

from exercise_tools import Answers, Wrong

EQUAL = "Equal within 1e-05: the largest difference is at most 1e-06."

WINDOW_MASK = Answers(
    right="Right, for windows of 3 and of 1.",
    wrong={
        "one key too many": Wrong(
            {">= window": "> window"},
            "With window=3 the tokens see [1, 2, 3, 4, 4, 4] keys; the last must see 3.",
        ),
        "True for visible": Wrong(
            {"< 0) | (distance >=": ">= 0) & (distance <"},
            "Some token does not see itself. Does your True mean visible?",
        ),
        "no word on the future": Wrong(
            {"(distance < 0) | ": ""},
            "Some token sees the future, where the distance i - j is negative.",
        ),
        "queries and keys swapped": Wrong(
            {"[:, None]": "[None]", "[None, :]": "[:, None]"},
            "Some token sees the future, where the distance i - j is negative.",
        ),
        "numbers": Wrong(
            {"return (": "return ((", "window)\n": "window)).float()\n"},
            "It is torch.float32, (6, 6); it must be bool, tokens by tokens.",
        ),
        "one row": Wrong(
            {"[:, None]": "", "[None, :]": ""},
            "It is torch.bool, (6,); it must be bool, tokens by tokens.",
        ),
        "no return": Wrong(
            {"return": "mask ="}, "window_mask returns None: is the return missing?"
        ),
    },
)
CONTEXT_WITHOUT_MASK = Answers(
    right="Right, for all six tokens.",
    wrong={
        "slice ends early": Wrong(
            {"[: i + 1]": "[:i]"}, "Your sees nothing: which keys are in keys[:0]?"
        ),
        "no slice": Wrong({"[: i + 1]": ""}, "Every token sees six keys. Cut them after token i."),
        "no scale": Wrong(
            {" / d_out**0.5": ""}, "The scores are not divided by the root of the head's width."
        ),
        "scaled by the width": Wrong(
            {"d_out**0.5": "d_out"}, "The scores are divided by the head's width, not by its root."
        ),
        "scaled by d_in": Wrong(
            {"d_out**0.5": "d_in**0.5"},
            "None of the usual mistakes. Not equal: the largest difference is 0.0012",
        ),
        "no softmax": Wrong(
            {"torch.softmax(scores, dim=-1)": "scores"},
            "The values are mixed by scores: softmax is missing.",
        ),
        "no dim": Wrong(
            {", dim=-1": ""},
            "line 3: return torch.softmax(scores) @ values[: i + 1] | TypeError: softmax() missing",
        ),
        "all values": Wrong(
            {"values[: i + 1]": "values"},
            "line 3: return torch.softmax(scores, dim=-1) @ values | RuntimeError: ",
        ),
        "factors swapped": Wrong(
            {"keys[: i + 1] @ queries[i]": "queries[i] @ keys[: i + 1]"},
            "line 2: scores = queries[i] @ keys[: i + 1] / d_out**0.5 | RuntimeError: ",
        ),
    },
)
JOIN_HEADS = Answers(
    right="Right: two columns for each head, in order.",
    wrong={
        "along the tokens": Wrong(
            {"dim=-1": "dim=1"},
            "The shape is (2, 18, 2), not (2, 6, 6): only the columns should grow.",
        ),
        "along the batch": Wrong(
            {", dim=-1": ""}, "The shape is (6, 6, 2), not (2, 6, 6): only the columns should grow."
        ),
        "a new dimension": Wrong(
            {"cat": "stack"},
            "The shape is (2, 6, 2, 3), not (2, 6, 6): only the columns should grow.",
        ),
        "alternating columns": Wrong(
            {"cat": "stack", "dim=-1)": "dim=-1).flatten(2)"},
            "The pairs of columns are a mixture, a mixture, a mixture, not head 1, head 2, head 3.",
        ),
        "added": Wrong(
            {"torch.cat([": "sum([", ", dim=-1)": ")"},
            "The shape is (2, 6, 2), not (2, 6, 6): only the columns should grow.",
        ),
        "reversed": Wrong(
            {"in heads": "in reversed(heads)"},
            "The pairs of columns are head 3, head 2, head 1, not head 1, head 2, head 3.",
        ),
        "not joined": Wrong(
            {"torch.cat(": "", ", dim=-1)": ""},
            "The check cannot use what join_heads returns, a list: ",
        ),
        "the list called": Wrong(
            {"torch.cat([head(x) for head in heads], dim=-1)": "heads(x)"},
            "Stopped in join_heads, line 2: return heads(x) | NotImplementedError:",
        ),
    },
)
MAKE_HEAD_3 = Answers(
    right="Right, this is head 3.",
    wrong={
        "nothing drawn": Wrong(
            {"    torch.rand(36)\n": ""}, "This is head 1: nothing was drawn for heads 1 and 2."
        ),
        "one head drawn": Wrong(
            {"36": "18"}, "This is head 2: the numbers of one head only were drawn before it."
        ),
        "one matrix per head": Wrong(
            {"36": "12"},
            "This is no head of the three: count again what one head draws, after the seed.",
        ),
        "no seed": Wrong(
            {"    torch.manual_seed(SEED)\n": ""},
            "This is no head of the three: count again what one head draws, after the seed.",
        ),
        "width of three heads": Wrong(
            {"d_out=2": "d_out=6"},
            "The shape is (2, 6, 6), not (2, 6, 2): make one head of width 2.",
        ),
    },
)
MY_MERGE_HEADS = Answers(
    right="Right.",
    wrong={
        "along the tokens": Wrong(
            {"dim=-1": "dim=1"}, "The shape is (2, 15, 7), not (2, 5, 21): which dimension grows?"
        ),
        "two heads only": Wrong(
            {"heads.shape[1]": "2"},
            "The shape is (2, 5, 14), not (2, 5, 21): which dimension grows?",
        ),
        "texts for heads": Wrong(
            {"[:, h]": "[h]"},
            "IndexError: index 2 is out of bounds for dimension 0 with size 2",
        ),
        "a tensor for a list": Wrong(
            {"[heads[:, h] for h in range(heads.shape[1])]": "heads"},
            "Stopped in my_merge_heads, line 2: return torch.cat(heads, dim=-1) | TypeError:",
        ),
        "reversed": Wrong(
            {"range(heads.shape[1])": "(2, 1, 0)"}, "The heads stand in reverse order."
        ),
        "alternating columns": Wrong(
            {"cat": "stack", "dim=-1)": "dim=-1).flatten(2)"},
            "The columns of the heads alternate; those of one head must stay together.",
        ),
        "not swapped back": Wrong(
            {
                "return torch.cat([heads[:, h] for h in range(heads.shape[1])], dim=-1)": (
                    "return heads.flatten(1, 2).unflatten(1, (5, 3)).flatten(2)"
                )
            },
            "Row 1 holds several tokens of head 1: heads and tokens were not swapped back.",
        ),
    },
)
SWAP_HEADS = Answers(
    right=EQUAL,
    wrong={
        "no copy": Wrong(
            {"deepcopy(module)": "module"},
            "You changed the module itself: start from deepcopy(module).",
        ),
        "rows of out_proj": Wrong(
            {"dims=1": "dims=0"}, "out_proj.weight: its columns have not changed places by head."
        ),
        "queries only": Wrong(
            {", swapped.W_key, swapped.W_value": ","},
            "W_key.weight: its rows have not changed places by head.",
        ),
        "columns": Wrong(
            {"dims=0": "dims=1"}, "W_query.weight: its rows have not changed places by head."
        ),
        "row by row": Wrong(
            {"roll(2, dims=0)": "flip(0)"},
            "W_query.weight: its rows have not changed places by head.",
        ),
        "with gradients": Wrong(
            {"with torch.no_grad():": "if True:"},
            "Stopped in swap_heads, line 5: projection.weight.copy_(",
        ),
        "no return": Wrong(
            {"    return swapped\n": ""}, "swap_heads returns None: is the return missing?"
        ),
    },
)
MY_X = Answers(
    right="Right, it runs. Scores (1, 2, 2, 2) are heads by heads.",
    wrong={
        "more tokens than heads": Wrong(
            {"1, 2, 6": "1, 4, 6"}, "Shapes there: attn_scores (1, 4, 2, 2), is_future (4, 4)"
        ),
        "no batch": Wrong({"1, 2, 6": "2, 6"}, "Shapes there: x (2, 6)"),
    },
)
MY_WEIGHTS = Answers(
    right="Right, for 1, 2, 3 and 6 heads.",
    wrong={
        "no scale": Wrong(
            {" / head_dim**0.5": ""}, "2 heads: you divided by the root of 1.00, not of 3."
        ),
        "scaled by d_out": Wrong(
            {"head_dim**0.5": "6**0.5"}, "2 heads: you divided by the root of 6.00, not of 3."
        ),
        "always two heads": Wrong(
            {"6 // num_heads": "3"},
            "Stopped in my_weights, line 3: queries = (X @ W_query).view(",
        ),
        "view alone": Wrong(
            {"(1, 3, num_heads, head_dim).transpose(1, 2)": "(1, num_heads, 3, head_dim)"},
            "2 heads: wrong scores. Cut by view, transpose? Product with keys transposed?",
        ),
        "keys not transposed": Wrong(
            {".transpose(2, 3)": ""},
            "2 heads: wrong scores. Cut by view, transpose? Product with keys transposed?",
        ),
        "no mask": Wrong(
            {"    attn_scores.masked_fill_(causal_mask(3), -torch.inf)\n": ""},
            "2 heads: A weight above the diagonal is 0.93",
        ),
        "mask upside down": Wrong(
            {"causal_mask(3)": "causal_mask(3).T"}, "2 heads: A weight above the diagonal is 0.93"
        ),
        "softmax down": Wrong({"dim=-1": "dim=-2"}, "2 heads: A row's sum is off from 1 by 0.91"),
        "mask for one head": Wrong(
            {".transpose(1, 2)": ""},
            "Shapes there: attn_scores (1, 3, 2, 2).",
        ),
    },
)
PACK = Answers(
    right="Right, three matrices in PyTorch's order.",
    wrong={
        "side by side": Wrong(
            {"weight])": "weight], dim=1)"},
            "The shape is (6, 18), not (18, 6): are the three under each other?",
        ),
        "another order": Wrong(
            {"W_key.weight, module.W_value": "W_value.weight, module.W_key"},
            "From top to bottom: W_query, W_value, W_key, not W_query, W_key, W_value.",
        ),
        "transposed": Wrong(
            {".weight": ".weight.T"},
            "From top to bottom: W_query transposed, W_key transposed, W_value transposed, not",
        ),
        "stacked": Wrong(
            {"cat": "stack"}, "The shape is (3, 6, 6), not (18, 6): are the three under each other?"
        ),
        "layers": Wrong(
            {".weight": ""},
            "TypeError: expected Tensor as element 0 in argument 0, but got Linear",
        ),
    },
)
PADDED_MASK = Answers(
    right=f"Real tokens, after padding and alone: {EQUAL}",
    wrong={
        "padding forgotten": Wrong(
            {" | is_padding": ""},
            "Keys seen: [1, 2, 3, 4, 5, 6, 7, 8], not [1, 1, 1, 2, 3, 4, 5, 6]. Is padding",
        ),
        "empty rows": Wrong(
            {"hidden & ~torch.eye(num_tokens, dtype=torch.bool)": "hidden"},
            "Query 1 sees no key: its row becomes NaN.",
        ),
        "padding hidden as a query": Wrong(
            {"| is_padding": "| is_padding[:, None]"},
            "Keys seen: [1, 1, 3, 4, 5, 6, 7, 8], not [1, 1, 1, 2, 3, 4, 5, 6]. Is padding",
        ),
        "True for visible": Wrong(
            {"return ": "return ~(", "bool)": "bool))"},
            "Some query sees the future, or your True means visible.",
        ),
        "eye of numbers": Wrong(
            {", dtype=torch.bool": ""},
            "Stopped in padded_mask, line 4: return hidden & ~torch.eye(num_tokens) | TypeError:",
        ),
        "numbers": Wrong(
            {"return ": "return -1e9 * (", "bool)": "bool))"},
            "It is torch.float32, (8, 8); it must be torch.bool, (8, 8).",
        ),
    },
)

ANSWERS: dict[str, dict[str, Answers]] = {
    "01_causal_attention": {
        "window_mask": WINDOW_MASK,
        "context_without_mask": CONTEXT_WITHOUT_MASK,
    },
    "02_stacked_heads": {"join_heads": JOIN_HEADS, "make_head_3": MAKE_HEAD_3},
    "03_weight_split": {"my_merge_heads": MY_MERGE_HEADS, "swap_heads": SWAP_HEADS},
    "04_shapes_and_numbers": {"my_x": MY_X, "my_weights": MY_WEIGHTS},
    "05_pytorch_attention": {"pack": PACK, "padded_mask": PADDED_MASK},
}
