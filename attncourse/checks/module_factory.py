"""What a check may be given: a module, a class, or a function that makes a module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.checks.findings import Finding
from attncourse.checks.safe_run import FaultFound, reporting
from attnlib.convert import PROJECTIONS

Given = type[nn.Module] | Callable[..., nn.Module] | nn.Module | None
NO_NAMES: Mapping[str, str] = {}


class ModuleFactory:
    """Makes modules of what was given, with our arguments, and takes our names of parameters.

    Args:
        given: a class, a function that returns a module, or a module, whose class is then made
            anew.
        names: what is called otherwise: {"W_query": "to_q", "num_heads": "n_head"}. "W_qkv" is
            one projection that holds the rows of all three.
        without: arguments that it does not take.
    """

    def __init__(
        self, given: Given, names: Mapping[str, str] = NO_NAMES, without: tuple[str, ...] = ()
    ) -> None:
        if given is None:
            raise FaultFound(Finding("stub"))
        if isinstance(given, nn.Module):
            given = type(given)
        if not callable(given) or (isinstance(given, type) and not issubclass(given, nn.Module)):
            raise FaultFound(Finding("given.type", None, {"name": type(given).__name__}))
        self.make: Callable[..., Any] = given
        self.names = names
        self.without = without
        self.name = getattr(given, "__name__", type(given).__name__).replace(
            "<lambda>", "The class"
        )
        if isinstance(given, type):
            _require_forward(given)

    def __call__(self, **arguments: Any) -> nn.Module:
        """Make a module."""
        named = {
            self.names.get(name, name): value
            for name, value in arguments.items()
            if name not in self.without
        }
        with reporting():
            made = self.make(**named)
        if not isinstance(made, nn.Module):
            raise FaultFound(Finding("given.type", None, {"name": type(made).__name__}))
        if "_modules" not in vars(made):
            raise FaultFound(Finding("stub.init"))
        if not isinstance(self.make, type):
            _require_forward(type(made))
        return made

    def parameter_names(self, module: nn.Module, ours: Mapping[str, Any]) -> dict[str, str]:
        """Return the module's names of our parameters, as far as it has them."""
        have = dict(module.named_parameters())
        found: dict[str, str] = {}
        for name in ours:
            path, _, kind = name.rpartition(".")
            head, _, part = path.rpartition(".")
            head = ".".join(self.names.get(word, word) for word in head.split(".") if word)
            called = self.names.get(path) or self.names.get(part, part)
            fused = self.names.get("W_qkv", "W_qkv") if part in PROJECTIONS else called
            for guess in (called, fused):
                prefix = f"{head}.{guess}" if head else guess
                for full in (f"{prefix}.{kind}", f"{prefix}_{kind}", prefix):
                    if full in have and (full != prefix or kind == "weight"):
                        found.setdefault(name, full)
        return found

    def fit(self, module: nn.Module, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return our weights under the module's names: fused, or turned, where it needs them so."""
        names = self.parameter_names(module, weights)
        have = dict(module.named_parameters())
        groups: dict[str, list[Tensor]] = {}
        for name, weight in weights.items():
            if name in names:
                groups.setdefault(names[name], []).append(weight)
        fitted = {}
        for name, parts in groups.items():
            weight = torch.cat(parts) if len(parts) > 1 else parts[0]
            bare = not name.endswith(".weight")
            if bare and weight.ndim == 2 and have[name].shape == weight.shape[::-1]:
                weight = weight.T
            fitted[name] = weight
        return fitted


SIZES = {"d_in": 11, "d_out": 21, "context_length": 13, "dropout": 0.0, "num_heads": 3}


def as_module(given: Given) -> nn.Module:
    """Return a module, or make one of a class or a function, with small sizes.

    Raises:
        TypeError: it is none of these.
        FaultFound: the class cannot be made.

    >>> as_module(nn.ReLU)
    ReLU()
    """
    if isinstance(given, nn.Module):
        return given
    if not callable(given):
        raise TypeError(
            "give a module, its class, or a function that makes one, not "
            f"{type(given).__name__}: {given!r}"
        )
    taken = inspect.signature(given).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    sizes = {name: size for name, size in SIZES.items() if takes_all or name in taken}
    return ModuleFactory(given)(**sizes)


def _require_forward(cls: type[nn.Module]) -> None:
    """Tell a class that nobody has begun from one whose forward is called otherwise."""
    own = [n for n, value in vars(cls).items() if inspect.isfunction(value) and n != "__init__"]
    if cls.forward is nn.Module.forward and not own:
        raise FaultFound(Finding("stub"))
