"""Write the lessons as a course for nbgrader: build/nbgrader, or another folder.

    python tools/nbgrader_course.py [folder]

Each lesson becomes an assignment: its text and stubs, and behind each stub a locked cell that gives
points, one for the course's check and one for each hidden test. A hidden test calls the answer with
inputs drawn from a seed of this run and compares with what the course's solution made of them; only
these numbers are written down, and no solution is. `make nbgrader` has nbgrader make of this what
students get, in release/. Cells that no exercise builds on are skipped when nbgrader grades.
"""

from __future__ import annotations

import copy
import linecache
import re
import secrets
import shutil
import sys
from collections.abc import Collection, Iterable
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from attncourse.classroom.lessons import course, lessons
from exercises import (
    Exercise,
    Notebook,
    check_of,
    find_exercises,
    insert_answer,
    list_needed,
    read_notebook,
    source,
    write_notebook,
)
from nbgrader_tests import HIDDEN_TESTS
from student_copies import without_solutions

COURSE = Path(__file__).parents[1] / "build" / "nbgrader"
SKIP = "skip-execution"  # known to nbclient, which runs the notebooks for nbgrader
CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = "attention"
c.Execute.timeout = 300  # seconds for a cell
c.Execute.startup_timeout = 300  # seconds for Python, on a busy machine
c.OverwriteCells.add_missing_cells = True  # a test that was deleted counts
c.ClearSolutions.enabled = False  # there are none: an answer cell is the stub
# who reads the feedback does not see the hidden tests
c.ClearHiddenTests.enforce_metadata = False
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
"""
TOOLS = """\
import warnings
import attnlib
import torch
from attncourse import checks

def is_theirs(answer):
    owners = [getattr(each, "__module__", None) for each in getattr(answer, "__mro__", [answer])]
    return any(str(owner).partition(".")[0] in ("attnlib", "attncourse") for owner in owners)

def randomize(module):
    for _, parameter in sorted(module.named_parameters()):
        torch.nn.init.normal_(parameter)
    return module.eval()

def numbers(test, seed):
    torch.manual_seed(seed)
    with warnings.catch_warnings(action="ignore"), torch.no_grad():
        found = eval(test)
    with warnings.catch_warnings(action="ignore"):
        try:
            found = torch.as_tensor(found, dtype=torch.float64)
        except (TypeError, ValueError):
            return found
    return [*found.shape, *(round(number, 5) for number in found.flatten().tolist())]

def same(found, expected):
    if isinstance(expected, str):
        return found == expected
    found, expected = (torch.tensor(each, dtype=torch.float64) for each in (found, expected))
    return found.shape == expected.shape and torch.allclose(found, expected, 1e-3, 1e-3)
"""
CELL = """\
# {name}: {points} points, one for this check and one for each of {more} tests on other inputs
{check}
points = int(bool({verdict}))
### BEGIN HIDDEN TESTS
# A traceback of the check shows a few lines after it, and feedback shows the traceback.
# So these lines stand between the check and the tests.
#
#
exec({tools!r})  # a check refuses what another cell than its own defines: define nothing here
for test, seed, expected in {tests}:
    try:
        points += same(numbers(test, seed), expected)
    except Exception:
        pass
if is_theirs({name}) and not {may_be_theirs}:
    points = 0  # the answer is, or inherits from, a class of the course
### END HIDDEN TESTS
points"""


def assignment(lesson: Notebook, seed: int) -> Notebook:
    """Return a lesson as the source of an assignment."""
    exercises = {exercise.cell: exercise for exercise in find_exercises(lesson)}
    code = {c["id"]: source(c) for c in lesson["cells"] if c["cell_type"] == "code"}
    solved = code | {e.cell: f"{e.stub}\n{e.solution}" for e in exercises.values()}
    needed = list_needed(solved, exercises)
    right = code | {e.cell: insert_answer(e.solution, e.stub) for e in exercises.values()}
    space = _solve({name: right[name] for name in needed}, exercises)
    cells = []
    for cell in without_solutions(lesson)["cells"]:
        exercise = exercises.get(cell["id"])
        if exercise:
            cell["metadata"]["nbgrader"] = _marks(exercise.name, solution=True)
        elif cell["id"] in needed:
            cell["metadata"]["nbgrader"] = _marks(f"given-{cell['id']}", locked=True)
        elif cell["cell_type"] == "code":
            cell["metadata"].setdefault("tags", []).append(SKIP)
        cells += [cell, *([_points(exercise, space, seed)] if exercise else [])]
    return lesson | {"cells": cells}


def _solve(cells: dict[str, str], exercises: Iterable[str]) -> dict[str, Any]:
    """Run what the exercises build on, with the course's solutions for the stubs."""
    space: dict[str, Any] = {"__name__": "__main__", "display": lambda *_: None}
    with torch.random.fork_rng(), torch.enable_grad(), redirect_stdout(StringIO()):
        for name, code in cells.items():
            with suppress(*([] if name in exercises else [Exception])):  # some show an error
                linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
                exec(compile(code, name, "exec"), space)
    exec(TOOLS, space)
    return space


def _points(exercise: Exercise, space: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the cell behind a stub that gives its points."""
    *check, verdict = check_of(exercise).splitlines()
    tests = [
        (test, seed + i, space["numbers"](test, seed + i))
        for i, test in enumerate(HIDDEN_TESTS.get(exercise.name, ()))
    ]
    text = CELL.format(
        name=exercise.name,
        points=1 + len(tests),
        more=len(tests),
        check="\n".join(check),
        verdict=verdict,
        tools=TOOLS,
        tests=tests,
        may_be_theirs=space["is_theirs"](space[exercise.name]),
    )
    marks = _marks(f"{exercise.name}-points", grade=True, locked=True, points=1 + len(tests))
    shape = {"cell_type": "code", "id": f"{exercise.cell}-points", "metadata": {"nbgrader": marks}}
    return shape | {"execution_count": None, "outputs": [], "source": text}


def _marks(name: str, **kinds: Any) -> dict[str, Any]:
    """Return what nbgrader keeps in the metadata of a cell."""
    plain = {"schema_version": 3, "grade": False, "solution": False, "locked": False, "task": False}
    return plain | kinds | {"grade_id": name}


def with_local_links(lesson: Notebook, names: Collection[str]) -> Notebook:
    """Return a lesson whose images and other lessons are where an assignment has them."""

    def link(found: re.Match[str]) -> str:
        return f"[{found[1]}](../{found[2]}/{found[2]}.ipynb)" if found[2] in names else found[1]

    lesson = copy.deepcopy(lesson)
    for cell in lesson["cells"]:
        if cell["cell_type"] == "markdown":
            text = source(cell).replace("](../images/", "](images/")
            cell["source"] = re.sub(r"\[([^]]*)\]\((\w+)\.ipynb\)", link, text)
    return lesson


def main(folder: Path) -> None:
    """Write the assignments; what nbgrader has collected there stays."""
    seed = secrets.randbelow(2**31)
    found = {path.stem: read_notebook(path) for path in lessons()}
    found = {name: lesson for name, lesson in found.items() if find_exercises(lesson)}
    shutil.rmtree(folder / "source", ignore_errors=True)
    for name, lesson in found.items():
        place = folder / "source" / name
        written = assignment(with_local_links(lesson, found), seed)
        write_notebook(written, place / f"{name}.ipynb")
        for image in set(re.findall(r"\]\(images/([\w.]+)\)", str(written["cells"]))):
            (place / "images").mkdir(exist_ok=True)
            shutil.copy2(course() / "images" / image, place / "images" / image)
    (folder / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
    print(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else COURSE)
