"""The source of a class or function as the course shows it: read from the package, never copied."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable


class Source:
    """Source text that a notebook shows as a block of code."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.text}\n```"

    def __repr__(self) -> str:
        return self.text


def show_source(shown: type | Callable[..., object]) -> Source:
    """Show the source of a class or function, docstrings cut to their first line.

    >>> from attnlib import merge_heads
    >>> print(str(show_source(merge_heads)).splitlines()[0])
    def merge_heads(x: Tensor) -> Tensor:
    """
    text = textwrap.dedent(inspect.getsource(shown)).rstrip()
    lines = dict(enumerate(text.splitlines(), start=1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            first, last = node.body[0].lineno, node.body[0].end_lineno or 0
            if last > first:
                lines[first] += lines[last].strip()[-3:]
                for number in range(first + 1, last + 1):
                    del lines[number]
    return Source("\n".join(lines.values()))
