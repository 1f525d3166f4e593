"""Heads shared out among processes: equal to one process, and errors in words."""

import json
import os
import re
import subprocess
import sys
import time

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from attncourse.gpt2 import parallel
from attncourse.gpt2.parallel import report_of, run_processes, share_out_heads
from attnlib import FusedMultiHeadAttention

TWO = """
import copy, json, os, torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from attnlib import MultiHeadAttention
from attncourse.gpt2.parallel import compare_with_one_process, join_group
from attncourse.gpt2.parallel import local_parameters, share_out_heads

dist.TCPStore = dist.rendezvous = None  # without torchrun's way to meet, which asks for libuv
join_group()
rank = dist.get_rank()
report = compare_with_one_process(num_heads=6, width=42)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(1)
alone = MultiHeadAttention(11, 24, 13, 0.0, 6, qkv_bias=True)
shared = share_out_heads(copy.deepcopy(alone), mesh)
x = torch.randn(2, 7, 11)
right = (shared(x) - alone(x)).abs().max().item()
said = {}
wrong_inputs = {"dtype": x.double(), "width": x[:, :, :10], "length": x.repeat(1, 2, 1)}
for name, wrong in wrong_inputs.items():
    try:
        shared(wrong)
    except (TypeError, ValueError) as error:
        said[name] = str(error)
try:
    share_out_heads(MultiHeadAttention(11, 15, 13, 0.0, 3), mesh)
except ValueError as error:
    said["heads"] = str(error)
shapes = {name: list(entry.to_local().shape) for name, entry in shared.named_parameters()}
rows = torch.equal(shared.W_key.weight.to_local(), alone.W_key.weight[rank * 12 : rank * 12 + 12])
columns = shared.out_proj.weight.to_local()
columns = torch.equal(columns, alone.out_proj.weight[:, rank * 12 : rank * 12 + 12])
shared.num_heads = 6  # as if each process still had all heads: each of half the width
wrong = (shared(x) - alone(x)).abs().max().item()
found = dict(report=report, right=right, wrong=wrong, said=said, shapes=shapes)
found |= dict(rows=rows, columns=columns, held=local_parameters(shared))
everybody = [None, None]
dist.all_gather_object(everybody, found)
if rank == 0:
    print(json.dumps(everybody), flush=True)
dist.destroy_process_group()
os._exit(0)
"""


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> list[dict]:
    """What each of two processes finds, without libuv, which builds for Windows do not have."""
    script = tmp_path_factory.mktemp("two") / "two.py"
    script.write_text(TWO, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("USE_LIBUV", "1")  # as torchrun has it, whatever else is set
        printed = report_of([sys.executable, str(script)], 2, patience=120)
    assert printed.startswith("["), printed
    return json.loads(printed)


def test_two_processes_compute_what_one_computes(two):
    for found in two:
        assert found["report"].splitlines() == [
            "one process alone: heads 0 to 5, 7,224 parameters",
            "process 0 of 2: heads 0 to 2, 3,633 parameters",
            "process 1 of 2: heads 3 to 5, 3,633 parameters",
            "outputs: off by at most 1e-05 of the largest",
            "weights: off by at most 1e-05 of the largest",
            "gradients: off by at most 1e-05 of the largest",
        ]
        assert found["right"] < 1e-6
        assert found["wrong"] > 1e-2  # without the division of num_heads, nothing else complains


def test_each_process_holds_the_weights_of_its_heads(two):
    for found in two:
        assert found["rows"]
        assert found["columns"]
        own = {f"W_{name}.weight": [12, 11] for name in ("query", "key", "value")}
        own |= {name.replace("weight", "bias"): [12] for name in own}
        assert found["shapes"] == own | {"out_proj.weight": [24, 12], "out_proj.bias": [24]}
        assert found["held"] == 3 * (12 * 11 + 12) + 24 * 12 + 24


def test_wrong_inputs_get_the_usual_words(two):
    for found in two:
        assert "x is torch.float64, the weights are torch.float32" in found["said"]["dtype"]
        assert "the last dimension of x must be d_in=11, not 10" in found["said"]["width"]
        assert "x has 14 tokens, more than context_length=13" in found["said"]["length"]
        assert "num_processes=2 does not divide num_heads=3" in found["said"]["heads"]


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (5, ValueError, "=5 does not divide num_heads=12: each process owns whole heads, .* 4 and"),
        (24, ValueError, "=24 does not divide num_heads=12: .* 12$"),
        (0, ValueError, " must be a positive int, not 0"),
        (True, TypeError, " must be a positive int, not True"),
        ("2", TypeError, " must be a positive int, not '2'"),
    ],
)
def test_whole_heads_only(wrong, error, said):
    with pytest.raises(error, match=f"num_processes{said}"):
        run_processes(wrong)


def test_only_the_split_class_can_be_cut():
    """Rows of W_qkv cut in two would be queries here and keys and values there."""
    fused = FusedMultiHeadAttention(6, 6, 3, 0.0, 2)
    said = r"module must be a MultiHeadAttention, not FusedMultiHeadAttention"
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(TypeError, match=said):
            share_out_heads(fused, init_device_mesh("cpu", (1,)))
    finally:
        dist.destroy_process_group()


# What cannot be started says so


DIES = """
import os, signal, sys, time
if os.environ["RANK"] == "1":
    {death}
time.sleep(60)  # until it is ended
"""


@pytest.mark.parametrize(
    ("death", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", r": Signal 9 \(SIGKILL\)"),
        ("raise OSError('no room')", r": .*OSError: no room"),
        ("sys.exit(3)", r": exit code 3"),
    ],
)
def test_what_a_process_died_of(tmp_path, death, said):
    if "SIGKILL" in death and sys.platform == "win32":
        pytest.skip("Windows has no SIGKILL")
    script = tmp_path / "dies.py"
    script.write_text(DIES.format(death=death), encoding="utf-8")
    printed = report_of([sys.executable, str(script)], 2, patience=60)
    assert re.fullmatch("The processes could not be run on this machine" + said, printed)


WAITS = """
import os, pathlib, time
pathlib.Path(__file__).with_name(f"{os.getpid()}.pid").touch()
time.sleep(60)
"""


def test_no_process_outlives_their_patience(tmp_path, monkeypatch):
    """It runs out as soon as both processes have started."""

    def wait(running: list, patience: float) -> None:
        while len(list(tmp_path.glob("*.pid"))) < 2:
            assert all(process.poll() is None for process in running)
            time.sleep(0.05)

    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *what, **how: started.append(popen(*what, **how)) or started[-1]
    )
    monkeypatch.setattr(parallel, "_wait", wait)
    script = tmp_path / "waits.py"
    script.write_text(WAITS, encoding="utf-8")
    printed = report_of([sys.executable, str(script)], 2, patience=5)
    assert printed.endswith(": they did not finish in 5 seconds.")
    assert len(started) == 2
    assert all(process.returncode not in (0, None) for process in started)


def test_torchrun_starts_them_too():
    """As a lesson on many machines would."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--local-addr=127.0.0.1", "--nproc-per-node=1", "-m", "attncourse.gpt2"]
    alone = {"USE_LIBUV": "0", "OMP_NUM_THREADS": "1", **os.environ}
    ran = subprocess.run(command, env=alone, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("one process alone: heads 0 to 11, 2,362,368 parameters")


def test_its_report_is_passed_on_and_threads_are_limited():
    code = "import os; print('one', os.environ['OMP_NUM_THREADS'], sep='\\n')"
    assert report_of([sys.executable, "-c", code], 1, patience=60) == "one\n1"
