"""Checks that answer in a sentence: of tensors, of modules, and of a learner's own class.

verdicts asks a module for one property each; exercises finds the line that is likely wrong;
mistakes holds classes that are wrong by one line. Behind exercises: attempt runs code that may
fail, trial runs a class beside ours, questions and isolate ask for one step of attention at a time.
Checks import the subject and tracing.
"""

from attnlib.checks.exercises import (
    check_causal_attention,
    check_stacked_heads,
    check_weight_split,
    exercise_check,
)
from attnlib.checks.mistakes import (
    BY_NAME,
    MISTAKES,
    Mistake,
    OnePageAttention,
    build,
    examine,
    tokens,
)
from attnlib.checks.verdicts import (
    Verdict,
    check_causal,
    check_equal,
    check_rows_sum_to_one,
    check_same,
    check_shapes,
    check_weights,
    tokens_for,
)

__all__ = [
    "BY_NAME",
    "MISTAKES",
    "Mistake",
    "OnePageAttention",
    "Verdict",
    "build",
    "check_causal",
    "check_causal_attention",
    "check_equal",
    "check_rows_sum_to_one",
    "check_same",
    "check_shapes",
    "check_stacked_heads",
    "check_weight_split",
    "check_weights",
    "examine",
    "exercise_check",
    "tokens",
    "tokens_for",
]
