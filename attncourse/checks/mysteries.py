"""What probes leave of the parts of a class that is wrong by a line and has no label.

What each probe says of a fault is measured on the pool of the hunt: right, wrong, or NaN. A probe
strikes out the parts of whose faults it never says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from attncourse.checks.by_hand import NAN, PROBES, RIGHT, answer
from attncourse.checks.exercises import OPEN, value_check
from attncourse.checks.verdict import Verdict
from attncourse.variants.hunt import MYSTERIES, POOL, case
from attnlib.modules import MultiHeadAttention

SHOWS = {frozenset({RIGHT}): "never show", frozenset({RIGHT, NAN}): "show as NaN only"}
Grid = dict[str, dict[str, str]]  # by part and probe: how its faults show there


@cache
def _said() -> dict[str, dict[str, frozenset[str]]]:
    """Return, for each part and probe, all that the probe says of the faults of the pool."""
    each = {part: [answers(case(one, "Case")) for one in POOL[part]] for part in POOL}
    return {
        part: {probe: frozenset(one[probe] for one in said) for probe in PROBES}
        for part, said in each.items()
    }


def grid() -> Grid:
    """Return, for each part and probe, how the faults of the pool show there.

    >>> grid()["scale"]["one token"]
    'never show'
    """

    def kind(said: frozenset[str]) -> str:
        return SHOWS.get(said, "sometimes show" if RIGHT in said else "always show")

    return {part: {probe: kind(at[probe]) for probe in at} for part, at in _said().items()}


def answers(cls: type[MultiHeadAttention]) -> dict[str, str]:
    """Return what each probe says of a class."""
    return {probe: answer(cls, probe) for probe in PROBES}


def strikes(cls: type[MultiHeadAttention]) -> dict[str, str]:
    """Return the parts that probes strike out of a class that is wrong, each with a probe.

    >>> sorted(set(POOL) - set(strikes(MYSTERIES[1])))
    ['mask and softmax']
    """
    found: dict[str, str] = {}
    mine = answers(cls)
    for part, said in _said().items():
        for probe in PROBES:
            if mine[probe] not in said[probe]:
                found.setdefault(part, probe)
    return found


def left(cls: type[MultiHeadAttention]) -> list[str]:
    """Return the parts that no probe strikes out."""
    struck = strikes(cls)
    return [part for part in POOL if part not in struck]


# The part that a learner blames


@value_check(reference=lambda cls: next(iter(left(cls)), None))
def check_part(part: str, cls: type[MultiHeadAttention]) -> Verdict:
    """Say of a part whether it is the only one left, or which test input excludes it.

    Args:
        part: a name of the grid, or half of one; None where nothing is blamed yet.
        cls: the class that is wrong by a line.

    >>> check_part("split", MYSTERIES[1])
    Not the split: at 'one head' its faults never show, and this class is wrong there.
    """
    said = str(part).strip().lower().removeprefix("the ")
    part = next((name for name in POOL if said in (name, *name.split(" and "))), "")
    if not part:
        return Verdict(False, f"{said!r} is no part. There are: {', '.join(POOL)}.")
    if (probe := strikes(cls).get(part)) is None:
        return Verdict(True, f"Right, the {part}: the table leaves this part, and no other.")
    if (here := answer(cls, probe)) == NAN:
        return Verdict(False, f"Not the {part}: at '{probe}' its faults never give NaN, as here.")
    said = f"at '{probe}' its faults {grid()[part][probe]}, and this class is {here} there."
    return Verdict(False, f"Not the {part}: {said}")


@value_check(reference=lambda: {n: left(MYSTERIES[n])[0] for n in (2, 3, 4)})
def check_found(found: Mapping[int, str | None]) -> Verdict:
    """Say of each mystery whether its part was found.

    Args:
        found: by the number of the mystery a part, or None where nothing is blamed yet.

    >>> check_found({2: "queries and keys", 3: None})
    mystery_2: Right, the queries and keys: the table leaves this part, and no other.
    mystery_3: not attempted yet
    """
    if all(part is None for part in found.values()):
        return OPEN
    said = {number: check_part(part, MYSTERIES[number]) for number, part in found.items()}
    sentence = "\n".join(f"mystery_{number}: {verdict}" for number, verdict in said.items())
    return Verdict(all(said.values()), sentence)
