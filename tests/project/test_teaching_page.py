"""What the pages for teachers say of the lessons, the commands and the exercises is so."""

import re
import shlex

from attncourse.checks.safe_run import NOT_ATTEMPTED
from attncourse.classroom.command import _parser
from exercises import find_exercises, put
from student_copies import without_solutions
from support.exercise_tools import run_cell
from support.leaks import shown
from support.notebook_tools import HEADING, NOTEBOOKS, ROOT, markdown_cells, minutes, read, title

PAGE, EXAM, ANSWERS, NAMES = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("teaching", "exam", "exam_answers", "names")
)
LESSONS = {path.name[:2]: read(path) for path in NOTEBOOKS}
PROSE = {
    number: "\n".join(text for _, text in markdown_cells(lesson))
    for number, lesson in LESSONS.items()
}
LINK = re.compile(r"\[(\d\d)\]\(\.\./notebooks/([\w.]+)\)")
SECTION = re.compile(LINK.pattern + r"(?:,| \|) \*(.+?)\*(?=[ ,:]|$)(?: and \*(.+?)\*)?")
BLOCK = re.compile(r"^(`{3,4})(\w+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
BLOCKS = {language: text for _, language, text in BLOCK.findall(PAGE)}


def test_its_sections_are_those_of_the_lessons():
    named = SECTION.findall(PAGE)
    assert len(named) > 20
    for number, _, *sections in named:
        missing = {*sections} - {"", *HEADING.findall(PROSE[number])}
        assert not missing, f"{number} has no section {missing}"


def test_its_plans_take_the_minutes_that_they_say():
    plans = PAGE[PAGE.index("## Three ways") : PAGE.index("## What to project")]
    tables = re.findall(r"^\| Minutes \|.*?\n\n", plans, re.MULTILINE | re.DOTALL)
    taken = [sum(map(int, re.findall(r"^\| (\d+) \|", table, re.MULTILINE))) for table in tables]
    assert taken == [100, 90, 90]
    weeks = re.findall(r"^\| \d \| (.+?) \| (\d+) \|", plans, re.MULTILINE)
    read_in = [[number for number, _ in LINK.findall(lessons)] for lessons, _ in weeks]
    assert [number for week in read_in for number in week] == list(LESSONS)
    for week, (_, told) in zip(read_in, weeks, strict=True):
        assert sum(minutes(LESSONS[number]) for number in week) == int(told)


def test_every_lesson_has_three_questions_and_each_its_answer():
    _, *parts = re.split(r"^## (.*)\n", EXAM, flags=re.MULTILINE)
    assert parts[::2] == [title(lesson) for lesson in LESSONS.values()]
    numbers = [re.findall(r"^- \*\*(\d\.\d)\*\* \S", part, re.MULTILINE) for part in parts[1::2]]
    assert numbers == [[f"{int(lesson)}.{i}" for i in (1, 2, 3)] for lesson in LESSONS]
    answered = re.findall(r"^- \*\*(\d\.\d)\*\* \S", ANSWERS, re.MULTILINE)
    assert answered == [number for lesson in numbers for number in lesson]
    assert "exam_answers" not in EXAM + NAMES  # students have these two pages


RECALLED = {  # what question and answer take from a lesson
    "01": ("Tokyo", "Japanese", "0.69"),
    "02": ("0.59", "stuck"),
    "05": ("causal_lower_right", "[:, None]"),
    "06": ("0.95",),
    "07": ("50.3", "12.6"),
    "08": ("abcxbcab", "4.6", "10.7", "5.3"),
    "09": ("538 MB", "46 MB", "138 MB"),
}


def test_what_is_recalled_stands_in_the_lesson():
    exam, answers = (re.split(r"^## .*\n", page, flags=re.MULTILINE) for page in (EXAM, ANSWERS))
    for number, words in RECALLED.items():
        asked = exam[int(number)] + answers[int(number)]
        said = "".join(map(shown, LESSONS[number]["cells"]))
        for word in words:
            assert word in asked, (number, word)
            assert word in said, (number, word)


def test_every_name_first_comes_in_the_lesson_that_is_named():
    rows = re.findall(rf"^\| \*\*`?(.+?)`?\*\* \| {LINK.pattern} \|", NAMES, re.MULTILINE)
    assert len(rows) > 40
    for name, number, _ in rows:
        word = re.compile(rf"\b{re.escape(name)}(?![^\[]*\]\(\d)", re.IGNORECASE)  # not in a link
        assert number == next((n for n, text in PROSE.items() if word.search(text)), None), name


def test_its_commands_are_commands():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake (\w+)", "\n".join(re.findall(r"`(.*?)`", PAGE))):
        assert f"\n{target}: " in makefile
    lines = re.findall(r"^attncourse .*$", BLOCKS["sh"], re.MULTILINE)
    lines += re.findall(r"`(attncourse \w+ [^`]+)`", PAGE)
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
