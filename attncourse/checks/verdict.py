"""What a check answers."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

from attncourse.checks.findings import Finding
from attncourse.renamed import explain_renamed
from attncourse.tracing.operations import SourceLine

# Sign, word and color; white on the color has a contrast of 5 at least, on light pages and dark
YES = ("✓", "Yes", "#00704f")
NO = ("✗", "Not yet", "#a94400")
STOPPED = ("■", "Stopped", "#8f2a63")
OPEN = ("○", "Not attempted yet", "#5f6873")
CODE = "font-size: 0.93em; white-space: pre-wrap; overflow-wrap: anywhere"


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and a sentence that says so.

    The checks of an exercise fill in the rest, for whoever counts mistakes or writes lessons.

    Args:
        holds: whether it does; a verdict is true or false like this.
        sentence: what a learner reads.
        faults: all that was found, the first one first: the sentence is about that.
        notes: what is worth a word, and no fault.
        more: what a notebook folds behind the sentence: errors, shapes, numbers.
        cause: the sentence without the line that it quotes.
        answer: what was checked: the learner's function, class or value.
        reference: the course's own solution.
    """

    holds: bool
    sentence: str
    faults: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    more: str = ""
    cause: str = ""
    answer: Any = field(default=None, compare=False)
    reference: Any = field(default=None, compare=False)

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        """Return the verdict to look at: sign and word in a color, the line as code, the cause."""
        sign, word, color = self._look()
        badge = (
            f'<b style="padding: 0.15em 0.6em; border-radius: 3px; color: #fff; '
            f'background: {color}"><span aria-hidden="true">{sign} </span>{word}</b>'
        )
        parts = [badge if sign == OPEN[0] else f"{badge} {html.escape(self.sentence)}"]
        if self.line is not None and self.cause:
            where = f"{self.line.function}, line {self.line.number}"
            code = f"<code>{html.escape(self.line.text)}</code>"
            parts[:] = [
                f"{badge} <small>{html.escape(where)}</small>",
                f'<span style="{CODE}">{code}</span>',
                html.escape(self.cause),
            ]
        if self.more:
            folded = html.escape(self.more)
            parts.append(f"<details><summary>More</summary>{folded}</details>")
        rows = "".join(f'<div style="margin: 0.45em 0">{part}</div>' for part in parts)
        box = "padding: 0.1em 0.9em; max-width: 46em; line-height: 1.5"
        return f'<div style="border-left: 5px solid {color}; {box}">{rows}</div>'

    def _look(self) -> tuple[str, str, str]:
        if self.holds:
            return YES
        if not self.faults:
            return NO
        first = self.faults[0]
        return OPEN if first.code == "stub" else STOPPED if first.step in ("error", "time") else NO

    def answer_or_reference(self) -> Any:
        """Return what the learner wrote if it is right, else the course's own solution.

        Raises:
            ValueError: the check is not one of an exercise, so there is no reference.

        >>> Verdict(False, "Not yet.", reference=len).answer_or_reference()([2, 3])
        2
        """
        if self.reference is None:
            raise ValueError("only a check of an exercise knows an answer; this one has none")
        return self.answer if self.holds else self.reference

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


explain_renamed(Verdict)
