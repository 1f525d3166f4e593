"""Change attnlib, the tracer and the checks at random: list what no test notices.

    python tools/audit.py [--mutants 400] [--seed 1] [--workers 2]

Changed are all files of attnlib, and of attncourse tracing and checks, at one place at a time.
cosmic-ray makes the changes, in copies of the project under build/audit, and runs for each the
tests of the part it lies in. It must be installed beside this Python, as `make audit` does, and
needs hours: about ten seconds a change and worker. Nobody chose the places, so the share that
survives is an honest figure.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutants import PLUGINS, ROOT, copy_project

FOLDER = ROOT / "build" / "audit"
COSMIC_RAY = Path(sys.executable).with_name("cosmic-ray")
LIMIT = 900  # seconds for the tests of one change

ATTNLIB = "tests/attnlib/test_"
CONTRACT = " ".join(f"{ATTNLIB}contract_{part}.py" for part in ("inputs", "dropout", "numerics"))
CORE = f"{ATTNLIB}goldens.py {ATTNLIB}life_cycle.py {CONTRACT}"
ANY = " ".join(f"{ATTNLIB}{part}.py" for part in ("bad_input", "functional", "fused", "rotary"))
TESTS = {  # what is changed: the tests that may notice, the quick ones first
    "functional": f"{ATTNLIB}functional.py {CORE}",
    "modules": f"{ATTNLIB}bad_input.py {CORE}",
    "fused": f"{ATTNLIB}fused.py {ATTNLIB}cache.py {ATTNLIB}rotary.py {ATTNLIB}bad_input.py",
    "rotary": f"{ATTNLIB}rotary.py",
    "convert": f"{ATTNLIB}convert*.py {ATTNLIB}fused.py {ATTNLIB}other_projections.py",
    "validate": f"{ANY} {ATTNLIB}other_projections.py",
    "tracing": "tests/attncourse/tracing tests/attncourse/test_shape_comments.py",
    "checks": "tests/attncourse/checks tests/notebooks/test_exercises.py",
}


def call(copy: Path, *command: str) -> str:
    """Run a command in a copy of the project, whose attnlib comes before any installed one."""
    paths = os.pathsep.join(str(copy / name) for name in ("", "tests", "tools", "benchmarks"))
    settings = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(
        command, cwd=copy, env={**os.environ, **settings}, capture_output=True, text=True
    )
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}")
    return ran.stdout


def test_command(room: str, copy: Path) -> str:
    """Return the call of pytest that is to notice a change."""
    files = [str(f.relative_to(copy)) for p in TESTS[room].split() for f in sorted(copy.glob(p))]
    options = " ".join(("-x", "-q", "-p", "no:cacheprovider", *PLUGINS))
    return f"{sys.executable} -m pytest {options} {' '.join(files)}"


Place = tuple[int, int]  # line and column, as ast counts them


def annotations(path: Path) -> list[tuple[Place, Place]]:
    """Return from where to where a file's types stand: nothing evaluates them when it runs."""
    return [
        ((types.lineno, types.col_offset), (types.end_lineno or 0, types.end_col_offset or 0))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for field in ("annotation", "returns")
        if (types := getattr(node, field, None)) is not None
    ]


def within(ranges: list[tuple[Place, Place]], place: Place) -> bool:
    """Return whether a place lies in one of some ranges."""
    return any(start <= place < end for start, end in ranges)


def plan(room: str, copy: Path) -> tuple[Path, Path, list[str]]:
    """Return cosmic-ray's two files for a file or folder, and the ids of its possible changes."""
    core = f"attnlib/{room}.py"
    source = core if (copy / core).exists() else f"attncourse/{room}"
    config, session = FOLDER / f"{room}.toml", FOLDER / f"{room}.sqlite"
    config.write_text(
        f'[cosmic-ray]\nmodule-path = "{source}"\ntimeout = {LIMIT}.0\nexcluded-modules = []\n'
        f'test-command = "{test_command(room, copy)}"\n'
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    call(copy, str(COSMIC_RAY), "init", str(config), str(session))
    places = "job_id, module_path, start_pos_row, start_pos_col"
    order = "module_path, start_pos_row, start_pos_col, operator_name, operator_args, occurrence"
    with sqlite3.connect(session) as database:
        found = list(database.execute(f"select {places} from mutation_specs order by {order}"))
    types = {path: annotations(copy / path) for path in {path for _, path, _, _ in found}}
    jobs = [job for job, path, row, column in found if not within(types[path], (row, column))]
    return config, session, jobs


def keep(session: Path, chosen: set[str]) -> None:
    """Drop from a session all changes that were not chosen."""
    with sqlite3.connect(session) as database:
        ids = [row[0] for row in database.execute("select job_id from work_items")]
        for job in ids:
            if job not in chosen:
                for table in ("mutation_specs", "work_items"):
                    database.execute(f"delete from {table} where job_id = ?", (job,))


def outcomes(session: Path) -> list[tuple[str, str]]:
    """Return for each change of a session what became of it, and the change."""
    query = "select test_outcome, worker_outcome, diff from work_results"
    with sqlite3.connect(session) as database:
        return [(str(t or w), str(diff)) for t, w, diff in database.execute(query)]


def main() -> int:
    """Change, test, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rooms", nargs="*", default=list(TESTS), choices=list(TESTS))
    asked = parser.parse_args()

    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    copies: SimpleQueue[Path] = SimpleQueue()
    for worker in range(asked.workers):
        copies.put(copy_project(ROOT, FOLDER / f"copy-{worker}"))
    first = FOLDER / "copy-0"
    plans = {room: plan(room, first) for room in asked.rooms}
    every = sorted((room, job) for room, (_, _, jobs) in plans.items() for job in range(len(jobs)))
    chosen = set(random.Random(asked.seed).sample(every, min(asked.mutants, len(every))))

    def examine(room: str) -> None:
        config, session, jobs = plans[room]
        keep(session, {job for place, job in enumerate(jobs) if (room, place) in chosen})
        copy = copies.get()
        try:
            call(copy, *test_command(room, copy).split())  # without a change they pass
            call(copy, str(COSMIC_RAY), "exec", str(config), str(session))
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(asked.workers) as pool:
        list(pool.map(examine, asked.rooms))
    total: Counter[str] = Counter()
    for room in asked.rooms:
        found = outcomes(plans[room][1])
        counted = Counter(outcome for outcome, _ in found)
        total += counted
        print(f"{room}: {len(plans[room][2])} possible, {dict(counted)}")
        for outcome, diff in found:
            if "KILLED" not in outcome.upper():
                print(f"--- {outcome}\n{diff}\n")
    print(f"{sum(total.values())} of {len(every)} changes tried: {dict(total)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
