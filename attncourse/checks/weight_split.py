"""Checks of what a learner does with the parameters of many heads, stacked or in one matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.checks.answers import require, require_shape
from attncourse.checks.exercises import exercise_check
from attncourse.checks.safe_run import draw
from attncourse.checks.verdict import Verdict
from attncourse.examples import seeded
from attnlib.convert import join_heads
from attnlib.modules import MultiHeadAttention, MultiHeadAttentionWrapper


def _copy_weights(
    stacked: MultiHeadAttentionWrapper, split: MultiHeadAttention
) -> MultiHeadAttention:
    split.load_state_dict(join_heads(stacked.state_dict()))
    return split


@exercise_check(reference=_copy_weights)
def check_copied_weights(copy_weights: Callable[..., Any]) -> Verdict | str:
    """Check a function that copies the parameters of stacked heads into a weight split.

    It takes a MultiHeadAttentionWrapper and a MultiHeadAttention, both without qkv_bias, and
    returns the second. Its out_proj must be the identity with bias 0.
    """
    with seeded(0):  # primes: 3 heads of width 5, from tokens of width 7
        stacked = MultiHeadAttentionWrapper(7, 5, context_length=11, dropout=0.0, num_heads=3)
        split = MultiHeadAttention(7, 15, context_length=11, dropout=0.0, num_heads=3)
    given = deepcopy(stacked.state_dict())
    mine, right = copy_weights(stacked, split).state_dict(), join_heads(given)
    require(_is_as(stacked, given), "The stacked heads have changed: copy from them, into split.")
    for name, wanted in right.items():
        require(name in mine, f"split has no {name} now: keep its layers, and fill their weights.")
        require_shape(mine[name], tuple(wanted.shape), f", that of {name}")
        if mine[name].equal(wanted):
            continue
        if name == "out_proj.weight":
            return f"{name} must be the identity, so that each column of the heads comes through."
        if name == "out_proj.bias":
            return f"{name} must be 0: it is added to every output."
        held, must = (", ".join(_block_names(table[name], given)) for table in (mine, right))
        return f"{name} holds, from top to bottom: {held}. It must hold: {must}."
    return Verdict(True, "Right: three heads of width 5, and one split of width 15.")


def _is_as(module: nn.Module, before: Mapping[str, Tensor]) -> bool:
    return all(before[name].equal(now) for name, now in module.state_dict().items())


def _block_names(matrix: Tensor, given: Mapping[str, Tensor]) -> list[str]:
    """Return for each third of a matrix the name of the head's matrix that it is."""
    return [
        next((name for name, rows in given.items() if rows.equal(block)), "other rows")
        for block in matrix.chunk(3)
    ]


@torch.no_grad()
def _swap_heads(module: MultiHeadAttention) -> MultiHeadAttention:
    swapped, width = deepcopy(module), module.head_dim
    for projection in (swapped.W_query, swapped.W_key, swapped.W_value):
        projection.weight.copy_(projection.weight.roll(width, dims=0))
    swapped.out_proj.weight.copy_(swapped.out_proj.weight.roll(width, dims=1))
    return swapped


@exercise_check(reference=_swap_heads)
def check_swapped_heads(swap_heads: Callable[..., Any]) -> Verdict | str:
    """Check a function that returns a module whose two heads have changed places."""
    with seeded(0):
        given = MultiHeadAttention(3, 10, context_length=7, dropout=0.0, num_heads=2)
    module = deepcopy(given)
    swapped = swap_heads(module)
    said = "You changed or returned the module itself: start from deepcopy(module)."
    require(swapped is not module and _is_as(module, given.state_dict()), said)
    for name, dim in {"W_query": 0, "W_key": 0, "W_value": 0, "out_proj": 1}.items():
        before, after = getattr(given, name).weight, getattr(swapped, name).weight
        lines = ("rows", "columns")[dim]
        if after.equal(before):
            return f"{name}.weight is as it was: its {lines} have to change places by head."
        if not after.equal(before.roll(5, dims=dim)):
            said = f"{name}.weight: its {lines} have not changed places by head"
            return f"{said}. If you copy a slice over another, .clone() it first: it is a view."
    said = "out_proj.bias has changed: it is added once, belongs to no head, and stays."
    require(swapped.out_proj.bias.equal(given.out_proj.bias), said)
    return Verdict(True, "Right: the heads have changed places, the output has not.")


def _without_head(stacked: MultiHeadAttentionWrapper, h: int) -> MultiHeadAttentionWrapper:
    silent = deepcopy(stacked)
    nn.init.zeros_(silent.get_parameter(f"heads.{h}.W_value.weight"))
    return silent


@exercise_check(reference=_without_head)
def check_without_head(without_head: Callable[..., nn.Module]) -> Verdict:
    """Check a function that takes stacked heads and a number, and silences that head in a copy."""
    with seeded(0):
        stacked = MultiHeadAttentionWrapper(7, 5, context_length=11, dropout=0.0, num_heads=3)
    x = draw(2, 11, 7)
    before = stacked(x)
    for h in (1, 0, 2):
        after = without_head(stacked, h)(x)
        said = "The stack itself has changed: silence a head of copy.deepcopy(stacked)."
        require(stacked(x).equal(before), said)
        require_shape(after, tuple(before.shape), ": a silent head keeps its columns, as zeros")
        said = f"Head {h} must be silent, and "
        for i, (now, then) in enumerate(zip(after.chunk(3, -1), before.chunk(3, -1), strict=True)):
            if i != h:
                require(now.equal(then), f"{said}the columns of head {i} have changed.")
                continue
            require(not now.equal(then), f"{said}its columns are as they were.")
            more = f"it still writes numbers up to {now.abs().max():.2f}. Which of its three"
            require(not now.any(), f"{said}{more} matrices makes what it writes?")
    return Verdict(True, "Right: the columns of the silent head are 0, and no other number moved.")
