"""Checks of what a learner writes about where heads look: a detector, and an experiment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attncourse.checks.answers import first_wrong_row, noted, require_mask
from attncourse.checks.exercises import exercise_check, value_check
from attncourse.checks.verdict import Verdict

TEXTS = ("abcxbcab", "aabababb")  # two texts of a batch; letters as they occur in them
Rule = Callable[[str, int, int], bool]


def _letters() -> Tensor:
    return torch.tensor([[ord(letter) - ord("a") for letter in text] for text in TEXTS])


def _marked(rule: Rule) -> Tensor:
    size = range(len(TEXTS[0]))
    return torch.tensor([[[rule(text, q, k) for k in size] for q in size] for text in TEXTS])


def _problem(mine: Tensor, right: Rule, usual: dict[str, Rule]) -> str | None:
    """Return what is wrong with a pattern, or None: a usual mistake, or the first wrong row."""
    expected = _marked(right)
    require_mask(mine, tuple(expected.shape))
    if mine.equal(expected):
        return None
    for sentence, rule in usual.items():
        if mine[:, 1:].equal(_marked(rule)[:, 1:]):  # query 0 may hold what roll brings
            return sentence
    text = 0 if not mine[0].equal(expected[0]) else 1
    query, keys, wanted = first_wrong_row(mine[text], expected[text])
    return f"{TEXTS[text]}: query {query} must mark keys {wanted}, not {keys}."


def _induction(tokens: Tensor) -> Tensor:
    return (tokens[:, :, None] == tokens[:, None, :]).tril(-1).roll(1, dims=-1)


@exercise_check(ours=_induction)
def check_induction(induction: Callable[[Tensor], Tensor]) -> Verdict | str:
    """Check a detector of the keys right after an earlier occurrence of the query's token.

    Args:
        induction: takes tokens, int64, (b, num_tokens), and returns bool, (b, num_tokens,
            num_tokens), True at those keys.

    >>> print(check_induction(lambda tokens: tokens[:, :, None] == tokens[:, None, :]))
    It marks every key with the query's own letter, later ones and itself included.
    """
    problem = _problem(
        induction(_letters()),
        lambda text, q, k: 0 < k <= q and text[k - 1] == text[q],
        {
            "It marks every key with the query's own letter, later ones and itself included.": (
                lambda text, q, k: text[k] == text[q]
            ),
            "It marks the earlier letter itself; the key that counts comes right after it.": (
                lambda text, q, k: k < q and text[k] == text[q]
            ),
            "It marks the letter right before the earlier one: move the marks the other way.": (
                lambda text, q, k: (k + 1) % 8 < q and text[(k + 1) % 8] == text[q]
            ),
            "It also marks the key after the query: a letter is not earlier than itself.": (
                lambda text, q, k: (k - 1) % 8 <= q and text[(k - 1) % 8] == text[q]
            ),
            "It marks keys in the future too: after which earlier letters may the query look?": (
                lambda text, q, k: k > 0 and text[k - 1] == text[q]
            ),
            "It marks keys in the future too, and what roll brings in at key 0: cut first, to the "
            "earlier letters.": lambda text, q, k: text[(k - 1) % 8] == text[q],
            "It misses the key at the query itself, when the same letter came right before.": (
                lambda text, q, k: 0 < k < q and text[k - 1] == text[q]
            ),
            "It moves first, then cuts: marks of the last key come in at key 0. Cut first.": (
                lambda text, q, k: k < q and text[(k - 1) % 8] == text[q]
            ),
            "Key 0 comes after no letter: what roll brings in there must not count. Cut first.": (
                lambda text, q, k: k <= q and text[(k - 1) % 8] == text[q]
            ),
            "It moves the marks from query to query; the keys are the last dimension, -1.": (
                lambda text, q, k: k < (q - 1) % 8 and text[k] == text[(q - 1) % 8]
            ),
        },
    )
    return problem or noted("Right: this marks what an induction head should look at.")


KEYS, QUERIES = range(25), range(25, 48)  # of the places of the lesson's texts


@value_check(ours=lambda: (0, 1, slice(25, 48)))
def check_refuting(design: Any) -> Verdict | str:
    """Check an experiment on the lesson's two layers: could it refute that two letters match?

    L0H1 is silent at places 0 to 24 already. The claim: queries after 24 find their key because
    L0H0 told it the letter two back, and L0H1 tells the query the letter one back.

    Args:
        design: (layer, head, places): the head that falls silent as well, and a slice of places.

    >>> check_refuting((0, 1, slice(25)))
    L0H1 is silent at those places already: nothing can change.
    """
    match design:
        case (0 | 1 as layer, 0 | 1 as head, slice() as places):
            silent = set(range(48)[places])
        case _:
            return "It must be (layer, head, slice(first, after)), such as (1, 0, slice(25, 48))."
    if layer == 1:
        return (
            "Layer 1 names the answers. Silent, it names fewer, whoever told it where to look: no "
            "claim about layer 0 can lose by that."
        )
    if head == 0 and silent & set(KEYS):
        return (
            "Now no head of layer 0 tells the keys anything, so the answers must fall, whatever "
            "it was that L0H0 had told them: the claim cannot lose. What else does it need, which "
            "could be taken away?"
        )
    if head == 0:
        return (
            "The claim gives L0H0 nothing to do there, so it says that nothing falls; so does "
            "nearly every other claim. What must the queries know, and from whom?"
        )
    if not silent & set(QUERIES):
        return "L0H1 is silent at those places already: nothing can change."
    if not silent >= set(QUERIES):
        return "Some queries after 24 still hear L0H1, and are right for that reason: silence all."
    return noted(
        "Right: this could refute it. The claim says that the answers must fall now. If they "
        "stay, it is wrong."
    )
