"""What a module costs, counted while it runs rather than worked out on paper."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

MATRIX_PRODUCTS = {nn.functional.linear, Tensor.matmul, Tensor.__matmul__, torch.matmul, torch.bmm}


def count_parameters(module: nn.Module) -> int:
    """Return how many numbers a module learns.

    >>> count_parameters(nn.Linear(3, 2, bias=False))
    6
    """
    return sum(parameter.numel() for parameter in module.parameters())


def count_matrix_products(module: nn.Module, x: Tensor) -> int:
    """Return how many matrix products module(x) asks for: linear layers and `@`.

    A batched product counts as one.

    >>> count_matrix_products(nn.Linear(3, 2), torch.ones(1, 3))
    1
    """
    with _ProductCounter() as counter, torch.no_grad():
        module(x)
    return int(counter.count)


class _ProductCounter(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func in MATRIX_PRODUCTS
        return func(*args, **(kwargs or {}))
