"""Six classes without a label, and what is said of the line that a learner blames.

Each is wrong by one mistake. What its name is stands nowhere but in this file: whoever hunts for it
should not read on.
"""

from __future__ import annotations

import difflib
import inspect
import linecache
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from attncourse.checks.attempt import NOT_ATTEMPTED
from attncourse.checks.by_hand import PROBES, differs
from attncourse.checks.exercises import OPEN
from attncourse.checks.verdict import Verdict
from attncourse.tracing.diffs import Diff
from attncourse.tracing.source import Source
from attncourse.variants.mistakes import (
    FILL,
    MASK,
    MISTAKES,
    QKV,
    SCALE,
    WEIGHTS,
    Mistake,
    OnePageAttention,
)
from attnlib.modules import MultiHeadAttention

# Two mistakes more, which are easily made
MORE: tuple[Mistake, ...] = (
    Mistake(
        "mask after softmax",
        "The future is set to 0 when softmax has already counted it, and nobody divides again.",
        WEIGHTS,
        "attn_weights = self.dropout(attn_scores.softmax(dim=-1).masked_fill(is_future, 0))",
        after=Mistake("no mask", "The line is missing.", FILL, ""),
    ),
    Mistake(
        "keys by W_query",
        "A line was copied, and one name in it was not changed.",
        QKV,
        "queries, keys, values = self.W_query(x), self.W_query(x), self.W_value(x)",
    ),
)
ALL_MISTAKES = MISTAKES + MORE
HIDDEN = {
    "ClassB": "mask one too late",
    "Mystery1": "mask after softmax",
    "Mystery2": "keys by W_query",
    "Mystery3": "merge without transpose",
    "Mystery4": "scale by d_out",
    "Mystery5": "both without transpose",
    "Mystery6": "dropout in eval",
}
_BY_NAME = {mistake.name: mistake for mistake in ALL_MISTAKES}
class_b, *MYSTERIES = (_BY_NAME[name].called(title, title) for title, name in HIDDEN.items())
mystery_1, mystery_2, mystery_3, mystery_4, mystery_5, mystery_6 = MYSTERIES
class_a = OnePageAttention  # for whoever is not to know which of the two is right


# The right page, line by line


def page(cls: type[MultiHeadAttention] = OnePageAttention) -> list[str]:
    """Return the lines of a class's source."""
    file = cls.forward.__code__.co_filename
    if file.startswith("<") and file in linecache.cache:
        return [line.rstrip("\n") for line in linecache.getlines(file)]
    return inspect.getsource(cls).splitlines()


def _unnamed(cls: type[MultiHeadAttention]) -> list[str]:
    """Return the lines of a class under the name of the right one."""
    return [line.replace(cls.__name__, "OnePageAttention") for line in page(cls)]


def numbered(cls: type[MultiHeadAttention] = OnePageAttention) -> Source:
    """Show the source of a class with the number of each line.

    >>> print(str(numbered()).splitlines()[0])
     1  class OnePageAttention(MultiHeadAttention):
    """
    return Source("\n".join(f"{i:2}  {line}".rstrip() for i, line in enumerate(page(cls), start=1)))


def opened(cls: type[MultiHeadAttention], title: str = "") -> Diff:
    """Show where a class departs from the right one: - what it has, + what belongs there.

    Args:
        cls: a class that is wrong by a line or two.
        title: a line above, to tell several apart.

    >>> print(str(opened(class_b)).splitlines()[1].split("triu")[-1])
    (diagonal=2).bool()
    """
    wrong, right = (
        "\n".join(line.partition("  #")[0] for line in text) for text in (_unnamed(cls), page())
    )
    return Diff(wrong, right, title=title, numbered=True)


def changed_lines(cls: type[MultiHeadAttention]) -> set[int]:
    """Return the lines of the right page that a class does not have, counted from 1."""
    matcher = difflib.SequenceMatcher(None, page(), _unnamed(cls), autojunk=False)
    changes = [(i, stop) for kind, i, stop, _, _ in matcher.get_opcodes() if kind != "equal"]
    return {line + 1 for i, stop in changes for line in range(i, stop)}


# The line that a learner blames

Place = tuple[str, int]  # a probe and a number of heads
EVERYWHERE: tuple[Place, ...] = tuple((probe, heads) for probe in PROBES for heads in (1, 2))
WITH_ONE_HEAD: tuple[Place, ...] = tuple((probe, 1) for probe in PROBES)
THE_WEIGHTS: tuple[Place, ...] = (("the weights", 1), ("the weights", 2))
# A token that sees only itself gives itself the weight 1, whatever the score is
NO_CHOICE = tuple(place for place in EVERYWHERE if place[0] in ("one token", "first query"))
ZERO_KEYS: tuple[Place, ...] = (("equal scores", 1), ("equal scores", 2))


class Part(NamedTuple):
    """What a line makes, and where a fault in it cannot show or would most likely show."""

    blind: tuple[Place, ...] = ()
    shows: tuple[Place, ...] = ()
    makes_weights: bool = False  # and nothing else: a fault in it is seen in the weights
    knows_heads: bool = False  # with one head it may be right by luck


PARTS: dict[str, Part] = {
    "split": Part(WITH_ONE_HEAD, (("the weights", 2), ("equal scores", 2)), knows_heads=True),
    "values": Part(THE_WEIGHTS, (("equal scores", 2),), knows_heads=True),
    "projections": Part(),
    "queries": Part((*NO_CHOICE, *ZERO_KEYS), makes_weights=True, knows_heads=True),
    # Not blind at equal scores: they are equal only if W_key makes the keys that are used
    "scores": Part(NO_CHOICE, makes_weights=True, knows_heads=True),
    "scale": Part((*NO_CHOICE, *ZERO_KEYS), makes_weights=True, knows_heads=True),
    "mask": Part((), (("first query", 1),), makes_weights=True),
    "softmax": Part((), (("first query", 1),), makes_weights=True),
    "mix": Part(THE_WEIGHTS, (("equal scores", 1),)),
    "merge": Part((*WITH_ONE_HEAD, ("the weights", 2)), (("equal scores", 2),), knows_heads=True),
    "out_proj": Part(THE_WEIGHTS, (("one token", 1),)),
}
BEGINNINGS = {
    "x = ": "split",
    "queries, keys": "projections",
    "queries = ": "queries",
    "keys = ": "scores",
    "values = ": "values",
    "attn_scores = queries": "scores",
    SCALE: "scale",
    MASK: "mask",
    FILL: "mask",
    WEIGHTS: "softmax",
    "context_vec = attn_weights": "mix",
    "context_vec = self.out_proj": "out_proj",
    "context_vec = ": "merge",
}
# By the mystery: other lines of the right page, and what in their place does exactly the same
JOINED = {
    25: "context_vec = context_vec.transpose(1, 2).contiguous()",
    26: "context_vec = context_vec.transpose(1, 2).reshape(b, num_tokens, self.d_out)",
}
CUT = "x = x.view(b, self.num_heads, num_tokens, self.head_dim).transpose(1, 2)"
AS_GOOD: dict[int, dict[int, str]] = {
    2: {14: "keys = queries", 17: "attn_scores = queries @ queries.transpose(2, 3)"},
    3: JOINED,
    5: {6: CUT, **JOINED},
}


def check_found(found: Mapping[int, int | None]) -> Verdict:
    """Say of each mystery whether the line that is blamed is wrong, or what speaks against it.

    Args:
        found: by the number of the mystery the number of a line, as numbered() shows them, or
            None where nothing is blamed yet.

    Raises:
        ValueError: there is no such mystery.

    >>> print(check_found({1: 12}))
    mystery_1: not line 12, though every probe fits it. Which other lines do they leave?
    """
    unknown = [number for number in found if number not in range(1, len(MYSTERIES) + 1)]
    if unknown:
        raise ValueError(f"found has no mystery {unknown[0]}: they are 1 to {len(MYSTERIES)}")
    wrong = {number: changed_lines(MYSTERIES[number - 1]) for number in found}
    right = {number: min(lines) for number, lines in wrong.items()}
    if all(line is None for line in found.values()):
        return replace(OPEN, written=found, ours=right)
    said = "\n".join(f"mystery_{number}: {_said(number, line)}" for number, line in found.items())
    good = {number: {*lines, *AS_GOOD.get(number, {})} for number, lines in wrong.items()}
    holds = all(line in good[number] for number, line in found.items())
    return Verdict(holds, said, written=found, ours=right)


def _said(number: int, line: int | None) -> str:
    if line is None:
        return NOT_ATTEMPTED
    if not isinstance(line, int):
        return f"{line!r} is not the number of a line. Give one as it is on the page, like 17."
    cls, lines = MYSTERIES[number - 1], page()
    part = _part(lines[line - 1]) if 1 <= line <= len(lines) else None
    if part is None:
        return f"line {line} computes nothing. Which line makes the number that is off?"
    wrong = changed_lines(cls)
    if line in wrong:
        others = sorted(wrong - {line})
        return f"right, line {line}" + (f", and line {others[0]} with it." if others else ".")
    if line in AS_GOOD.get(number, {}):
        slip = " and line ".join(map(str, sorted(wrong)))
        same = f"{AS_GOOD[number][line]} in line {line} would do exactly the same"
        return f"as good as right. The slip is in line {slip}, but {same}."
    return f"not line {line}{_against(cls, PARTS[part])}"


def _against(cls: type[MultiHeadAttention], part: Part) -> str:
    """Return what the probes have against a line that makes this part, or that they have nothing.

    First what follows strictly, then what is likely.
    """
    wrong = {place for place in EVERYWHERE if differs(cls, PROBES[place[0]], place[1])}
    if not wrong:
        return (
            ", though no probe can speak against it: all is right there. Ask with something else: "
            "larger numbers, other sizes, dropout in eval mode."
        )
    for place in EVERYWHERE:
        if place in part.blind and place in wrong:
            return f": it cannot matter {_at(place)}, and this is wrong there."
    if part.makes_weights and not wrong & set(THE_WEIGHTS):
        return ": it only helps to make the attention weights, and these are right."
    if not part.knows_heads and not wrong & set(WITH_ONE_HEAD):
        return ": it knows nothing of the number of heads, and with one head all is right."
    for place in part.shows:
        if place not in wrong:
            return f": a fault in it would most likely show {_at(place)}, and this is right there."
    return ", though every probe fits it. Which other lines do they leave?"


def _at(place: Place) -> str:
    probe, num_heads = place
    return f"at '{probe}' with {'one head' if num_heads == 1 else 'two heads'}"


def _part(line: str) -> str | None:
    """Return what a line of the right page makes, or None."""
    text = line.partition("  #")[0].strip()
    return next((part for start, part in BEGINNINGS.items() if text.startswith(start)), None)
