"""`make mutants`: each fault can be planted, and nothing but a failing test counts as a kill."""

import ast
from functools import cache

import pytest

import mutants
from mutants import ROOT, main, plant
from mutants_list import MUTANTS, Mutant


def test_their_names_differ():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@cache
def looked_at(file: str) -> tuple[str, str, set[str]]:
    """Return a file's text, what Python makes of it, and the names of its functions."""
    text = (ROOT / file).read_text(encoding="utf-8")
    tree = ast.parse(text)
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return text, ast.dump(tree), names


@pytest.mark.promise(number=21)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_can_be_planted_and_what_must_notice_it_exists(mutant):
    """Python can read the file with the fault in it, and all other lines keep their numbers.

    A parameter in brackets is looked up by pytest itself, before anything is planted.
    """
    before, meant, _ = looked_at(mutant.file)
    after = plant(mutant, before)
    assert ast.dump(ast.parse(after)) != meant
    assert after.count("\n") == before.count("\n")
    file, _, name = mutant.test.partition("::")
    assert name.partition("[")[0] in looked_at(file)[2]


# A project of two lines, its tests, and what may happen to a mutant of it


BEFORE = "def double(x):\n    return 2 * x\n"
TESTS = """
import attnlib
def test_double(): assert attnlib.double(2) == 4
def test_zero(): assert attnlib.double(0) == 0
"""


def mutant(name: str, new: str, test: str) -> Mutant:
    changes = {"return 2 * x": new}
    return Mutant(name, "attnlib/__init__.py", changes, f"tests/test_double.py::{test}")


KILLED = mutant("killed", "return 3 * x", "test_double")
SURVIVES = mutant("survives", "return 3 * x", "test_zero")
NO_PYTHON = mutant("no-python", "return 3 *", "test_double")
TINY = (KILLED, SURVIVES, NO_PYTHON)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a project whose attnlib doubles a number. Git does not know it."""
    monkeypatch.setattr(mutants, "LOADED", ("pytest",))  # it needs no more
    for folder in ("attnlib", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    (tmp_path / "attnlib" / "__init__.py").write_text(BEFORE)
    (tmp_path / "tests" / "test_double.py").write_text(TESTS)
    return tmp_path


def test_only_a_failing_test_is_a_kill(project, capsys):
    assert main(["killed"], project, TINY) == 0
    assert "1 of 1 killed" in capsys.readouterr().out
    assert main([], project, TINY) == 1
    _, killed, survives, no_python, last = capsys.readouterr().out.split(" of 3 ")
    assert "killed in attnlib/__init__.py: killed, tests/test_double.py::test_double" in killed
    assert "survives in attnlib/__init__.py: SURVIVED, tests" in survives
    assert "NOT TESTED, exit code 4: " in no_python
    assert last.startswith("killed in ")
    assert (project / "attnlib" / "__init__.py").read_text() == BEFORE


def test_red_without_any_fault_is_a_failure(project, capsys):
    (project / "tests" / "test_double.py").write_text(TESTS.replace("(0) == 0", "(0) == 1"))
    assert main(["survives"], project, TINY) == 1
    captured = capsys.readouterr()
    assert "Red without any fault." in captured.err
    assert "assert 0 == 1" in captured.err
    assert "killed" not in captured.out


def test_what_cannot_be_planted_is_a_failure(project, capsys):
    assert main(["killd"], project, TINY) == 1
    assert capsys.readouterr().err == "no such mutant: killd\n"
    with pytest.raises(ValueError, match=r"moved: some\.py holds 0 times, not once: 'a'\."):
        plant(Mutant("moved", "some.py", {"a": "b"}, ""), "x = 1")
    with pytest.raises(ValueError, match=r"moved: some\.py holds 2 times"):
        plant(Mutant("moved", "some.py", {"x": "y"}, ""), "x = x")
