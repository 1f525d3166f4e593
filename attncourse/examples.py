"""The running examples of the course, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn

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
    """Return three tokens of width 6: the numbers of journey(), rearranged."""
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
    """Return three tokens of width 6 that are easy to multiply by hand."""
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


def published_steps() -> SimpleNamespace:
    """Return the matrices that a published example prints for counting(), to the digit.

    Their names and shapes are in published_steps.json: most are of head 0 alone. They do not all
    follow from one another: notebook 04 makes a hunt of it.

    >>> published_steps().weights[1]
    tensor([0.0724, 0.9276, 0.0000])
    """
    stored = json.loads(Path(__file__).with_name("published_steps.json").read_text("utf-8"))
    found = {name: torch.tensor(numbers) for name, numbers in stored.items()}
    by_token = found["context"].transpose(0, 1)  # (num_tokens, num_heads, head_dim)
    merged = by_token.flatten(1)  # (num_tokens, d_out)
    return SimpleNamespace(**found, queries=found["cut"][:, 0], by_token=by_token, merged=merged)


def traceable_example(written: Callable[..., nn.Module]) -> tuple[nn.Module, Tensor]:
    """Make a module whose values say where they come from, and the input for it.

    The score of token t for token s falls with the square of the distance from s to t + 1, in head
    1 twice as fast. The mask hides t + 1, so each token looks at itself alone. out_proj changes
    nothing. So the value of token t in column c is 10 * t + c up to the output, if every number
    stays where it belongs. Without a mask it is that of token t + 1.

    A class is made as MultiHeadAttention is, with linear layers W_query, W_key and W_value. The
    module has d_in 4, d_out 6 and 2 heads. In x, (1, 5, 4), a token is one, its number, its
    square, and ten times its number.

    >>> from attnlib.modules import MultiHeadAttention
    >>> module, x = traceable_example(MultiHeadAttention)
    >>> module(x)[0, 2].tolist()
    [20.0, 21.0, 22.0, 23.0, 24.0, 25.0]
    """
    sizes = {"d_in": 4, "d_out": 6, "context_length": 5, "dropout": 0.0, "num_heads": 2}
    with torch.random.fork_rng(devices=[]):  # the reader's random numbers stay as they are
        module = written(**sizes)
    token = torch.arange(5.0)
    x = torch.stack([torch.ones(5), token, token**2, 10 * token], dim=-1)[None]
    weights = {name: torch.zeros(6, 4) for name in ("W_query", "W_key", "W_value")}
    for first, steep in ((0, 30.0), (3, 60.0)):  # columns: the score is -steep (t + 1 - s)^2
        weights["W_query"][first : first + 3, :3] = steep * torch.tensor(
            [[2.0, 2.0, 0.0], [-1.0, 0.0, 0.0], [-1.0, -2.0, -1.0]]
        )
        weights["W_key"][first : first + 3, :3] = torch.eye(3).roll(1, dims=1)
    weights["W_value"][:, 0] = torch.arange(6.0)
    weights["W_value"][:, 3] = 1.0
    if hasattr(module, "out_proj"):
        weights["out_proj"] = torch.eye(6)
    for name, weight in weights.items():
        _fill(module, name, weight)
    return module.eval(), x


def _fill(module: nn.Module, name: str, weight: Tensor) -> None:
    """Copy a matrix into a linear layer, and 0 into its bias."""
    layer = getattr(module, name, None)
    has = getattr(layer, "weight", None)
    if not isinstance(has, Tensor) or has.shape != weight.shape:
        layers = ", ".join(child for child, _ in module.named_children()) or "none"
        raise TypeError(
            f"written must have linear layers W_query, W_key and W_value, and {name}.weight must "
            f"be {tuple(weight.shape)}, for d_in 4 and d_out 6; the layers are: {layers}"
        )
    with torch.no_grad():
        has.copy_(weight)
        if isinstance(bias := getattr(layer, "bias", None), Tensor):
            bias.zero_()
