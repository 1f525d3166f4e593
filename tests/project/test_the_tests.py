"""The contract, promises 20 and 21: every test can fail, and every mutant can be planted.

Ruff sees the rest: an expected error without its words (PT011), a comparison whose answer is
dropped (B015), a second test of one name, which hides the first (F811).
"""

import ast

import pytest

from mutants import read_mutants
from support.notebook_tools import ROOT

Functions = dict[str, set[str]]  # by name, what each does that may fail


def functions(text: str) -> Functions:
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return {node.name: set(map(done, ast.walk(node))) for node in nodes}


def done(node: ast.AST) -> str:
    """Return the name of what a node calls; an assertion is called `assert_`."""
    if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant):
        return "assert_"
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


@pytest.mark.promise(number=20)
def test_every_test_can_fail():
    """It asserts, by itself or through others that do."""
    files = {file: functions(file.read_text("utf-8")) for file in (ROOT / "tests").rglob("*.py")}
    failing = {"assert_", "assert_close", "require_equal", "raises", "fail"}
    while (
        more := {name for file in files.values() for name, does in file.items() if does & failing}
        - failing
    ):
        failing |= more
    vacuous = {
        f"{path.name}: {name}"
        for path, file in files.items()
        for name, does in file.items()
        if name.startswith("test_") and not does & failing
    }
    assert vacuous == set()


@pytest.mark.promise(number=21)
@pytest.mark.parametrize("mutant", read_mutants(), ids=lambda mutant: mutant.name)
def test_a_mutant_can_be_planted_and_its_test_exists(mutant):
    """The rest is `make mutants`."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    ast.parse(text.replace(mutant.old, mutant.new))
    path, _, name = mutant.test.partition("::")
    assert name.partition("[")[0] in functions((ROOT / path).read_text(encoding="utf-8"))
