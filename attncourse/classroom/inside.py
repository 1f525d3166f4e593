"""What runs in the sandbox: the cells of a notebook, one after the other, as Jupyter runs them.

    python inside.py

reads a list of [name, code, what it checks or ""] and writes a line for each that has ended, at
once: what happened before Python died is known. What checks import is imported before any cell,
and must be as it was when a check has run.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache, partial
from traceback import format_exception_only
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

MOST = 4000  # letters of what a cell prints
COURSE = {"attnlib", "attncourse"}
FILE = re.compile(r"[/\\](attnlib|attncourse)[/\\](?:\w+[/\\])*\w+\.py$")
JUDGES = {"builtins", "torch", "torch.nn.functional", "torch.testing"}  # beside the course
METHODS = {"__init__", "forward"}  # to call another of a class is to use a part of it


class Borrowed:
    """Attention of attnlib or torch in an answer, while its check runs: in words, in `found`.

    Args:
        space: where the answer and its check run.
        name: what the answer defines.
    """

    def __init__(self, space: dict[str, Any], name: str) -> None:
        self.space, self.name = space, name
        self.found: set[str] = set()

    def __enter__(self) -> None:
        answer = self.space.get(self.name)
        while isinstance(answer, partial):
            answer = answer.func
        if isinstance(answer, (type, FunctionType)) and _package(answer.__module__) in COURSE:
            self.found.add(f"is {_package(answer.__module__)}'s {answer.__qualname__}")
        for base in answer.__mro__[1:] if isinstance(answer, type) else ():
            if self._is_attention(_package(base.__module__), base.__name__):
                self.found.add(f"inherits from {_package(base.__module__)}'s {base.__name__}")
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    def __exit__(self, *_: object) -> None:
        threading.setprofile(None)
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, called: Any) -> None:
        own = frame.f_globals is self.space
        if event == "c_call":
            if "attention" in called.__name__ and self._is_theirs(frame):
                self.found.add(f"calls torch's {called.__name__}")
            elif called is sys.setprofile and frame.f_code is not Borrowed.__exit__.__code__:
                self.found.add("stops what watches it")
        elif event == "return" and own and frame.f_code.co_name == "__init__":
            made = type(frame.f_locals.get("self"))
            if _package(made.__module__) in COURSE:
                self.found.add(f"becomes {_package(made.__module__)}'s {made.__name__}")
        elif event == "call":
            owner, _, name = frame.f_code.co_qualname.rpartition(".")
            file = _package_of_file(frame.f_code.co_filename)
            package = file if own else _package(frame.f_globals.get("__name__"))
            if not self._is_attention(package, owner or name):
                return
            if own:
                self.found.add(f"runs the code of {package}'s {owner or name}")
                return
            if owner and (name not in METHODS or not self.name[0].isupper()):
                return  # a function may use the modules that it is given
            inherits = type(frame.f_locals.get("self")).__module__ == self.space["__name__"]
            if name != "__init__" if inherits else self._is_theirs(frame.f_back):
                self.found.add(f"calls {package}'s {owner or name}")

    def _is_attention(self, package: str, name: str) -> bool:
        """Return whether a package has under this name what a learner is to write."""
        return (package in COURSE and name == self.name) or (
            package in COURSE | {"torch"} and "attention" in name.lower()
        )

    def _is_theirs(self, frame: FrameType | None) -> bool:
        """Return whether a learner's function calls, not the course; PyTorch may be in between."""
        while frame is not None and frame.f_globals is not self.space:
            if frame.f_code.co_filename == "<string>":  # by exec, under other globals
                return True
            if _package(frame.f_globals.get("__name__")) in COURSE:
                return False
            frame = frame.f_back
        # Only in a thread there is no check below; it is a module's frame
        return frame is None or frame.f_code.co_name != "<module>"


def _package(module: object) -> str:
    return str(module).partition(".")[0]


@cache
def _package_of_file(name: str) -> str:
    found = FILE.search(name)
    return found[1] if found else ""


def _is_torchs(piece: object) -> bool:
    """Return whether PyTorch has written a function: it wraps some of its own when it compiles."""
    code = getattr(piece, "__code__", piece)
    folder = os.path.join(sys.modules["torch"].__path__[0], "") if "torch" in sys.modules else "\0"
    return str(getattr(code, "co_filename", "")).startswith(folder)


def list_pieces() -> Iterator[tuple[str, object]]:
    """Return all by which an answer is judged, by its names: functions, classes, their methods."""
    for name, module in list(sys.modules.items()):
        if _package(name) not in COURSE and name not in JUDGES:
            continue
        yield name, module
        for key, value in list(vars(module).items()):
            if isinstance(value, (FunctionType, BuiltinFunctionType, ModuleType, type)):
                yield f"{name}.{key}", value
            if isinstance(value, FunctionType):
                yield f"{name}.{key}'s lines", value.__code__
            if isinstance(value, type) and _package(value.__module__) in COURSE | {"torch"}:
                for part, method in list(vars(value).items()):
                    if callable(method):
                        yield f"{name}.{key}.{part}", method


class Last(io.TextIOBase):
    """Keeps the end of what is written."""

    said = ""

    def write(self, text: str) -> int:
        """Take some text."""
        self.said = (self.said + text)[-MOST:]
        return len(text)


class Values(DisplayHook):
    """Shows the value of a cell without its number."""

    def write_output_prompt(self) -> None:
        """Write nothing."""


class Shell(InteractiveShell):
    """IPython, magics included, without tracebacks: the error is in the result."""

    displayhook_class = Values

    def enable_gui(self, gui: str | None = None) -> None:
        """Let %matplotlib pass."""

    def _showtraceback(self, *_: Any) -> None:
        """Show nothing."""


def run_cell(shell: Any, code: str) -> tuple[str, str, list[str]]:
    """Return how a cell ended (ran or raised), what it showed or raised, and nothing borrowed."""
    shown = Last()
    with redirect_stdout(shown), redirect_stderr(Last()):
        result = shell.run_cell(code)
    error = result.error_before_exec or result.error_in_exec
    if error is None:
        return "ran", shown.said.strip(), []
    return "raised", format_exception_only(error)[-1].strip(), []


def run_check(
    shell: Any, code: str, name: str, pieces: dict[str, object]
) -> tuple[str, str, list[str]]:
    """Return how a check ended, its value or else what it printed, and what was borrowed.

    It ran, or raised, or held: its value is a verdict that holds. IPython has no part in it: a
    learner may have changed how that shows a value.
    """
    borrowed, shown = Borrowed(shell.user_ns, name), Last()
    *first, last = ast.parse(code).body
    shows = isinstance(last, ast.Expr)
    line = ast.unparse(last) if shows else "None"
    check = ast.Module(first if shows else [*first, last], [])
    try:
        with redirect_stdout(shown), redirect_stderr(Last()), shell.builtin_trap, borrowed:
            exec(compile(check, "<check>", "exec"), shell.user_ns)
            value = eval(compile(line, "<check>", "eval"), shell.user_ns)
            said = shown.said.strip() if value is None else repr(value)[-MOST:]
    except BaseException as error:  # SystemExit, too
        return "raised", format_exception_only(error)[-1].strip(), []
    now = dict(list_pieces())
    changed = {
        f"changes {one}"
        for one in pieces
        if now.get(one) is not pieces[one] and not _is_torchs(now.get(one))
    }
    kind = "held" if getattr(value, "holds", False) else "ran"
    return kind, said, sorted(borrowed.found | changed)


def run_all() -> None:
    """Run the cells that are read, tell of each, and end without what was left for the end."""
    cells = json.load(sys.stdin)
    told, quiet = os.fdopen(os.dup(1), "w", encoding="utf-8"), os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(quiet, stream)
    shell = Shell.instance(config=Config(HistoryManager={"enabled": False}))
    for checks in {code for _, code, checks in cells if checks}:
        for one in ast.parse(checks).body:
            if isinstance(one, ast.ImportFrom):
                with suppress(ImportError):
                    exec(ast.unparse(one), {})
    pieces = dict(list_pieces())
    for name, code, checks in cells:
        result = run_check(shell, code, checks, pieces) if checks else run_cell(shell, code)
        print(json.dumps([name, *result]), file=told, flush=True)
    os._exit(0)


if __name__ == "__main__":
    run_all()
