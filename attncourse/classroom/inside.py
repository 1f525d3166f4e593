"""What runs in the sandbox: the cells of a notebook, one after the other, as Jupyter runs them.

    python inside.py

reads a list of [name, code, what it checks or ""] and writes a line for each that has ended, at
once: what happened before Python died is known. Of attnlib it imports nothing.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from functools import partial
from traceback import format_exception_only
from types import FrameType, FunctionType
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

MOST = 4000  # letters of what a cell prints
COURSE = {"attnlib", "attncourse"}
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
        sys.setprofile(self._see)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            if "attention" in called.__name__ and self._is_theirs(frame):
                self.found.add(f"calls torch's {called.__name__}")
        elif event == "call" and frame.f_globals is not self.space:
            owner, _, name = frame.f_code.co_qualname.rpartition(".")
            package = _package(frame.f_globals.get("__name__"))
            if not self._is_attention(package, owner or name):
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
            if _package(frame.f_globals.get("__name__")) in COURSE:
                return False
            frame = frame.f_back
        return frame is not None and frame.f_code.co_name != "<module>"  # which is the check


def _package(module: object) -> str:
    return str(module).partition(".")[0]


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


def run_cell(shell: Any, code: str, checks: str) -> tuple[str, str, list[str]]:
    """Return how a cell ended (ran or raised), what it showed or raised, and what was borrowed."""
    borrowed, shown = Borrowed(shell.user_ns, checks), Last()
    with redirect_stdout(shown), redirect_stderr(Last()), borrowed if checks else nullcontext():
        result = shell.run_cell(code)
    error = result.error_before_exec or result.error_in_exec
    if error is None:
        return "ran", shown.said.strip(), sorted(borrowed.found)
    return "raised", format_exception_only(error)[-1].strip(), []


def run_all() -> None:
    """Run the cells that are read, tell of each, and end without what was left for the end."""
    cells = json.load(sys.stdin)
    told, quiet = os.fdopen(os.dup(1), "w", encoding="utf-8"), os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(quiet, stream)
    shell = Shell.instance(config=Config(HistoryManager={"enabled": False}))
    for name, code, checks in cells:
        print(json.dumps([name, *run_cell(shell, code, checks)]), file=told, flush=True)
    os._exit(0)


if __name__ == "__main__":
    run_all()
