"""Random tokens, twice, and with every second one another: what lesson 08 lets the model read."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

LENGTH = 40  # of a copy


def twice(seed: int = 0) -> list[int]:
    """Return 40 random tokens, then the same again, after a first one.

    >>> tokens = twice()
    >>> len(tokens), tokens[1:41] == tokens[41:]
    (81, True)
    """
    drawn = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1000, 40000, (LENGTH,), generator=drawn).tolist()
    return [1, *tokens, *tokens]


def after_others() -> list[int]:
    """Return the second copy of twice() after 40 tokens of another draw: nothing comes twice.

    >>> after_others()[41:] == twice()[41:], after_others()[1:41] == twice()[1:41]
    (True, False)
    """
    return twice(3)[: LENGTH + 1] + twice()[LENGTH + 1 :]


def half_another() -> list[int]:
    """Return the first copy of twice(), at even positions with the tokens of another draw.

    >>> [mine == own for mine, own in zip(half_another(), twice())][:5]
    [True, True, False, True, False]
    """
    tokens = twice()[: LENGTH + 1]
    tokens[2::2] = twice(3)[2 : LENGTH + 1 : 2]
    return tokens


def found_by(keys: Iterable[int]) -> Tensor:
    """Mark keys of the first copy for the queries that look for them, bool, (81, 81).

    A query looks for the key after its own token: for key k it is k - 1 + 40.

    >>> found_by([10]).nonzero().tolist()
    [[49, 10]]
    """
    marked = torch.zeros(2 * LENGTH + 1, 2 * LENGTH + 1, dtype=torch.bool)
    at = torch.tensor([*keys])
    marked[at - 1 + LENGTH, at] = True
    return marked
