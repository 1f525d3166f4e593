"""Checks that answer in a sentence: of tensors, of modules, and of a learner's own class.

How a verdict on a learner's class comes about, from the ground up:

- findings holds what is wrong as data: a code, a line, facts; sentences.toml has the sentence of
  each code, and sentences puts the facts in. errors reads what PyTorch says.
- guard runs code without harm, safe_run tells whether anything was written and turns what happens
  into a finding, module_factory makes modules of what was given. verdict is what comes out.
- diagnosis asks all questions of a class, and looks for the line and the cause.
- exercises has the checks.

What a learner writes as a function has checks of its own. Each compares what the function returns
with the right result and with what the usual mistakes return; answers has what they share, and
known_mistakes.toml the mistakes. one_head and weight_split are about heads, torch_calls about
PyTorch's attention, tiles about tiles of keys, big_model about a language model, steps_by_hand
about numbers that one computes. module_checks holds the checks of a module for one property each,
short_checks the same in a few lines. fault_table says which part of a wrong class test inputs
leave. This folder imports only the core, tracing, examples and variants.
"""

from attncourse.checks.big_model import (
    check_block,
    check_cached_attention,
    check_llama_attention,
    check_rotate,
)
from attncourse.checks.exercises import (
    check_causal_attention,
    check_stacked_heads,
    check_weight_split,
    exercise_check,
)
from attncourse.checks.fault_table import (
    check_found,
    check_part,
    compare_at_test_inputs,
    excluded_parts,
    fault_table,
)
from attncourse.checks.findings import Finding
from attncourse.checks.module_checks import (
    check_causal,
    check_rows_sum_to_one,
    check_same,
    check_shapes,
)
from attncourse.checks.one_head import (
    check_causal_weights,
    check_induction,
    check_look_back,
    check_refuting,
)
from attncourse.checks.repairs import check_repair
from attncourse.checks.short_checks import (
    check_any_scale,
    check_is_causal,
    check_prefixes,
    run_checks,
)
from attncourse.checks.steps_by_hand import (
    check_broken_steps,
    check_scores_row,
    check_weights_row,
)
from attncourse.checks.tiles import check_joined, check_tiles
from attncourse.checks.torch_calls import (
    FusedAttention,
    check_for_module,
    check_fused,
    check_padded,
    run_calls,
)
from attncourse.checks.verdict import Verdict
from attncourse.checks.weight_split import (
    check_copied_weights,
    check_swapped_heads,
    check_without_head,
)
from attncourse.examples import traceable_example
from attncourse.renamed import explain_renamed
from attncourse.variants import MISTAKES, OPTIONS, CoreAttention, make
from attncourse.variants.faults import (
    ALL_MISTAKES,
    class_a,
    class_b,
    mystery_1,
    mystery_2,
    mystery_3,
    mystery_4,
    numbered_source,
    random_faulty_class,
    show_fault,
)

explain_renamed(__name__)
