"""Rehearse a class with nbgrader: twelve hand in lesson 02, and the table must be right.

    python tools/nbgrader_rehearsal.py FOLDER

FOLDER is a course that `make nbgrader` has written. Twelve made-up students change copies of what
it released, nbgrader collects and grades them, and each must have the points said here. Of every
other lesson one hands in the course's solutions, and must have all points.
"""

from __future__ import annotations

import copy
import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from attncourse.classroom.lessons import lessons
from exercises import Notebook, find_exercises, insert_answer, read_notebook, source, write_notebook

NAME = "02_stacked_heads"
STACK, SILENT = "MultiHeadAttentionWrapper", "without_head"
COLLECT = r".*(?P<student_id>s\d\d)_(?P<file_id>\w+)"
Change = Callable[[Notebook], None]


def main(course: Path) -> None:
    """Play the class through; stop with what is wrong."""
    stems = {path.name for path in (course / "release").iterdir()}
    solved = {path.stem: _solved(course, path) for path in lessons() if path.stem in stems}
    class_ = list_class(_released(course, NAME), solved[NAME])
    inbox = course / "downloaded" / NAME / "archive"
    for number, (mine, _) in enumerate(class_):
        write_notebook(mine, inbox / f"s{number:02}_{NAME}.ipynb")
    for name in solved.keys() - {NAME}:  # of the other lessons the first hands in a right one
        write_notebook(solved[name], course / "submitted" / "s00" / name / f"{name}.ipynb")
    _nbgrader(course, "zip_collect", NAME, f"--FileNameCollectorPlugin.named_regexp={COLLECT}")
    for name in solved:
        _nbgrader(course, "autograde", name, *(["--Execute.timeout=20"] if name == NAME else []))
    _nbgrader(course, "generate_feedback", NAME)
    _nbgrader(course, "export", "--to=grades.csv")
    _compare(course / "grades.csv", [worth for _, worth in class_])
    pages = [page.read_text("utf-8") for page in (course / "feedback").glob(f"*/{NAME}/*.html")]
    shown = [page for page in pages if "randomize(" in page]
    if len(pages) != len(class_) or shown:
        raise ValueError(f"{len(pages)} pages of feedback, {len(shown)} of them with hidden tests")
    print(f"{len(class_)} submissions of {NAME}, one of each other lesson: every row is right")


def list_class(released: Notebook, solved: Notebook) -> list[tuple[Notebook, int]]:
    """Return what each student hands in, and the points that it is worth."""
    stack, silent = (source(_cell(solved, name)) for name in (STACK, SILENT))

    def answered(*answers: str, then: Change | None = None) -> Notebook:
        mine = copy.deepcopy(released)
        for name, answer in zip((STACK, SILENT), answers, strict=False):
            _cell(mine, name)["source"] = answer or source(_cell(mine, name))
        if then:
            then(mine)
        return mine

    def cell_put(name: str, **parts: object) -> Change:
        return lambda mine: _cell(mine, name).update(parts)

    def cell_gone(mine: Notebook) -> None:
        mine["cells"].remove(_cell(mine, f"{STACK}-points"))

    def own_cell(mine: Notebook) -> None:
        own = {"cell_type": "code", "id": "own", "metadata": {}, "outputs": []}
        place = mine["cells"].index(_cell(mine, STACK)) + 1
        mine["cells"].insert(place, own | {"execution_count": None, "source": stack})

    forged = {"output_type": "execute_result", "data": {"text/plain": "3"}, "metadata": {}}
    theirs = f"import attnlib\nclass {STACK}(attnlib.{STACK}):\n    pass"
    joined = "torch.cat([head(x) for head in self.heads], dim=-1)"
    two = stack.replace(joined, "torch.cat([self.heads[0](x), self.heads[1](x)], dim=-1)")
    points = f"{STACK}-points"
    return [
        (answered(stack, silent), 6),
        (answered(), 0),
        (answered(stack), 3),
        (answered(two, silent), 4),  # right for two heads, wrong for three
        (answered(stack, silent.replace("W_value", "W_query")), 3),
        (answered(theirs, silent), 3),
        (answered("class (", silent), 3),
        (answered("while True: pass", silent), 3),
        (answered(then=cell_put(points, source="points = 3\npoints")), 0),
        (answered(then=cell_put(points, outputs=[forged | {"execution_count": 1}])), 0),
        (answered(stack, silent, then=cell_gone), 6),
        (answered("", silent, then=own_cell), 6),
    ]


def _compare(table: Path, worth: list[int]) -> None:
    """Compare what nbgrader says with what the answers are worth."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = [float(r["score"]) for r in sorted(rows, key=_student) if r["assignment"] == NAME]
    if found != worth:
        raise ValueError(f"points in the table: {found}, and points earned: {worth}")
    first = [row for row in rows if _student(row) == "s00"]
    less = [row for row in first if float(row["score"]) != float(row["max_score"])]
    if less or len(first) < 10:
        raise ValueError(f"of {len(first)} lessons solved by the course, these lack points: {less}")


def _student(row: dict[str, str]) -> str:
    return row["student_id"]


def _released(course: Path, name: str) -> Notebook:
    """Return what students get; it must have no hidden test."""
    released = read_notebook(course / "release" / name / f"{name}.ipynb")
    if "HIDDEN" in str(released) or "randomize(" in str(released):
        raise ValueError(f"the students' copy of {name} has hidden tests")
    return released


def _solved(course: Path, path: Path) -> Notebook:
    """Return the students' copy of a lesson with the course's solutions."""
    mine = _released(course, path.stem)
    for exercise in find_exercises(read_notebook(path)):
        _cell(mine, exercise.name)["source"] = insert_answer(exercise.solution, exercise.stub)
    return mine


def _cell(notebook: Notebook, name: str) -> dict:
    """Return the cell of that name."""
    marked = (cell for cell in notebook["cells"] if "nbgrader" in cell["metadata"])
    return next(cell for cell in marked if cell["metadata"]["nbgrader"]["grade_id"] == name)


def _nbgrader(course: Path, *arguments: str) -> None:
    done = subprocess.run(
        ["nbgrader", *arguments], cwd=course, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"nbgrader {arguments[0]}: {done.stderr[-3000:]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
