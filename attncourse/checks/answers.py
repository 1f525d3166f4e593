"""What the checks of functions share: compare a result with the right one, and say what differs.

A mistake is named only if the learner's function returns what that mistake returns, on every input
that the check tries. Otherwise the sentence says which number is wrong, and what it must be.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attncourse.checks.safe_run import CheckFailed
from attncourse.checks.verdict import Verdict
from attncourse.variants.changes import changed

FINITE = "The number that hides a score must be below every score: only -torch.inf is."
NEAR = 1e-5  # the rounding of float32 is far below this, the effect of a mistake far above
Mistakes = Mapping[str, Callable[..., Tensor]]  # by the sentence, the function with the mistake
Describe = Callable[..., str]  # from a wrong result, the right one and the inputs to a sentence


@cache
def known_mistakes(exercise: str, right: Callable[..., Tensor]) -> Mistakes:
    """Return the usual mistakes of an exercise: its right function with the changes of the file."""
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


def require_mask(mine: Tensor, wanted: tuple[int, ...]) -> None:
    """Require that a result is a boolean mask of some shape."""
    said = f"It is {mine.dtype}, {tuple(mine.shape)}; it must be torch.bool, {wanted}."
    require(mine.dtype == torch.bool and mine.shape == wanted, said)


def is_near(mine: Tensor, other: Tensor, near: float = NEAR) -> bool:
    """Return whether two tensors have one shape and the same numbers, NaN at the same places."""
    return mine.shape == other.shape and torch.allclose(
        mine.double(), other.double(), rtol=0, atol=near, equal_nan=True
    )


def compare(
    written: Callable[..., Any],
    inputs: Sequence[tuple[Any, ...]],
    right: Callable[..., Tensor],
    mistakes: Mistakes,
    near: float = NEAR,
    describe: Describe | None = None,
) -> str | None:
    """Return what is wrong with a learner's function, or None if all its results are right.

    Args:
        written: the learner's function.
        inputs: the arguments of each call; at least two, so that no mistake fits by chance.
        right: returns the right result for the same arguments.
        mistakes: by the sentence about a mistake, what returns its result.
        near: the largest difference that counts as equal.
        describe: what to say of a wrong result that no mistake explains; by default, which entry
            is furthest off.

    >>> numbers = [(torch.tensor([3.0, 4.0]),), (torch.tensor([5.0]),)]
    >>> compare(torch.exp, numbers, torch.square, {"That is e to the power of x.": torch.exp})
    'That is e to the power of x.'
    >>> compare(torch.sqrt, numbers, torch.square, {"That is e to the power of x.": torch.exp})
    'Entry [1] is 2, and it must be 16.'
    """
    found = [call_on_copies(written, given) for given in inputs]
    wanted = [right(*given) for given in inputs]
    wrong = [i for i, mine in enumerate(found) if not is_near(mine, wanted[i], near)]
    if not wrong:
        return None
    # Where no number is finite, every mistake that leads to NaN would fit
    if all(mine.isfinite().any() for mine in found):
        for sentence, mistake in mistakes.items():
            if all(
                is_result_of(mistake, given, mine, near)
                for given, mine in zip(inputs, found, strict=True)
            ):
                return sentence
    first = wrong[0]
    require_shape(found[first], tuple(wanted[first].shape))
    return (describe or describe_entry)(found[first], wanted[first], *inputs[first])


def is_result_of(
    mistake: Callable[..., Tensor], given: Sequence[Any], mine: Tensor, near: float
) -> bool:
    """Return whether a result is what a mistake returns; some stop for some sizes."""
    try:
        return is_near(mine, mistake(*given), near)
    except (RuntimeError, ValueError, IndexError):
        return False


def call_on_copies(written: Callable[..., Any], given: Sequence[Any]) -> Tensor:
    """Return what a learner's function makes of its arguments, and require that they stay."""
    copies = [one.clone() if isinstance(one, Tensor) else one for one in given]
    mine = written(*copies)
    kind = type(mine).__name__
    require(isinstance(mine, Tensor), f"It returns a {kind}, and it must return a tensor.")
    for i, (now, then) in enumerate(zip(copies, given, strict=True), start=1):
        said = f"It changes argument {i} in place, and others may still need it: make a new tensor."
        require(not isinstance(then, Tensor) or now.equal(then), said)
    return mine  # type: ignore[no-any-return]


def largest_difference(mine: Tensor, right: Tensor) -> tuple[list[int], str, str]:
    """Return the entry that is furthest off, what it is and must be; one that is NaN comes first.

    >>> largest_difference(torch.tensor([[1.0, 0.5]]), torch.tensor([[1.0, 0.0]]))
    ([0, 1], '0.5', '0')
    """
    off = (mine.double() - right.double()).abs().nan_to_num(nan=torch.inf)
    entry = (off == off.max()).nonzero()[0].tolist()
    has, wants = (f"{table[tuple(entry)].item():.4g}" for table in (mine, right))
    return entry, has, wants


def describe_entry(mine: Tensor, right: Tensor, *_given: Any) -> str:
    """Say which entry of a result is furthest off."""
    entry, has, wants = largest_difference(mine, right)
    return f"Entry {entry} is {has}, and it must be {wants}."


def first_wrong_row(mine: Tensor, right: Tensor) -> tuple[list[int], list[int], list[int]]:
    """Return the place of the first row in which two masks differ, and where each is True.

    >>> first_wrong_row(torch.ones(2, 2).bool(), torch.ones(2, 2).tril().bool())
    ([0], [0, 1], [0])
    """
    place = (mine != right).any(dim=-1).nonzero()[0].tolist()
    found, wanted = (mask[tuple(place)].nonzero().flatten().tolist() for mask in (mine, right))
    return place, found, wanted


def accept(sentence: str, *notes: str) -> Verdict:
    """Return that an answer is right, with notes on what is worth knowing all the same.

    >>> accept("Right.", "It is slow.")
    Right. Note: It is slow.
    """
    said = " ".join([sentence, *(f"Note: {note}" for note in notes)])
    return Verdict(True, said, notes=notes)
