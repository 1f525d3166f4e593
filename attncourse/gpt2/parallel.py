"""Tensor parallelism by whole heads, run in several processes and compared with one.

run_processes(2) starts two processes of `python -m attncourse.gpt2` on this machine. They find each
other through a file, communicate over the loopback device, and need no GPU. torchrun is not needed:
it starts with libuv, which torch's builds for Windows lack. Where it works, so does

    torchrun --standalone --nproc-per-node 2 -m attncourse.gpt2

torch.distributed's tensor parallelism is loaded when first used.
"""

from __future__ import annotations

import copy
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from attncourse.compare import at_most
from attncourse.examples import SEED
from attnlib.modules import MultiHeadAttention
from attnlib.validate import require_divides, require_positive_int

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

WIDTH, NUM_HEADS = 768, 12  # the smallest GPT-2
SMALLEST_SHARE = 1e-5  # of the largest value; differences below it vary from machine to machine
LOOPBACK = {"linux": "lo", "darwin": "lo0"}
PATIENCE = 120.0  # seconds
STORE = "ATTNLIB_STORE"  # names the file through which processes find each other


def share_out_heads(module: MultiHeadAttention, mesh: DeviceMesh) -> MultiHeadAttention:
    """Leave to each process only its own heads, in place.

    Equation:
        out = sum over processes p of concat(heads of p) @ (their rows of W_out^T), plus b_out

    Args:
        module: the same in every process.
        mesh: a row of processes; their number divides num_heads.

    Returns:
        The module. In every process its forward takes and returns what it did before. num_heads
        counts the heads of this process, and attn_weights are theirs. It holds the rows of W_query,
        W_key and W_value of these heads, and their columns of out_proj; all processes hold
        out_proj.bias, which is added once, after the sum.

    Raises:
        TypeError: module is not a MultiHeadAttention.
        ValueError: the number of processes does not divide num_heads.

    Source: Shoeybi et al. 2019 (Megatron-LM), section 3; x multiplies from the left there, so the
    rows of nn.Linear's weight are the columns of their matrix.
    """
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    if not isinstance(module, MultiHeadAttention):
        raise TypeError(f"module must be a MultiHeadAttention, not {type(module).__name__}")
    require_whole_heads(module.num_heads, mesh.size())
    by_heads = dict.fromkeys(("W_query", "W_key", "W_value"), ColwiseParallel())
    parallelize_module(module, mesh, {**by_heads, "out_proj": RowwiseParallel()})
    module.num_heads //= mesh.size()
    return module


def require_whole_heads(num_heads: int, num_processes: int) -> None:
    """Raise unless num_heads heads can be shared out evenly, none of them cut.

    >>> require_whole_heads(num_heads=12, num_processes=4)
    """
    require_positive_int("num_processes", num_processes)
    rule = f"num_processes={num_processes} does not divide num_heads={num_heads}"
    whole_heads = "each process owns whole heads, equally many"
    require_divides(num_processes, num_heads, f"{rule}: {whole_heads}")


def run_processes(num_processes: int, patience: float = PATIENCE) -> str:
    """Start processes that share the heads of one module, and return their report.

    Args:
        num_processes: how many; it divides 12, the number of heads.
        patience: seconds until they are stopped.

    Returns:
        The report of the first of them: which process holds which heads, and how far its result
        is from that of a single process. If they cannot be run, a sentence that says why.

    Raises:
        TypeError, ValueError: num_processes is not a positive int that divides 12.

    Source: torch.distributed.FileStore, by which processes find each other.
    """
    require_whole_heads(NUM_HEADS, num_processes)
    return report_of([sys.executable, "-m", "attncourse.gpt2"], num_processes, patience)


def report_of(command: list[str], num_processes: int, patience: float) -> str:
    """Run a command in processes that can join a group; return what the first prints, or why."""
    sorry = "The processes could not be run on this machine"
    running: list[subprocess.Popen[bytes]] = []
    with TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as opened:
        folder = Path(name)
        opened.callback(_end, running)
        try:
            for rank in range(num_processes):
                out = opened.enter_context((folder / f"{rank}.out").open("wb"))
                err = opened.enter_context((folder / f"{rank}.err").open("wb"))
                how = _environment(rank, num_processes, folder / "store")
                running.append(subprocess.Popen(command, env=how, stdout=out, stderr=err))
        except OSError as error:
            return f"{sorry}: {error}."
        failed = _wait(running, patience)
        if failed is None:
            return f"{sorry}: they did not finish in {patience:g} seconds."
        if failed < num_processes:
            complaints = (folder / f"{failed}.err").read_text("utf-8", errors="replace")
            return f"{sorry}: {_cause(complaints, running[failed].returncode)}"
        return (folder / "0.out").read_text("utf-8", errors="replace").rstrip()


def _environment(rank: int, num_processes: int, store: Path) -> dict[str, str]:
    """Return the variables of one of several processes, under the names of torchrun."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    environment |= {"RANK": str(rank), "WORLD_SIZE": str(num_processes), STORE: str(store)}
    if sys.platform in LOOPBACK:
        environment["GLOO_SOCKET_IFNAME"] = LOOPBACK[sys.platform]
    return environment


def _wait(running: list[subprocess.Popen[bytes]], patience: float) -> int | None:
    """Return which process failed first, their number if none did, or None if time ran out."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        codes = [process.poll() for process in running]
        if failed := [rank for rank, code in enumerate(codes) if code]:
            return failed[0]
        if None not in codes:
            return len(running)
        time.sleep(0.02)
    return None


def _end(running: list[subprocess.Popen[bytes]]) -> None:
    """End what still runs, and wait until it has ended."""
    for process in running:
        process.kill()
    for process in running:
        process.wait()


def _cause(complaints: str, code: int) -> str:
    """Say in a few words why a process failed."""
    errors = re.findall(r"(?m)^.*Error: .*$", complaints)
    if errors:
        return str(errors[-1]).strip()
    return f"Signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"


def join_group() -> None:
    """Join the group of processes that run_processes, or torchrun, has started."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore

    if STORE not in os.environ:
        dist.init_process_group("gloo")
        return
    rank, num_processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = FileStore(os.environ[STORE], num_processes)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=num_processes)


def compare_with_one_process(num_heads: int = NUM_HEADS, width: int = WIDTH) -> str:
    """Run one module in all processes together and in this one alone, and return a report.

    Every process of an initialized group must call it.
    """
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    rank, num_processes = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(SEED)  # every process draws the same
    alone = MultiHeadAttention(width, width, 1024, 0.0, num_heads, qkv_bias=True)
    x = torch.randn(2, 6, width)
    shared = share_out_heads(copy.deepcopy(alone), init_device_mesh("cpu", (num_processes,)))

    expected, found = _results(alone, x), _results(shared, x)
    own = slice(rank * shared.num_heads, (rank + 1) * shared.num_heads)
    expected["weights"] = expected["weights"][:, own]
    off = {
        name: ((found[name] - result).abs().max() / result.abs().max()).item()
        for name, result in expected.items()
    }
    table = torch.tensor([local_parameters(shared), *off.values()], dtype=torch.float64)
    tables = [torch.empty_like(table) for _ in range(num_processes)]
    dist.all_gather(tables, table)
    counts = [int(row[0]) for row in tables]
    worst = torch.stack(tables).max(dim=0).values[1:].tolist()
    return "\n".join(
        [
            f"one process alone: heads 0 to {num_heads - 1}, "
            f"{local_parameters(alone):,} parameters",
            *(
                f"process {p} of {num_processes}: heads {p * shared.num_heads} to "
                f"{(p + 1) * shared.num_heads - 1}, {count:,} parameters"
                for p, count in enumerate(counts)
            ),
            *(
                f"{kind}: off by at most {at_most(value, SMALLEST_SHARE):.0e} of the largest"
                for kind, value in zip(off, worst, strict=True)
            ),
        ]
    )


def local_parameters(module: nn.Module) -> int:
    """Return how many numbers of a module this process holds.

    >>> local_parameters(nn.Linear(3, 2))
    8
    """
    return sum(_local(parameter).numel() for parameter in module.parameters())


def _results(module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return outputs, weights, and all gradients of the mean square in one row."""
    x = x.clone().requires_grad_()
    outputs, weights = module(x, return_weights=True)
    found = torch.autograd.grad(outputs.square().mean(), [x, *module.parameters()])
    gradients = torch.cat([_whole(gradient).flatten() for gradient in found])
    return {"outputs": outputs.detach(), "weights": weights.detach(), "gradients": gradients}


def _local(tensor: Tensor) -> Tensor:
    """Return the part of a tensor that lies in this process."""
    part: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part


def _whole(tensor: Tensor) -> Tensor:
    """Return a tensor; if its parts lie in several processes, gathered."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered


def main() -> None:
    """Compare, and print the report in the first process.

    Each process then exits at once. If Python shut down first, a thread of gloo that still frees
    its tensors could abort the process with "terminate called without an active exception", after
    all work is done.
    """
    import torch.distributed as dist

    join_group()
    try:
        report = compare_with_one_process()
        if dist.get_rank() == 0:
            print(report, flush=True)
    finally:
        dist.destroy_process_group()
    os._exit(0)
