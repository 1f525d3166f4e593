"""The exercises of a notebook: found, taken apart, put together again.

An exercise is a code cell, its stub, whose stored output is `not attempted yet`. The n-th stub of a
notebook goes with its n-th folded solution, which binds a name that the stub binds too, or has the
lines that a repaired stub has in the place of others. What is left of a stub without the statements
that bind such a name is its check.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from attncourse.checks.safe_run import NOT_ATTEMPTED

OWN = "own cell "
Notebook = dict[str, Any]  # what json reads from an .ipynb file
SOLUTION = re.compile(
    r"<details>\s*<summary>Solution</summary>\n\n(.*?)\n\n</details>\n*", re.DOTALL
)
MAGIC = re.compile(r"^[%!?].*$", re.MULTILINE)
STAR = re.compile(r"^\s*from\s.*\bimport\s*\*", re.MULTILINE)  # binds names that nobody sees
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Exercise(NamedTuple):
    """An exercise of a lesson."""

    name: str  # what the learner defines
    cell: str  # the id of the stub's cell
    stub: str  # the code of that cell
    solution: str  # code that defines the same name
    imports: str = ""  # of the cells above: what its check needs of them


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
        above = lesson["cells"][: lesson["cells"].index(cell)]
        codes = [source(one) for one in above if one["cell_type"] == "code"]
        exercise = Exercise(names[-1], cell["id"], stub, solution)
        found.append(exercise._replace(imports=_imports(codes, _names(check_of(exercise))[1])))
    return found


def _imports(codes: Iterable[str], names: Collection[str]) -> str:
    """Return the lines that import some names, as far as some cells import them."""
    found: dict[str, None] = {}
    for one in (one for code in codes for one in ast.parse(MAGIC.sub("", code)).body):
        if isinstance(one, (ast.Import, ast.ImportFrom)):
            one.names = [alias for alias in one.names if (alias.asname or alias.name) in names]
            found |= {ast.unparse(one): None} if one.names else {}
    return "\n".join(found)


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


def put(answer: str, stub: str) -> str:
    r"""Return a stub with an answer in the place of what binds the same names there.

    >>> put("x = 2", "print('stub')\nx = None  # here\nprint(x)").splitlines()
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
    """Return what the stub says apart from what the learner writes: its check, below its imports.

    They are imported anew: a learner may have given their names to something else.
    """
    names = set(list_bound(exercise.solution))
    kept = [s for s in ast.parse(exercise.stub).body if not names.intersection(_binds(s))]
    check = "\n".join(ast.unparse(statement) for statement in kept)
    return f"{exercise.imports}\n{check}".lstrip("\n")


def list_needed(cells: dict[str, str], targets: Iterable[str]) -> list[str]:
    """Return the cells that some cells build on, and these, in their order.

    That is the first cell, every cell that binds a name which a later one of them uses, and all
    that import with a star. What a cell does in place to a tensor of another is not seen. Cells are
    given as code, by their ids.
    """
    wanted: set[str] = set()
    kept = {*targets, *list(cells)[:1]}
    for cell in reversed(cells):
        binds, uses = _names(cells[cell])
        if cell in kept or binds & wanted or STAR.search(cells[cell]):
            kept.add(cell)
            wanted = wanted - binds | uses
    return [cell for cell in cells if cell in kept]


def _names(code: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell binds, and those that it uses without binding them.

    Of IPython's own lines, `%time` or `!ls`, it sees nothing; of code that is no Python neither.
    """
    try:
        table = symtable.symtable(MAGIC.sub("", code), "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # null bytes, 10,000 brackets
        return set(), set()
    binds = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_local()}
    uses, scopes = set(table.get_identifiers()), list(table.get_children())
    for scope in scopes:  # functions, classes, comprehensions; their own are added as we go
        scopes += scope.get_children()
        uses |= {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global()}
    return binds, uses - binds


def by_lesson(mine: Notebook, lesson: Notebook) -> dict[str, str]:
    """Return the code cells of a learner's copy, by the ids of the cells of the lesson.

    Programs that know no ids drop them, or keep them in the metadata. Such a cell is known by its
    code, or by the name of an exercise that it binds. All others are the learner's own: their names
    begin with OWN.
    """
    code: dict[int, str] = {}
    found: dict[str, int] = {}
    known = {cell["id"]: source(cell) for cell in lesson["cells"] if cell["cell_type"] == "code"}
    for i, cell in enumerate(mine["cells"]):
        text = cell.get("source")
        parts = text if isinstance(text, list) else [text]
        if cell.get("cell_type") == "code" and all(isinstance(part, str) for part in parts):
            code[i] = "".join(parts)
            for name in ids_of(cell):
                if name in known:
                    found.setdefault(name, i)
    names = {exercise.cell: exercise.name for exercise in find_exercises(lesson)}
    for is_it in (
        lambda name, text: text == known[name],
        lambda name, text: name in names and names[name] in _names(text)[0],
    ):
        for name in known:
            left = (i for i in code if i not in found.values() and is_it(name, code[i]))
            place = None if name in found else next(left, None)
            if place is not None:
                found[name] = place
    named = {i: name for name, i in found.items()}
    return {named.get(i, f"{OWN}{i}"): text for i, text in code.items()}


def ids_of(cell: Mapping[str, Any]) -> list[str]:
    """Return the id of a cell, which some programs keep in its metadata."""
    metadata = cell.get("metadata")
    there = [cell.get("id"), metadata.get("id") if isinstance(metadata, dict) else None]
    return [name for name in there if isinstance(name, str)]


def answers(exercise: Exercise, cells: Mapping[str, str]) -> list[str]:
    """Return the cells that may hold an answer: that of the stub, own ones that bind the name."""
    own = [c for c in cells if c.startswith(OWN) and exercise.name in _names(cells[c])[0]]
    return [exercise.cell] * (exercise.cell in cells) + own
