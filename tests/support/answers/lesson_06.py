"""Typical wrong answers to the exercises of lesson 06, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

ANSWERS = {
    "is_causal": Answers(
        "Right: it finds 11 classes that leak, and lets 4 others pass.",
        {
            "all outputs": ({"[:, :t]": ""}, "It rejects the right class. When token t changes,"),
            "one row too many": ({"[:, :t]": "[:, : t + 1]"}, "It rejects the right class. When"),
            "x itself": ({"x.clone()": "x"}, "It changes the x that it was given"),
            "the last token only": ({"range(1, x.shape[1])": "[5]"}, "It lets a class through in"),
            "the weights": (
                {
                    "torch.allclose(module(changed)[:, :t], before[:, :t], atol=1e-5": (
                        "not module(x, return_weights=True)[1].triu(1).any("
                    )
                },
                "It lets a class through whose softmax runs over the queries",
            ),
            "larger than": (
                {
                    "not torch.allclose(module(changed)[:, :t], before[:, :t], atol=1e-5)": (
                        "(module(changed)[:, :t] - before[:, :t]).abs().max() > 1e-5"
                    )
                },
                "It lets a class through that returns NaN",
            ),
            "no return": ({"    return True": ""}, "is_causal returns None"),
            "return inside the loop": (
                {"    return True": "        return True"},
                "Only token 1 is ever changed, and a class goes through in which token 2 is seen",
            ),
        },
    ),
    "only_values": Answers(
        "Right: it notices 'keys and values swapped', 'no output projection', and is blind to "
        "'no scale', 'mask one too late', 'merge without transpose'.",
        {
            "all tokens": ({"[:, :1]": ""}, "It also notices the mistake 'no scale': some token"),
            "first output": ({"x[:, :1])": "x)[:, :1]"}, "It also notices the mistake 'mask one"),
            "no values": ({"x[:, :1]": "0 * x[:, :1]"}, "It does not notice the mistake 'keys and"),
            "its layers alone": (
                {"(x[:, :1]": ".out_proj(module.W_value(x[:, :1])"},
                "It never calls the module itself. Call module(...)",
            ),
            "no dimension of tokens": ({"x[:, :1]": "x[:, 0]"}, "The module was given 2"),
        },
    ),
    "equal_scores": Answers(
        "Right: it notices 'mask one too late', 'both without transpose', 'merge without "
        "transpose', and is blind to 'no scale', 'scale by d_out'.",
        {
            "nothing changed": ({"    module.W_key.weight.zero_()\n": ""}, "It also notices the"),
            "one token": ({"module(x)": "module(x[:, :1])"}, "It does not notice the mistake"),
            "values instead": ({"W_key": "W_value"}, "With W_value at 0 all tokens get the same"),
            "out_proj instead": ({"W_key": "out_proj"}, "With out_proj at 0 all tokens get the"),
            "last output": ({"module(x)": "module(x)[:, -1]"}, "It does not notice the mistake"),
            "no numbers": ({"module(x)": "module(0 * x)"}, "It does not notice the mistake 'mask"),
            "the weights too": (
                {"module(x)": "module(x, return_weights=True)"},
                "Return the outputs alone, one tensor",
            ),
        },
    ),
    "found": Answers(
        "mystery_2: right, line 12.\nmystery_3: right, line 24.\nmystery_4: right, line 18.",
        {
            "the softmax": ({"2: 12": "2: 21"}, "mystery_2: not line 21: a fault in it would most"),
            "the split": ({"3: 24": "3: 7"}, "mystery_3: not line 7: a fault in it would most"),
            "the split of the values": ({"3: 24": "3: 15"}, "mystery_3: not line 15"),
            "the fill": ({"3: 24": "3: 20"}, "mystery_3: not line 20: it only helps to make the"),
            "the mask": ({"4: 18": "4: 20"}, "mystery_4: not line 20: it knows nothing of the"),
            "the output": ({"3: 24": "3: 27"}, "mystery_3: not line 27: it knows nothing of the"),
            "the scale": ({"2: 12": "2: 18"}, "mystery_2: not line 18: it cannot matter at"),
            "near": ({"4: 18": "4: 17"}, "mystery_4: not line 17"),
            "the same from outside": ({"2: 12": "2: 17"}, "mystery_2: as good as right. The slip"),
            "a text": ({"2: 12": '2: "12"'}, "mystery_2: '12' is not the number of a line. Give"),
            "an empty line": ({"4: 18": "4: 22"}, "mystery_4: line 22 computes nothing."),
            "some left": ({"4: 18": "4: None"}, "mystery_4: not attempted yet"),
        },
    ),
    "same_on_prefixes": Answers(
        "Right: it rejects 9 of the mistakes and 5 classes that go wrong for one t each, and "
        "lets 10 others through.",
        {
            "the whole only": (
                {"1, x.shape[1]": "x.shape[1], x.shape[1] + 1"},
                "It misses 7 of 9 classes that it must reject, for example 'split without",
            ),
            "one t only": (
                {"range(1, x.shape[1])": "[3]"},
                "It lets a class through that goes wrong only for t = 1. Is every t asked, and",
            ),
            "from two on": (
                {"1, x.shape": "2, x.shape"},
                "It lets a class through that goes wrong only for t = 1. Is every t asked, and",
            ),
            "one short": (
                {"shape[1])": "shape[1] - 1)"},
                "It lets a class through that goes wrong only for t = 5. Is every t asked, and",
            ),
            "any": ({"return all": "return any"}, "must each of them be the same?"),
            "shapes only": (
                {
                    "torch.allclose(module(x[:, :t]), whole[:, :t], atol=1e-5)": (
                        "module(x[:, :t]).shape == whole[:, :t].shape"
                    )
                },
                "It misses all 9 classes that it must",
            ),
            "NaN equals NaN": (
                {"atol=1e-5": "atol=1e-5, equal_nan=True"},
                "It misses 1 of 9 classes that it must reject, for example 'mask with the",
            ),
            "the last rows": ({"whole[:, :t]": "whole[:, -t:]"}, "It rejects the right class."),
            "to the last digit": (
                {
                    "torch.allclose(module(x[:, :t]), whole[:, :t], atol=1e-5": (
                        "bool((module(x[:, :t]) == whole[:, :t]).all()"
                    )
                },
                "And is there room for rounding, as allclose leaves it?",
            ),
            "one row too many": ({"whole[:, :t]": "whole[:, : t + 1]"}, "It rejects the right"),
            "texts for tokens": (
                {"whole[:, :t]": "whole[:t]", "1, x.shape": "2, x.shape"},
                "Stopped in same_on_prefixes, line 3: return all( torch.allclose(module(x[:,",
            ),
            "no return": ({"return all": "all"}, "same_on_prefixes returns None"),
        },
    ),
    "two_more": Answers(
        "mystery_5: right, line 7, and line 24 with it.\nmystery_6: right, line 21.",
        {
            "the fill": ({"6: 21": "6: 20"}, "mystery_6: not line 20, though no probe can speak"),
            "the mask": ({"5: 7": "5: 19"}, "mystery_5: not line 19: it knows nothing of the"),
            "the other half": ({"5: 7": "5: 24"}, "mystery_5: right, line 24, and line 7 with it."),
            "the keys": ({"5: 7": "5: 14"}, "mystery_5: not line 14: it cannot matter at 'first"),
        },
    ),
}
