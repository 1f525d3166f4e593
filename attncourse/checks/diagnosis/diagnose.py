"""From a learner's class to a verdict: all questions in order, and the line for what they find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import nn

from attncourse.checks.diagnosis import conditions, questions, training
from attncourse.checks.diagnosis.behind import behind
from attncourse.checks.diagnosis.trial import Trial
from attncourse.checks.findings import Finding, Kind
from attncourse.checks.guard import SECONDS, TimeIsUp, guarded
from attncourse.checks.module_factory import NO_NAMES, Given, ModuleFactory
from attncourse.checks.safe_run import FaultFound
from attncourse.checks.sentences import cause_of, details, sentence
from attncourse.checks.verdict import Verdict
from attncourse.examples import seeded
from attncourse.tracing.operations import SourceLine
from attncourse.tracing.tracer import locate


class Question(NamedTuple):
    """One question of an exercise check."""

    name: str
    ask: Callable[[Trial], Finding | None]
    after: tuple[str, ...] = ()  # these must be answered well before it makes sense


RUNS = ("returns", "parameters")
WHOLE = (*RUNS, "whole")
CALM = (*RUNS, "training", "dropout in eval")
SOME = (*WHOLE, "dropout at all")
DROPS = (*WHOLE, "dropout in training")

# Those that change fewer than three planted verdicts stay for what nothing else notices: a buffer
# left behind, dropout in place, scores of 0 taken for hidden ones, x added where the widths agree
QUESTIONS: tuple[Question, ...] = (
    Question("returns", questions.it_returns_something),
    Question("parameters", questions.it_has_the_parameters, RUNS[:1]),
    Question("random", conditions.two_runs, RUNS),
    Question("equal scores", conditions.equal_scores, (*RUNS, "random")),
    Question("whole", questions.the_whole, (*RUNS, "random", "equal scores")),
    Question("one width", conditions.one_width, WHOLE),
    Question("length", conditions.many_tokens, WHOLE),
    Question("many heads", conditions.many_heads, WHOLE),  # heads["10"] comes before heads["2"]
    Question("large scores", conditions.large_scores, WHOLE),
    Question("training", training.training_without_dropout, (*RUNS, "random")),
    Question("dropout in eval", training.dropout_in_eval, (*RUNS, "random")),
    Question("dropout at all", training.something_is_dropped, CALM),
    Question("dropout in training", training.each_weight_is_dropped_or_grown, SOME),
    Question("dropout by number", training.each_weight_is_dropped_for_itself, DROPS),
    Question("dropout, gradients", training.gradients_with_dropout, DROPS),
    Question("initial values", conditions.initial_values, RUNS[:2]),
    Question("another device", conditions.another_device, WHOLE),
    Question("another dtype", conditions.another_dtype, WHOLE),  # in a note
)
NAMES = tuple(question.name for question in QUESTIONS)
ARGUMENTS = ("dropout", "qkv_bias", "context_length")  # that a class may not take
last_kinds: dict[str, Kind] = {}  # the fault of the last try, by the name of the right class


def diagnose(
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
    inquiry = Inquiry(given, right, names, skip)
    try:
        with guarded(seconds), seeded(0):
            inquiry.ask_all()
    except TimeIsUp as error:
        slow = Finding(Kind.TIME, _where_time_ran_out(error))
        inquiry.faults.insert(0, replace(slow, question=inquiry.now))
    return _verdict(inquiry, skip)


class Inquiry:
    """One class, and what the questions have found so far."""

    def __init__(
        self, given: Given, right: type[nn.Module], names: Mapping[str, str], skip: tuple[str, ...]
    ) -> None:
        self.given, self.right, self.names, self.skip = given, right, names, skip
        self.trial: Trial | None = None
        self.faults: list[Finding] = []
        self.failed: set[str] = set()
        self.now = NAMES[0]

    def ask_all(self) -> None:
        """Ask every question that makes sense after those before it."""
        late: list[Finding] = []  # said only after the others
        dtype = torch.get_default_dtype()
        try:
            without = tuple(name for name in self.skip if name in ARGUMENTS)
            trial = self.trial = Trial(ModuleFactory(self.given, self.names, without), self.right)
            for one_width in (trial.one_width, True, False):  # d_in may have to be d_out
                trial.one_width = one_width
                with suppress(FaultFound):
                    trial.build()
                    break
            if torch.get_default_dtype() != dtype:
                torch.set_default_dtype(dtype)
                self.faults.append(behind(Finding(Kind.SETTINGS, None, {"dtype": dtype}), trial))
            for question in QUESTIONS:
                self.now = question.name
                if self.failed.intersection(question.after):
                    self.failed.add(question.name)
                    continue
                skipped = "dropout" in self.skip and "dropout" in question.name
                skipped = skipped or question.name in self.skip
                found = None if skipped else _ask(question, trial)
                if found is None:
                    continue
                if found.kind is Kind.PARAMETERS_BIAS_NEVER:
                    trial.make.without = (*trial.make.without, "qkv_bias")
                    late.append(found)
                    continue
                self.failed.add(question.name)
                if (found.kind, found.line) not in [(f.kind, f.line) for f in self.faults]:
                    self.faults.append(found)
        except FaultFound as found:
            self.faults.append(replace(found.finding, question=self.now))
        self.faults += late


def _ask(question: Question, trial: Trial) -> Finding | None:
    try:
        found = question.ask(trial)
    except FaultFound as stopped:
        found = stopped.finding
    except Exception as error:  # what came back was so odd that we could not compute with it
        message = " ".join(str(error).split())[:100]
        facts = {"error": type(error).__name__, "message": message}
        found = Finding(Kind.CHECK_FAILED, None, facts)
    if found is None:
        return None
    found = replace(found, question=question.name)
    try:
        return behind(found, trial)
    except Exception:  # what the class returns may be too odd to look behind
        return found


def _where_time_ran_out(error: BaseException) -> SourceLine | None:
    """Return where it was stopped first: a second alarm may ring while we look at the first."""
    failure = locate(error)
    while not failure.line and error.__context__ is not None:
        error = error.__context__
        failure = locate(error)
    return SourceLine(failure.function, failure.line, failure.source) if failure.line else None


def _verdict(inquiry: Inquiry, skip: tuple[str, ...]) -> Verdict:
    faults, trial, right = tuple(inquiry.faults), inquiry.trial, inquiry.right.__name__
    notes = tuple(cause_of(note) for note in (trial.notes if trial else ()))
    asked = {fault.question for fault in faults}
    not_asked = tuple(q.name for q in QUESTIONS if q.name in inquiry.failed - asked)
    if faults:
        again = last_kinds.get(right) is faults[0].kind
        last_kinds[right] = faults[0].kind
        said = sentence(faults[0], again)
        cause = sentence(faults[0].at(None), again)
        return Verdict(False, said, faults, notes, not_asked, details(faults[0]), cause)
    assert trial is not None
    last_kinds.pop(right, None)
    drops = ", and in training dropout falls on single attention weights"
    said = (
        f"{trial.make.name} is right: no token sees a later one, outputs and gradients are those "
        f"of attnlib's {right}{'' if 'dropout' in skip else drops}."
    )
    told = [f"Note: {note}" for note in notes]
    return Verdict(True, " ".join([said, *told[:1]]), (), notes, more=" ".join(told[1:]))
