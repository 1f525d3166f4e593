"""What can be wrong with an attention class, as data: sentences makes the words of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attncourse.checks.kinds import Kind as Kind
from attncourse.tracing.operations import SourceLine


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth a word.

    Args:
        kind: what it is.
        line: the learner's own, where it is known.
        facts: plain values that the sentence needs: names, numbers, shapes.
        sure: whether one relation fits; otherwise it is only known what should be there.
        question: which question found it, by its name.
    """

    kind: Kind
    line: SourceLine | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    sure: bool = True
    question: str = ""

    @property
    def code(self) -> str:
        """The kind as text."""
        return self.kind.value

    def at(self, line: SourceLine | None) -> Finding:
        """Return the same of another line."""
        return replace(self, line=line)

    def knowing(self, **facts: Any) -> Finding:
        """Return the same with more facts."""
        return replace(self, facts={**self.facts, **facts})
