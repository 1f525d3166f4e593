"""The check of what a learner does to a stack of heads: silence one."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import nn

from attncourse.checks.answers import noted, of_parameters, remedied, require, require_shape
from attncourse.checks.exercises import exercise_check
from attncourse.checks.verdict import Verdict
from attncourse.examples import journey, seeded
from attnlib.modules import MultiHeadAttentionWrapper


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
