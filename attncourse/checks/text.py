"""What the text of a learner's class shows: where a value was made, and slips that need no run.

A run finds the operation that goes wrong. What it used may come from elsewhere: a number from
__init__, a mask from a loop, an argument from a call. Here are the lines of those.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

from attncourse.tracing.operations import Line
from attncourse.tracing.tracer import statements_of, text_of

FUTURE = re.compile(r"future|hidden|hide|forbid|block|upper|later")
ROLES = {"queries": r"^q(uer\w*|s)?\d?$", "keys": r"^k(eys?|s)?\d?$", "values": r"^v(al\w*|s)?\d?$"}
VISIBLE = re.compile(r"visible|may|keep|allow|causal|see|look|past|lower|tril")


class Slip(NamedTuple):
    """Something that is wrong whenever a run shows that something is."""

    code: str
    cause: str
    line: Line


class Text:
    """The text of some functions.

    Args:
        functions: a learner's own; what has no source is left out.
    """

    def __init__(self, functions: Iterable[FunctionType]) -> None:
        self.trees: dict[str, ast.FunctionDef] = {}
        self._codes = {}
        self._globals: dict[str, dict[str, Any]] = {}
        for function in functions:
            code = function.__code__
            name, _ = statements_of(code)
            try:
                tree = ast.parse(text_of(code))
            except (OSError, SyntaxError):
                continue
            if tree.body and isinstance(tree.body[0], ast.FunctionDef) and name not in self.trees:
                self.trees[name] = tree.body[0]
                self._codes[name] = code
                self._globals[name] = function.__globals__

    def line_of(self, function: str, node: ast.AST) -> Line | None:
        """Return the line of a node in a function."""
        statement = statements_of(self._codes[function])[1].get(getattr(node, "lineno", 0))
        return Line(function, statement.line, statement.text) if statement else None

    def head_of(self, function: str) -> Line:
        """Return the line with which a function begins."""
        tree = self.trees[function]
        return Line(function, 1, f"def {tree.name}({ast.unparse(tree.args)}):")

    def statement(self, line: Line) -> ast.stmt | None:
        """Return the innermost statement at a line."""
        tree = self.trees.get(line.function)
        found = [
            node
            for node in (ast.walk(tree) if tree else ())
            if isinstance(node, ast.stmt) and node.lineno == line.number
        ]
        return found[-1] if found else None

    def from_outside(self, line: Line) -> dict[str, Any]:
        """Return what a statement reads from the globals, by name, in the order of the text."""
        statement, code = self.statement(line), self._codes.get(line.function)
        if statement is None or code is None:
            return {}
        own = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        own |= {node.id for node in names if isinstance(node.ctx, ast.Store)}  # of a comprehension
        there = self._globals[line.function]
        names.sort(key=lambda node: (node.lineno, node.col_offset))
        return {n.id: there[n.id] for n in names if n.id in there and n.id not in own}

    def assigned(self, line: Line, name: str, also_names: bool = False) -> Line | None:
        """Return the last assignment of a variable before a line, or of an attribute."""
        owner = line.function.rpartition(".")[0]
        last = None
        for function, tree in self.trees.items():
            own = function == line.function
            if not own and not (name.startswith("self.") and function == f"{owner}.__init__"):
                continue
            for node in ast.walk(tree):
                if _registers(node, name):
                    last = self.line_of(function, node)
                if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
                    continue
                if own and node.lineno >= line.number:
                    continue
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if name not in [ast.unparse(target) for target in targets]:
                    continue
                given_on = ast.unparse(node.value) == name.removeprefix("self.")
                if given_on and not also_names:
                    continue
                last = self.line_of(function, node)
        return last

    def unpacked(self, function: str, name: str) -> tuple[ast.Assign, int] | None:
        """Return the assignment to several names that has this one, and its place there."""
        for node in ast.walk(self.trees.get(function, ast.Module([], []))):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                names = [ast.unparse(target) for target in node.targets[0].elts]
                if name in names:
                    return node, names.index(name)
        return None

    def callers(self, function: str) -> Iterator[tuple[str, ast.Call]]:
        """Yield the calls of a function or a method, with the functions in which they stand."""
        name = function.rpartition(".")[2]
        for caller, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in (name, f"self.{name}"):
                    yield caller, node

    def line_that_fits(self, function: str, pattern: str) -> Line | None:
        """Return the one statement of a function whose text fits a pattern."""
        found = {
            made
            for node in ast.walk(self.trees.get(function, ast.Module([], [])))
            if isinstance(node, ast.stmt)
            and not isinstance(node, (ast.FunctionDef, ast.For, ast.While, ast.If, ast.With))
            and re.search(pattern, ast.unparse(node))
            and (made := self.line_of(function, node)) is not None
        }
        return found.pop() if len(found) == 1 else None

    def assignments(self, name: str) -> list[tuple[str, ast.Assign]]:
        """Return all assignments of a name or an attribute, with their functions."""
        return [
            (function, node)
            for function, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and name in [ast.unparse(target) for target in node.targets]
        ]

    def uses_value_of(self, name: str) -> bool:
        """Return whether somewhere the value of a function is used, and not only called."""
        alone = {
            id(node.value)
            for tree in self.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr)
        }
        return any(
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in (name, f"self.{name}")
            and id(node) not in alone
            for tree in self.trees.values()
            for node in ast.walk(tree)
        )

    def without_gradient(self) -> Line | None:
        """Return a decorator that cuts off the gradients of a function."""
        for function, tree in self.trees.items():
            for decorator in tree.decorator_list:
                text = f"@{ast.unparse(decorator)}"
                if "no_grad" in text or "inference" in text:
                    return Line(function, decorator.lineno, text)
        return None

    def return_of_several(self) -> Line | None:
        """Return the return of a tuple, where forward itself hands on what a helper returns."""
        forward = next((name for name in self.trees if name.endswith(".forward")), "")
        own = [n for n in ast.walk(self.trees.get(forward, ast.Module([], []))) if _several(n)]
        if own:
            return self.line_of(forward, own[0])
        called = {
            ast.unparse(node.func).removeprefix("self.")
            for node in ast.walk(self.trees.get(forward, ast.Module([], [])))
            if isinstance(node, ast.Call)
        }
        found = [
            (function, node)
            for function, tree in self.trees.items()
            if function.rpartition(".")[2] in called
            for node in ast.walk(tree)
            if _several(node)
        ]
        return self.line_of(*found[0]) if len(found) == 1 else None

    def last_line(self, function: str) -> Line | None:
        """Return the last statement of a function."""
        tree = self.trees.get(function)
        return self.line_of(function, tree.body[-1]) if tree is not None else None

    def slip(self) -> Slip | None:
        """Return what a loop over heads or tokens shows: a return, a fresh list, a chain."""
        return next((slip for name in self.trees for slip in self._slips(name)), None)

    def _slips(self, function: str) -> Iterator[Slip]:
        loops = [
            node
            for node in ast.walk(self.trees[function])
            if isinstance(node, (ast.For, ast.While))
        ]
        for loop in loops:
            for code, cause, node in (*_returns(loop), *_fresh_lists(loop), *_chains(loop)):
                line = self.line_of(function, node)
                if line is not None:
                    yield Slip(code, cause, line)


def _several(node: ast.AST) -> bool:
    """Return whether a node is the return of several values."""
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)


def _registers(node: ast.AST, name: str) -> bool:
    """Return whether a node registers a buffer of this name."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "self.register_buffer"
        and bool(node.args)
        and ast.unparse(node.args[0]).strip("'\"") == name.removeprefix("self.")
    )


Said = Iterator[tuple[str, str, ast.AST]]


def _returns(loop: ast.For | ast.While) -> Said:
    if isinstance(loop.body[-1], ast.Return):
        cause = "The return is inside the loop and ends it after one round: indent it less."
        yield "loop.return", cause, loop.body[-1]


def _fresh_lists(loop: ast.For | ast.While) -> Said:
    for node in loop.body:
        if not isinstance(node, ast.Assign) or ast.unparse(node.value) not in ("[]", "list()"):
            continue
        name = ast.unparse(node.targets[0])
        if any(
            ast.unparse(n.func) == f"{name}.append"
            for step in loop.body
            if isinstance(step, ast.Expr)
            for n in ast.walk(step)
            if isinstance(n, ast.Call)
        ):
            cause = (
                f"{name} is made anew in each round of the loop, so only the last round is left: "
                "make it before the loop."
            )
            yield "loop.list", cause, node


def _chains(loop: ast.For | ast.While) -> Said:
    """Find a loop's own head that takes what the round before has made."""
    heads = {ast.unparse(n) for n in ast.walk(loop.target)} if isinstance(loop, ast.For) else set()
    for node in loop.body:
        if not isinstance(node, ast.Assign):
            continue
        made = ast.unparse(node.targets[0])
        for call in ast.walk(node.value):
            if (
                isinstance(call, ast.Call)
                and (
                    ast.unparse(call.func) in heads
                    or (
                        isinstance(call.func, ast.Subscript)
                        and ast.unparse(call.func.slice) in heads
                    )
                )
                and made in [ast.unparse(arg) for arg in call.args]
            ):
                cause = (
                    f"Each head takes {made} as the head before has left it: all heads take the "
                    "same x, and their results go side by side."
                )
                yield "heads.chained", cause, node
