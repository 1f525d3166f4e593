"""Checks of what a learner does with the parameters of many heads, stacked or in one matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.checks.answers import accept, is_near, require, require_shape
from attncourse.checks.exercises import exercise_check
from attncourse.checks.safe_run import draw
from attncourse.checks.verdict import Verdict
from attncourse.examples import seeded
from attnlib.convert import PROJECTIONS, join_heads
from attnlib.modules import MultiHeadAttention, MultiHeadAttentionWrapper

OTHERWISE = "The parameters are right, and the outputs differ: leave all else as it was."


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

    >>> check_copied_weights(lambda stacked, split: split)
    W_query.weight is as it was: nothing was copied into it.
    """
    with seeded(0):  # primes: 3 heads of width 5, from tokens of width 7
        stacked = MultiHeadAttentionWrapper(7, 5, context_length=11, dropout=0.0, num_heads=3)
        split = MultiHeadAttention(7, 15, context_length=11, dropout=0.0, num_heads=3)
    given, fresh = deepcopy(stacked.state_dict()), deepcopy(split.state_dict())
    written = copy_weights(stacked, split)
    require(_is_as(stacked, given), "The stacked heads have changed: copy from them, into split.")
    mine, right = written.state_dict(), join_heads(given)
    said = "split.out_proj is another layer now: keep the nn.Linear, and fill its weight and bias."
    require("out_proj.weight" in mine, said)
    for name in (f"{projection}.weight" for projection in PROJECTIONS):
        require_shape(mine[name], tuple(right[name].shape), f", that of {name}")
        if not mine[name].equal(right[name]):
            untouched = mine[name].equal(fresh[name])
            require(not untouched, f"{name} is as it was: nothing was copied into it.")
            held = ", ".join(_block_names(mine[name], given))
            wanted = ", ".join(_block_names(right[name], given))
            return f"{name} holds, from top to bottom: {held}. It must be: {wanted}."
    out, bias = mine["out_proj.weight"], mine["out_proj.bias"]
    said = "out_proj.weight must be the identity, so that each column of the heads comes through."
    require(out.equal(right["out_proj.weight"]), said)
    require(not bias.any(), "out_proj.bias must be 0: it is added to every output.")
    x = draw(2, 11, 7)
    require(is_near(written(x), stacked(x)), OTHERWISE)
    return accept("Right: three heads of width 5, and one split of width 15.")


def _is_as(module: nn.Module, before: Mapping[str, Tensor]) -> bool:
    return all(before[name].equal(now) for name, now in module.state_dict().items())


def _block_names(matrix: Tensor, given: Mapping[str, Tensor]) -> list[str]:
    """Return for each third of a matrix the name of the head's matrix that it is."""
    return [
        next((name for name, rows in given.items() if rows.equal(block)), "a mixture")
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
    """Check a function that returns a module whose two heads have changed places.

    >>> check_swapped_heads(lambda module: module)
    You changed or returned the module itself: start from deepcopy(module).
    """
    with seeded(0):
        given = MultiHeadAttention(3, 10, context_length=7, dropout=0.0, num_heads=2)
    module = deepcopy(given)
    swapped = swap_heads(module)
    said = "You changed or returned the module itself: start from deepcopy(module)."
    require(swapped.W_query is not module.W_query, said)
    said = "You changed the module itself, and returned a copy of it: change the copy."
    require(_is_as(module, given.state_dict()), said)
    for name, dim in {"W_query": 0, "W_key": 0, "W_value": 0, "out_proj": 1}.items():
        before, after = getattr(given, name).weight, getattr(swapped, name).weight
        if not after.equal(before.roll(5, dims=dim)):
            return f"{name}.weight{_not_swapped(before, after, dim)}"
    said = "out_proj.bias has changed: it is added once, belongs to no head, and stays."
    require(swapped.out_proj.bias.equal(given.out_proj.bias), said)
    x = draw(2, 7, 3)
    require(is_near(swapped(x), given(x)), OTHERWISE)
    return accept("Right: the heads have changed places, the output has not.")


def _not_swapped(before: Tensor, after: Tensor, dim: int) -> str:
    """Say what became of a matrix whose rows (dim=0) or columns must change places by head."""
    lines, other = ("rows", "columns") if dim == 0 else ("columns", "rows")
    if after.equal(before):
        return f" is as it was: its {lines} have to change places by head."
    if after.equal(before.roll(5, dims=1 - dim)):
        return f": you moved its {other}, and a head is head_dim of its {lines}."
    for h, half in enumerate(before.chunk(2, dim)):
        if all(now.equal(half) for now in after.chunk(2, dim)):
            view = "A slice is a view: .clone() it first."
            return f": both heads hold the {lines} of head {h} now. {view}"
    return f": its {lines} have not changed places by head."


def _without_head(stacked: MultiHeadAttentionWrapper, h: int) -> MultiHeadAttentionWrapper:
    silent = deepcopy(stacked)
    nn.init.zeros_(silent.get_parameter(f"heads.{h}.W_value.weight"))
    return silent


@exercise_check(reference=_without_head)
def check_without_head(without_head: Callable[..., nn.Module]) -> Verdict:
    """Check a function that takes stacked heads and a number, and silences that head in a copy.

    >>> check_without_head(lambda stacked, h: stacked)
    Head 1 must be silent, and its columns are as they were.
    """
    with seeded(0):
        stacked = MultiHeadAttentionWrapper(7, 5, context_length=11, dropout=0.0, num_heads=3)
    x = draw(2, 11, 7)
    with torch.no_grad():
        before = stacked(x)
    for h in (1, 0, 2):
        silenced = without_head(stacked, h)
        with torch.no_grad():
            after, still = silenced(x), stacked(x)
        said = "The stack itself has changed: silence a head of copy.deepcopy(stacked)."
        require(still.equal(before), said)
        require_shape(after, tuple(before.shape), ": a silent head keeps its columns, as zeros")
        heads = list(zip(after.chunk(3, dim=-1), before.chunk(3, dim=-1), strict=True))
        for i, (now, then) in enumerate(heads):
            said = f"Head {h} must be silent, and the columns of head {i} have changed."
            require(i == h or now.equal(then), said)
        silent, spoken = heads[h]
        said = f"Head {h} must be silent, and its columns are as they were."
        require(not silent.equal(spoken), said)
        largest = silent.abs().max().item()
        said = f"Head {h} must be silent, and it still writes numbers up to {largest:.2f}."
        require(not silent.any(), f"{said} Which of its three matrices makes what it writes?")
    return accept("Right: the columns of the silent head are 0, and no other number moved.")
