"""Tensor parallelism: the attention heads of each layer, divided over processes.

    torchrun --standalone --nproc-per-node 2 -m attncourse.language.parallel "Once upon a"

runs the installed model in two processes of this machine and in one, and compares.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from attncourse.language.load import language_model
from attncourse.language.model import LlamaSize, new_attention
from attncourse.language.reader import LanguageModel
from attnlib.fused import FusedMultiHeadAttention

Add = Callable[[Tensor], Tensor]  # from what one process made to the sum over all
LOOPBACK = {"linux": "lo", "darwin": "lo0"}  # the processes are all on this machine


def own_part(rows: Tensor, size: LlamaSize, process: int, num_processes: int) -> Tensor:
    """Return the rows that belong to a process; heads that share keys and values stay together.

    Args:
        rows: those of all heads, in their order.
        size: of the model.
        process: which one, counted from 0.
        num_processes: at most as many as there are heads of keys and values.
    """
    groups = size.num_kv_heads
    if not 1 <= num_processes <= groups:
        raise ValueError(
            f"num_processes={num_processes} must be 1 to {groups}, the number of heads of keys and "
            "values: each process needs one at least"
        )
    by_group = rows.detach().reshape(groups, -1, *rows.shape[1:])
    return by_group.tensor_split(num_processes)[process].flatten(0, 1).clone()


def keep_own_heads(
    attention: FusedMultiHeadAttention, own: Callable[[Tensor], Tensor], add: Add
) -> None:
    """Leave only the heads of one process in an attention module, in place.

    Equation:
        out = sum over processes of concat(heads of the process) @ (their columns of W_out)^T

    Args:
        attention: the whole module, without a bias.
        own: from rows of all heads to those of the process.
        add: from the output of these heads to that of all, (b, num_tokens, width).

    Source: Shoeybi et al. 2019 (Megatron-LM), section 3.
    """
    parts = torch.split(attention.W_qkv.weight, list(attention.widths))
    needs_gradient = parts[0].requires_grad
    attention.W_qkv.weight = nn.Parameter(torch.cat([own(part) for part in parts]), needs_gradient)
    attention.out_proj.weight = nn.Parameter(own(attention.out_proj.weight.T).T, needs_gradient)
    attention.out_proj.register_forward_hook(lambda _module, _inputs, out: add(out))


def with_own_heads(
    model: LanguageModel, process: int, num_processes: int, add: Add
) -> LanguageModel:
    """Return a model with only the heads of one process, in all layers."""
    part = model.with_attention(lambda: new_attention(model.size))

    def own(rows: Tensor) -> Tensor:
        return own_part(rows, model.size, process, num_processes)

    for block in part.llama.blocks:
        attention = block.get_submodule("attention")
        assert isinstance(attention, FusedMultiHeadAttention)
        keep_own_heads(attention, own, add)
    return part


@torch.inference_mode()
def next_logits(model: LanguageModel, text: str) -> Tensor:
    """Return the logits of the token after a text, (vocabulary)."""
    x = model.llama(model.llama.token_embedding(model.token_ids(text))[None])
    return model.llama.logits(x[0, -1])


def alone(model: LanguageModel, text: str, process: int, num_processes: int) -> str:
    """Return the likeliest next token if a process keeps its own heads and nothing is summed."""
    part = with_own_heads(model, process, num_processes, lambda out: out)
    return model.tokenizer.decode([int(next_logits(part, text).argmax())])


def compare_with_one(model: LanguageModel, text: str, process: int, num_processes: int) -> str:
    """Return which heads this process holds, and whether all together predict what one predicts."""

    def add(x: Tensor) -> Tensor:
        dist.all_reduce(x)
        return x

    part = with_own_heads(model, process, num_processes, add)
    together = next_logits(part, text)
    is_same = torch.allclose(together, next_logits(model, text), rtol=0, atol=1e-3)
    heads = own_part(torch.arange(model.size.num_heads), model.size, process, num_processes)
    word = model.tokenizer.decode([int(together.argmax())])
    return (
        f"process {process}: heads {heads[0]} to {heads[-1]} of each layer; together they say"
        f"{word}; the logits of one process, within 0.001: {is_same}"
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
