"""Plant faults in copies of the project, one at a time: the test named for each must fail.

    python tools/mutants.py [mutant ...]

Without arguments: all of tools/mutants_list.py. A copy holds the files as they lie in this folder,
committed or not. A mutant is killed when pytest runs its test and exits with 1. All the tests must
pass in a copy without any fault first. One that imported another attnlib than its own would show
no fault, and every mutant would survive.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from mutants_list import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
WORKERS = 2
LIMIT = 120.0  # seconds for one test
BASE_LIMIT = 600.0  # seconds for all the tests together


def planted(mutant: Mutant, text: str) -> str:
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


def copied(root: Path, copy: Path) -> Path:
    """Copy the project as it lies there, without what git ignores."""
    ignored = [line.rstrip("/") for line in (root / ".gitignore").read_text().splitlines()]
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", *ignored))
    return copy


def run_pytest(copy: Path, *tests: str, limit: float) -> tuple[int | None, str]:
    """Return pytest's exit code, None if it ran out of time, and what it printed."""
    settings = {
        "PYTHONPATH": str(copy),  # its attnlib comes before any installed one
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # they take longer to load than many a test to run
        "PYTEST_ADDOPTS": "",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", *tests]
    try:
        ran = subprocess.run(
            command,
            cwd=copy,
            env=os.environ | settings,
            capture_output=True,
            encoding="utf-8",
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, "ran out of time"
    return ran.returncode, ran.stdout + ran.stderr


def verdict(mutant: Mutant, root: Path) -> str:
    """Return what became of a mutant: "killed", or why not."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = copied(root, Path(folder).resolve() / "copy")
        file = copy / mutant.file
        file.write_text(planted(mutant, file.read_text(encoding="utf-8")), encoding="utf-8")
        code, output = run_pytest(copy, mutant.test, limit=LIMIT)
    return {1: "killed", 0: "SURVIVED"}.get(code, f"NOT TESTED, exit code {code}: {output[-300:]}")


def main(names: Sequence[str], root: Path = ROOT, known: Sequence[Mutant] = MUTANTS) -> int:
    """Try the named mutants, or all; return 0 if every one of them was killed, else 1."""
    start = time.perf_counter()
    by_name = {mutant.name: mutant for mutant in known}
    if unknown := set(names) - set(by_name):
        print(f"no such mutant: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    mutants = [by_name[name] for name in names] or list(known)
    for mutant in mutants:  # so that code that moved is known at once
        planted(mutant, (root / mutant.file).read_text(encoding="utf-8"))

    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = copied(root, Path(folder).resolve() / "copy")
        tests = dict.fromkeys(mutant.test for mutant in mutants)
        code, output = run_pytest(copy, *tests, limit=BASE_LIMIT)
    if code != 0:
        print(output, "Red without any fault.", sep="\n", file=sys.stderr)
        return 1
    print(f"Without any fault: green after {time.perf_counter() - start:.0f} s", flush=True)

    killed = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        verdicts = pool.map(lambda mutant: verdict(mutant, root), mutants)
        for number, (mutant, found) in enumerate(zip(mutants, verdicts, strict=True), start=1):
            if found == "killed":
                killed += 1
            outcome = f"{mutant.name} in {mutant.file}: {found}, {mutant.test}"
            print(f"{number:3d} of {len(mutants)}  {outcome}", flush=True)
    print(f"{killed} of {len(mutants)} killed in {time.perf_counter() - start:.0f} s")
    return 0 if killed == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
