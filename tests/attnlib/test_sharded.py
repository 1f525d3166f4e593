"""Promise 31: heads and parameters shared out among two gloo processes on this machine."""

import copy
import os
import sys

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from attnlib import FusedMultiHeadAttention, MultiHeadAttention, MultiHeadAttentionWrapper
from attnlib.parallel import ColwiseQKV
from support.cases import refused, tokens

SIZES = (11, 24, 13, 0.0, 4)  # d_in, d_out, context_length, dropout, num_heads
PROJECTIONS = ("W_query", "W_key", "W_value")
BF16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16)


def built(cls: type[nn.Module], **options: object) -> nn.Module:
    torch.manual_seed(1)
    return cls(*SIZES, **options)


def plan_of(module: nn.Module) -> dict:
    if isinstance(module, FusedMultiHeadAttention):
        return {"W_qkv": ColwiseQKV(module), "out_proj": RowwiseParallel()}
    return {W: ColwiseParallel() for W in PROJECTIONS} | {"out_proj": RowwiseParallel()}


def slopes(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_()
    out = module(x)
    out.square().sum().backward()
    return out.detach(), x.grad


def tensor_parallel(mesh: DeviceMesh) -> None:
    """Each class equals the whole module, with gradients; what cannot be shared is refused."""
    x = tokens()
    shared = {"num_kv_heads": 2, "rotary_base": 100.0}
    for cls, options in (
        (MultiHeadAttention, {"qkv_bias": True}),
        (FusedMultiHeadAttention, {"qkv_bias": True}),
        (FusedMultiHeadAttention, shared),
    ):
        whole = built(cls, **options)
        part = parallelize_module(copy.deepcopy(whole), mesh, plan_of(whole))
        torch.testing.assert_close(slopes(part, x), slopes(whole, x), atol=1e-6, rtol=1e-5)
    with torch.no_grad():  # decoding: the cache has the heads of this process
        cache = part.new_cache(2, 7)
        found = torch.cat([part(piece, cache=cache) for piece in x.split([4, 1, 2], dim=1)], dim=1)
        torch.testing.assert_close(found, whole(x), atol=1e-6, rtol=1e-5)

    odd = MultiHeadAttention(11, 15, 13, 0.0, 3)
    part = parallelize_module(odd, mesh, plan_of(odd))
    with refused(ValueError, "the number of processes must divide the number of heads"):
        part(x)
    odd = built(FusedMultiHeadAttention, num_kv_heads=1)
    with refused(ValueError, "num_kv_heads=1 cannot be shared out among 2 processes"):
        parallelize_module(odd, mesh, plan_of(odd))
    fused = built(FusedMultiHeadAttention)
    part = parallelize_module(fused, mesh, plan_of(fused) | {"W_qkv": ColwiseParallel()})
    with refused(ValueError, "ColwiseParallel gives a process the wrong ones; use attnlib.par"):
        part(x)
    stacked = built(MultiHeadAttentionWrapper)
    plan = {f"heads.{h}.{W}": ColwiseParallel() for h in range(4) for W in PROJECTIONS}
    with refused(ValueError, "one head cannot be shared out among processes; stacked_to_split"):
        parallelize_module(stacked, mesh, plan)(x)


def fully_sharded(mesh: DeviceMesh) -> None:
    """FSDP2 on the module, and on each nn.Linear too, without a policy and with bfloat16."""
    x = tokens()
    for cls in (MultiHeadAttentionWrapper, MultiHeadAttention, FusedMultiHeadAttention):
        for each, options in ((False, {}), (True, {}), (False, BF16), (True, BF16)):
            whole = built(cls)
            part = copy.deepcopy(whole)
            how = {"mesh": mesh} | ({"mp_policy": options} if options else {})
            if each:
                for linear in [m for m in part.modules() if isinstance(m, nn.Linear)]:
                    fully_shard(linear, **how)
            fully_shard(part, **how)
            close = {"atol": 0.05, "rtol": 0.05} if options else {"atol": 1e-6, "rtol": 1e-5}
            for _ in range(2):
                out = part(x)
                out.float().square().sum().backward()
                torch.testing.assert_close(out.float(), whole(x), **close)


def run_process(rank: int, folder: str) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", rank=rank, world_size=2, store=store)
    mesh = init_device_mesh("cpu", (2,))
    tensor_parallel(mesh)
    fully_sharded(mesh)
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.promise(number=31)
@pytest.mark.skipif(sys.platform == "win32", reason="gloo by a loopback name")
def test_two_processes(tmp_path):
    """All that they compare is in the functions above: an error in one ends the test."""
    mp.spawn(run_process, args=(str(tmp_path),), nprocs=2)
    assert (tmp_path / "store").exists()
