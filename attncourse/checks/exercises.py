"""Checks of what a learner has written: a class of the course, or a function of any exercise."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any

from attncourse.checks.attempt import Diagnosis, reporting
from attncourse.checks.diagnosis.diagnose import diagnose
from attncourse.checks.door import NO_NAMES, Given
from attncourse.checks.guard import SECONDS
from attncourse.checks.verdict import Verdict
from attnlib.modules import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper


def exercise_check(check: Callable[[Callable[..., Any]], object]) -> Callable[..., str]:
    """Let a check of a function answer in a sentence, even where the function fails.

    Args:
        check: takes the learner's function, calls it, and returns what to say about its result:
            a sentence or a Verdict. It need not guard against a function that fails.

    Returns:
        A check that returns a sentence. If the function raises a bare NotImplementedError: "not
        attempted yet", or, where it has lines beside those of a stub, that they stop there. If it
        raises anything else: the line, the error, and the shapes that met there. If it returns
        None, or something that the check cannot use: that. Otherwise what the check says. An error
        that the check raises before the function has run is the check's own and is passed on; so
        is a NameError or an ImportError of its own lines at any time.

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


def check_causal_attention(
    written: Given,
    *,
    names: Mapping[str, str] = NO_NAMES,
    skip: tuple[str, ...] = (),
    seconds: float = SECONDS,
) -> Verdict:
    """Examine a class written like CausalAttention, and name the line that is likely wrong.

    Args:
        written: the class itself, a function that makes a module, or a module, whose class is then
            examined; made with d_in, d_out, context_length, dropout and qkv_bias=False, its parts
            named W_query, W_key, W_value. None counts as a stub.
        names: what is called otherwise, ours first: {"W_query": "to_q", "d_in": "n_embd"}. One
            projection for all three, queries first, is "W_qkv".
        skip: questions to leave out, and arguments that the class does not take: "qkv_bias",
            "dropout", "context_length".
        seconds: the time that the check may take.

    Returns:
        A Verdict. A class whose forward returns None is 'not attempted yet'.

    Raises:
        ValueError: skip holds an unknown name.

    >>> check_causal_attention(None)
    not attempted yet
    """
    found = diagnose(written, CausalAttention, names, skip, seconds)
    return replace(found, written=written, ours=CausalAttention)


def check_stacked_heads(
    written: Given,
    *,
    names: Mapping[str, str] = NO_NAMES,
    skip: tuple[str, ...] = (),
    seconds: float = SECONDS,
) -> Verdict:
    """Examine a class written like MultiHeadAttentionWrapper, as check_causal_attention does.

    It is made with num_heads too, d_out is that of each head, and its heads are in an nn.ModuleList
    named heads.

    >>> check_stacked_heads(MultiHeadAttentionWrapper).holds
    True
    """
    return diagnose(written, MultiHeadAttentionWrapper, names, skip, seconds)


def check_weight_split(
    written: Given,
    *,
    names: Mapping[str, str] = NO_NAMES,
    skip: tuple[str, ...] = (),
    seconds: float = SECONDS,
) -> Verdict:
    """Examine a class written like MultiHeadAttention, as check_causal_attention does.

    It is made with num_heads too, d_out is that of all heads together, and its parts are named
    W_query, W_key, W_value and out_proj.

    >>> check_weight_split(MultiHeadAttention).holds
    True
    """
    return diagnose(written, MultiHeadAttention, names, skip, seconds)
