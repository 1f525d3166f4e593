"""Arguments that a constructor hands on to the wrong place, read in the text of a class."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

from attncourse.checks.slips import calls_in
from attncourse.checks.text import Slip, Text
from attncourse.tracing.operations import Line
from attnlib.modules import CausalAttention

OURS = ("d_in", "d_out", "context_length", "dropout", "num_heads", "qkv_bias")


class Handed(NamedTuple):
    """An argument that does not come where its name says."""

    parameter: str
    given: str
    line: Line
    cause: str


def handed_on(text: Text) -> Iterator[Handed]:
    """Yield the arguments that a constructor hands to a head, where the names do not fit.

    Args:
        text: of the learner's class.
    """
    for function, tree in text.trees.items():
        if not function.endswith("__init__"):
            continue
        own = {arg.arg for arg in (*tree.args.args, *tree.args.kwonlyargs)}
        for call in calls_in(tree):
            name = ast.unparse(call.func)
            order = _parameters(text, name) or _of_the_base(text, function, name)
            if order is None or any(isinstance(arg, ast.Starred) for arg in call.args):
                continue
            given = dict(zip(order, call.args, strict=False))
            given.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
            where: ast.AST = call
            spread = [keyword.value for keyword in call.keywords if keyword.arg is None]
            if spread:
                packed = _packed(tree, spread[0])
                if packed is None or len(spread) > 1:
                    continue
                where, more = packed
                given.update(more)
            line = text.line_of(function, where)
            if line is None:
                continue
            takes = ", ".join(order)
            for parameter in order:
                if parameter not in OURS or parameter not in own:
                    continue
                if parameter not in given:
                    if parameter == "qkv_bias":
                        cause = f"qkv_bias is not passed on to {name}, which takes {takes}."
                        yield Handed(parameter, "", line, cause)
                    continue
                value = given[parameter]
                if isinstance(value, ast.Name) and value.id == parameter:
                    continue
                shown = ast.unparse(value)
                if not isinstance(value, (ast.Name, ast.Constant, ast.BinOp)):
                    continue
                if isinstance(value, ast.Name) and value.id not in own:
                    continue
                cause = (
                    f"{name} takes {takes}, and gets {shown} here for {parameter}: pass on "
                    f"{parameter} itself."
                )
                yield Handed(parameter, shown, line, cause)


def _packed(tree: ast.FunctionDef, value: ast.expr) -> tuple[ast.AST, dict[str, ast.expr]] | None:
    """Return where arguments are put into a dict, and which."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != ast.unparse(value):
            continue
        made = node.value
        if isinstance(made, ast.Call) and ast.unparse(made.func) == "dict":
            return node, {k.arg: k.value for k in made.keywords if k.arg}
        if isinstance(made, ast.Dict):
            named = zip(made.keys, made.values, strict=True)
            return node, {ast.literal_eval(k): v for k, v in named if isinstance(k, ast.Constant)}
    return None


def _of_the_base(text: Text, function: str, name: str) -> list[str] | None:
    """Return what the constructor of a base class takes, if the learner wrote the only one."""
    if name != "super().__init__":
        return None
    called = {ast.unparse(call.func) for tree in text.trees.values() for call in calls_in(tree)}
    others = [
        [arg.arg for arg in tree.args.args[1:]]
        for other, tree in text.trees.items()
        if other.endswith(".__init__")
        and other != function
        and other.rpartition(".")[0].rpartition(".")[2] not in called
    ]
    return others[0] if len(others) == 1 else None


def _parameters(text: Text, name: str) -> list[str] | None:
    """Return the names that a class's constructor takes, in order."""
    tree = text.trees.get(f"{name}.__init__")
    if tree is not None:
        return [arg.arg for arg in tree.args.args[1:]]
    if name.rpartition(".")[2] == CausalAttention.__name__:
        return list(inspect.signature(CausalAttention).parameters)
    return None


FITS = {  # of a fault's code or words: which argument may have caused it
    "dropout": r"^dropout|dropout probability|With dropout=",
    "qkv_bias": r"^parameters\.bias",
    "context_length": r"^length|^error|^mask|^init|context_length",
    "d_in": r"^parameters\.(shape|turned)|^error|^init",
    "d_out": r"^parameters\.(shape|turned)|^error|^init|^result\.shape|^scale",
    "num_heads": r"^error|^init|^result\.shape",
}


def slip_of_arguments(text: Text, code: str, said: str) -> Slip | None:
    """Return the constructor's call that hands on the wrong argument, if it fits a fault."""
    for handed in handed_on(text):
        for name in (handed.parameter, handed.given):
            if name in FITS and re.search(FITS[name], code + "|" + said):
                return Slip(f"arguments.{handed.parameter}", handed.cause, handed.line)
    return None
