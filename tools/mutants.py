"""Plant faults in a copy of the project, one at a time, and see which test notices each.

    python tools/mutants.py [fault ...]

Without arguments: all of tools/faults.py. A fault is killed when its own test fails, run alone,
and, if a notebook prints what it changes, when nbval alone fails on that notebook too. A fault
that survives, or stops the test from running, makes the run fail; so does a test or a notebook
that fails without any fault.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from faults import FAULTS, Fault

ROOT = Path(__file__).parents[1]
WORKERS = 2
LIMIT = 120.0  # seconds for one test or one notebook
BASE_LIMIT = 600.0  # seconds for all the tests together
NOT_RUN = ("SyntaxError", "IndentationError", "ImportError", "ModuleNotFoundError", "NameError")

# Where attnlib comes from: asked of a test and of a kernel, from folders beside attnlib's own.
WHERE = "Path(attnlib.__file__).resolve().parents[1]"
WHERE_TEST = f"""
from pathlib import Path
import attnlib
def test_attnlib_is_that_of_the_copy():
    assert {WHERE} == Path(__file__).resolve().parents[1]
"""
WHERE_CELL = f"from pathlib import Path\nimport attnlib\n{WHERE} == Path.cwd().resolve().parent"


class Run(NamedTuple):
    """What one call of pytest found."""

    code: int | None  # pytest's exit code; None: it ran out of time
    failures: dict[str, str]  # for each test that failed, its message
    errors: dict[str, str]  # for each test that could not begin or end
    seconds: float
    output: str


class Row(NamedTuple):
    """What became of one fault."""

    fault: Fault
    killed_by: tuple[str, ...]
    problems: tuple[str, ...]  # none: it was killed by all that should kill it
    seconds: float


def planted(fault: Fault, text: str) -> str:
    """Return the text with the fault in it.

    Raises:
        ValueError: what it replaces does not stand there exactly once.
    """
    for old, new in fault.changes.items():
        if text.count(old) != 1:
            raise ValueError(
                f"{fault.name}: {fault.file} holds {text.count(old)} times, not once: {old!r}. "
                "The code moved: update the fault"
            )
        text = text.replace(old, new)
    return text


def copied(root: Path, copy: Path) -> Path:
    """Copy the project without what git ignores, and make sure that the copy imports itself."""
    ignored = [line.rstrip("/") for line in (root / ".gitignore").read_text().splitlines()]
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".git", *ignored))
    folder = copy / "where"
    folder.mkdir()
    cell = {
        "cell_type": "code",
        "execution_count": 1,
        "id": "where",
        "metadata": {},
        "outputs": [
            {
                "data": {"text/plain": ["True"]},
                "execution_count": 1,
                "metadata": {},
                "output_type": "execute_result",
            }
        ],
        "source": [WHERE_CELL],
    }
    kernel = {"kernelspec": {"display_name": "", "language": "python", "name": "python3"}}
    notebook = {"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "test_where.py").write_text(WHERE_TEST)
    (folder / "where.ipynb").write_text(json.dumps(notebook))
    run = run_pytest(copy, "-x", "where/test_where.py", "where/where.ipynb")
    shutil.rmtree(folder)
    if run.code != 0:
        raise RuntimeError(f"a copy of the project does not import its own attnlib\n{run.output}")
    return copy


def run_pytest(root: Path, *arguments: str, limit: float = LIMIT) -> Run:
    """Run pytest in a copy of the project, whose attnlib comes before any installed one."""
    settings = {
        "PYTHONPATH": str(root),
        "PYTHONDONTWRITEBYTECODE": "1",  # a file may change twice within a second
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # they take longer to load than many a test to run
        "OMP_NUM_THREADS": "1",
        "JUPYTER_PREFER_ENV_PATH": "1",
    }
    dropped = ("PYTEST_ADDOPTS", "MPLBACKEND")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    notebooks = [name for name in arguments if name.endswith(".ipynb")]
    report = root / "report.xml"
    report.unlink(missing_ok=True)
    options = [f"--junitxml={report}"]
    if notebooks:
        options += ["-p", "nbval.plugin", "--nbval", "--nbval-current-env"]
    start = time.perf_counter()
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *options, *arguments],
            cwd=root,
            env=kept | settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Run(None, {}, {}, time.perf_counter() - start, "")
    seconds = time.perf_counter() - start
    found: dict[str, dict[str, str]] = {"failure": {}, "error": {}}
    for case in ET.parse(report).iter("testcase") if report.exists() else ():
        for part in case:
            if part.tag in found:
                found[part.tag][_node(case)] = part.get("message", "")
    return Run(ran.returncode, found["failure"], found["error"], seconds, ran.stdout)


def _node(case: ET.Element) -> str:
    """Return the name by which pytest would run a test again."""
    place, name = case.get("classname", ""), case.get("name", "")
    ending = ".ipynb" if place.endswith(".ipynb") else ".py"
    return f"{place.removesuffix('.ipynb').replace('.', '/')}{ending}::{name}"


def problem(run: Run, wanted: str) -> str | None:
    """Say why a run does not show that the wanted test notices the fault, or None if it does."""
    if run.code is None:
        return f"{wanted} ran out of time"
    if run.code == 0:
        return f"SURVIVED {wanted}"
    parts = (f"{wanted}[", f"{wanted}::")  # parameters, cells
    others = [name for name in run.failures if name != wanted and not name.startswith(parts)]
    if run.code != 1 or run.errors or others or not run.failures:
        what = "; ".join([*others, *run.errors.values()]) or run.output.strip()[-300:]
        return f"{wanted} did not run to its end: exit code {run.code}: {what}"
    for message in run.failures.values():
        if message.startswith(NOT_RUN):
            return f"the fault does not run: {message.splitlines()[0]}"
    return None


def without_quotes(notebook: dict[str, Any], fault: Fault) -> dict[str, Any]:
    """Let nbval pass over the cells that quote a changed line: only what they compute counts."""
    quotes = set()
    for old, new in fault.changes.items():
        for line in old.splitlines():
            code = line.partition("  #")[0].strip()
            if code and line not in new.splitlines():
                quotes.add(code)
    for cell in notebook["cells"]:
        shown = html.unescape("".join(_texts(cell.get("outputs", []))))
        if any(quote in shown for quote in quotes):
            cell["metadata"].setdefault("tags", []).append("nbval-ignore-output")
    return notebook


def _texts(value: Any) -> Iterator[str]:
    """Yield the text in the outputs of a cell, pictures left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            if not key.startswith("image/"):
                yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def examine(fault: Fault, copy: Path) -> Row:
    """Plant a fault in a copy, run what must notice it, and take the fault out again."""
    changed = [copy / fault.file, *([copy / fault.notebook] if fault.notebook else [])]
    kept = [path.read_bytes() for path in changed]
    killed_by, problems, seconds = [], [], 0.0
    try:
        text = planted(fault, changed[0].read_text(encoding="utf-8"))
        changed[0].write_text(text, encoding="utf-8")
        for path in changed[1:]:
            notebook = without_quotes(json.loads(path.read_text(encoding="utf-8")), fault)
            path.write_text(json.dumps(notebook), encoding="utf-8")
        for wanted in [fault.test, *([fault.notebook] if fault.notebook else [])]:
            run = run_pytest(copy, "-x", wanted)
            seconds += run.seconds
            if why := problem(run, wanted):
                problems.append(why)
            else:
                killed_by.append(next(iter(run.failures)))
    finally:
        for path, content in zip(changed, kept, strict=True):
            path.write_bytes(content)
    return Row(fault, tuple(killed_by), tuple(problems), seconds)


def in_copies(copies: Sequence[Path], jobs: Iterable[Callable[[Path], Any]]) -> Iterator[Any]:
    """Yield what each job makes of a copy that no other job uses at the time, in their order."""
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def work(job: Callable[[Path], Any]) -> Any:
        copy = free.get()
        try:
            return job(copy)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        yield from pool.map(work, jobs)


def red(faults: Sequence[Fault], copies: Sequence[Path]) -> list[str]:
    """Return what pytest says of each test or notebook that fails without any fault."""
    tests = dict.fromkeys(fault.test for fault in faults)
    notebooks = dict.fromkeys(fault.notebook for fault in faults if fault.notebook)
    groups = [list(tests), *([notebook] for notebook in notebooks)]
    jobs = [
        lambda copy, group=group: run_pytest(copy, *group, limit=BASE_LIMIT) for group in groups
    ]
    return [run.output or "ran out of time" for run in in_copies(copies, jobs) if run.code != 0]


def table(rows: Sequence[Row]) -> str:
    """Return one line for each fault: its name, its file, what killed it, the seconds."""
    cells = [("fault", "file", "killed by", "seconds")]
    for row in rows:
        by = ", ".join([*row.killed_by, *row.problems]).replace("\n", " ")
        cells.append((row.fault.name, row.fault.file, by, f"{row.seconds:.1f}"))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def main(names: Sequence[str], root: Path = ROOT, known: Sequence[Fault] = FAULTS) -> int:
    """Plant the named faults, or all; return 0 if every one of them was killed, else 1."""
    start = time.perf_counter()
    by_name = {fault.name: fault for fault in known}
    if unknown := set(names) - set(by_name):
        print(f"no such fault: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    faults = [by_name[name] for name in names] or list(known)
    try:
        for fault in faults:
            planted(fault, (root / fault.file).read_text(encoding="utf-8"))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1

    rows: list[Row] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        places = [Path(folder).resolve() / f"copy-{i}" for i in range(WORKERS)]
        with ThreadPoolExecutor(WORKERS) as pool:
            copies = list(pool.map(lambda place: copied(root, place), places))
        print("Without any fault ...", flush=True)
        if failing := red(faults, copies):
            print(*failing, "Red without any fault.", sep="\n", file=sys.stderr)
            return 1
        print(f"green after {time.perf_counter() - start:.0f} s", flush=True)
        jobs = [lambda copy, fault=fault: examine(fault, copy) for fault in faults]
        for number, row in enumerate(in_copies(copies, jobs), start=1):
            rows.append(row)
            said = "; ".join(row.problems) or "killed"
            print(f"{number:3d} of {len(faults)}  {row.fault.name}: {said}", flush=True)

    killed = sum(not row.problems for row in rows)
    print(f"\n{table(rows)}\n")
    print(f"{killed} of {len(rows)} killed in {time.perf_counter() - start:.0f} s")
    return 0 if killed == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
