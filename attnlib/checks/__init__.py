"""Checks that answer in a sentence: of tensors, of modules, and of a learner's own class.

verdicts holds the checks of tensors, and those that test a module for one property each; exercises
finds the line of a class that is likely wrong; one_head checks the functions that a learner writes
about one head; mistakes holds classes that are wrong by one line. Both verdicts and exercises rest
on attempt, which runs code that may fail. Exercises rest also on trial, which runs a class beside
ours, and on questions and isolate, which ask for one step of attention at a time. This folder
imports only the core and tracing.
"""

from attnlib.checks.exercises import (
    check_causal_attention,
    check_look_at_first,
    check_stacked_heads,
    check_weight_split,
    check_without_head,
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
from attnlib.checks.one_head import (
    check_causal_weights,
    check_depends,
    check_look_back,
    check_window,
    check_without_mask,
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
    "check_causal_weights",
    "check_depends",
    "check_equal",
    "check_look_back",
    "check_look_at_first",
    "check_rows_sum_to_one",
    "check_same",
    "check_shapes",
    "check_stacked_heads",
    "check_weight_split",
    "check_weights",
    "check_window",
    "check_without_mask",
    "check_without_head",
    "examine",
    "exercise_check",
    "tokens",
    "tokens_for",
]
