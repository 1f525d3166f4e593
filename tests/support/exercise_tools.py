"""The exercises of a notebook, run with any answer in the learner's place.

tools/exercises.py says what an exercise is, and how it is found.
"""

import ast
import linecache
import tomllib
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import torch

from attncourse.checks.safe_run import NOT_ATTEMPTED
from exercises import find_exercises, insert_answer, list_bound, list_needed
from support.notebook_tools import MAY_RAISE, code_cells, source, tags

ANSWERS = Path(__file__).parent / "answers"  # a file for each lesson


class Answers(NamedTuple):
    """What the check of an exercise prints: all of it for the solution, a part for wrong ones.

    A wrong answer has a name. It is the solution with some of its text replaced, and what its
    sentence must hold.
    """

    right: str
    wrong: dict[str, tuple[dict[str, str], str]]


def answers_to(stem: str) -> dict[str, Answers]:
    """Return the answers to the exercises of a notebook, from the file of its lesson, if any."""
    file = ANSWERS / f"lesson_{stem.partition('_')[0]}.toml"
    tables = tomllib.loads(file.read_text("utf-8")) if file.exists() else {}
    return {
        name: Answers(
            told["right"],
            {label: (wrong["changes"], wrong["told"]) for label, wrong in told["wrong"].items()},
        )
        for name, told in tables.items()
    }


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


def without_given(cell: str, name: str) -> str:
    r"""Return a cell that has run without what it assigns apart from an answer, its lines in place.

    >>> without_given("x = slow()\ndef f(): ...\ny = f()\nprint(x, y)", "f")
    '\ndef f(): ...\ny = f()\nprint(x, y)'
    """
    lines, theirs = cell.splitlines(), {name}
    for statement in ast.parse(cell).body:
        names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if not isinstance(statement, ast.Assign) or names & theirs:
            theirs |= set(list_bound(ast.unparse(statement)))
            continue
        lines[statement.lineno - 1 : statement.end_lineno] = [""] * (
            (statement.end_lineno or 0) - statement.lineno + 1
        )
    return "\n".join(lines)


def needed_cells(notebook: dict, targets: Mapping[int, str]) -> set[int]:
    """Return the places of the code cells that the texts of some cells build on, and their own."""
    code = {i: targets.get(i, source(cell)) for i, cell in code_cells(notebook)}
    return set(list_needed(code, targets))


def outcomes(notebook: dict, answers: Mapping[str, Answers]) -> dict[tuple[str, str], str]:
    """Run a notebook; return for each exercise and each answer to it what the check prints.

    The answers are given one after the other in one kernel: the stub, the wrong ones, and the
    solution last, so that it also shows that no wrong answer breaks anything for the next. Cells
    that no exercise builds on, such as those that train or measure, are not run.

    Returns:
        By the exercise's name and "stub", "solution" or the name of a wrong answer: the text.
    """
    places = {cell["id"]: i for i, cell in code_cells(notebook)}
    todo = {places[exercise.cell]: exercise for exercise in find_exercises(notebook)}
    needed = needed_cells(notebook, {i: f"{e.stub}\n{e.solution}" for i, e in todo.items()})
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
            name, _, stub, solution = todo.pop(i)
            wrong = answers[name].wrong if name in answers else {}
            given = {label: spoil(solution, changes) for label, (changes, _) in wrong.items()}
            given["solution"] = solution
            cells = {label: insert_answer(answer, stub) for label, answer in given.items()}
            for label, text in {"stub": stub, **cells}.items():
                run = text if label in ("stub", "solution") else without_given(text, name)
                try:
                    told[name, label] = run_cell(run, space, f"<cell {i}, {label}>")
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
