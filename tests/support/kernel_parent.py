"""The process that forked_kernels.py forks kernels of; it loads no more than they all need.

    python tests/support/kernel_parent.py

It reads a line of JSON for each kernel: its arguments, its variables, and the folder to run in. It
answers with the number of the kernel's process.
"""

import gc
import json
import os
import signal
import sys
from importlib import import_module

LOADED = ("torch", "matplotlib.backends.backend_agg", "matplotlib.figure", "ipykernel.ipkernel")


def _become_kernel(arguments: list[str], env: dict[str, str], cwd: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()  # signals to a kernel go to its group
    os.write(1, f"{os.getpid()}\n".encode())
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = arguments
    import torch
    from ipykernel import kernelapp

    torch.seed()  # a new process draws its own seed
    kernelapp.launch_new_instance()


def main() -> None:
    """Load, then fork a kernel for each line of stdin, and answer with its number."""
    del sys.path[0]  # this file's
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # kernels end with this process
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as each kernel would
    for name in LOADED:
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a kernel ended
    for line in sys.stdin:
        if os.fork() == 0:
            _become_kernel(*json.loads(line))
            os._exit(0)


if __name__ == "__main__":
    main()
