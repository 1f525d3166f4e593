"""The contract, promise 20: every test can fail.

Ruff sees the rest: an expected error without its words (PT011), a comparison whose answer is
dropped (B015), a second test of one name, which hides the first (F811).
"""

import ast
import tomllib
from typing import NamedTuple

import pytest

from support.notebook_tools import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
ASSERTS = {"raises", "fail"}


class Function(NamedTuple):
    """What a function of a module may fail by."""

    name: str
    asserts: bool  # by itself
    calls: set[str]


def called(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def functions(text: str) -> list[Function]:
    found = []
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef):
            inside = list(ast.walk(function))
            asserts = any(
                isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant)
                for node in inside
            )
            found.append(Function(function.name, asserts, set(map(called, inside))))
    return found


def can_fail(function: Function, helpers: set[str]) -> bool:
    """Return whether a function asserts, by itself or through what it calls."""
    calls = function.calls
    return (
        function.asserts
        or not calls.isdisjoint(ASSERTS | helpers)
        or any(name.startswith("assert_") for name in calls)
    )


def asserting(functions: list[Function]) -> set[str]:
    """Return the names of the functions that assert, by themselves or through others."""
    found: set[str] = set()
    while True:
        more = {function.name for function in functions if can_fail(function, found)} - found
        if not more:
            return found
        found |= more


def without_assertion(functions: list[Function], helpers: set[str]) -> list[str]:
    tests = (function for function in functions if function.name.startswith("test_"))
    return [test.name for test in tests if not can_fail(test, helpers)]


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
    assert without_assertion(found, asserting(found)) == [
        "test_nothing",
        "test_always",
        "test_dropped",
    ]


@pytest.mark.promise(number=20)
def test_the_settings_are_strict():
    settings = SETTINGS["pytest"]["ini_options"]
    assert {"--strict-markers", "--strict-config"} <= set(settings["addopts"])
    assert settings["xfail_strict"] is True
    assert settings["filterwarnings"][0] == "error"
    for warning in settings["filterwarnings"][1:]:  # each names whose it is
        assert warning.startswith("ignore:"), warning
        assert len(warning.split(":")) >= 3, warning


@pytest.mark.promise(number=20)
def test_the_sizes_are_primes_and_no_two_alike():
    source = (ROOT / "tests/support/cases.py").read_text(encoding="utf-8")
    sizes = [
        node.value.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    ]
    assert len(sizes) == len(set(sizes)) == 6
    assert all(all(size % factor for factor in range(2, size)) for size in sizes)
