"""Typical wrong answers to every exercise, and the sentence that each of them must be told.

A wrong answer is the notebook's own solution with some of its text replaced. A new exercise needs
an entry here, with at least one wrong answer.
"""

from __future__ import annotations

from support.exercise_tools import Answers, WrongAnswer

EQUAL = "Equal within 1e-05: the largest difference is at most 1e-06."

CAUSAL_WEIGHTS = Answers(
    right="Right: all 144 heads, 5,184 attention weights, are those that GPT-2 used.",
    wrong={
        "not divided": WrongAnswer(
            {" / 64**0.5": ""}, "The scores are not divided by 8, the root of the width."
        ),
        "divided by the width": WrongAnswer(
            {"64**0.5": "64"}, "The scores are divided by 64, the width, not by its root."
        ),
        "divided by the root of the root": WrongAnswer(
            {"64**0.5": "8**0.5"}, "The scores are divided by √8. The heads are 64 wide:"
        ),
        "no softmax": WrongAnswer(
            {"torch.softmax(hidden, dim=-1)": "hidden"},
            "An infinite score is still there: softmax, along each row, comes last.",
        ),
        "neither mask nor softmax": WrongAnswer(
            {"torch.softmax(hidden, dim=-1)": "scaled"},
            "These are still scores: softmax, along each row, comes last.",
        ),
        "nothing hidden": WrongAnswer(
            {"scaled.masked_fill(is_future, -torch.inf)": "scaled"},
            "No score is hidden: the largest weight on the future is 0.96, not 0.",
        ),
        "the past hidden": WrongAnswer(
            {"is_future": "is_future.T"},
            "The mask hides the past: is True on the wrong side of the diagonal?",
        ),
        "itself hidden": WrongAnswer(
            {"is_future": "is_future | torch.eye(6, dtype=torch.bool)"},
            "Row 0 is NaN: every score in it is hidden. Does each token still see itself?",
        ),
        "filled with 0": WrongAnswer(
            {"-torch.inf": "0.0"}, "A weight on the future is 0.99: which score gives exactly 0?"
        ),
        "filled with -100": WrongAnswer(
            {"-torch.inf": "-100.0"}, "Right for these scores, but not for every score: lower all"
        ),
        "softmax by hand": WrongAnswer(
            {
                "torch.softmax(hidden, dim=-1)": (
                    "torch.exp(hidden) / torch.exp(hidden).sum(-1, keepdim=True)"
                )
            },
            "by 1,000,000, and your attention weights are NaN. torch.softmax knows how to avoid",
        ),
        "filled with infinity": WrongAnswer(
            {"-torch.inf": "torch.inf"},
            "is not a number you can divide by. Hide with minus infinity.",
        ),
        "over the layers": WrongAnswer(
            {"dim=-1": "dim=0"}, "Softmax runs over the layers, dim=0: it must run along each row."
        ),
        "divided by the root of the tokens": WrongAnswer(
            {"64**0.5": "6**0.5"},
            "The scores are divided by 2.449. Divide them by 8, the root of 64.",
        ),
        "no root": WrongAnswer(
            {"64**0.5": "64**1/2"},
            "The scores are divided by 128. Divide them by 8, the root of 64. In 64**1/2 the ** ",
        ),
        "the sign turned": WrongAnswer(
            {"scores / 64**0.5": "-scores / 8"}, "The scores are divided by -8."
        ),
        "multiplied": WrongAnswer({"/ 64**0.5": "* 8"}, "The scores are multiplied by 8. Divide"),
        "multiplied by 0": WrongAnswer(
            {"/ 64**0.5": "* 0"}, "Each token looks at all that it sees evenly: the scores play no"
        ),
        "divided after softmax": WrongAnswer(
            {" / 64**0.5": "", "dim=-1)": "dim=-1) / 8"},
            "Each row sums to 0.125, not to 1: is it divided after softmax? Divide before it.",
        ),
        "neither divided nor hidden": WrongAnswer(
            {" / 64**0.5": "", "scaled.masked_fill(is_future, -torch.inf)": "scaled"},
            "No score is hidden: the largest weight on the future is 1.00, not 0.",
        ),
        "the mask not kept": WrongAnswer(
            {"hidden = scaled.mask": "hidden = scaled\n    scaled.mask"},
            "masked_fill returns a new tensor: is its result kept?",
        ),
        "indexed by the mask": WrongAnswer(
            {"hidden = scaled.masked_fill(is_future, -torch.inf)": "hidden[is_future] = -torch.inf"}
            | {"scaled =": "hidden ="},
            "line 3: hidden[is_future] = -torch.inf | The mask has two dimensions, which are the "
            "last two of the scores: index these with [..., is_future]",
        ),
        "a bare inf": WrongAnswer({"torch.inf": "inf"}, "write -torch.inf."),
        "a capital inf": WrongAnswer({"torch.inf": "torch.Inf"}, "write -torch.inf."),
        "True for visible": WrongAnswer(
            {"(is_future": "(~is_future"},
            "The past is hidden, and the future is not: True must mean future.",
        ),
        "down the columns": WrongAnswer(
            {"dim=-1": "dim=-2"}, "Softmax runs down the columns: it is each row that sums to 1."
        ),
        "the stub's line left": WrongAnswer(
            {"    return": "    raise NotImplementedError\n    return"},
            "Your lines stop at `raise NotImplementedError`: delete that line.",
        ),
        "hidden after softmax": WrongAnswer(
            {
                "scaled.masked_fill(is_future, -torch.inf)": "scaled",
                "torch.softmax(hidden, dim=-1)": (
                    "torch.softmax(hidden, dim=-1).masked_fill(is_future, 0)"
                ),
            },
            "The future is hidden after softmax, so the rows no longer sum to 1.",
        ),
        "hidden after softmax, not divided": WrongAnswer(
            {
                " / 64**0.5": "",
                "scaled.masked_fill(is_future, -torch.inf)": "scaled",
                "torch.softmax(hidden, dim=-1)": (
                    "torch.softmax(hidden, dim=-1).masked_fill(is_future, 0)"
                ),
            },
            "The future is hidden after softmax, so the rows no longer sum to 1.",
        ),
        "rounded": WrongAnswer(
            {"dim=-1)": "dim=-1).half()"}, "Nothing leaks, but an attention weight is off by 1e-03."
        ),
        "one head": WrongAnswer(
            {"dim=-1)": "dim=-1)[4, 11]"}, "The shape is (6, 6), not (12, 12, 6, 6)."
        ),
        "no return": WrongAnswer(
            {"return torch": "torch"}, "causal_weights returns None: is the return missing?"
        ),
    },
)
CAUSAL_ATTENTION = Answers(
    right=(
        "CausalAttention is right: no token sees a later one, outputs and gradients are those of "
        "attnlib's CausalAttention, and in training dropout falls on single attention weights."
    ),
    wrong={
        "no mask": WrongAnswer(
            {"scores.masked_fill(is_future, -torch.inf)": "scores"},
            "Token 0 sees token 1: nothing is hidden when softmax comes.",
        ),
        "the past hidden": WrongAnswer(
            {"place[None, :] > place": "place[None, :] < place"},
            "Token 0 sees token 1: the mask is on the wrong side of the diagonal.",
        ),
        "itself hidden": WrongAnswer(
            {"] > place": "] >= place"}, "The mask hides each token from itself too"
        ),
        "filled with 0": WrongAnswer(
            {"-torch.inf": "0.0"},
            "The scores that the mask hides are set to 0, and softmax still gives them weight",
        ),
        "filled with -1e4": WrongAnswer(
            {"-torch.inf": "-1e4"}, "The number that hides is not the lowest"
        ),
        "not divided": WrongAnswer({" / keys.shape[-1] ** 0.5": ""}, "The scores are not scaled"),
        "divided by the width": WrongAnswer(
            {" ** 0.5": ""}, "The scores are divided by d_out itself"
        ),
        "divided by the tokens": WrongAnswer(
            {"keys.shape[-1]": "keys.shape[1]"},
            "The scores are divided by the root of the number of tokens",
        ),
        "down the columns": WrongAnswer(
            {"dim=-1": "dim=-2"}, "Softmax runs over the queries, down the columns"
        ),
        "over the batch": WrongAnswer(
            {"dim=-1": "dim=0"}, "Softmax runs over the texts of the batch"
        ),
        "no dropout": WrongAnswer(
            {"self.dropout(torch.softmax(hidden, dim=-1))": "torch.softmax(hidden, dim=-1)"},
            "In training nothing is dropped",
        ),
        "scores dropped": WrongAnswer(
            {"self.dropout(torch.softmax(hidden, dim=-1))": "self.dropout(hidden).softmax(-1)"},
            "it must come right after softmax, on the attention weights, once.",
        ),
        "hidden after softmax": WrongAnswer(
            {
                "scores.masked_fill(is_future, -torch.inf)": "scores",
                "hidden, dim=-1)": "hidden, dim=-1).masked_fill(is_future, 0)",
            },
            "The future is hidden only after softmax",
        ),
        "keys for values": WrongAnswer(
            {"self.W_value(x)": "self.W_key(x)"}, "Here values holds the keys: it is made by W_key."
        ),
        "a mask for six tokens": WrongAnswer(
            {"x.shape[1], device": "6, device"},
            "The mask is for 6 tokens, and x has 5: make it from x.shape[1].",
        ),
        "all dimensions turned": WrongAnswer(
            {"keys.transpose(-2, -1)": "keys.T"},
            ".T is for matrices, and here are 3 dimensions",
        ),
        "as if there were heads": WrongAnswer(
            {"keys.transpose(-2, -1)": "keys.transpose(2, 3)"},
            "There is no such dimension.",
        ),
        "turned by t()": WrongAnswer(
            {"keys.transpose(-2, -1)": "keys.t()"},
            ".t() is for matrices, and here are 3 dimensions",
        ),
        "softmax without a dimension": WrongAnswer(
            {"hidden, dim=-1": "hidden"},
            "softmax must be told along which dimension",
        ),
        "a mask one too late": WrongAnswer(
            {"] > place[:, None]": "] > place[:, None] + 1"},
            "Token 0 sees token 1: the mask begins too late.",
        ),
        "itself hidden by a triangle": WrongAnswer(
            {"place[None, :] > place[:, None]": "torch.ones(len(place), len(place)).triu() >= 1"},
            "the diagonal must stay visible",
        ),
        "no return": WrongAnswer({"return weights": "weights"}, "end with return."),
    },
)
LOOK_BACK = Answers(
    right="Right: of 6 tokens, of 5 and of 60, each looks one back with more than 0.99.",
    wrong={
        "not shifted": WrongAnswer(
            {".roll(-1, dims=0)": ""},
            "Each token looks at itself: its query is its own key. Move the ones by a row.",
        ),
        "shifted the other way": WrongAnswer(
            {"roll(-1": "roll(1"},
            "Each token asks for the one after it, which is hidden. nn.Linear multiplies by the",
        ),
        "columns for rows": WrongAnswer(
            {"dims=0": "dims=1"},
            "Each token asks for the one after it, which is hidden. nn.Linear multiplies by the",
        ),
        "too quiet": WrongAnswer(
            {"n * ": ""},
            "Right way, but softly: of 6 tokens one gives only 0.23 of its attention to the one "
            "before. Larger numbers in",
        ),
        "the same number for all": WrongAnswer(
            {"10 * num_tokens**0.5": "20"},
            "of 60 tokens one gives only 0.18 of its attention to the one before. The scores are "
            "divided by √num_tokens: let your number grow with it.",
        ),
        "two back": WrongAnswer(
            {"roll(-1": "roll(-2"}, "Of 6 tokens, token 2 looks most at token 0, not 1."
        ),
        "infinity": WrongAnswer(
            {"10 * num_tokens**0.5": "torch.inf"},
            "Your matrix holds infinity or NaN, and 0 times infinity is NaN.",
        ),
        "infinity alone": WrongAnswer(
            {"n * torch.eye(num_tokens)": "torch.eye(num_tokens).log().neg().reciprocal()"},
            "Your matrix holds infinity or NaN, and 0 times infinity is NaN.",
        ),
        "always six": WrongAnswer(
            {"eye(num_tokens)": "eye(6)"}, "The shape is (6, 6), not (5, 5)."
        ),
        "no return": WrongAnswer(
            {"return n": "n"}, "look_back returns None: is the return missing?"
        ),
    },
)
CONTEXT_WITHOUT_MASK = Answers(
    right="Right, for seven tokens: the prefix needs no mask.",
    wrong={
        "slice ends early": WrongAnswer(
            {"[: i + 1]": "[:i]"}, "Token 0 gets nothing: which keys are in keys[:0]?"
        ),
        "no slice": WrongAnswer(
            {"[: i + 1]": ""}, "Every token sees all keys. Cut them after token i."
        ),
        "not divided": WrongAnswer(
            {" / keys.shape[-1] ** 0.5": ""},
            "The scores are not divided by the root of the width.",
        ),
        "divided by the width": WrongAnswer(
            {" ** 0.5": ""}, "The scores are divided by the width, not by its root."
        ),
        "divided by the tokens": WrongAnswer(
            {"keys.shape[-1]": "keys.shape[0]"},
            "The scores are divided by the root of the number of tokens, not of the width.",
        ),
        "divided by the root of another width": WrongAnswer(
            {"keys.shape[-1]": "values.shape[-1]"},
            "The scores are divided by 1.732. Here the width is 5: divide them by its root, keys.",
        ),
        "divided by the root of the tokens it sees": WrongAnswer(
            {"keys.shape[-1]": "(i + 1)"},
            "The scores are divided by the root of the number of keys, not of the width.",
        ),
        "divided after softmax": WrongAnswer(
            {" / keys.shape[-1] ** 0.5": "", "dim=-1)": "dim=-1) / keys.shape[-1] ** 0.5"},
            "The attention weights are divided by the root of the width: divide the scores.",
        ),
        "the first query": WrongAnswer(
            {"queries[i]": "queries[0]"}, "None of the usual mistakes: a number is off by"
        ),
        "one key too many": WrongAnswer(
            {"[: i + 1]": "[: i + 2]"},
            "Every token sees one key too many: keys[: i + 1] ends with token i.",
        ),
        "a plain mean": WrongAnswer(
            {"torch.softmax(scores, dim=-1) @ values[: i + 1]": "values[: i + 1].mean(dim=0)"},
            "Every value that token i sees counts the same: this is a plain mean, without scores.",
        ),
        "neither softmax nor root": WrongAnswer(
            {"torch.softmax(scores, dim=-1)": "scores", " / keys.shape[-1] ** 0.5": ""},
            "The values are mixed by scores, not divided either: softmax is missing.",
        ),
        "no softmax": WrongAnswer(
            {"torch.softmax(scores, dim=-1)": "scores"},
            "The values are mixed by scores: softmax is missing.",
        ),
        "no dim": WrongAnswer(
            {", dim=-1": ""},
            "line 3: return torch.softmax(scores) @ values[: i + 1] | TypeError: softmax() missing",
        ),
        "all values": WrongAnswer(
            {"values[: i + 1]": "values"},
            "line 3: return torch.softmax(scores, dim=-1) @ values | The scores are those of the "
            "tokens that token i sees, the values those of all: cut the values too",
        ),
        "all keys": WrongAnswer(
            {"= keys[: i + 1]": "= keys"},
            "line 3: return torch.softmax(scores, dim=-1) @ values[: i + 1] | The values are those "
            "of the tokens that token i sees, the scores those of all: cut the keys too",
        ),
        "factors swapped": WrongAnswer(
            {"keys[: i + 1] @ queries[i]": "queries[i] @ keys[: i + 1]"},
            "line 2: scores = queries[i] @ keys[: i + 1] / keys.shape[-1] ** 0.5 | RuntimeError: ",
        ),
        "a row for a vector": WrongAnswer(
            {"values[: i + 1]": "values[: i + 1, :1]"},
            "The context vector of token 0 has the shape (1,), not (3,), the width of the values.",
        ),
    },
)
WINDOW_MASK = Answers(
    right="Right, for windows of 3 and of 1.",
    wrong={
        "one key too many": WrongAnswer(
            {">= window": "> window"},
            "With window=3 the tokens see [1, 2, 3, 4, 4, 4] keys; the last must see 3.",
        ),
        "True for visible": WrongAnswer(
            {"< 0) | (distance >=": ">= 0) & (distance <"},
            "Your True means visible. It must mean hidden.",
        ),
        "itself hidden": WrongAnswer(
            {"distance < 0": "distance <= 0"},
            "Some token does not see itself, where the distance i - j is 0.",
        ),
        "no word on the future": WrongAnswer(
            {"(distance < 0) | ": ""},
            "Some token sees the future, where the distance i - j is negative.",
        ),
        "queries and keys swapped": WrongAnswer(
            {"[:, None]": "[None]", "[None, :]": "[:, None]"},
            "It is transposed: the distance is i - j, place[:, None] - place[None, :].",
        ),
        "numbers": WrongAnswer(
            {"return (": "return ((", "window)\n": "window)).float()\n"},
            "It is torch.float32, (6, 6); with num_tokens=6 it must be bool, (6, 6).",
        ),
        "one row": WrongAnswer(
            {"[:, None]": "", "[None, :]": ""},
            "It is torch.bool, (6,); with num_tokens=6 it must be bool, (6, 6).",
        ),
        "always six": WrongAnswer(
            {"arange(num_tokens)": "arange(6)"},
            "It is torch.bool, (6, 6); with num_tokens=5 it must be bool, (5, 5).",
        ),
        "and": WrongAnswer({" | ": " & "}, "Nothing is hidden. Are the two joined with &?"),
        "the word or": WrongAnswer(
            {" | ": " or "}, "(distance >= window) | `or`, `and`, `not`, `if` and a < b < c want"
        ),
        "no parentheses": WrongAnswer(
            {"(distance < 0) | (distance >= window)": "distance < 0 | distance >= window"},
            "distance < 0 | distance >= window | `or`, `and`, `not`, `if` and a < b < c want one "
            "True or False, and this is a table of them: join two tables with |, each in",
        ),
        "no return": WrongAnswer(
            {"return": "mask ="}, "window_mask returns None: is the return missing?"
        ),
    },
)
DEPENDS = Answers(
    right="Right: the triangle of a causal head, and the shifted line of a shift by one token.",
    wrong={
        "signs cancel": WrongAnswer(
            {".abs()": ""},
            "(the last one comes first) does not depend on token 6. Derivatives of both signs",
        ),
        "all widths kept": WrongAnswer(
            {".sum(dim=(1, 3))": ""}, "The shape is (7, 3, 7, 5), not (7, 7)"
        ),
        "above a threshold": WrongAnswer(
            {"!= 0": "> 0.1"}, "does not depend on token 0. A derivative may be tiny"
        ),
        "above a small threshold": WrongAnswer(
            {"!= 0": "> 1e-4"},
            "It says that output 0 of a head that returns a millionth does not depend on token 0.",
        ),
        "numbers": WrongAnswer({" != 0": ""}, "It is torch.float32, not bool: compare with 0."),
        "wrong way round": WrongAnswer(
            {"!= 0": "== 0"}, "True and False are the wrong way round: True means depends."
        ),
        "transposed": WrongAnswer(
            {"!= 0": "!= 0).mT", "return ": "return ("},
            "It is transposed: outputs go down, inputs across.",
        ),
        "the triangle itself": WrongAnswer(
            {"jacobian.abs().sum(dim=(1, 3)) != 0": "torch.ones(7, 7).tril() != 0"},
            "It says that output 0 of a shift by one token",
        ),
        "no return": WrongAnswer(
            {"return jacobian": "jacobian"}, "depends returns None: is the return missing?"
        ),
    },
)
MY_WRAPPER = Answers(
    right="MyWrapper is right: no token sees a later one, outputs and gradients are those of "
    "attnlib's MultiHeadAttentionWrapper, and in training dropout falls on single attention "
    "weights.",
    wrong={
        "along the tokens": WrongAnswer(
            {"dim=-1": "dim=1"},
            "The heads are joined along dimension 1",
        ),
        "along the batch": WrongAnswer({", dim=-1": ""}, "The heads are joined along dimension 0"),
        "a new dimension": WrongAnswer(
            {"cat": "stack"}, "The heads have a dimension of their own, dimension 3"
        ),
        "alternating columns": WrongAnswer(
            {"cat": "stack", "dim=-1)": "dim=-1).flatten(2)"},
            "The columns of the heads alternate:",
        ),
        "added": WrongAnswer(
            {"torch.cat([": "sum([", ", dim=-1)": ")"},
            "The heads are added here",
        ),
        "reversed": WrongAnswer(
            {"in self.heads": "in reversed(self.heads)"}, "The heads come out reversed"
        ),
        "not joined": WrongAnswer(
            {"torch.cat(": "", ", dim=-1)": ""},
            "forward(x) returns a list of 3, not a tensor: join them with torch.cat.",
        ),
        "one through the other": WrongAnswer(
            {
                "return torch.cat([head(x) for head in self.heads], dim=-1)": (
                    "return nn.Sequential(*self.heads)(x)"
                )
            },
            "Head 1 takes what head 0 has made",
        ),
        "a plain list": WrongAnswer({"nn.ModuleList()": "[]"}, "make it an nn.ModuleList."),
        "the list called": WrongAnswer(
            {"torch.cat([head(x) for head in self.heads], dim=-1)": "self.heads(x)"},
            "A ModuleList is a list and cannot be called",
        ),
        "the heads joined": WrongAnswer(
            {"head(x) for": "head for"},
            "The heads themselves are joined here",
        ),
        "the list of heads joined": WrongAnswer(
            {"[head(x) for head in self.heads]": "self.heads"},
            "The heads themselves are joined here",
        ),
        "a generator": WrongAnswer(
            {"[head(x) for head in self.heads], dim=-1": "head(x) for head in self.heads"},
            "torch wants a list or a tuple here",
        ),
        "the first head only": WrongAnswer(
            {"in self.heads": "in self.heads[:1]"}, "Only 1 of 3 heads run: heads 1 and 2 never do."
        ),
        "no return": WrongAnswer(
            {"return torch": "torch"},
            "line 2: torch.cat([head(x) for head in self.heads], dim=-1) | Forward makes something",
        ),
        "a name, no return": WrongAnswer(
            {"return torch": "context_vec = torch"}, "Forward makes context_vec and returns None:"
        ),
        "the stub's line left": WrongAnswer(
            {"        return": "        raise NotImplementedError\n        return"},
            "line 2: raise NotImplementedError | Your lines stop at `raise NotImplementedError`",
        ),
        "two heads of three": WrongAnswer(
            {"in self.heads": "in self.heads[:2]"},
            "Only 2 of 3 heads run: head 2 never does.",
        ),
    },
)
LOOK_AT_FIRST = Answers(
    right="Right: all six tokens look at token 0 and get its vector.",
    wrong={
        "a column": WrongAnswer(
            {"weight[0]": "weight[:, 0]"},
            "Token 5 looks at all tokens evenly: its query is 0, or all keys are equal. "
            "Did you fill a column? Column t of W_query.weight is the query of token t, "
            "column t of W_key.weight is its key.",
        ),
        "nothing cleared": WrongAnswer(
            {"    head.W_query.weight.zero_()\n": ""},
            "Token 5 gives token 0 0.50 of its weight and token 5 0.50: it must all go to token 0. "
            "The 20s of aim are still there: head.W_query.weight.zero_() first.",
        ),
        "all entries": WrongAnswer(
            {"weight[0] =": "weight[:] ="},
            "Token 5 looks at all tokens evenly: its query, column 5 of W_query.weight, asks for "
            "each of them alike.",
        ),
        "aimed again": WrongAnswer(
            {"back=0": "back=5", "    head.W_query.weight.zero_()\n": "    return head\n"},
            "Token 4 looks at all tokens evenly: its query, column 4 of W_query.weight, asks for "
            "token 5, which the mask hides.",
        ),
        "the layer": WrongAnswer(
            {"W_query.weight[0]": "W_query[0]"}, "A layer is no tensor. Its parameter is: add "
        ),
        "assigned": WrongAnswer(
            {"weight[0] = 20": "weight = 20 * torch.eye(6)"}, "fill it in place, weight.copy_(...)"
        ),
        "assigned to the layer": WrongAnswer(
            {"weight[0] = 20": "weight\n    head.W_query = 20 * torch.eye(6)"},
            "A layer cannot be replaced by a tensor",
        ),
        "with gradients": WrongAnswer(
            {"    head.W_query.weight.z": "    with torch.enable_grad(): head.W_query.weight.z"},
            "put the line under torch.no_grad().",
        ),
        "the stub's line left": WrongAnswer(
            {"    return": "    raise NotImplementedError\n    return"},
            "Your lines stop at `raise NotImplementedError`: delete that line.",
        ),
        "a small number": WrongAnswer(
            {"= 20": "= 1"}, "Token 5 gives token 0 only 0.23 of its weight."
        ),
        "the next row": WrongAnswer(
            {"weight[0]": "weight[1]"}, "Token 5 gives token 0 0.00 of its weight and token 1 1.00"
        ),
        "the sign": WrongAnswer(
            {"= 20": "= -20"}, "Token 5 gives token 0 0.00 of its weight and token 1 0.20"
        ),
        "values of 0": WrongAnswer(
            {"return head": "nn.init.zeros_(head.W_value.weight)\n    return head"},
            "All look at token 0, but what they get is not its vector: what does W_value do?",
        ),
        "no return": WrongAnswer(
            {"    return head\n": ""}, "look_at_first returns None: is the return missing?"
        ),
    },
)
WITHOUT_HEAD = Answers(
    right="Right: the columns of the silent head are 0, and no other number moved.",
    wrong={
        "no copy": WrongAnswer(
            {"deepcopy(stacked)": "stacked"},
            "The stack itself has changed: silence a head of copy.deepcopy(stacked).",
        ),
        "queries of 0": WrongAnswer(
            {"W_value": "W_query"}, "Head 1 still writes up to 0.61. An even look is a look:"
        ),
        "counted from 1": WrongAnswer(
            {"heads[h]": "heads[h - 1]"},
            "Head 1 is to be silent, and the columns of head 0 have changed.",
        ),
        "taken out": WrongAnswer(
            {"nn.init.zeros_(silent.heads[h].W_value.weight)": "del silent.heads[h]"},
            "The result is (2, 6, 4), not (2, 6, 6): a silent head keeps its columns, as zeros.",
        ),
        "with gradients": WrongAnswer(
            {"nn.init.zeros_(": "", "weight)": "weight.zero_()"},
            "put the line under torch.no_grad().",
        ),
        "the layer": WrongAnswer(
            {"W_value.weight": "W_value"}, "A layer is no tensor. Its parameter is: add .weight"
        ),
        "the head": WrongAnswer(
            {".W_value.weight": ""}, "A head is no tensor. It has three layers, each with a"
        ),
        "the stub's line left": WrongAnswer(
            {"    nn": "    raise NotImplementedError\n    nn"},
            "Your lines stop at `raise NotImplementedError`: delete that line.",
        ),
        "only a copy": WrongAnswer(
            {"    nn.init.zeros_(silent.heads[h].W_value.weight)\n": ""},
            "Head 1 is to be silent, and its columns are as they were.",
        ),
        "no return": WrongAnswer(
            {"    return silent\n": ""}, "without_head returns None: is the return missing?"
        ),
    },
)
MY_MULTI_HEAD_ATTENTION = Answers(
    right="MyMultiHeadAttention is right: no token sees a later one, outputs and gradients are "
    "those of attnlib's MultiHeadAttention, and in training dropout falls on single attention "
    "weights.",
    wrong={
        "cut by view alone": WrongAnswer(
            {
                "made.view(b, num_tokens, self.num_heads, self.head_dim)": (
                    "made.view(b, self.num_heads, num_tokens, self.head_dim)"
                ),
                "return made.transpose(1, 2)": "return made",
            },
            "The split mixes tokens and heads of the queries: view",
        ),
        "no transpose in the cut": WrongAnswer(
            {"return made.transpose(1, 2)": "return made"}, "with the tokens before the heads"
        ),
        "join by view alone": WrongAnswer(
            {"(attn_weights @ values).transpose(1, 2)": "attn_weights @ values"},
            "The merge mixes tokens and heads: before view,",
        ),
        "no contiguous": WrongAnswer(
            {"context_vec.contiguous().view(": "context_vec.view("},
            "put .contiguous() before .view()",
        ),
        "no out_proj": WrongAnswer(
            {"return self.out_proj(context_vec)": "return context_vec"}, "out_proj"
        ),
        "scaled by d_out": WrongAnswer(
            {"self.head_dim**0.5": "self.d_out**0.5"}, "the width of all heads"
        ),
        "no mask": WrongAnswer(
            {"attn_scores = attn_scores.masked_fill(is_future, -torch.inf)": "pass"},
            "nothing is hidden",
        ),
        "no dropout": WrongAnswer(
            {"attn_weights = self.dropout(attn_weights)": "pass"},
            "In training nothing is dropped",
        ),
        "a mask for six tokens": WrongAnswer(
            {"causal_mask(num_tokens": "causal_mask(6"},
            "The mask is for 6 tokens, and x has 5: make it from x.shape[1].",
        ),
        "merged to the width of x": WrongAnswer(
            {"num_tokens, -1)": "num_tokens, x.shape[-1])"},
            "The merged heads are num_heads * head_dim = 39 wide, not 23",
        ),
        "split to one head": WrongAnswer(
            {"num_tokens, self.num_heads, self.head_dim": "num_tokens, self.head_dim"},
            "Is head_dim d_out // num_heads, and num_heads the module's own, self.num_heads?",
        ),
        "keys without heads": WrongAnswer(
            {"self.split(self.W_key(x))": "self.W_key(x)"},
            "The keys are not split into heads yet",
        ),
        "values without heads": WrongAnswer(
            {"self.split(self.W_value(x))": "self.W_value(x)"},
            "The values are not split into heads yet",
        ),
        "no heads at all": WrongAnswer(
            {"self.split(self.W_": "(self.W_"}, "The queries and the keys are not split into heads"
        ),
        "no return": WrongAnswer(
            {"return self.out_proj(context_vec)": "context_vec = self.out_proj(context_vec)"},
            "end with return.",
        ),
    },
)
COPY_WEIGHTS = Answers(
    right="Right: three heads of width 5, and one split of width 15.",
    wrong={
        "side by side": WrongAnswer(
            {"torch.cat(rows)": "torch.cat(rows, dim=1)"}, "dim=0 makes (15, 7)."
        ),
        "not in place": WrongAnswer(
            {"getattr(split, name).weight.copy_(torch.cat(rows))": "weight = torch.cat(rows)"},
            "W_query.weight is as it was: nothing was copied into it.",
        ),
        "queries only": WrongAnswer(
            {'("W_query", "W_key", "W_value")': '("W_query",)'},
            "W_key.weight is as it was: nothing was copied into it.",
        ),
        "queries everywhere": WrongAnswer(
            {"getattr(head, name)": "head.W_query"},
            "W_key.weight holds, from top to bottom: W_query of head 0, W_query of head 1, W_query "
            "of head 2. It must be head 0, head 1, head 2.",
        ),
        "heads reversed": WrongAnswer(
            {"in stacked.heads]": "in reversed(stacked.heads)]"},
            "W_query.weight holds, from top to bottom: head 2, head 1, head 0.",
        ),
        "rows in turn": WrongAnswer(
            {"torch.cat(rows)": "torch.stack(rows, dim=1).flatten(0, 1)"},
            "W_query.weight holds, from top to bottom: a mixture, a mixture, a mixture.",
        ),
        "out_proj forgotten": WrongAnswer(
            {"split.out_proj.weight.copy_(torch.eye(split.d_out))": "pass"},
            "out_proj.weight is not the identity: it still mixes the heads' columns.",
        ),
        "all ones": WrongAnswer(
            {"torch.eye(split.d_out)": "torch.ones(split.d_out, split.d_out)"},
            "out_proj.weight is not the identity: it still mixes the heads' columns.",
        ),
        "bias forgotten": WrongAnswer(
            {"split.out_proj.bias.zero_()": "pass"},
            "out_proj.bias is not 0: it is added to every output.",
        ),
        "the identity of one width": WrongAnswer(
            {"torch.eye(split.d_out)": "torch.eye(4)"},
            "The matrix is (4, 4), and the parameter that it is copied into is (15, 15). Here are "
            "3 heads of width 5, for tokens of width 7.",
        ),
        "stacked": WrongAnswer(
            {"torch.cat": "torch.stack"},
            "The matrix is (3, 5, 7), and the parameter that it is copied into is (15, 7). "
            "torch.cat joins the heads; torch.stack puts them into a new dimension.",
        ),
        "turned": WrongAnswer(
            {"torch.cat(rows)": "torch.cat(rows).T"},
            "is (15, 7). nn.Linear stores its matrix transposed, so no .T is needed.",
        ),
        "each turned": WrongAnswer(
            {"name).weight for": "name).weight.T for"},
            "The matrix is (21, 5), and the parameter that it is copied into is (15, 7). nn.Linear",
        ),
        "two heads": WrongAnswer(
            {"torch.cat(rows)": "torch.cat(rows[:2])"}, "The matrix is (10, 7)"
        ),
        "two heads unpacked": WrongAnswer(
            {"with torch.no_grad():": "a, b = stacked.heads\n    with torch.no_grad():"},
            "line 2: a, b = stacked.heads | Here are 3 heads of width 5",
        ),
        "rows by number": WrongAnswer(
            {"weight.copy_(torch.cat(rows))": "weight[:2] = rows[0]"},
            "The matrix is (5, 7), and what it is copied into is (2, 7). Here are 3 heads",
        ),
        "the stub's line left": WrongAnswer(
            {"        for": "        raise NotImplementedError\n        for"},
            "Your lines stop at `raise NotImplementedError`: delete that line.",
        ),
        "another layer": WrongAnswer(
            {
                "        split.out_proj.bias.zero_()\n": "",
                "split.out_proj.weight.copy_(torch.eye(split.d_out))": (
                    "split.out_proj = torch.nn.Identity()"
                ),
            },
            "split.out_proj is another layer now. Keep the nn.Linear",
        ),
        "with gradients": WrongAnswer(
            {"with torch.no_grad():": "if True:"}, "put the line under torch.no_grad()."
        ),
        "assigned": WrongAnswer(
            {"weight.copy_(torch.cat(rows))": "weight = torch.cat(rows)"},
            "fill it in place, weight.copy_(...)",
        ),
        "the other way": WrongAnswer(
            {
                "getattr(split, name).weight.copy_(torch.cat(rows))": (
                    "[a.copy_(b) for a, b in zip(rows, getattr(split, name).weight.chunk(3))]"
                )
            },
            "The stacked heads have changed: copy from them, into split.",
        ),
        "no return": WrongAnswer(
            {"    return split\n": ""}, "copy_weights returns None: is the return missing?"
        ),
    },
)
SWAP_HEADS = Answers(
    right="Right: the heads have changed places, the output has not.",
    wrong={
        "no copy": WrongAnswer(
            {"deepcopy(module)": "module"},
            "You changed or returned the module itself: start from deepcopy(module).",
        ),
        "rows of out_proj": WrongAnswer(
            {"dims=1": "dims=0"}, "out_proj.weight: you moved its rows, which make the columns"
        ),
        "the module changed": WrongAnswer(
            {"(swapped.W_query, swapped.W_key, swapped.W_value)": "[module.W_query]"},
            "You changed the module itself, and returned a copy of it: change the copy.",
        ),
        "not stored": WrongAnswer(
            {
                "projection.weight.copy_(projection.weight.roll(2, dims=0))": (
                    "projection.weight.roll(2, dims=0)"
                )
            },
            "W_query.weight is as it was: its rows have to change places by head. roll returns a "
            "new tensor: is it copied back",
        ),
        "a view kept": WrongAnswer(
            {
                "projection.weight.copy_(projection.weight.roll(2, dims=0))": (
                    "a, b = projection.weight.chunk(2)\n            a[:], b[:] = b, a"
                )
            },
            "W_query.weight: both heads hold the rows of head 1 now. Is a slice kept for later? It "
            "is a view, and changes with the matrix: .clone() it first.",
        ),
        "the bias too": WrongAnswer(
            {"    return": "    swapped.out_proj.bias.data.mul_(2)\n    return"},
            "out_proj.bias has changed: it is added once, belongs to no head, and stays.",
        ),
        "the stub's line left": WrongAnswer(
            {"    return": "    raise NotImplementedError\n    return"},
            "Your lines stop at `raise NotImplementedError`: delete that line.",
        ),
        "out_proj forgotten": WrongAnswer(
            {"swapped.out_proj.weight.copy_(": "deepcopy("},
            "out_proj.weight is as it was: its columns have to change places by head.",
        ),
        "queries only": WrongAnswer(
            {", swapped.W_key, swapped.W_value": ","},
            "W_key.weight is as it was: its rows have to change places by head.",
        ),
        "columns": WrongAnswer(
            {"dims=0": "dims=1"},
            "W_query.weight: you moved its columns. nn.Linear stores the transpose",
        ),
        "by one row": WrongAnswer(
            {"roll(2, dims=0)": "roll(1, dims=0)"},
            "W_query.weight: its rows moved by one, but a head is two of them wide.",
        ),
        "row by row": WrongAnswer(
            {"roll(2, dims=0)": "flip(0)"},
            "W_query.weight: its rows have not changed places by head.",
        ),
        "with gradients": WrongAnswer(
            {"with torch.no_grad():": "if True:"},
            "Stopped in swap_heads, line 5: projection.weight.copy_(",
        ),
        "no return": WrongAnswer(
            {"    return swapped\n": ""}, "swap_heads returns None: is the return missing?"
        ),
    },
)
FAULT = Answers(
    right="Right: token 2 has 20, 23, 21, 24, 22, 25. Every number is in its row, but the heads "
    "take turns.",
    wrong={
        "one line too early": WrongAnswer(
            {"merged": "context_vec"}, "context_vec is right: head 1, token 2 still holds 23"
        ),
        "the split": WrongAnswer({"merged": "values"}, "values is right: head 1, token 2 holds 23"),
        "the weights": WrongAnswer({"merged": "attn_weights"}, "each token looks at itself."),
        "the result": WrongAnswer(
            {"merged": "return"}, "it was wrong before: look one line higher"
        ),
        "no such name": WrongAnswer({"merged": "mask"}, "No line makes 'mask'. There are: queries"),
        "not a name": WrongAnswer({'"merged"': "7"}, 'It must be a text, such as "keys".'),
        "a list": WrongAnswer({'"merged"': '["merged"]'}, "It must be a text"),
    },
)
SCORES_ROW = Answers(
    right="Right: each key of head 0, multiplied by the query of token 1.",
    wrong={
        "divided": WrongAnswer(
            {"[-1.7, -3.55, -0.75]": "[-0.98, -2.05, -0.43]"}, "Divided already"
        ),
        "the column": WrongAnswer({"[-1.7, -3.55, -0.75]": "[-2.12, -3.55, -0.81]"}, "is column 1"),
        "both heads": WrongAnswer({"[-1.7, -3.55, -0.75]": "[-1.02, -0.24, -0.18]"}, "both heads."),
        "masked": WrongAnswer({"-0.75": "0"}, "The mask comes later: here every key has a score."),
        "signs": WrongAnswer({"[-1.7, -3.55, -0.75]": "[1.7, 3.55, 0.75]"}, "The signs are turned"),
        "head 1": WrongAnswer({"[-1.7, -3.55, -0.75]": "[0.68, 3.31, 0.57]"}, "the row of head 1,"),
        "token 2": WrongAnswer({"[-1.7, -3.55, -0.75]": "[0.39, -0.81, -0.06]"}, "row of token 2,"),
        "a sign": WrongAnswer(
            {"-3.55": "-1.25"},
            "You have -1.25 for key 1: multiply the query of token 1 with it once more",
        ),
        "two numbers": WrongAnswer({", -0.75": ""}, "It must be 3 numbers, one for each key."),
        "words": WrongAnswer({"-0.75": "'x'"}, "It must be 3 numbers, one for each key."),
    },
)
WEIGHTS_ROW = Answers(
    right="Right: 2 keys share the attention of token 1.",
    wrong={
        "not divided": WrongAnswer(
            {"0.74, 0.26": "0.864, 0.136"}, "divide by the root of 3 first."
        ),
        "divided by 3": WrongAnswer({"0.74, 0.26": "0.65, 0.35"}, "Divided by 3: it is the root"),
        "not normalized": WrongAnswer(
            {"0.74, 0.26": "0.375, 0.129"}, "Those are the exponentials."
        ),
        "shares of scores": WrongAnswer(
            {"0.74, 0.26": "0.324, 0.676"}, "Shares of the scores them"
        ),
        "not masked": WrongAnswer(
            {"0.74, 0.26, 0.0": "0.31, 0.11, 0.54"},
            "Key 2 is in the future of token 1: its attention weight must be 0.",
        ),
        "no sum of 1": WrongAnswer({"0.26": "0.36"}, "The row sums to 1.10, not to 1."),
        "the wrong way round": WrongAnswer(
            {"0.74, 0.26": "0.26, 0.74"}, "Right numbers at wrong places: the larger score has"
        ),
        "a slip": WrongAnswer(
            {"0.74, 0.26": "0.6, 0.4"}, "The row sums to 1, but its numbers are not right"
        ),
        "rounded up": WrongAnswer(
            {"0.74, 0.26": "0.75, 0.25"}, "The row sums to 1, but its numbers are not right"
        ),
        "divided scores": WrongAnswer(
            {"0.74, 0.26": "-0.98, -2.05"}, "Those are the divided scores. Softmax comes next."
        ),
        "one number": WrongAnswer({"[0.74, 0.26, 0.0]": "0.74"}, "It must be 3 numbers"),
    },
)
BROKEN = Answers(
    right="Right: 7, 8 and 9 do not follow. Steps 10 and 11 only move numbers, and do.",
    wrong={
        "the last alone": WrongAnswer({"7, 8, 9": "9"}, "So far 9: right. Those are not all."),
        "two of them": WrongAnswer({"8, ": ""}, "So far 7, 9: right. Those are not all."),
        "a swap": WrongAnswer({"9}": "10}"}, "Step 10 follows: it moves the row of step 9"),
        "the merge": WrongAnswer({"9}": "11}"}, "Step 11 follows: the first three numbers are"),
        "a number": WrongAnswer({"{7, 8, 9}": "7"}, "So far 7: right. Those are not all."),
        "a number with a point": WrongAnswer({"{7, 8, 9}": "7.5"}, "It must be a set of numbers"),
        "none": WrongAnswer({"{7, 8, 9}": "set()"}, "At least one of them does not follow"),
        "a step above": WrongAnswer(
            {"7, 8, 9": "4, 7"}, "Step 4 is not asked for here: only steps"
        ),
        "text": WrongAnswer({"{7, 8, 9}": "'789'"}, "It must be a set of numbers, such as"),
    },
)
BOTH_MASKS = Answers(
    right="Right: the module's True hides, SDPA's True shows.",
    wrong={
        "one mask for both": WrongAnswer(
            {"~is_future": "is_future"},
            "SDPA's mask shows each token its future and nothing else: there True means",
        ),
        "the wrong way round": WrongAnswer(
            {"is_future, ~is_future": "~is_future, is_future"},
            "The module's mask shows each token its future and nothing else: there True means",
        ),
        "the diagonal hidden": WrongAnswer(
            {"triu(diagonal=1)": "triu()"}, "With the module's mask no token sees itself"
        ),
        "one token ahead": WrongAnswer(
            {"diagonal=1": "diagonal=2"},
            "With the module's mask token 0 sees [0, 1], not [0].",
        ),
        "the lower triangle": WrongAnswer(
            {"triu(diagonal=1)": "tril(diagonal=-1)"},
            "With the module's mask tokens look ahead: rows are queries, columns are keys.",
        ),
        "ones and zeros": WrongAnswer(
            {".bool()": "", "~is_future": "1 - is_future"},
            "The module's mask hides nothing. Its numbers are added",
        ),
        "whole numbers": WrongAnswer(
            {".bool()": ".int()"}, "The module's mask is torch.int32: make it boolean, or of floats"
        ),
        "one mask": WrongAnswer({", ~is_future": ""}, "It must return two masks"),
        "a row": WrongAnswer(
            {"is_future, ~is_future": "is_future[0], ~is_future"},
            "The module's mask is (7,), not (7, 7).",
        ),
    },
)
CROSS_ATTENTION = Answers(
    right="Right: for 4 tokens that look at 4, for 3 that look at 5, and for 5 that look at 3.",
    wrong={
        "queries from memory": WrongAnswer(
            {"(x)": "(other)", "(memory)": "(x)", "(other)": "(memory)"},
            "Queries come from memory: it is x that looks.",
        ),
        "values from x": WrongAnswer(
            {"W_value(memory)": "W_value(x)"}, "Values come from x: what is looked at is also"
        ),
        "keys from x": WrongAnswer(
            {"W_key(memory)": "W_key(x)"}, "Keys come from x: it is memory that is looked at."
        ),
        "two matrices swapped": WrongAnswer(
            {"W_key": "W_other", "W_value": "W_key", "W_other": "W_value"},
            "Keys and values have each other's matrix: W_key makes keys",
        ),
        "all from x": WrongAnswer({"(memory)": "(x)"}, "Both keys and values come from the text"),
        "a causal mask": WrongAnswer(
            {"keys, values)": "keys, values, causal_mask(x.shape[1]))"},
            "The future is hidden, but memory is there as a whole: take the mask away.",
        ),
        "no out_proj": WrongAnswer(
            {"module.out_proj(merge_heads(context_vec))": "merge_heads(context_vec)"},
            "out_proj is missing.",
        ),
        "merge by view": WrongAnswer(
            {"merge_heads(context_vec)": "context_vec.reshape(*x.shape[:2], -1)"},
            "The heads are merged without the transpose: use merge_heads.",
        ),
        "no merge": WrongAnswer(
            {"merge_heads(context_vec)": "context_vec"}, "Stopped in cross_attention, line 6: "
        ),
        "the module itself": WrongAnswer(
            {"module.out_proj(merge_heads(context_vec))": "module(x)"},
            "This is the causal self-attention of x: memory is not looked at.",
        ),
        "both results": WrongAnswer(
            {"context_vec, _ =": "context_vec ="}, "Stopped in cross_attention, line 6: "
        ),
    },
)
PADDED_MASK = Answers(
    right="Right: no NaN, and the words of 5 texts come out as if each text were alone.",
    wrong={
        "padding forgotten": WrongAnswer(
            {" | is_padding[:, None]": " | torch.zeros(len(is_padding), 1, 1).bool()"},
            "In text 1 the queries see [1, 2, 3, 4, 5, 6, 7, 8] keys, not [1, 1, 1, 2, 3, 4, 5, 6]",
        ),
        "one mask": WrongAnswer(
            {" | is_padding[:, None]": ""}, "It is torch.bool, (8, 8); it must be torch.bool, (3, "
        ),
        "no dimension added": WrongAnswer(
            {"is_padding[:, None]": "is_padding"}, "Stopped in padded_mask, line 3: "
        ),
        "empty rows": WrongAnswer(
            {"hidden & ~torch.eye(num_tokens, dtype=torch.bool)": "hidden"},
            "In text 1 query 0 sees no key: its row becomes NaN.",
        ),
        "padding hidden as a query": WrongAnswer(
            {"is_padding[:, None]": "is_padding[:, :, None]"},
            "In text 1 the queries see [1, 1, 3, 4, 5, 6, 7, 8] keys, not [1, 1, 1, 2, 3, 4, 5, 6]",
        ),
        "the padding of the first text": WrongAnswer(
            {"is_padding[:, None]": "is_padding[:1, None].expand(len(is_padding), 1, -1)"},
            "In text 1 the queries see [1, 2, 3, 4, 5, 6, 7, 8] keys, not [1, 1, 1, 2, 3, 4, 5, 6]",
        ),
        "True for visible": WrongAnswer(
            {"return ": "return ~(", "bool)": "bool))"},
            "Your True shows. In the module's mask True means: hide.",
        ),
        "a mask for each head": WrongAnswer(
            {"return hidden": "return hidden.repeat_interleave(2, dim=0)"},
            "It is torch.bool, (6, 8, 8); it must be torch.bool, (3, 8, 8).",
        ),
        "eye of numbers": WrongAnswer(
            {", dtype=torch.bool": ""},
            "Stopped in padded_mask, line 4: return hidden & ~torch.eye(num_tokens) | TypeError:",
        ),
        "numbers": WrongAnswer(
            {"return ": "return -1e9 * (", "bool)": "bool))"},
            "It is torch.float32, (3, 8, 8); it must be torch.bool, (3, 8, 8).",
        ),
    },
)

IS_CAUSAL = Answers(
    right="Right: it finds 7 classes that leak, and lets 4 others pass.",
    wrong={
        "all outputs": WrongAnswer(
            {"[:, :t]": ""}, "It rejects the right class. When token t changes, outputs t and later"
        ),
        "one row too many": WrongAnswer(
            {"[:, :t]": "[:, : t + 1]"}, "It rejects the right class. When token t changes"
        ),
        "x itself": WrongAnswer({"x.clone()": "x"}, "It changes the x that it was given"),
        "the last token only": WrongAnswer(
            {"range(1, x.shape[1])": "[5]"},
            "It lets a class through in which one token is seen too early.",
        ),
        "the weights": WrongAnswer(
            {
                "torch.allclose(module(changed)[:, :t], before[:, :t], atol=1e-5)": (
                    "not module(x, return_weights=True)[1].triu(1).any()"
                )
            },
            "It lets a class through whose softmax runs over the queries",
        ),
        "larger than": WrongAnswer(
            {
                "not torch.allclose(module(changed)[:, :t], before[:, :t], atol=1e-5)": (
                    "(module(changed)[:, :t] - before[:, :t]).abs().max() > 1e-5"
                )
            },
            "It lets a class through that returns NaN",
        ),
        "no return": WrongAnswer({"    return True": ""}, "is_causal returns None"),
    },
)
ONLY_VALUES = Answers(
    right="Right: it notices 'keys and values swapped', 'no output projection', and is blind to "
    "'no scale', 'mask one too late', 'merge without transpose'.",
    wrong={
        "all tokens": WrongAnswer(
            {"[:, :1]": ""}, "It also notices the mistake 'no scale': some token"
        ),
        "first output": WrongAnswer(
            {"x[:, :1])": "x)[:, :1]"},
            "It also notices the mistake 'mask one too late': there is still a later token.",
        ),
        "no values": WrongAnswer(
            {"x[:, :1]": "0 * x[:, :1]"},
            "It does not notice the mistake 'keys and values swapped': are the numbers of the "
            "token still there?",
        ),
        "its layers alone": WrongAnswer(
            {"module(x[:, :1])": "module.out_proj(module.W_value(x[:, :1]))"},
            "It never calls the module itself. Call module(...)",
        ),
        "no dimension of tokens": WrongAnswer(
            {"x[:, :1]": "x[:, 0]"},
            "The module was given 2 dimensions, not (b, num_tokens, d_in). x[:, :1] keeps",
        ),
    },
)
EQUAL_SCORES = Answers(
    right="Right: it notices 'mask one too late', 'both without transpose', 'merge without "
    "transpose', and is blind to 'no scale', 'scale by d_out'.",
    wrong={
        "nothing changed": WrongAnswer(
            {"    module.W_key.weight.zero_()\n": ""},
            "It also notices the mistake 'no scale': the scores of a row still differ.",
        ),
        "one token": WrongAnswer(
            {"module(x)": "module(x[:, :1])"},
            "It does not notice the mistake 'mask one too late': are all six tokens there, as",
        ),
        "values instead": WrongAnswer(
            {"W_key": "W_value"},
            "With W_value at 0 all tokens get the same output, whatever else is wrong.",
        ),
        "out_proj instead": WrongAnswer(
            {"W_key": "out_proj"}, "With out_proj at 0 all tokens get the same output"
        ),
        "last output": WrongAnswer(
            {"module(x)": "module(x)[:, -1]"},
            "It does not notice the mistake 'mask one too late':",
        ),
        "no numbers": WrongAnswer(
            {"module(x)": "module(0 * x)"},
            "It does not notice the mistake 'mask one too late': are all six tokens there, as",
        ),
        "the weights too": WrongAnswer(
            {"module(x)": "module(x, return_weights=True)"}, "Return the outputs alone, one tensor"
        ),
    },
)
FOUND = Answers(
    right="\n".join(
        (
            "mystery_2: right, line 12.",
            "mystery_3: right, line 24.",
            "mystery_4: right, line 18.",
        )
    ),
    wrong={
        "the softmax": WrongAnswer(
            {"2: 12": "2: 21"},
            "mystery_2: not line 21: a fault in it would most likely show in the first output",
        ),
        "the split": WrongAnswer(
            {"3: 24": "3: 7"},
            "mystery_3: not line 7: a fault in it would most likely show in the attention weights "
            "with two heads, and this is right there.",
        ),
        "the split of the values": WrongAnswer(
            {"3: 24": "3: 15"}, "mystery_3: not line 15, though no probe speaks against it."
        ),
        "the fill": WrongAnswer(
            {"3: 24": "3: 20"},
            "mystery_3: not line 20: it only helps to make the attention weights, and these are",
        ),
        "the mask": WrongAnswer(
            {"4: 18": "4: 20"},
            "mystery_4: not line 20: it knows nothing of the number of heads, so a fault in it",
        ),
        "the output": WrongAnswer(
            {"3: 24": "3: 27"},
            "mystery_3: not line 27: it knows nothing of the number of heads",
        ),
        "the scale": WrongAnswer(
            {"2: 12": "2: 18"},
            "mystery_2: not line 18: it cannot matter at equal scores with one head, and this is "
            "wrong there.",
        ),
        "near": WrongAnswer(
            {"4: 18": "4: 17"},
            "mystery_4: not line 17, though no probe speaks against it. Which other lines do they",
        ),
        "the same from outside": WrongAnswer(
            {"2: 12": "2: 17"},
            "mystery_2: as good as right. The slip is in line 12, but attn_scores = queries @ "
            "queries.transpose(2, 3) in line 17 would do exactly the same",
        ),
        "a text": WrongAnswer(
            {"2: 12": '2: "12"'}, "mystery_2: '12' is not the number of a line. Give one as it"
        ),
        "an empty line": WrongAnswer({"4: 18": "4: 22"}, "mystery_4: line 22 computes nothing."),
        "some left": WrongAnswer({"4: 18": "4: None"}, "mystery_4: not attempted yet"),
    },
)
TWO_MORE = Answers(
    right="mystery_5: right, line 7, and line 24 with it.\nmystery_6: right, line 21.",
    wrong={
        "the fill": WrongAnswer(
            {"6: 21": "6: 20"},
            "mystery_6: not line 20, though no probe can speak against it: they find nothing wrong",
        ),
        "the mask": WrongAnswer(
            {"5: 7": "5: 19"},
            "mystery_5: not line 19: it knows nothing of the number of heads",
        ),
        "the other half": WrongAnswer(
            {"5: 7": "5: 24"}, "mystery_5: right, line 24, and line 7 with it."
        ),
        "the keys": WrongAnswer(
            {"5: 7": "5: 14"},
            "mystery_5: not line 14: it cannot matter in the first output with two heads",
        ),
    },
)
SAME_ON_PREFIXES = Answers(
    right="Right: it rejects 9 of the mistakes and 5 classes that go wrong for one t each, and "
    "lets 10 others through.",
    wrong={
        "the whole only": WrongAnswer(
            {"range(1, x.shape[1])": "range(x.shape[1], x.shape[1] + 1)"},
            "It misses 7 of 9 classes that it must reject, for example 'split without",
        ),
        "one t only": WrongAnswer(
            {"range(1, x.shape[1])": "[3]"},
            "It lets a class through that goes wrong only for the first token alone. Is every t",
        ),
        "from two on": WrongAnswer(
            {"range(1, x.shape[1])": "range(2, x.shape[1])"},
            "It lets a class through that goes wrong only for the first token alone. Is every t",
        ),
        "one short": WrongAnswer(
            {"range(1, x.shape[1])": "range(1, x.shape[1] - 1)"},
            "It lets a class through that goes wrong only for the first 5 tokens alone. Is every t",
        ),
        "any": WrongAnswer(
            {"return all": "return any"},
            "must each of them be the same?",
        ),
        "shapes only": WrongAnswer(
            {
                "torch.allclose(module(x[:, :t]), whole[:, :t], atol=1e-5)": (
                    "module(x[:, :t]).shape == whole[:, :t].shape"
                )
            },
            "It misses all 9 classes that it must reject, for example 'split without transpose'.",
        ),
        "NaN equals NaN": WrongAnswer(
            {"atol=1e-5": "atol=1e-5, equal_nan=True"},
            "It misses 1 of 9 classes that it must reject, for example 'mask with the diagonal'.",
        ),
        "the last rows": WrongAnswer(
            {"whole[:, :t]": "whole[:, -t:]"},
            "It rejects the right class. Which rows belong to the first t tokens?",
        ),
        "to the last digit": WrongAnswer(
            {
                "torch.allclose(module(x[:, :t]), whole[:, :t], atol=1e-5)": (
                    "bool((module(x[:, :t]) == whole[:, :t]).all())"
                )
            },
            "And is there room for rounding, as allclose leaves it?",
        ),
        "one row too many": WrongAnswer(
            {"whole[:, :t]": "whole[:, : t + 1]"},
            "It rejects the right class. Which rows belong to the first t tokens?",
        ),
        "texts for tokens": WrongAnswer(
            {"whole[:, :t]": "whole[:t]", "range(1, x.shape[1])": "range(2, x.shape[1])"},
            "Stopped in same_on_prefixes, line 3: return all( torch.allclose(module(x[:, :t]), ",
        ),
        "no return": WrongAnswer({"return all": "all"}, "same_on_prefixes returns None"),
    },
)

CUT = Answers(
    right="Right: the queries, keys and values of each of three heads.",
    wrong={
        "not transposed": WrongAnswer(
            {"own].T": "own]"},
            "The first of the three is (15, 5), as the file has it. nn.Linear computes x @ weight",
        ),
        "transposed, then the columns": WrongAnswer(
            {"third[:, own].T": "third.T[:, own]"},
            "The first of the three is (15, 5): after the transpose, what a head makes is rows.",
        ),
        "thirds of the rows": WrongAnswer(
            {"chunk(3, dim=1)": "chunk(3, dim=0)"},
            "The first of the three is (5, 5), not (5, 15): it is cut along both sides.",
        ),
        "rows of the file": WrongAnswer(
            {"third[:, own].T": "third[own]"},
            "The first of the three is cut from the rows of c_attn: those are the inputs.",
        ),
        "counted from 1": WrongAnswer(
            {
                "slice(head * head_dim, (head + 1) * head_dim)": "slice((head - 1) * head_dim, "
                "head * head_dim)"
            },
            "The first of the three is W_query of head 0, not W_query of head 1.",
        ),
        "the whole third": WrongAnswer(
            {"third[:, own].T": "third.T"},
            "The first of the three is (15, 15), not (5, 15): head_dim is width // num_heads.",
        ),
        "every third column": WrongAnswer(
            {"third[:, own].T": "third[:, head::num_heads].T"},
            "The first of the three takes every third column. A head's columns are side by side.",
        ),
        "three parts of each head": WrongAnswer(
            {
                "[third[:, own].T for third in c_attn.chunk(3, dim=1)]": "c_attn.T[3 * head_dim "
                "* head : 3 * head_dim * (head + 1)].chunk(3)"
            },
            "The three are cut as if each head had its parts side by side. In c_attn come all",
        ),
        "values before keys": WrongAnswer(
            {"c_attn.chunk(3, dim=1)]": "[c_attn.chunk(3, dim=1)[i] for i in (0, 2, 1)]]"},
            "The second of the three is W_value of head 1, not W_key of head 1.",
        ),
        "two of them": WrongAnswer(
            {"dim=1)]": "dim=1)[:2]]"},
            "Return three matrices: of the queries, of the keys and of the values.",
        ),
    },
)
TEXTS_THAT_FIT = Answers(
    right="Right: 28 texts of GPT-2 XL, 72 of the small one in half precision, and none in 5 GB.",
    wrong={
        "keys only": WrongAnswer(
            {"2 * num_layers": "num_layers"},
            "For GPT-2 XL in 24 GB the answer is 28 texts, not 56. Both are kept, keys and values.",
        ),
        "no parameters": WrongAnswer(
            {" - num_parameters * size": ""},
            "the answer is 28 texts, not 38. The parameters need memory too.",
        ),
        "one layer": WrongAnswer({" * num_layers": ""}, ". Every layer has a cache of its own."),
        "parameters of one byte": WrongAnswer(
            {"num_parameters * size": "num_parameters"},
            ". A parameter has its bytes too.",
        ),
        "numbers for bytes": WrongAnswer(
            {"num_tokens * size": "num_tokens"},
            ". A number in the cache has its bytes too.",
        ),
        "tokens": WrongAnswer(
            {" * num_tokens": ""}, ". That many tokens fit; a text has num_tokens"
        ),
        "a part of a text": WrongAnswer(
            {"//": "/"},
            "For GPT-2 XL in 24 GB it returns 28.24: a part of a text cannot be written.",
        ),
        "fewer than none": WrongAnswer(
            {"max(free // one_text, 0)": "free // one_text"},
            "which its parameters alone fill, it returns -2: the answer cannot be below 0.",
        ),
        "parameters for every text": WrongAnswer(
            {
                "memory - num_parameters * size": "memory",
                "2 * num_layers * width * num_tokens * size": "(2 * num_layers * width * "
                "num_tokens + num_parameters) * size",
            },
            "the answer is 28 texts, not 3. All texts share the parameters.",
        ),
        "rounded to the nearest": WrongAnswer(
            {"free // one_text": "round(free / one_text)"},
            "For the small GPT-2 in 3 GB, in half precision the answer is 72 texts, not 73. There",
        ),
        "rounded up": WrongAnswer(
            {"free // one_text": "-(-free // one_text)"},
            "the answer is 28 texts, not 29. There is no room for a part of a text: round down.",
        ),
    },
)
DEVICE_PART = Answers(
    right="Right, with 4, 2 and 1 devices.",
    wrong={
        "bias in every part": WrongAnswer(
            {"[:, own].T": "[:, own].T + module.out_proj.bias"},
            "With 4 devices out_proj.bias is added 4 times: it comes after the sum.",
        ),
        "a share of the bias": WrongAnswer(
            {"[:, own].T": "[:, own].T + module.out_proj.bias / num_devices"},
            "The parts add up to module(x), out_proj.bias included: leave it out.",
        ),
        "projections without their biases": WrongAnswer(
            {" + W.bias[own]": ""},
            "W_query, W_key and W_value have biases: a device needs its own part of each.",
        ),
        "heads of the wrong width": WrongAnswer(
            {"module.num_heads // num_devices": "module.num_heads // num_devices * 2"},
            "Has each device whole heads, of the right width, and the mask?",
        ),
        "all devices alike": WrongAnswer(
            {"[device]": "[0]"}, "All devices make the same part: each has rows of its own."
        ),
        "no out_proj": WrongAnswer(
            {" @ module.out_proj.weight[:, own].T": ""},
            "A part is (2, 7, 8), not (2, 7, 32), the full shape.",
        ),
        "rows of out_proj": WrongAnswer(
            {"weight[:, own].T": "weight[own].T"}, "Stopped in device_part, line 8: return merge_"
        ),
        "no mask": WrongAnswer(
            {", causal_mask(x.shape[1])": ""}, "Each device needs the mask: causal_mask(num_tokens)"
        ),
        "all heads": WrongAnswer(
            {"module.num_heads // num_devices": "module.num_heads"},
            "A device has num_heads // num_devices heads, not all of them.",
        ),
        "one wide head": WrongAnswer(
            {"module.num_heads // num_devices": "1"},
            "With 2 devices the parts do not add up: a number is off by",
        ),
        "rows of out_proj, not transposed": WrongAnswer(
            {"weight[:, own].T": "weight[own]"}, "Of out_proj.weight a device needs columns"
        ),
        "the two rows of the page": WrongAnswer(
            {
                "torch.arange(module.d_out).chunk(num_devices)[device]": (
                    "slice(2 * device, 2 * device + 2)"
                ),
                "module.num_heads // num_devices": "1",
            },
            "On the page a head was 2 wide; here a device has d_out // num_devices rows.",
        ),
        "all of it": WrongAnswer(
            {"merge_heads(context_vec) @ module.out_proj.weight[:, own].T": "module(x)"},
            "Each part is the whole output already: a device computes its own heads alone.",
        ),
        "a part of x": WrongAnswer({"[x @": "[x[:, :, own] @"}, "Stopped in device_part, line "),
    },
)

ATTEND_IN_TILES = Answers(
    right=(
        "Right: equal within 1e-12 with tiles of 1, 2, 3 and 7 keys, and with 61 tokens no query "
        "meets more keys at a time than a tile has."
    ),
    wrong={
        "not scaled": WrongAnswer(
            {" / queries.shape[1] ** 0.5": ""},
            "The scores are not divided by the root of head_dim.",
        ),
        "no mask": WrongAnswer(
            {"scores.masked_fill_(tile > position, -torch.inf)": "scores"}, "Nothing is hidden"
        ),
        "the mask the wrong way round": WrongAnswer(
            {"tile > position": "tile < position"}, "each query sees its future and itself"
        ),
        "only the future": WrongAnswer(
            {"tile > position": "tile <= position"}, "Turn the mask round: a key is hidden where"
        ),
        "hidden by 0": WrongAnswer(
            {"(tile > position, -torch.inf)": "(tile > position, 0)"},
            "Hidden scores are 0, and exp(0) is 1",
        ),
        "float32": WrongAnswer(
            {
                "torch.zeros_like(values)": "torch.zeros_like(values).float()",
                "mixed = corr": "mixed[:] = corr",
            },
            "Right, but only up to",
        ),
        "queries changed": WrongAnswer(
            {
                "    largest = torch.full_like": (
                    "    queries /= queries.shape[1] ** 0.5\n    largest = torch.full_like"
                ),
                " / queries.shape[1] ** 0.5": "",
            },
            "It changes queries, which belong to whoever calls it",
        ),
        "a tuple": WrongAnswer(
            {"return mixed / total": "return mixed / total, largest"},
            "It returns a tuple of 2, not a tensor",
        ),
        "one key at a time": WrongAnswer(
            {".split(tile_size)": ".split(1)"}, "Equal, but tile_size makes no difference"
        ),
        "not divided": WrongAnswer({"mixed / total": "mixed"}, "not divided by the total"),
        "places of the tile": WrongAnswer(
            {"tile > position": "torch.arange(len(tile)) > position"},
            "count the keys from the start of the text, not of the tile.",
        ),
        "the last tile left out": WrongAnswer(
            {".split(tile_size):": "[: 7 // tile_size * tile_size].split(tile_size):"},
            "the last tile is smaller than the others, and its key 6 is missing.",
        ),
        "divided in every tile": WrongAnswer(
            {"powers @ values[tile]": "powers @ values[tile] / powers.sum(1, keepdim=True)"},
            "With a single tile of all 7 keys it is not attention",
        ),
        "an average in every tile": WrongAnswer(
            {
                "total = correction * total + powers.sum(dim=1, keepdim=True)": (
                    "seen = powers.sum(dim=1, keepdim=True); total = total + (seen > 0)"
                ),
                "+ powers @ values[tile]": "+ powers @ values[tile] / seen.clamp(min=1e-9)",
            },
            "are total and mixed added up over all tiles, and divided once, at the end?",
        ),
        "total not corrected": WrongAnswer(
            {"correction * total": "total"}, "total keeps what it summed up with a smaller maximum"
        ),
        "mixed not corrected": WrongAnswer(
            {"correction * mixed": "mixed"}, "mixed keeps what it summed up with a smaller maximum"
        ),
        "nothing corrected": WrongAnswer(
            {"correction * total": "total", "correction * mixed": "mixed"},
            "Neither total nor mixed is corrected",
        ),
        "corrected the wrong way": WrongAnswer(
            {"torch.exp(largest - larger)": "torch.exp((larger - largest).clamp(max=700))"},
            "The correction is the wrong way up",
        ),
        "the correction upside down": WrongAnswer(
            {"torch.exp(largest - larger)": "torch.exp(larger - largest)"},
            "Is the correction the wrong way up? It is exp(old maximum - new maximum)",
        ),
        "its own key hidden": WrongAnswer(
            {"tile > position": "tile >= position"}, "does the mask hide a query's own key?"
        ),
        "softmax in every tile": WrongAnswer(
            {
                "total = correction * total + powers.sum(dim=1, keepdim=True)": "total = total + 1",
                "correction * mixed + powers @ values[tile]": (
                    "mixed + torch.softmax(scores, dim=1) @ values[tile]"
                ),
            },
            "softmax divides every tile by a total of its own",
        ),
        "one maximum for all queries": WrongAnswer(
            {"scores.amax(dim=1, keepdim=True)": "scores.max()"},
            "every query needs a largest score of its own",
        ),
        "a whole row at a time": WrongAnswer(
            {
                "    for tile in torch.arange(len(keys)).split(tile_size):\n": (
                    "    return torch.stack([\n"
                    "        torch.softmax(keys[: i + 1] @ query / len(query) ** 0.5, dim=0)\n"
                    "        @ values[: i + 1]\n"
                    "        for i, query in enumerate(queries)\n"
                    "    ])\n"
                    "    for tile in torch.arange(len(keys)).split(tile_size):\n"
                )
            },
            "with a tile_size of 4 a query still meets more keys than that at a time",
        ),
        "a row without softmax": WrongAnswer(
            {
                "    for tile in torch.arange(len(keys)).split(tile_size):\n": (
                    "    rows = []\n"
                    "    for i, query in enumerate(queries):\n"
                    "        row = query @ keys[: i + 1].T / len(query) ** 0.5\n"
                    "        powers = torch.exp(row - row.max())\n"
                    "        rows.append(powers @ values[: i + 1] / powers.sum())\n"
                    "    return torch.stack(rows)\n"
                    "    for tile in torch.arange(len(keys)).split(tile_size):\n"
                )
            },
            "with a tile_size of 4 a query still meets more keys than that at a time",
        ),
        "the maximum of the tile": WrongAnswer(
            {"torch.maximum(largest, scores.amax(dim=1, keepdim=True))": "scores.amax(1, True)"},
            "Subtract the largest score of all tiles so far.",
        ),
        "the maximum forgotten": WrongAnswer(
            {"        largest = larger\n": ""}, "is largest = larger missing, at the end of a tile?"
        ),
        "no maximum": WrongAnswer(
            {"        larger = ": "        larger = 0 * "},
            "Right until scores are about a thousand",
        ),
        "a maximum from 0": WrongAnswer(
            {"torch.full_like(queries[:, :1], -torch.inf)": "torch.zeros_like(queries[:, :1])"},
            "must begin at minus infinity, not at 0.",
        ),
        "a mask of all pairs": WrongAnswer(
            {"tile > position": "causal_mask(len(queries))[:, tile]"},
            "Equal, but the mask is made for all pairs, (61, 61)",
        ),
        "all scores at once": WrongAnswer(
            {"queries @ keys[tile].T": "(queries @ keys.T)[:, tile]"},
            "Equal, but a tensor of (61, 61) was made",
        ),
        "no return": WrongAnswer(
            {"return mixed": "mixed"}, "attend_in_tiles returns None: is the return missing?"
        ),
    },
)
JOIN = Answers(
    right="Right: in either order, and with scores of a thousand.",
    wrong={
        "only added": WrongAnswer(
            {"c_0 * total_0 + c_1 * total_1": "total_0 + total_1"}, "The totals are added as they"
        ),
        "mixtures only added": WrongAnswer(
            {"c_0 * mixed_0 + c_1 * mixed_1": "mixed_0 + mixed_1"}, "The mixtures are added as they"
        ),
        "one factor": WrongAnswer(
            {"c_1 * total_1": "total_1", "c_1 * mixed_1": "mixed_1"},
            "Only the first is corrected, but in some rows",
        ),
        "the other factor": WrongAnswer(
            {"c_0 * total_0": "total_0", "c_0 * mixed_0": "mixed_0"},
            "Only the second is corrected, but in some rows",
        ),
        "upside down": WrongAnswer(
            {
                "exp(m_0 - largest)": "exp(largest - m_0)",
                "exp(m_1 - largest)": "exp(largest - m_1)",
            },
            "The factors are upside down",
        ),
        "exchanged": WrongAnswer(
            {"c_0, c_1 =": "c_1, c_0 ="}, "The factors are exchanged: each of the two needs its own"
        ),
        "corrected twice": WrongAnswer(
            {"c_0 * total_0": "c_0**2 * total_0"},
            "total is wrong: correct each of the two by exp(its largest - the larger one).",
        ),
        "the first maximum": WrongAnswer(
            {"torch.maximum(m_0, m_1)": "m_0"}, "largest is not the larger of the two, row by row."
        ),
        "powers without a maximum": WrongAnswer(
            {
                "torch.exp(m_0 - largest)": "torch.exp(m_0) / torch.exp(largest)",
                "torch.exp(m_1 - largest)": "torch.exp(m_1) / torch.exp(largest)",
            },
            "A number is infinite or NaN: take the larger maximum away before exp where scores",
        ),
        "divided": WrongAnswer(
            {"c_0 * mixed_0 + c_1 * mixed_1": "(c_0 * mixed_0 + c_1 * mixed_1) / total_0"},
            "mixed is wrong: correct each by its own factor, and do not divide yet.",
        ),
        "two of three": WrongAnswer(
            {"largest, c_0 * total_0": "c_0 * total_0"},
            "join returns three tensors: largest, total, mixed.",
        ),
    },
)
INDUCTION = Answers(
    right="Right: this marks what an induction head should look at.",
    wrong={
        "the letters alone": WrongAnswer(
            {".tril(-1).roll(1, dims=-1)": ""},
            "It marks every key with the query's own letter, later ones and itself included.",
        ),
        "the occurrence itself": WrongAnswer(
            {".roll(1, dims=-1)": ""},
            "It marks the earlier letter itself; the key that counts comes right after it.",
        ),
        "the key before": WrongAnswer(
            {"roll(1,": "roll(-1,"},
            "It marks the letter right before the earlier one: move the marks the other way.",
        ),
        "moved along the queries": WrongAnswer(
            {"dims=-1": "dims=1"},
            "It moves the marks from query to query; the keys are the last dimension, -1.",
        ),
        "the query itself": WrongAnswer(
            {"tril(-1)": "tril()"}, "a letter is not earlier than itself."
        ),
        "cut after the move": WrongAnswer(
            {".tril(-1).roll(1, dims=-1)": ".roll(1, dims=-1).tril(-1)"},
            "It moves first, then cuts: marks of the last key come in at key 0. Cut first.",
        ),
        "cut after the move, with the diagonal": WrongAnswer(
            {".tril(-1).roll(1, dims=-1)": ".roll(1, dims=-1).tril()"},
            "Key 0 comes after no letter: what roll brings in there must not count. Cut first.",
        ),
        "numbers": WrongAnswer({"same.tril(-1)": "same.int().tril(-1)"}, "It is torch.int32"),
        "one text": WrongAnswer(
            {"dims=-1)": "dims=-1)[0]"}, "The shape is (8, 8), not (b, num_tokens, num_tokens)"
        ),
        "no return": WrongAnswer(
            {"return same": "same"}, "induction returns None: is the return missing?"
        ),
    },
)
TWO_LETTERS = Answers(
    right="Right: two letters must match.",
    wrong={
        "one letter": WrongAnswer(
            {"after & after.roll((1, 1), dims=(1, 2))": "after"},
            "It asks for one letter only: this is induction.",
        ),
        "only the letter before": WrongAnswer(
            {"after & after": "after"},
            "It asks only for the letter before; the query's own letter must match too.",
        ),
        "one query earlier, the same key": WrongAnswer(
            {"(1, 1), dims=(1, 2)": "1, dims=1"},
            "It moves the queries only; the keys must move with them.",
        ),
        "the same query, one key earlier": WrongAnswer(
            {"(1, 1), dims=(1, 2)": "1, dims=2"},
            "It moves the keys only; the queries must move with them.",
        ),
        "the pair itself": WrongAnswer(
            {
                "after = induction(tokens)": (
                    "after = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)"
                )
            },
            "It marks the earlier pair itself; the key that counts comes right after it.",
        ),
        "two keys": WrongAnswer(
            {
                "return after & after": (
                    "same = tokens[:, :, None] == tokens[:, None, :]\n"
                    "    return same.tril(-1) & after"
                )
            },
            "Both letters must lead to one key, the one after the pair. Start from induction.",
        ),
        "one query earlier, the next key": WrongAnswer(
            {"(1, 1), dims=(1, 2)": "(1, -1), dims=(1, 2)"},
            "abcxbcab: query 5 marks keys []; it should mark [3].",
        ),
        "the pair after": WrongAnswer(
            {"(1, 1), dims": "(-1, -1), dims"},
            "It asks for the next pair: move the table one query and one key the other way.",
        ),
        "either letter": WrongAnswer(
            {"after & ": "after | "}, "Either letter is enough for it; both must match."
        ),
        "numbers": WrongAnswer(
            {"return after & after": "return after.float() * after"}, "It is torch.float32;"
        ),
    },
)
MUTE_LAYER = Answers(
    right="Right: nothing is added, not even the bias.",
    wrong={
        "both heads, not the bias": WrongAnswer(
            {
                "muted = deepcopy(model)\n    for parameter in "
                "muted.layers[layer].out_proj.parameters():\n        parameter.zero_()": (
                    "muted = learning.mute_head(learning.mute_head(model, layer, 0), layer, 1)"
                )
            },
            "Both heads are silent, but out_proj still adds its bias.",
        ),
        "no copy": WrongAnswer({"deepcopy(model)": "model"}, "The model itself has changed"),
        "the other layer": WrongAnswer(
            {"layers[layer]": "layers[layer - 1]"}, "Layer 0 has changed"
        ),
        "one head": WrongAnswer(
            {
                "for parameter in muted.layers[layer].out_proj.parameters():\n"
                "        parameter.zero_()": "muted = learning.mute_head(model, layer, 0)"
            },
            "The layer still adds something.",
        ),
        "no return": WrongAnswer(
            {"    return muted\n": ""}, "mute_layer returns None: is the return missing?"
        ),
    },
)

ANSWERS: dict[str, dict[str, Answers]] = {
    "01_causal_attention": {
        "causal_weights": CAUSAL_WEIGHTS,
        "CausalAttention": CAUSAL_ATTENTION,
        "look_back": LOOK_BACK,
        "context_without_mask": CONTEXT_WITHOUT_MASK,
        "window_mask": WINDOW_MASK,
        "depends": DEPENDS,
    },
    "02_stacked_heads": {
        "MyWrapper": MY_WRAPPER,
        "look_at_first": LOOK_AT_FIRST,
        "without_head": WITHOUT_HEAD,
    },
    "03_weight_split": {
        "MyMultiHeadAttention": MY_MULTI_HEAD_ATTENTION,
        "copy_weights": COPY_WEIGHTS,
        "swap_heads": SWAP_HEADS,
    },
    "04_shapes_and_numbers": {
        "fault": FAULT,
        "scores_row": SCORES_ROW,
        "weights_row": WEIGHTS_ROW,
        "broken": BROKEN,
    },
    "05_pytorch_attention": {
        "both_masks": BOTH_MASKS,
        "cross_attention": CROSS_ATTENTION,
        "padded_mask": PADDED_MASK,
    },
    "06_right_shape_wrong_answer": {
        "is_causal": IS_CAUSAL,
        "only_values": ONLY_VALUES,
        "equal_scores": EQUAL_SCORES,
        "found": FOUND,
        "same_on_prefixes": SAME_ON_PREFIXES,
        "two_more": TWO_MORE,
    },
    "07_speed_and_memory": {
        "attend_in_tiles": ATTEND_IN_TILES,
        "join": JOIN,
    },
    "08_what_heads_learn": {
        "induction": INDUCTION,
        "two_letters": TWO_LETTERS,
        "mute_layer": MUTE_LAYER,
    },
    "09_gpt2_scale": {
        "cut": CUT,
        "texts_that_fit": TEXTS_THAT_FIT,
        "device_part": DEVICE_PART,
    },
}
