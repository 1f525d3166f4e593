"""What can be wrong with an attention class, as data: sentences makes the words of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

from attncourse.tracing.operations import SourceLine

_TABLES: dict[str, dict[str, str]] = tomllib.loads(
    files("attncourse.checks").joinpath("sentences.toml").read_text(encoding="utf-8")
)
CAUSES, OBSERVED, NOTES = _TABLES["cause"], _TABLES["observed"], _TABLES["note"]
SENTENCES = {**CAUSES, **OBSERVED, **NOTES}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth a word.

    Args:
        code: what it is: a key of sentences.toml, such as "mask.past".
        line: the learner's own, where it is known.
        facts: plain values that the sentence needs: names, numbers, shapes.
        question: which question found it, by its name.
    """

    code: str
    line: SourceLine | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    question: str = ""

    def __post_init__(self) -> None:
        if self.code not in SENTENCES:
            raise ValueError(f"{self.code!r} has no sentence in sentences.toml")

    @property
    def step(self) -> str:
        """What comes before the dot of the code: the step of attention that it is about."""
        return self.code.partition(".")[0]

    @property
    def names_cause(self) -> bool:
        """Whether the sentence names a cause, and not only what was observed."""
        return self.code in CAUSES

    def at(self, line: SourceLine | None) -> Finding:
        """Return the same of another line."""
        return replace(self, line=line)

    def knowing(self, **facts: Any) -> Finding:
        """Return the same with more facts."""
        return replace(self, facts={**self.facts, **facts})
