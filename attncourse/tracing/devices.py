"""Whether a module computes on the device of its input: what comes from elsewhere is noticed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attncourse.tracing.operations import tensors_in

HERE = torch.device("cpu", 0)  # the CPU, and yet not equal to torch.device("cpu")
LEAVES = ("cpu", "cuda", "type")


class Origins(TorchFunctionMode):
    """Notes on the CPU whether all tensors come from those that are here, or are made beside them.

    `elsewhere` is False only if nothing could meet a tensor of another device: where the given
    ones lie on another device, all of them do.

    >>> x = torch.ones(2)
    >>> with Origins([x]) as beside:
    ...     made = x + torch.ones(2, device=x.device)
    >>> with Origins([x]) as apart:
    ...     made = x + torch.ones(2)
    >>> beside.elsewhere, apart.elsewhere
    (False, True)
    """

    def __init__(self, here: Iterable[Tensor]) -> None:
        super().__init__()
        self.elsewhere = False
        self._here = {id(tensor): tensor for tensor in here}  # keeps them, and so their ids

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function, and note where its tensors come from."""
        kwargs = kwargs or {}
        inputs = list(tensors_in((*args, kwargs)))
        result = func(*args, **kwargs)
        known = all(id(tensor) in self._here for tensor in inputs)
        if isinstance(result, torch.device):
            return HERE if inputs and known else result
        made = list(tensors_in((result,)))
        names = (torch.device, str) if func.__name__ == "to" else torch.device
        devices = [kwargs["device"]] if kwargs.get("device") is not None else []
        devices += [one for one in args if isinstance(one, names)]
        known = known and all(one == HERE for one in devices) and func.__name__ not in LEAVES
        known = known and bool(inputs or devices or not made)
        self.elsewhere |= not known
        self._here |= {id(tensor): tensor for tensor in made}
        return result
