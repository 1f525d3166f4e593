"""The exercises of a notebook: found, and run with any answer in the learner's place.

An exercise is a code cell, the stub, whose stored output is `not attempted yet`. The n-th stub of
a notebook goes with its n-th folded hint and its n-th folded solution. A solution is Python that
binds a name which the stub binds too, and takes the place of what binds it there.
"""

from __future__ import annotations

import ast
import linecache
import re
import symtable
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from typing import Any, NamedTuple

import torch

from attncourse.checks.attempt import NOT_ATTEMPTED
from support.notebook_tools import MAY_RAISE, code_cells, markdown_cells, source, tags, text_of

FEWEST, MOST = 2, 10
FOLDED = re.compile(  # the empty lines are what makes GitHub show the inside as Markdown
    r"<details>\s*<summary>(Hint|Solution)</summary>\n\n(.*?)\n\n</details>", re.DOTALL
)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Exercise(NamedTuple):
    name: str  # of what the learner writes
    cell: int  # the stub's place in the notebook, counted from 1
    hint: str
    solution: str


class Answers(NamedTuple):
    """What the check of an exercise prints: all of it for the solution, a part for wrong ones.

    A wrong answer has a name. It is the solution with some of its text replaced, and what its
    sentence must hold.
    """

    right: str
    wrong: dict[str, tuple[dict[str, str], str]]


def answers_to(stem: str) -> dict[str, Answers]:
    """Return the answers to the exercises of a notebook, from the file of its lesson, if any."""
    lesson = f"support.answers.lesson_{stem.partition('_')[0]}"
    found: dict[str, Answers] = import_module(lesson).ANSWERS if find_spec(lesson) else {}
    return found


def find_exercises(notebook: dict) -> list[Exercise]:
    """Return the exercises of a notebook, or raise a ValueError that says what is missing."""
    stubs = [
        (i, source(cell))
        for i, cell in code_cells(notebook)
        if "".join(map(text_of, cell["outputs"])).strip() == NOT_ATTEMPTED
    ]
    folded = [found for _, text in markdown_cells(notebook) for found in FOLDED.findall(text)]
    hints = [text for summary, text in folded if summary == "Hint"]
    solutions = [text for summary, text in folded if summary == "Solution"]
    if not len(stubs) == len(hints) == len(solutions):
        raise ValueError(
            f"{len(stubs)} cells print '{NOT_ATTEMPTED}', for {len(hints)} folded hints and "
            f"{len(solutions)} folded solutions"
        )
    if not FEWEST <= len(stubs) <= MOST:
        raise ValueError(f"{len(stubs)} exercises, not {FEWEST} to {MOST}")
    return [_exercise(*parts) for parts in zip(stubs, hints, solutions, strict=True)]


def _exercise(stub: tuple[int, str], hint: str, solution: str) -> Exercise:
    cell, text = stub
    blocks = PYTHON.findall(solution)
    if len(blocks) != 1:
        raise ValueError(f"the solution of cell {cell} has {len(blocks)} python blocks, not one")
    theirs = {name for statement in ast.parse(text).body for name in _binds(statement)}
    names = [n for statement in ast.parse(blocks[0]).body for n in _binds(statement) if n in theirs]
    if not names:
        raise ValueError(f"the solution of cell {cell} binds no name that its stub binds")
    return Exercise(names[-1], cell, hint, blocks[0])


def _binds(statement: ast.stmt) -> list[str]:
    """Return the names that a statement defines or assigns."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return []


def _names(text: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell binds, and those that it uses without binding them."""
    table = symtable.symtable(text, "cell", "exec")
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_local()}
    used, scopes = set(table.get_identifiers()), list(table.get_children())
    for scope in scopes:  # functions, classes, comprehensions; their own are added as we go
        scopes += scope.get_children()
        used |= {symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global()}
    return bound, used - bound


def put(answer: str, stub: str) -> str:
    r"""Return a stub's text with an answer in the place of what binds the same names there.

    >>> put("x = 2", "print('stub')\nx = None  # here\nprint(x)").splitlines()
    ["print('stub')", 'x = 2', 'print(x)']
    """
    names = {name for statement in ast.parse(answer).body for name in _binds(statement)}
    lines: list[str | None] = list(stub.splitlines())
    places = [s for s in ast.parse(stub).body if names.intersection(_binds(s))]
    for place in places:
        lines[place.lineno - 1 : place.end_lineno] = [None] * (place.end_lineno - place.lineno + 1)
    lines[places[0].lineno - 1] = answer.rstrip()
    return "\n".join(line for line in lines if line is not None)


def spoil(solution: str, changes: Mapping[str, str]) -> str:
    """Return a solution with some of its text replaced, wherever it stands."""
    for old, new in changes.items():
        if old not in solution:
            raise ValueError(f"the solution has no {old!r}")
        solution = solution.replace(old, new)
    return solution


def run_cell(code: str, space: dict[str, Any], name: str) -> str:
    """Run a code cell in a namespace, as a kernel would, and return what it prints and shows."""
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    tree = ast.parse(code)
    shown = ast.parse("None", mode="eval")
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        shown = ast.Expression(tree.body.pop().value)
    with redirect_stdout(StringIO()) as printed:
        exec(compile(tree, name, "exec", dont_inherit=True), space)
        result = eval(compile(shown, name, "eval", dont_inherit=True), space)
        if result is not None:
            print(repr(result))
    return printed.getvalue().strip()


def needed_cells(notebook: dict, targets: Mapping[int, str]) -> set[int]:
    """Return the places of the code cells that the texts of some cells build on, and their own.

    The set-up cell, and every cell that binds a name which a later one of them uses. What a cell
    does to a tensor of another cell in place is not seen: an exercise builds on names only.
    """
    cells = [(i, targets.get(i, source(cell))) for i, cell in code_cells(notebook)]
    wanted: set[str] = set()
    found = {i for i, _ in cells[:1]}
    for i, text in reversed(cells):
        bound, used = _names(text)
        if i in targets or i in found or bound & wanted:
            found.add(i)
            wanted = wanted - bound | used
    return found


def outcomes(notebook: dict, answers: Mapping[str, Answers]) -> dict[tuple[str, str], str]:
    """Run a notebook; return for each exercise and each answer to it what the check prints.

    The answers are given one after the other in one kernel: the stub, the wrong ones, and the
    solution last, so that it also shows that no wrong answer breaks anything for the next. Cells
    that no exercise builds on, such as those that train or measure, are not run.

    Returns:
        By the exercise's name and "stub", "solution" or the name of a wrong answer: the text.
    """
    todo = {exercise.cell: exercise for exercise in find_exercises(notebook)}
    stubs = {i: source(cell) for i, cell in code_cells(notebook) if i in todo}
    needed = needed_cells(notebook, {i: f"{stubs[i]}\n{todo[i].solution}" for i in todo})
    space: dict[str, Any] = {"__name__": "__main__"}
    told = {}
    with torch.enable_grad(), torch.random.fork_rng():  # whatever a cell sets, it ends here
        for i, cell in code_cells(notebook):
            if i not in needed:
                continue
            if i not in todo:
                with suppress(*([Exception] if MAY_RAISE in tags(cell) else [])):
                    run_cell(source(cell), space, f"<cell {i}>")
                continue
            name, _, _, solution = todo.pop(i)
            wrong = answers[name].wrong if name in answers else {}
            given = {label: spoil(solution, changes) for label, (changes, _) in wrong.items()}
            given["solution"] = solution
            cells = {label: put(answer, source(cell)) for label, answer in given.items()}
            for label, text in {"stub": source(cell), **cells}.items():
                try:
                    told[name, label] = run_cell(text, space, f"<cell {i}, {label}>")
                except Exception as error:
                    told[name, label] = f"{type(error).__name__}: {error}"
            if not todo:
                break
    return told


def mismatch(answers: Answers, label: str, printed: str) -> str | None:
    """Return what is wrong with what a check printed on an answer, or None."""
    if label in ("stub", "solution"):
        expected = NOT_ATTEMPTED if label == "stub" else answers.right
        return None if printed == expected else f"prints {printed!r}, not {expected!r}"
    _, says = answers.wrong[label]
    if printed in (NOT_ATTEMPTED, answers.right) or says in answers.right:
        return f"is told no better than the stub or the solution: {printed!r}"
    return None if says in printed else f"is told {printed!r}, without {says!r}"
