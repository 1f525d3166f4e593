"""Checks of what a learner has written: a class of the course, or a function of any exercise."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import nn

from attnlib.checks.attempt import Diagnosis, reporting
from attnlib.checks.questions import diagnose
from attnlib.checks.verdicts import Verdict
from attnlib.examples import journey, seeded
from attnlib.modules import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper


def exercise_check(check: Callable[[Callable[..., Any]], object]) -> Callable[..., str]:
    """Let a check of a function answer in a sentence, even where the function fails.

    Args:
        check: takes the learner's function, calls it, and returns what to say about its result:
            a sentence or a Verdict. It need not guard against a function that fails.

    Returns:
        A check that returns a sentence. If the function raises a bare NotImplementedError: "not
        attempted yet". If it raises anything else: the line, the error, and the shapes that met
        there. If it returns None, or something that the check cannot use: that. Otherwise what
        the check says. An error that the check raises before the function has run is the check's
        own and is passed on; so is a NameError or an ImportError of its own lines at any time.

    >>> @exercise_check
    ... def check_double(double):
    ...     return "Right." if double(2) == 4 else "Is it twice the number?"
    >>> print(check_double(lambda number: number * number * number))
    Is it twice the number?
    """

    @wraps(check)
    def answer(written: Callable[..., Any]) -> str:
        name = getattr(written, "__name__", repr(written))
        result = None

        def attempt(*arguments: Any, **options: Any) -> Any:
            nonlocal result
            with reporting():
                result = written(*arguments, **options)
            if result is None:
                raise Diagnosis(f"{name} returns None: is the return missing?")
            return result

        try:
            return str(check(attempt))
        except Diagnosis as diagnosis:
            return str(diagnosis)
        except Exception as error:
            if result is None or _is_own_mistake(error, check):
                raise
            kind = type(result).__name__
            article = "an" if kind[0] in "aeiouAEIOU" else "a"
            return f"The check cannot use what {name} returns, {article} {kind}: {error}"

    return answer


def _is_own_mistake(error: Exception, check: Callable[..., object]) -> bool:
    """Return whether the check's own file lacks a name: no value of the learner's causes that."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    innermost = [file for file in files if not file.startswith("<frozen")][-1]  # not the importer
    missing = isinstance(error, (NameError, ImportError))
    return missing and innermost == check.__code__.co_filename


def check_causal_attention(written: type[nn.Module] | None) -> Verdict:
    """Examine a class written like CausalAttention, and name the line that is likely wrong.

    Args:
        written: the class itself, made with d_in, d_out, context_length, dropout and
            qkv_bias=False, its parts named W_query, W_key, W_value. None counts as a stub.

    Returns:
        A Verdict. A class whose forward returns None is 'not attempted yet'.

    >>> check_causal_attention(None)
    not attempted yet
    """
    return _examine(written, CausalAttention)


def check_stacked_heads(written: type[nn.Module] | None) -> Verdict:
    """Examine a class written like MultiHeadAttentionWrapper, as check_causal_attention does.

    Args:
        written: the class itself, made with d_in, d_out (of each head), context_length, dropout,
            num_heads and qkv_bias=False; its heads are in an nn.ModuleList named heads.

    Returns:
        A Verdict.

    >>> check_stacked_heads(MultiHeadAttentionWrapper).holds
    True
    """
    return _examine(written, MultiHeadAttentionWrapper)


def check_weight_split(written: type[nn.Module] | None) -> Verdict:
    """Examine a class written like MultiHeadAttention, as check_causal_attention does.

    Args:
        written: the class itself, made with d_in, d_out (of all heads), context_length, dropout,
            num_heads and qkv_bias=False; its parts named W_query, W_key, W_value, out_proj.

    Returns:
        A Verdict.

    >>> check_weight_split(MultiHeadAttention).holds
    True
    """
    return _examine(written, MultiHeadAttention)


def _examine(written: type[nn.Module] | None, right: type[nn.Module]) -> Verdict:
    sentence = diagnose(written, right)
    if sentence is not None or written is None:
        return Verdict(False, sentence or "")
    heads = "" if right is CausalAttention else "split and merge of heads, "
    return Verdict(
        True,
        f"{written.__name__} is right: shapes, mask, mean, scale, {heads}dropout, half precision, "
        f"and outputs and gradients equal to those of {right.__name__} in float64.",
    )


@exercise_check
def check_look_at_first(look_at_first: Callable[..., nn.Module]) -> str:
    """Check a function that makes a head look at token 0, whichever token asks.

    Args:
        look_at_first: takes a CausalAttention with d_in and d_out 6, sets its parameters and
            returns it. The tokens are the rows of torch.eye(6): token t has a 1 at place t.

    Returns:
        A sentence.

    >>> check_look_at_first(lambda head: head)
    'Token 5 gives token 0 0.16 of its weight and token 3 0.19: it must all go to token 0.'
    """
    with seeded():
        head = CausalAttention(6, 6, context_length=6, dropout=0.0)
    context_vec, attn_weights = look_at_first(head)(torch.eye(6)[None], return_weights=True)
    for token in (5, 4, 3, 2, 1):
        row = attn_weights[0, token]
        at_first, other = row[0].item(), 1 + int(row[1:].argmax())
        if at_first > 0.99:
            continue
        if row[: token + 1].max() - row[: token + 1].min() < 1e-6:
            return (
                f"Token {token} looks at all tokens evenly: its query is 0, or all keys are "
                f"equal. Its query is column {token} of W_query.weight."
            )
        if at_first > row[other] + 0.01:
            return (
                f"Token {token} gives token 0 only {at_first:.2f} of its weight. It is the right "
                "token; its score must be larger before softmax gives it all."
            )
        return (
            f"Token {token} gives token 0 {at_first:.2f} of its weight and token {other} "
            f"{row[other].item():.2f}: it must all go to token 0."
        )
    if not torch.allclose(context_vec[0], torch.eye(6)[0].expand(6, 6), atol=0.01):
        return "All look at token 0, but what they get is not its vector: what does W_value do?"
    return "Right: all six tokens look at token 0 and get its vector."


@exercise_check
def check_without_head(without_head: Callable[..., nn.Module]) -> str:
    """Check a function that silences one head of a stack.

    Args:
        without_head: takes a MultiHeadAttentionWrapper and the number of a head, counted from 0,
            and returns a copy whose columns of that head are 0, the others as they were.

    Returns:
        A sentence.

    >>> check_without_head(lambda stacked, h: stacked)
    'Head 1 is to be silent, and its columns are as they were.'
    """
    with seeded():
        stacked = MultiHeadAttentionWrapper(3, 2, context_length=6, dropout=0.0, num_heads=3)
    x = journey().batch()
    before = stacked(x)
    for h in (1, 0, 2):
        after = without_head(stacked, h)(x)
        if not stacked(x).equal(before):
            return "The stack itself has changed: silence a head of copy.deepcopy(stacked)."
        if after.shape != before.shape:
            return (
                f"The result is {tuple(after.shape)}, not {tuple(before.shape)}: a silent head "
                "keeps its columns, as zeros."
            )
        pairs = list(zip(after.split(2, dim=-1), before.split(2, dim=-1), strict=True))
        others = [i for i, (now, then) in enumerate(pairs) if i != h and not now.equal(then)]
        if others:
            return f"Head {h} is to be silent, and the columns of head {others[0]} have changed."
        silent, spoken = pairs[h]
        if silent.equal(spoken):
            return f"Head {h} is to be silent, and its columns are as they were."
        if silent.any():
            return (
                f"Head {h} still writes up to {silent.abs().max().item():.2f}. An even look is a "
                "look: which of the three matrices makes what is written?"
            )
    return "Right: the columns of the silent head are 0, and no other number moved."
