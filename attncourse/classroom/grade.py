"""A folder of learners' notebooks, graded: exercise by exercise, in a table.

Each notebook runs in a kernel of its own, in the sandbox: the cells that its exercises build on,
as the learner left them. Behind each exercise the check runs as the course wrote it, whatever the
learner made of its lines; if the learner answered in a cell of their own, it runs behind that too.
Solved is what makes the check say what it says of the course's own solution.
"""

from __future__ import annotations

import csv
import html
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from attncourse.checks.attempt import NOT_ATTEMPTED
from attncourse.classroom import inside
from attncourse.classroom.exercises import (
    OWN,
    Exercise,
    Notebook,
    answers,
    by_lesson,
    check_of,
    find_exercises,
    ids_of,
    list_needed,
    put,
    source,
)
from attncourse.classroom.lessons import lessons, read_notebook
from attncourse.classroom.sandbox import run_program

START = 60.0  # seconds that a kernel may take to start, on a busy machine
CHECK = " (check)"
MOST = 10_000_000  # bytes of what a run tells
ENDS = ("slow", "dead")  # how a cell can end the kernel; the others are ran and raised


class Grade(NamedTuple):
    """What became of one exercise of one notebook."""

    notebook: str  # the name of the learner's file
    exercise: str  # what the learner was to write, or empty where the notebook could not be read
    state: str  # solved, attempted, not attempted, or failed: nothing could be graded
    said: str  # what the check said, or why there is nothing to grade


def grade(paths: Iterable[Path], seconds: float = 60.0) -> Iterator[tuple[str, list[Grade]]]:
    """Grade notebooks, one after the other.

    Args:
        paths: the learners' notebooks, under any names.
        seconds: how long a cell may take.

    Yields:
        The name of a notebook, and a Grade for each exercise of the lesson that it is a copy of.
        One that is damaged, or a copy of no lesson, has one Grade that says so.
    """
    for name, path in labels(paths).items():
        try:
            yield name, grade_one(name, path, seconds)
        except Exception as error:  # one notebook must not take the others with it
            said = f"could not be graded: {type(error).__name__}: {error}"
            yield name, [Grade(name, "", "failed", said[:1000])]


def labels(paths: Iterable[Path]) -> dict[str, Path]:
    """Return files by their names; where two have one name, by the folders that tell them apart.

    >>> list(labels([Path("class/ann/01.ipynb"), Path("class/bob/01.ipynb")]))
    ['ann/01.ipynb', 'bob/01.ipynb']
    """
    there = list(dict.fromkeys(path.absolute() for path in paths))
    if len({path.name for path in there}) == len(there):
        return {path.name: path for path in there}
    common = os.path.commonpath([path.parent for path in there])
    return {path.relative_to(common).as_posix(): path for path in there}


def grade_one(name: str, path: Path, seconds: float) -> list[Grade]:
    """Grade one notebook."""
    try:
        mine = read_notebook(path)
        lesson = _lesson_of(mine)
    except (OSError, ValueError) as error:
        return [Grade(name, "", "failed", str(error))]
    exercises = find_exercises(lesson)
    expected = _solve(lesson["cells"][0].get("id", ""), seconds)
    cells = by_lesson(mine, lesson)
    told = _run_apart(cells, exercises, seconds)
    return [_grade(name, exercise, cells, told, expected) for exercise in exercises]


def _lesson_of(mine: Notebook) -> Notebook:
    """Return the lesson that shares most cells with a notebook: by their ids, or else their code.

    The first cells of two lessons may be alike, so one cell without an id is not enough.
    """
    ids = {name for cell in mine["cells"] for name in ids_of(cell)}
    shared = {}
    for path in lessons():
        lesson = read_notebook(path)
        same = ids & {cell["id"] for cell in lesson["cells"]}
        known = [name for name in by_lesson(mine, lesson) if not name.startswith(OWN)]
        shared[path] = len(same) or len(known) - 1
    best = max(shared, key=lambda path: shared[path])
    if shared[best] <= 0:
        raise ValueError("shares no cell with any notebook of the course")
    return read_notebook(best)


@cache
def _solve(first_cell: str, seconds: float) -> dict[str, str]:
    """Return what the checks of a lesson say of the course's own solutions."""
    every = map(read_notebook, lessons())
    (lesson,) = (x for x in every if x["cells"][0].get("id", "") == first_cell)
    exercises = find_exercises(lesson)
    cells = {c["id"]: source(c) for c in lesson["cells"] if c["cell_type"] == "code"}
    cells |= {e.cell: put(e.solution, e.stub) for e in exercises}
    told = _run_apart(cells, exercises, max(seconds, 300.0))
    for exercise in exercises:
        if told.get(exercise.cell + CHECK, ("", ""))[0] != "ran":
            raise RuntimeError(f"the course's own {exercise.name} could not be graded: {told}")
    return {e.cell: told[e.cell + CHECK][1] for e in exercises}


def _run_apart(
    cells: dict[str, str], exercises: Sequence[Exercise], seconds: float
) -> dict[str, tuple[str, str]]:
    """Run what the exercises build on; where one ends the kernel, run each with a kernel alone."""
    there = [exercise for exercise in exercises if answers(exercise, cells)]
    told = _run(cells, there, seconds)
    whole = all(_name_check(e, cell) in told for e in there for cell in answers(e, cells))
    if len(there) < 2 or (whole and not any(kind in ENDS for kind, _ in told.values())):
        return told
    for exercise in there:
        told |= _run(cells, [exercise], seconds)
    return told


def _run(
    cells: dict[str, str], exercises: Sequence[Exercise], seconds: float
) -> dict[str, tuple[str, str]]:
    """Run the cells that exercises build on in the sandbox, and their checks behind them."""
    checks = [
        (cell, _name_check(exercise, cell), check_of(exercise))
        for exercise in exercises
        for cell in answers(exercise, cells)
    ]
    with_checks = dict(cells)
    for cell, _, check in checks:
        with_checks[cell] += f"\n{check}"
    order = list_needed(with_checks, [cell for cell, _, _ in checks])
    job = [[cell, cells[cell]] for cell in order]
    for cell, called, check in checks:
        place = next(i for i, (name, _) in enumerate(job) if name == cell)
        job.insert(place + 1, [called, check])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        text = json.dumps({"cells": job, "seconds": seconds})
        (folder / "job.json").write_text(text, encoding="utf-8")
        command = [sys.executable, inside.__file__]  # by its path: it needs nothing of attnlib
        ended = run_program(command, folder, START + seconds * 3)
        told = _read_told(folder / "told.jsonl")
    if ended.status != 0 and len(told) < len(job):
        why = "took too long" if ended.status is None else "the kernel died"
        told[job[len(told)][0]] = ("dead", why)
    return told


def _name_check(exercise: Exercise, cell: str) -> str:
    """Return how the check behind a cell is called."""
    return cell + CHECK if cell == exercise.cell else f"{cell}{CHECK} of {exercise.name}"


def _read_told(path: Path) -> dict[str, tuple[str, str]]:
    """Read what was written down; a learner's code may have damaged, removed or replaced it."""
    told: dict[str, tuple[str, str]] = {}
    if path.is_symlink() or not path.is_file():  # a pipe would never end
        return told
    with suppress(OSError, ValueError, TypeError, RecursionError), path.open("rb") as file:
        for line in file.read(MOST).decode("utf-8", "replace").splitlines():
            name, kind, said = json.loads(line)
            told[str(name)] = (str(kind), str(said).encode("utf-8", "replace").decode("utf-8"))
    return told


def _grade(
    notebook: str,
    exercise: Exercise,
    cells: dict[str, str],
    told: dict[str, tuple[str, str]],
    expected: dict[str, str],
) -> Grade:
    def is_(state: str, said: str) -> Grade:
        return Grade(notebook, exercise.name, state, said)

    there = answers(exercise, cells)
    checked = [(cell, *told.get(_name_check(exercise, cell), ("", ""))) for cell in there]
    if not checked:
        return is_("not attempted", "its cell is gone")
    ran = [said for _, kind, said in checked if kind == "ran"]
    tried = [said for said in ran if said != NOT_ATTEMPTED]
    for said in tried:
        if said.partition(" Note: ")[0] == expected[exercise.cell]:  # a note is no fault
            return is_("solved", said)
    if tried:
        return is_("attempted", tried[-1])
    for cell, kind, said in checked:
        if kind == "raised":
            own, error = told.get(cell, ("", ""))
            return is_("attempted", error if own == "raised" else said)
    stopped = [said for kind, said in told.values() if kind in ENDS]
    if ran and len(ran) == len(checked):
        return is_("not attempted", NOT_ATTEMPTED)
    return is_("failed", stopped[-1] if stopped else "it ended without an answer")


def write_csv(grades: Sequence[Grade], path: Path) -> None:
    """Write the table, a row for each exercise of each notebook."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Grade._fields)
        writer.writerows([_plain(field) for field in grade] for grade in grades)


def _plain(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(tuple("=+-@\t\r")) else text


def write_html(grades: Sequence[Grade], path: Path) -> None:
    """Write the table for a browser: a row for each notebook, and what was said most often."""
    names = list(dict.fromkeys(grade.exercise for grade in grades if grade.exercise))
    by_notebook: dict[str, dict[str, Grade]] = {}
    for grade in grades:
        by_notebook.setdefault(grade.notebook, {})[grade.exercise] = grade
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    rows = [
        f'<tr><th scope="row">{html.escape(notebook)}</th>'
        + "".join(_cell(found.get(name) or found.get("")) for name in names)
        + "</tr>"
        for notebook, found in by_notebook.items()
    ]
    common = "".join(
        f"<li>{count} × {html.escape(exercise)}: {html.escape(said)}</li>"
        for (exercise, said), count in commonest(grades)
    )
    path.write_text(PAGE.format(head=head, rows="\n".join(rows), common=common), encoding="utf-8")


def _cell(grade: Grade | None) -> str:
    if grade is None:
        return "<td></td>"
    kind = grade.state.replace(" ", "-")
    said = "" if grade.state == "solved" else f"<br><small>{html.escape(grade.said)}</small>"
    return f'<td class="{kind}">{grade.state}{said}</td>'


def commonest(grades: Iterable[Grade], most: int = 10) -> list[tuple[tuple[str, str], int]]:
    """Return what the checks said most often of attempted exercises, each with its count."""
    return Counter(
        (grade.exercise, grade.said) for grade in grades if grade.state == "attempted"
    ).most_common(most)


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Exercises</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.4 system-ui, sans-serif; margin: 1rem; }}
table {{ border-collapse: collapse; }}
th, td {{ border: 1px solid #8b949e; padding: 0.4rem; text-align: left; vertical-align: top; }}
td {{ max-width: 24rem; }}
.solved {{ background: light-dark(#dafbe1, #12361f); }}
.failed {{ background: light-dark(#ffebe9, #4a1512); }}
</style>
</head>
<body>
<main>
<h1>Exercises</h1>
<table>
<thead><tr><th scope="col">notebook</th>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
<h2>Said most often</h2>
<ul>{common}</ul>
</main>
</body>
</html>
"""
