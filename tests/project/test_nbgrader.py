"""The course for nbgrader, without it: `make nbgrader-test` lets nbgrader itself grade."""

import re

import pytest

from exercises import find_exercises, put, source
from nbgrader_course import SKIP, alone, assignment
from nbgrader_probes import PROBES
from support.exercise_tools import run_cell
from support.leaks import leaks
from support.notebook_tools import APPENDICES, NOTEBOOKS, read, tags

LESSON = read(next(path for path in NOTEBOOKS if path.stem.startswith("02")))
EXERCISES = {exercise.name: exercise for exercise in find_exercises(LESSON)}
STACK = "MultiHeadAttentionWrapper"
WORTH = [  # what is changed in the solution, and the points that are left of three
    (STACK, "", "", 3),
    (STACK, "[head(x) for head in self.heads]", "[self.heads[0](x), self.heads[1](x)]", 1),
    (STACK, "torch.cat([head(x) for head in self.heads], dim=-1)", "x", 0),
    (STACK, "    def forward", "    def not_forward", 0),
    ("without_head", "heads[h]", "heads[0]", 1),
    ("without_head", "W_value", "W_query", 0),
]


@pytest.fixture(scope="module")
def course() -> dict:
    return assignment(LESSON, seed=11)


def cells(notebook: dict) -> dict[str, dict]:
    marked = [cell for cell in notebook["cells"] if "nbgrader" in cell["metadata"]]
    return {cell["metadata"]["nbgrader"]["grade_id"]: cell for cell in marked}


def points(course: dict, name: str, answer: str) -> str:
    """Run what an answer builds on, the answer and its points; return what they show."""
    found, space = cells(course), {"__name__": "__main__"}
    for cell in (cell for key, cell in found.items() if key.startswith("given-")):
        run_cell(source(cell), space, "<given>")
    run_cell(answer, space, "<answer>")
    return run_cell(source(found[f"{name}-points"]), space, "<points>")


def test_every_exercise_of_the_course_has_hidden_tests():
    lessons = [read(path) for path in (*NOTEBOOKS, *APPENDICES)]
    assert list(PROBES) == [each.name for lesson in lessons for each in find_exercises(lesson)]
    assert all(PROBES.values())


@pytest.mark.parametrize(("name", "old", "new", "worth"), WORTH)
def test_an_answer_has_its_points(course, name, old, new, worth):
    exercise = EXERCISES[name]
    assert old in exercise.solution
    answer = put(exercise.solution.replace(old, new), exercise.stub)
    assert points(course, name, answer) == str(worth)


def test_a_stub_and_the_class_of_the_package_have_none(course):
    theirs = f"import attnlib\nclass {STACK}(attnlib.{STACK}):\n    pass"
    stubs = ((name, each.stub) for name, each in EXERCISES.items())
    for name, answer in (*stubs, (STACK, theirs)):
        assert points(course, name, answer) == "0"


def test_what_gives_points_is_locked_and_what_it_compares_with_is_hidden(course):
    marks = {name: cell["metadata"]["nbgrader"] for name, cell in cells(course).items()}
    for name, exercise in EXERCISES.items():
        stub, worth = marks[name], marks[f"{name}-points"]
        assert (stub["grade"], stub["solution"], stub["locked"]) == (False, True, False)
        assert (worth["grade"], worth["solution"], worth["locked"]) == (True, False, True)
        assert worth["points"] == 3
        text = source(cells(course)[f"{name}-points"])
        open_part = re.sub(r"(?s)### BEGIN HIDDEN TESTS.*### END HIDDEN TESTS\n", "", text)
        assert open_part.splitlines()[-1] == "points"
        assert not re.search(r"\d\.\d", open_part)
        assert leaks(course, exercise) == []


def test_another_run_draws_other_numbers(course):
    again = cells(assignment(LESSON, seed=12))[f"{STACK}-points"]
    assert source(again) != source(cells(course)[f"{STACK}-points"])


def test_cells_that_no_exercise_builds_on_are_skipped(course):
    found = cells(course)
    for cell in course["cells"]:
        if cell["cell_type"] == "code":
            assert (SKIP in tags(cell)) == (cell not in found.values())
    assert {name for name, cell in found.items() if cell["metadata"]["nbgrader"]["locked"]} == {
        "given-" + LESSON["cells"][1]["id"],
        *(f"{name}-points" for name in EXERCISES),
    }


def test_images_and_other_lessons_are_where_an_assignment_has_them():
    text = "![Heads.](../images/two_heads.png) [All](00_start.ipynb) [03](03_weight_split.ipynb)"
    cell = {"cell_type": "markdown", "source": text}
    (moved,) = alone({"cells": [cell]}, ["03_weight_split"])["cells"]
    there = "![Heads.](images/two_heads.png) All [03](../03_weight_split/03_weight_split.ipynb)"
    assert moved["source"] == there
    assert cell["source"] == text
