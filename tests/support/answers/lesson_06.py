"""Typical wrong answers to the exercises of lesson 06, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

ANSWERS = {
    "is_causal": Answers(
        "Right: it finds 12 classes that leak, and lets 5 others pass.",
        {
            "all outputs": ({"[:, :t]": ""}, "It rejects the right class. When token t changes,"),
            "one row too many": ({"[:, :t]": "[:, : t + 1]"}, "It rejects the right class. When"),
            "x itself": ({"x.clone()": "x"}, "It changes the x that it was given"),
            "all numbers alike": (
                {"[:, t, 0] += 1": "[:, t] += 1"},
                "It lets a class through that leaks behind a LayerNorm",
            ),
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
            "prefixes": (
                {"module(changed)[:, :t]": "module(x[:, :t])"},
                "It rejects the mistake 'both without transpose', which is causal, though wrong.",
            ),
            "return inside the loop": (
                {"    return True": "        return True"},
                "Only token 1 is ever changed, and a class goes through in which token 2 is seen",
            ),
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
        },
    ),
    "any_scale": Answers(
        "Right: it notices 'mask one too late', 'both without transpose', 'merge without "
        "transpose', and is blind to 'no scale', 'scale by d_out'.",
        {
            "nothing changed": ({"1e6": "1"}, "It also notices the mistake 'no scale': the scores"),
            "one token": ({"module(x)": "module(x[:, :1])"}, "It does not notice the mistake"),
            "no values": (
                {"W_key": "W_value", "1e6": "0"},
                "With W_value at 0 all tokens get the same",
            ),
            "no output": (
                {"W_key": "out_proj", "1e6": "0"},
                "With out_proj at 0 all tokens get the",
            ),
            "the weights too": (
                {"module(x)": "module(x, return_weights=True)"},
                "Return the outputs alone, one tensor",
            ),
        },
    ),
    "found": Answers(
        "mystery_2: Right, the queries and keys: no probe leaves anything else.\n"
        "mystery_3: Right, the merge: no probe leaves anything else.\n"
        "mystery_4: Right, the scale: no probe leaves anything else.",
        {
            "the scale": (
                {'"queries and keys"': '"scale"'},
                "mystery_2: Not the scale: at 'huge scores' its faults never show, and this class",
            ),
            "the split": (
                {'"merge"': '"split"'},
                "mystery_3: Not the split: at 'the weights' its faults always show, and this class",
            ),
            "the values": ({'"merge"': '"values"'}, "mystery_3: Not the values: at 'one head'"),
            "the mask": (
                {'"scale"': '"mask and softmax"'},
                "mystery_4: Not the mask and softmax: at ",
            ),
            "a line": ({'"scale"': "18"}, "mystery_4: 18 is no part. There are: queries and keys,"),
            "some left": ({'"scale"': "None"}, "mystery_4: not attempted yet"),
        },
    ),
    "part": Answers(
        "Right, the values: no probe leaves anything else.",
        {
            "another part": (
                {"part = (set(checks.grid()) - set(checks.strikes(case))).pop()": 'part = "merge"'},
                "Not the merge: at 'one head' its faults never show, and this class is wrong",
            ),
        },
    ),
}
