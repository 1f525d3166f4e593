"""Run code that may be wrong, and turn whatever happens into a sentence."""

from __future__ import annotations

import inspect
import itertools
import math
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from attncourse.checks.guard import TimeIsUp
from attncourse.checks.stub import has_own_lines
from attncourse.tracing.operations import Line
from attncourse.tracing.table import Failure
from attncourse.tracing.tracer import locate

NOT_ATTEMPTED = "not attempted yet"
LEFT_STANDING = "Your lines stop at `raise NotImplementedError`: delete that line."
NO_SIZES: Mapping[str, int] = {}

REMEDIES = {
    r"softmax\(\) missing": "softmax needs to know along which dimension: dim=-1, along each row.",
    r"__init__\(\) [gmt]|forward\(\) [gmt]": (  # "got", "missing", "takes"
        "The class is made with d_in, d_out, context_length, dropout, then num_heads if it has "
        "heads, and qkv_bias=False; forward takes x."
    ),
    r"recursion depth": "A function calls itself without an end: does forward call forward?",
    r"before Module.__init__": "Begin __init__ with super().__init__().",
    r"view size is not compatible": (
        "After transpose the numbers are no longer in reading order, which view needs: "
        "put .contiguous() before .view(), or use .reshape()."
    ),
    r"is invalid for input of size": (
        "view keeps the number of elements, and the sizes asked for must multiply to it. "
        "Is head_dim d_out // num_heads, and num_heads the module's own, self.num_heads?"
    ),
    r"but got float|float' object cannot be interpreted|of type float": (
        "A size must be an int: // divides to an int, / to a float."
    ),
    r"without overflow": (
        "Half precision ends at 65504, so a number like -1e9 does not fit: fill with -torch.inf."
    ),
    r"same dtype|expected scalar type|must have the same": (
        "Two dtypes meet: make every new tensor with dtype=x.dtype and device=x.device."
    ),
    r"t\(\) expects a tensor with <= 2": (
        "Write .transpose(-2, -1), which swaps the last two dimensions and no other."
    ),
    r"Dimension out of range": (
        "Dimensions are counted from 0: would -1, the last, and -2, the one before it, do?"
    ),
    r"Tensors, not generator": (
        "torch wants a list or a tuple here, and a loop in ( ) is neither: write it in [ ]."
    ),
    r"Tensors, not map": "torch wants a list or a tuple here: put list( ) around map( ).",
    r"cannot be multiplied": (
        "The last axis of the left one must be as wide as the right one expects: is a merge, a "
        "split or a transpose missing before this line?"
    ),
    r"Expected size|must match": (
        "Two axes meet that do not fit: is a transpose missing, or does one swap the wrong axes?"
    ),
}


class Diagnosis(Exception):  # noqa: N818  # the answer to a learner, no error of this package
    """A sentence that says what is wrong with the code that was run.

    Args:
        sentence: what a learner reads. If it comes from an exception, it quotes the line itself.
        code: short and stable, for counting.
        line: the learner's own.
    """

    def __init__(self, sentence: str, code: str = "", line: Line | None = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.line = line


@contextmanager
def reporting(sizes: Mapping[str, int] = NO_SIZES, before: str = "") -> Iterator[None]:
    """Turn an exception in the code that runs inside into a Diagnosis with its line and shapes."""
    try:
        yield
    except (Diagnosis, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # sys.exit() too
        failure = locate(error)
        line = Line(failure.function, failure.line, failure.source) if failure.line else None
        is_raised_here = line is None or line.text.startswith("raise")  # not by what it calls
        if isinstance(error, NotImplementedError) and not error.args and is_raised_here:  # a stub
            if line is not None and has_own_lines(_innermost(error)):
                raise Diagnosis(LEFT_STANDING, "stub.raise", line) from error
            raise Diagnosis(NOT_ATTEMPTED, "stub") from error
        code = f"error.{type(error).__name__}"
        raise Diagnosis(before + describe(failure, sizes), code, line) from None


def _innermost(error: BaseException) -> CodeType:
    """Return the code in which an exception was raised."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module and its parts into eval, and afterwards each back into the mode it had."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Return normal random numbers that touch no global generator."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, device="cpu")


def call(
    module: nn.Module,
    x: Tensor,
    weights: Mapping[str, Tensor] | None = None,
    sizes: Mapping[str, int] = NO_SIZES,
    before: str = "",
    **options: Any,
) -> Any:
    """Return module(x, **options), as if its parameters were these weights.

    Args:
        module: what to run. It is not changed.
        x: what forward takes.
        weights: by the names of named_parameters; those not given stay as they are.
        sizes: names for the numbers in a shape, for the sentence.
        before: begins the sentence, for instance "In float64: ".
        options: what forward takes by keyword.

    Returns:
        What forward returned.

    Raises:
        Diagnosis: forward raised, or changed x in place.
    """
    version = None if x.is_inference() else x._version
    given = {name: weight.clone() for name, weight in (weights or {}).items()}
    with reporting(sizes, before):
        result = functional_call(module, given, (x,), options)
    if version is not None and x._version != version:
        raise Diagnosis(
            "forward changes x itself: use x = x * 2 and not x *= 2 or x.mul_(2).", "x.in-place"
        )
    for name, weight in (weights or {}).items():
        if not torch.equal(given[name].detach(), weight.detach()):
            raise Diagnosis(
                f"forward changes its own parameter {name}: a second call would compute something "
                "else. Only an optimizer may change parameters.",
                "parameters.in-place",
            )
    return result


def run(
    module: nn.Module,
    x: Tensor,
    weights: Mapping[str, Tensor] | None = None,
    sizes: Mapping[str, int] = NO_SIZES,
    before: str = "",
) -> Tensor:
    """Return module(x) as call does; a result that is no tensor is a Diagnosis too."""
    result = call(module, x, weights, sizes, before)
    if not isinstance(result, Tensor):
        many = f" of {len(result)}" if isinstance(result, (tuple, list)) else ""
        listed = isinstance(result, list)
        remedy = "join them with torch.cat" if listed else "return context_vec alone"
        raise Diagnosis(
            f"forward(x) returns a {type(result).__name__}{many}, not a tensor: {remedy}.",
            "result.type",
        )
    if result.layout is not torch.strided or not result.dtype.is_floating_point:
        kind = f"{result.layout}" if result.layout is not torch.strided else f"{result.dtype}"
        raise Diagnosis(
            f"forward(x) returns a tensor of {kind}: return an ordinary tensor in the dtype of x.",
            "result.type",
        )
    return result


def returns_weights(forward: Callable[..., Any]) -> bool:
    """Return whether a forward can return the attention weights too."""
    return "return_weights" in inspect.signature(forward).parameters


def name_shape(shape: tuple[int, ...], sizes: Mapping[str, int]) -> str:
    """Return a shape in words: by the names of its sizes, or of their products.

    >>> name_shape((2, 15, 7), {"b": 2, "num_heads": 3, "num_tokens": 5, "head_dim": 7})
    '(b, num_heads * num_tokens, head_dim) = (2, 15, 7)'
    >>> name_shape((2, 5, 14), {"b": 2, "num_heads": 3, "num_tokens": 5, "head_dim": 7})
    '(b, num_tokens, 14) = (2, 5, 14)'
    """
    factors = [name for name in sizes if sizes[name] > 1]
    is_square = len(shape) == 2 and shape[0] == shape[1]  # a mask or a matrix
    has_b = not is_square and not (len(shape) > 1 and shape[0] == sizes.get("b"))  # in a product
    names = {  # where two products are equal the later one stays: the one of fewer names
        math.prod(sizes[name] for name in some): " * ".join(some)
        for count in (3, 2, 1)
        for some in itertools.combinations(factors, count)
        if count == 1 or has_b or "b" not in some
    }
    if not any(size in names for size in shape):
        return str(shape)
    return f"({', '.join(names.get(size, str(size)) for size in shape)}) = {shape}"


def _refused(source: str, sizes: Mapping[str, int]) -> str:
    """Return with which sizes a learner's own raise or assert refuses a call that is right."""
    if not source.startswith(("raise", "assert", "sys.exit", "exit")) or not sizes:
        return ""
    given = {name: sizes[name] for name in ("num_tokens", "context_length") if name in sizes}
    said = " and ".join(f"{name}={size}" for name, size in given.items())
    return (
        f" | It is refused here with {said}, which is right: any number of tokens up to "
        "context_length must pass."
    )


def _turned(failure: Failure) -> str:
    """Return what to write for a .T that turns more dimensions than the last two."""
    if not re.search("must match|Expected size", str(failure.error)):
        return ""
    for match in re.finditer(r"(\w+)\)?\.T\b", failure.source):  # keys.T or self.W_key(x).T
        dims = {3: "three", 4: "four"}.get(len(failure.shapes.get(match[1], ())))
        if dims is not None:
            return f".T reverses all {dims} dimensions: write .transpose(-2, -1)."
    return ""


def _merged(failure: Failure, sizes: Mapping[str, int]) -> str:
    """Return how wide the merged heads are, where view asks for another width."""
    asked = re.search(r"shape '\[(\d+), (\d+), (\d+)\]' is invalid", str(failure.error))
    split = any(len(shape) == 4 for shape in failure.shapes.values())
    if asked is None or not split or "head_dim" not in sizes:
        return ""
    b, num_tokens, width = (int(size) for size in asked.groups())
    if (b, num_tokens) != (sizes["b"], sizes["num_tokens"]):
        return ""
    return (
        f"The merged heads are num_heads * head_dim = {sizes['d_out']} wide, not {width}: write "
        "self.d_out, or -1."
    )


def error_alone(said: str) -> str:
    """Return the error that describe has put into words, without its line and the shapes there."""
    return said.partition(" | ")[2].partition(" | Shapes there")[0] or said


def describe(failure: Failure, sizes: Mapping[str, int] = NO_SIZES) -> str:
    """Return in one line where code stopped, why, which shapes met there, and what may help."""
    if isinstance(failure.error, TimeIsUp):
        return (
            f"It takes too long, and was stopped in {failure.function}, line {failure.line}: "
            f"{failure.source} | Does a loop never end?"
        )
    message = " ".join(str(failure.error).split())
    if isinstance(failure.error, SystemExit):
        return (
            f"The code calls sys.exit() in {failure.function}, line {failure.line}: "
            f"{failure.source} | It would end the program that uses the class; raise an error "
            f"instead, and only where the call is wrong.{_refused(failure.source, sizes)}"
        )
    said = f"{type(failure.error).__name__}: {message}".removesuffix(": ")
    said += "" if said.endswith((".", "?", "!")) else "."
    where = f"in {failure.function}, line {failure.line}" if failure.line else "outside its lines"
    sentence = f"Stopped {where}: {failure.source} | {said}"
    sentence += _refused(failure.source, sizes)
    met = [f"{name} {name_shape(shape, sizes)}" for name, shape in failure.shapes.items()]
    if met:
        sentence += f" | Shapes there: {', '.join(met)}."
    if "mask" in failure.source and f"({sizes.get('context_length')})" in message:
        return sentence + " Cut the mask to the tokens that there are: [:num_tokens, :num_tokens]."
    if more := _turned(failure) or _merged(failure, sizes):
        return f"{sentence} {more}"
    for pattern, remedy in REMEDIES.items():
        if re.search(pattern, message):
            return f"{sentence} {remedy}"
    return sentence
