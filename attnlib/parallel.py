"""Tensor parallelism: the heads of a layer, shared out among processes.

MultiHeadAttention needs nothing of this: parallelize_module takes ColwiseParallel for its W_query,
W_key and W_value, and RowwiseParallel for its out_proj. Here is what FusedMultiHeadAttention needs,
whose W_qkv holds the rows of all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import ColwiseParallel

from attnlib.fused import FusedMultiHeadAttention
from attnlib.validate import require_divides


class ColwiseQKV(ColwiseParallel):
    """Shard W_qkv so that each process gets the queries, keys and values of its own heads.

    It stands in a plan of parallelize_module, after the weights have been loaded:
    {"W_qkv": ColwiseQKV(fused), "out_proj": RowwiseParallel()}. It changes the order of the rows
    of W_qkv to that of rows_by_process; a state_dict gathered from the processes has it too.

    Args:
        fused: the module whose W_qkv it is for.
        options: those of ColwiseParallel.

    Raises:
        ValueError: when it is applied, and the number of processes does not divide num_kv_heads.

    Source: Shoeybi et al. 2019 (Megatron-LM), section 3.
    """

    def __init__(self, fused: FusedMultiHeadAttention, **options: Any) -> None:
        super().__init__(**options)
        self.widths, self.num_kv_heads = fused.widths, fused.num_kv_heads

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        """Sort the rows, then shard them as ColwiseParallel does."""
        num_processes = device_mesh.size()
        rule = f"num_kv_heads={self.num_kv_heads} cannot be shared out among {num_processes}"
        require_divides(num_processes, self.num_kv_heads, f"{rule} processes", "numbers")
        with torch.no_grad():
            for rows in module.parameters():
                rows.copy_(rows_by_process(rows, self.widths, num_processes))
        module.rows_by_process = True  # type: ignore[assignment]  # forward asks for it
        return super()._apply(module, device_mesh)


def rows_by_process(rows: Tensor, widths: Sequence[int], num_processes: int) -> Tensor:
    """Return the rows of W_qkv in the order of the processes that own them.

    They come as all queries, then keys, then values, as many of each as widths says. They go as
    queries, keys and values of process 0, then those of process 1, ...

    >>> rows_by_process(torch.tensor([0, 1, 2, 3, 10, 11, 20, 21]), (4, 2, 2), 2).tolist()
    [0, 1, 10, 20, 2, 3, 11, 21]
    """
    parts = [part.chunk(num_processes) for part in torch.split(rows, list(widths))]
    return torch.cat([own for of_process in zip(*parts, strict=True) for own in of_process])
