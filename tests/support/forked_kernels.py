"""Kernels for nbval, as forks of one process that has loaded already what takes seconds to load.

A kernel is a process of its own, as ever, but PyTorch, Matplotlib and ipykernel are there when it
begins. Nothing of attnlib and attncourse is: a notebook loads them itself, and `rounding.py` with
them. Each process of the tests has one such parent, from its first notebook on.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from jupyter_client.provisioning import local_provisioner

KERNEL = "ipykernel_launcher"
PARENT = Path(__file__).with_name("kernel_parent.py")


class Fork:
    """A kernel, with what jupyter_client asks of a Popen."""

    stdin = stdout = stderr = None
    returncode: int | None = None

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """Return None while it runs; its parent keeps no exit code."""
        if self.returncode is None:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                self.returncode = 0
        return self.returncode

    wait = poll  # jupyter_client asks only when it is over

    def send_signal(self, number: int) -> None:
        """Send a signal; one that has ended gets none."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


@cache
def _parent() -> Popen[str]:
    """Start what all kernels of this process are forks of; it ends when its stdin does."""
    return Popen([sys.executable, str(PARENT)], stdin=PIPE, stdout=PIPE, text=True)


def fork_kernel(cmd: list[str], env: dict[str, str], cwd: str | None = None, **_: Any) -> Fork:
    """Start a kernel, as jupyter_client's launch_kernel does."""
    arguments = cmd[cmd.index(KERNEL) :]
    parent = _parent()
    print(json.dumps([arguments, env, str(cwd or os.getcwd())]), file=parent.stdin, flush=True)
    return Fork(int(parent.stdout.readline()))


@contextmanager
def forked_kernels() -> Iterator[None]:
    """Have the kernels that are started meanwhile forked, where forks are safe."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.platform == "linux":
            patch.setattr(local_provisioner, "launch_kernel", fork_kernel)
        yield
