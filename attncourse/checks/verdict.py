"""What a check answers."""

from __future__ import annotations

import html
from dataclasses import dataclass

from attncourse.checks.findings import Finding
from attncourse.tracing.operations import SourceLine


class Note(str):
    """What is worth a word and no fault.

    Args:
        text: a sentence.
        code: short and stable, for counting.

    >>> Note("The mask broadcasts.", "note.broadcasts").code
    'note.broadcasts'
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
        more: what a notebook folds behind the sentence: errors, shapes, numbers.
        faults: all that was found, the first one first: the sentence is about that.
        notes: what is worth a word, and no fault.
        not_asked: questions that could not be asked because of an earlier fault.
    """

    holds: bool
    sentence: str
    faults: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()
    not_asked: tuple[str, ...] = ()
    more: str = ""

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str | None:
        """Return the sentence with the rest folded behind it; None where there is no rest."""
        if not self.more:
            return None
        said, more = html.escape(self.sentence), html.escape(self.more)
        return f"<p>{said}</p><details><summary>More</summary>{more}</details>"

    @property
    def question(self) -> str:
        """The question that failed first; empty if none did."""
        return self.faults[0].question if self.faults else ""

    @property
    def code(self) -> str:
        """The code of the first fault; empty if there is none."""
        return self.faults[0].code if self.faults else ""

    @property
    def line(self) -> SourceLine | None:
        """The learner's own line at which the first fault is, where it is known."""
        return self.faults[0].line if self.faults else None
