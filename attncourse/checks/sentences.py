"""All that a learner reads about a class: a sentence for each finding, and what is folded.

A sentence says what is wrong, after the learner's own line. What PyTorch says, shapes and numbers
are details, folded behind it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attncourse.checks.findings import SENTENCES, Finding

LONGEST = 300  # characters of a sentence, with the line that it quotes


def sentence(finding: Finding) -> str:
    """Return what a learner reads of a finding, at most LONGEST characters with its line."""
    cause = cause_of(finding)
    if finding.line is None or (finding.step == "stub" and finding.code != "stub.raise"):
        return _cut(cause, LONGEST)
    verb = "Stopped in" if "error" in finding.facts else "In"
    place = f"{verb} {finding.line.function}, line {finding.line.number}: "
    said = _cut(f" | {cause}", LONGEST - len(place) - 20)
    return f"{place}{_cut(finding.line.text, LONGEST - len(place) - len(said))}{said}"


def cause_of(finding: Finding) -> str:
    """Return what is wrong, without the line."""
    return SENTENCES[finding.code].format_map(_Words(finding))


def details(finding: Finding) -> str:
    """Return what is folded behind the sentence: the error, shapes, numbers."""
    facts = finding.facts
    parts = []
    if finding.step == "scale" and "factor" in facts:
        right = f"1 / sqrt(width) = {facts['right']:.4g} is right"
        parts.append(f"Here the scores are multiplied by {facts['factor']:.4g}, and {right}.")
    if "error" in facts and finding.code not in ("error", "time"):
        parts.append(_message(facts))
    if facts.get("shapes"):
        parts.append(f"Shapes there: {_shapes(facts)}.")
    return " | ".join(parts)


def in_full(finding: Finding) -> str:
    """Return a sentence with its details."""
    return " | ".join(part for part in (sentence(finding), details(finding)) if part)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(most, 4) - 3].rstrip()}..."


def _message(facts: Mapping[str, Any]) -> str:
    said = f"{facts['error']}: {facts['message']}".removesuffix(": ")
    return said if said.endswith((".", "?", "!")) else f"{said}."


def _shapes(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{n} {name_shape(s, facts['sizes'])}" for n, s in facts["shapes"].items())


def listed(words: Iterable[Any]) -> str:
    """Return words as a list in a sentence.

    >>> listed([1, 2, 3])
    '1, 2 and 3'
    """
    *first, last = map(str, words)
    return f"{', '.join(first)} and {last}" if first else last


def name_shape(shape: tuple[int, ...], sizes: Mapping[str, int]) -> str:
    """Return a shape in words: by the names of its sizes, or of their products.

    >>> name_shape((2, 15, 7), {"b": 2, "num_heads": 3, "num_tokens": 5, "head_dim": 7})
    '(b, num_heads * num_tokens, head_dim) = (2, 15, 7)'
    >>> name_shape((2, 5, 14), {"b": 2, "num_heads": 3, "num_tokens": 5, "head_dim": 7})
    '(b, num_tokens, 14) = (2, 5, 14)'
    """
    factors = [name for name in sizes if sizes[name] > 1]
    is_square = len(shape) == 2 and shape[0] == shape[1]  # a mask or a matrix
    has_b = not is_square and not (len(shape) > 1 and shape[0] == sizes.get("b"))  # in a product
    names = {  # where two products are equal the later one stays: the one of fewer names
        math.prod(sizes[name] for name in some): " * ".join(some)
        for count in (3, 2, 1)
        for some in itertools.combinations(factors, count)
        if count == 1 or has_b or "b" not in some
    }
    if not any(size in names for size in shape):
        return str(shape)
    return f"({', '.join(names.get(size, str(size)) for size in shape)}) = {shape}"


# Words that stand in the sentences: each is made of a finding's facts when a sentence asks for it

AXES = {
    "i": "the queries, down the columns",
    "h": "the heads",
    "b": "the sequences of the batch",
    "ij": "all rows together",
    "bhij": "all numbers together",
}
ONE = {("x",), ("result",)}  # the quantities whose names are singular
CALLED = {"x": "x", "attn_weights": "attention weights", "context_vec": "context vectors"}


class _Words(dict[str, Any]):
    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.facts)

    def __missing__(self, name: str) -> Any:
        return WORDS[name](self)


def _the(name: str) -> str:
    return name if name == "x" else f"the {CALLED.get(name, name)}"


def _capital(text: str) -> str:
    return text if text == "x" or text.startswith("x ") else text[0].upper() + text[1:]


def _named_size(size: float, sizes: Mapping[str, int]) -> str:
    name = next((name for name, have in sizes.items() if have == size), "")
    return f"{name} = {size}" if name else f"{size:.4g}"


WORDS: dict[str, Callable[[Any], str]] = {
    "message_": _message,
    "shapes_": _shapes,
    "the": lambda words: _the(words["name"]),
    "are": lambda words: "is" if words["names"] in ONE else "are",
    "them": lambda words: "it" if words["names"] in ONE else "them",
    "Names": lambda words: _capital(listed(map(_the, words["names"]))),
    "have_": lambda words: name_shape(words["have"], words["sizes"]),
    "want_": lambda words: name_shape(words["want"], words["sizes"]),
    "have_size": lambda words: _named_size(words["have"], words["sizes"]),
    "want_size": lambda words: _named_size(words["want"], words["sizes"]),
    "axes_": lambda words: AXES.get(words["axes"], "more than the keys"),
    "fill": lambda words: f"{words['number'] + 0.0:.4g}",
    "where": lambda words: f" in {words['line']}" if words["line"] else "",
}
