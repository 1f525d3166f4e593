"""Compare two computations: tolerances by dtype, bounds for display, gradients in one row."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# The same function written in two ways differs by some rounding errors. In half precision a single
# one is already 5e-4 (float16) or 4e-3 (bfloat16) of the number.
TOLERANCES = {
    torch.float64: 1e-10,
    torch.float32: 1e-5,
    torch.float16: 1e-2,
    torch.bfloat16: 2e-2,
}


def at_most(difference: float, floor: float) -> float:
    """Return a difference rounded up to a power of ten, and at least floor.

    Rounding errors vary from machine to machine. With a floor above them, all machines print the
    same bound. NaN stays NaN.

    >>> at_most(0.03, floor=1e-5), at_most(2e-8, floor=1e-5)
    (0.1, 1e-05)
    """
    if math.isnan(difference):
        return difference
    if difference <= floor:
        return floor
    return float(10.0 ** math.ceil(math.log10(difference)))


def all_gradients(outputs: Tensor, inputs: Sequence[Tensor]) -> Tensor:
    """Return the gradients of the outputs' mean square for all inputs, in one row.

    The mean is taken in float32 at least. An input that is not used has gradients of 0.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> all_gradients(3 * x, [x]).tolist()
    [9.0, 18.0]
    """
    loss = outputs.to(torch.promote_types(outputs.dtype, torch.float32)).square().mean()
    gradients = torch.autograd.grad(loss, inputs, materialize_grads=True)
    return torch.cat([gradient.flatten() for gradient in gradients])
