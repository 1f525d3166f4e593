"""The `attnlib` command: lab, check, grade and forget."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from attncourse.checks import check_causal_attention, check_stacked_heads, check_weight_split
from attncourse.classroom.grade import Grade, commonest, grade, write_csv, write_html
from attncourse.classroom.lessons import copy_course
from attncourse.classroom.sandbox import NoWallsError, walls
from attncourse.language import forget

LIKE = {
    "CausalAttention": check_causal_attention,
    "MultiHeadAttentionWrapper": check_stacked_heads,
    "MultiHeadAttention": check_weight_split,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line asks for, and return the exit status."""
    asked = _parser().parse_args(arguments)
    if asked.needs and importlib.util.find_spec(asked.needs) is None:
        print(
            f"This needs {asked.needs}, which is not installed here; "
            f"try: pip install {asked.needs}",
            file=sys.stderr,
        )
        return 1
    status: int = asked.do(asked)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="attnlib", description="Multi-head causal attention: the course, its checks, grades."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("lab", help="copy the notebooks into a folder and open JupyterLab")
    one.add_argument("folder", type=Path, nargs="?", default=Path("attention"))
    one.set_defaults(do=lab, needs="jupyterlab")
    one = commands.add_parser("check", help="check a class in a file: my_attention.py:MyClass")
    one.add_argument("written", metavar="FILE:CLASS")
    one.add_argument(
        "--like",
        choices=LIKE,
        help="the class it should equal (default: CausalAttention if it takes no num_heads, "
        "else MultiHeadAttention)",
    )
    one.set_defaults(do=check, needs=None)
    one = commands.add_parser("grade", help="grade learners' notebooks, into a table")
    one.add_argument("notebooks", type=Path, nargs="+", metavar="NOTEBOOK")
    one.add_argument(
        "--seconds", type=float, default=60.0, help="of computing, for a cell (default: 60)"
    )
    one.add_argument(
        "--trust", action="store_true", help="run them without a sandbox, as if they were yours"
    )
    one.add_argument("--out", type=Path, default=Path("grades"), help="folder (default: grades)")
    one.set_defaults(do=grades, needs="ipykernel")
    one = commands.add_parser("forget", help="remove what was unpacked of the language model")
    one.set_defaults(do=forget_model, needs=None)
    return parser


def lab(asked: argparse.Namespace) -> int:
    """Copy the notebooks, and open the list of them in JupyterLab."""
    kept = copy_course(asked.folder)
    if kept:
        print(f"{len(kept)} notebooks were there already and stay as they are")
    options = ["--ip=127.0.0.1", "--LabApp.default_url=/lab/tree/notebooks/00_start.ipynb"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # as in a container
        options.append("--allow-root")
    command = [sys.executable, "-m", "jupyterlab", *options]
    return subprocess.run(command, cwd=asked.folder).returncode


def check(asked: argparse.Namespace) -> int:
    """Check a class in a file, and print the verdict."""
    file, _, name = asked.written.rpartition(":")
    path = Path(file)
    if not file or not path.is_file():
        print(f"expected FILE:CLASS with a file that is there, got {asked.written!r}")
        return 2
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        classes = ", ".join(n for n, x in vars(module).items() if isinstance(x, type)) or "none"
        print(f"{path} has no class {name}; it has: {classes}")
        return 2
    written = getattr(module, name)
    like = asked.like or ("MultiHeadAttention" if _takes_heads(written) else "CausalAttention")
    verdict = LIKE[like](written)
    print(verdict)
    return 0 if verdict.holds else 1


def _takes_heads(written: type) -> bool:
    """Return whether a class is made with a number of heads, under whatever name."""
    try:
        names = inspect.signature(written).parameters
    except (TypeError, ValueError):
        return True
    return any("head" in name for name in names)


def forget_model(_asked: argparse.Namespace) -> int:
    """Remove what was kept of the language model, and print what that was."""
    print(forget())
    return 0


def grades(asked: argparse.Namespace) -> int:
    """Grade notebooks, and write grades.csv and grades.html."""
    missing = [path for path in asked.notebooks if not path.is_file()]
    if missing:
        print(f"no such file: {', '.join(map(str, missing))}")
        return 2
    try:
        behind = () if asked.trust else walls()
    except NoWallsError as error:
        print(f"{error}\nNotebooks that you trust like your own: attnlib grade --trust ...")
        return 2
    found: list[Grade] = []
    for name, some in grade(asked.notebooks, behind, asked.seconds):
        print(f"{name}: {sum(one.state == 'solved' for one in some)} of {len(some)} solved")
        found += some
    asked.out.mkdir(parents=True, exist_ok=True)
    write_csv(found, asked.out / "grades.csv")
    write_html(found, asked.out / "grades.html")
    solved = sum(one.state == "solved" for one in found)
    print(f"{solved} of {len(found)} exercises solved; see {asked.out / 'grades.html'}")
    for (exercise, said), count in commonest(found, most=3):
        print(f"{count} × {exercise}: {said}")
    return 0
