"""What the checks of functions share: compare a result with the right one, and say what differs.

A mistake is named only if the learner's function returns what that mistake returns, on every input
that the check tries. Otherwise the sentence says which number is wrong, and what it must be.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attncourse.checks.safe_run import CheckFailed
from attncourse.variants.changes import changed

NEAR = 1e-5  # the rounding of float32 is far below this, the effect of a mistake far above
View = Callable[..., Tensor]  # from a result and the inputs to what of it counts


@cache
def known_mistakes(exercise: str, right: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return by its sentence each usual mistake: the right function with changes of the file."""
    tables = tomllib.loads(Path(__file__).with_name("known_mistakes.toml").read_text("utf-8"))
    return {said: changed(right, changes) for said, changes in tables[exercise].items()}


def require(holds: object, otherwise: str) -> None:
    """End the check with this sentence if something does not hold."""
    if not holds:
        raise CheckFailed(otherwise)


def require_shape(mine: Tensor, wanted: tuple[int, ...], hint: str = "") -> None:
    """Require a shape of a result."""
    shape = tuple(mine.shape)
    require(shape == wanted, f"The shape is {shape}, and it must be {wanted}{hint}.")


def is_near(mine: Tensor, other: Tensor, near: float = NEAR) -> bool:
    """Return whether two tensors have one shape and the same numbers, NaN at the same places."""
    return mine.shape == other.shape and torch.allclose(
        mine.double(), other.double(), rtol=0, atol=near, equal_nan=True
    )


def compare(
    written: Callable[..., Any],
    inputs: Sequence[tuple[Any, ...]],
    right: Callable[..., Any],
    exercise: str = "",
    near: float = NEAR,
    view: View | None = None,
) -> str | None:
    """Return what is wrong with a learner's function, or None if all its results are right.

    Args:
        written: the learner's function.
        inputs: the arguments of each call; at least two, so that no mistake fits by chance.
        right: returns the right result for the same arguments.
        exercise: the table of known mistakes of right; without it, no mistake is named.
        near: the largest difference that counts as equal.
        view: what of a result counts, if not all of it.

    >>> numbers = [(torch.tensor([3.0, 4.0]),), (torch.tensor([5.0]),)]
    >>> compare(torch.sqrt, numbers, torch.square)
    'Entry [1] is 2, and it must be 16.'
    """
    found = [call_on_copies(written, given, view) for given in inputs]
    wanted = [call_on_copies(right, given, view) for given in inputs]
    for mine, result in zip(found, wanted, strict=True):
        if result.dtype == torch.bool and (mine.dtype, mine.shape) != (torch.bool, result.shape):
            shapes = f"{tuple(mine.shape)}; it must be torch.bool, {tuple(result.shape)}"
            return f"It is {mine.dtype}, {shapes}."
    wrong = [i for i, mine in enumerate(found) if not is_near(mine, wanted[i], near)]
    if not wrong:
        return None
    # Where no number is finite, every mistake that leads to NaN would fit
    if exercise and all(mine.isfinite().any() for mine in found):
        for sentence, mistake in known_mistakes(exercise, right).items():
            calls = zip(inputs, found, strict=True)
            if all(is_result_of(mistake, given, mine, near, view) for given, mine in calls):
                return sentence
    mine, result = found[wrong[0]], wanted[wrong[0]]
    require_shape(mine, tuple(result.shape))
    return (describe_row if result.dtype == torch.bool else describe_entry)(mine, result)


def is_result_of(
    mistake: Callable[..., Any],
    given: Sequence[Any],
    mine: Tensor,
    near: float,
    view: View | None = None,
) -> bool:
    """Return whether a result is what a mistake returns; some stop for some sizes."""
    try:
        return is_near(mine, call_on_copies(mistake, given, view), near)
    except (RuntimeError, ValueError, IndexError):
        return False


def call_on_copies(
    written: Callable[..., Any], given: Sequence[Any], view: View | None = None
) -> Tensor:
    """Return what a learner's function makes of its arguments, and require that they stay."""
    copies = [one.clone() if isinstance(one, Tensor) else one for one in given]
    mine = written(*copies)
    mine = view(mine, *given) if view else mine
    kind = type(mine).__name__
    require(isinstance(mine, Tensor), f"It returns a {kind}, and it must return a tensor.")
    for i, (now, then) in enumerate(zip(copies, given, strict=True), start=1):
        said = f"It changes argument {i} in place, and others may still need it: make a new tensor."
        require(not isinstance(then, Tensor) or now.equal(then), said)
    return mine


def describe_entry(mine: Tensor, right: Tensor) -> str:
    """Say which entry of a result is furthest off; one that is NaN comes first."""
    off = (mine.double() - right.double()).abs().nan_to_num(nan=torch.inf)
    entry = (off == off.max()).nonzero()[0].tolist()
    has, wants = (f"{table[tuple(entry)].item():.4g}" for table in (mine, right))
    return f"Entry {entry} is {has}, and it must be {wants}."


def describe_row(mine: Tensor, right: Tensor) -> str:
    """Say which is the first row of a mask that differs, and at which keys it is True.

    >>> describe_row(torch.ones(2, 2).bool(), torch.ones(2, 2).tril().bool())
    'Row [0] is True for keys [0, 1], and it must be for [0].'
    """
    row = (mine != right).any(dim=-1).nonzero()[0].tolist()
    has, wants = (mask[tuple(row)].nonzero().flatten().tolist() for mask in (mine, right))
    return f"Row {row} is True for keys {has}, and it must be for {wants}."
