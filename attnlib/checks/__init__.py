"""Checks that answer in a sentence: of tensors, of modules, and of a learner's own class.

verdicts asks a module for one property each; exercises finds the line that is likely wrong;
mistakes holds classes that are wrong by one line. Behind exercises: attempt runs code that may
fail, trial runs a class beside ours, questions and isolate ask for one step of attention at a time.
Checks import the subject and tracing.
"""

from attnlib.checks.exercises import exercise_check
from attnlib.checks.mistakes import MISTAKES, Mistake, OnePageAttention
from attnlib.checks.verdicts import (
    Verdict,
    check_causal,
    check_causal_attention,
    check_equal,
    check_rows_sum_to_one,
    check_same,
    check_shapes,
    check_stacked_heads,
    check_weight_split,
    check_weights,
    tokens_for,
)

__all__ = [
    "MISTAKES",
    "Mistake",
    "OnePageAttention",
    "Verdict",
    "check_causal",
    "check_causal_attention",
    "check_equal",
    "check_rows_sum_to_one",
    "check_same",
    "check_shapes",
    "check_stacked_heads",
    "check_weight_split",
    "check_weights",
    "exercise_check",
    "tokens_for",
]
