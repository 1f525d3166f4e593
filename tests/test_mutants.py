"""`make mutants`: each fault can be planted, and nothing but a failing test counts as a kill."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest

import mutants
from faults import AROUND, COMPUTATION, FAULTS, Fault
from mutants import (
    ROOT,
    Run,
    copied,
    main,
    planted,
    problem,
    run_pytest,
    without_quotes,
)

EACH = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


# The list


def test_there_are_enough_and_their_names_differ():
    assert len(COMPUTATION) >= 20
    assert len(AROUND) >= 5
    assert {fault.file for fault in COMPUTATION}.isdisjoint(fault.file for fault in AROUND)
    rooms = {Path(fault.file).relative_to("attnlib").parts[0] for fault in AROUND}
    assert {"tracing", "checks", "panels", "pictures"} <= rooms
    assert "attnlib/convert.py" in {fault.file for fault in COMPUTATION}
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


@EACH
def test_it_can_be_planted(fault):
    """Python can read the file with the fault in it, and all other lines keep their numbers."""
    before = (ROOT / fault.file).read_text(encoding="utf-8")
    after = planted(fault, before)
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(before))
    assert after.count("\n") == before.count("\n")


@EACH
def test_what_must_notice_it_exists(fault):
    """A parameter in brackets is looked up by pytest itself, before anything is planted."""
    file, _, name = fault.test.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name.partition("[")[0] in functions
    assert fault.notebook is None or (ROOT / fault.notebook).is_file()


@pytest.mark.parametrize(("old", "count"), [("return 3", 0), ("x", 2)])
def test_code_that_moved_is_named(old, count):
    fault = Fault("moved", "attnlib/some.py", {old: "y"}, "tests/test_some.py::test_it")
    words = f"moved: attnlib/some.py holds {count} times, not once: '{old}'. The code moved"
    with pytest.raises(ValueError, match=words):
        planted(fault, "x = 1\nreturn x\n")


# A project of two lines, its test, its notebook, and what may happen to a fault


BEFORE = "def double(x):\n    return 2 * x\n"
TESTS = """
import pytest
import attnlib
def test_double():
    assert attnlib.double(2) == 4
def test_zero():
    assert attnlib.double(0) == 0
@pytest.fixture
def four():
    assert attnlib.double(2) == 4
def test_begins(four):
    assert attnlib.double(0) == 0
"""
LESSON = "notebooks/lesson.ipynb"


def cell(source: str, shown: str) -> dict:
    result = {"output_type": "execute_result", "execution_count": 1, "metadata": {}}
    return {
        "cell_type": "code",
        "execution_count": 1,
        "id": "abcdefgh"[: len(shown)],
        "metadata": {},
        "outputs": [{**result, "data": {"text/plain": shown}}],
        "source": source,
    }


def fault(name: str, new: str, test: str, notebook: str | None = None) -> Fault:
    changes = {"    return 2 * x": f"    {new}"}
    test = f"tests/test_double.py::{test}"
    return Fault(name, "attnlib/__init__.py", changes, test, notebook)


KILLED = fault("killed", "return 3 * x", "test_double", LESSON)
SURVIVES = fault("survives", "return 3 * x", "test_zero")
NOT_PRINTED = fault("not-printed", "return 2 * x + (x == 2)", "test_double", LESSON)
NO_IMPORT = fault("no-import", "return 3 * x; import nowhere.", "test_double")
NO_NAME = fault("no-name", "return two * x", "test_double")
NOT_BEGUN = fault("not-begun", "return 3 * x", "test_begins")
TINY = (KILLED, SURVIVES, NOT_PRINTED, NO_IMPORT, NO_NAME, NOT_BEGUN)


@pytest.fixture
def project(tmp_path):
    """Return a project whose attnlib doubles a number."""
    root = tmp_path / "project"
    for name in ("attnlib", "tests", "notebooks"):
        (root / name).mkdir(parents=True)
    (root / ".gitignore").write_text("__pycache__/\n")
    (root / "attnlib" / "__init__.py").write_text(BEFORE)
    (root / "tests" / "test_double.py").write_text(TESTS)
    cells = [
        cell("import inspect, attnlib; print()", ""),
        cell("inspect.getsource(attnlib.double)", repr(BEFORE)),
        cell("attnlib.double(3)", "6"),
    ]
    cells[0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "\n"}]
    lesson = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (root / LESSON).write_text(json.dumps(lesson))
    return root


@pytest.fixture
def as_it_is(monkeypatch):
    """Copy without asking where attnlib comes from, which takes a kernel."""
    monkeypatch.setattr(mutants, "copied", shutil.copytree)


@pytest.mark.usefixtures("as_it_is")
def test_only_a_failing_test_is_a_kill(project, capsys):
    """And only a number that changes: the cell that shows the source does not count."""
    assert main([], project, TINY) == 1
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    ends = {line.split()[0]: line for line in lines if line.startswith(tuple(f.name for f in TINY))}
    test = "tests/test_double.py::"
    assert f"{test}test_double, {LESSON}::Cell 2 " in ends["killed"]
    assert f"{test}test_double, SURVIVED {LESSON}" in ends["not-printed"]
    assert f"SURVIVED {test}test_zero" in ends["survives"]
    assert f"{test}test_double did not run to its end: exit code 4" in ends["no-import"]
    assert "the fault does not run: NameError: name 'two' is not defined" in ends["no-name"]
    assert f"{test}test_begins did not run to its end: exit code 1" in ends["not-begun"]
    assert "1 of 6 killed" in lines[-1]
    assert (project / "attnlib" / "__init__.py").read_text() == BEFORE


@pytest.mark.usefixtures("as_it_is")
def test_all_killed_is_a_success(project, capsys):
    tested = KILLED._replace(name="tested", notebook=None)
    assert main(["tested"], project, (*TINY, tested)) == 0
    assert "1 of 1 killed" in capsys.readouterr().out


@pytest.mark.usefixtures("as_it_is")
def test_red_without_a_fault_is_a_failure(project, capsys):
    tests = project / "tests" / "test_double.py"
    tests.write_text(TESTS.replace("double(0) == 0", "double(0) == 1"))
    assert main(["survives"], project, TINY) == 1
    captured = capsys.readouterr()
    assert "Red without any fault." in captured.err
    assert "assert 0 == 1" in captured.err
    assert "killed" not in captured.out


def test_what_cannot_be_planted_is_a_failure(project, capsys):
    assert main(["killd"], project, TINY) == 1
    assert capsys.readouterr().err == "no such fault: killd\n"
    (project / "attnlib" / "__init__.py").write_text("def double(x):\n    return x + x\n")
    assert main([], project, TINY) == 1
    assert "killed: attnlib/__init__.py holds 0 times, not once" in capsys.readouterr().err


def test_too_slow_is_no_kill(project):
    wanted = KILLED.test
    run = run_pytest(project, wanted, limit=0.01)
    assert problem(run, wanted) == f"{wanted} ran out of time"


def test_a_failure_elsewhere_is_no_kill():
    run = Run(1, {"tests/test_other.py::test_it": "assert 1 == 2"}, {}, 0.1, "")
    assert problem(run, KILLED.test) == (
        f"{KILLED.test} did not run to its end: exit code 1: tests/test_other.py::test_it"
    )
    others = {"tests/test_double.py::test_double_of_two": "assert 1 == 2"}
    assert "did not run to its end" in problem(run._replace(failures=others), KILLED.test)
    one_of_several = {"tests/test_double.py::test_double[2]": "assert 1 == 2"}
    assert problem(run._replace(failures=one_of_several), KILLED.test) is None


def test_a_copy_must_import_its_own_attnlib(project, tmp_path):
    """Without one it would import the installed package, and no fault would show."""
    (project / ".gitignore").write_text("attnlib/\n")
    with pytest.raises(RuntimeError, match="does not import its own attnlib"):
        copied(project, tmp_path / "copy")


# Cells that quote the changed line


@pytest.mark.parametrize(
    ("kind", "shown", "ignored"),
    [
        ("text/plain", "x = x + 1", True),
        ("text/markdown", "```python\n    x = x + 1  # one more\n```", True),
        ("text/html", ["<td>x = x +", " 1</td>"], True),
        ("text/html", "if a &gt; b:", True),
        ("text/plain", "y = 2", False),
        ("text/plain", "x = x", False),
        ("image/png", "x = x + 1", False),
    ],
)
def test_a_cell_that_quotes_the_changed_line_is_passed_over(kind, shown, ignored):
    """A line that stays may be quoted."""
    changes = {"x = x + 1  # one more\ny = 2": "x = x + 3\ny = 2", "if a > b:": "if a >= b:"}
    planted_in = KILLED._replace(changes=changes)
    one = {"metadata": {}, "outputs": [{"data": {kind: shown}}]}
    changed = without_quotes({"cells": [{"metadata": {}}, one]}, planted_in)
    tags = [part["metadata"].get("tags", []) for part in changed["cells"]]
    assert tags == [[], ["nbval-ignore-output"] * ignored]
