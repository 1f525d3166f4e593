"""A folder of learners' notebooks, graded: exercise by exercise, in a table.

Each notebook runs in a Python of its own, in the sandbox: the cells that its exercises build on,
as the learner left them. Behind each exercise the check runs as the course wrote it, whatever the
learner made of its lines; if the learner answered in a cell of their own, it runs behind that too.
Solved is what makes the verdict hold (a check without one must say what it says of the course's own
solution), and is made of no attention that the course's own solution does not borrow. If it was
reached with what no attention needs, the table says so.
"""

from __future__ import annotations

import csv
import html
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from string import Template
from typing import NamedTuple

from attncourse.checks.safe_run import NOT_ATTEMPTED
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
from attncourse.classroom.sandbox import run_script

INSIDE = Path(__file__).with_name("inside.py")
CHECK = " (check)"
DONE = ("ran", "held")
LOOK = " To be read by you: it has "
ODD = re.compile(  # what it takes to deceive a check, and hardly anything else
    r"\b(?:sys|os|io|gc|fd|proc|inspect|ctypes|pathlib|subprocess|threading|multiprocessing|pickle"
    r"|importlib|builtins|marshal|linecache|get_ipython|jit|(?:Code|Function|Module)Type"
    r"|__(?:bases|class|closure|code|dict|file|func|globals|import|module|mro|self|subclasses)__)\b"
    r"|(?<![\w.])(?:exec|eval|compile|open|globals)\b|^\s*[%!](?!%?(?:matplotlib|time))\S*",
    re.MULTILINE,
)
IN_ALL = 5  # times what a cell may take, for a notebook of many that hang


class Grade(NamedTuple):
    """What became of one exercise of one notebook."""

    notebook: str  # the name of the learner's file
    exercise: str  # what the learner was to write, or empty where the notebook could not be read
    state: str  # solved, attempted, not attempted, or failed: nothing could be graded
    said: str  # what the check said, or why there is nothing to grade


class Told(NamedTuple):
    """What became of one cell, or of one check."""

    kind: str  # ran, held (a check), raised, or ended: Python ended there, or was ended
    said: str
    borrowed: frozenset[str] = frozenset()  # what a checked answer has of a package, in words


def grade(
    paths: Iterable[Path], walls: Sequence[str], seconds: float = 60.0
) -> Iterator[tuple[str, list[Grade]]]:
    """Grade notebooks, one after the other.

    Args:
        paths: the learners' notebooks, under any names.
        walls: those of the sandbox; none for notebooks that are trusted.
        seconds: how long a cell may take, waiting for a busy processor not counted.

    Yields:
        The name of a notebook, and a Grade for each exercise of the lesson that it is a copy of.
        One that is damaged, or a copy of no lesson, has one Grade that says so.
    """
    for name, path in labels(paths).items():
        try:
            yield name, grade_one(name, path, tuple(walls), seconds)
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


def grade_one(name: str, path: Path, walls: tuple[str, ...], seconds: float) -> list[Grade]:
    """Grade one notebook."""
    try:
        mine = read_notebook(path)
        lesson = _lesson_of(mine)
    except (OSError, ValueError) as error:
        return [Grade(name, "", "failed", str(error))]
    exercises = find_exercises(lesson)
    expected = _solve(lesson["cells"][0].get("id", ""), walls, seconds)
    cells = by_lesson(mine, lesson)
    told = _run(cells, [e for e in exercises if not _is_untouched(e, cells)], walls, seconds)
    known = "\n".join([*map(source, lesson["cells"]), *(e.solution for e in exercises)])
    grades = []
    for exercise in exercises:
        state, said = _state(exercise, cells, told, expected[exercise.cell])
        odd = _list_odd([code for _, code, _ in _list_job(cells, [exercise])], known)
        said += f"{LOOK}{', '.join(odd)}." if odd and state == "solved" else ""
        grades.append(Grade(name, exercise.name, state, said))
    return grades


def _list_odd(codes: Iterable[str], known: str) -> list[str]:
    """Return what some cells have that no attention needs, and that the lesson does not have."""
    return sorted({one for code in codes for one in ODD.findall(code)} - {*ODD.findall(known)})


def _lesson_of(mine: Notebook) -> Notebook:
    """Return the lesson that shares most cells with a notebook: by their ids, or else their code.

    The first cells of two lessons may be alike, so one cell without an id is not enough.
    """
    ids = {name for cell in mine["cells"] for name in ids_of(cell)}
    known = {path: read_notebook(path) for path in lessons()}
    shared = {p: len(ids & {cell["id"] for cell in known[p]["cells"]}) for p in known}
    if not any(shared.values()):
        named = {path: by_lesson(mine, lesson) for path, lesson in known.items()}
        shared = {p: sum(not one.startswith(OWN) for one in named[p]) - 1 for p in named}
    best = max(shared, key=lambda path: shared[path])
    if shared[best] <= 0:
        raise ValueError("shares no cell with any notebook of the course")
    return known[best]


@cache
def _solve(first_cell: str, walls: tuple[str, ...], seconds: float) -> dict[str, Told]:
    """Return what the checks of a lesson tell of the course's own solutions."""
    every = map(read_notebook, lessons())
    (lesson,) = (x for x in every if x["cells"][0].get("id", "") == first_cell)
    exercises = find_exercises(lesson)
    cells = {c["id"]: source(c) for c in lesson["cells"] if c["cell_type"] == "code"}
    cells |= {e.cell: put(e.solution, e.stub) for e in exercises}
    told = _run(cells, exercises, walls, max(seconds, 300.0))
    for exercise in exercises:
        if told[exercise.cell + CHECK].kind not in DONE:
            raise RuntimeError(f"the course's own {exercise.name} could not be graded: {told}")
    return {e.cell: told[e.cell + CHECK] for e in exercises}


def _is_untouched(exercise: Exercise, cells: dict[str, str]) -> bool:
    return [cells[cell].split() for cell in answers(exercise, cells)] == [exercise.stub.split()]


def _run(
    cells: dict[str, str], exercises: Sequence[Exercise], walls: tuple[str, ...], seconds: float
) -> dict[str, Told]:
    """Run what exercises build on, and their checks.

    Where a cell ends Python, those that need it have their answer, and the others run once more.
    """
    told: dict[str, Told] = {}
    left, taken = [e for e in exercises if _checks(e, cells)], 0.0
    while left:
        job = _list_job(cells, left)
        ended = run_script(INSIDE, json.dumps(job), seconds, walls, IN_ALL * seconds)
        told |= (new := _read_told(ended.told))
        taken += ended.seconds
        left = [e for e in left if not _checks(e, cells).keys() <= told.keys()]
        stuck = next((name for name, *_ in job if name not in new), None)
        hit = [e for e in left if stuck in [name for name, *_ in _list_job(cells, [e])]]
        if taken > IN_ALL * seconds or not hit:
            hit = left
        for exercise in hit:
            told = dict.fromkeys(_checks(exercise, cells), Told("ended", ended.why)) | told
        left = [e for e in left if e not in hit]
    return told


def _checks(exercise: Exercise, cells: dict[str, str]) -> dict[str, str]:
    """Return the cells that may answer an exercise, by the names of the checks behind them."""
    return {
        cell + CHECK if cell == exercise.cell else f"{cell}{CHECK} of {exercise.name}": cell
        for cell in answers(exercise, cells)
    }


def _list_job(cells: dict[str, str], exercises: Sequence[Exercise]) -> list[tuple[str, str, str]]:
    """Return what inside.py runs: cells that exercises build on, and checks behind answers."""
    behind: dict[str, list[tuple[str, str, str]]] = {cell: [] for cell in cells}
    code = dict(cells)
    for exercise in exercises:
        for name, cell in _checks(exercise, cells).items():
            behind[cell].append((name, check_of(exercise), exercise.name))
            code[cell] += f"\n{check_of(exercise)}"
    needed = list_needed(code, [cell for cell in cells if behind[cell]])
    return [one for cell in needed for one in [(cell, cells[cell], ""), *behind[cell]]]


def _read_told(text: bytes) -> dict[str, Told]:
    """Read what was told; a learner's code may have written anything."""
    told: dict[str, Told] = {}
    with suppress(ValueError, TypeError, RecursionError):
        for line in text.decode("utf-8", "replace").splitlines():
            name, kind, said, borrowed = json.loads(line)
            said = "".join(one if one.isprintable() else " " for one in str(said))
            told[str(name)] = Told(str(kind), said, frozenset(map(str, borrowed)))
    return told


def _state(
    exercise: Exercise, cells: dict[str, str], told: dict[str, Told], expected: Told
) -> tuple[str, str]:
    """Return the state of an exercise, and why."""
    checks = _checks(exercise, cells)
    if not checks:
        return "not attempted", "its cell is gone"
    checked = {cell: told[name] for name, cell in checks.items() if name in told}
    tried = [one for one in checked.values() if one.kind in DONE and one.said != NOT_ATTEMPTED]
    right = [one for one in tried if one.kind == "held" or one[:2] == expected[:2]]
    for one in right:
        if one.borrowed <= expected.borrowed:
            return "solved", one.said
    if right:
        borrowed = " and ".join(sorted(right[-1].borrowed - expected.borrowed))
        return "attempted", f"right, but not the learner's own: it {borrowed}"
    if tried:
        return "attempted", tried[-1].said
    for cell, one in checked.items():
        if one.kind == "raised":
            own = told.get(cell, one)
            return "attempted", own.said if own.kind == "raised" else one.said
    ends = [one.said for one in checked.values() if one.kind != "ran"]
    return ("failed", ends[-1]) if ends else ("not attempted", NOT_ATTEMPTED)


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
    page = Template(Path(__file__).with_name("grades.html").read_text("utf-8"))
    text = page.substitute(head=head, rows="\n".join(rows), common=common)
    path.write_text(text, encoding="utf-8")


def _cell(grade: Grade | None) -> str:
    if grade is None:
        return "<td></td>"
    kind = grade.state.replace(" ", "-")
    _, look, odd = grade.said.partition(LOOK)
    shown = look + odd if grade.state == "solved" else grade.said
    said = f"<br><small>{html.escape(shown.strip())}</small>" if shown else ""
    return f'<td class="{kind}">{grade.state}{said}</td>'


def commonest(grades: Iterable[Grade], most: int = 10) -> list[tuple[tuple[str, str], int]]:
    """Return what the checks said most often of attempted exercises, each with its count."""
    return Counter(
        (grade.exercise, grade.said) for grade in grades if grade.state == "attempted"
    ).most_common(most)
