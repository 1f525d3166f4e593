"""What a learner wrote: the functions of a class, and those and the classes that they name."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from attncourse.tracing.tracer import LIBRARIES


def own_functions(given: Any) -> list[Any]:
    """Return the functions that a learner wrote in a class: __init__ first, then forward."""
    if not isinstance(given, type):
        return [given] if inspect.isfunction(given) else []
    found: dict[str, list[Any]] = {}
    for base in given.__mro__:
        for name, value in vars(base).items():
            function = inspect.unwrap(value) if inspect.isfunction(value) else None
            if function and not function.__code__.co_filename.startswith(LIBRARIES):
                found.setdefault(name, []).append(function)
    first = [made for name in ("__init__", "forward") for made in found.get(name, [])]
    return [*first, *(f for made in found.values() for f in made if f not in first)]


def named_functions(given: Any) -> list[Any]:
    """Return the learner's own functions beside a class that its methods name, and theirs."""
    found, new = dict[Any, None](), own_functions(given)
    while new:
        function = new.pop()
        for name in function.__code__.co_names:
            other = function.__globals__.get(name)
            if (
                inspect.isfunction(other)
                and not other.__code__.co_filename.startswith(LIBRARIES)
                and other not in found
            ):
                found[other] = None
                new.append(other)
    return list(found)


def named_classes(given: Any) -> list[type[nn.Module]]:
    """Return the learner's own modules that the functions of a class name."""
    found: dict[type[nn.Module], None] = {}
    for function in own_functions(given):
        for name in function.__code__.co_names + tuple(
            name
            for constant in function.__code__.co_consts
            if inspect.iscode(constant)  # a comprehension
            for name in constant.co_names
        ):
            kind = function.__globals__.get(name)
            if isinstance(kind, type) and issubclass(kind, nn.Module) and own_functions(kind):
                found[kind] = None
    return list(found)
