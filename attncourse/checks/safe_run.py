"""Run code that may be wrong, and turn whatever happens into a finding."""

from __future__ import annotations

import ast
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from attncourse.checks.errors import NO_SIZES, finding_of
from attncourse.checks.findings import SENTENCES, Finding
from attncourse.checks.sentences import in_full
from attncourse.tracing.operations import SourceLine
from attncourse.tracing.tracer import locate, text_of

NOT_ATTEMPTED = SENTENCES["stub"]


class CheckFailed(Exception):  # noqa: N818  # the answer to a learner, no error of this package
    """A sentence that says what is wrong with the code that was run."""

    line: SourceLine | None = None
    cause = ""  # without the line


class FaultFound(CheckFailed):
    """What is wrong with the code that was run, as data."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding
        self.line = finding.line

    def __str__(self) -> str:
        return in_full(self.finding)


@contextmanager
def reporting(sizes: Mapping[str, int] = NO_SIZES) -> Iterator[None]:
    """Turn an exception in the code that runs inside into what was found, with line and shapes."""
    try:
        yield
    except (CheckFailed, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # sys.exit() too
        finding = finding_of(locate(error), sizes)
        line = finding.line
        is_raised_here = line is None or line.text.startswith("raise")  # not by what it calls
        if isinstance(error, NotImplementedError) and not error.args and is_raised_here:  # a stub
            if line is not None and has_own_lines(_innermost(error)):
                raise FaultFound(Finding("stub.raise", line)) from error
            raise FaultFound(Finding("stub")) from error
        raise FaultFound(finding) from None


def _innermost(error: BaseException) -> CodeType:
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
    **options: Any,
) -> Any:
    """Return module(x, **options), as if its parameters were these weights; it is not changed.

    For the sentence, sizes names the numbers in a shape.

    Raises:
        FaultFound: forward raised, or changed x in place.
    """
    version = None if x.is_inference() else x._version
    given = {name: weight.clone() for name, weight in (weights or {}).items()}
    with reporting(sizes):
        result = functional_call(module, given, (x,), options)
    if version is not None and x._version != version:
        raise FaultFound(Finding("x.in-place"))
    return result


def run(
    module: nn.Module,
    x: Tensor,
    weights: Mapping[str, Tensor] | None = None,
    sizes: Mapping[str, int] = NO_SIZES,
) -> Tensor:
    """Return module(x) as call does; a result that is no tensor is FaultFound too."""
    result = call(module, x, weights, sizes)
    if isinstance(result, Tensor):
        if result.layout is torch.strided and result.dtype.is_floating_point:
            return result
        returned = f"tensor of {result.dtype}"
    else:
        returned = f"{type(result).__name__}, not a tensor"
    raise FaultFound(Finding("result.type", None, {"returned": returned}))


def has_own_lines(code: CodeType) -> bool:
    """Return whether a function says more than a stub does.

    A stub may have a docstring, raise, pass, return a name, be under `with`, call
    super().__init__(), and begin with one call that is given: `silent = deepcopy(stacked)`. If more
    is given, a line `# your lines` says where that ends. Everything else is the learner's, also
    what follows the raise and never runs. Where the text is not known, nothing is.
    """
    try:
        text = text_of(code)
        function = ast.parse(text).body[0]
    except (OSError, SyntaxError):  # a lambda in the middle of a statement
        return False
    starts = [line.strip().startswith("# your lines") for line in text.splitlines()]
    given = starts.index(True) if True in starts else 0  # lines
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.stmt)][1:]
    lines = [node for node in nodes if node.lineno > given]
    calls = [line for line in lines if _is_plain_call(line)]
    return len(calls) > 1 or any(not _is_of_a_stub(line) for line in lines if line not in calls)


def _is_of_a_stub(line: ast.stmt) -> bool:
    if ast.unparse(line) == "super().__init__()":
        return True
    if isinstance(line, (ast.Expr, ast.Return)):
        return line.value is None or isinstance(line.value, (ast.Constant, ast.Name))
    return isinstance(line, (ast.Raise, ast.Pass, ast.With))


def _is_plain_call(line: ast.stmt) -> bool:
    """Return whether a line only calls a function by its name, with names or constants."""
    call = line.value if isinstance(line, (ast.Expr, ast.Assign)) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return all(isinstance(one, (ast.Name, ast.Constant)) for one in given)
