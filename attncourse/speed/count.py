"""What a module costs, counted while it runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MATRIX_PRODUCTS = ("mm", "addmm", "bmm")


def count_parameters(module: nn.Module) -> int:
    """Return how many numbers a module's parameters hold, frozen ones included.

    >>> count_parameters(nn.Linear(3, 2, bias=False))
    6
    """
    return sum(parameter.numel() for parameter in module.parameters())


def count_matrix_products(module: nn.Module, x: Tensor) -> int:
    """Return how many matrix products module(x) computes, in linear layers and by `@`.

    A batched product counts as one; products inside a fused kernel do not count.
    """
    return sum(name in MATRIX_PRODUCTS for name in kernel_names(lambda: module(x)))


class Work(NamedTuple):
    """What one forward pass of a module costs."""

    flops: int  # of its matrix products; masked pairs count too, a fused kernel does not
    kernel_calls: int  # a view is not one


def count_work(module: nn.Module, x: Tensor) -> Work:
    """Run a module on x, without gradients, and count its work.

    >>> count_work(nn.Linear(3, 2, bias=False), torch.ones(5, 3))
    Work(flops=60, kernel_calls=1)
    """
    # PyTorch's builds for GPUs warn where triton is missing: kernels of triton would not be counted
    logger = logging.getLogger("torch.utils.flop_counter")
    logger.addFilter(lambda record: "triton not found" not in record.getMessage())
    from torch.utils.flop_counter import FlopCounterMode

    flops = FlopCounterMode(display=False)
    with torch.no_grad(), flops:
        module(x)
    return Work(flops.get_total_flops(), len(kernel_names(lambda: module(x))))


def kernel_names(call: Callable[[], object]) -> list[str]:
    """Return the names of the kernels that a call runs, in order; a view is not one.

    >>> kernel_names(lambda: torch.ones(2).exp()[0])
    ['ones', 'exp']
    """
    with torch.no_grad(), _KernelCounter() as counter:
        call()
    names: list[str] = counter.kernels
    return names


class _KernelCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types
    """Name the calls that make or change a tensor; a view does neither."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernels: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: nothing here is compiled, and to skip it loads the compiler, a second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        theirs = {_place(tensor) for tensor in _tensors((args, kwargs or {}))}
        makes = any(_place(tensor) not in theirs for tensor in _tensors(results))
        if makes or func._schema.is_mutable:
            self.kernels.append(func.overloadpacket.__name__)
        return results


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _place(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
