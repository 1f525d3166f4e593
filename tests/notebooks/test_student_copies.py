"""The copies for a class: explanations and hints stay, and nothing gives an answer away."""

import pytest

from exercises import find_exercises
from student_copies import student_copy
from support.exercise_tools import answers_to
from support.leaks import leaks, own_lines, shown, squash
from support.notebook_tools import APPENDICES, NOTEBOOKS, read

LESSONS = {path.stem: path for path in (*NOTEBOOKS, *APPENDICES)}
COPIES = {stem: student_copy(read(path)) for stem, path in LESSONS.items()}
SHOWN = {stem: squash("".join(map(shown, copy["cells"]))) for stem, copy in COPIES.items()}
EXERCISES = [
    pytest.param(stem, exercise, id=f"{stem}-{exercise.name}")
    for stem, path in LESSONS.items()
    for exercise in find_exercises(read(path))
]


@pytest.mark.parametrize(("stem", "exercise"), EXERCISES)
def test_no_line_of_a_solution_stands_below_its_stub_or_in_a_fold(stem, exercise):
    assert own_lines(exercise) or exercise.name in ("part", "broken")  # a word, three numbers
    assert leaks(COPIES[stem], exercise) == []


@pytest.mark.parametrize(("stem", "exercise"), EXERCISES)
def test_what_a_solution_prints_stands_nowhere(stem, exercise):
    right = squash(answers_to(stem)[exercise.name].right)
    assert not [copy for copy, text in SHOWN.items() if right in text]


def test_no_cell_that_is_left_opens_a_class_that_an_exercise_asks_for():
    """06: what differs in a mystery is shown by the course's own copy alone."""
    lesson = "06_right_shape_wrong_answer"
    _, *opens = SHOWN[lesson].split("checks.show_fault(")
    assert [line.partition(")")[0].rpartition(".")[2] for line in opens] == ["class_b", "mystery_1"]
    assert "Solution" not in SHOWN[lesson]


IN_WORDS = {
    "04_shapes_and_numbers": ("missing in both",),
    "08_what_heads_learn": ("the keys are told nothing", "all of layer 0:"),
}


def test_what_explains_a_solution_goes_with_it():
    """Folds and tables say what the exercise asks for neither in code nor in words."""
    for lesson, words in IN_WORDS.items():
        whole = squash("".join(map(shown, read(LESSONS[lesson])["cells"])))
        assert all(squash(one) in whole for one in words)
        assert not [one for one in words if squash(one) in SHOWN[lesson]]
