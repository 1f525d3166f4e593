"""The contract, promise 20: every test can fail.

Ruff sees the rest: an expected error without its words (PT011), a comparison whose answer is
dropped (B015), a second test of one name, which hides the first (F811).
"""

import ast
import tomllib

import pytest

from support.notebook_tools import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
Functions = list[tuple[str, set[str]]]  # of each its name, and what it does that may fail


def functions(text: str) -> Functions:
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return [(node.name, set(map(done, ast.walk(node)))) for node in nodes]


def done(node: ast.AST) -> str:
    """Return the name of what a node calls; a true assertion is called `assert_`."""
    if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant):
        return "assert_"
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def can_fail(does: set[str], helpers: set[str]) -> bool:
    return bool(does & helpers) or any(name.startswith("assert_") for name in does)


def asserting(functions: Functions) -> set[str]:
    """Return the names of the functions that assert, by themselves or through others."""
    found = {"raises", "fail"}
    while more := {name for name, does in functions if can_fail(does, found)} - found:
        found |= more
    return found


def without_assertion(functions: Functions, helpers: set[str]) -> list[str]:
    tests = [(name, does) for name, does in functions if name.startswith("test_")]
    return [name for name, does in tests if not can_fail(does, helpers)]


@pytest.mark.promise(number=20)
def test_every_test_can_fail():
    by_file = {file.name: functions(file.read_text(encoding="utf-8")) for file in FILES}
    helpers = asserting([function for file in by_file.values() for function in file])
    wrong = {name: without_assertion(file, helpers) for name, file in by_file.items()}
    assert {name: tests for name, tests in wrong.items() if tests} == {}


FAULTY = """
def test_nothing(): run()
def test_always(): assert True
def test_dropped(): x.shape == y
def test_good(): assert x == y
def helper(): assert_close(x, y)
def test_by_a_helper(): helper()
"""


@pytest.mark.promise(number=20)
def test_a_test_that_cannot_fail_is_found():
    found = functions(FAULTY)
    wrong = ["test_nothing", "test_always", "test_dropped"]
    assert without_assertion(found, asserting(found)) == wrong


@pytest.mark.promise(number=20)
def test_the_settings_are_strict():
    settings = SETTINGS["pytest"]["ini_options"]
    assert {"--strict-markers", "--strict-config"} <= set(settings["addopts"])
    assert settings["xfail_strict"] is True
    assert settings["filterwarnings"][0] == "error"
    for warning in settings["filterwarnings"][1:]:  # each names whose it is
        assert warning.startswith("ignore:"), warning
        assert len(warning.split(":")) >= 3, warning
