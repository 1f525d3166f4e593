"""Run code and hold every shape comment against the shape that the variable really has.

A shape comment trails a statement that makes one tensor:
`x = ...  # (b, num_tokens, d_in)`.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple


def shape_comment(line: str) -> tuple[str, ...] | None:
    """Return the entries of the shape comment at the end of a line; None without one.

    An entry names a size or a product of sizes; ... stands for any number of dimensions.
    """
    comment = re.search(r"# \(([^()]*)\)", line)
    return comment and tuple(dim.strip() for dim in comment[1].split(",") if dim.strip())


def fit_dims(dims: tuple[str, ...], ndim: int) -> tuple[str, ...] | None:
    """Return an entry for each dimension, "" where ... stands for it; None if they do not fit."""
    if "..." in dims and ndim >= len(dims) - 1:
        place = dims.index("...")
        dims = (*dims[:place], *[""] * (ndim - len(dims) + 1), *dims[place + 1 :])
    return dims if len(dims) == ndim and "..." not in dims else None


class Comment(NamedTuple):
    """A shape comment, and the statement that it trails."""

    first_line: int
    last_line: int
    variable: str | None  # None: what the function returns
    dims: tuple[str, ...]


def comments_in(text: str) -> list[Comment]:
    """Return the shape comments of a file."""
    statements = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt) and not hasattr(node, "body")
    ]
    comments = []
    for number, line in enumerate(text.splitlines(), start=1):
        if (dims := shape_comment(line)) is not None:
            (statement,) = (s for s in statements if s.lineno <= number <= s.end_lineno)
            lines = (statement.lineno, statement.end_lineno)
            comments.append(Comment(*lines, variable_of(statement), dims))
    return comments


def variable_of(statement: ast.stmt) -> str | None:
    """Return the name of the one variable that a statement binds or changes in place."""
    match statement:
        case ast.Return():
            return None
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(id=name), method))) if method[-1:] == "_":
            return name
    raise ValueError(f"line {statement.lineno}: a shape comment needs a statement with one tensor")


def agrees(shape: tuple[int, ...], dims: tuple[str, ...], sizes: Mapping[str, int]) -> bool:
    """Return whether a shape is what the comment says."""
    names = fit_dims(dims, len(shape))
    return names is not None and all(
        not name or size == eval(name, {}, dict(sizes))
        for name, size in zip(names, shape, strict=True)
    )


@dataclass
class Reading:
    """What running some code has shown: which comments were reached, and which lie."""

    comments: dict[str, list[Comment]]  # by file
    reached: set[tuple[str, int]] = field(default_factory=set)  # file and line
    lies: list[str] = field(default_factory=list)

    def run(self, sizes: Mapping[str, int], action: Callable[[], Any]) -> Any:
        """Run an action; in its comments the names of sizes mean these numbers."""
        at: dict[FrameType, int] = {}  # the line that each function is on

        def on_event(frame: FrameType, event: str, arg: Any) -> Any:
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            if file not in self.comments or name.startswith("<"):  # <genexpr>, <lambda>
                return None
            if event in ("line", "return"):
                now = frame.f_lineno if event == "line" else 0
                for comment in self.comments[file]:
                    lines = range(comment.first_line, comment.last_line + 1)
                    if at.get(frame) in lines and now not in lines:  # the statement is done
                        values = {**frame.f_locals, None: arg if event == "return" else None}
                        if values.get(comment.variable) is not None:
                            self.hold(file, comment, values[comment.variable], sizes)
                at[frame] = now
            return on_event

        before = sys.gettrace()
        sys.settrace(on_event)
        try:
            return action()
        finally:
            sys.settrace(before)

    def fields(self, sizes: Mapping[str, int], data: object) -> None:
        """Check the comments behind the fields of a class, `x: Tensor  # (b, d)`, on one object."""
        file = inspect.getsourcefile(type(data)) or ""
        lines, first = inspect.getsourcelines(type(data))
        for comment in self.comments[file]:
            value = getattr(data, comment.variable or "", None)
            if first <= comment.first_line < first + len(lines) and value is not None:
                self.hold(file, comment, value, sizes)

    def hold(self, file: str, comment: Comment, value: Any, sizes: Mapping[str, int]) -> None:
        """Hold a comment against a value."""
        self.reached.add((file, comment.last_line))
        shape = tuple(value.shape)
        if not agrees(shape, comment.dims, sizes):
            place = f"{Path(file).name}:{comment.last_line}"
            what = comment.variable or "what is returned"
            self.lies.append(f"{place}: {what} is {shape}, not ({', '.join(comment.dims)})")

    def unreached(self) -> list[str]:
        """Return the places of the comments that no run has come by."""
        return [
            f"{Path(file).name}:{comment.last_line}"
            for file, comments in self.comments.items()
            for comment in comments
            if (file, comment.last_line) not in self.reached
        ]


def reading(*files: Path) -> Reading:
    """Return a Reading of these files, nothing run yet."""
    return Reading({str(file): comments_in(file.read_text(encoding="utf-8")) for file in files})
