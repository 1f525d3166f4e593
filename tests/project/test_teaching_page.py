"""What docs/teaching.md says of the lessons, the commands and the exercises is so."""

from __future__ import annotations

import re
import shlex

import pytest

from attncourse.classroom.command import _parser
from attncourse.classroom.exercises import find_exercises, put
from student_copies import without_solutions
from support.notebook_tools import HEADING, NOTEBOOKS, ROOT, broken_links, minutes, read, source

PAGE = (ROOT / "docs" / "teaching.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^(`{3,4})(\w+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
BLOCKS = {language: text for _, language, text in BLOCK.findall(PAGE)}
SHOWN = re.findall(r"^\| \[(\d\d)\]\(\S+\) \| \*(.+?)\* \|", PAGE, re.MULTILINE)


def headings(number: str) -> set[str]:
    """Return the headings of a lesson."""
    (path,) = (path for path in NOTEBOOKS if path.name.startswith(number))
    cells = (cell for cell in read(path)["cells"] if cell["cell_type"] == "markdown")
    return {text for cell in cells for text in HEADING.findall(source(cell))}


def test_its_links_resolve():
    assert list(broken_links(PAGE, ROOT / "docs", set())) == []


@pytest.mark.parametrize(("number", "heading"), SHOWN)
def test_what_it_projects_is_there(number, heading):
    assert heading in headings(number)


def test_the_hour_is_an_hour_and_its_sections_are_there():
    table = PAGE[PAGE.index("| Minutes") : PAGE.index("**A day")]
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", table, re.MULTILINE)
    assert sum(int(length) for length, _ in rows) == 60
    number = ""
    for _, shows in rows:
        number = re.findall(r"\b0\d\b", shows)[0]
        named = re.findall(r"\*(.+?)\*", shows)
        assert named
        assert set(named) <= headings(number)


def test_the_day_has_the_minutes_of_its_notebooks():
    long = {path.name[:2]: minutes(read(path)) for path in NOTEBOOKS}
    assert f"({long['01'] + long['02'] + long['03']} minutes with their exercises)" in PAGE
    assert f"06 after it ({long['06']} minutes)" in PAGE


def test_its_commands_are_commands():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake (\w+)", "\n".join(re.findall(r"`(.*?)`", PAGE))):
        assert f"\n{target}: " in makefile
    lines = re.findall(r"^(?:attnlib .*)$", BLOCKS["sh"], re.MULTILINE)
    lines += re.findall(r"`(attnlib \w+ [^`]+)`", PAGE)
    assert len(lines) == 2
    for line in lines:
        assert _parser().parse_args(shlex.split(line)[1:]).do


def test_its_exercise_is_one(capsys):
    """The tools find it, its check answers, and learners do not see the solution."""
    exec(compile(BLOCKS["python"], "page", "exec"), {})
    printed = capsys.readouterr().out
    output = {"output_type": "stream", "name": "stdout", "text": printed}
    stub = {"cell_type": "code", "id": "a", "source": BLOCKS["python"], "outputs": [output]}
    folded = {"cell_type": "markdown", "id": "b", "source": BLOCKS["markdown"]}
    lesson = {"cells": [stub, folded]}
    (exercise,) = find_exercises(lesson)
    assert exercise.name == "mean_weight"
    exec(compile(put(exercise.solution, exercise.stub), "page", "exec"), {})
    assert capsys.readouterr().out == "Right.\n"
    assert without_solutions(lesson)["cells"] == [stub]
