"""All that a learner reads about a class: a sentence for each kind, and what is folded.

A sentence says what is wrong, after the learner's own line. What PyTorch says, shapes and numbers
are details, folded behind it. The finished line of code comes only at the second try.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attncourse.checks.findings import Finding, Kind
from attncourse.tracing.operations import SourceLine

LONGEST = 300  # characters of a sentence, with the line that it quotes
PLAIN_ERRORS = (Kind.ERROR, Kind.ERROR_ARGUMENTS, Kind.TIME)  # whose sentence is the error's own


# The finished line, for the second try
CAT = "Write torch.cat([head(x) for head in self.heads], dim=-1)."
JOIN = "First transpose(1, 2), then view."
REMEDIES: dict[str, str] = {  # by the kind, or else by its step
    "split": "First view(b, num_tokens, num_heads, head_dim), then transpose(1, 2).",
    "scale": "Divide them by {divisor}**0.5.",
    Kind.SCALE_TWICE: "",
    Kind.SCORES_PAIR: "Write queries @ keys.transpose(-2, -1).",
    Kind.SCORES_TRANSPOSED: "Write queries @ keys.transpose(-2, -1).",
    Kind.MASK_AFTER_SOFTMAX: "Write scores.masked_fill(is_future, -torch.inf).",
    Kind.MASK_NONE: "Write scores.masked_fill(is_future, -torch.inf), or is_causal=True.",
    Kind.WEIGHTS_TRANSPOSED: "Write attn_weights @ values.",
    Kind.VALUES_OTHER: "Write attn_weights @ values.",
    Kind.MERGE_MIXED: JOIN,
    Kind.MERGE_ALTERNATING: JOIN,
    Kind.MERGE_AXIS: "Write torch.cat(results, dim=-1).",
    Kind.MERGE_ADDED: "Write torch.cat(results, dim=-1).",
    Kind.MERGE_SOME_HEADS: CAT,
    Kind.HEADS_NOT_RUN: CAT,
    Kind.HEADS_CHAINED: CAT,
    Kind.OUT_PROJ_MISSING: "End with self.out_proj(context_vec).",
    Kind.DROPOUT_NONE: "Write attn_weights = self.dropout(attn_weights).",
    Kind.DROPOUT_PLACE: "Write attn_weights = self.dropout(attn_weights).",
}


def sentence(finding: Finding, again: bool = False) -> str:
    """Return what a learner reads of a finding: the line and the cause, at most LONGEST characters.

    Args:
        finding: what is wrong.
        again: whether the same was found at the last try, so that the finished line helps.
    """
    when = finding.facts.get("when")
    cause = f"{f'With {when}: ' if when else ''}{cause_of(finding)}"
    line = REMEDIES.get(finding.kind, REMEDIES.get(finding.kind.step, "")) if again else ""
    remedy = line.format_map(_Words(finding))
    if finding.line is None or (
        finding.kind.step == "stub" and finding.kind is not Kind.STUB_RAISE
    ):
        return _cut(f"{cause} {remedy}".strip(), LONGEST)
    stopped_here = "error" in finding.facts and "stopped" not in finding.facts
    verb = "Stopped in" if stopped_here else "In"
    place = f"{verb} {finding.line.function}, line {finding.line.number}: "
    said = _cut(f" | {cause} {remedy}".rstrip(), LONGEST - len(place) - 20)
    return f"{place}{_cut(finding.line.text, LONGEST - len(place) - len(said))}{said}"


def cause_of(finding: Finding) -> str:
    """Return what is wrong, without the line."""
    return finding.kind.cause.format_map(_Words(finding))


def details(finding: Finding) -> str:
    """Return what is folded behind the sentence: the error, shapes, numbers."""
    facts = finding.facts
    parts = []
    if finding.kind.step == "scale" and "factor" in facts:
        right = f"1 / sqrt(width) = {facts['right']:.4g} is right"
        parts.append(f"Here the scores are multiplied by {facts['factor']:.4g}, and {right}.")
    if "stopped" in facts:
        parts.append(f"So it stops in {facts['stopped']}")
    if "error" in facts and ("stopped" in facts or finding.kind not in PLAIN_ERRORS):
        parts.append(_message(facts))
    if facts.get("shapes"):
        met = (f"{name} {name_shape(s, facts['sizes'])}" for name, s in facts["shapes"].items())
        parts.append(f"Shapes there: {', '.join(met)}.")
    if "made_with" in facts:
        parts.append(f"It was made with {facts['made_with']}.")
    return " | ".join(parts)


def in_full(finding: Finding) -> str:
    """Return a sentence with its details."""
    return " | ".join(part for part in (sentence(finding), details(finding)) if part)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(most, 4) - 3].rstrip()}..."


def _message(facts: Mapping[str, Any]) -> str:
    said = f"{facts['error']}: {facts['message']}".removesuffix(": ")
    return said if said.endswith((".", "?", "!")) else f"{said}."


def listed(words: Iterable[Any]) -> str:
    """Return words as a list in a sentence.

    >>> listed([1, 2, 3])
    '1, 2 and 3'
    """
    *first, last = map(str, words)
    return f"{', '.join(first)} and {last}" if first else last


def _ranges(places: tuple[int, ...]) -> str:
    if len(places) > 2 and places == tuple(range(places[0], places[-1] + 1)):
        return f"{places[0]} to {places[-1]}"
    return listed(places)


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

DOES = {
    "add": "adds something", "iadd": "adds something", "sub": "subtracts something",
    "mul": "multiplies by something", "imul": "multiplies by something",
    "div": "divides by something", "truediv": "divides by something",
    "matmul": "makes another product", "bmm": "makes another product",
    "einsum": "makes another product", "sum": "adds numbers up", "mean": "takes a mean",
    "getitem": "takes out a part", "setitem": "overwrites a part", "cat": "puts parts together",
    "stack": "puts parts together", "softmax": "applies softmax", "linear": "makes a product",
    "masked_fill": "overwrites a part", "view": "reads the numbers in other rows",
    "reshape": "reads the numbers in other rows"
}  # fmt: skip
PLAIN = {"dict": "keep each layer on self, under its own name"}
AXES = {
    "i": "the queries, down the columns",
    "h": "the heads",
    "b": "the texts of the batch",
    "ij": "all rows together",
    "bhij": "all numbers together",
}
ADDED = {"add": "adding", "iadd": "adding", "sum": "adding", "mean": "averaging"}
ARTICLES = {"x": "x", "attn_weights": "the attention weights", "context_vec": "the context vectors"}


class _Words(dict[str, Any]):
    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.facts)
        self.finding = finding

    def __missing__(self, name: str) -> Any:
        return WORDS[name](self)


def _the(words: Mapping[str, Any]) -> str:
    return ARTICLES.get(words["name"], f"the {words['name']}")


def _capital(text: str) -> str:
    return text if text.startswith("x ") or text == "x" else text[0].upper() + text[1:]


def _does(words: Mapping[str, Any]) -> str:
    name = str(words["operation"]).strip("_")
    return DOES.get(name) or DOES.get(name.removeprefix("r")) or f"applies {words['operation']}"


def _outside(words: Mapping[str, Any]) -> str:
    named = words["variables"]
    numbers = [value for value in named.values() if isinstance(value, int)]
    several = len(named) > 1
    are = "are the notebook's variables" if several else "is the notebook's variable"
    return f"{listed(named)} here {are}" + (f", {listed(numbers)}" if numbers else "")


def _named_size(words: Mapping[str, Any], size: int) -> str:
    name = next((name for name, have in words["sizes"].items() if have == size), "")
    return f"{name} = {size}" if name else str(size)


def _where(line: SourceLine | None) -> str:
    return f" in {line.function.rpartition('.')[2]}, line {line.number}" if line else ""


def _shape(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda words: name_shape(words[key], words["sizes"])


WORDS: dict[str, Callable[[Any], str]] = {
    "message_": _message,
    "the": _the,
    "The": lambda words: _capital(_the(words)),
    "are": lambda words: "is" if words["name"] in {"x", "result"} else "are",
    "does": _does,
    "have_": _shape("have"),
    "want_": _shape("want"),
    "instead": lambda words: PLAIN.get(words["plain"], "make it an nn.ModuleList"),
    "Listed_": lambda words: listed(words["names"]),
    "asked_": lambda words: _named_size(words, words["asked"]),
    "right_": lambda words: _named_size(words, words["right"]),
    "Names": lambda words: _capital(listed(f"the {name}" for name in words["names"])),
    "swapped": lambda words: listed(f"{k} holds the {v}" for k, v in words["holds"].items()),
    "columns_": lambda words: _ranges(words["columns"]),
    "first_": lambda words: words["first"].replace("attn_", "attention "),
    "axis_": lambda words: {"h": "head", "b": "text"}[words["axis"]],
    "axes_": lambda words: AXES.get(words["axes"], "more than the keys"),
    "root_of": lambda words: "the root of " if words["root"] else "",
    "divisor": lambda words: "keys.shape[-1]" if words.get("width") == "d_out" else "head_dim",
    "fill_": lambda words: f"{words['number'] + 0.0:.4g}",
    "added": lambda words: ADDED.get(words["operation"].strip("_"), words["operation"]),
    "some_heads": lambda words: f"head {listed(words['heads'])}",
    "missing_": lambda words: f"head {listed(words['missing'])}",
    "Listed": _outside,
    "where": lambda words: _where(words["line"]),
}
