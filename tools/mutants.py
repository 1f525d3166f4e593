"""Plant faults in copies of the project, one at a time: the test named for each must fail.

    python tools/mutants.py [mutant ...]

Without arguments: all of tools/mutants_list.py. A copy holds the files as they lie in this folder,
committed or not. A mutant is killed when pytest runs its test and exits with 1. All the tests must
pass in a copy without any fault first. One that imported another attnlib than its own would show
no fault, and every mutant would survive.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from mutants_list import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
SERVER = Path(__file__).with_name("forked_pytest.py")
LOADED = ("pytest", "torch", "torch.utils.flop_counter", "matplotlib.figure", "anywidget")
# Without the others pyproject.toml's options for nbval are unknown
PLUGINS = ("-p", "pytest_timeout", "-o", "addopts=--strict-markers")
WORKERS = 2
LIMIT = 120.0  # seconds for one test
BASE_LIMIT = 600.0  # seconds for all the tests together


def plant(mutant: Mutant, text: str) -> str:
    """Return the text with the fault in it.

    Raises:
        ValueError: what it replaces does not stand there exactly once.
    """
    for old, new in mutant.changes.items():
        if text.count(old) != 1:
            raise ValueError(
                f"{mutant.name}: {mutant.file} holds {text.count(old)} times, not once: {old!r}. "
                "The code moved: update tools/mutants_list.py"
            )
        text = text.replace(old, new)
    return text


def copy_project(root: Path, copy: Path) -> Path:
    """Copy the project as it lies there, without what git ignores."""
    ignored = [line.rstrip("/") for line in (root / ".gitignore").read_text().splitlines()]
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", *ignored))
    return copy


class Pytest:
    """A process that runs pytest again and again: `tools/forked_pytest.py`.

    Its exit code is None if it ran out of time. Where no process can fork, each run starts Python
    anew, which takes three times as long.
    """

    def __init__(self) -> None:
        settings = {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # they take longer to load than many a test
            "PYTEST_ADDOPTS": "",
            "OMP_NUM_THREADS": "1",
        }
        self.environment = os.environ | settings
        self.server: subprocess.Popen[str] | None = None

    def __enter__(self) -> Pytest:
        if hasattr(os, "fork"):
            self.server = subprocess.Popen(
                [sys.executable, str(SERVER), *LOADED],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self.server is not None:
            self.server.communicate()  # it ends with its stdin

    def run(self, copy: Path, *tests: str, limit: float) -> tuple[int | None, str]:
        """Return pytest's exit code, None if it ran out of time, and what it printed."""
        arguments = ["-q", "-x", *PLUGINS, *tests]
        if self.server is None:
            return self._run_anew(copy, arguments, limit)
        task = {"folder": str(copy), "arguments": arguments, "limit": limit}
        self.server.stdin.write(json.dumps(task) + "\n")
        self.server.stdin.flush()
        answer = self.server.stdout.readline()
        if not answer:
            raise RuntimeError(f"{SERVER.name} ended with code {self.server.wait()}")
        code, output = json.loads(answer)
        return code, output

    def _run_anew(
        self, copy: Path, arguments: Sequence[str], limit: float
    ) -> tuple[int | None, str]:
        try:
            ran = subprocess.run(
                [sys.executable, "-m", "pytest", *arguments],
                cwd=copy,
                env=self.environment | {"PYTHONPATH": str(copy)},  # before any installed attnlib
                capture_output=True,
                encoding="utf-8",
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, "ran out of time"
        return ran.returncode, ran.stdout + ran.stderr


def verdict(mutant: Mutant, root: Path, pytest: Pytest) -> str:
    """Return what became of a mutant: "killed", or why not."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = copy_project(root, Path(folder).resolve() / "copy")
        file = copy / mutant.file
        file.write_text(plant(mutant, file.read_text(encoding="utf-8")), encoding="utf-8")
        code, output = pytest.run(copy, mutant.test, limit=LIMIT)
    return {1: "killed", 0: "SURVIVED"}.get(code, f"NOT TESTED, exit code {code}: {output[-300:]}")


def verdicts(mutants: Sequence[Mutant], root: Path) -> Iterator[str]:
    """Yield what became of each mutant, in their order; WORKERS are tried at the same time."""
    with ExitStack() as stack:
        idle: SimpleQueue[Pytest] = SimpleQueue()
        for _ in range(min(WORKERS, len(mutants))):
            idle.put(stack.enter_context(Pytest()))

        def tried(mutant: Mutant) -> str:
            pytest = idle.get()
            try:
                return verdict(mutant, root, pytest)
            finally:
                idle.put(pytest)

        with ThreadPoolExecutor(WORKERS) as pool:
            yield from pool.map(tried, mutants)


def main(names: Sequence[str], root: Path = ROOT, known: Sequence[Mutant] = MUTANTS) -> int:
    """Try the named mutants, or all; return 0 if every one of them was killed, else 1."""
    start = time.perf_counter()
    by_name = {mutant.name: mutant for mutant in known}
    if unknown := set(names) - set(by_name):
        print(f"no such mutant: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    mutants = [by_name[name] for name in names] or list(known)
    for mutant in mutants:  # so that code that moved is known at once
        plant(mutant, (root / mutant.file).read_text(encoding="utf-8"))

    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = copy_project(root, Path(folder).resolve() / "copy")
        tests = dict.fromkeys(mutant.test for mutant in mutants)
        with Pytest() as pytest:
            code, output = pytest.run(copy, *tests, limit=BASE_LIMIT)
    if code != 0:
        print(output, "Red without any fault.", sep="\n", file=sys.stderr)
        return 1
    print(f"Without any fault: green after {time.perf_counter() - start:.0f} s", flush=True)

    killed = 0
    for number, (mutant, found) in enumerate(
        zip(mutants, verdicts(mutants, root), strict=True), start=1
    ):
        if found == "killed":
            killed += 1
        outcome = f"{mutant.name} in {mutant.file}: {found}, {mutant.test}"
        print(f"{number:3d} of {len(mutants)}  {outcome}", flush=True)
    print(f"{killed} of {len(mutants)} killed in {time.perf_counter() - start:.0f} s")
    return 0 if killed == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
