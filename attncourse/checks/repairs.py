"""What is said of the repair of a broken forward."""

from __future__ import annotations

import inspect
from dataclasses import replace

from attncourse.checks.exercises import OPEN, check_weight_split
from attncourse.checks.verdict import Verdict
from attncourse.variants.broken import BROKEN_LINES, WholeAttention, broken_source
from attnlib.modules import MultiHeadAttention


def check_repair(cls: type[MultiHeadAttention]) -> Verdict:
    """Check a class that began as one of the broken ones, in whatever way it was repaired.

    Args:
        cls: by its name one of them; one whose lines are as they were is not attempted yet.
    """
    if (name := cls.__name__) not in BROKEN_LINES:
        last = f"Broken{len(BROKEN_LINES)}"
        said = f"{name} is not one of Broken1 to {last}: leave the class its name."
        return Verdict(False, said, answer=cls, reference=WholeAttention)
    if _bare(inspect.getsource(cls.forward)) == _bare(broken_source(name)):
        return replace(OPEN, answer=cls, reference=WholeAttention)

    def made(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> MultiHeadAttention:
        return cls(d_in, d_out, 64, 0.0, num_heads, qkv_bias)

    made.__name__ = name
    verdict = check_weight_split(made, skip=("dropout", "context_length", "another device"))
    return replace(verdict, answer=cls, reference=WholeAttention)


def _bare(text: str) -> str:
    """Return code without comments and blanks."""
    return "".join("".join(line.partition("#")[0].split()) for line in text.splitlines())
