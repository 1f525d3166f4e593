"""What a language model would write next, as lessons print it."""

from __future__ import annotations


class NextWords(tuple[tuple[str, float], ...]):
    """Words with their probabilities, the likeliest first; printed in one line.

    >>> NextWords([("Rome", 0.472), ("the", 0.118)])
    Rome 0.47   the 0.12
    """

    def __repr__(self) -> str:
        return "   ".join(f"{word} {probability:.2f}" for word, probability in self)
