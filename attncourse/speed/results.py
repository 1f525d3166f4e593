"""Read the stored results of `make bench`, and put them into words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from attncourse.speed.clock import machine, machine_name, ratio

SCHEMA = 1
MANY_FAULTS = 1000
MEASURED = Path(__file__).with_name("measured")


def stored_results() -> dict[str, dict[str, Any]]:
    """Return the stored result of each machine on which `make bench` was run, by name."""
    found = {}
    for path in sorted(MEASURED.glob("*.json")):
        result = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(result, dict) and result.get("schema") == SCHEMA and not result["quick"]:
            found[path.stem] = result
    return found


def title(result: dict[str, Any]) -> str:
    """Return one line about the machine that a result is from."""
    found = result["machine"]
    name = found["gpu"] or found["processor"]
    threads = found["threads"]
    plural = "" if threads == 1 else "s"
    return (
        f"{name}, {found['cores']} cores, {threads} thread{plural}, "
        f"torch {found['torch']}, {result['date']}"
    )


class Crossing(NamedTuple):
    """Two variants on the stored grid, by number of heads and number of tokens."""

    ratios: dict[tuple[int, int], float]  # the medians
    undecided: list[tuple[int, int]]  # where the quartiles are on both sides of 1
    faults: dict[tuple[int, int], str]  # of the first one, where every round has 1000: the fewest


def crossing(result: dict[str, Any], name: str, other: str) -> Crossing:
    """Return one variant's time over another's at every point of a result's grid."""
    ratios, undecided, faults = {}, [], {}
    for entry in result["grid"]:
        place = (entry["num_heads"], entry["num_tokens"])
        found = ratio(entry["samples"], name, other)
        ratios[place] = found.median
        if found.lower <= 1 <= found.upper:
            undecided.append(place)
        counts = entry.get("page_faults", {}).get(name, [0])
        if min(counts) >= MANY_FAULTS:
            faults[place] = f"{min(counts):,} faults"
    return Crossing(ratios, undecided, faults)


def align(rows: Sequence[Sequence[str]]) -> str:
    """Return a table as text: cells start below each other, two spaces after the widest.

    >>> print(align([["a", "b"], ["long", "c"]]))
    a     b
    long  c
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [map(str.ljust, row, widths) for row in rows]
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


@cache
def grid_result() -> dict[str, Any]:
    """Return this machine's stored result if it has a grid, else the first that has one."""
    results = {name: found for name, found in stored_results().items() if found["grid"]}
    if not results:
        raise FileNotFoundError("no measured grid is stored; `make bench` measures one")
    return results.get(machine_name(machine())) or next(iter(results.values()))
