"""Typical wrong answers to the exercises of appendix A1, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

ANSWERS = {
    "scores_row": Answers(
        "Right: each key of head 0, multiplied by the query of token 1.",
        {
            "divided": ({"1.7, -3.55, -0.75": "0.98, -2.05, -0.43"}, "Divided already"),
            "the column": ({"1.7, -3.55, -0.75": "2.12, -3.55, -0.81"}, "is column 1"),
            "both heads": ({"7, -3.55, -0.75": "02, -0.24, -0.18"}, "both heads."),
            "masked": ({"-0.75": "0"}, "The mask comes later: here every key has a score."),
            "signs": ({"[-1.7, -3.55, -0.75]": "[1.7, 3.55, 0.75]"}, "The signs are turned"),
            "head 1": ({"[-1.7, -3.55, -0.75]": "[0.68, 3.31, 0.57]"}, "the row of head 1,"),
            "token 2": ({"-1.7, -3.55, -0.75": "0.39, -0.81, -0.06"}, "row of token 2,"),
            "a sign": ({"-3.55": "-1.25"}, "You have -1.25 for key 1: multiply the query of token"),
            "two numbers": ({", -0.75": ""}, "It must be 3 numbers, one for each key."),
            "words": ({"-0.75": "'x'"}, "It must be 3 numbers, one for each key."),
        },
    ),
    "weights_row": Answers(
        "Right: 2 keys share the attention of token 1.",
        {
            "not divided": ({"0.74, 0.26": "0.864, 0.136"}, "divide by the root of 3 first."),
            "divided by 3": ({"0.74, 0.26": "0.65, 0.35"}, "Divided by 3: it is the root"),
            "not normalized": ({"0.74, 0.26": "0.375, 0.129"}, "Those are the exponentials."),
            "shares of scores": ({"0.74, 0.26": "0.324, 0.676"}, "Shares of the scores them"),
            "not masked": ({"0.74, 0.26, 0.0": "0.31, 0.11, 0.54"}, "Key 2 is in the future of"),
            "no sum of 1": ({"0.26": "0.36"}, "The row sums to 1.10, not to 1."),
            "the wrong way round": ({"0.74, 0.26": "0.26, 0.74"}, "Right numbers at wrong places:"),
            "a slip": ({"0.74, 0.26": "0.6, 0.4"}, "The row sums to 1, but its numbers are not"),
            "rounded up": ({"0.74, 0.26": "0.75, 0.25"}, "The row sums to 1, but its numbers are"),
            "divided scores": ({"0.74, 0.26": "-0.98, -2.05"}, "Those are the divided scores."),
            "one number": ({"[0.74, 0.26, 0.0]": "0.74"}, "It must be 3 numbers"),
            "divided by the root of 6": ({"0.74, 0.26": "0.68, 0.32"}, "Divided by the root of 6:"),
            "divided scores, masked": (
                {"0.74, 0.26, 0.0": '-0.98, -2.05, float("-inf")'},
                "Those are the divided scores, the future hidden. Softmax comes next.",
            ),
        },
    ),
    "broken": Answers(
        "Right: 7, 8 and 9 do not follow. Steps 10 and 11 only move numbers, and do.",
        {
            "the last alone": ({"7, 8, 9": "9"}, "So far 9: right. Those are not all."),
            "two of them": ({"8, ": ""}, "So far 7, 9: right. Those are not all."),
            "a swap": ({"9}": "10}"}, "Step 10 follows: it moves the row of step 9"),
            "the merge": ({"9}": "11}"}, "Step 11 follows: the first three numbers are"),
            "a number": ({"{7, 8, 9}": "7"}, "So far 7: right. Those are not all."),
            "a number with a point": ({"{7, 8, 9}": "7.5"}, "It must be a set of numbers"),
            "none": ({"{7, 8, 9}": "set()"}, "At least one of them does not follow"),
            "a step above": ({"7, 8, 9": "4, 7"}, "Step 4 is not asked for here: only steps"),
            "text": ({"{7, 8, 9}": "'789'"}, "It must be a set of numbers, such as"),
        },
    ),
}
