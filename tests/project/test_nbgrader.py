"""The course for nbgrader, without it: `make nbgrader-test` lets nbgrader itself grade."""

import pytest

from exercises import find_exercises, insert_answer, source
from nbgrader_course import assignment
from nbgrader_tests import HIDDEN_TESTS
from support.exercise_tools import run_cell
from support.notebook_tools import APPENDICES, NOTEBOOKS, read

LESSON = read(next(path for path in NOTEBOOKS if path.stem.startswith("02")))
EXERCISES = {exercise.name: exercise for exercise in find_exercises(LESSON)}
STACK = "MultiHeadAttentionWrapper"
WORTH = [  # what is changed in the solution, and the points that are left of three
    (STACK, "", "", 3),
    (STACK, "[head(x) for head in self.heads]", "[self.heads[0](x), self.heads[1](x)]", 1),
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


def test_hidden_tests_are_of_exercises():
    lessons = [read(path) for path in (*NOTEBOOKS, *APPENDICES)]
    names = {each.name for lesson in lessons for each in find_exercises(lesson)}
    assert set(HIDDEN_TESTS) <= names


@pytest.mark.parametrize(("name", "old", "new", "worth"), WORTH)
def test_an_answer_has_its_points(course, name, old, new, worth):
    exercise = EXERCISES[name]
    assert old in exercise.solution
    answer = insert_answer(exercise.solution.replace(old, new), exercise.stub)
    assert points(course, name, answer) == str(worth)


def test_a_stub_and_the_class_of_the_package_have_none(course):
    theirs = f"import attnlib\nclass {STACK}(attnlib.{STACK}):\n    pass"
    for name, answer in (*((name, each.stub) for name, each in EXERCISES.items()), (STACK, theirs)):
        assert points(course, name, answer) == "0"
