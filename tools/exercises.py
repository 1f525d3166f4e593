"""Read a notebook, and find the exercises in it.

An exercise is a code cell, its stub, whose stored output is `not attempted yet`. The n-th stub of a
notebook goes with its n-th folded solution. The solution defines a name that the stub defines too,
or it has only the lines that change. What is left of a stub without the statements that define such
a name is its check.
"""

from __future__ import annotations

import ast
import json
import re
import symtable
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attncourse.checks.safe_run import NOT_ATTEMPTED

Notebook = dict[str, Any]  # what json reads from an .ipynb file
SOLUTION = re.compile(
    r"<details>\s*<summary>Solution</summary>\n\n(.*?)\n\n</details>\n*", re.DOTALL
)
MAGIC = re.compile(r"^[%!?].*$", re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read_notebook(path: Path) -> Notebook:
    """Read a notebook."""
    notebook: Notebook = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def write_notebook(notebook: Notebook, path: Path) -> None:
    """Write a notebook, as Jupyter does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")


class Exercise(NamedTuple):
    """An exercise of a lesson."""

    name: str  # what the learner defines
    cell: str  # the id of the stub's cell
    stub: str  # the code of that cell
    solution: str  # code that defines the same name


def source(cell: Mapping[str, Any]) -> str:
    """Return what a cell says."""
    return "".join(cell["source"])


def find_exercises(lesson: Notebook) -> list[Exercise]:
    """Return the exercises of a stored lesson, in their order.

    Raises:
        ValueError: stubs and folded solutions do not go together.
    """
    stubs = [cell for cell in lesson["cells"] if _is_stub(cell)]
    texts = [source(cell) for cell in lesson["cells"] if cell["cell_type"] == "markdown"]
    solutions = [found for text in texts for found in SOLUTION.findall(text)]
    if len(stubs) != len(solutions):
        raise ValueError(
            f"{len(stubs)} cells print '{NOT_ATTEMPTED}', for {len(solutions)} folded solutions"
        )
    found = []
    for cell, text in zip(stubs, solutions, strict=True):
        stub, blocks = source(cell), PYTHON.findall(text)
        if len(blocks) != 1:
            raise ValueError(f"a solution has {len(blocks)} python blocks, not one: {text[:80]!r}")
        solution = blocks[0]
        if not set(list_bound(solution)) & set(list_bound(stub)):
            solution = repair(stub, solution)
        names = [name for name in list_bound(solution) if name in list_bound(stub)]
        found.append(Exercise(names[-1], cell["id"], stub, solution))
    return found


def repair(stub: str, lines: str) -> str:
    r"""Return what a stub defines first, with lines in the place of those that assign their names.

    >>> repair("def f(x):\n    y = x\n    return y\n\nprint(f(1))", "y = 2 * x")
    'def f(x):\n    y = 2 * x\n    return y'

    Raises:
        ValueError: a line assigns a name that no line of the stub assigns.
    """
    repaired = (ast.get_source_segment(stub, ast.parse(stub).body[0]) or "").splitlines()
    for line in lines.splitlines():
        start = line.partition(" = ")[0] + " = "
        for place, old in enumerate(repaired):
            if old.lstrip().startswith(start):
                repaired[place] = old[: len(old) - len(old.lstrip())] + line
                break
        else:
            raise ValueError(f"a solution binds no name of its stub: {lines[:80]!r}")
    return "\n".join(repaired)


def _is_stub(cell: Mapping[str, Any]) -> bool:
    printed = [
        "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
        for output in cell.get("outputs", [])
    ]
    return "".join(printed).strip() == NOT_ATTEMPTED


def list_bound(code: str) -> list[str]:
    r"""Return the names that the statements of a cell define or assign, in their order.

    >>> list_bound("import torch\ndef double(x): ...\ny = double(2)")
    ['double', 'y']
    """
    return [name for statement in ast.parse(code).body for name in _binds(statement)]


def _binds(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return []


def insert_answer(answer: str, stub: str) -> str:
    r"""Return a stub with an answer in the place of what binds the same names there.

    >>> insert_answer("x = 2", "print('stub')\nx = None  # here\nprint(x)").splitlines()
    ["print('stub')", 'x = 2', 'print(x)']
    """
    names = set(list_bound(answer))
    lines: list[str | None] = list(stub.splitlines())
    places = [place for place in ast.parse(stub).body if names.intersection(_binds(place))]
    for place in places:
        last = place.end_lineno or place.lineno
        lines[place.lineno - 1 : last] = [None] * (last - place.lineno + 1)
    lines[places[0].lineno - 1] = answer.rstrip()
    return "\n".join(line for line in lines if line is not None)


def check_of(exercise: Exercise) -> str:
    """Return the check of an exercise: its stub without what the learner writes."""
    names = set(list_bound(exercise.solution))
    kept = [s for s in ast.parse(exercise.stub).body if not names.intersection(_binds(s))]
    return "\n".join(ast.unparse(statement) for statement in kept)


def list_needed(cells: dict[str, str], targets: Iterable[str]) -> list[str]:
    """Return the cells that some cells build on, and these, in their order.

    These are the first cell and every cell that binds a name which a later one of them uses. What
    a cell does in place to a tensor of another is not seen. Cells are given as code, by their ids.
    """
    wanted: set[str] = set()
    kept = {*targets, *list(cells)[:1]}
    for cell in reversed(cells):
        binds, uses = _names(cells[cell])
        if cell in kept or binds & wanted:
            kept.add(cell)
            wanted = wanted - binds | uses
    return [cell for cell in cells if cell in kept]


def _names(code: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell binds, and those that it uses without binding them."""
    table = symtable.symtable(MAGIC.sub("", code), "cell", "exec")
    binds = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_local()}
    uses, scopes = set(table.get_identifiers()), list(table.get_children())
    for scope in scopes:  # functions, classes, comprehensions; their own are added as we go
        scopes += scope.get_children()
        uses |= {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global()}
    return binds, uses - binds
