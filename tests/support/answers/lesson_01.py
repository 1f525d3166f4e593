"""Typical wrong answers to the exercises of lesson 01, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

ANSWERS = {
    "causal_weights": Answers(
        "Right: all 144 heads, 5,184 attention weights, are those that GPT-2 used.",
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
                {".masked_fill(is_future, -torch.inf)": ""},
                "No score is hidden: the largest weight on the future is 0.96, not 0.",
            ),
            "the past hidden": ({"is_future": "is_future.T"}, "The mask hides the past: is True"),
            "itself hidden": (
                {"is_future": "is_future | torch.eye(6, dtype=torch.bool)"},
                "Row 0 is NaN: every score in it is hidden. Does each token still see itself?",
            ),
            "filled with 0": ({"-torch.inf": "0.0"}, "A weight on the future is 0.99: which score"),
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
                {"64**0.5": "6**0.5"},
                "The scores are divided by 2.449. They must be divided by 8, the root of 64.",
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
                {" / 64**0.5": "", ".masked_fill(is_future, -torch.inf)": ""},
                "No score is hidden: the largest weight on the future is 1.00, not 0.",
            ),
            "the mask not kept": (
                {"scaled.mask": "scaled\n    scaled.mask"},
                "masked_fill returns a new tensor: is its result kept?",
            ),
            "indexed by the mask": (
                {
                    " = scaled.masked_fill(is_future, -torch.inf)": "[is_future] = -torch.inf",
                    "scaled =": "hidden =",
                },
                "The mask is as wide as the last two",
            ),
            "a bare inf": ({"torch.inf": "inf"}, "write -torch.inf."),
            "a capital inf": ({"torch.inf": "torch.Inf"}, "write -torch.inf."),
            "True for visible": ({"(is_future": "(~is_future"}, "The past is hidden, and the"),
            "down the columns": ({"dim=-1": "dim=-2"}, "Softmax runs down the columns: each row"),
            "the stub's line left": (
                {"    return": "    raise NotImplementedError\n    return"},
                "Your lines stop at `raise NotImplementedError`: delete that",
            ),
            "hidden after softmax": (
                {
                    ".masked_fill(is_future, -torch.inf)": "",
                    ", dim=-1)": ", dim=-1).masked_fill(is_future, 0)",
                },
                "The future is hidden after",
            ),
            "hidden after softmax, not divided": (
                {
                    " / 64**0.5": "",
                    ".masked_fill(is_future, -torch.inf)": "",
                    ", dim=-1)": ", dim=-1).masked_fill(is_future, 0)",
                },
                "The future is hidden after softmax, so the rows no longer sum to 1.",
            ),
            "rounded": ({"dim=-1)": "dim=-1).half()"}, "Nothing leaks, but an attention weight is"),
            "one head": ({"dim=-1)": "dim=-1)[4, 11]"}, "The shape is (6, 6), not (12, 12, 6, 6)."),
            "no return": ({"return torch": "torch"}, "causal_weights returns None: is the return"),
            "filled with -1e4": (
                {"-torch.inf": "-1e4"},
                "Right for these scores, but not for every",
            ),
            "filled with -1e9": ({"-torch.inf": "-1e9"}, "Note: A score could be lower than the"),
            "hidden after softmax, and divided again": (
                {
                    ".masked_fill(is_future, -torch.inf)": "",
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
            "the past hidden": ({"] > place": "] < place"}, "line 5: is_future = place[None, :] <"),
            "itself hidden": ({"] > place": "] >= place"}, "line 5: is_future = place[None, :] >="),
            "filled with 0": ({"-torch.inf": "0.0"}, "The scores that the mask hides are set to"),
            "filled with -1e4": (
                {"-torch.inf": "-1e4"},
                "line 6: hidden = scores.masked_fill(is_future, -1e4)",
            ),
            "not divided": ({" / keys.shape[-1] ** 0.5": ""}, "line 3: scores = queries @"),
            "divided by the width": ({" ** 0.5": ""}, "line 3: scores = queries @"),
            "divided by the tokens": (
                {"keys.shape[-1]": "keys.shape[1]"},
                "line 3: scores = queries @",
            ),
            "down the columns": (
                {"dim=-1": "dim=-2"},
                "line 7: weights = self.dropout(torch.softmax(hidden, dim=-2))",
            ),
            "over the batch": ({"dim=-1": "dim=0"}, "Softmax runs over the texts of the batch"),
            "no dropout": (
                {"self.dropout(torch.softmax(hidden, dim=-1)": ("torch.softmax(hidden, dim=-1")},
                "In training nothing is dropped",
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
            "keys for values": ({"self.W_value(x)": "self.W_key(x)"}, "Here values holds the"),
            "a mask for six tokens": (
                {"x.shape[1], device": "6, device"},
                "The mask is for 6 tokens, and x has 5: make it from x.shape[1].",
            ),
            "all dimensions turned": (
                {"keys.transpose(-2, -1)": "keys.T"},
                "line 3: scores = queries @ keys.T /",
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
            "a mask one too late": (
                {"[:, None]": "[:, None] + 1"},
                "line 5: is_future = place[None, :] >",
            ),
            "itself hidden by a triangle": (
                {
                    "place[None, :] > place[:, None]": (
                        "torch.ones(len(place), len(place)).triu() >= 1"
                    )
                },
                "line 5: is_future = torch.ones(len(place),",
            ),
            "no return": ({"return weights": "weights"}, "end with return."),
        },
    ),
    "look_back": Answers(
        "Right: of 6 tokens, of 5 and of 60, each looks one back with more than 0.99.",
        {
            "not shifted": ({".roll(-1, dims=0)": ""}, "Each token looks at itself: its query is"),
            "shifted the other way": ({"roll(-1": "roll(1"}, "Each token asks for the one after"),
            "columns for rows": ({"dims=0": "dims=1"}, "Each token asks for the one after it,"),
            "too quiet": ({"n * ": ""}, "Right way, but softly: of 6 tokens one gives only 0.23"),
            "the same number for all": (
                {"10 * num_tokens**0.5": "20"},
                "Right way, but softly: of 60 tokens one gives only 0.18 of its attention to the",
            ),
            "two back": ({"roll(-1": "roll(-2"}, "Of 6 tokens, token 2 looks most at token 0, not"),
            "infinity": ({"10 * num_tokens**0.5": "torch.inf"}, "0 times infinity is NaN: the"),
            "infinity alone": (
                {"n * torch.eye(num_tokens": "torch.eye(num_tokens).log().neg().reciprocal("},
                "0 times infinity is NaN: the number",
            ),
            "always six": ({"eye(num_tokens)": "eye(6)"}, "The shape is (6, 6), not (5, 5)."),
            "no return": ({"return n": "n"}, "look_back returns None: is the return missing?"),
        },
    ),
    "context_without_mask": Answers(
        "Right, for seven tokens: the prefix needs no mask.",
        {
            "slice ends early": ({"[: i + 1]": "[:i]"}, "Token 0 gets nothing: which keys are in"),
            "no slice": ({"[: i + 1]": ""}, "Every token sees all keys. Cut them after token i."),
            "not divided": ({" / keys.shape[-1] ** 0.5": ""}, "The scores are not divided by the"),
            "divided by the width": ({" ** 0.5": ""}, "The scores are divided by the width, not"),
            "divided by the tokens": (
                {"keys.shape[-1]": "keys.shape[0]"},
                "The scores are divided by the root of the number of tokens, not of the width.",
            ),
            "divided by the root of another width": (
                {"keys.shape[-1]": "values.shape[-1]"},
                "The scores are divided by 1.732. They must be divided by the root of the width,",
            ),
            "divided by the root of the tokens it sees": (
                {"keys.shape[-1]": "(i + 1)"},
                "The scores are divided by the root of the number of keys, not of the width.",
            ),
            "divided after softmax": (
                {" / keys.shape[-1] ** 0.5": "", "dim=-1)": "dim=-1) / keys.shape[-1] ** 0.5"},
                "The attention weights are divided by the root of the",
            ),
            "the first query": ({"queries[i]": "queries[0]"}, "None of the usual mistakes: a"),
            "one key too many": ({"[: i + 1]": "[: i + 2]"}, "Every token sees one key too many:"),
            "a plain mean": (
                {
                    "torch.softmax(scores, dim=-1) @ values[: i + 1]": (
                        "values[: i + 1].mean(dim=0)"
                    )
                },
                "Every value that token i sees counts the",
            ),
            "neither softmax nor root": (
                {"torch.softmax(scores, dim=-1)": "scores", " / keys.shape[-1] ** 0.5": ""},
                "The values are mixed by undivided",
            ),
            "no softmax": (
                {"torch.softmax(scores, dim=-1)": "scores"},
                "The values are mixed by scores: softmax is missing.",
            ),
            "no dim": ({", dim=-1": ""}, "line 3: return torch.softmax(scores) @ values[: i + 1]"),
            "all values": (
                {"values[: i + 1]": "values"},
                "line 3: return torch.softmax(scores, dim=-1) @ values | The scores are those of",
            ),
            "all keys": (
                {"= keys[: i + 1]": "= keys"},
                "line 3: return torch.softmax(scores, dim=-1) @ values[: i + 1] | The values are",
            ),
            "factors swapped": (
                {"keys[: i + 1] @ queries[i": "queries[i] @ keys[: i + 1"},
                "line 2: scores = queries[i] @ keys[: i + 1] / keys.shape[-1] ** 0.5 |",
            ),
            "a row for a vector": (
                {"values[: i + 1]": "values[: i + 1, :1]"},
                "The shape is (1,), not (3,), the width of the values.",
            ),
            "a mask after all": (
                {
                    "[: i + 1]": "",
                    "torch.softmax(scores": ("torch.softmax(scores + (torch.arange(7) > i) * -1e9"),
                },
                "Right numbers, but later tokens are computed and",
            ),
        },
    ),
    "window_mask": Answers(
        "Right, for windows of 3 and of 1.",
        {
            "one key too many": ({">= window": "> window"}, "With window=3 token 3 must see keys"),
            "True for visible": (
                {"< 0) | (distance >=": ">= 0) & (distance <"},
                "Your True means visible. It must mean hidden.",
            ),
            "itself hidden": ({"distance < 0": "distance <= 0"}, "Every token must see itself,"),
            "no word on the future": ({"(distance < 0) | ": ""}, "The future must be hidden too,"),
            "queries and keys swapped": (
                {"[:, None]": "[None]", "[None, :]": "[:, None]"},
                "It is transposed: the distance is i - j, place[:, None] - place[None, :].",
            ),
            "numbers": (
                {"return (": "return ((", "window)\n": "window)).float()\n"},
                "It is torch.float32, (6, 6); it must be torch.bool, (6, 6).",
            ),
            "one row": ({"[:, None]": "", "[None, :]": ""}, "It is torch.bool, (6,); it must be"),
            "always six": ({"arange(num_tokens)": "arange(6)"}, "It is torch.bool, (6, 6); it"),
            "and": ({" | ": " & "}, "Nothing is hidden. Are the two joined with &?"),
            "the word or": ({" | ": " or "}, "(distance >= window) | `or`, `and`, `not`, `if` and"),
            "no parentheses": (
                {"(distance < 0) | (distance >= window)": ("distance < 0 | distance >= window")},
                "| `or`, `and`, `not`, `if` and a < b < c want one True or False",
            ),
            "no return": ({"return": "mask ="}, "window_mask returns None: is the return missing?"),
        },
    ),
    "depends": Answers(
        "Right: the triangle of a causal head, and the shifted line of a shift by one token.",
        {
            "signs cancel": ({".abs()": ""}, "(the last one comes first) does not depend on token"),
            "all widths kept": ({".sum(dim=(1, 3))": ""}, "The shape is (7, 3, 7, 5), not (7, 7)"),
            "above a threshold": ({"!= 0": "> 0.1"}, "does not depend on token 0. A derivative"),
            "above a small threshold": ({"!= 0": "> 1e-4"}, "It says that output 0 of a head that"),
            "numbers": ({" != 0": ""}, "It is torch.float32, not bool: compare with 0."),
            "wrong way round": ({"!= 0": "== 0"}, "True and False are the wrong way round: True"),
            "transposed": (
                {"!= 0": "!= 0).mT", "return ": "return ("},
                "It is transposed: outputs go down, inputs across.",
            ),
            "the triangle itself": (
                {"jacobian.abs().sum(dim=(1, 3)": "torch.ones(7, 7).tril("},
                "It says that output 0 of a shift by one token",
            ),
            "no return": ({"return jacobian": "jacobian"}, "depends returns None: is the return"),
            "negative ones missed": (
                {"jacobian.abs().sum(dim=(1, 3)) != 0": "jacobian.amax(dim=(1, 3)) > 0"},
                "output 0 of -x does not depend on token 0. A derivative may be negative: what",
            ),
        },
    ),
}
