"""Lines gone wrong, and what must notice each; `make mutants` plants them one at a time."""

# ruff: noqa: E501  # a table of lines, each of them whole

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """The package with a mistake that somebody could make, in as few lines as it takes.

    Args:
        name: what to call it.
        file: where the mistake is planted.
        changes: for each text that stands there exactly once, what stands there instead.
        test: the test that must fail, by its name for pytest.
    """

    name: str
    file: str
    changes: dict[str, str]
    test: str


FUNCTIONAL = "attnlib/functional.py"
MODULES = "attnlib/modules.py"
FUSED = "attnlib/fused.py"
TORCH = "attncourse/variants/torch_multihead.py"
CONVERT = "attnlib/convert.py"
VALIDATE = "attnlib/validate.py"
ROTARY = "attnlib/rotary.py"

COMPUTATION = (
    # Scores
    Mutant(
        "no-scaling",
        FUNCTIONAL,
        {"queries = queries / head_dim**0.5": "queries = queries / 1.0"},
        "tests/attnlib/test_functional.py::test_scores_are_scaled_by_the_root_of_the_width",
    ),
    Mutant(
        "scaling-by-d-out",
        FUNCTIONAL,
        {"head_dim = queries.shape[-1]": "head_dim = queries[0].numel() // queries.shape[-2]"},
        "tests/attnlib/test_goldens.py::test_our_classes_print_the_published_tensors[weight_split]",
    ),
    Mutant(
        "scaling-by-head-dim",
        FUNCTIONAL,
        {"queries = queries / head_dim**0.5": "queries = queries / head_dim"},
        "tests/attnlib/test_functional.py::test_scores_are_scaled_by_the_root_of_the_width",
    ),
    Mutant(
        "scaling-after-the-product",
        FUNCTIONAL,
        {
            "queries = queries / head_dim**0.5": "queries = queries / 1.0",
            "queries @ keys.transpose(-2, -1)": "queries @ keys.transpose(-2, -1) / head_dim**0.5",
        },
        "tests/attnlib/test_contract_numerics.py::test_scores_near_the_end_of_float16_stay_finite",
    ),
    Mutant(
        "scaling-in-place",
        FUNCTIONAL,
        {"queries = queries / head_dim**0.5": "queries = queries.div_(head_dim**0.5)"},
        "tests/attnlib/test_functional.py::test_the_arguments_are_not_changed",
    ),
    Mutant(
        "queries-and-keys-swapped",
        FUNCTIONAL,
        {"queries @ keys.transpose(-2, -1)": "keys @ queries.transpose(-2, -1)"},
        "tests/attnlib/test_functional.py::test_with_the_causal_mask",
    ),
    # The mask
    Mutant(
        "mask-from-the-diagonal",
        FUNCTIONAL,
        {"position[None, :] > newest[:, None]": "position[None, :] >= newest[:, None]"},
        "tests/attnlib/test_functional.py::test_the_mask_is_true_where_a_query_may_not_see",
    ),
    Mutant(
        "mask-flipped",
        FUNCTIONAL,
        {"position[None, :] > newest[:, None]": "position[None, :] < newest[:, None]"},
        "tests/attnlib/test_functional.py::test_the_mask_is_true_where_a_query_may_not_see",
    ),
    Mutant(
        "mask-one-too-late",
        FUNCTIONAL,
        {"position[None, :] > newest[:, None]": "position[None, :] > newest[:, None] + 1"},
        "tests/attnlib/test_functional.py::test_the_mask_is_true_where_a_query_may_not_see",
    ),
    Mutant(
        "mask-after-softmax",
        FUNCTIONAL,
        {
            "attn_scores = _mask_scores(attn_scores, is_masked)": "masked = is_masked",
            "torch.softmax(attn_scores, dim=-1)": "torch.softmax(attn_scores, dim=-1) * (1 if is_masked is None else ~masked)",
        },
        "tests/attnlib/test_functional.py::test_with_the_causal_mask",
    ),
    Mutant(
        "mask-of-minus-10000",
        FUNCTIONAL,
        {"masked_fill_(is_masked, -torch.inf)": "masked_fill_(is_masked, -1e4)"},
        "tests/attnlib/test_functional.py::test_a_row_that_is_masked_altogether_is_nan",
    ),
    # Softmax and dropout
    Mutant(
        "softmax-over-queries",
        FUNCTIONAL,
        {"torch.softmax(attn_scores, dim=-1)": "torch.softmax(attn_scores, dim=-2)"},
        "tests/attnlib/test_functional.py::test_with_the_causal_mask",
    ),
    Mutant(
        "dropout-before-softmax",
        FUNCTIONAL,
        {
            "torch.softmax(attn_scores,": "torch.softmax(dropout(attn_scores) if dropout else attn_scores,",
            "attn_weights = dropout(attn_weights)": "attn_weights = attn_weights * 1.0",
        },
        "tests/attnlib/test_functional.py::test_dropout_falls_on_the_weights_after_softmax",
    ),
    Mutant(
        "dropout-left-out",
        FUNCTIONAL,
        {"attn_weights = dropout(attn_weights)": "attn_weights = attn_weights * 1.0"},
        "tests/attnlib/test_functional.py::test_dropout_falls_on_the_weights_after_softmax",
    ),
    Mutant(
        "dropout-on-the-values",
        FUNCTIONAL,
        {"attn_weights = dropout(attn_weights)": "values = dropout(values)"},
        "tests/attnlib/test_functional.py::test_dropout_falls_on_the_weights_after_softmax",
    ),
    # Values and heads
    Mutant(
        "keys-and-values-swapped",
        FUNCTIONAL,
        {"head_dim = queries.shape[-1]": "head_dim, keys, values = keys.shape[-1], values, keys"},
        "tests/attnlib/test_functional.py::test_with_the_causal_mask",
    ),
    Mutant(
        "split-without-transpose",
        FUNCTIONAL,
        {
            "x.transpose(1, 2)  # (b, num_heads, num_tokens, head_dim)": "x.reshape(b, num_heads, num_tokens, head_dim)"
        },
        "tests/attnlib/test_functional.py::test_split_heads_gives_each_head_its_columns",
    ),
    Mutant(
        "merge-without-transpose",
        FUNCTIONAL,
        {
            "x.transpose(1, 2)  # (b, num_tokens, num_heads, head_dim)": "x.reshape(b, num_tokens, num_heads, head_dim)"
        },
        "tests/attnlib/test_functional.py::test_merge_heads_puts_them_side_by_side",
    ),
    Mutant(
        "split-and-merge-without-transpose",
        FUNCTIONAL,
        {
            "x.transpose(1, 2)  # (b, num_heads, num_tokens, head_dim)": "x.reshape(b, num_heads, num_tokens, head_dim)",
            "x.transpose(1, 2)  # (b, num_tokens, num_heads, head_dim)": "x.reshape(b, num_tokens, num_heads, head_dim)",
        },
        "tests/attnlib/test_goldens.py::test_our_classes_print_the_published_tensors[weight_split]",
    ),
    Mutant(
        "heads-merged-in-reverse",
        FUNCTIONAL,
        {"x.transpose(1, 2)  # (b, num_tokens, num_heads, head_dim)": "x.flip(1).transpose(1, 2)"},
        "tests/attnlib/test_functional.py::test_merge_heads_puts_them_side_by_side",
    ),
    Mutant(
        "stacked-heads-in-reverse",
        MODULES,
        {"[head(x) for head in self.heads]": "[head(x) for head in self.heads[::-1]]"},
        "tests/attnlib/test_goldens.py::test_our_classes_print_the_published_tensors[stacked_heads_3]",
    ),
    Mutant(
        "stacked-heads-in-reverse-with-weights",
        MODULES,
        {"(head(x, True) for head in self.heads)": "(head(x, True) for head in self.heads[::-1])"},
        "tests/attnlib/test_convert.py::test_the_order_of_stacked_heads_is_the_order_of_the_columns",
    ),
    Mutant(
        "stacked-heads-all-the-first",
        MODULES,
        {"[head(x) for head in self.heads]": "[self.heads[0](x) for head in self.heads]"},
        "tests/attnlib/test_goldens.py::test_our_classes_print_the_published_tensors[stacked_heads_2]",
    ),
    Mutant(
        "values-from-W-key",
        MODULES,
        {
            "self.W_value(x)  # (b, num_tokens, d_out)\n\n        is_future": "self.W_key(x)\n\n        is_future"
        },
        "tests/attnlib/test_goldens.py::test_one_head_prints_the_first_two_columns",
    ),
    Mutant(
        "out-proj-skipped",
        MODULES,
        {"context_vec = self.out_proj(context_vec)": "context_vec = context_vec * 1.0"},
        "tests/attnlib/test_goldens.py::test_our_classes_print_the_published_tensors[weight_split]",
    ),
    Mutant(
        "out-proj-without-bias",
        MODULES,
        {"self.out_proj(context_vec)": "context_vec @ self.out_proj.weight.T"},
        "tests/attnlib/test_goldens.py::test_our_classes_print_the_published_tensors[weight_split]",
    ),
    Mutant(
        "value-bias-dropped",
        MODULES,
        {
            "qkv_bias, device, dtype)\n        self.out_proj": "False, device, dtype)\n        self.out_proj"
        },
        "tests/attnlib/test_life_cycle.py::test_the_names_in_the_state_dict_are_those_of_the_field",
    ),
    Mutant(
        "mask-entry-unchecked",
        MODULES,
        {"return torch.equal(mask.bool().reshape(expected.shape), expected)": "return True"},
        "tests/attnlib/test_life_cycle.py::test_a_mask_that_is_not_causal_is_refused",
    ),
    # Validation
    Mutant(
        "one-token-too-many",
        VALIDATE,
        {"x.shape[1] > context_length:": "x.shape[1] > context_length + 1:"},
        "tests/attnlib/test_bad_input.py::test_more_tokens_than_context_length_1",
    ),
    Mutant(
        "true-is-a-size",
        VALIDATE,
        {
            'isinstance(value, bool) or not isinstance(value, Integral):\n        raise TypeError(f"{name} must be a pos': 'not isinstance(value, Integral):\n        raise TypeError(f"{name} must be a pos'
        },
        "tests/attnlib/test_bad_input.py::test_what_is_not_a_size",
    ),
    Mutant(
        "uneven-heads",
        VALIDATE,
        {"if whole % count:": "if whole < count:"},
        "tests/attnlib/test_bad_input.py::test_d_out_that_the_heads_do_not_divide",
    ),
    # The fused class and its cache
    Mutant(
        "kernel-not-causal",
        FUSED,
        {"is_causal=bool(num_queries == num_keys),": "is_causal=False,"},
        "tests/attnlib/test_convert.py::test_a_conversion_is_the_same_function",
    ),
    Mutant(
        "kernel-drops-in-eval",
        FUSED,
        {"self.dropout.p if self.training else 0.0": "self.dropout.p"},
        "tests/attnlib/test_contract_dropout.py::test_dropout_does_nothing_in_eval",
    ),
    Mutant(
        "fused-keys-before-queries",
        FUSED,
        {
            "queries, keys = turning.split_with_sizes([self.num_heads, self.num_kv_heads], dim=1)": "keys, queries = turning.split_with_sizes([self.num_kv_heads, self.num_heads], dim=1)"
        },
        "tests/attnlib/test_convert.py::test_a_conversion_is_the_same_function",
    ),
    Mutant(
        "grouped-heads-in-the-wrong-order",
        FUSED,
        {
            "x.repeat_interleave(num_heads // x.shape[1], dim=1)": "torch.cat([x] * (num_heads // x.shape[1]), dim=1)"
        },
        "tests/attnlib/test_fused.py::test_repeated_heads_stand_next_to_each_other",
    ),
    Mutant(
        "mask-aligned-to-the-upper-left",
        FUNCTIONAL,
        {"position[num_keys - num_queries :]": "position[:num_queries]"},
        "tests/attnlib/test_functional.py::test_the_mask_of_the_newest_tokens_is_the_last_rows",
    ),
    Mutant(
        "cache-values-misaligned",
        FUSED,
        {
            "self.values.narrow(2, start, stop - start).copy_(values)": "self.values.narrow(2, start, stop - start).copy_(values.roll(1, 2))"
        },
        "tests/attnlib/test_cache.py::test_in_pieces_of_any_size_it_equals_the_full_pass",
    ),
    Mutant(
        "cache-forgets-the-past",
        FUSED,
        {
            "return self.keys.narrow(2, 0, stop),": "return self.keys[:, :, start:stop],",
            "self.values.narrow(2, 0, stop)": "self.values[:, :, start:stop]",
        },
        "tests/attnlib/test_cache.py::test_in_pieces_of_any_size_it_equals_the_full_pass",
    ),
    Mutant(
        "cache-overrun-unchecked",
        FUSED,
        {"if stop > self.max_tokens:": "if stop > self.max_tokens + 1:"},
        "tests/attnlib/test_cache.py::test_an_overrun_changes_nothing",
    ),
    Mutant(
        "mask-on-the-cpu",
        FUSED,
        {"keys.shape[2], device=x.device)": "keys.shape[2])"},
        "tests/attnlib/test_life_cycle.py::test_everything_is_made_where_the_input_is",
    ),
    Mutant(
        "cache-on-the-cpu",
        FUSED,
        {"weight.dtype, weight.device)": "weight.dtype)"},
        "tests/attnlib/test_life_cycle.py::test_everything_is_made_where_the_input_is",
    ),
    Mutant(
        "cache-advanced-before-forward-succeeded",
        FUSED,
        {
            "self.values.narrow(2, start, stop - start).copy_(values)": "self.values.narrow(2, start, stop - start).copy_(values); self.num_tokens = stop"
        },
        "tests/attnlib/test_cache.py::test_it_advances_only_when_forward_succeeded",
    ),
    Mutant(
        "cache-values-unchecked",
        FUSED,
        {
            'for name, x in (("keys", keys), ("values", values)):': 'for name, x in (("keys", keys),):'
        },
        "tests/attnlib/test_cache.py::test_it_is_written_whole_or_not_at_all",
    ),
    Mutant(
        "more-queries-than-keys",
        VALIDATE,
        {"num_queries is not num_keys and num_queries > num_keys": "num_queries is None"},
        "tests/attnlib/test_fused.py::test_what_the_kernel_is_not_asked",
    ),
    # Rotary positions
    Mutant(
        "rotary-turns-the-other-way",
        ROTARY,
        {
            "(first, second) * torch.complex(cos.to(wide), sin.to(wide))": "(first, second) * torch.complex(cos.to(wide), -sin.to(wide))"
        },
        "tests/attnlib/test_rotary.py::test_values_and_gradients_are_those_of_transformers",
    ),
    Mutant(
        "rotary-pairs-not-interleaved",
        ROTARY,
        {
            "torch.view_as_real(rotated).flatten(-2)": "torch.cat([rotated.real, rotated.imag], dim=-1)"
        },
        "tests/attnlib/test_rotary.py::test_the_layouts_are_permutations_of_one_another",
    ),
    Mutant(
        "rotary-exponents-by-one",
        ROTARY,
        {"torch.arange(0, head_dim, 2, dtype=wide": "torch.arange(0, head_dim // 2, dtype=wide"},
        "tests/attnlib/test_rotary.py::test_cos_and_sin_by_hand",
    ),
    Mutant(
        "rotary-counts-every-piece-from-0",
        FUSED,
        {"held = 0 if cache is None else cache.num_tokens": "held = 0"},
        "tests/attnlib/test_rotary.py::test_in_pieces_of_any_size_it_equals_the_full_pass",
    ),
    Mutant(
        "rotary-turns-the-values",
        FUSED,
        {
            "(rotated, cos, sin)": "(rotated, cos, sin); values = ROTATIONS[self.rotary_layout](values, cos, sin)"
        },
        "tests/attnlib/test_rotary.py::test_the_class_is_its_functions",
    ),
    # PyTorch's module, rebuilt
    Mutant(
        "torch-batch-first",
        TORCH,
        {"batch_first: bool = False": "batch_first: bool = True"},
        "tests/attncourse/variants/test_torch_multihead.py::test_its_arguments_are_those_of_pytorchs_class",
    ),
    Mutant(
        "torch-mask-cropped",
        TORCH,
        {
            'require_broadcastable("mask", mask, (num_queries, num_keys))': "pass",
            "mask.expand(*mask.shape[:-1], num_keys)": "mask[..., :num_keys]",
        },
        "tests/attncourse/variants/test_torch_multihead.py::test_a_mask_that_does_not_fit_is_refused_and_never_cropped",
    ),
    Mutant(
        "torch-mask-flipped",
        TORCH,
        {"attn_scores.masked_fill(mask, -torch.inf)": "attn_scores.masked_fill(~mask, -torch.inf)"},
        "tests/attncourse/variants/test_torch_multihead.py::test_agrees_with_pytorch",
    ),
    Mutant(
        "torch-scaling-by-embed-dim",
        TORCH,
        {"queries = queries / self.head_dim**0.5": "queries = queries / self.embed_dim**0.5"},
        "tests/attncourse/variants/test_torch_multihead.py::test_agrees_with_pytorch",
    ),
    Mutant(
        "torch-weights-not-averaged",
        TORCH,
        {"attn_weights.mean(dim=1)": "attn_weights.sum(dim=1)"},
        "tests/attncourse/variants/test_torch_multihead.py::test_agrees_with_pytorch",
    ),
    Mutant(
        "torch-zero-position-in-front",
        TORCH,
        {
            "keys = F.pad(keys, (0, 0, 0, 1))": "keys = F.pad(keys, (0, 0, 1, 0))",
            "values = F.pad(values, (0, 0, 0, 1))": "values = F.pad(values, (0, 0, 1, 0))",
        },
        "tests/attncourse/variants/test_torch_multihead.py::test_agrees_with_pytorch",
    ),
    Mutant(
        "torch-value-bias-dropped",
        TORCH,
        {"F.linear(value, W_value, b_value)": "F.linear(value, W_value)"},
        "tests/attncourse/variants/test_torch_multihead.py::test_agrees_with_pytorch",
    ),
    # Conversions
    Mutant(
        "stacked-to-split-in-reverse",
        CONVERT,
        {"name: torch.cat(rows) for name": "name: torch.cat(rows[::-1]) for name"},
        "tests/attnlib/test_convert.py::test_a_conversion_is_the_same_function",
    ),
    Mutant(
        "split-to-stacked-in-reverse",
        CONVERT,
        {
            "enumerate(torch.split(entry, split.head_dim))": "enumerate(torch.split(entry, split.head_dim)[::-1])"
        },
        "tests/attnlib/test_convert.py::test_a_conversion_is_the_same_function",
    ),
    Mutant(
        "out-proj-lost-in-stacked",
        CONVERT,
        {"off.is_meta and off.any()": "off.is_meta and off.isnan().any()"},
        "tests/attnlib/test_convert.py::test_an_out_proj_that_does_something_is_refused",
    ),
    Mutant(
        "conversion-shares-weights",
        CONVERT,
        {"nn.Parameter(entry.clone(),": "nn.Parameter(entry,"},
        "tests/attnlib/test_convert.py::test_a_conversion_owns_its_weights_and_draws_no_random_numbers",
    ),
    Mutant(
        "split-to-torch-keys-first",
        CONVERT,
        {
            'torch.cat([old[f"{W}.{kind}"] for W in PROJECTIONS])': 'torch.cat([old[f"{W}.{kind}"] for W in sorted(PROJECTIONS)])'
        },
        "tests/attnlib/test_convert.py::test_a_conversion_is_the_same_function",
    ),
    Mutant(
        "conversion-thaws",
        CONVERT,
        {"module.get_parameter(name).requires_grad_(False)": "module.get_parameter(name)"},
        "tests/attnlib/test_convert.py::test_what_is_frozen_stays_frozen",
    ),
    Mutant(
        "conversion-of-any-forward",
        CONVERT,
        {'getattr(module.forward, "__func__", None) is not cls.forward': "cls is None"},
        "tests/attnlib/test_convert.py::test_a_forward_of_its_own_is_refused",
    ),
)

AROUND = (
    # The tracer
    Mutant(
        "tracer-keeps-no-copy",
        "attncourse/tracing/tracer.py",
        {"*layout, tensor.detach().clone())": "*layout, tensor.detach())"},
        "tests/attncourse/tracing/test_tracer.py::test_values_are_those_of_that_moment",
    ),
    Mutant(
        "tracer-misses-in-place",
        "attncourse/tracing/tracer.py",
        {"elif before[1] != version:": "elif before[1] > version:"},
        "tests/attncourse/tracing/test_tracer.py::test_new_view_in_place_rebound_and_returned_are_told_apart",
    ),
    Mutant(
        "tracer-one-call-too-deep",
        "attncourse/tracing/tracer.py",
        {"if depth > self.depth:": "if depth > self.depth + 1:"},
        "tests/attncourse/tracing/test_tracer.py::test_depth_0_stays_in_forward_and_depth_1_enters_our_functions_but_never_torch",
    ),
    Mutant(
        "tracer-stays-on",
        "attncourse/tracing/tracer.py",
        {"sys.settrace(before)": "sys.settrace(None)"},
        "tests/attncourse/tracing/test_tracer.py::test_an_active_trace_function_is_active_again_afterwards",
    ),
    Mutant(
        "tracer-counts-lines-from-0",
        "attncourse/tracing/tracer.py",
        {
            "line = frame.f_lineno - frame.f_code.co_firstlineno + 1": "line = frame.f_lineno - frame.f_code.co_firstlineno"
        },
        "tests/attncourse/tracing/test_tracer.py::test_strides_and_contiguity_are_recorded",
    ),
    Mutant(
        "trace-not-escaped",
        "attncourse/tracing/table.py",
        {"cell.format(html.escape(text))": "cell.format(text)"},
        "tests/attncourse/tracing/test_tracer.py::test_signs_of_html_are_shown_as_they_are",
    ),
    # The checks and their diagnosis
    Mutant(
        "check-causal-skips-the-next-token",
        "attncourse/checks/module_checks.py",
        {"changed[:, t + 1 :] += change": "changed[:, t + 2 :] += change"},
        "tests/attncourse/checks/test_checks.py::test_a_module_that_looks_ahead_is_not_causal",
    ),
    Mutant(
        "check-causal-passes-one-bit",
        "attncourse/checks/module_checks.py",
        {"(grown > rounding).any()": "(grown > 1e9).any()"},
        "tests/attncourse/checks/test_checks.py::test_one_bit_counts_and_so_does_one_sequence_of_the_batch",
    ),
    Mutant(
        "check-same-compares-outputs-only",
        "attncourse/checks/module_checks.py",
        {"[kind for kind in made[0] if kind in made[1]]": '["outputs"]'},
        "tests/attncourse/checks/test_module_checks.py::test_what_differs_is_named",
    ),
    Mutant(
        "check-same-forgets-the-weights-gradients",
        "attncourse/checks/module_checks.py",
        {"[x, *given.values()]))": "[x]))"},
        "tests/attncourse/checks/test_module_checks.py::test_what_differs_is_named",
    ),
    Mutant(
        "diagnosis-expects-the-root-of-d-in",
        "attncourse/checks/diagnosis/quantities.py",
        {"root = queries.shape[-1] ** -0.5": "root = x.shape[-1] ** -0.5"},
        "tests/attncourse/checks/test_diagnosis.py::test_one_line_gone_wrong",
    ),
    Mutant(
        "diagnosis-confuses-the-triangles",
        "attncourse/checks/diagnosis/masks.py",
        {"(ones.tril(-1), Kind.MASK_PAST)": "(ones.triu(1), Kind.MASK_PAST)"},
        "tests/attncourse/variants/test_mistakes.py::test_the_exercise_check_names_the_line",
    ),
    Mutant(
        "diagnosis-forgets-large-scores",
        "attncourse/checks/diagnosis/diagnose.py",
        {"conditions.large_scores,": "questions.the_whole,"},
        "tests/attncourse/variants/test_mistakes.py::test_the_exercise_check_names_the_line",
    ),
    Mutant(
        "diagnosis-adds-no-x-where-it-fits",
        "attncourse/checks/diagnosis/conditions.py",
        {"    trial.one_width = True\n": "    trial.one_width = False\n"},
        "tests/attncourse/checks/test_diagnosis.py::test_the_line_and_the_cause_behind_a_fault",
    ),
    Mutant(
        "diagnosis-leaves-the-device-as-it-is",
        "attncourse/checks/diagnosis/conditions.py",
        {'mine.to("meta"), x.to("meta")': "mine, x"},
        "tests/attncourse/checks/test_diagnosis.py::test_a_tensor_made_without_the_device_of_x_gets_a_note",
    ),
    Mutant(
        "diagnosis-takes-an-error-for-a-stub",
        "attncourse/checks/attempt.py",
        {"NotImplementedError) and not error.args": "NotImplementedError)"},
        "tests/attncourse/checks/test_exercise_checks.py::test_an_error_with_words_is_no_stub",
    ),
    # Panels, figures, scenes, sliders
    Mutant(
        "panel-colors-columns-by-turns",
        "attncourse/panels/heads.py",
        {"[column // data.head_dim for column in": "[column % data.num_heads for column in"},
        "tests/attncourse/panels/test_panels.py::test_stacked_heads",
    ),
    Mutant(
        "figure-shows-hidden-cells",
        "attncourse/pictures/weights.py",
        {"        if gone[q][k]:": "        if False:"},
        "tests/attncourse/pictures/test_pictures.py::test_weights_stand_in_their_cells",
    ),
    Mutant(
        "figure-has-queries-across",
        "attncourse/pictures/cells.py",
        {"corner = (x + c * width, y + r * height)": "corner = (x + r * width, y + c * height)"},
        "tests/attncourse/pictures/test_pictures.py::test_weights_stand_in_their_cells",
    ),
    Mutant(
        "figure-colors-columns-by-turns",
        "attncourse/pictures/head_columns.py",
        {"return column * num_heads // split": "return column % num_heads"},
        "tests/attncourse/pictures/test_pictures.py::test_columns_have_the_color_of_their_head",
    ),
    Mutant(
        "scenes-on-top-of-each-other",
        "attncourse/pictures/scene.py",
        {"items += shift(scene.items, x, 0)": "items += shift(scene.items, 0, 0)"},
        "tests/attncourse/pictures/test_scene.py::test_scenes_side_by_side_and_under_each_other",
    ),
    Mutant(
        "svg-text-not-escaped",
        "attncourse/pictures/scene.py",
        {"{html.escape(typeset(item))}</text>": "{typeset(item)}</text>"},
        "tests/attncourse/pictures/test_scene.py::test_the_svg_is_well_formed_and_has_the_alt_text",
    ),
    Mutant(
        "steps-scaled-by-all-columns",
        "attncourse/panels/steps.py",
        {"scaled = masked / head_dim**0.5": "scaled = masked / 6**0.5"},
        "tests/attncourse/panels/test_steps.py::test_the_eleven_steps_end_where_the_class_ends",
    ),
    Mutant(
        "panel-starts-elsewhere",
        "attncourse/panels/states.py",
        {'"start": values.index(self.default[name])': '"start": 0'},
        "tests/attncourse/panels/test_panels.py::test_a_sheet_says_what_its_controls_are",
    ),
    Mutant(
        "room-for-the-last-picture-only",
        "attncourse/panels/states.py",
        {"map(max, size, (": "map(max, (0, 0), ("},
        "tests/attncourse/panels/test_panels.py::test_a_sheet_has_room_for_its_largest_picture",
    ),
    Mutant(
        "cell-says-scaled-scores",
        "attncourse/panels/touch.py",
        {'by_head["W_query"] @': '0.5 * by_head["W_query"] @'},
        "tests/attncourse/panels/test_touch.py::test_dot_products_and_values_are_those_of_the_projections",
    ),
    Mutant(
        "training-in-two-threads",
        "attncourse/learning/training.py",
        {"with torch.enable_grad(), one_thread():": "with torch.enable_grad():"},
        "tests/attncourse/learning/test_training.py::test_it_trains_in_one_thread_and_restores_their_number",
    ),
    Mutant(
        "slider-turns-to-the-wrong-page",
        "attncourse/panels/widgets.py",
        {"self.panel.page(states[place])": "self.panel.page(states[-place])"},
        "tests/attncourse/panels/test_widgets.py::test_a_large_panel_draws_the_page_that_is_asked_for",
    ),
    Mutant(
        "any-place-is-answered",
        "attncourse/panels/widgets.py",
        {"if 0 <= place < len(states)": "if place < len(states)"},
        "tests/attncourse/panels/test_widgets.py::test_what_asks_for_no_page_gets_no_answer",
    ),
    Mutant(
        "bound-below-the-difference",
        "attncourse/compare.py",
        {"math.ceil(math.log10(": "math.floor(math.log10("},
        "tests/attncourse/panels/test_torch_equality.py::test_a_dot_lies_as_far_as_its_difference",
    ),
    Mutant(
        "recorded-answers-for-any-class",
        "attncourse/language/recorded.py",
        {"return all(_is_near(each, right)": "return any(_is_near(right, right)"},
        "tests/attncourse/language/test_installed.py::"
        "test_no_answer_is_given_for_a_class_that_computes_something_else",
    ),
    Mutant(
        "block-of-ones-own-not-used",
        "attncourse/language/reader.py",
        {"if block is not None:": "if block is None and False:"},
        "tests/attncourse/language/test_reader.py::test_a_block_of_ones_own_is_used_in_every_layer",
    ),
    Mutant(
        "block-of-ones-own-reads-our-norm",
        "attncourse/language/model.py",
        {"given.append(read)": "given.append(self.norm_1(x))"},
        "tests/attncourse/language/test_reader.py::"
        "test_what_a_block_of_ones_own_gives_to_attention_is_what_its_heads_read",
    ),
)

MUTANTS = (*COMPUTATION, *AROUND)
