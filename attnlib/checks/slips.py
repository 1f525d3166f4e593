"""Slips that the text of a class shows once a run has failed: where an error really comes from.

An error is raised where a wrong value is used. Here the text is read back from there: to a helper
without return, a layer that is a number, a sum that drops its dimension, arguments that changed
places on their way into a head.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

from attnlib.checks.text import Slip, Text
from attnlib.modules import CausalAttention
from attnlib.tracing.operations import Line

REDUCES = {"sum", "mean", "amax", "max", "norm", "logsumexp", "prod", "min", "amin"}
FILLS = {"ones", "zeros", "full", "arange", "tensor", "empty", "eye", "linspace", "Tensor"}
FILLS |= {"FloatTensor", "tri", "triu", "tril"}
OURS = ("d_in", "d_out", "context_length", "dropout", "num_heads", "qkv_bias")
HIDING = re.compile(r"mask|-\s*(torch\.|math\.|np\.)?inf|[\"']-inf[\"']|tri[ul]\b")


def slip_of_an_error(text: Text, line: Line, said: str) -> Slip | None:
    """Return what the text shows of an error that was raised at a line.

    Args:
        text: of the learner's class.
        line: where it was raised.
        said: the error.
    """
    statement = text.statement(line)
    if statement is None:
        return None
    if "NoneType" in said:
        return _helper_without_return(text, line, statement)
    if "is not callable" in said:
        return _called_no_layer(text, line, statement)
    if "expected Tensor as element" in said:
        return _collected_layers(text, line)
    if re.search(r"must match the size|must match the existing|broadcast", said):
        return _dropped_dimension(text, line, statement)
    return None


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Call))


def _helper_without_return(text: Text, line: Line, statement: ast.stmt) -> Slip | None:
    """Find a function of the learner's whose value is used and which returns none."""
    for function, tree in text.trees.items():
        name = function.rpartition(".")[2]
        if name.startswith("__"):
            continue
        returns = [n for n in _own_nodes(tree) if isinstance(n, ast.Return) and n.value is not None]
        yields = any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in _own_nodes(tree))
        if returns or yields or not text.uses_value_of(name):
            continue
        last = text.line_of(function, tree.body[-1])
        if last is not None:
            return Slip(
                "helper.none",
                f"{name} returns None: its last line computes something and drops it. End it with "
                "return.",
                last,
            )
    return None


def _own_nodes(tree: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function, and not those of functions inside it."""
    new: list[ast.AST] = list(tree.body)
    while new:
        node = new.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            new.extend(ast.iter_child_nodes(node))


def _called_no_layer(text: Text, line: Line, statement: ast.stmt) -> Slip | None:
    """Find the line of __init__ that keeps a number where a layer is called."""
    for call in _calls(statement):
        called = ast.unparse(call.func)
        if not called.startswith("self.") or called.count(".") != 1:
            continue
        for function, node in text.assignments(called):
            if not isinstance(node.value, ast.Call):
                made = text.line_of(function, node)
                if made is not None:
                    return Slip(
                        "layer.none",
                        f"{called} is {ast.unparse(node.value)} itself, no layer, and forward "
                        "calls it: make a layer of it, such as nn.Dropout(dropout).",
                        made,
                    )
    return None


def _collected_layers(text: Text, line: Line) -> Slip | None:
    """Find a loop over heads that collects the heads, and not what they make."""
    for loop in ast.walk(text.trees.get(line.function, ast.Module([], []))):
        if not isinstance(loop, ast.For):
            continue
        targets = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        for call in _calls(loop):
            collects = isinstance(call.func, ast.Attribute) and call.func.attr == "append"
            if collects and len(call.args) == 1 and ast.unparse(call.args[0]) in targets:
                where = text.line_of(line.function, call)
                name = ast.unparse(call.args[0])
                if where is not None:
                    cause = f"{name} itself is collected here, not what it makes of x: {name}(x)."
                    return Slip("heads.not-called", cause[0].upper() + cause[1:], where)
    return None


def _dropped_dimension(text: Text, line: Line, statement: ast.stmt) -> Slip | None:
    """Find a sum or a maximum along one dimension without keepdim."""
    sources: list[tuple[Line, ast.AST]] = [(line, statement)]
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            made = text.assigned(line, node.id, also_names=True)
            before = text.statement(made) if made is not None else None
            if made is not None and before is not None:
                sources.append((made, before))
    for where, tree in sources:
        if not isinstance(tree, (ast.Assign, ast.Return, ast.AugAssign, ast.Expr)):
            continue
        for call in _calls(tree):
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in REDUCES:
                continue
            keywords = {k.arg for k in call.keywords}
            module = ast.unparse(call.func.value) in {"torch", "F"}
            given = len(call.args) - (1 if module else 0)
            if "keepdim" in keywords or given > 1 or not (given or "dim" in keywords):
                continue
            return Slip(
                "keepdim",
                f"{call.func.attr} drops the dimension that it runs over, so that its numbers meet "
                "the wrong rows: add keepdim=True.",
                where,
            )
    return None


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
        for call in _calls(tree):
            name = ast.unparse(call.func)
            order = _parameters(text, name)
            if order is None or any(isinstance(arg, ast.Starred) for arg in call.args):
                continue
            if any(keyword.arg is None for keyword in call.keywords):
                continue
            given = dict(zip(order, call.args, strict=False))
            given.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
            line = text.line_of(function, call)
            if line is None:
                continue
            takes = ", ".join(order)
            for parameter in order:
                if parameter not in OURS or parameter not in own:
                    continue
                if parameter not in given:
                    if parameter == "qkv_bias":
                        cause = f"qkv_bias is not handed on to {name}, which takes {takes}."
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
                    f"{name} takes {takes}, and gets {shown} here for {parameter}: hand on "
                    f"{parameter} itself."
                )
                yield Handed(parameter, shown, line, cause)


def _parameters(text: Text, name: str) -> list[str] | None:
    """Return the names that a class's constructor takes, in order."""
    tree = text.trees.get(f"{name}.__init__")
    if tree is not None:
        return [arg.arg for arg in tree.args.args[1:]]
    if name.rpartition(".")[2] == CausalAttention.__name__:
        return list(inspect.signature(CausalAttention).parameters)
    return None


FITS = {  # of a fault's code or words: which argument may have caused it
    "dropout": r"^dropout|dropout probability",
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


def condition_of_the_mask(text: Text) -> Slip | None:
    """Return an if around the line that hides, so that it does not always hide."""
    for function, tree in text.trees.items():
        if function.endswith("__init__"):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.If):
                continue
            body = " ".join(ast.unparse(step) for step in node.body)
            test = ast.unparse(node.test)
            if not HIDING.search(body) or re.search("raise|self.*=", body.partition("masked")[0]):
                continue
            if re.search(r"None|hasattr|self\.(?!training)", test):
                continue
            line = text.line_of(function, node)
            if line is not None:
                cause = (
                    f"the mask is used only if {test}, and otherwise nothing is hidden: each "
                    "head, in training and in eval, needs it."
                )
                return Slip("mask.sometimes", cause[0].upper() + cause[1:], line)
    return None


def endless_loop(text: Text, line: Line | None) -> Line | None:
    """Return the while at which a run was stopped, or the only one there is."""
    loops = [
        (function, node)
        for function, tree in text.trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.While)
    ]
    for function, node in reversed(loops):
        inside = line is not None and function == line.function
        if inside and line is not None and node.lineno <= line.number <= (node.end_lineno or 0):
            return text.line_of(function, node)
    if len(loops) == 1 and line is None:
        return text.line_of(*loops[0])
    return None
