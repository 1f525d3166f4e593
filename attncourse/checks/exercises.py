"""Checks of what a learner has written: a class of the course, or a function of any exercise."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, TypedDict, Unpack

from torch import nn

from attncourse.checks.diagnosis.examine import examine
from attncourse.checks.findings import Finding
from attncourse.checks.module_factory import Given
from attncourse.checks.safe_run import NOT_ATTEMPTED, CheckFailed, FaultFound, reporting
from attncourse.checks.sentences import cause_of, details, in_full
from attncourse.checks.this_cell import given_elsewhere
from attncourse.checks.verdict import Verdict
from attnlib.modules import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper

Check = Callable[..., Verdict | str]  # the string is the sentence of a mistake
OPEN = Verdict(False, NOT_ATTEMPTED, (Finding("stub"),))


def exercise_check(reference: Any) -> Callable[[Check], Callable[..., Verdict]]:
    """Let a check of a function answer with a verdict, even where the function fails.

    Args:
        reference: the course's own function, which `answer_or_reference` of the verdict returns
            instead of one that is not right.

    Returns:
        A decorator for a check that takes the learner's function, calls it, and returns a Verdict,
        or the sentence of a mistake. Where the function is a stub, raises an error, returns None or
        something that the check cannot use, the verdict says so. An error that the check raises
        before the function has run is its own and is passed on; so is a NameError or an ImportError
        of its lines at any time.

    >>> @exercise_check(reference=lambda number: 2 * number)
    ... def check_double(double):
    ...     return Verdict(True, "Right.") if double(2) == 4 else "Is it twice the number?"
    >>> check_double(lambda number: number * number * number)
    Is it twice the number?
    """

    def guard(check: Check) -> Callable[..., Verdict]:
        @wraps(check)
        def answer(written: Callable[..., Any]) -> Verdict:
            return _verdict(_answer(check, written), written, reference)

        return answer

    return guard


def value_check(reference: Callable[..., Any]) -> Callable[[Check], Callable[..., Verdict]]:
    """Let a check of a value answer with a verdict; None is a value that was not given yet.

    Args:
        reference: takes what the check takes beside the value, and returns the right one.

    >>> @value_check(reference=lambda number: 2 * number)
    ... def check_twice(value, number):
    ...     return Verdict(True, "Right.") if value == 2 * number else "Is it twice the number?"
    >>> check_twice(None, 3), check_twice(7, 3).answer_or_reference()
    (not attempted yet, 6)
    """

    def guard(check: Check) -> Callable[..., Verdict]:
        @wraps(check)
        def answer(mine: Any, *others: Any, **named: Any) -> Verdict:
            said = OPEN if mine is None else check(mine, *others, **named)
            return _verdict(said, mine, reference(*others, **named))

        return answer

    return guard


def _verdict(said: Verdict | str, answer: Any, reference: Any) -> Verdict:
    verdict = said if isinstance(said, Verdict) else Verdict(False, said)
    if verdict.holds and callable(answer) and answer is reference:
        said = f"This is the course's own solution, not yours. {verdict.sentence}"
        verdict = replace(verdict, sentence=said)
    return replace(verdict, answer=answer, reference=reference)


def _of_a_fault(finding: Finding) -> Verdict:
    said, cause = in_full(finding), cause_of(finding)
    return Verdict(False, said, (finding,), more=details(finding), cause=cause)


def _check_class(given: Given, right: type[nn.Module], options: Options) -> Verdict:
    elsewhere = given_elsewhere(given)
    verdict = _of_a_fault(elsewhere) if elsewhere else examine(given, right, **options)
    return _verdict(verdict, given, right)


def _answer(check: Check, written: Callable[..., Any]) -> Verdict | str:
    """Run a check; return what it says, or what the learner's function came to instead."""
    name = getattr(written, "__name__", repr(written))
    result = None

    def attempt(*arguments: Any, **options: Any) -> Any:
        nonlocal result
        with reporting():
            result = written(*arguments, **options)
        if result is None:
            raise CheckFailed(f"{name} returns None: is the return missing?")
        return result

    if elsewhere := given_elsewhere(written):
        return _of_a_fault(elsewhere)
    try:
        return check(attempt)
    except FaultFound as found:
        return _of_a_fault(found.finding)
    except CheckFailed as said:
        stopped = (Finding("error", said.line),) if said.line else ()
        return Verdict(False, str(said), stopped, cause=said.cause)
    except Exception as error:
        if result is None or _is_own_mistake(error, check):
            raise
        kind = type(result).__name__
        article = "an" if kind[0] in "aeiouAEIOU" else "a"
        return f"The check cannot use what {name} returns, {article} {kind}: {error}"


def _is_own_mistake(error: Exception, check: Callable[..., object]) -> bool:
    """Return whether the check's own file lacks a name: no value of the learner's causes that."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    innermost = [file for file in files if not file.startswith("<frozen")][-1]  # not the importer
    missing = isinstance(error, (NameError, ImportError))
    return missing and innermost == check.__code__.co_filename


class Options(TypedDict, total=False):
    """What the checks of a class take beside it, as check_causal_attention says."""

    names: Mapping[str, str]
    skip: tuple[str, ...]
    seconds: float


def check_causal_attention(written: Given, **options: Unpack[Options]) -> Verdict:
    """Examine a class written like CausalAttention, and quote the line that is wrong.

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
    return _check_class(written, CausalAttention, options)


def check_stacked_heads(written: Given, **options: Unpack[Options]) -> Verdict:
    """Examine a class written like MultiHeadAttentionWrapper, as check_causal_attention does.

    It is made with num_heads too, d_out is that of each head, and its heads are in an nn.ModuleList
    named heads.

    >>> check_stacked_heads(MultiHeadAttentionWrapper).holds
    True
    """
    return _check_class(written, MultiHeadAttentionWrapper, options)


def check_weight_split(written: Given, **options: Unpack[Options]) -> Verdict:
    """Examine a class written like MultiHeadAttention, as check_causal_attention does.

    It is made with num_heads too, d_out is that of all heads together, and its parts are named
    W_query, W_key, W_value and out_proj.

    >>> check_weight_split(MultiHeadAttention).holds
    True
    """
    return _check_class(written, MultiHeadAttention, options)
