"""Checks of what a learner does with the parameters of many heads in one matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attncourse.checks.attempt import draw
from attncourse.checks.exercises import exercise_check
from attncourse.checks.plain_words import PARAMETERS, in_plain_words
from attncourse.checks.verdicts import check_equal
from attncourse.examples import seeded
from attnlib.convert import PROJECTIONS, join_heads
from attnlib.modules import MultiHeadAttention, MultiHeadAttentionWrapper

GIVEN = "Here are 3 heads of width 5, for tokens of width 7."
COPYING = PARAMETERS | {
    r"RuntimeError: (The (?:heads side by side|matrix is) .*)": r"\1",
    r"Target sizes: \[(.*?)\].*sizes: \[(.*?)\]": (
        rf"The matrix is (\2), and what it is copied into is (\1). {GIVEN}"
    ),
    "too many values to unpack": f"{GIVEN} Loop over stacked.heads.",
}


@exercise_check
def check_copied_weights(copy_weights: Callable[..., Any]) -> str:
    """Examine a function that copies the parameters of stacked heads into a weight split.

    Args:
        copy_weights: takes a MultiHeadAttentionWrapper and a MultiHeadAttention of the same sizes,
            both without qkv_bias, and returns the second with the parameters of the first,
            out_proj being the identity with bias 0.

    Returns:
        A sentence: which matrix holds what.

    >>> check_copied_weights(lambda stacked, split: split)
    'W_query.weight is as it was: nothing was copied into it.'
    """
    with seeded(0):  # primes: 3 heads of width 5, from tokens of width 7
        stacked = MultiHeadAttentionWrapper(7, 5, context_length=11, dropout=0.0, num_heads=3)
        split = MultiHeadAttention(7, 15, context_length=11, dropout=0.0, num_heads=3)
    given, fresh = deepcopy(stacked.state_dict()), deepcopy(split.state_dict())
    with in_plain_words(COPYING), _SizesOfCopies():
        written = copy_weights(stacked, split)
    if any(not torch.equal(given[name], rows) for name, rows in stacked.state_dict().items()):
        return "The stacked heads have changed: copy from them, into split."
    mine, right = written.state_dict(), join_heads(given)
    if "out_proj.weight" not in mine:
        return (
            "split.out_proj is another layer now. Keep the nn.Linear, which can be trained later: "
            "with which weight, and which bias, does it return what it gets?"
        )
    for name in (f"{projection}.weight" for projection in PROJECTIONS):
        if mine[name].shape != right[name].shape:
            return f"{name} is {tuple(mine[name].shape)}, not {tuple(right[name].shape)}."
        if not torch.equal(mine[name], right[name]):
            if torch.equal(mine[name], fresh[name]):
                return f"{name} is as it was: nothing was copied into it."
            held = ", ".join(_block_names(mine[name], given, name.removesuffix(".weight")))
            return f"{name} holds, from top to bottom: {held}. It must be head 0, head 1, head 2."
    if not torch.equal(mine["out_proj.weight"], right["out_proj.weight"]):
        return "out_proj.weight is not the identity: it still mixes the heads' columns."
    if mine["out_proj.bias"].any():
        return "out_proj.bias is not 0: it is added to every output."
    x = draw(2, 11, 7)
    same = check_equal(written(x), stacked(x))
    return "Right: three heads of width 5, and one split of width 15." if same else str(same)


class _SizesOfCopies(TorchFunctionMode):
    """Says of a copy_ that does not fit which sizes meet: PyTorch names one dimension of them."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except RuntimeError:
            if func.__name__ != "copy_" or len(args) < 2 or args[0].shape == args[1].shape:
                raise
            raise RuntimeError(_misfit(tuple(args[1].shape), tuple(args[0].shape))) from None


def _misfit(given: tuple[int, ...], into: tuple[int, ...]) -> str:
    if given == (5, 21):
        return (
            "The heads side by side make (5, 21). nn.Linear stores the transpose, so put them one "
            "below the other: dim=0 makes (15, 7)."
        )
    why = GIVEN
    if len(given) > len(into):
        why = "torch.cat joins the heads; torch.stack puts them into a new dimension."
    elif given in ((7, 15), (21, 5)):
        why = "nn.Linear stores its matrix transposed, so no .T is needed."
    return f"The matrix is {given}, and the parameter that it is copied into is {into}. {why}"


def _block_names(matrix: Tensor, given: Mapping[str, Tensor], projection: str) -> list[str]:
    """Return for each third of a matrix the head, and where it is another, the projection."""
    names = []
    for block in matrix.chunk(3):
        found = [name for name, rows in given.items() if torch.equal(rows, block)]
        if found:
            _, h, of, _ = found[0].split(".")
            names.append(f"head {h}" if of == projection else f"{of} of head {h}")
        else:
            names.append("a mixture")
    return names


@exercise_check
def check_swapped_heads(swap_heads: Callable[..., Any]) -> str:
    """Examine a function that lets two heads change places without changing the output.

    Args:
        swap_heads: takes a MultiHeadAttention of two heads of width 2, and returns a changed copy.

    Returns:
        A sentence: which matrix has not followed.

    >>> check_swapped_heads(lambda module: module)
    'You changed or returned the module itself: start from deepcopy(module).'
    """
    with seeded(0):
        given = MultiHeadAttention(3, 4, context_length=7, dropout=0.0, num_heads=2)
    module, state = deepcopy(given), given.state_dict()
    with in_plain_words(PARAMETERS):
        swapped = swap_heads(module)
    if swapped.W_query is module.W_query:
        return "You changed or returned the module itself: start from deepcopy(module)."
    if any(not torch.equal(module.state_dict()[name], now) for name, now in state.items()):
        return "You changed the module itself, and returned a copy of it: change the copy."
    for name, dim in {"W_query": 0, "W_key": 0, "W_value": 0, "out_proj": 1}.items():
        before, after = getattr(given, name).weight, getattr(swapped, name).weight
        if not torch.equal(after, before.roll(2, dims=dim)):
            of, other = ("rows", "columns")[dim], ("columns", "rows")[dim]
            if torch.equal(after, before):
                kept = " roll returns a new tensor: is it copied back, weight.copy_(...)?"
                return (
                    f"{name}.weight is as it was: its {of} have to change places by head."
                    f"{kept if name == 'W_query' else ''}"  # the others are likely forgotten
                )
            if torch.equal(after, before.roll(1, dims=dim)) or torch.equal(
                after, before.roll(-1, dims=dim)
            ):
                return f"{name}.weight: its {of} moved by one, but a head is two of them wide."
            if name == "out_proj" and torch.equal(after, before.roll(2, dims=0)):
                return (
                    "out_proj.weight: you moved its rows, which make the columns of the result. "
                    "Its columns read the heads."
                )
            if torch.equal(after, before.roll(2, dims=1 - dim)):
                return (
                    f"{name}.weight: you moved its {other}. nn.Linear stores the transpose, so a "
                    f"head is two of its {of}."
                )
            for h, half in enumerate(before.chunk(2, dim)):
                if all(torch.equal(now, half) for now in after.chunk(2, dim)):
                    return (
                        f"{name}.weight: both heads hold the {of} of head {h} now. Is a slice kept "
                        "for later? It is a view, and changes with the matrix: .clone() it first."
                    )
            return f"{name}.weight: its {of} have not changed places by head."
    if not torch.equal(swapped.out_proj.bias, given.out_proj.bias):
        return "out_proj.bias has changed: it is added once, belongs to no head, and stays."
    x = draw(2, 7, 3)
    same = check_equal(swapped(x), given(x))
    return "Right: the heads have changed places, the output has not." if same else str(same)
