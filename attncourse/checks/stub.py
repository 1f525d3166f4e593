"""Whether a learner has written anything into a stub."""

from __future__ import annotations

import ast
from types import CodeType

from attncourse.tracing.tracer import text_of


def has_own_lines(code: CodeType) -> bool:
    """Return whether a function says more than a stub does.

    A stub may have a docstring, raise, pass, return a name, be under `with`, call
    super().__init__(), and begin with one call that is given: `silent = deepcopy(stacked)`.
    Everything else is the learner's, also what follows the raise and never runs. Where the text is
    not known, nothing is.
    """
    try:
        function = ast.parse(text_of(code)).body[0]
    except (OSError, SyntaxError):  # a lambda in the middle of a statement
        return False
    lines = [node for node in ast.walk(function) if isinstance(node, ast.stmt)][1:]
    calls = [line for line in lines if _is_plain_call(line)]
    return len(calls) > 1 or any(not _is_of_a_stub(line) for line in lines if line not in calls)


def _is_of_a_stub(line: ast.stmt) -> bool:
    if ast.unparse(line) == "super().__init__()":
        return True
    if isinstance(line, (ast.Expr, ast.Return)):
        return line.value is None or isinstance(line.value, (ast.Constant, ast.Name))
    return isinstance(line, (ast.Raise, ast.Pass, ast.With))


def _is_plain_call(line: ast.stmt) -> bool:
    """Return whether a line only calls a function by its name, with names or constants."""
    call = line.value if isinstance(line, (ast.Expr, ast.Assign)) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return all(isinstance(one, (ast.Name, ast.Constant)) for one in given)
