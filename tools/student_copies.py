"""Write the course for a class: notebooks without solutions, and a second set with stubs solved.

    python tools/student_copies.py

build/student/ has hints and stubs, but no solution, and nothing that gives one away: cells tagged
`solution` go as well, and what settles a guess shows when it is run. In build/solutions/ each stub
is replaced by its solution; those cells have not been run. Both have their images beside them, so
they can be handed out as they are.
"""

from __future__ import annotations

import copy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from attncourse.classroom.lessons import course, lessons
from exercises import (
    SOLUTION,
    Notebook,
    find_exercises,
    insert_answer,
    read_notebook,
    source,
    write_notebook,
)
from working_copy import without_answers

TAG = "solution"  # of a cell that opens, or shows by hand, what an exercise asks for
BUILD = Path(__file__).parents[1] / "build"


def without_solutions(lesson: Notebook) -> Notebook:
    """Return a lesson for learners: hints and stubs stay, solutions and their cells go."""
    lesson = copy.deepcopy(lesson)
    for cell in lesson["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = SOLUTION.sub("", source(cell)).strip()
    lesson["cells"] = [
        cell
        for cell in lesson["cells"]
        if TAG not in cell["metadata"].get("tags", ()) and source(cell)
    ]
    return lesson


def student_copy(lesson: Notebook) -> Notebook:
    """Return a lesson without solutions that tells nothing before its cells have run."""
    return without_answers(without_solutions(lesson))


def with_solutions(lesson: Notebook) -> Notebook:
    """Return a lesson whose stubs are solved; the outputs of these cells are left out."""
    solved = copy.deepcopy(lesson)
    todo = {exercise.cell: exercise for exercise in find_exercises(lesson)}
    for cell in solved["cells"]:
        if cell["id"] in todo:
            exercise = todo[cell["id"]]
            cell["source"] = insert_answer(exercise.solution, exercise.stub)
            cell["outputs"], cell["execution_count"] = [], None
    return solved


SETS: dict[str, Callable[[Notebook], Notebook]] = {
    "student": student_copy,
    "solutions": with_solutions,
}


def main(build: Path) -> None:
    """Write both sets."""
    for name, change in SETS.items():
        shutil.rmtree(build / name, ignore_errors=True)
        for lesson in lessons():
            write_notebook(change(read_notebook(lesson)), build / name / "notebooks" / lesson.name)
        shutil.copytree(course() / "images", build / name / "images", ignore=lambda *_: {"draw.py"})
        print(build / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else BUILD)
