"""Typical wrong answers to the exercises of lesson 08, and what each must be told."""

from __future__ import annotations

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
            "cut after the move": (
                {"tril(-1).roll(1, dims=": "roll(1, dims=-1).tril("},
                "It moves first, then cuts: marks of the last key come in at key 0. Cut first.",
            ),
            "cut after the move, with the diagonal": (
                {"tril(-1).roll(1, dims=-1": "roll(1, dims=-1).tril("},
                "Key 0 comes after no letter: what roll brings in there must not",
            ),
            "numbers": ({"same.tril(-1)": "same.int().tril(-1)"}, "It is torch.int32"),
            "one text": ({"dims=-1)": "dims=-1)[0]"}, "It is torch.bool, (8, 8); it must be"),
            "not cut": (
                {".tril(-1)": ""},
                "It marks keys in the future too, and what roll brings in",
            ),
        },
    ),
    "design": Answers(
        "Right: this could refute it. The claim says that the answers must fall now. If they "
        "stay, it is wrong.",
        {
            "L0H0 at all keys, where both stories lose": (
                {"0, 1, slice(25, 48)": "0, 0, slice(0, 25)"},
                "and what its rival needs, too: by both the answers fall.",
            ),
            "L0H0 everywhere": (
                {"0, 1, slice(25, 48)": "0, 0, slice(48)"},
                "and what its rival needs, too: by both the answers fall.",
            ),
            "L0H0 at the queries": ({"0, 1, slice": "0, 0, slice"}, "gives L0H0 nothing to do"),
            "silent already": ({"slice(25, 48)": "slice(0, 25)"}, "is silent at those places"),
            "some queries": ({"slice(25, 48)": "slice(25, 40)"}, "Some queries after 24 still"),
            "layer 1": ({"0, 1, slice": "1, 1, slice"}, "Layer 1 names the answers."),
            "no such head": ({"0, 1, slice": "0, 2, slice"}, "It must be (layer, head, slice("),
        },
    ),
}
