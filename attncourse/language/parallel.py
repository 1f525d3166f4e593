"""The heads of each layer shared out over processes: tensor parallelism, by whole groups of heads.

    torchrun --standalone --nproc-per-node 2 -m attncourse.language.parallel "Once upon a"

runs the installed model in two processes of this machine, and in one, and compares.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.language.load import language_model
from attncourse.language.model import Block, LlamaSize, new_attention
from attncourse.language.reader import LanguageModel
from attncourse.language.recorded import RecordedModel
from attnlib.fused import FusedMultiHeadAttention

LOOPBACK = {"linux": "lo", "darwin": "lo0"}  # the processes are all on this machine


class Summed(nn.Module):
    """The columns of out_proj that belong to a process; what all of them make is summed.

    Equation:
        out = sum over processes of concat(heads of the process) @ (their columns of W_out)^T
    """

    def __init__(self, columns: Tensor, add: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(columns, columns.requires_grad)
        self.add = add

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum over all processes, (b, num_tokens, width)."""
        return self.add(F.linear(x, self.weight))


def own_groups(size: LlamaSize, process: int, num_processes: int) -> range:
    """Return which heads of keys and values a process holds, each with the queries that share it.

    >>> size = LlamaSize(1, 9, 3, width=18, hidden=5, vocabulary=11, context_length=7)
    >>> own_groups(size, 0, 2), own_groups(size, 1, 2)
    (range(0, 2), range(2, 3))
    """
    if not 1 <= num_processes <= size.num_kv_heads:
        raise ValueError(
            f"num_processes={num_processes} must be 1 to {size.num_kv_heads}, the number of heads "
            "of keys and values: each process needs one at least"
        )
    own = torch.arange(size.num_kv_heads).tensor_split(num_processes)[process].tolist()
    return range(own[0], own[-1] + 1)


def keep_own_heads(
    attention: FusedMultiHeadAttention, own: range, add: Callable[[Tensor], Tensor]
) -> None:
    """Leave to an attention only some groups of its heads, in place.

    Args:
        attention: the whole of it, without a bias.
        own: which heads of keys and values, with the heads of queries that share them.
        add: from the output of these heads to that of all, (b, num_tokens, width).

    Source: Shoeybi et al. 2019 (Megatron-LM), section 3.
    """
    shared_by = attention.num_heads // attention.num_kv_heads
    queries, *others = torch.split(attention.W_qkv.weight, list(attention.widths))
    parts = [_heads_of(queries, own, shared_by * attention.head_dim)]
    parts += [_heads_of(other, own, attention.head_dim) for other in others]
    columns = _heads_of(attention.out_proj.weight.T, own, shared_by * attention.head_dim).T
    attention.W_qkv.weight = nn.Parameter(torch.cat(parts), queries.requires_grad)
    attention.out_proj = Summed(columns, add)  # type: ignore[assignment]  # it is called as that is
    attention.num_heads, attention.num_kv_heads = shared_by * len(own), len(own)


def _heads_of(rows: Tensor, own: range, each: int) -> Tensor:
    """Return the rows of some groups, of so many rows each."""
    return rows[own.start * each : own.stop * each].detach().clone()


def sum_over_processes(x: Tensor) -> Tensor:
    """Add up what all processes have made, and give each the sum."""
    dist.all_reduce(x)
    return x


@torch.inference_mode()
def alone(model: LanguageModel | RecordedModel, text: str, process: int, num_processes: int) -> str:
    """Return the likeliest next token where one process keeps its own heads and nobody sums."""
    if isinstance(model, RecordedModel):
        return str(model.other("alone", text, process, num_processes))
    part = model.with_attention(lambda: new_attention(model.size))
    own = own_groups(model.size, process, num_processes)
    for block in part.llama.blocks:
        attention = block.get_submodule("attention")
        assert isinstance(attention, FusedMultiHeadAttention)
        keep_own_heads(attention, own, lambda out: out)
    x = part.llama(part.llama.token_embedding(model.token_ids(text))[None])
    return model.pieces([int(part.llama.logits(x[0, -1]).argmax())])[0]


@torch.inference_mode()
def compare_with_one(
    model: LanguageModel | RecordedModel, text: str, process: int, num_processes: int
) -> str:
    """Return what this process holds, and whether all together say what one alone says."""
    if isinstance(model, RecordedModel):
        return str(model.other("compare_with_one", text, process, num_processes))
    own = own_groups(model.size, process, num_processes)
    x = model.llama.token_embedding(model.token_ids(text))[None]
    alone = model.llama.logits(model.llama(x)[0, -1])
    for block in model.llama.blocks:
        attention = block.attention if isinstance(block, Block) else None
        assert isinstance(attention, FusedMultiHeadAttention)
        keep_own_heads(attention, own, sum_over_processes)
    together = model.llama.logits(model.llama(x)[0, -1])
    shared_by = model.size.num_heads // model.size.num_kv_heads
    (word,) = model.pieces(together.argmax()[None].tolist())
    return (
        f"process {process}: heads {own.start * shared_by} to {own.stop * shared_by - 1} of each "
        f"layer; together they say{word}; the logits of one process, within 0.001: "
        f"{torch.allclose(together, alone, rtol=0, atol=1e-3)}"
    )


def main() -> None:
    """Run the installed model in all processes of the group; the first prints what each found."""
    if sys.platform in LOOPBACK:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK[sys.platform])
    dist.init_process_group("gloo")
    found: list[str] = [""] * dist.get_world_size()
    place = dist.get_rank(), dist.get_world_size()
    dist.all_gather_object(found, compare_with_one(language_model(), sys.argv[1], *place))
    if dist.get_rank() == 0:
        print(*found, sep="\n", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
