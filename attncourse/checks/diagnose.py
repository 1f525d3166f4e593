"""From a learner's class to a verdict: all questions in order, and the line for what they find."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import nn

from attncourse.checks.arguments import slip_of_arguments
from attncourse.checks.attempt import REMEDIES, Diagnosis
from attncourse.checks.conditions import (
    calls_in_turn,
    double_precision,
    half_precision,
    initial_values,
    large_scores,
    many_tokens,
    more_tokens_than_context_length,
    moved,
    token_of_zeros,
    two_runs,
)
from attncourse.checks.door import NO_NAMES, Given, Maker
from attncourse.checks.guard import SECONDS, TimeIsUp, guarded
from attncourse.checks.isolate import (
    equal_keys,
    equal_keys_several_heads,
    one_token,
    the_mask,
    two_tokens_one_head,
    two_tokens_several_heads,
)
from attncourse.checks.origins import Origins
from attncourse.checks.outside import slip_from_outside
from attncourse.checks.own_code import named_classes, own_functions
from attncourse.checks.questions import (
    Answer,
    it_has_the_parameters,
    it_returns_something,
    it_returns_the_right_shape,
    the_weights_returned,
    the_whole,
)
from attncourse.checks.slips import (
    collected_after_the_loop,
    condition_of_the_mask,
    endless_loop,
    kept_in_a_default,
    method_never_called,
    slip_of_an_error,
    step_that_stands_still,
)
from attncourse.checks.training import (
    dropout_by_number,
    dropout_in_eval,
    dropout_in_place,
    dropout_in_training,
    training_without_dropout,
)
from attncourse.checks.trial import Trial
from attncourse.checks.verdict import Fault, Verdict
from attncourse.examples import seeded
from attncourse.tracing.operations import Line
from attncourse.tracing.table import Failure
from attncourse.tracing.tracer import locate


class Question(NamedTuple):
    """One question of an exercise check."""

    name: str
    ask: Callable[[Trial], Answer]
    after: tuple[str, ...] = ()  # these must be answered well before it makes sense
    about: tuple[str, ...] = ()  # the beginnings of codes that it may be about


RUNS = ("returns", "parameters", "shape")
STEPS = (*RUNS, "one token", "mask", "equal keys", "scale", "several heads", "scale, several heads")
LATE = ("values", "context", "merge", "out_proj", "result", "x", "projection", "split", "parts")
EARLY = ("scores", "scale", "queries", "keys", "split", "projection", "parts", "x")

QUESTIONS: tuple[Question, ...] = (
    Question("returns", it_returns_something),
    Question("parameters", it_has_the_parameters, RUNS[:1]),
    Question("shape", it_returns_the_right_shape, RUNS[:2]),
    Question("random", two_runs, RUNS),
    Question("one token", one_token, RUNS, (*LATE, "weights", "softmax", "attention")),
    Question("mask", the_mask, STEPS[:4], ("mask", "attention", "scores", "weights")),
    Question("equal keys", equal_keys, STEPS[:5], ("softmax", "weights", "mask", "attention")),
    Question("scale", two_tokens_one_head, STEPS[:6], EARLY),
    Question("several heads", equal_keys_several_heads, STEPS[:7], LATE),
    Question("scale, several heads", two_tokens_several_heads, STEPS[:8], EARLY),
    Question("whole", the_whole, STEPS),
    Question("calls", calls_in_turn, (*STEPS, "random", "whole")),
    Question("length", many_tokens, (*STEPS, "whole", "calls")),
    Question("a token of zeros", token_of_zeros, (*STEPS, "whole")),
    Question("large scores", large_scores, (*STEPS, "whole")),
    Question("too many tokens", more_tokens_than_context_length, (*RUNS, "one token")),
    Question("training", training_without_dropout, (*RUNS, "random", "mask")),
    Question("dropout in eval", dropout_in_eval, (*RUNS, "random", "one token", "mask")),
    Question(
        "dropout in training",
        dropout_in_training,
        (*RUNS, "random", "one token", "mask", "equal keys", "training", "dropout in eval"),
    ),
    Question("dropout by number", dropout_by_number, ("dropout in training",)),
    Question("dropout, gradients", dropout_in_place, ("whole", "dropout in training")),
    Question("float64", double_precision, (*STEPS, "whole")),
    Question("half", half_precision, (*STEPS, "whole", "float64")),
    Question("initial values", initial_values, RUNS[:2]),
    Question("weights returned", the_weights_returned, (*STEPS, "whole")),
    Question("another device", moved, (*STEPS, "whole")),
)
LINES = {  # where the line is known by its words alone
    "x.in-place": r"\bx\b\s*[-+*/@]=|\bx\.\w+_\(|\bx\[.*\]\s*=",
    "result.type": r"^(return|yield)\b",
    "parameters.in-place": r"\.data\b|weight\S* [-+*/]=|\.(?!__)\w*[a-z]_\(|no_grad",
    "dropout.fixed": r"seed|Generator\(",
    "settings": r"set_default|set_grad_enabled",
}
NAMES = tuple(question.name for question in QUESTIONS)
ARGUMENTS = ("dropout", "qkv_bias", "context_length")  # that a class may not take


def diagnose(
    given: Given,
    right: type[nn.Module],
    names: Mapping[str, str] = NO_NAMES,
    skip: tuple[str, ...] = (),
    seconds: float = SECONDS,
) -> Verdict:
    """Put all questions to a class.

    Args:
        given: a class, a function that makes a module, or a module.
        right: the class of attnlib beside which it runs.
        names: what is called otherwise.
        skip: names of questions to leave out, or of arguments that the class does not take.
        seconds: the time that all of it may take.

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
    trial = None
    faults: list[Fault] = []
    late: list[Fault] = []  # said only after the others
    failed: set[str] = set()
    now = NAMES[0]
    dtype = torch.get_default_dtype()
    try:
        with guarded(seconds), seeded(0):
            try:
                trial = _trial(given, right, names, skip)
                if torch.get_default_dtype() != dtype:
                    torch.set_default_dtype(dtype)
                    cause = (
                        f"The class changes torch's default dtype, from {dtype}, for all the rest "
                        "of "
                        "the program: give dtype to the tensors that need it."
                    )
                    line = trial.line_with(LINES["settings"])
                    faults.append(Fault("settings", "settings", cause, line))
                for question in QUESTIONS:
                    now = question.name
                    if now in skip or _left_out(now, skip) or failed.intersection(question.after):
                        if failed.intersection(question.after):
                            failed.add(now)
                        continue
                    fault = _ask(question, trial)
                    if fault is not None and fault.code == "parameters.bias-never":
                        trial.make.without = (*trial.make.without, "qkv_bias")
                        late.append(_from_its_origin(fault, trial))
                        fault = None
                    if fault is not None:
                        failed.add(now)
                        faults.append(_from_its_origin(_with_line(fault, question, trial), trial))
            except Diagnosis as diagnosis:
                fault = Fault(now, diagnosis.code, str(diagnosis), diagnosis.line)
                faults.append(
                    _from_its_origin(fault, trial) if trial else _from_a_call(fault, given)
                )
    except TimeIsUp as error:
        failure = _where_time_ran_out(error)
        stopped = Line(failure.function, failure.line, failure.source) if failure.line else None
        loop = endless_loop(trial.text() if trial else Origins(()), stopped)
        cause = _too_slow(failure.function, failure.line, failure.source, seconds)
        if trial and (still := step_that_stands_still(trial.text(), loop)):
            loop, cause = still.line, f"{still.cause} {cause.partition(' | Does')[0]}."
        faults.insert(0, Fault(now, "time", cause, loop))
    faults.extend(late)
    not_asked = tuple(
        q.name for q in QUESTIONS if q.name in failed and q.name not in {f.question for f in faults}
    )
    notes = tuple(trial.notes) if trial else ()
    if faults:
        notes = tuple(note for note in notes if note.code != "mask.broadcasts")
        return Verdict(False, faults[0].sentence, tuple(faults), notes, not_asked)
    assert trial is not None
    return Verdict(True, _praise(trial, skip), (), notes)


def _where_time_ran_out(error: BaseException) -> Failure:
    """Return where it was stopped first: a second alarm may ring while we look at the first."""
    failure = locate(error)
    while not failure.line and error.__context__ is not None:
        error = error.__context__
        failure = locate(error)
    return failure


def _too_slow(function: str, line: int, source: str, seconds: float) -> str:
    where = f"in {function}, line {line}: {source} | " if line else "| "
    return f"After {seconds:g} seconds it was stopped {where}Does a loop there never end?"


def _trial(
    given: Given, right: type[nn.Module], names: Mapping[str, str], skip: tuple[str, ...]
) -> Trial:
    """Return a trial; if the class needs d_in to be the width of its result, one like that."""
    maker = Maker(given, names, tuple(name for name in skip if name in ARGUMENTS))
    trial = Trial(maker, right)
    same = Trial(maker, right, one_width=True)
    if names.get("d_in") is not None and names.get("d_in") == names.get("d_out"):
        return same
    try:
        trial.build()
    except Diagnosis as diagnosis:
        if diagnosis.code != "init.error" or "TypeError" in str(diagnosis):
            raise
        try:
            same.build()
        except Diagnosis:
            raise diagnosis from None
        same.note("The class takes only d_in equal to d_out, and was tried with that.")
        return same
    return trial


def _left_out(name: str, skip: tuple[str, ...]) -> bool:
    return ("dropout" in skip and "dropout" in name) or (
        "context_length" in skip and name == "too many tokens"
    )


def _ask(question: Question, trial: Trial) -> Fault | None:
    try:
        answer = question.ask(trial)
    except Diagnosis as diagnosis:
        answer = Fault("", diagnosis.code or question.name, str(diagnosis), diagnosis.line)
    except Exception as error:  # what came back was so odd that we could not compute with it
        said = " ".join(str(error).split())[:200]
        answer = Fault(
            "",
            "check.failed",
            f"The check cannot go on with what the class returns ({type(error).__name__}: {said}).",
        )
    if answer is None:
        return None
    if isinstance(answer, str):
        answer = Fault("", question.name.replace(" ", "-"), answer)
    return Fault(question.name, answer.code, answer.cause, answer.line)


def _with_line(fault: Fault, question: Question, trial: Trial) -> Fault:
    """Add the learner's line: that of the first operation that leaves the path.

    Two witnesses speak: the question, whose input leaves one step that can matter, and the path of
    a usual run. Where the path finds one relation that fits, it knows more. Where it finds the line
    alone, the question names the cause, if it is about this kind of line.
    """
    if (fault.line is None or fault.code == "dropout.fixed") and fault.code in LINES:
        line = trial.line_with(LINES[fault.code]) or fault.line
        return Fault(fault.question, fault.code, fault.cause, line)
    if fault.line is not None or not question.about:
        return fault
    where = trial.usual_departure()
    if where is None:
        return fault
    if where.code == "scale.batch" and _factor(where.cause) == _factor(fault.cause):
        look = ": look at what you divide them by."
        cause = re.sub(r": you divide .*? texts\.", look, where.cause)
        return Fault(fault.question, "scale.wrong", cause, where.line)
    if where.sure:
        return Fault(fault.question, where.code, where.cause, where.line)
    if where.code.startswith(question.about):
        return Fault(fault.question, fault.code, fault.cause, where.line)
    return Fault(fault.question, where.code, where.cause, where.line)


def _factor(said: str) -> str:
    """Return the number by which the scores are multiplied.

    The question and the path run with another number of texts each, so that a factor which comes
    of it is not the same in both.
    """
    return said.partition("multiplied by ")[2].partition(",")[0]


RUN_ASTRAY = ("error.", "result.", "merge.", "context", "state", "check.failed", "attention")
DRAWN = ("diagonal", "past", "late", "leaks", "too-much", "inverted")


def _from_its_origin(fault: Fault, trial: Trial) -> Fault:
    """Say it of the line that made the value, or of the loop, where the text of the class shows it.

    What goes wrong in one line may have been made in another: a number, a mask, an argument.
    """
    text = trial.text()
    if fault.code == "error.TypeError" and fault.line is None and ".forward()" in fault.cause:
        name = next((name for name in text.trees if name.endswith(".forward")), "")
        return Fault(fault.question, fault.code, fault.cause, text.head_of(name) if name else None)
    if fault.code == "result.type" and (line := text.return_of_several()) is not None:
        return Fault(fault.question, fault.code, fault.cause, line)
    if fault.code.startswith(RUN_ASTRAY) or fault.code == fault.question.replace(" ", "-"):
        if (kept := trial.kept_list()) is not None:
            return Fault(fault.question, "state.list", *kept)
        if (slip := text.slip()) is not None:
            return Fault(fault.question, slip.code, slip.cause, slip.line)
    if (deeper := _deeper(fault, trial, text)) is not None:
        return deeper
    if fault.line is None or str(fault.line) in fault.cause:
        return fault
    line = text.origin(fault.code, fault.line)
    kind, _, what = fault.code.partition(".")
    if line is None and ((kind == "mask" and what in DRAWN) or fault.code == "result.unwritten"):
        line = text.loop_of(fault.line) or text.step_of(fault.line)
    line = line or fault.line
    if fault.code.startswith("scale") and (outside := _from_outside(fault, line, trial, text)):
        return outside
    return Fault(fault.question, fault.code, fault.cause, line)


def _from_outside(fault: Fault, line: Line | None, trial: Trial, text: Origins) -> Fault | None:
    """Return which names a line, or else the end of forward, reads from outside the class."""
    forward = next((name for name in text.trees if name.endswith(".forward")), "")
    where = line or text.last_line(forward)
    if where is None:
        return None
    slip = slip_from_outside(text, where, fault.code, fault.cause, trial.build()[0])
    return slip and Fault(fault.question, slip.code, _with_error(slip.cause, fault), slip.line)


def _deeper(fault: Fault, trial: Trial, text: Origins) -> Fault | None:
    """Return what the text or the run before an error shows of a fault, if it is more."""
    if fault.code == "error.TimeIsUp":
        loop = endless_loop(text, fault.line)
        if still := step_that_stands_still(text, loop):
            return Fault(fault.question, "time", f"{still.cause} {fault.cause}", still.line)
        return Fault(fault.question, "time", fault.cause, loop or fault.line)
    slip = slip_of_arguments(text, fault.code, fault.cause)
    if slip is not None:
        return Fault(fault.question, slip.code, _with_error(slip.cause, fault), slip.line)
    if fault.code.startswith(("error.", "length", "result.shape")) and (
        outside := _from_outside(fault, fault.line, trial, text)
    ):
        return outside
    if fault.code in ("parameters.missing", "merge.some-heads", "result.shape") and (
        slip := collected_after_the_loop(text)
    ):
        return Fault(fault.question, slip.code, slip.cause, slip.line)
    if fault.code in ("mask.none", "dropout.none", "out_proj.missing") and (
        slip := method_never_called(text)
    ):
        return Fault(fault.question, slip.code, slip.cause, slip.line)
    if fault.code.startswith(("error.", "state", "length")) and (slip := kept_in_a_default(text)):
        return Fault(fault.question, slip.code, _with_error(slip.cause, fault), slip.line)
    if fault.code == "result.shape" and (where := trial.departure_of_shape()) is not None:
        begin, _, _ = fault.cause.partition(": look at")
        line = text.line_of_origin(where.code, where.line)
        if where.code.startswith("result.") and where.code != "result.axes" and where.line:
            owner = where.line.function.rpartition(".")[0]
            line = text.last_line(f"{owner}.forward") or line
        return Fault(fault.question, where.code, f"{begin}. {where.cause}", line)
    if fault.code == "result.shape" and (line := text.loop_of_tokens(fault.cause)) is not None:
        return Fault(fault.question, fault.code, fault.cause, line)
    if fault.code in ("mask.none", "training", "state", "length") and (
        slip := condition_of_the_mask(text)
    ):
        return Fault(fault.question, slip.code, slip.cause, slip.line)
    if fault.code == "gradient" and (line := text.without_gradient()) is not None:
        return Fault(fault.question, fault.code, fault.cause, line)
    if fault.code in ("out_proj.missing", "result.none"):
        name = f"{fault.line.function.rpartition('.')[0]}.forward" if fault.line else ""
        line = text.last_line(name)
        return Fault(fault.question, fault.code, fault.cause, line) if line is not None else None
    if fault.code.startswith(("error.", "state", "length")):
        if fault.line is not None:
            slip = slip_of_an_error(text, fault.line, fault.cause)
            if slip is not None:
                return Fault(fault.question, slip.code, _with_error(slip.cause, fault), slip.line)
        kept = trial.kept_by_forward()
        if kept is not None:
            return Fault(fault.question, "state.kept", _with_error(kept[0], fault), kept[1])
    if fault.code.startswith("error.") and DTYPES.search(fault.cause):
        line = trial.line_of_another_dtype()
        if line is not None and line != fault.line:
            cause = f"This tensor is {torch.float32} whatever x is: give it dtype=x.dtype."
            return Fault(fault.question, "error.dtype", _with_error(cause, fault), line)
    if fault.code.startswith(("error.", "length")) and SIZES_DIFFER.search(fault.cause):
        where = trial.mask_of_another_size(fault.cause)
        if where is not None and where.line is not None:
            line = text.line_of_origin(where.code, where.line)
            code = fault.code if fault.code == "length" else where.code
            return Fault(fault.question, code, _with_error(where.cause, fault), line)
    if fault.code.startswith("error.") and fault.line is not None:
        where = trial.departure_before_an_error()
        if where is not None and where.line is not None:
            line = text.line_of_origin(where.code, where.line)
            return Fault(fault.question, where.code, _with_error(where.cause, fault), line)
        line = text.maker_of_a_size(fault.line, fault.cause)
        if line is None and not trial.one_width:
            line = text.width_of_x(fault.line, fault.cause)
        if line is not None:
            return Fault(fault.question, fault.code, fault.cause, line)
    return None


def _from_a_call(fault: Fault, given: Given) -> Fault:
    """Say of a class that cannot be made which arguments it hands on wrongly, if it does."""
    kinds = [given, *named_classes(given)]
    text = Origins(function for kind in kinds for function in own_functions(kind))
    slip = slip_of_arguments(text, fault.code, fault.cause)
    if slip is None:
        return fault
    return Fault(fault.question, slip.code, _with_error(slip.cause, fault), slip.line)


SIZES_DIFFER = re.compile(r"must match|existing size|broadcast|expanded size|shape of the mask")
DTYPES = re.compile(r"same dtype|expected scalar type|must have the same|dtypes must")


def _with_error(cause: str, fault: Fault) -> str:
    """Return a cause with the error to which it led."""
    if not fault.code.startswith(("error", "init", "length")):
        return cause
    before, _, where = fault.cause.partition("Stopped ")
    for remedy in REMEDIES.values():
        if remedy.endswith("?"):  # a guess, where the cause is known now
            where = where.removesuffix(f" {remedy}")
    if not where:
        return f"{cause} That leads to: {fault.cause}"
    before = f" {before[0].lower()}{before[1:].rstrip(': ')}" if before else ""
    return f"{cause} So{before} it stops {where}"


def _praise(trial: Trial, skip: tuple[str, ...]) -> str:
    name, right = trial.make.name, trial.right.__name__
    drops = ", and in training dropout falls on single attention weights"
    dropout = "" if "dropout" in skip else drops
    sentence = (
        f"{name} is right: no token sees a later one, outputs and gradients are those of "
        f"attnlib's {right}{dropout}."
    )
    return " ".join([sentence, *(f"Note: {note}" for note in trial.notes if not note.code)])
