"""Checks of what a learner does to the heads of a stack: aim one, silence one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from attncourse.checks.exercises import exercise_check
from attncourse.checks.plain_words import PARAMETERS, in_plain_words
from attncourse.examples import journey, seeded
from attnlib.modules import CausalAttention, MultiHeadAttentionWrapper

OF_A_HEAD = PARAMETERS | {
    "'CausalAttention'": (
        "A head is no tensor. It has three layers, each with a parameter, such as W_query.weight."
    ),
}


@exercise_check
def check_look_at_first(look_at_first: Callable[..., nn.Module]) -> str:
    """Check a function that makes a head look at token 0, whichever token asks.

    Args:
        look_at_first: takes a CausalAttention with d_in and d_out 6, sets its parameters and
            returns it. The tokens are the rows of torch.eye(6): token t has a 1 at place t.

    Returns:
        A sentence.

    >>> check_look_at_first(lambda head: head)
    'Token 5 gives token 0 0.16 of its weight and token 3 0.19: it must all go to token 0.'
    """
    with seeded():
        head = CausalAttention(6, 6, context_length=6, dropout=0.0)
    with in_plain_words(OF_A_HEAD):
        aimed = look_at_first(head)
    with torch.no_grad():
        context_vec, attn_weights = aimed(torch.eye(6)[None], return_weights=True)
    for token in (5, 4, 3, 2, 1):
        row = attn_weights[0, token]
        at_first, other = row[0].item(), 1 + int(row[1:].argmax())
        if at_first > 0.99:
            continue
        if row[: token + 1].max() - row[: token + 1].min() < 1e-6:
            return f"Token {token} looks at all tokens evenly: {_why_even(aimed, token)}"
        if at_first > row[other] + 0.01:
            return (
                f"Token {token} gives token 0 only {at_first:.2f} of its weight. It is the right "
                "token; its score must be larger before softmax gives it all."
            )
        said = (
            f"Token {token} gives token 0 {at_first:.2f} of its weight and token {other} "
            f"{row[other].item():.2f}: it must all go to token 0."
        )
        if aimed.get_parameter("W_query.weight").diagonal()[1:].eq(20).all():
            said += " The 20s of aim are still there: head.W_query.weight.zero_() first."
        return said
    if not torch.allclose(context_vec[0], torch.eye(6)[0].expand(6, 6), atol=0.01):
        return "All look at token 0, but what they get is not its vector: what does W_value do?"
    return "Right: all six tokens look at token 0 and get its vector."


def _why_even(head: nn.Module, token: int) -> str:
    """Return what makes the query of a token score all that it sees alike."""
    query, keys = head.get_parameter("W_query.weight")[:, token], head.get_parameter("W_key.weight")
    scores = query @ keys  # by the token whose key it is
    if query.any() and not torch.equal(keys, keys[:, :1].expand_as(keys)):
        column = f"its query, column {token} of W_query.weight,"
        wanted = int(scores.argmax())
        if wanted > token and scores[wanted] > scores[0]:
            return f"{column} asks for token {wanted}, which the mask hides."
        return f"{column} asks for each of them alike. Which of its numbers asks for token 0?"
    return (
        "its query is 0, or all keys are equal. Did you fill a column? Column t of "
        "W_query.weight is the query of token t, column t of W_key.weight is its key."
    )


@exercise_check
def check_without_head(without_head: Callable[..., nn.Module]) -> str:
    """Check a function that silences one head of a stack.

    Args:
        without_head: takes a MultiHeadAttentionWrapper and the number of a head, counted from 0,
            and returns a copy whose columns of that head are 0, the others as they were.

    Returns:
        A sentence.

    >>> check_without_head(lambda stacked, h: stacked)
    'Head 1 is to be silent, and its columns are as they were.'
    """
    with seeded():
        stacked = MultiHeadAttentionWrapper(3, 2, context_length=6, dropout=0.0, num_heads=3)
    x = journey().batch()
    with torch.no_grad():
        before = stacked(x)
    for h in (1, 0, 2):
        with in_plain_words(OF_A_HEAD):
            silenced = without_head(stacked, h)
        with torch.no_grad():
            after = silenced(x)
            if not stacked(x).equal(before):
                return "The stack itself has changed: silence a head of copy.deepcopy(stacked)."
            if after.shape != before.shape:
                return (
                    f"The result is {tuple(after.shape)}, not {tuple(before.shape)}: a silent "
                    "head keeps its columns, as zeros."
                )
            pairs = list(
                zip(torch.split(after, 2, dim=-1), torch.split(before, 2, dim=-1), strict=True)
            )
            others = [i for i, (now, then) in enumerate(pairs) if i != h and not now.equal(then)]
            if others:
                return (
                    f"Head {h} is to be silent, and the columns of head {others[0]} have changed."
                )
            silent, spoken = pairs[h]
            if silent.equal(spoken):
                return f"Head {h} is to be silent, and its columns are as they were."
            if silent.any():
                return (
                    f"Head {h} still writes up to {silent.abs().max().item():.2f}. An even look "
                    "is a look: which of the three matrices makes what is written?"
                )
    return "Right: the columns of the silent head are 0, and no other number moved."
