"""Write a check of your own: it answers in a sentence, whatever the learner's function does."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from attnlib.checks.attempt import NOT_ATTEMPTED, Fault, describe
from attnlib.tracing.tracer import locate


def exercise_check(check: Callable[[Callable[..., Any]], object]) -> Callable[..., str]:
    """Let a check of a function answer in a sentence, also where the function fails.

    Args:
        check: takes the learner's function, calls it, and returns what to say about its result:
            a sentence or a Verdict. It need not guard against a function that fails.

    Returns:
        A check that returns a sentence: "not attempted yet" where the function raises a bare
        NotImplementedError; the line, the error and the shapes that met there where it raises
        anything else; that it returns None, or something the check cannot use; else what the
        check says.

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
            try:
                result = written(*arguments, **options)
            except Exception as error:
                stub = isinstance(error, NotImplementedError) and not error.args
                raise Fault(NOT_ATTEMPTED if stub else describe(locate(error))) from error
            if result is None:
                raise Fault(f"{name} returns None: is the return missing?")
            return result

        try:
            return str(check(attempt))
        except Fault as fault:
            return str(fault)
        except Exception as error:
            kind = type(result).__name__
            return f"The check cannot use what {name} returns, a {kind}: {error}"

    return answer
