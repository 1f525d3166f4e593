"""tools/exercises.py finds the exercises of a notebook, and puts answers in."""

import pytest

from attncourse.checks.safe_run import NOT_ATTEMPTED
from attncourse.classroom.lessons import lessons
from exercises import (
    check_of,
    find_exercises,
    insert_answer,
    list_bound,
    list_needed,
    read_notebook,
)


def folded(code: str) -> dict:
    text = f"<details><summary>Solution</summary>\n\n```python\n{code}\n```\n\n</details>"
    return {"cell_type": "markdown", "source": text}


def stub_cell(code: str) -> dict:
    output = {"output_type": "stream", "name": "stdout", "text": [NOT_ATTEMPTED, "\n"]}
    return {"cell_type": "code", "id": "stub", "source": code, "outputs": [output]}


def test_every_exercise_of_the_lessons_can_be_taken_apart():
    """Notebook 00 and the appendices A2 and A3 have none."""
    found = [each for path in lessons() for each in find_exercises(read_notebook(path))]
    assert len(found) > 20
    for exercise in found:
        assert exercise.name in list_bound(exercise.stub)
        assert exercise.name not in list_bound(check_of(exercise) or "pass")
        compile(insert_answer(exercise.solution, exercise.stub), "cell", "exec")


def test_what_a_cell_builds_on_is_found_in_the_bodies_of_functions_too():
    texts = ["seed = 1", "import math as size", "size = seed + 1", "unused = 1 / 0"]
    texts += ["def make(n): return n * size", "[seed for seed in 'ab']", "print(make(2))"]
    code = dict(enumerate(texts, 1))
    assert list_needed(code, [7]) == [1, 3, 5, 7]
    assert list_needed(code | {6: "make(2)"}, [6]) == [1, 3, 5, 6]
    assert list_needed(code | {5: "[size for size in seed]"}, [5]) == [1, 5]
    assert list_needed(code | {3: "class Double: of = size"}, [3]) == [1, 2, 3]


def test_a_solution_may_be_the_lines_that_change():
    stub = "class A:\n    def f(x):\n        y = x\n        return y\n\n\nprint(A)"
    repaired = "class A:\n    def f(x):\n        y = 2 * x\n        return y"
    (found,) = find_exercises({"cells": [stub_cell(stub), folded("y = 2 * x")]})
    assert (found.name, found.solution) == ("A", repaired)
    assert insert_answer(found.solution, found.stub) == f"{repaired}\n\n\nprint(A)"


def test_stubs_and_solutions_must_go_together():
    with pytest.raises(ValueError, match="1 cells print 'not attempted yet', for 0 folded"):
        find_exercises({"cells": [stub_cell("x = None\nprint(x)")]})
