"""Run a module's forward once and see, line by line, what happens to its tensors."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import sys
import textwrap
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import attnlib
from attncourse.tracing.table import Failure, Step, Trace

# Folders end with a separator: a reader's attnlib_mine is not attnlib, nor is torchvision torch
LIBRARIES = (
    f"{Path(torch.__file__).parents[1]}{os.sep}",  # everything installed beside torch
    f"{Path(inspect.__file__).parent}{os.sep}",  # the standard library
    "<frozen ",  # the parts of it that Python starts with
    f"{Path(attnlib.__file__).parent}{os.sep}",
    f"{Path(__file__).parents[1]}{os.sep}",  # attncourse
)


def trace(module: nn.Module, *inputs: Any, **options: Any) -> Trace:
    """Run module(*inputs, **options) once and record every tensor that each line makes or changes.

    Only the lines of forward itself are followed, not the functions and modules that it calls.

    When forward raises, the Trace holds the steps so far and the failure: the line, the error, and
    the shapes that met there. The module is not changed.

    >>> trace(nn.ReLU(), torch.ones(2, 3))["input"].shape
    (2, 3)
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be an nn.Module, not {type(module).__name__}")
    recorder = _Recorder(module)
    before = sys.gettrace()
    result, failure = None, None
    sys.settrace(recorder.on_call)
    try:
        result = module(*inputs, **options)
    except Exception as error:
        failure = recorder.failure
        if failure is None or failure.error is not error:  # raised outside the lines followed
            failure = Failure(type(module).__name__, 0, "the call itself", error, {})
    finally:
        sys.settrace(before)
    return Trace(recorder.steps, result, failure)


def locate(error: BaseException) -> Failure:
    """Return where the reader's own code was when an exception passed through it.

    It is the innermost line outside attnlib, the standard library and everything installed, with
    the shapes of the tensors that it reads. Without such a line, line 0.

    >>> try:
    ...     nn.Linear(2, 3)(torch.ones(5))
    ... except RuntimeError as error:
    ...     locate(error).source
    'the call itself'
    """
    own = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith(LIBRARIES)
        and not frame.f_code.co_name.startswith("<")
    ]
    if not own:
        return Failure("", 0, "the call itself", error, {})
    frame, line = own[-1]
    name, statements = statements_of(frame.f_code)
    statement = statements.get(line - frame.f_code.co_firstlineno + 1, _UNREADABLE)
    return _failure(name, statement, frame, error)


def statements_of(code: CodeType) -> tuple[str, dict[int, _Statement]]:
    """Return a function's name, and its statement at each line, counted from its first."""
    name = getattr(code, "co_qualname", code.co_name).split("<locals>.")[-1]
    try:
        return name, _statements(text_of(code))
    except OSError:
        return name, {}


class _Statement(NamedTuple):
    line: int  # of its first line, within the function
    last_line: int
    text: str
    names: tuple[str, ...]  # the variables that it reads
    holds_loop: bool = False  # a comprehension, which Python 3.12 runs in the function's own frame


class _Recorder:
    """A trace function: Python calls it at every line of the forward that it follows."""

    def __init__(self, module: nn.Module) -> None:
        self.forward = inspect.unwrap(module.forward).__code__
        self.frame: FrameType | None = None
        self.steps: list[Step] = []
        self.failure: Failure | None = None
        self.seen: dict[str, tuple[Tensor, int]] = {}  # the tensors so far
        self.line = 1  # the one that runs now, counted within the function

    def on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Follow the first call of forward, and nothing else."""
        if self.frame is not None or frame.f_code is not self.forward:
            return None
        self.frame = frame
        self.name, self.statements = statements_of(frame.f_code)
        self._compare(frame, "given")
        self.seen = _versions(frame)
        return self.on_line

    def on_line(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Record what the line just finished has made or changed."""
        line = frame.f_lineno - frame.f_code.co_firstlineno + 1
        if event == "exception":
            if self.failure is None or self.failure.error is not arg[1]:
                self.failure = _failure(self.name, self._statement(line), frame, arg[1])
            return self.on_line
        statement = self._statement(self.line)
        if event == "line" and statement.holds_loop and statement is self.statements.get(line):
            return self.on_line  # its variables are not the function's
        self._compare(frame)
        self.line = line
        if event == "return":
            known = {id(tensor) for tensor, _ in self.seen.values()}
            for name, tensor in _flatten("return", arg):
                if id(tensor) not in known:
                    self._record(name, "returned", tensor)
        return self.on_line

    def _statement(self, line: int) -> _Statement:
        return self.statements.get(line, _UNREADABLE)

    def _compare(self, frame: FrameType, first: str = "new") -> None:
        now = _versions(frame)
        for name, (tensor, version) in now.items():
            before = self.seen.get(name)
            if before is None:
                if first == "new" or not name.startswith("self."):
                    self._record(name, first, tensor)
            elif before[0] is not tensor:
                self._record(name, "re-bound", tensor)
            elif before[1] != version:
                self._record(name, "in place", tensor)
        self.seen = now

    def _record(self, name: str, change: str, tensor: Tensor) -> None:
        statement = self._statement(self.line)
        line = statement.line or self.line
        self.steps.append(Step(line, statement.text, name, change, tensor.detach().clone()))


_UNREADABLE = _Statement(0, 0, "(source not available)", ())


def _failure(
    function: str, statement: _Statement, frame: FrameType, error: BaseException
) -> Failure:
    tensors = {name: tensor for name, (tensor, _) in _versions(frame).items()}
    shapes = {name: tuple(tensors[name].shape) for name in statement.names if name in tensors}
    return Failure(function, statement.line, statement.text, error, shapes)


def _flatten(name: str, value: Any, levels: int = 2) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors in a value, with the names by which a reader would reach them."""
    if isinstance(value, Tensor):
        yield name, value
    elif levels and isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _flatten(f"{name}[{i}]", item, levels - 1)


def _versions(frame: FrameType) -> dict[str, tuple[Tensor, int]]:
    """Return the tensors in a function's reach, each with its count of in-place changes."""
    found: dict[str, tuple[Tensor, int]] = {}
    for name, value in frame.f_locals.items():
        if isinstance(value, nn.Module):
            buffers = vars(value).get("_buffers", {})  # none before Module.__init__
            kept = {**vars(value), **buffers}
            tensors = [(f"{name}.{key}", item) for key, item in kept.items()]
            tensors = [(key, item) for key, item in tensors if isinstance(item, Tensor)]
        else:
            tensors = list(_flatten(name, value))
        for key, tensor in tensors:
            found[key] = (tensor, 0 if tensor.is_inference() else tensor._version)
    return found


def text_of(code: CodeType) -> str:
    """Return a function's text, from its first line.

    `inspect.getsource` gives the same, but looks through all modules for the one of the function.
    OSError says that nobody kept the text.
    """
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    if not lines:
        raise OSError(f"there is no text of {code.co_name} in {code.co_filename}")
    return _first_block(tuple(lines))


@functools.lru_cache(maxsize=256)  # to find its end takes longer than many a forward
def _first_block(lines: tuple[str, ...]) -> str:
    return textwrap.dedent("".join(inspect.getblock(list(lines)))).rstrip()


@functools.lru_cache(maxsize=256)  # a check asks for the same few functions again and again
def _statements(text: str) -> dict[int, _Statement]:
    """Return the statement at each line of a function's text."""
    statements: dict[int, _Statement] = {}
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a lambda in the middle of a statement
        return {}
    for node in ast.walk(tree):  # outer statements come first, inner ones override
        if isinstance(node, ast.stmt):
            statement = _statement(node, text)
            for line in range(statement.line, statement.last_line + 1):
                statements[line] = statement
    return statements


def _statement(node: ast.stmt, text: str) -> _Statement:
    """Return a statement as it is shown; of a compound statement, only the header."""
    lines, body = text.splitlines(), getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    if isinstance(node, ast.FunctionDef):
        shown = f"def {node.name}({', '.join(arg.arg for arg in node.args.args)})"
    else:
        shown = lines[node.lineno - 1] if body else ast.get_source_segment(text, node) or ""
    reads = [part for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute))]
    reads.sort(key=lambda part: (part.lineno, part.col_offset))
    names = tuple(dict.fromkeys(ast.unparse(part) for part in reads))  # self.mask too
    loops = (ast.ListComp, ast.SetComp, ast.DictComp)
    header = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.stmt)]
    holds_loop = any(isinstance(part, loops) for top in header for part in ast.walk(top))
    return _Statement(node.lineno, last, " ".join(shown.split()), names, holds_loop)
