"""From a learner's class to a verdict: all questions in order, and the line for what they find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from torch import nn

from attncourse.checks.diagnosis import questions
from attncourse.checks.diagnosis.comparison import Comparison
from attncourse.checks.diagnosis.root_cause import root_cause
from attncourse.checks.errors import finding_of
from attncourse.checks.findings import Finding
from attncourse.checks.guard import SECONDS, TimeIsUp, guarded
from attncourse.checks.module_factory import NO_NAMES, Given, ModuleFactory
from attncourse.checks.safe_run import FaultFound
from attncourse.checks.sentences import cause_of, details, sentence
from attncourse.checks.verdict import Verdict
from attncourse.examples import seeded
from attncourse.tracing.tracer import locate


class Question(NamedTuple):
    """One question of an exercise check."""

    name: str
    ask: Callable[[Comparison], Finding | None]
    after: tuple[str, ...] = ()  # these must be answered well before it makes sense


RUNS = ("returns", "parameters")
WHOLE = (*RUNS, "whole")
CALM = (*RUNS, "dropout in eval")
SOME = (*WHOLE, "dropout at all")
QUESTIONS: tuple[Question, ...] = (
    Question("returns", questions.it_returns_something),
    Question("parameters", questions.it_has_the_parameters, RUNS[:1]),
    Question("whole", questions.the_whole, RUNS),
    Question("length", questions.many_tokens, WHOLE),
    Question("large scores", questions.large_scores, WHOLE),
    Question("dropout in eval", questions.dropout_in_eval, RUNS),
    Question("dropout at all", questions.something_is_dropped, CALM),
    Question("dropout in training", questions.each_weight_is_dropped_or_grown, SOME),
    Question("dropout by number", questions.each_weight_is_dropped_for_itself, SOME),
    Question("uneven heads", questions.uneven_heads, WHOLE),  # in a note
    Question("another device", questions.another_device, WHOLE),
    Question("another dtype", questions.another_dtype, WHOLE),  # in a note
)
NAMES = tuple(question.name for question in QUESTIONS)
ARGUMENTS = ("dropout", "qkv_bias", "context_length")  # that a class may not take


def examine(
    given: Given,
    right: type[nn.Module],
    names: Mapping[str, str] = NO_NAMES,
    skip: tuple[str, ...] = (),
    seconds: float = SECONDS,
) -> Verdict:
    """Put all questions to a class, beside the right one of attnlib; the rest is as in the checks.

    Raises:
        ValueError: skip holds what is neither a question nor an argument.
    """
    skip = (skip,) if isinstance(skip, str) else tuple(skip)
    for name in skip:
        if name not in (*NAMES, *ARGUMENTS):
            raise ValueError(
                f"skip={name!r} is neither a question nor an argument: choose from "
                f"{', '.join((*NAMES, *ARGUMENTS))}"
            )
    answers = _Answers(given, right, names, skip)
    try:
        with guarded(seconds), seeded(0):
            answers.ask_all()
    except TimeIsUp as error:
        slow = finding_of(locate(error))
        answers.faults.insert(0, replace(slow, question=answers.now))
    return answers.verdict()


class _Answers:
    """One class, and what the questions have found so far."""

    def __init__(
        self, given: Given, right: type[nn.Module], names: Mapping[str, str], skip: tuple[str, ...]
    ) -> None:
        self.given, self.right, self.names, self.skip = given, right, names, skip
        self.pair: Comparison | None = None
        self.faults: list[Finding] = []
        self.failed: set[str] = set()
        self.now = NAMES[0]

    def ask_all(self) -> None:
        """Ask every question that makes sense after those before it."""
        try:
            without = tuple(name for name in self.skip if name in ARGUMENTS)
            make = ModuleFactory(self.given, self.names, without)
            pair = self.pair = Comparison(make, self.right)
            for question in QUESTIONS:
                self.now = question.name
                if self.failed.intersection(question.after):
                    self.failed.add(question.name)
                    continue
                skipped = "dropout" in self.skip and "dropout" in question.name
                skipped = skipped or question.name in self.skip
                found = None if skipped else _ask(question, pair)
                if found is None:
                    continue
                self.failed.add(question.name)
                if (found.code, found.line) not in [(f.code, f.line) for f in self.faults]:
                    self.faults.append(found)
        except FaultFound as found:
            self.faults.append(replace(found.finding, question=self.now))

    def verdict(self) -> Verdict:
        """Return what was found as a verdict."""
        faults, pair = tuple(self.faults), self.pair
        notes = tuple(cause_of(note) for note in (pair.notes if pair else ()))
        if faults:
            first = faults[0]
            said, cause = sentence(first), sentence(first.at(None))
            return Verdict(False, said, faults, notes, details(first), cause)
        assert pair is not None
        drops = ", and in training dropout falls on single attention weights"
        said = (
            f"{pair.make.name} is right: no token attends to a later one, outputs and gradients "
            f"are those of attnlib's {self.right.__name__}"
            f"{'' if 'dropout' in self.skip else drops}."
        )
        told = [f"Note: {note}" for note in notes]
        return Verdict(True, " ".join([said, *told[:1]]), (), notes, more=" ".join(told[1:]))


def _ask(question: Question, pair: Comparison) -> Finding | None:
    try:
        found = question.ask(pair)
    except FaultFound as stopped:
        found = stopped.finding
    if found is not None:
        with suppress(FaultFound):  # the class may stop in the runs that look for a cause
            found = root_cause(found, pair)
    return found and replace(found, question=question.name)
