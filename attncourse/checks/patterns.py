"""Checks of what a learner writes about where heads look: detectors of patterns, a muted layer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from attncourse.checks.answers import first_wrong_row, noted, require, require_mask
from attncourse.checks.exercises import exercise_check
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


def _two_letters(tokens: Tensor) -> Tensor:
    after = _induction(tokens)
    return after & after.roll((1, 1), dims=(1, 2))


@exercise_check(ours=_two_letters)
def check_two_letters(two_letters: Callable[[Tensor], Tensor]) -> Verdict | str:
    """Check the sharper detector: the earlier token must have the same token before it.

    >>> print(check_two_letters(lambda tokens: tokens))
    It is torch.int64, (2, 8); it must be torch.bool, (2, 8, 8).
    """

    def one(text: str, q: int, k: int) -> bool:
        return 0 < k <= q and text[k - 1] == text[q]

    problem = _problem(
        two_letters(_letters()),
        lambda text, q, k: one(text, q, k) and one(text, q - 1, k - 1),
        {
            "It asks for one letter only: this is induction.": one,
            "It asks only for the letter before; the query's own letter must match too.": (
                lambda text, q, k: one(text, q - 1, k - 1)
            ),
            "It asks for the next pair: move the table one query and one key the other way.": (
                lambda text, q, k: one(text, q, k) and one(text, (q + 1) % 8, (k + 1) % 8)
            ),
            "It moves the queries only; the keys must move with them.": (
                lambda text, q, k: one(text, q, k) and one(text, q - 1, k)
            ),
            "It moves the keys only; the queries must move with them.": (
                lambda text, q, k: one(text, q, k) and one(text, q, (k - 1) % 8)
            ),
            "Both letters must lead to one key, the one after the pair. Start from induction.": (
                lambda text, q, k: k < q and text[k] == text[q] and one(text, q - 1, k - 1)
            ),
            "It marks the earlier pair itself; the key that counts comes right after it.": (
                lambda text, q, k: 0 < k < q and text[k - 1 : k + 1] == text[q - 1 : q + 1]
            ),
            "Either letter is enough for it; both must match.": (
                lambda text, q, k: one(text, q, k) or one(text, q - 1, k - 1)
            ),
        },
    )
    return problem or noted("Right: two letters must match.")


@torch.no_grad()
def _mute_layer(model: nn.Module, layer: int) -> nn.Module:
    muted: Any = copy.deepcopy(model)
    for parameter in muted.layers[layer].out_proj.parameters():
        parameter.zero_()
    return cast(nn.Module, muted)


def check_mute_layer(written: Callable[..., nn.Module], model: nn.Module) -> Verdict:
    """Check a function that returns a copy of a model in which one layer adds nothing.

    Args:
        written: takes the model and a layer, counted from 0.
        model: with two layers at least in `layers`, each with an out_proj that has a bias.
    """

    @exercise_check(ours=_mute_layer)
    def check(mute_layer: Callable[..., nn.Module]) -> Verdict:
        mine: Any = copy.deepcopy(model)
        first, second = mine.layers[:2]
        x = torch.ones(1, 5, second.W_query.in_features)
        before = second(x)
        muted: Any = mute_layer(mine, 1)
        require(mine.layers[1](x).equal(before), "The model itself has changed: work on a copy.")
        said = "Layer 0 has changed; layers count from 0, so layer=1 is the second."
        require(muted.layers[0](x).equal(first(x)), said)
        added = muted.layers[1](x)
        said = "Both heads are silent, but out_proj still adds its bias."
        require(not torch.allclose(added[0, 0], second.out_proj.bias), said)
        require(not added.any(), "The layer still adds something.")
        return noted("Right: nothing is added, not even the bias.")

    return check(written)
