"""What the checks of functions share: require something of an answer, compare it, name the fault.

A check runs the learner's function and answers with the sentence of the first usual mistake that
would return the same. Where the function stops, the advice goes by the type of the error and by
the call that failed, never by what PyTorch says.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from attncourse.checks.safe_run import CheckFailed
from attncourse.checks.verdict import Verdict

IN_PLACE = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__")
FINITE = "A score could be lower than the number that hides. Below every number is -torch.inf."
NEAR = 1e-5  # as close as this, an answer is right, or one of the usual mistakes


def require(holds: object, otherwise: str) -> None:
    """Go on if something holds; if not, the check answers with this sentence."""
    if not holds:
        raise CheckFailed(otherwise)


def require_shape(mine: Tensor, wanted: tuple[int, ...], hint: str = "") -> None:
    """Require a shape of an answer."""
    shape = tuple(mine.shape)
    require(shape == wanted, f"The shape is {shape}, not {wanted}{hint}.")


def require_mask(mine: Tensor, wanted: tuple[int, ...]) -> None:
    """Require that an answer is a boolean mask of some shape."""
    said = f"It is {mine.dtype}, {tuple(mine.shape)}; it must be torch.bool, {wanted}."
    require(mine.dtype == torch.bool and mine.shape == wanted, said)


def is_near(mine: Tensor, other: Tensor, near: float = NEAR) -> bool:
    """Return whether two tensors have one shape and the same numbers, NaN at the same places."""
    return mine.shape == other.shape and torch.allclose(
        mine.to(other.dtype), other, rtol=0, atol=near, equal_nan=True
    )


def first_near(mine: Tensor, usual: Mapping[str, Tensor], near: float = NEAR) -> str | None:
    """Return the sentence of the first tensor that an answer equals, if it equals one."""
    return next((said for said, other in usual.items() if is_near(mine, other, near)), None)


def first_wrong_row(mine: Tensor, right: Tensor) -> tuple[int, list[int], list[int]]:
    """Return the first row in which two tables of True and False differ, and where each is True.

    >>> first_wrong_row(torch.ones(2, 2).bool(), torch.ones(2, 2).tril().bool())
    (0, [0, 1], [0])
    """
    row = int((mine != right).any(dim=-1).nonzero()[0])
    found, wanted = (table[row].nonzero().flatten().tolist() for table in (mine, right))
    return row, found, wanted


def noted(sentence: str, *notes: str) -> Verdict:
    """Return that an answer is right, and what is worth a word all the same.

    >>> noted("Right.", "It is slow.")
    Right. Note: It is slow.
    """
    said = " ".join([sentence, *(f"Note: {note}" for note in notes)])
    return Verdict(True, said, notes=notes)


class FailedCall(TorchFunctionMode):
    """Notes which function of torch failed inside, and what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.name = ""
        self.shapes: list[tuple[int, ...]] = []
        self.changes_recorded = False  # in place, something that records for gradients

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception:
            given = [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)]
            self.name, self.shapes = func.__name__, [tuple(tensor.shape) for tensor in given]
            in_place = self.name in IN_PLACE or self.name.endswith("_") != self.name.endswith("__")
            recorded = torch.is_grad_enabled() and any(one.requires_grad for one in given[:1])
            self.changes_recorded = in_place and recorded
            raise


Remedy = Callable[[BaseException, FailedCall], str | None]  # the call is torch's last that failed


@contextmanager
def remedied(remedy: Remedy) -> Iterator[None]:
    """Say of a function that stops inside what can be done about it, after the line itself."""
    call = FailedCall()
    try:
        with call:
            yield
    except CheckFailed as said:
        error = said.__context__
        if error is None or said.line is None or isinstance(error, NotImplementedError):
            raise
        if not (words := remedy(error, call)):
            raise
        told = CheckFailed(f"Stopped in {said.line} | {words}")
        told.line, told.cause = said.line, words
        raise told from None


def in_words(error: BaseException) -> str:
    """Return an error as a sentence, its own words first."""
    return f"{type(error).__name__}: {str(error).rstrip('.')}."


def of_parameters(error: BaseException, call: FailedCall) -> str | None:
    """Return what those who set parameters can do about an error."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    if isinstance(error, RuntimeError) and call.changes_recorded:
        return "A parameter that records for gradients must be changed under torch.no_grad()."
    if frame.f_code is nn.Module.__setattr__.__code__:
        return "A plain tensor is not a layer or a parameter: fill one in place, weight.copy_(...)."
    if isinstance(error, (AttributeError, TypeError)):
        own = "A layer's parameter is, such as W_query.weight."
        return f"{in_words(error)} A head or a layer is not a tensor. {own}"
    return None
