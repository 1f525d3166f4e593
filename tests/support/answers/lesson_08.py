"""Typical wrong answers to the exercises of lesson 08, and what each must be told."""

# ruff: noqa: E501  # tables: one case on a line

from support.exercise_tools import Answers

ANSWERS = {
    "induction": Answers(
        "Right: this marks what an induction head should look at.",
        {
            "the letters alone": ({".tril(-1).roll(1, dims=-1)": ""}, "It marks every key with"),
            "the occurrence itself": ({".roll(1, dims=-1)": ""}, "It marks the earlier letter"),
            "the key before": ({"roll(1,": "roll(-1,"}, "It marks the letter right before the"),
            "moved along the queries": ({"dims=-1": "dims=1"}, "It moves the marks from query to"),
            "the query itself": ({"tril(-1)": "tril()"}, "a letter is not earlier than itself."),
            "cut after the move": ({"tril(-1).roll(1, dims=": "roll(1, dims=-1).tril("}, "It moves first, then cuts: marks of the last key come in at key 0. Cut first."),
            "cut after the move, with the diagonal": ({"tril(-1).roll(1, dims=-1": "roll(1, dims=-1).tril("}, "Key 0 comes after no letter: what roll brings in there must not"),
            "numbers": ({"same.tril(-1)": "same.int().tril(-1)"}, "It is torch.int32"),
            "one text": ({"dims=-1)": "dims=-1)[0]"}, "It is torch.bool, (8, 8); it must be"),
            "no return": ({"return same": "same"}, "induction returns None: is the return"),
            "not cut": ({".tril(-1)": ""}, "It marks keys in the future too, and what roll brings in"),
        },
    ),
    "two_letters": Answers(
        "Right: two letters must match.",
        {
            "one letter": ({" & after.roll((1, 1), dims=(1, 2))": ""}, "It asks for one letter"),
            "only the letter before": ({"after & after": "after"}, "It asks only for the letter"),
            "one query earlier, the same key": ({"(1, 1), dims=(1, 2)": "1, dims=1"}, "It moves the queries only; the keys must move with them."),
            "the same query, one key earlier": ({"(1, 1), dims=(1, 2)": "1, dims=2"}, "It moves the keys only; the queries must move with them."),
            "the pair itself": ({"induction(tokens": "(tokens[:, :, None] == tokens[:, None, :]).tril(-1"}, "It marks the earlier pair itself; the key that counts comes"),
            "two keys": ({"return after": ("same = tokens[:, :, None] == tokens[:, None, :]\n    return same.tril(-1)")}, "Both letters must lead to one key, the one after the"),
            "one query earlier, the next key": ({"(1, 1), dims=(1, 2)": "(1, -1), dims=(1, 2)"}, "abcxbcab: query 5 must mark keys [3], not []."),
            "the pair after": ({"(1, 1), dims": "(-1, -1), dims"}, "It asks for the next pair:"),
            "either letter": ({"after & ": "after | "}, "Either letter is enough for it; both"),
            "numbers": ({"after & after": "after.float() * after"}, "It is torch.float32, (2, 8,"),
        },
    ),
    "mute_layer": Answers(
        "Right: nothing is added, not even the bias.",
        {
            "both heads, not the bias": (
                {
                    (
                        "deepcopy(model)\n"
                        "    for parameter in muted.layers[layer].out_proj.parameters():\n"
                        "        parameter.zero_("
                    ): ("learning.mute_head(learning.mute_head(model, layer, 0), layer, 1")
                },
                "Both heads are silent, but out_proj still adds its bias.",
            ),
            "no copy": ({"deepcopy(model)": "model"}, "The model itself has changed"),
            "the other layer": ({"layers[layer]": "layers[layer - 1]"}, "Layer 0 has changed"),
            "one head": ({("for parameter in muted.layers[layer].out_proj.parameters():\n        parameter.zero_("): ("muted = learning.mute_head(model, layer, 0")}, "The layer still adds something."),
            "no return": ({"    return muted\n": ""}, "mute_layer returns None: is the return"),
        },
    ),
}  # fmt: skip
