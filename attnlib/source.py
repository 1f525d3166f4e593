"""The text of a class or function as the lesson shows it: from the package, never a copy."""

from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
from collections.abc import Callable

MARK = "  # new"


class Source:
    """Source text that a notebook shows as a Python block."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.text}\n```"

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

    Returns:
        A Source: fenced Markdown in a notebook, plain text elsewhere.

    >>> from attnlib import causal_mask
    >>> print(str(show_source(causal_mask)).splitlines()[0])
    def causal_mask(num_tokens: int, device: torch.device | str | None = None) -> Tensor:
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


def _lines(shown: type | Callable[..., object]) -> list[str]:
    """Return the source lines of an object, its docstrings cut to one line."""
    lines = textwrap.dedent(inspect.getsource(shown)).rstrip().splitlines()
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            first, last = node.body[0].lineno - 1, node.body[0].end_lineno or 0
            if last - first > 1:
                lines[first] += '"""'
                lines[first + 1 : last] = [""] * (last - first - 1)  # keeps line numbers
    text = "\n".join(lines)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.splitlines()
