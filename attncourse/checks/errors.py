"""What an exception says of a learner's code, as a finding: the only reader of PyTorch's own words.

They may change with a version of PyTorch, so a test raises each of these errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attncourse.checks.findings import Finding, Kind
from attncourse.checks.guard import TimeIsUp
from attncourse.tracing.operations import SourceLine
from attncourse.tracing.table import Failure

NO_SIZES: Mapping[str, int] = {}

KINDS: tuple[tuple[str, Kind], ...] = (  # the first whose words occur
    (r"softmax\(\) missing", Kind.ERROR_SOFTMAX_DIM),
    (r"Softmax\.__init__", Kind.ERROR_LAYER_MADE),
    (r"__init__\(\) [gmt]|forward\(\) [gmt]", Kind.ERROR_ARGUMENTS),  # got, missing, takes
    (r"recursion depth", Kind.ERROR_RECURSION),
    (r"before Module.__init__", Kind.ERROR_SUPER),
    (r"view size is not compatible", Kind.ERROR_VIEW_ORDER),
    (r"is invalid for input of size", Kind.ERROR_VIEW_SIZE),
    (r"but got float|float' object cannot be interpreted|of type float", Kind.ERROR_FLOAT_SIZE),
    (r"same dtype|expected scalar type|must have the same|dtypes must be", Kind.ERROR_DTYPE),
    (r"t\(\) expects a tensor with <= 2", Kind.ERROR_T),
    (r"Dimension out of range", Kind.ERROR_DIMENSION),
    (r"Tensors, not generator|Tensors, not map", Kind.ERROR_GENERATOR),
    (r"Tensors, not ModuleList|expected Tensor as element", Kind.ERROR_LAYERS),
    (r"\[ModuleList\] is missing", Kind.ERROR_LIST),
    (r"call numpy\(\)|numpy.ndarray", Kind.ERROR_NUMPY),
    (r"NoneType", Kind.ERROR_NONE),
    (r"object is not callable", Kind.ERROR_NUMBER_CALLED),
    (r"cannot be multiplied", Kind.ERROR_WIDTHS),
    (r"size of the tensor \(0\)", Kind.ERROR_NO_ROOM),
    (r"Expected size|must match|shape of the mask|broadcast", Kind.ERROR_SIZES),
)
SIZES_MEET = (Kind.ERROR_SIZES, Kind.ERROR_DIMENSION, Kind.ERROR_WIDTHS)
REDUCES = re.compile(r"\b(sum|mean|amax|max|norm|logsumexp)\((?!.*keepdim)(?=.*\bdim\b|[^()]*-?\d)")


def finding_of(failure: Failure, sizes: Mapping[str, int] = NO_SIZES, when: str = "") -> Finding:
    """Return what an exception means.

    Args:
        failure: where it was raised, and the shapes that met there.
        sizes: names for the numbers in a shape.
        when: under which condition, for instance "half precision".
    """
    error = failure.error
    line = SourceLine(failure.function, failure.line, failure.source) if failure.line else None
    facts: dict[str, Any] = {
        "error": type(error).__name__,
        "message": " ".join(str(error).split()),
        "shapes": failure.shapes,
        "sizes": dict(sizes),
        "when": when,
    }
    if isinstance(error, TimeIsUp):
        return Finding(Kind.TIME, line, facts)
    if isinstance(error, SystemExit):
        return Finding(Kind.ERROR_EXIT, line, facts)
    raised = failure.source.startswith(("raise", "assert"))
    if raised and "num_tokens" in sizes and "context_length" in sizes:
        given = {name: sizes[name] for name in ("num_tokens", "context_length")}
        if given["num_tokens"] <= given["context_length"]:
            said = " and ".join(f"{name}={size}" for name, size in given.items())
            return Finding(Kind.ERROR_REFUSED, line, {**facts, "given": said})
    named = (kind for words, kind in KINDS if re.search(words, facts["message"]))
    kind = Kind.ERROR if raised else next(named, Kind.ERROR)
    x = tuple(sizes.get(name, 0) for name in ("b", "num_tokens", "d_in"))
    like_x = "|".join(name for name, shape in failure.shapes.items() if shape == x)
    added = like_x and re.search(rf"\b({like_x}) \+|\+=? ({like_x})$", failure.source)
    if kind is Kind.ERROR_SIZES and added:
        return Finding(Kind.ERROR_RESIDUAL, line, facts)
    return _by_shapes(Finding(kind, line, facts), failure, sizes)


def _by_shapes(finding: Finding, failure: Failure, sizes: Mapping[str, int]) -> Finding:
    """Return what the shapes that met say, where they say more than the error."""
    kind, shapes, line = finding.kind, failure.shapes, finding.line
    if kind is Kind.ERROR_VIEW_SIZE and (asked := _merged_width(finding, failure, sizes)):
        return Finding(Kind.ERROR_MERGED_WIDTH, line, {**finding.facts, **asked})
    turned = re.search(r"(\w+)\)?\.(T\b|t\(\))", failure.source)  # keys.T or self.W_key(x).T
    dims = len(shapes.get(turned[1], ())) if turned else 0
    if turned and dims > 2 and kind in (*SIZES_MEET, Kind.ERROR_T):
        return Finding(Kind.ERROR_T, line, {**finding.facts, "turn": f".{turned[2]}", "dims": dims})
    if kind is Kind.ERROR_T:
        return finding.knowing(turn=".t()", dims="more than two")
    if kind not in SIZES_MEET or not sizes:
        return finding
    pairs = (sizes["b"], sizes["num_tokens"], sizes["num_tokens"])
    split = sizes.get("num_heads", 1) > 1
    for name, shape in shapes.items():
        full = (sizes["context_length"],) * 2
        if shape[-2:] == full != (sizes["num_tokens"],) * 2:
            facts = {**finding.facts, "context_length": sizes["context_length"]}
            return Finding(Kind.ERROR_MASK_CUT, line, facts)
        if shape == pairs and split and any(len(other) == 4 for other in shapes.values()):
            return Finding(Kind.ERROR_MASK_DIMS, line, {**finding.facts, "name": name})
    whole = (sizes["b"], sizes["num_tokens"], sizes.get("d_out"))
    names = [name for name, shape in shapes.items() if shape == whole]
    if "head_dim" in sizes and names and not re.search(r"\b(view|reshape|unfl)", failure.source):
        return Finding(Kind.ERROR_NOT_SPLIT, line, {**finding.facts, "names": tuple(names)})
    if kind is Kind.ERROR_SIZES and (found := REDUCES.search(failure.source)):
        return Finding(Kind.ERROR_KEEPDIM, line, {**finding.facts, "reduces": found[1]})
    for shape in shapes.values():
        if any(shape[:-1] == other and len(other) > 1 for other in shapes.values()):
            return Finding(Kind.ERROR_KEEPDIM, line, {**finding.facts, "reduces": "A sum"})
    return finding


def _merged_width(
    finding: Finding, failure: Failure, sizes: Mapping[str, int]
) -> dict[str, int] | None:
    """Return how wide the merged heads are, where view asks for another width."""
    asked = re.search(r"shape '\[(\d+), (\d+), (\d+)\]' is invalid", finding.facts["message"])
    split = any(len(shape) == 4 for shape in failure.shapes.values())
    if asked is None or not split or "head_dim" not in sizes:
        return None
    b, num_tokens, width = (int(size) for size in asked.groups())
    if (b, num_tokens) != (sizes["b"], sizes["num_tokens"]):
        return None
    return {"asked": width, "d_out": sizes["d_out"]}
