"""What a check answers."""

from __future__ import annotations

from dataclasses import dataclass

from attncourse.tracing.operations import Line


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Args:
        question: which question found it, by its name.
        code: what it is, short and stable, for counting: "scale.none".
        cause: what it is, in a sentence.
        line: the learner's own line, where it is known.
    """

    question: str
    code: str
    cause: str
    line: Line | None = None

    @property
    def sentence(self) -> str:
        """The line and the cause, as a learner reads them."""
        if self.line is None or f"line {self.line.number}: {self.line.text}" in self.cause:
            return self.cause
        return f"In {self.line} | {self.cause}"


class Note(str):
    """What is worth a word and no fault.

    Args:
        text: a sentence.
        code: short and stable, for counting. A note with a code is for whoever counts or writes
            lessons: it stays out of the learner's sentence.

    >>> Note("The mask broadcasts.", "mask.broadcasts").code
    'mask.broadcasts'
    """

    code: str

    def __new__(cls, text: str, code: str = "") -> Note:
        """Make a string that carries a code."""
        note = super().__new__(cls, text)
        note.code = code
        return note


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and a sentence that says so.

    The checks of an exercise fill in the rest, for whoever counts mistakes or writes lessons.

    Args:
        holds: whether it does; a verdict is true or false like this.
        sentence: what a learner reads.
        faults: all that was found, the first one first: the sentence is about that.
        notes: what is worth a word, and no fault; one with a code is not in the sentence.
        not_asked: questions that could not be asked because of an earlier fault.
    """

    holds: bool
    sentence: str
    faults: tuple[Fault, ...] = ()
    notes: tuple[Note, ...] = ()
    not_asked: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return self.sentence

    @property
    def question(self) -> str:
        """The question that failed first; empty if none did."""
        return self.faults[0].question if self.faults else ""

    @property
    def code(self) -> str:
        """The code of the first fault; empty if there is none."""
        return self.faults[0].code if self.faults else ""

    @property
    def line(self) -> Line | None:
        """The learner's own line at which the first fault is, where it is known."""
        return self.faults[0].line if self.faults else None
