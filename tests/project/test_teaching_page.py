"""What docs/teaching.md says of the lessons, the commands and the exercises is so."""

import re
import shlex

from attncourse.checks.attempt import NOT_ATTEMPTED
from attncourse.classroom.command import _parser
from attncourse.classroom.exercises import find_exercises, put
from student_copies import without_solutions
from support.exercise_tools import run_cell
from support.notebook_tools import ROOT

PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^(`{3,4})(\w+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
BLOCKS = {language: text for _, language, text in BLOCK.findall(PAGE)}


def test_its_commands_are_commands():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake (\w+)", "\n".join(re.findall(r"`(.*?)`", PAGE))):
        assert f"\n{target}: " in makefile
    lines = re.findall(r"^(?:attnlib .*)$", BLOCKS["sh"], re.MULTILINE)
    lines += re.findall(r"`(attnlib \w+ [^`]+)`", PAGE)
    assert len(lines) == 2
    for line in lines:
        assert _parser().parse_args(shlex.split(line)[1:]).do


def test_its_exercise_is_one():
    """The tools find it, its check answers, and learners do not see the solution."""
    shown = run_cell(BLOCKS["python"], {}, "page")
    assert shown == NOT_ATTEMPTED
    output = {"output_type": "execute_result", "data": {"text/plain": shown}}
    stub = {"cell_type": "code", "id": "a", "source": BLOCKS["python"]}
    stub |= {"metadata": {}, "outputs": [output]}
    folded = {"cell_type": "markdown", "id": "b", "source": BLOCKS["markdown"], "metadata": {}}
    lesson = {"cells": [stub, folded]}
    (exercise,) = find_exercises(lesson)
    assert exercise.name == "mean_weight"
    assert run_cell(put(exercise.solution, exercise.stub), {}, "page") == "Right."
    assert without_solutions(lesson)["cells"] == [stub]
