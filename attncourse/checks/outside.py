"""Names that a class reads from the notebook around it, where its own belong.

A notebook has an x, a d_out or a W_query of its own. A method that forgets self, or to take the
sizes from x.shape, finds those instead, and computes with another text and another width. So does
one in which a size of the notebook's is written out as a number.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from attncourse.checks.attempt import error_alone
from attncourse.checks.pair import CONTEXT_LENGTH, HEAD_DIM, NUM_TOKENS
from attncourse.checks.slips import calls_in
from attncourse.checks.text import Slip, Text
from attncourse.tracing.operations import Line

OWN = re.compile(r"head|^h$|d_out|dim|width")  # sizes that a module has, whatever x it gets
ROOT = re.compile(r"sqrt|pow|tensor$")
NUMBER = re.compile(r"(?<![a-wyz\d])\d+")  # in "batch2" is none, in "10x11" are two


def slip_from_outside(
    text: Text, line: Line, code: str, said: str, module: nn.Module
) -> Slip | None:
    """Return what a line reads from outside the class, if it explains a fault there.

    Args:
        text: of the learner's class.
        line: where it goes wrong.
        code: of the fault.
        said: what was found there, or the error.
        module: of the learner's class.
    """
    for where in (line, *_makers(text, line)):
        read = text.from_outside(where)
        numbers = {name: value for name, value in read.items() if type(value) is int and value > 0}
        if code.startswith("scale"):
            numbers = {n: numbers[n] for n in _divisors(text, where) if n in numbers}
            fixed = _fixed(text, where, said) if code == "scale.wrong" else None
            begin = _are_outside(numbers) if numbers else f"{fixed} here is a fixed number"
            cause = _width(begin, module) if numbers or fixed else None
        else:
            told = {int(number) for number in NUMBER.findall(error_alone(said))}
            called = _called(text, where) if "'Tensor' object is not callable" in said else set()
            sizes = {n: numbers[n] for n in _arguments(text, where) if n in numbers}
            tensors = {n: v for n, v in read.items() if n in called or _shape(v) & told - {1}}
            x, has_self = _input(text, where)
            cause = _tensors(tensors, told, module, x) if tensors else None
            if told & set(sizes.values()):
                cause = _sizes(sizes, module, x, has_self)
        if cause is not None:
            return Slip("outside", cause, where)
    return None


def _makers(text: Text, line: Line) -> Iterator[Line]:
    """Yield the lines that made the variables which a line reads."""
    for node in ast.walk(text.statement(line) or ast.Pass()):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            made = text.assigned(line, node.id, also_names=True)
            several = text.unpacked(line.function, node.id)  # b, num_tokens, _ = x.shape
            made = made or (several and text.line_of(line.function, several[0]))
            if made is not None:
                yield made


def _divisors(text: Text, line: Line) -> list[str]:
    """Return what a line computes with, as with the width under a root."""
    found: list[ast.AST] = []
    for node in ast.walk(text.statement(line) or ast.Pass()):
        if isinstance(node, ast.BinOp):
            found += [node.left, node.right]
        if isinstance(node, ast.Call) and ROOT.search(_name(node)):
            found += node.args
    return [ast.unparse(node) for node in found]


def _arguments(text: Text, line: Line) -> list[str]:
    """Return what a line hands to functions, as sizes are."""
    calls = [c for c in calls_in(text.statement(line) or ast.Pass()) if not ROOT.search(_name(c))]
    given = [part for call in calls for part in (*call.args, *(k.value for k in call.keywords))]
    return [ast.unparse(node) for part in given for node in getattr(part, "elts", [part])]


def _shape(value: Any) -> set[int]:
    """Return the sizes of a tensor, or of the parameters of a module."""
    if isinstance(value, nn.Module):
        return {size for parameter in value.parameters() for size in parameter.shape}
    return set(value.shape) if isinstance(value, Tensor) else set()


def _fixed(text: Text, line: Line, said: str) -> str | None:
    """Return the number in a line that is the factor of the scores, as 2 in / 2**0.5."""
    for node in ast.walk(text.statement(line) or ast.Pass()):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Div, ast.Mult)):
            continue
        number = re.match(r"(?:\S*sqrt\()?([1-9]\d*)\b", ast.unparse(node.right))
        factors = {int(number[1]) ** power for power in (-0.5, -1)} if number else set()
        if number and any(f"by {factor:.4g}," in said for factor in factors):
            return number[1]
    return None


def _width(begin: str, module: nn.Module) -> str:
    own = hasattr(module, "head_dim")
    remedy = "write self.head_dim" if own else "take the width from the tensor, keys.shape[-1]"
    return f"{begin}, and this head is {HEAD_DIM} wide: {remedy}."


def _called(text: Text, line: Line) -> set[str]:
    """Return what a line calls."""
    return {_name(call) for call in calls_in(text.statement(line) or ast.Pass())}


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _input(text: Text, line: Line) -> tuple[str, bool]:
    """Return what the function of a line calls its first input, and whether it has self."""
    tree = text.trees.get(line.function)
    names = [arg.arg for arg in tree.args.args] if tree is not None else []
    return next((name for name in names if name != "self"), "x"), "self" in names


def _sizes(sizes: Mapping[str, int], module: nn.Module, x: str, has_self: bool) -> str:
    own = [name for name in sizes if OWN.search(name.lower()) or hasattr(module, name)]
    others = [name for name in sizes if name not in own]
    remedies = [f"take {_listed(others)} from {x}.shape"] if others else []
    if own and not has_self:  # a function beside the class
        remedies.append(f"take {_listed(own)} as arguments")
    elif own and all(hasattr(module, name) for name in own):
        remedies.append(f"write {_listed(f'self.{name}' for name in own)}")
    elif own:
        remedies.append(f"let __init__ keep the module's own {_listed(own)} on self")
    return f"{_are_outside(sizes)}: {', and '.join(remedies)}."


def _tensors(tensors: Mapping[str, Any], told: set[int], module: nn.Module, x: str) -> str:
    are = _are_outside(tensors)
    own = [name for name in tensors if hasattr(module, name)]
    if own:
        are_own = "are" if len(own) > 1 else "is"
        return f"{are}: the module's own {are_own} {_listed(f'self.{name}' for name in own)}."
    num_tokens = next((size for size in (NUM_TOKENS, CONTEXT_LENGTH) if size in told), None)
    lengths = set().union(*(_shape(value) for value in tensors.values()))
    if num_tokens is not None and len(lengths) == 1 and all(map(_is_mask, tensors.values())):
        (length,) = lengths
        them = "them" if len(tensors) > 1 else "it"
        return f"{are}, for {length} tokens, and x has {num_tokens}: make {them} from {x}.shape[1]."
    layers = "heads" if hasattr(module, "heads") else "layers"
    return f"{are}: compute with {x}, and with the module's own {layers}."


def _is_mask(value: Any) -> bool:
    """Return whether a value is a mask, or the places of tokens that one is made of."""
    if not isinstance(value, Tensor):
        return False
    return not value.is_floating_point() or bool(
        ((value == 0) | (value == 1) | value.isinf()).all()
    )


def _are_outside(named: Mapping[str, Any]) -> str:
    """Return of names that they are the notebook's, and which numbers they are."""
    several = len(named) > 1
    numbers = [str(value) for value in named.values() if isinstance(value, int)]
    are = "here are the notebook's variables" if several else "here is the notebook's variable"
    return f"{_listed(named)} {are}" + (f", {_listed(numbers)}" if numbers else "")


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
