"""What an exception says of a learner's code, as a finding: the only reader of PyTorch's own words.

They may change with a version of PyTorch, so a test raises each of these errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attncourse.checks.findings import Finding
from attncourse.checks.guard import TimeIsUp
from attncourse.tracing.operations import SourceLine
from attncourse.tracing.table import Failure

NO_SIZES: Mapping[str, int] = {}

CODES: tuple[tuple[str, str], ...] = (  # the first whose words occur
    (r"recursion depth", "error.recursion"),
    (r"view size is not compatible", "error.view-order"),
    (r"is invalid for input of size", "error.view-size"),
    (r"but got float|float' object cannot be interpreted|of type float", "error.float-size"),
    (r"same dtype|expected scalar type|must have the same|dtypes must be", "error.dtype"),
    (r"t\(\) expects a tensor with <= 2", "error.T"),
    (r"Tensors, not ModuleList|expected Tensor as element", "error.heads"),
    (r"\[ModuleList\] is missing", "error.heads"),
    (r"cannot be multiplied|Expected size|must match|shape of the mask", "error.shapes"),
    (r"broadcast|Dimension out of range", "error.shapes"),
)


def finding_of(failure: Failure, sizes: Mapping[str, int] = NO_SIZES) -> Finding:
    """Return what an exception means.

    Args:
        failure: where it was raised, and the shapes that met there.
        sizes: names for the numbers in a shape.
    """
    error = failure.error
    line = SourceLine(failure.function, failure.line, failure.source) if failure.line else None
    message = " ".join(str(error).split())
    facts: dict[str, Any] = {
        "error": type(error).__name__,
        "message": message,
        "shapes": failure.shapes,
        "sizes": dict(sizes),
    }
    if isinstance(error, TimeIsUp):
        return Finding("time", line, facts)
    if failure.source.startswith(("raise", "assert")):
        return Finding("error", line, facts)
    code = next((code for words, code in CODES if re.search(words, message)), "error")
    turned = re.search(r"(\w+)\)?\.(T\b|t\(\))", failure.source)  # keys.T or self.W_key(x).T
    dims = len(failure.shapes.get(turned[1], ())) if turned else 0
    if turned and dims > 2 and code in ("error.shapes", "error.T"):
        return Finding("error.T", line, {**facts, "turn": f".{turned[2]}"})
    if code == "error.T":
        facts["turn"] = ".t()"
    if code == "error.shapes":
        full = (sizes.get("context_length", 0),) * 2
        cut = str(full[0]) in re.findall(r"\d+", message)
        if cut and any(shape[-2:] == full for shape in failure.shapes.values()):
            return Finding("error.mask-cut", line, {**facts, **sizes})
        if not failure.shapes:
            code = "error"
    return Finding(code, line, facts)
