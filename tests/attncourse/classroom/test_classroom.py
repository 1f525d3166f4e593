"""Notebooks for a class, and their grades: right, wrong, empty, broken and hostile ones."""

import csv
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from attncourse.classroom import command, sandbox
from attncourse.classroom import grade as grading
from attncourse.classroom.command import main
from attncourse.classroom.exercises import (
    check_of,
    find_exercises,
    list_bound,
    list_needed,
    put,
    source,
)
from attncourse.classroom.grade import Grade, Told, write_csv, write_html
from attncourse.classroom.lessons import copy_course, course, lessons, read_notebook, write_notebook
from student_copies import TAG, with_solutions, without_solutions
from support.class_tools import CELLS, RIGHT, answered, cell, lesson
from support.notebook_tools import tags

LESSONS = lessons()[1:]  # the first page has no exercises
BYTES_OF = {path: path.read_bytes() for path in LESSONS}


@pytest.fixture(scope="module", autouse=True)
def solved_afresh() -> Iterator[None]:
    """What the course's own solutions say is of the small lesson here, elsewhere of the others."""
    grading._solve.cache_clear()
    yield
    grading._solve.cache_clear()


@pytest.fixture
def small_course(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "course" / "01_lesson.ipynb"
    write_notebook(lesson(), path)
    monkeypatch.setattr(grading, "lessons", lambda: [path])
    return tmp_path


def grade(paths: Iterable[Path], seconds: float = 60.0) -> list[Grade]:
    """Grade notebooks that are trusted, on any system; test_hostile has those that are not."""
    return [one for _, found in grading.grade(paths, (), seconds) for one in found]


# The exercises of a notebook


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_lesson_has_exercises_that_can_be_taken_apart(path):
    stored = read_notebook(path)
    exercises = find_exercises(stored)
    assert exercises or path.stem in ("a2_page_faults", "a3_torch_options")  # which are read only
    for exercise in exercises:
        assert exercise.name in list_bound(exercise.stub)
        assert exercise.name not in list_bound(check_of(exercise) or "pass")
        assert exercise.name in check_of(exercise)
        compile(put(exercise.solution, exercise.stub), "cell", "exec")


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_learner_gets_hints_and_stubs_and_no_solution(path):
    stored, mine = read_notebook(path), without_solutions(read_notebook(path))
    text = "\n".join(map(source, mine["cells"]))
    for exercise in find_exercises(stored):
        assert exercise.stub in text
        assert exercise.solution not in text
    assert "<summary>Solution" not in text
    whole = "".join(map(source, stored["cells"]))
    assert text.count("<summary>Hint") == whole.count("<summary>Hint")
    codes = [c for c in stored["cells"] if c["cell_type"] == "code" and TAG not in tags(c)]
    assert codes == [c for c in mine["cells"] if c["cell_type"] == "code"]


def test_the_second_set_has_the_solutions_in_place():
    solved = with_solutions(lesson())
    (stub,) = (one for one in solved["cells"] if one["id"] == "stub")
    assert "return twice(number)" in stub["source"]
    assert "raise NotImplementedError" not in stub["source"]
    assert stub["outputs"] == []
    assert source(lesson()["cells"][-1]) == source(solved["cells"][-1])


def test_only_the_cells_that_an_answer_builds_on_are_run():
    code = CELLS | {}
    assert list_needed(code, ["stub"]) == ["setup", "stub"]
    code["stub"] = put("def double(x):\n    return twice(x)", code["stub"])
    assert list_needed(code, ["stub"]) == ["setup", "helper", "stub"]
    code["slow"] = "this is ( no Python"
    assert list_needed(code, ["stub"]) == ["setup", "helper", "stub"]


def test_what_a_cell_builds_on_is_found_in_the_bodies_of_functions_too():
    texts = ["seed = 1", "import math as size", "size = seed + 1", "unused = 1 / 0"]
    texts += ["def make(n): return n * size", "[seed for seed in 'ab']", "print(make(2))"]
    code = dict(enumerate(texts, 1))
    assert list_needed(code, [7]) == [1, 3, 5, 7]
    assert list_needed(code | {6: "make(2)"}, [6]) == [1, 3, 5, 6]
    assert list_needed(code | {5: "[size for size in seed]"}, [5]) == [1, 5]
    assert list_needed(code | {3: "class Double: of = size"}, [3]) == [1, 2, 3]


def test_an_answer_takes_the_place_of_all_that_it_binds():
    stub = "size = 1\nx = None\ndef f():\n    return 1\n\n\nprint(x, f())"
    answer = "import math\ndef f():\n    return 2\nx = math.pi\n"
    expected = "size = 1\nimport math\ndef f():\n    return 2\nx = math.pi\n\n\nprint(x, f())"
    assert put(answer, stub) == expected


def test_a_solution_may_be_the_lines_that_change():
    stub = "class A:\n    def f(x):\n        y = x\n        return y\n\n\nprint(A)"
    repaired = "class A:\n    def f(x):\n        y = 2 * x\n        return y"
    cells = [cell("stub", stub, "not attempted yet\n")]
    words = "<details><summary>Solution</summary>\n\n```python\ny = 2 * x\n```\n\n</details>"
    folded = {"cell_type": "markdown", "source": words}
    (found,) = find_exercises({"cells": [*cells, folded]})
    assert (found.name, found.solution) == ("A", repaired)
    assert put(found.solution, found.stub) == f"{repaired}\n\n\nprint(A)"


def test_stubs_and_solutions_must_go_together():
    one_less = lesson()
    one_less["cells"].pop()
    with pytest.raises(ValueError, match="1 cells print 'not attempted yet', for 0 folded"):
        find_exercises(one_less)


# The grades

GONE = {**lesson(), "cells": [one for one in lesson()["cells"] if one["id"] != "stub"]}
DELETES = f"import shutil\nshutil.rmtree('.', ignore_errors=True)\n{RIGHT}"
CLASS = {
    "with a helper": (answered("def double(number):\n    return twice(number)"), "solved"),
    "wrong": (answered("def double(number):\n    return number * number"), "attempted"),
    "empty": (lesson(), "not attempted"),
    "gone": (GONE, "not attempted"),
    "exit": (answered("import os\nos._exit(0)"), "failed"),
    "endless": (answered(f"{RIGHT}\n\n\nwhile True:\n    pass"), "failed"),
    "deletes": (answered(DELETES), "failed"),
    "foreign": ({"cells": [cell("foreign", "1 + 1")]}, "failed"),
    "list": ([1], "failed"),
}


def test_grades_of_a_class(small_course):
    folder = small_course / "class"
    for name, (notebook, _) in CLASS.items():
        write_notebook(notebook, folder / f"{name}.ipynb")
    (folder / "damaged.ipynb").write_text('{"cells": [')
    (folder / "picture.ipynb").write_bytes(b"\x89PNG")
    before = sorted(path.name for path in small_course.rglob("*"))
    found = grade(sorted(folder.glob("*")), seconds=1)
    grades = {Path(one.notebook).stem: one for one in found}
    assert sorted(path.name for path in small_course.rglob("*")) == before
    expected = {name: state for name, (_, state) in CLASS.items()}
    expected |= {"damaged": "failed", "picture": "failed"}
    assert {name: one.state for name, one in grades.items()} == expected
    assert grades["wrong"].said == "Is it twice?"
    assert grades["endless"].said == "took longer than 1 seconds"
    assert grades["exit"].said == "Python ended (status 0)"
    assert "not a notebook" in grades["damaged"].said
    assert "shares no cell" in grades["foreign"].said


def test_an_answer_counts_wherever_the_learner_wrote_it(small_course):
    """In a cell of one's own, with or without the stub; under lines that only IPython reads.

    Other programs keep the ids of cells in the metadata, or not at all.
    """
    folder = small_course / "class"
    below, instead, magic = lesson(), lesson(), answered(f"%matplotlib inline\n{RIGHT}")
    below["cells"].insert(4, cell("mine", RIGHT))
    instead["cells"][3] = cell("mine", RIGHT)
    later = lesson()  # right at first, then broken by a second try
    later["cells"][3:4] = [answered(RIGHT)["cells"][3], cell("mine", "def double(number): 1 / 0")]
    moved, nowhere = answered(RIGHT), answered(RIGHT)
    for one, other in zip(moved["cells"], nowhere["cells"], strict=True):
        one["metadata"] = {"id": one.pop("id")}
        del other["id"]
    for i, one in enumerate((below, instead, magic, later, moved, nowhere)):
        write_notebook(one, folder / f"{i}.ipynb")
    found = grade(sorted(folder.glob("*")), seconds=20)
    assert [one.state for one in found] == ["solved"] * 6


def test_what_is_no_notebook_and_no_code_ends_as_a_line_of_the_table(small_course, monkeypatch):
    folder = small_course / "class"
    odd = lesson()
    odd["cells"] += [{"cell_type": "code", "id": ["x"], "source": 5}, {"metadata": 3}]
    write_notebook(odd, folder / "1.ipynb")
    for name, code in (("2", "a\0b"), ("3", "x = " + "-" * 100_000 + "1"), ("4", "# \ud800")):
        mine = lesson()
        mine["cells"][3]["source"] = code
        (folder / f"{name}.ipynb").write_text(json.dumps(mine))
    (folder / "5.ipynb").write_text("[" * 200_000)
    found = grade(sorted(folder.glob("*")), seconds=20)
    states = [one.state for one in found]
    assert states == ["not attempted", "attempted", "attempted", "attempted", "failed"]
    write_csv(found, small_course / "g.csv")
    write_html(found, small_course / "g.html")
    monkeypatch.setattr(grading, "grade_one", lambda *_: 1 / 0)
    assert "ZeroDivisionError" in grade([folder / "1.ipynb"])[0].said


def test_two_files_of_one_name_are_told_apart(tmp_path):
    paths = [tmp_path / who / "01.ipynb" for who in ("ann", "bob")]
    assert list(grading.labels([*paths, paths[0]])) == ["ann/01.ipynb", "bob/01.ipynb"]
    assert list(grading.labels(paths[:1])) == ["01.ipynb"]


def test_an_exercise_that_nobody_touched_is_not_run(small_course, monkeypatch):
    monkeypatch.setattr(grading, "_solve", lambda *_: {"stub": Told("ran", "Right.")})
    monkeypatch.setattr(grading, "run_script", lambda *_: 1 / 0)
    mine = lesson()
    mine["cells"][3]["source"] += "\n"
    write_notebook(mine, small_course / "a.ipynb")
    (found,) = grade([small_course / "a.ipynb"])
    assert (found.state, found.said) == ("not attempted", "not attempted yet")


def test_what_only_deceit_needs_is_told_beside_solved(small_course):
    """Not what the lesson has itself: its folded solution, or a cell above, may say `vars`."""
    folder = small_course / "class"
    odd = answered(f"import sys\n{RIGHT}\nexec('')  # open to all\n%config")
    write_notebook(odd, folder / "a.ipynb")
    write_notebook(
        answered(f"%matplotlib inline\nmodel_eval = compiled = 1\n{RIGHT}"), folder / "b.ipynb"
    )
    found = grade(sorted(folder.glob("*")), seconds=20)
    assert [one.state for one in found] == ["solved"] * 2
    assert found[0].said.endswith("To be read by you: it has %config, exec, open, sys.")
    assert found[1].said == "Right."
    write_html(found, small_course / "g.html")
    page = (small_course / "g.html").read_text(encoding="utf-8")
    assert page.count("To be read by you") == 1
    assert page.count("Right.") == 0


def test_who_tells_in_place_of_the_check_is_to_be_read(small_course):
    """It cannot be told from a check, in one Python with it; that it was sought can."""
    line = json.dumps([CHECKED, "ran", "Right.", []]) + "\n"
    forged = (
        f"import os\nfor one in range(3, 20):\n    try:\n        os.write(one, {line.encode()!r})"
    )
    mine = answered(f"def double(): 0\n{forged}\n    except OSError:\n        pass\nos._exit(0)")
    write_notebook(mine, small_course / "a.ipynb")
    ((state, said),) = [one[2:] for one in grade([small_course / "a.ipynb"], seconds=20)]
    assert (state, said) == ("solved", "Right. To be read by you: it has os.")


def test_what_a_star_brings_is_there(small_course):
    mine = answered("def double(number):\n    return floor(number + number)")
    mine["cells"].insert(2, cell("mine", "from math import *"))
    write_notebook(mine, small_course / "a.ipynb")
    assert [one.state for one in grade([small_course / "a.ipynb"])] == ["solved"]


ODD = ["[1, 2]", "5", "{{{", "[" * 100_000, '["a", "ran", "\\ud800", []]', '["a", 1, 2, 3]', "\0"]


@pytest.mark.parametrize("line", ODD)
def test_what_a_run_tells_may_be_anything(line):
    told = grading._read_told(f'["stub", "ran", "Right.", []]\n{line}\n'.encode())
    assert told["stub"] == Told("ran", "Right.")
    assert "".join(one.said for one in told.values()).encode("utf-8")
    assert grading._read_told(b"") == {}


def test_a_terminal_obeys_nothing_that_was_told():
    told = grading._read_told(b'["a", "ran", "\\u001b[2J\\u0007 5 \\n30 of 30\\u202e solved", []]')
    assert told["a"].said == " [2J  5  30 of 30  solved"


CHECKED = "stub" + grading.CHECK
CALLS, IS = "calls attnlib's attention", "is attnlib's attention"


@pytest.mark.parametrize(
    ("told", "state", "said"),
    [
        ({"stub": ("ran", "Right."), CHECKED: ("ran", "Is it?")}, "attempted", "Is it?"),
        ({"stub": ("raised", "Oh"), CHECKED: ("ran", "Right.")}, "solved", "Right."),
        ({CHECKED: ("held", "Right. Note: slow.")}, "solved", "Right. Note: slow."),
        ({CHECKED: ("ran", "Right. Note: slow.")}, "attempted", "Right. Note: slow."),
        ({"stub": ("raised", "Oh"), CHECKED: ("raised", "NameError")}, "attempted", "Oh"),
        ({"stub": ("ran", ""), CHECKED: ("raised", "TypeError")}, "attempted", "TypeError"),
        ({CHECKED: ("ended", "took longer")}, "failed", "took longer"),
        ({CHECKED: ("ran", "not attempted yet")}, "not attempted", "not attempted yet"),
        ({}, "not attempted", "not attempted yet"),
        ({CHECKED: ("ran", "Right.", frozenset({CALLS}))}, "solved", "Right."),
        (
            {CHECKED: ("ran", "Right.", frozenset({CALLS, IS}))},
            "attempted",
            f"right, but not the learner's own: it {IS}",
        ),
    ],
)
def test_the_check_decides_and_not_what_the_notebook_prints(told, state, said):
    (exercise,) = find_exercises(lesson())
    told = {name: Told(*one) for name, one in told.items()}
    expected = Told("ran", "Right.", frozenset({CALLS}))
    assert grading._state(exercise, CELLS, told, expected) == (state, said)


# The tables

GRADES = [
    Grade("a.ipynb", "double", "solved", "Right."),
    Grade("b.ipynb", "double", "attempted", "Is it <twice>?"),
    Grade("c.ipynb", "double", "attempted", "Is it <twice>?"),
    Grade("=d.ipynb", "", "failed", "-1 is no notebook"),
]


def test_the_tables(tmp_path):
    write_csv(GRADES, tmp_path / "g.csv")
    with (tmp_path / "g.csv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["notebook", "exercise", "state", "said"]
    assert rows[1] == ["a.ipynb", "double", "solved", "Right."]
    assert rows[4] == ["'=d.ipynb", "", "failed", "'-1 is no notebook"]  # no formula
    write_html(GRADES, tmp_path / "g.html")
    page = (tmp_path / "g.html").read_text(encoding="utf-8")
    assert "<li>2 × double: Is it &lt;twice&gt;?</li>" in page
    assert page.count('<th scope="row">') == 4
    assert "-1 is no notebook" in page


# The command


def test_the_course_is_copied_and_nothing_of_the_reader_overwritten(tmp_path):
    assert copy_course(tmp_path) == []
    mine = tmp_path / "notebooks" / LESSONS[0].name
    assert mine.read_bytes() == BYTES_OF[LESSONS[0]]
    images = [sorted(p.name for p in f.glob("images/*.png")) for f in (tmp_path, course())]
    assert images[0] == images[1]
    mine.write_text("mine")
    assert copy_course(tmp_path) == sorted(p.name for p in (course() / "notebooks").glob("*.ipynb"))
    assert mine.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no root")
@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_jupyterlab_is_opened_for_anybody_and_for_this_machine_alone(
    tmp_path, monkeypatch, user, allowed
):
    started = []
    monkeypatch.setattr(os, "geteuid", lambda: user)
    ended = subprocess.CompletedProcess([], 7)
    monkeypatch.setattr(command.subprocess, "run", lambda line, cwd: started.append(line) or ended)
    assert main(["lab", str(tmp_path)]) == 7
    ((_, _, module, address, opened, *rest),) = started
    assert (module, address) == ("jupyterlab", "--ip=127.0.0.1")
    assert opened.endswith("notebooks/00_start.ipynb")
    assert rest == ["--allow-root"] * allowed


def test_a_class_in_a_file_is_checked(tmp_path, capsys):
    file = tmp_path / "my_attention.py"
    file.write_text(
        "from attnlib import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper\n\n\n"
        "class Unscaled(CausalAttention):\n"
        "    def forward(self, x):\n"
        "        return 2 * super().forward(x)\n"
    )
    assert main(["check", f"{file}:MultiHeadAttention"]) == 0
    assert main(["check", f"{file}:CausalAttention"]) == 0
    assert main(["check", f"{file}:MultiHeadAttentionWrapper"]) == 1
    stacked = ["--like", "MultiHeadAttentionWrapper"]
    assert main(["check", f"{file}:MultiHeadAttentionWrapper", *stacked]) == 0
    capsys.readouterr()
    assert main(["check", f"{file}:Unscaled"]) == 1
    assert "line 2" in capsys.readouterr().out
    assert main(["check", f"{file}:Other"]) == 2
    assert "has no class Other; it has: " in capsys.readouterr().out
    assert main(["check", "no_such.py:Mine"]) == 2
    assert main(["grade", "no_such.ipynb"]) == 2
    assert "no such file: no_such.ipynb" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "said"),
    [(None, "is not installed: sudo apt-get install bubblewrap"), ("false", "makes no sandbox")],
)
def test_without_a_sandbox_only_what_is_trusted_is_graded(
    small_course, monkeypatch, capsys, found, said
):
    """The second is a bubblewrap that is not allowed its work."""
    monkeypatch.setattr(sandbox, "which", lambda _: shutil.which(found or ""))
    monkeypatch.setattr(command, "walls", sandbox.walls.__wrapped__)
    mine, out = small_course / "a.ipynb", small_course / "out"
    write_notebook(answered(RIGHT), mine)
    asked = ["grade", str(mine), "--out", str(out)]
    assert main(asked) == 2
    shown = capsys.readouterr().out
    assert said in shown
    assert "attnlib grade --trust" in shown
    assert not out.exists()
    assert main([*asked, "--trust"]) == 0
    assert "a.ipynb: 1 of 1 solved" in capsys.readouterr().out
    assert "double,solved,Right." in (out / "grades.csv").read_text()


def test_the_command_says_what_it_does(capsys):
    """As a module it runs in test_wheel, with every import's warning an error."""
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "lab" in capsys.readouterr().out
