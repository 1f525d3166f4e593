"""Random tokens, twice, and with every second one another: what lesson 08 lets the model read."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

LENGTH = 40  # of a copy


def repeated_tokens(seed: int = 0) -> list[int]:
    """Return 40 random tokens, then the same again, after a first one.

    >>> tokens = repeated_tokens()
    >>> len(tokens), tokens[1:41] == tokens[41:]
    (81, True)
    """
    drawn = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1000, 40000, (LENGTH,), generator=drawn).tolist()
    return [1, *tokens, *tokens]


def unrepeated_tokens() -> list[int]:
    """Return the second copy of repeated_tokens() after 40 other tokens: nothing comes twice.

    >>> tokens = unrepeated_tokens()
    >>> tokens[41:] == repeated_tokens()[41:], tokens[1:41] == repeated_tokens()[1:41]
    (True, False)
    """
    return repeated_tokens(3)[: LENGTH + 1] + repeated_tokens()[LENGTH + 1 :]


def half_replaced_tokens() -> list[int]:
    """Return the first copy of repeated_tokens(), with other tokens at even positions.

    >>> [mine == own for mine, own in zip(half_replaced_tokens(), repeated_tokens())][:5]
    [True, True, False, True, False]
    """
    tokens = repeated_tokens()[: LENGTH + 1]
    tokens[2::2] = repeated_tokens(3)[2 : LENGTH + 1 : 2]
    return tokens


def induction_targets(keys: Iterable[int]) -> Tensor:
    """Mark keys of the first copy for the queries that look for them, bool, (81, 81).

    A query looks for the key after its own token: for key k it is k - 1 + 40.

    >>> induction_targets([10]).nonzero().tolist()
    [[49, 10]]
    """
    marked = torch.zeros(2 * LENGTH + 1, 2 * LENGTH + 1, dtype=torch.bool)
    at = torch.tensor([*keys])
    marked[at - 1 + LENGTH, at] = True
    return marked
