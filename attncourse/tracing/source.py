"""The source of a class or function as the course shows it: read from the package, never copied."""

from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
from collections.abc import Callable

MARK = "  # new"


class Source:
    """Source text that a notebook shows as a block of code."""

    def __init__(self, text: str, language: str = "python") -> None:
        self.text = text
        self.language = language

    def _repr_markdown_(self) -> str:
        return f"```{self.language}\n{self.text}\n```"

    def __repr__(self) -> str:
        return self.text


def show_source(
    shown: type | Callable[..., object],
    new_since: type | Callable[..., object] | None = None,
) -> Source:
    """Show the source of a class or function, docstrings cut to their first line.

    Args:
        shown: a class or function that was written in a file or a notebook cell.
        new_since: mark the lines of `shown` that this one does not have.

    >>> from attnlib import merge_heads
    >>> print(str(show_source(merge_heads)).splitlines()[0])
    def merge_heads(x: Tensor) -> Tensor:
    """
    lines = _lines(shown)
    if new_since is None:
        return Source("\n".join(lines))
    old, new = [[line.strip() for line in text] for text in (_lines(new_since), lines)]
    marked = list(lines)
    for change, _, _, start, stop in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if change in ("replace", "insert"):
            for i in range(start, stop):
                if lines[i].strip(" )"):  # an empty line or a lone bracket is not news
                    marked[i] += MARK
    return Source("\n".join(marked))


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines of source text with their numbers, docstrings cut to their first line.

    >>> numbered_lines(chr(10).join(["def f():", "    'One.'", "    return 1"]))
    [(1, 'def f():'), (2, "    'One.'"), (3, '    return 1')]
    """
    lines = dict(enumerate(text.splitlines(), start=1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            first, last = node.body[0].lineno, node.body[0].end_lineno or 0
            if last > first:
                lines[first] += lines[last].strip()[-3:]
                for number in range(first + 1, last + 1):
                    del lines[number]
    return list(lines.items())


def _lines(shown: type | Callable[..., object]) -> list[str]:
    text = textwrap.dedent(inspect.getsource(shown)).rstrip()
    return [line for _, line in numbered_lines(text)]
