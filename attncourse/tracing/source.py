"""The source of a class or function as the course shows it: read from the package, never copied."""

from __future__ import annotations

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
    """Show the source of a class or function.

    >>> from attnlib import merge_heads
    >>> print(str(show_source(merge_heads)).splitlines()[0])
    def merge_heads(x: Tensor) -> Tensor:
    """
    return Source(textwrap.dedent(inspect.getsource(shown)).rstrip())
