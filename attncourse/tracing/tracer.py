"""Run a module's forward once and see, line by line, what happens to its tensors."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import attnlib
from attncourse.tracing.table import Failure, Step, Trace

# Folders end with a separator: a reader's attnlib_mine is not attnlib, nor is torchvision torch
TORCH = f"{Path(torch.__file__).parent}{os.sep}"
LIBRARIES = (
    f"{Path(torch.__file__).parents[1]}{os.sep}",  # everything installed beside torch
    f"{Path(inspect.__file__).parent}{os.sep}",  # the standard library
    "<frozen ",  # the parts of it that Python starts with
    f"{Path(attnlib.__file__).parent}{os.sep}",
    f"{Path(__file__).parents[1]}{os.sep}",  # attncourse
)


def trace(module: nn.Module, *inputs: Any, depth: int = 0, **options: Any) -> Trace:
    """Run module(*inputs, **options) once and record every tensor that each line makes or changes.

    Args:
        module: any nn.Module, written in a file or in a notebook cell. It is not changed.
        inputs: what forward takes.
        depth: how many calls deep to follow: 0 is forward alone, 1 adds the functions and modules
            that it calls, and so on. torch's own code is never followed.
        options: what forward takes by keyword.

    Returns:
        A Trace. When forward raises, the Trace holds the steps so far and the failure: the line,
        the error, and the shapes that met there. A debugger's or coverage tool's trace function
        that was active before is active again afterwards.

    Raises:
        TypeError: module is not an nn.Module.
        ValueError: depth is not an int, or negative.

    >>> print(trace(nn.ReLU(), torch.ones(2, 3))[0].shape)
    (2, 3)
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be an nn.Module, not {type(module).__name__}")
    if type(depth) is not int or depth < 0:
        raise ValueError(f"depth must be 0 or a positive int, not {depth!r}")
    recorder = _Recorder(module, depth)
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
    return Trace(recorder.steps, result, failure, recorder.sources)


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
    *_, innermost = None, *_own_frames(error)
    if innermost is None:
        return Failure("", 0, "the call itself", error, {})
    frame, line = innermost
    name, _, statements = _read(frame.f_code)
    statement = statements.get(line - frame.f_code.co_firstlineno + 1, _UNREADABLE)
    return _failure(name, statement, frame, error)


def calls_before(error: BaseException) -> list[tuple[str, int]]:
    """Return the reader's functions that were running, but the innermost, and at which line."""
    return [
        (_read(frame.f_code)[0], line - frame.f_code.co_firstlineno + 1)
        for frame, line in list(_own_frames(error))[:-1]
    ]


def _own_frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith(LIBRARIES) and not code.co_name.startswith("<"):
            yield frame, line


def statements_of(code: CodeType) -> tuple[str, dict[int, _Statement]]:
    """Return a function's name, and its statement at each line, counted from its first."""
    name, _, statements = _read(code)
    return name, statements


class _Statement(NamedTuple):
    line: int  # of its first line, within the function
    last_line: int
    text: str
    dims: tuple[str, ...]
    names: tuple[str, ...]  # the variables that it reads
    holds_loop: bool = False  # a comprehension, which Python 3.12 runs in the function's own frame


@dataclass
class _Function:
    """What is known of one running function: its statements, and its tensors so far."""

    name: str
    depth: int
    statements: dict[int, _Statement]
    seen: dict[str, tuple[Tensor, int]]
    line: int = 1  # the one that runs now, counted within the function


class _Recorder:
    """A trace function: Python calls it at every line of the functions that it follows."""

    def __init__(self, module: nn.Module, depth: int) -> None:
        self.module = module
        self.depth = depth
        self.forward = inspect.unwrap(module.forward).__code__
        self.followed: dict[FrameType, _Function] = {}
        self.steps: list[Step] = []
        self.sources: dict[str, str] = {}
        self.failure: Failure | None = None

    def on_call(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Decide whether to follow a function that is being entered."""
        code = frame.f_code
        if not self.followed:
            if code is not self.forward:
                return None
            depth = 0
        else:
            if code.co_filename.startswith(TORCH) or code.co_name.startswith("<"):
                return None
            caller = frame.f_back
            while caller not in self.followed:
                if caller is None:
                    return None
                caller = caller.f_back
            depth = self.followed[caller].depth + 1
            if depth > self.depth:
                return None
        name, text, statements = _read(code)
        self.sources[name] = text
        function = _Function(name, depth, statements, {})
        self.followed[frame] = function
        if depth == 0:
            self._compare(function, frame, "given")
        function.seen = _versions(frame)
        return self.on_line

    def on_line(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Record what the line just finished has made or changed."""
        function = self.followed[frame]
        if event == "exception":
            self._fail(function, frame, arg[1])
            return self.on_line
        line = frame.f_lineno - frame.f_code.co_firstlineno + 1
        statement = function.statements.get(function.line, _UNREADABLE)
        if event == "line" and statement.holds_loop and statement is function.statements.get(line):
            return self.on_line  # its variables are not the function's
        self._compare(function, frame)
        function.line = line
        if event == "return":
            known = {id(tensor) for tensor, _ in function.seen.values()}
            for name, tensor in _flatten("return", arg):
                if id(tensor) not in known:
                    self._record(function, name, "returned", tensor)
            del self.followed[frame]
        return self.on_line

    def _compare(self, function: _Function, frame: FrameType, first: str = "new") -> None:
        now = _versions(frame)
        for name, (tensor, version) in now.items():
            before = function.seen.get(name)
            if before is None:
                if first == "new" or not name.startswith("self."):
                    self._record(function, name, first, tensor)
            elif before[0] is not tensor:
                self._record(function, name, "re-bound", tensor)
            elif before[1] != version:
                self._record(function, name, "in place", tensor)
        function.seen = now

    def _record(self, function: _Function, name: str, change: str, tensor: Tensor) -> None:
        statement = function.statements.get(function.line, _UNREADABLE)
        line = statement.line or function.line
        where = (function.name, line, statement.text, statement.last_line or line)
        dims = _names(statement.dims, tensor.ndim)
        layout = (tuple(tensor.shape), tensor.dtype, tensor.stride(), tensor.is_contiguous())
        self.steps.append(Step(*where, name, change, dims, *layout, tensor.detach().clone()))

    def _fail(self, function: _Function, frame: FrameType, error: Exception) -> None:
        if self.failure is not None and self.failure.error is error:
            return  # already recorded where it was raised
        statement = function.statements.get(
            frame.f_lineno - frame.f_code.co_firstlineno + 1, _UNREADABLE
        )
        self.failure = _failure(function.name, statement, frame, error)


_UNREADABLE = _Statement(0, 0, "(source not available)", (), ())


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
    elif levels and isinstance(value, dict):
        for key, item in value.items():
            yield from _flatten(f"{name}[{key!r}]", item, levels - 1)


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


def shape_comment(line: str) -> tuple[str, ...] | None:
    """Return the entries of the shape comment at the end of a line; None without one.

    An entry names a size or a product of sizes; ... stands for any number of dimensions.
    """
    comment = re.search(r"# \(([^()]*)\)", line)
    return comment and tuple(dim.strip() for dim in comment[1].split(",") if dim.strip())


def fit_dims(dims: tuple[str, ...], ndim: int) -> tuple[str, ...] | None:
    """Return an entry for each dimension, "" for one that ... stands for; None if they do not fit.

    >>> fit_dims(("...", "head_dim", "num_keys"), 4)
    ('', '', 'head_dim', 'num_keys')
    """
    if "..." in dims and ndim >= len(dims) - 1:
        place = dims.index("...")
        dims = (*dims[:place], *[""] * (ndim - len(dims) + 1), *dims[place + 1 :])
    return dims if len(dims) == ndim and "..." not in dims else None


def _names(dims: tuple[str, ...], ndim: int) -> tuple[str, ...]:
    """Return a name for each dimension, if all have one: a leading ... is b, or b and num_heads."""
    names = fit_dims(dims, ndim) or ()
    if dims[:1] == ("...",):
        unnamed = names.count("")
        names = (*("b", "num_heads")[:unnamed], *names[unnamed:])
    return names if all(names) else ()


def text_of(code: CodeType) -> str:
    """Return a function's text, from its first line.

    `inspect.getsource` gives the same, but looks through all modules for the one of the function.

    Raises:
        OSError: nobody kept the text.
    """
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    if not lines:
        raise OSError(f"there is no text of {code.co_name} in {code.co_filename}")
    return _first_block(tuple(lines))


@functools.lru_cache(maxsize=256)  # to find its end takes longer than many a forward
def _first_block(lines: tuple[str, ...]) -> str:
    return textwrap.dedent("".join(inspect.getblock(list(lines)))).rstrip()


def _read(code: CodeType) -> tuple[str, str, dict[int, _Statement]]:
    """Return a function's name, its text, and its statement at each line."""
    name = getattr(code, "co_qualname", code.co_name).split("<locals>.")[-1]
    try:
        text = text_of(code)
    except OSError:
        return name, "", {}
    return name, text, _statements(text)


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
    dims = shape_comment(lines[last - 1]) or ()
    loops = (ast.ListComp, ast.SetComp, ast.DictComp)
    header = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.stmt)]
    holds_loop = any(isinstance(part, loops) for top in header for part in ast.walk(top))
    return _Statement(node.lineno, last, " ".join(shown.split()), dims, names, holds_loop)
