"""What an exception says of a learner's code, as a finding: the only reader of PyTorch's own words.

They may change with a version of PyTorch, so a test raises each of these errors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attncourse.checks.findings import Finding, Kind
from attncourse.checks.guard import TimeIsUp
from attncourse.tracing.operations import SourceLine
from attncourse.tracing.table import Failure
from attncourse.tracing.tracer import calls_before

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
    (r"expected device", Kind.ERROR_DEVICE),
    (r"same dtype|expected scalar type|must have the same|dtypes must be", Kind.ERROR_DTYPE),
    (r"t\(\) expects a tensor with <= 2", Kind.ERROR_T),
    (r"Dimension out of range", Kind.ERROR_DIMENSION),
    (r"Tensors, not generator|Tensors, not map", Kind.ERROR_GENERATOR),
    (r"Tensors, not ModuleList|expected Tensor as element", Kind.ERROR_LAYERS),
    (r"\[ModuleList\] is missing", Kind.ERROR_LIST),
    (r"call numpy\(\)|numpy.ndarray", Kind.ERROR_NUMPY),
    (r"NoneType", Kind.ERROR_NONE),
    (r"'tuple' object|not tuple", Kind.ERROR_TUPLE),
    (r"only supports boolean masks", Kind.ERROR_MASK_BOOL),
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
        "calls": calls_before(error),
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
    look = _other_size if kind is Kind.ERROR_VIEW_SIZE else _by_shapes
    return look(Finding(kind, line, facts), failure, sizes)


def _by_shapes(finding: Finding, failure: Failure, sizes: Mapping[str, int]) -> Finding:
    """Return what the shapes that met say, where they say more than the error."""
    kind, shapes, line = finding.kind, failure.shapes, finding.line
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
    names = tuple(name for name, shape in shapes.items() if shape == whole)
    if names and f"{sizes['d_in']}x" in finding.facts["message"].rpartition(" and ")[2]:
        return replace(finding, kind=Kind.ERROR_PROJECTED).knowing(names=names)
    if "head_dim" in sizes and (more := _of_heads(failure, names)):
        return replace(finding, kind=more).knowing(names=names)
    if kind is Kind.ERROR_SIZES and (found := REDUCES.search(failure.source)):
        return Finding(Kind.ERROR_KEEPDIM, line, {**finding.facts, "reduces": found[1]})
    for shape in shapes.values():
        if any(shape[:-1] == other and len(other) > 1 for other in shapes.values()):
            return Finding(Kind.ERROR_KEEPDIM, line, {**finding.facts, "reduces": "A sum"})
    return finding


def _of_heads(failure: Failure, names: tuple[str, ...]) -> Kind | None:
    """Return whether keys are turned along other dimensions, or something is not split."""
    if names and not re.search(r"\b(view|reshape|unfl)", failure.source):
        return Kind.ERROR_NOT_SPLIT
    turned = re.search(r"\w\.(?:transpose|swapaxes|swapdims)\((\d), *(\d)\)", failure.source)
    product = re.search(r"@|mul|bmm", failure.source)
    split = any(len(shape) == 4 for shape in failure.shapes.values())
    other = turned and product and split and set(turned.groups()) != {"2", "3"}
    return Kind.ERROR_TURNED if other else None


def _other_size(finding: Finding, failure: Failure, sizes: Mapping[str, int]) -> Finding:
    """Return which size view is asked for, and which it should be; or that x itself is split."""
    found = re.search(r"shape '\[(.*)\]' is invalid for input of size (\d+)", str(failure.error))
    split = any(len(shape) == 4 for shape in failure.shapes.values())
    if found is None or "head_dim" not in sizes or (found[1].count(",") < 3 and not split):
        return finding
    asked, b, t = [int(n) for n in found[1].split(",")], sizes["b"], sizes["num_tokens"]
    names = ("d_out",) if len(asked) == 3 else ("num_heads", "head_dim")
    whole = [b, t, *(sizes[name] for name in names)]
    if int(found[2]) == b * t * sizes["d_in"] != b * t * sizes["d_out"]:
        return replace(finding, kind=Kind.ERROR_VIEW_OF_X)
    extra = [*(Counter(asked) - Counter(whole)).elements()]
    missing = [*(Counter(whole) - Counter(asked)).elements()]
    if len(extra) != 1 or len(missing) != 1 or len(asked) != len(whole):
        return finding
    return replace(finding, kind=Kind.ERROR_VIEW_ASKED).knowing(asked=extra[0], right=missing[0])
