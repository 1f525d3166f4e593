"""The text of what a learner wrote: its functions and lines."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from typing import Any

from torch import nn

from attncourse.tracing.operations import SourceLine
from attncourse.tracing.tracer import LIBRARIES, statements_of, text_of


def own_functions(given: Any) -> list[Any]:
    """Return the functions that a learner wrote in a class: __init__ first, then forward."""
    if not isinstance(given, type):
        return [given] if inspect.isfunction(given) else []
    found: dict[str, list[Any]] = {}
    for base in given.__mro__:
        for name, value in vars(base).items():
            function = inspect.unwrap(value) if inspect.isfunction(value) else None
            if function and not function.__code__.co_filename.startswith(LIBRARIES):
                found.setdefault(name, []).append(function)
    first = [made for name in ("__init__", "forward") for made in found.get(name, [])]
    return [*first, *(f for made in found.values() for f in made if f not in first)]


def functions_used_by(functions: Iterable[Any]) -> list[Any]:
    """Return a learner's functions, with the functions and modules of theirs that these name."""
    found, new = dict[Any, None](), list(functions)
    while new:
        function = new.pop(0)
        found[function] = None
        code = function.__code__
        inside = [c for c in code.co_consts if inspect.iscode(c)]  # comprehensions
        for name in (name for part in (code, *inside) for name in part.co_names):
            other = function.__globals__.get(name)
            is_module = isinstance(other, type) and issubclass(other, nn.Module)
            if inspect.isfunction(other) or is_module:
                more = own_functions(other)
                own = (f for f in more if not f.__code__.co_filename.startswith(LIBRARIES))
                new += [f for f in own if f not in found and f not in new]
    return list(found)


class ClassText:
    """The text of some functions.

    Args:
        functions: a learner's own; what has no source is left out.
    """

    def __init__(self, functions: Iterable[Any]) -> None:
        self.functions: dict[str, Any] = {}
        self.trees: dict[str, ast.FunctionDef] = {}
        for function in functions:
            name, _ = statements_of(function.__code__)
            try:
                body = ast.parse(text_of(function.__code__)).body
            except (OSError, SyntaxError):
                continue
            if body and isinstance(body[0], ast.FunctionDef) and name not in self.trees:
                self.functions[name], self.trees[name] = function, body[0]

    @property
    def forward(self) -> str:
        """The name of the class's own forward; empty if it has none."""
        return next((name for name in self.trees if name.endswith("forward")), "")

    def line_of_number(self, function: str, number: int) -> SourceLine | None:
        """Return the statement at a line of a function."""
        statements = statements_of(self.functions[function].__code__)[1]
        statement = statements.get(number)
        return SourceLine(function, statement.line, statement.text) if statement else None

    def line_with(self, pattern: str) -> SourceLine | None:
        """Return the first line that fits a pattern."""
        for name, function in self.functions.items():
            statements = statements_of(function.__code__)[1]
            for statement in dict.fromkeys(statements[key] for key in sorted(statements)):
                if not statement.text.startswith("def ") and re.search(pattern, statement.text):
                    return SourceLine(name, statement.line, statement.text)
        return None

    def last_line(self, function: str) -> SourceLine | None:
        """Return the last statement of a function."""
        tree = self.trees.get(function)
        return self.line_of_number(function, tree.body[-1].lineno) if tree is not None else None
