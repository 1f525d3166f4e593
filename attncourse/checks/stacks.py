"""Checks of what a learner does to the heads of a stack: aim one, silence one."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn

from attncourse.checks.answers import (
    is_near,
    noted,
    of_parameters,
    remedied,
    require,
    require_shape,
)
from attncourse.checks.exercises import exercise_check
from attncourse.checks.verdict import Verdict
from attncourse.examples import journey, seeded
from attnlib.modules import CausalAttention, MultiHeadAttentionWrapper


@torch.no_grad()
def _look_at_first(head: CausalAttention) -> CausalAttention:
    for W in (head.W_query, head.W_key, head.W_value):
        W.weight.copy_(torch.eye(len(W.weight)))
    head.W_query.weight.zero_()
    head.W_query.weight[0] = 20  # every column: all tokens ask the same
    return head


@exercise_check(ours=_look_at_first)
def check_look_at_first(look_at_first: Callable[..., nn.Module]) -> Verdict | str:
    """Check a function that makes a head look at token 0, whichever token asks.

    Args:
        look_at_first: takes a CausalAttention with d_in and d_out 6, sets its parameters and
            returns it. The tokens are the rows of torch.eye(6): token t has a 1 at place t.

    >>> check_look_at_first(lambda head: head)
    Token 5 gives token 0 0.16 of its weight and token 3 0.19: it must all go to token 0.
    """
    with seeded():
        head = CausalAttention(6, 6, context_length=6, dropout=0.0)
    with remedied(of_parameters):
        aimed = look_at_first(head)
    with torch.no_grad():
        context_vec, attn_weights = aimed(torch.eye(6)[None], return_weights=True)
    for token in (5, 4, 3, 2, 1):
        if attn_weights[0, token, 0] <= 0.99:
            return _not_first(aimed, attn_weights[0, token], token)
    said = "All look at token 0, but what they get is not its vector: what does W_value do?"
    require(is_near(context_vec[0], torch.eye(6)[0].expand(6, 6), near=0.01), said)
    return noted("Right: all six tokens look at token 0 and get its vector.")


def _not_first(head: nn.Module, row: Tensor, token: int) -> str:
    """Say where a token looks that does not look at token 0."""
    at_first, other = row[0].item(), 1 + int(row[1:].argmax())
    if row[: token + 1].max() - row[: token + 1].min() < 1e-6:
        return f"Token {token} looks at all tokens evenly: {_why_even(head, token)}"
    if at_first > row[other] + 0.01:
        only = f"Token {token} gives token 0 only {at_first:.2f} of its weight."
        return f"{only} Its score must be larger before softmax gives it all."
    left = head.get_parameter("W_query.weight").diagonal()[1:].eq(20).all()
    return (
        f"Token {token} gives token 0 {at_first:.2f} of its weight and token {other} "
        f"{row[other].item():.2f}: it must all go to token 0."
        + left
        * " The 20s of aim are still there: head.W_query.weight.zero_() first."
    )


def _why_even(head: nn.Module, token: int) -> str:
    """Return what makes the query of a token score all that it sees alike."""
    query, keys = head.get_parameter("W_query.weight")[:, token], head.get_parameter("W_key.weight")
    scores = query @ keys  # by the token whose key it is
    if not query.any() or keys.equal(keys[:, :1].expand_as(keys)):
        return (
            "its query is 0, or all keys are equal. Did you fill a column? Column t of "
            "W_query.weight is the query of token t, column t of W_key.weight is its key."
        )
    column, wanted = f"its query, column {token} of W_query.weight,", int(scores.argmax())
    if wanted > token and scores[wanted] > scores[0]:
        return f"{column} asks for token {wanted}, which the mask hides."
    return f"{column} asks for each of them alike. Which of its numbers asks for token 0?"


def _without_head(stacked: MultiHeadAttentionWrapper, h: int) -> MultiHeadAttentionWrapper:
    silent = deepcopy(stacked)
    nn.init.zeros_(silent.get_parameter(f"heads.{h}.W_value.weight"))
    return silent


@exercise_check(ours=_without_head)
def check_without_head(without_head: Callable[..., nn.Module]) -> Verdict:
    """Check a function that silences one head of a stack.

    Args:
        without_head: takes a MultiHeadAttentionWrapper and the number of a head, counted from 0,
            and returns a copy whose columns of that head are 0, the others as they were.

    >>> check_without_head(lambda stacked, h: stacked)
    Head 1 must be silent, and its columns are as they were.
    """
    with seeded():
        stacked = MultiHeadAttentionWrapper(3, 2, context_length=6, dropout=0.0, num_heads=3)
    x = journey().batch()
    with torch.no_grad():
        before = stacked(x)
    for h in (1, 0, 2):
        with remedied(of_parameters):
            silenced = without_head(stacked, h)
        with torch.no_grad():
            after, still = silenced(x), stacked(x)
        said = "The stack itself has changed: silence a head of copy.deepcopy(stacked)."
        require(still.equal(before), said)
        require_shape(after, tuple(before.shape), ": a silent head keeps its columns, as zeros")
        by_head = (torch.split(columns, 2, dim=-1) for columns in (after, before))
        pairs = list(zip(*by_head, strict=True))
        for i, (now, then) in enumerate(pairs):
            said = f"Head {h} must be silent, and the columns of head {i} have changed."
            require(i == h or now.equal(then), said)
        silent, spoken = pairs[h]
        said = f"Head {h} must be silent, and its columns are as they were."
        require(not silent.equal(spoken), said)
        require(
            not silent.any(),
            f"Head {h} still writes up to {silent.abs().max().item():.2f}. An even look is a "
            "look: which of the three matrices makes what is written?",
        )
    return noted("Right: the columns of the silent head are 0, and no other number moved.")
