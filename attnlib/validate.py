"""Checks of arguments: each names the argument, the value, the rule and the remedy."""

from __future__ import annotations

import torch
from torch import Tensor


def require_positive_int(name: str, value: object) -> None:
    """Raise unless value is a positive int (True, 2.0 and "2" are not)."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a positive int, not {value!r} ({type(value).__name__})")
    if value < 1:
        raise ValueError(f"{name} must be a positive int, not {value}")


def require_bool(name: str, value: object) -> None:
    """Raise unless value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r} ({type(value).__name__})")


def require_probability(name: str, value: object) -> None:
    """Raise unless value is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number from 0 to 1, not {value!r}")
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie between 0 and 1, not {value}")


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive int in rising order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [candidate for candidate in range(1, number + 1) if number % candidate == 0]


def require_divisible(d_out: int, num_heads: int) -> None:
    """Raise unless num_heads divides d_out; the message names the nearest head counts that do."""
    if d_out % num_heads == 0:
        return
    below = max(count for count in divisors(d_out) if count < num_heads)
    above = [count for count in divisors(d_out) if count > num_heads][:1]
    nearest = " and ".join(str(count) for count in [below, *above])
    raise ValueError(
        f"d_out={d_out} cannot be split into num_heads={num_heads} heads of equal width; "
        f"the nearest head counts that divide {d_out}: {nearest}"
    )


def require_input(x: Tensor, d_in: int, context_length: int, weight: Tensor) -> None:
    """Raise unless x is a batch of token vectors that the weight can multiply."""
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch.Tensor, not {type(x).__name__}; try torch.tensor(x)")
    if not x.is_floating_point():
        raise TypeError(f"x must hold floating-point numbers, not {x.dtype}; try x.float()")
    shape = tuple(x.shape)
    if x.ndim != 3:
        remedy = "; for one sequence try x.unsqueeze(0)" if x.ndim == 2 else ""
        raise ValueError(f"x must be (b, num_tokens, d_in), not {x.ndim}-d, {shape}{remedy}")
    if x.shape[2] != d_in:
        raise ValueError(f"the last dimension of x must be d_in={d_in}, not {x.shape[2]}: {shape}")
    if x.shape[1] > context_length:
        raise ValueError(
            f"x has {x.shape[1]} tokens, more than context_length={context_length}; "
            f"try x[:, -{context_length}:] or a larger context_length"
        )
    if x.device != weight.device:
        raise ValueError(
            f"x is on {x.device}, the weights are on {weight.device}; try x.to('{weight.device}')"
        )
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"x is {x.dtype}, the weights are {weight.dtype}; try x.to({weight.dtype})")
