"""Test inputs at which some part of a class cannot matter, and what they leave of its parts.

What a test input finds of a fault is measured on the classes of variants.faults: right, wrong, or
NaN. A result excludes the parts of whose faults it is never the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor

from attncourse.checks.answers import is_near
from attncourse.checks.exercises import OPEN, value_check
from attncourse.checks.verdict import Verdict
from attncourse.examples import journey
from attncourse.variants.faults import FAULTS, MYSTERIES, faulty_class
from attncourse.variants.mistakes import OnePageAttention, make
from attnlib.modules import MultiHeadAttention

RIGHT, WRONG, NAN = "right", "wrong", "NaN"
Run = Callable[[MultiHeadAttention, Tensor], Tensor]  # takes (b, num_tokens, d_in)


@torch.no_grad()
def run_with_huge_scores(module: MultiHeadAttention, x: Tensor) -> Tensor:
    """Return the outputs where softmax picks the largest score, whatever the scale."""
    module.W_key.weight.mul_(1e6)
    outputs: Tensor = module(x)
    return outputs


def _without_out_proj(module: MultiHeadAttention, x: Tensor) -> Tensor:
    module.out_proj.weight.copy_(torch.eye(module.d_out))
    module.out_proj.bias.zero_()
    outputs: Tensor = module(x)
    return outputs


TEST_INPUTS: dict[str, Run] = {
    "one head": lambda module, x: module(x),  # made with one
    "one token": lambda module, x: module(x[:, :1]),  # its one weight is 1
    "first query": lambda module, x: module(x)[:, 0],  # it may attend to one token
    "the weights": lambda module, x: module(x, return_weights=True)[1],
    "huge scores": run_with_huge_scores,
    "no out_proj": _without_out_proj,  # it passes on what it gets
}


@torch.no_grad()
def compare_at_test_inputs(cls: type[MultiHeadAttention]) -> dict[str, str]:
    """Return for each test input whether a class gives what the right one gives, or NaN."""
    found, x = {}, journey().inputs[None]
    for name, run in TEST_INPUTS.items():
        heads = 1 if name == "one head" else 2
        mine, right = (run(make(each, heads), x) for each in (cls, OnePageAttention))
        found[name] = RIGHT if is_near(mine, right) else NAN if mine.isnan().any() else WRONG
    return found


@cache
def _results() -> dict[str, dict[str, set[str]]]:
    """Return, for each part and test input, the results that the faults of the part have there."""
    table = {}
    for part, faults in FAULTS.items():
        each = [compare_at_test_inputs(faulty_class(fault, "Case")) for fault in faults]
        table[part] = {name: {found[name] for found in each} for name in TEST_INPUTS}
    return table


def fault_table() -> dict[str, dict[str, str]]:
    """Return, for each part and test input, how the faults of the part show there."""
    return {part: {name: _shows(row[name]) for name in row} for part, row in _results().items()}


def _shows(results: set[str]) -> str:
    if RIGHT not in results:
        return "always show"
    if WRONG in results:
        return "sometimes show"
    return "show as NaN only" if NAN in results else "never show"


def excluded_parts(cls: type[MultiHeadAttention]) -> dict[str, str]:
    """Return the parts that test inputs exclude for a wrong class, each with a test input."""
    mine = compare_at_test_inputs(cls)
    found = {}
    for part, row in _results().items():
        names = [name for name in TEST_INPUTS if mine[name] not in row[name]]
        if names:
            found[part] = names[0]
    return found


def remaining_parts(cls: type[MultiHeadAttention]) -> list[str]:
    """Return the parts that no test input excludes."""
    excluded = excluded_parts(cls)
    return [part for part in FAULTS if part not in excluded]


@value_check(reference=lambda cls: next(iter(remaining_parts(cls)), None))
def check_part(part: str, cls: type[MultiHeadAttention]) -> Verdict:
    """Say of a part whether it is the only one left, or which test input excludes it.

    Args:
        part: a name of the table; None where nothing is blamed yet.
        cls: the class that is wrong by a line.
    """
    if part not in FAULTS:
        return Verdict(False, f"{part!r} is no part. There are: {', '.join(FAULTS)}.")
    name = excluded_parts(cls).get(part)
    if name is None:
        return Verdict(True, f"Right, the {part}: the table leaves this part, and no other.")
    shown, here = fault_table()[part][name], compare_at_test_inputs(cls)[name]
    shown = "never give NaN" if here == NAN else shown
    said = f"Not the {part}: at '{name}' its faults {shown}, and this class is {here} there."
    return Verdict(False, said)


@value_check(reference=lambda: {n: remaining_parts(MYSTERIES[n])[0] for n in (2, 3, 4)})
def check_found(found: Mapping[int, str | None]) -> Verdict:
    """Say of each mystery whether its part was found.

    Args:
        found: by the number of the mystery a part, or None where nothing is blamed yet.
    """
    if all(part is None for part in found.values()):
        return OPEN
    said = {number: check_part(part, MYSTERIES[number]) for number, part in found.items()}
    sentence = "\n".join(f"mystery_{number}: {verdict}" for number, verdict in said.items())
    return Verdict(all(said.values()), sentence)
