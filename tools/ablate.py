"""Silence each rule of the diagnosis in turn, and print what it changes on all planted mistakes.

    make ablate                    # all rules, about ten minutes
    make ablate RULE=head          # those whose names hold "head"

A rule that changes fewer than three verdicts goes, unless a comment at the rule says why it stays.
Verdicts are those on the wrong classes of tests/support, and on the wrong answers to the classes of
the notebooks. Only verdicts to which a rule has contributed are asked again without it.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from attncourse.checks import (
    Verdict,
    check_causal_attention,
    check_stacked_heads,
    check_weight_split,
)
from attncourse.checks.diagnosis import behind, departure, diagnose
from attncourse.variants.mistakes import MISTAKES
from attnlib import CausalAttention, MultiHeadAttention, causal_mask
from exercises import find_exercises
from support.exercise_tools import answers_to, spoil
from support.notebook_tools import NOTEBOOKS
from support.planted_classes import PLANTED
from support.wrong_classes import write

CHECKS = {
    "CausalAttention": check_causal_attention,
    "MultiHeadAttentionWrapper": check_stacked_heads,
    "MultiHeadAttention": check_weight_split,
}
Ask = Callable[[], Verdict]


class Told(NamedTuple):
    """What a verdict says, as data."""

    holds: bool
    kind: str
    line: str


def told(ask: Ask) -> Told:
    """Return a verdict's kind and line."""
    verdict = ask()
    return Told(verdict.holds, verdict.code, str(verdict.line or ""))


def cases() -> dict[str, Ask]:
    """Return a check of every planted class and of every wrong answer, by name."""
    found: dict[str, Ask] = {planted.name: planted.examine for planted in PLANTED}
    for mistake in MISTAKES:
        found[f"mistake: {mistake.name}"] = lambda cls=mistake.cls: check_weight_split(cls)
    for path in NOTEBOOKS:
        answers = answers_to(path.stem)
        book = json.loads(path.read_text("utf-8"))
        for exercise in find_exercises(book):
            for label, (changes, _) in answers[exercise.name].wrong.items():
                if exercise.name in CHECKS:
                    text = spoil(exercise.solution, changes)
                    cls = write(text, named=exercise.name, **OUTSIDE)
                    check = CHECKS[exercise.name]
                    found[f"answer: {exercise.name}, {label}"] = lambda c=check, k=cls: c(k)
    return found


class Layers(MultiHeadAttention):
    """What notebook 03 gives its exercise: the layers, and no forward."""


OUTSIDE = {"causal_mask": causal_mask, "Layers": Layers, "CausalAttention": CausalAttention}


def rules() -> dict[str, Any]:
    """Return all rules by name: those of a departure, those behind a fault, the questions."""
    found = {rule.__name__: rule for some in departure.RULES.values() for rule in some}
    found |= {rule.__name__: rule for rule in behind.BEHIND}
    return found | {question.ask.__name__: question.ask for question in diagnose.QUESTIONS}


@contextmanager
def each_rule(change: Callable[[Any], Any]) -> Iterator[None]:
    """Put something else in the place of every rule."""
    before = departure.RULES, behind.BEHIND, diagnose.QUESTIONS
    departure.RULES = {what: tuple(map(change, some)) for what, some in before[0].items()}
    behind.BEHIND = tuple(map(change, before[1]))
    diagnose.QUESTIONS = tuple(q._replace(ask=change(q.ask)) for q in before[2])
    try:
        yield
    finally:
        departure.RULES, behind.BEHIND, diagnose.QUESTIONS = before


def main(part: str = "") -> None:
    """Print a line for each rule."""
    contributed: dict[str, set[str]] = defaultdict(set)
    whole: dict[str, Told] = {}
    for name, ask in cases().items():

        def noting(rule: Any, name: str = name) -> Any:
            def asked(*given: Any) -> Any:
                answer = None
                try:
                    answer = rule(*given)
                except Exception:
                    contributed[rule.__name__].add(name)
                    raise
                if answer is not None:
                    contributed[rule.__name__].add(name)
                return answer

            return asked

        with each_rule(noting):
            whole[name] = told(ask)
    asks = cases()
    print(f"{len(asks)} verdicts\nlines  kind  line  missed  rule")
    for name, rule in sorted(rules().items()):
        if part not in name:
            continue

        def silent(other: Any, rule: Any = rule) -> Any:
            return (lambda *given: None) if other is rule else other

        with each_rule(silent):
            now = {case: told(asks[case]) for case in contributed[name]}
        changed = [case for case, verdict in now.items() if verdict != whole[case]]
        missed = sum(now[case].holds and not whole[case].holds for case in changed)
        kind = sum(now[case].kind != whole[case].kind for case in changed) - missed
        lines = len(inspect.getsource(rule).splitlines())
        line = len(changed) - kind - missed
        print(f"{lines:5} {kind:5} {line:5} {missed:7}  {name}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
