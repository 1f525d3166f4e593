"""Checks that answer in a sentence: of tensors, of modules, and of a learner's own class.

How a verdict on a learner's class comes about, in the order of the files:

- exercises has the checks, which call diagnose: all questions in order, and the line of a fault.
- door takes what was given, guard runs it without harm, attempt turns an exception into a sentence.
- trial runs the class beside ours. questions, isolate and conditions ask.
- quantities are what should arise; path finds them among the learner's tensors; departure says
  where the path is left, and why.
- verdict is what comes out.

verdicts holds the checks of tensors, and of a module for one property each; one_head and stacks
check the functions that a learner writes about one head and about several, by_hand the steps of
attention that one fills in, torch_calls those around PyTorch's attention; torch_options has
PyTorch's module in twenty lines, with each option as a change of a few; mistakes holds classes that
are wrong by one line. This folder imports only the core and tracing.
"""

from attnlib.checks.steps_by_hand import (
    check_broken_steps,
    check_equation,
    check_fault,
    check_merge,
    check_scores_row,
    check_weights_row,
    telling,
)
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
from attnlib.checks.one_head import (
    check_causal_weights,
    check_depends,
    check_look_back,
    check_window,
    check_without_mask,
)
from attnlib.checks.stacks import check_look_at_first, check_without_head
from attnlib.checks.torch_calls import (
    check_both_masks,
    check_cross_attention,
    check_new_queries,
    check_padded,
)
from attnlib.checks.torch_options import OPTIONS, CoreAttention, Option
from attnlib.checks.verdict import Fault, Verdict
from attnlib.checks.verdicts import (
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
    "OPTIONS",
    "CoreAttention",
    "Fault",
    "Mistake",
    "OnePageAttention",
    "Option",
    "Verdict",
    "build",
    "check_both_masks",
    "check_broken_steps",
    "check_causal",
    "check_causal_attention",
    "check_causal_weights",
    "check_cross_attention",
    "check_depends",
    "check_equal",
    "check_equation",
    "check_fault",
    "check_look_at_first",
    "check_look_back",
    "check_merge",
    "check_new_queries",
    "check_padded",
    "check_rows_sum_to_one",
    "check_same",
    "check_scores_row",
    "check_shapes",
    "check_stacked_heads",
    "check_weight_split",
    "check_weights",
    "check_weights_row",
    "check_window",
    "check_without_head",
    "check_without_mask",
    "examine",
    "exercise_check",
    "telling",
    "tokens",
    "tokens_for",
]
