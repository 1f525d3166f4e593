"""Checks of what a learner does with the parameters of many heads, stacked or in one matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.checks.answers import (
    FailedCall,
    in_words,
    is_near,
    noted,
    of_parameters,
    remedied,
    require,
    require_shape,
)
from attncourse.checks.exercises import exercise_check
from attncourse.checks.safe_run import draw
from attncourse.checks.verdict import Verdict
from attncourse.examples import journey, seeded
from attnlib.convert import PROJECTIONS, join_heads
from attnlib.modules import MultiHeadAttention, MultiHeadAttentionWrapper

OTHERWISE = "The parameters are right, and the outputs differ: leave all else as it was."
GIVEN = "Here are 3 heads of width 5, for tokens of width 7."


def _copy_weights(
    stacked: MultiHeadAttentionWrapper, split: MultiHeadAttention
) -> MultiHeadAttention:
    split.load_state_dict(join_heads(stacked.state_dict()))
    return split


@exercise_check(reference=_copy_weights)
def check_copied_weights(copy_weights: Callable[..., Any]) -> Verdict | str:
    """Examine a function that copies the parameters of stacked heads into a weight split.

    Args:
        copy_weights: takes a MultiHeadAttentionWrapper and a MultiHeadAttention of the same sizes,
            both without qkv_bias, and returns the second with the parameters of the first,
            out_proj being the identity with bias 0.

    >>> check_copied_weights(lambda stacked, split: split)
    W_query.weight is as it was: nothing was copied into it.
    """
    with seeded(0):  # primes: 3 heads of width 5, from tokens of width 7
        stacked = MultiHeadAttentionWrapper(7, 5, context_length=11, dropout=0.0, num_heads=3)
        split = MultiHeadAttention(7, 15, context_length=11, dropout=0.0, num_heads=3)
    given, fresh = deepcopy(stacked.state_dict()), deepcopy(split.state_dict())
    with remedied(_of_copies):
        written = copy_weights(stacked, split)
    require(_is_as(stacked, given), "The stacked heads have changed: copy from them, into split.")
    mine, right = written.state_dict(), join_heads(given)
    require(
        "out_proj.weight" in mine,
        "split.out_proj is another layer now. Keep the nn.Linear: with which weight, and which "
        "bias, does it return what it gets?",
    )
    for name in (f"{projection}.weight" for projection in PROJECTIONS):
        require_shape(mine[name], tuple(right[name].shape), f" of {name}")
        if not mine[name].equal(right[name]):
            untouched = mine[name].equal(fresh[name])
            require(not untouched, f"{name} is as it was: nothing was copied into it.")
            held = ", ".join(_block_names(mine[name], given, name.removesuffix(".weight")))
            return f"{name} holds, from top to bottom: {held}. It must be head 0, head 1, head 2."
    out, bias = mine["out_proj.weight"], mine["out_proj.bias"]
    require(out.any(), "out_proj.weight is 0: nothing that the heads find gets through.")
    said = "out_proj.weight must be the identity: it still mixes the heads' columns."
    require(out.equal(right["out_proj.weight"]), said)
    require(not bias.any(), "out_proj.bias must be 0: it is added to every output.")
    x = draw(2, 11, 7)
    require(is_near(written(x), stacked(x)), OTHERWISE)
    return noted("Right: three heads of width 5, and one split of width 15.")


def _is_as(module: nn.Module, before: Mapping[str, Tensor]) -> bool:
    return all(before[name].equal(now) for name, now in module.state_dict().items())


def _of_copies(error: BaseException, call: FailedCall) -> str | None:
    """Return what is wrong with the sizes of a copy, of which PyTorch names one."""
    if (said := of_parameters(error, call)) is not None:
        return said
    if call.name != "copy_":
        return f"{in_words(error)} {GIVEN}"
    into, given = call.shapes
    why = GIVEN
    if given == (5, 21):
        why = "nn.Linear stores the transpose: the heads must be one below the other, dim=0."
    elif len(given) > len(into):
        why = "torch.cat joins the heads; torch.stack puts them into a new dimension."
    elif given in ((7, 15), (21, 5)):
        why = "nn.Linear stores its matrix transposed, so no .T is needed."
    return f"The matrix is {given}, and the parameter that it is copied into is {into}. {why}"


def _block_names(matrix: Tensor, given: Mapping[str, Tensor], projection: str) -> list[str]:
    """Return for each third of a matrix the head, and where it is another, the projection."""
    names = []
    for block in matrix.chunk(3):
        found = [name.split(".") for name, rows in given.items() if rows.equal(block)]
        heads = [f"head {h}" if of == projection else f"{of} of head {h}" for _, h, of, _ in found]
        names.append(heads[0] if heads else "a mixture")
    return names


@torch.no_grad()
def _swap_heads(module: MultiHeadAttention) -> MultiHeadAttention:
    swapped, width = deepcopy(module), module.head_dim
    for projection in (swapped.W_query, swapped.W_key, swapped.W_value):
        projection.weight.copy_(projection.weight.roll(width, dims=0))
    swapped.out_proj.weight.copy_(swapped.out_proj.weight.roll(width, dims=1))
    return swapped


@exercise_check(reference=_swap_heads)
def check_swapped_heads(swap_heads: Callable[..., Any]) -> Verdict | str:
    """Examine a function that lets two heads change places without changing the output.

    Args:
        swap_heads: takes a MultiHeadAttention of two heads, and returns a changed copy.

    >>> check_swapped_heads(lambda module: module)
    You changed or returned the module itself: start from deepcopy(module).
    """
    with seeded(0):
        given = MultiHeadAttention(3, 10, context_length=7, dropout=0.0, num_heads=2)
    module = deepcopy(given)
    with remedied(of_parameters):
        swapped = swap_heads(module)
    said = "You changed or returned the module itself: start from deepcopy(module)."
    require(swapped.W_query is not module.W_query, said)
    said = "You changed the module itself, and returned a copy of it: change the copy."
    require(_is_as(module, given.state_dict()), said)
    for name, dim in {"W_query": 0, "W_key": 0, "W_value": 0, "out_proj": 1}.items():
        before, after = getattr(given, name).weight, getattr(swapped, name).weight
        if not after.equal(before.roll(5, dims=dim)):
            return f"{name}.weight{_not_swapped(before, after, dim, name)}"
    said = "out_proj.bias has changed: it is added once, belongs to no head, and stays."
    require(swapped.out_proj.bias.equal(given.out_proj.bias), said)
    x = draw(2, 7, 3)
    require(is_near(swapped(x), given(x)), OTHERWISE)
    return noted("Right: the heads have changed places, the output has not.")


def _not_swapped(before: Tensor, after: Tensor, dim: int, name: str) -> str:
    of, other = ("rows", "columns")[dim], ("columns", "rows")[dim]
    if after.equal(before):
        kept = " roll returns a new tensor: is it copied back, weight.copy_(...)?"
        said = f" is as it was: its {of} have to change places by head."
        return said + kept * (name == "W_query")  # the others are likely forgotten
    if any(after.equal(before.roll(by, dims=dim)) for by in (1, -1)):
        return f": its {of} moved by one, but a head is head_dim of them wide, five here."
    if after.equal(before.roll(5, dims=1 - dim)):
        if name == "out_proj":
            return ": you moved its rows, the columns of the result. Its columns read the heads."
        return f": you moved its {other}. nn.Linear stores the transpose: a head is head_dim {of}."
    for h, half in enumerate(before.chunk(2, dim)):
        if all(now.equal(half) for now in after.chunk(2, dim)):
            view = "A slice is a view, and changes with the matrix: .clone() it first."
            return f": both heads hold the {of} of head {h} now. {view}"
    return f": its {of} have not changed places by head."


def _without_head(stacked: MultiHeadAttentionWrapper, h: int) -> MultiHeadAttentionWrapper:
    silent = deepcopy(stacked)
    nn.init.zeros_(silent.get_parameter(f"heads.{h}.W_value.weight"))
    return silent


@exercise_check(reference=_without_head)
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
