"""The contract, promise 20: every test can fail.

Ruff sees the rest: an expected error without its words (PT011), a comparison whose answer is
dropped (B015), a second test of one name, which hides the first (F811).
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.notebook_tools import ROOT

FILES = sorted((ROOT / "tests").rglob("*.py"))
TREES = {file.name: ast.parse(file.read_text(encoding="utf-8")) for file in FILES}
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yield every function of a module."""
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def called(node: ast.AST) -> str:
    """Return the last part of what a call calls."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def asserts(function: ast.AST, helpers: set[str]) -> bool:
    """Return whether a function holds an assertion, or calls something that does."""
    return any(
        (isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant))
        or called(node) in {"raises", "fail", *helpers}
        or called(node).startswith("assert_")
        for node in ast.walk(function)
    )


def asserting(trees: list[ast.AST]) -> set[str]:
    """Return the names of the functions that assert, by themselves or through others."""
    found: set[str] = set()
    while True:
        more = {f.name for tree in trees for f in functions(tree) if asserts(f, found)} - found
        if not more:
            return found
        found |= more


def without_assertion(tree: ast.AST, helpers: set[str]) -> list[str]:
    """Return the tests of a module that cannot fail."""
    tests = (f for f in functions(tree) if f.name.startswith("test_"))
    return [f.name for f in tests if not asserts(f, helpers)]


HELPERS = asserting(list(TREES.values()))


@pytest.mark.promise(number=20)
@pytest.mark.parametrize("file", TREES)
def test_every_test_can_fail(file):
    assert without_assertion(TREES[file], HELPERS) == []


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
    tree = ast.parse(FAULTY)
    found = without_assertion(tree, asserting([tree]))
    assert found == ["test_nothing", "test_always", "test_dropped"]


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
    source = (Path(__file__).parent / "support" / "cases.py").read_text(encoding="utf-8")
    sizes = [
        node.value.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    ]
    assert len(sizes) == len(set(sizes)) == 6
    assert all(all(size % factor for factor in range(2, size)) for size in sizes)
