"""Checks of what a learner writes about one head: its weights, where it attends to, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attncourse.checks.answers import call_on_copies, compare, require, require_shape
from attncourse.checks.exercises import exercise_check, value_check
from attncourse.checks.safe_run import draw
from attncourse.checks.verdict import Verdict
from attnlib.functional import attention, causal_mask

ROUNDING = 2e-7  # between attention weights in 32 bits and in 64
# Taken from all scores, it changes no attention weight. A number such as -1e4 that hides scores is
# above those that are lower by LOW
LOW = 1e6


def _causal_weights(scores: Tensor) -> Tensor:
    is_future = causal_mask(scores.shape[-1])
    attn_scores = (scores / 8).masked_fill(is_future, -torch.inf)
    return torch.softmax(attn_scores, dim=-1)


def check_causal_weights(
    written: Callable[[Tensor], Tensor], scores: Tensor, used: Tensor
) -> Verdict:
    """Compare a learner's attention weights with those that a real model used.

    Args:
        written: takes raw scores and returns attention weights.
        scores: (num_layers, num_heads, num_tokens, num_tokens), of heads of width 64, neither
            scaled nor masked.
        used: of the same shape, the attention weights that the model made of them.
    """
    exact = scores.double()  # so that every right way to round is within the tolerance
    drawn = 8 * draw(*scores.shape).double()

    @exercise_check(reference=_causal_weights)
    def check(causal_weights: Callable[[Tensor], Tensor]) -> Verdict | str:
        inputs = [(exact,), (drawn,)]
        said = compare(causal_weights, inputs, _causal_weights, "causal_weights", ROUNDING)
        said = said or compare(causal_weights, inputs[:1], lambda _: used, near=ROUNDING)
        if said:
            return said
        lower = call_on_copies(causal_weights, [exact - LOW])[..., causal_mask(exact.shape[-1])]
        require(
            lower.nan_to_num().max() <= ROUNDING,
            "Right for these scores, but not for every score: if a score is lower than the number "
            "that hides, the weights of the future are not 0. Which number is below every other?",
        )
        num_heads = scores.shape[0] * scores.shape[1]
        which = f"all {num_heads} heads, {used.numel():,} attention weights"
        return Verdict(True, f"Right: {which}, are those that the model used.")

    return check(written)


def _look_back(num_tokens: int) -> Tensor:
    n: float = 10 * num_tokens**0.5
    return n * torch.eye(num_tokens).roll(1, dims=0)


@exercise_check(reference=_look_back)
def check_look_back(look_back: Callable[[int], Tensor]) -> Verdict | str:
    """Check queries that make a head attend to the token before; its keys are torch.eye."""
    for num_tokens in (6, 5, 60):
        queries = call_on_copies(look_back, [num_tokens])
        require_shape(queries, (num_tokens, num_tokens))
        require(queries.isfinite().all(), "0 times infinity is NaN: the number must be finite.")
        keys = torch.eye(num_tokens)
        is_future = causal_mask(num_tokens)
        attn_weights = attention(queries.detach().float(), keys, keys, is_future)[1]
        most = attn_weights.argmax(dim=-1).tolist()  # by token, the one that it attends to most
        for token in range(1, num_tokens):
            said = f"Of {num_tokens} tokens, token {token} attends most to token {most[token]}"
            require(most[token] == token - 1, f"{said}, and it must be token {token - 1}.")
        least = attn_weights.diagonal(-1).min().item()
        require(
            least > 0.99,
            f"The right token, but with too small a weight: of {num_tokens} tokens one gives only "
            f"{least:.2f} of its attention to the token before. Larger numbers in a query make "
            "larger scores, and the scores are divided by √num_tokens.",
        )
    sentence = "Right: of 6 tokens, of 5 and of 60, each looks one back with more than 0.99."
    return Verdict(True, sentence)


# Where a head should attend to, and an experiment

BATCHES = (("abcxbcab", "aabababb"), ("ccacabb", "abacaba", "bbcacbc"))  # letters as tokens


def _induction(tokens: Tensor) -> Tensor:
    return (tokens[:, :, None] == tokens[:, None, :]).tril(-1).roll(1, dims=-1)


@exercise_check(reference=_induction)
def check_induction(induction: Callable[[Tensor], Tensor]) -> Verdict | str:
    """Check a detector of the keys right after an earlier occurrence of the query's token.

    It takes tokens, (b, num_tokens), and returns bool, (b, num_tokens, num_tokens).
    """
    inputs = [
        (torch.tensor([["abcx".index(letter) for letter in text] for text in batch]),)
        for batch in BATCHES
    ]
    said = compare(induction, inputs, _induction, "induction")
    return said or Verdict(True, "Right: this marks what an induction head should attend to.")


KEYS, QUERIES = set(range(25)), set(range(25, 48))  # of the places of the lesson's texts


@value_check(reference=lambda: (0, 1, slice(25, 48)))
def check_refuting(design: Any) -> Verdict | str:
    """Check an experiment on the lesson's two layers: could it refute that two letters match?

    L0H1 is silent at places 0 to 24 already. The claim: queries after 24 find their key because
    L0H0 told it the letter two back, and L0H1 tells the query the letter one back. The design is
    (layer, head, places): the head that falls silent as well, and a slice of places.
    """
    match design:
        case (0 | 1 as layer, 0 | 1 as head, slice() as places):
            silent = set(range(48)[places])
        case _:
            return "It must be (layer, head, slice(first, after)), such as (1, 0, slice(25, 48))."
    found = {
        "Layer 1 names the answers. If it is silent, it names fewer, whoever told it where to "
        "attend to. So no result can speak against a claim about layer 0.": layer == 1,
        "This takes from the keys what the claim needs, and what its rival needs, too: both "
        "predict that the answers fall. What must the queries know by one of the two alone?": (
            head == 0 and silent & KEYS
        ),
        "By the claim L0H0 does nothing at those places, so it predicts that nothing falls, as "
        "nearly every other claim does. What must the queries know, and which head tells "
        "them?": head == 0,
        "L0H1 is silent at those places already: nothing can change.": not silent & QUERIES,
        "Some queries after 24 still hear L0H1, and are right for that reason: silence all.": (
            not silent >= QUERIES
        ),
    }
    right = (
        "Right: this could refute it. The claim says that the answers must fall now. If they "
        "stay, it is wrong."
    )
    return next((said for said, holds in found.items() if holds), Verdict(True, right))
