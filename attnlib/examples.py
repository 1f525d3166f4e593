"""The running examples of the course, by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

SEED = 123  # set right before a class is constructed, wherever its numbers are printed


@contextmanager
def seeded(seed: int = SEED) -> Iterator[None]:
    """Seed the random numbers drawn inside, then restore the CPU's global generator.

    >>> with seeded():
    ...     torch.rand(1)
    tensor([0.2961])
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed every GPU
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute inside with one thread: on numbers this small, more only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Example(NamedTuple):
    """A short text: its tokens and their vectors, (num_tokens, d_in)."""

    tokens: tuple[str, ...]
    inputs: Tensor

    def batch(self) -> Tensor:
        """Return the text twice, as a batch: (2, num_tokens, d_in)."""
        return torch.stack((self.inputs, self.inputs), dim=0)


def journey() -> Example:
    """Return the six tokens of width 3 that the whole course follows.

    >>> journey().batch().shape
    torch.Size([2, 6, 3])
    """
    tokens = ("Your", "journey", "starts", "with", "one", "step")
    inputs = torch.tensor(
        [
            [0.43, 0.15, 0.89],
            [0.55, 0.87, 0.66],
            [0.57, 0.85, 0.64],
            [0.22, 0.58, 0.33],
            [0.77, 0.25, 0.10],
            [0.05, 0.80, 0.55],
        ]
    )
    return Example(tokens, inputs)


def three_rows() -> Example:
    """Return three tokens of width 6: the numbers of journey(), rearranged.

    >>> three_rows().batch().shape
    torch.Size([2, 3, 6])
    """
    tokens = ("row 1", "row 2", "row 3")
    inputs = torch.tensor(
        [
            [0.43, 0.15, 0.89, 0.55, 0.87, 0.66],
            [0.57, 0.85, 0.64, 0.22, 0.58, 0.33],
            [0.77, 0.25, 0.10, 0.05, 0.80, 0.55],
        ]
    )
    return Example(tokens, inputs)


def counting() -> Example:
    """Return three tokens of width 6 that are easy to multiply by hand.

    >>> counting().inputs[0].tolist()
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    """
    tokens = ("rising", "falling", "ones")
    rising = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    return Example(tokens, torch.tensor([rising, rising[::-1], [1.0] * 6]))


def counting_weights() -> tuple[Tensor, Tensor, Tensor]:
    """Return W_query, W_key, W_value for counting(), each (d_in, d_out) = (6, 6), in tenths.

    They multiply from the right, x @ W, as on paper; nn.Linear stores the transpose. The seed is
    chosen so that with two heads no row of the attention weights is close to 0 and 1, and no entry
    of x @ W cancels to 0, which would print as rounding noise.
    """
    generator = torch.Generator().manual_seed(1657)
    tenths = torch.randint(-2, 3, (3, 6, 6), generator=generator)
    W_query, W_key, W_value = tenths / 10
    return W_query, W_key, W_value
