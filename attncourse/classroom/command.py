"""The `attncourse` command: lab, check and clear-cache.

It imports PyTorch only where it must, so `--help` answers at once.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from attncourse.classroom.check_file import CHECKS, check_in_child
from attncourse.classroom.lessons import copy_course


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for, and return the exit status."""
    asked = _parser().parse_args(arguments)
    status: int = asked.do(asked)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="attncourse", description="Multi-head causal attention: the notebooks and the checks."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("lab", help="copy the notebooks into a folder and open JupyterLab")
    one.add_argument("folder", type=Path, nargs="?", default=Path("attention"))
    one.set_defaults(do=lab)
    one = commands.add_parser(
        "check",
        help="run a file, and check a class in it: my_attention.py:MyClass",
        description="Run FILE with your rights, in a Python process of its own, and check CLASS. "
        "Exit status: 0 the class is right, 1 it is wrong, 2 it cannot be judged.",
    )
    one.add_argument("written", metavar="FILE:CLASS")
    one.add_argument(
        "--like",
        choices=CHECKS,
        help="the class it should equal (default: CausalAttention if it takes no num_heads, "
        "else MultiHeadAttention)",
    )
    one.add_argument(
        "--seconds", type=float, default=60.0, help="how long it may take (default: 60)"
    )
    one.set_defaults(do=check)
    one = commands.add_parser("clear-cache", help="remove the unpacked language model")
    one.set_defaults(do=clear_cache)
    return parser


def lab(asked: argparse.Namespace) -> int:
    """Copy the notebooks, and open the list of them in JupyterLab."""
    if importlib.util.find_spec("jupyterlab") is None:
        print("JupyterLab is not installed; try: pip install jupyterlab", file=sys.stderr)
        return 1
    kept = copy_course(asked.folder)
    if kept:
        print(f"{len(kept)} notebooks were there already and stay as they are")
    options = ["--ip=127.0.0.1", "--LabApp.default_url=/lab/tree/notebooks/00_start.ipynb"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # as in a container
        options.append("--allow-root")
    command = [sys.executable, "-m", "jupyterlab", *options]
    return subprocess.run(command, cwd=asked.folder).returncode


def check(asked: argparse.Namespace) -> int:
    """Check a class in a file, print the verdict, and return 0, 1 or 2."""
    file, _, name = asked.written.rpartition(":")
    if not file:
        print(f"expected FILE:CLASS, such as my_attention.py:MyClass, got {asked.written!r}")
        return 2
    status, said = check_in_child(Path(file), name, asked.like, asked.seconds)
    print(said)
    return status


def clear_cache(_asked: argparse.Namespace) -> int:
    """Remove the cached weights of the language model, and print what that was."""
    from attncourse.language import clear_cache

    print(clear_cache())
    return 0
