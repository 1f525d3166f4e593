"""Whether a check was given what the notebook's cell defines, and not something of another cell.

A kernel keeps the classes of earlier cells. So a class with a mistyped name is left unchecked,
while the check takes an older class of the right name, or the course's own.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from typing import Any

from torch import nn

from attncourse.checks.findings import Finding


def given_elsewhere(given: Any) -> Finding | None:
    """Return a finding if the calling cell defines a class or a function, but not the given one.

    Args:
        given: a class, a module or a function. Outside of notebooks nothing is found.
    """
    given = type(given) if isinstance(given, nn.Module) else given
    frame = sys._getframe(1)
    while frame.f_back is not None and not frame.f_code.co_name.startswith(("<module", "<cell")):
        frame = frame.f_back
    name = getattr(given, "__name__", "")
    if "get_ipython" not in frame.f_globals or not name:
        return None
    file = frame.f_code.co_filename
    try:
        cell = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
    wanted = ast.ClassDef if isinstance(given, type) else ast.FunctionDef
    defined = [node.name for node in cell.body if isinstance(node, wanted)]
    parts = vars(given).values() if isinstance(given, type) else [given]
    here = any(inspect.isfunction(p) and p.__code__.co_filename == file for p in parts)
    if not defined or here or name in defined:
        return None
    package = str(given.__module__).partition(".")[0]
    own = package in ("attnlib", "attncourse")
    origin = f"it is {package}'s own" if own else "it was defined before"
    facts = {"given": name, "origin": origin, "defined": ", ".join(defined)}
    return Finding("given.elsewhere", None, facts)
