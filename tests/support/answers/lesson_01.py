"""Typical wrong answers to the exercises of lesson 01, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

HIDE = ".masked_fill(is_future(scores.shape[-1]), -torch.inf)"
ANSWERS = {
    "causal_weights": Answers(
        "Right: all 270 heads, 6,750 attention weights, are those that the model used.",
        {
            "not divided": ({" / 64**0.5": ""}, "The scores are not divided by 8, the root of the"),
            "divided by the width": ({"64**0.5": "64"}, "The scores are divided by 64, the width,"),
            "divided by the root of the root": (
                {"64**0.5": "8**0.5"},
                "The scores are divided by √8. The heads are 64 wide:",
            ),
            "no softmax": ({"torch.softmax(hidden, dim=-1)": "hidden"}, "An infinite score is"),
            "neither mask nor softmax": (
                {"torch.softmax(hidden, dim=-1)": "scaled"},
                "These are still scores: softmax, along each row, comes last.",
            ),
            "nothing hidden": (
                {HIDE: ""},
                "No score is hidden: the largest weight on the future is 0.82, not 0.",
            ),
            "the past hidden": ({"shape[-1])": "shape[-1]).T"}, "The mask hides the past: is True"),
            "itself hidden": (
                {"(scores.shape[-1])": "(5) | torch.eye(5, dtype=torch.bool)"},
                "Row 0 is NaN: every score in it is hidden. Does each token still see itself?",
            ),
            "filled with 0": ({"-torch.inf": "0.0"}, "A weight on the future is 0.25: which score"),
            "filled with -100": ({"-torch.inf": "-100.0"}, "Right for these scores, but not for"),
            "softmax by hand": (
                {
                    "softmax(hidden, dim=-1": (
                        "exp(hidden) / torch.exp(hidden).sum(-1, keepdim=True"
                    )
                },
                "Note: Where all scores of a row are",
            ),
            "filled with infinity": ({"-torch.inf": "torch.inf"}, "Every row with a future is"),
            "over the layers": ({"dim=-1": "dim=0"}, "Softmax runs over the layers: it must run"),
            "divided by the root of the tokens": (
                {"64**0.5": "5**0.5"},
                "The scores are divided by 2.236. They must be divided by 8, the root of 64.",
            ),
            "no root": ({"64**0.5": "64**1/2"}, "The scores are divided by 128. In 64**1/2 the **"),
            "the sign turned": (
                {"scores / 64**0.5": "-scores / 8"},
                "The scores are divided by -8.",
            ),
            "multiplied": ({"/ 64**0.5": "* 8"}, "The scores are multiplied by 8. They must be"),
            "multiplied by 0": ({"/ 64**0.5": "* 0"}, "Each token looks at all that it sees"),
            "divided after softmax": (
                {" / 64**0.5": "", "dim=-1)": "dim=-1) / 8"},
                "Each row must sum to 1, not 0.125: is it divided after softmax?",
            ),
            "neither divided nor hidden": (
                {" / 64**0.5": "", HIDE: ""},
                "No score is hidden: the largest weight on the future is 1.00, not 0.",
            ),
            "the mask not kept": (
                {"scaled.mask": "scaled\n    scaled.mask"},
                "masked_fill returns a new tensor: is it called, and its result kept?",
            ),
            "indexed by the mask": (
                {
                    f" = scaled{HIDE}": "[is_future(5)] = -torch.inf",
                    "scaled =": "hidden =",
                },
                "The mask is as wide as the last two",
            ),
            "a bare inf": ({"torch.inf": "inf"}, "write -torch.inf."),
            "True for visible": ({"(is_future": "(~is_future"}, "The past is hidden, and the"),
            "down the columns": ({"dim=-1": "dim=-2"}, "Softmax runs down the columns: each row"),
            "hidden after softmax": (
                {
                    HIDE: "",
                    ", dim=-1)": ", dim=-1).masked_fill(is_future(5), 0)",
                },
                "The future is hidden after",
            ),
            "hidden after softmax, not divided": (
                {
                    " / 64**0.5": "",
                    HIDE: "",
                    ", dim=-1)": ", dim=-1).masked_fill(is_future(5), 0)",
                },
                "The future is hidden after softmax, so the rows no longer sum to 1.",
            ),
            "rounded": ({"dim=-1)": "dim=-1).half()"}, "Nothing leaks, but an attention weight is"),
            "one head": ({"dim=-1)": "dim=-1)[23, 4]"}, "The shape is (5, 5), not (30, 9, 5, 5)."),
            "filled with -1e4": (
                {"-torch.inf": "-1e4"},
                "Right for these scores, but not for every",
            ),
            "filled with -1e9": ({"-torch.inf": "-1e9"}, "Note: A score could be lower than the"),
            "hidden after softmax, and divided again": (
                {
                    HIDE: "",
                    "return torch.softmax(hidden, dim=-1)": (
                        "seen = torch.softmax(hidden, dim=-1).tril()\n"
                        "    return seen / seen.sum(dim=-1, keepdim=True)"
                    ),
                },
                "Note: Where a hidden score is far above those that are seen, the row is 0 / 0",
            ),
            "shares of the scores": (
                {"torch.softmax(hidden, dim=-1)": ("hidden / hidden.sum(dim=-1, keepdim=True)")},
                "Minus infinity divided by itself is NaN: e to the power of",
            ),
        },
    ),
    "CausalAttention": Answers(
        "CausalAttention is right: no token sees a later one, outputs and gradients are those "
        "of attnlib's CausalAttention, and in training dropout falls on single attention "
        "weights.",
        {
            "no mask": (
                {".masked_fill(is_future, -torch.inf)": ""},
                "line 7: weights = self.dropout(torch.softmax(hidden, dim=-1))",
            ),
            "filled with 0": ({"-torch.inf": "0.0"}, "The scores that the mask hides are set to"),
            "filled with -1e4": (
                {"-torch.inf": "-1e4"},
                "line 6: hidden = scores.masked_fill(is_future, -1e4)",
            ),
            "scores dropped": (
                {"torch.softmax(hidden, dim=-1)": "hidden).softmax(-1"},
                "line 7: weights = self.dropout(hidden).softmax(-1)",
            ),
            "hidden after softmax": (
                {
                    ".masked_fill(is_future, -torch.inf)": "",
                    ", dim=-1)": ", dim=-1).masked_fill(is_future, 0)",
                },
                "The future is hidden only after softmax",
            ),
            "as if there were heads": (
                {"transpose(-2, -1": "transpose(2, 3"},
                "line 3: scores = queries @ keys.transpose(2,",
            ),
            "turned by t()": (
                {"keys.transpose(-2, -1)": "keys.t()"},
                "line 3: scores = queries @ keys.t() /",
            ),
            "softmax without a dimension": (
                {"hidden, dim=-1": "hidden"},
                "line 7: weights = self.dropout(torch.softmax(hidden))",
            ),
            "no return": ({"return weights": "weights"}, "end with return."),
        },
    ),
    "look_back": Answers(
        "Right: of 6 tokens, of 5 and of 60, each looks one back with more than 0.99.",
        {
            "not shifted": ({".roll(1, dims=0)": ""}, "Each token looks at itself: its query is"),
            "shifted the other way": ({"roll(1": "roll(-1"}, "Each token asks for the one after"),
            "too quiet": ({"n * ": ""}, "Right way, but softly: of 6 tokens one gives only 0.23"),
            "the same number for all": (
                {"10 * num_tokens**0.5": "20"},
                "Right way, but softly: of 60 tokens one gives only 0.18 of its attention to the",
            ),
            "two back": ({"roll(1": "roll(2"}, "Of 6 tokens, token 2 looks most at token 0, not"),
            "infinity": ({"10 * num_tokens**0.5": "torch.inf"}, "0 times infinity is NaN: the"),
            "always six": ({"eye(num_tokens)": "eye(6)"}, "The shape is (6, 6), not (5, 5)."),
        },
    ),
}
