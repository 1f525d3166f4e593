"""Plant faults in copies of the project, one at a time: a test must notice each.

    python tools/mutants.py [NAME ...]      # faults chosen by hand, of mutants.toml
    python tools/mutants.py --random 60     # changes of attnlib at random places, by cosmic-ray

A fault of mutants.toml is killed when pytest runs the test that it names and exits with 1. All
these tests must pass in a copy without a fault first. A random change is killed when any test of
attnlib fails.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
AUDIT = ROOT / "build" / "audit"
WORKERS = 2
LIMIT = 300  # seconds for the tests of one fault; all without a fault may take longer
# The plugins take longer to load than many a test runs; without them their options are unknown.
QUICK = ["-x", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout", "-o", "addopts="]
PYTEST = [sys.executable, "-m", "pytest", *QUICK]


class Mutant(NamedTuple):
    """A mistake that somebody could make: in a file a text is replaced, and a test must fail."""

    name: str
    file: str
    old: str
    new: str
    test: str


def read_mutants() -> list[Mutant]:
    """Return the mutants of mutants.toml: tables of files, in each a table for every mutant."""
    files = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return [
        Mutant(name, file, **entry)
        for file, named in files.items()
        for name, entry in named.items()
    ]


def copy_project(root: Path, copy: Path) -> Path:
    """Copy the project as it lies there, committed or not, without what git ignores."""
    ignored = [line.rstrip("/") for line in (root / ".gitignore").read_text().splitlines()]
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", *ignored))
    return copy


def run(copy: Path, *command: str, limit: float = LIMIT) -> tuple[int, str]:
    """Run a command in a copy, whose packages come before any installed ones."""
    settings = {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    settings |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    try:
        ran = subprocess.run(
            command,
            cwd=copy,
            env=os.environ | settings,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, "ran out of time"
    return ran.returncode, ran.stdout + ran.stderr


def verdict(mutant: Mutant) -> str:
    """Return what became of a mutant: "killed", or why not."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = copy_project(ROOT, Path(folder).resolve() / "copy")
        file = copy / mutant.file
        text = file.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            return f"NOT PLANTED: its text stands {text.count(mutant.old)} times in the file"
        file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        code, output = run(copy, *PYTEST, mutant.test)
    return {1: "killed", 0: "SURVIVED"}.get(code, f"NOT TESTED, exit code {code}: {output[-300:]}")


def plant_chosen(names: list[str]) -> int:
    """Try the named mutants, or all; return 0 if every one of them was killed, else 1."""
    mutants = [each for each in read_mutants() if not names or each.name in names]
    if len(mutants) < len(names):
        raise SystemExit(f"no such mutant among {', '.join(names)}")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = copy_project(ROOT, Path(folder).resolve() / "copy")
        tests = dict.fromkeys(mutant.test for mutant in mutants)
        code, output = run(copy, *PYTEST, *tests, limit=3 * LIMIT)
    if code != 0:
        raise SystemExit(f"{output}\nThe tests fail without any fault.")
    killed = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        for mutant, found in zip(mutants, pool.map(verdict, mutants), strict=True):
            killed += found == "killed"
            print(f"{mutant.name} in {mutant.file}: {found}", flush=True)
    print(f"{killed} of {len(mutants)} killed")
    return int(killed < len(mutants))


Place = tuple[int, int]  # line and column, as ast counts them


def annotations(path: Path) -> list[tuple[Place, Place]]:
    """Return from where to where a file's types stand: nothing evaluates them when it runs."""
    return [
        ((types.lineno, types.col_offset), (types.end_lineno or 0, types.end_col_offset or 0))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for field in ("annotation", "returns")
        if (types := getattr(node, field, None)) is not None
    ]


def plant_at_random(count: int, seed: int) -> int:
    """Change attnlib at random places, print what survives; return 0 if 95 % are killed."""
    shutil.rmtree(AUDIT, ignore_errors=True)
    AUDIT.mkdir(parents=True)
    copy = copy_project(ROOT, AUDIT / "copy")
    config, session = AUDIT / "audit.toml", AUDIT / "audit.sqlite"
    tests = [*PYTEST, "-m", "not slow", "tests/attnlib"]
    code, output = run(copy, *tests)
    if code:
        raise SystemExit(f"{output}\nThe tests fail without any fault.")
    config.write_text(
        f'[cosmic-ray]\nmodule-path = "attnlib"\ntimeout = {LIMIT}.0\nexcluded-modules = []\n'
        f'test-command = "{shlex.join(tests)}"\n'
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    cosmic_ray = str(Path(sys.executable).with_name("cosmic-ray"))
    code, output = run(copy, cosmic_ray, "init", str(config), str(session))
    if code:
        raise SystemExit(output)
    with sqlite3.connect(session) as database:
        found = "select job_id, module_path, start_pos_row, start_pos_col from mutation_specs"
        rows = sorted(database.execute(found), key=lambda row: row[1:])
        types = {path: annotations(copy / path) for _, path, _, _ in rows}
        jobs = [
            job
            for job, path, *place in rows
            if not any(start <= tuple(place) < end for start, end in types[path])
        ]
        chosen = set(random.Random(seed).sample(jobs, count))
        for job in {row[0] for row in rows} - chosen:
            for table in ("mutation_specs", "work_items"):
                database.execute(f"delete from {table} where job_id = ?", (job,))
    code, output = run(copy, cosmic_ray, "exec", str(config), str(session), limit=count * LIMIT)
    if code:
        raise SystemExit(output)
    with sqlite3.connect(session) as database:
        results = list(database.execute("select test_outcome, diff from work_results"))
    survived = [diff for outcome, diff in results if "KILLED" not in str(outcome).upper()]
    print(*survived, f"{count - len(survived)} of {count} killed", sep="\n\n")
    return int(len(survived) > 0.05 * count)


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="of mutants.toml; without any, all")
    parser.add_argument("--random", type=int, metavar="COUNT", help="so many random changes")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if asked.random:
        return plant_at_random(asked.random, asked.seed)
    return plant_chosen(asked.names)


if __name__ == "__main__":
    sys.exit(main())
