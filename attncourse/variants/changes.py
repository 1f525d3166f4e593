"""The text of a class with some lines changed, and the class that it makes."""

from __future__ import annotations

import inspect
import linecache
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def stored_lines(name: str) -> dict[str, Any]:
    """Return the lines of a file in this folder."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text("utf-8"))


def with_lines(text: str, changes: Mapping[str, str]) -> str:
    """Return a text with some of its lines replaced, each by lines as far to the right."""
    lines = text.splitlines()
    for old, new in changes.items():
        (place,) = (i for i, line in enumerate(lines) if line.partition("  #")[0].strip() == old)
        indent = lines[place][: -len(lines[place].lstrip())]
        lines[place : place + 1] = [f"{indent}{line}" for line in new.splitlines()]
    return "".join(f"{line}\n" for line in lines)


def compile_class(text: str, name: str, file: str, uses: Mapping[str, Any]) -> Any:
    """Return the class of a text by its name there; the tracer knows the source as a file."""
    path = f"<{file}>"
    linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    space = dict(uses)
    exec(compile(text, path, "exec"), space)
    return space[name]


def changed(function: Callable[..., Any], changes: Mapping[str, str]) -> Any:
    """Return a function with some of its text replaced, wherever it stands.

    >>> changed(with_lines, {"line.partition": "line.part"}).__name__
    'with_lines'
    """
    text = inspect.getsource(function)
    for old, new in changes.items():
        if old not in text:
            raise ValueError(f"{function.__name__} has no {old!r}")
        text = text.replace(old, new)
    return compile_class(text, function.__name__, function.__name__, function.__globals__)
