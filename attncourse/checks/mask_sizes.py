"""Which mask does not fit the scores, and the line that gave it its size.

Where two sizes do not fit, torch names the line at which they meet. A mask got its size before:
where it was made, or where it was cut.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

from attncourse.checks.attempt import error_alone, name_shape
from attncourse.checks.explained import Departure
from attncourse.tracing.operations import Operation, Recording

KEEPS = {"bool", "to", "float", "__invert__", "type_as", "eq", "__eq__", "logical_not", "half"}


def wrong_size_of_a_mask(
    recording: Recording, x: int, sizes: Mapping[str, int], scores: tuple[int, int]
) -> Departure | None:
    """Return the line that gave a mask a size that does not fit.

    Args:
        recording: of the constructor and of forward, up to the error.
        x: the number of x.
        sizes: the names of the sizes.
        scores: how many queries and keys there are, the shape that a mask must have.
    """
    operations = recording.operations
    masks = _masks(operations, x, sizes["context_length"])
    last: Operation | None = None
    for number in masks:
        if number > x and operations[number].line is not None:
            last = operations[number]
    if last is None:
        return None
    have = tuple(last.values.shape[-2:])
    if len(have) < 2 or all(size in (1, want) for size, want in zip(have, scores, strict=True)):
        return None
    chain = _back(operations, last, masks)
    made = next(o for o in chain if o.number <= x or not set(o.parents) & masks)
    full = tuple(made.values.shape[-2:])
    want = name_shape(scores, sizes)
    if full[-1] < sizes["context_length"]:
        begun = _begun(operations, made)
        if begun is None:
            return None
        return Departure(
            "mask.small",
            f"The mask that is made here is {name_shape(full, sizes)}, too small for "
            "context_length tokens: it must be (context_length, context_length).",
            begun.line,
        )
    cut = next((o for o in chain if o.values.shape[-2:] != full and o.number > x), None)
    cut = cut or next((o for o in chain if o.name == "__getitem__" and o.number > x), None)
    if cut is None:
        return None
    said = name_shape(have, sizes)
    texts = " b is the number of texts, not of tokens." if sizes["b"] in have else ""
    return Departure(
        "mask.cut",
        f"The mask is cut to {said} here, and the scores are {want}: cut rows and columns to the "
        f"tokens that there are, [:num_tokens, :num_tokens].{texts}",
        cut.line,
    )


def mask_for_other_tokens(
    recording: Recording, x: int, num_tokens: int, said: str
) -> Departure | None:
    """Return the line that made a mask in forward for more or fewer tokens than x has.

    Args:
        recording: of the constructor and of forward, up to the error.
        x: the number of x.
        num_tokens: how many tokens x has.
        said: the error.
    """
    operations, from_x = recording.operations, {x}
    last: Operation | None = None
    for operation in operations[x + 1 :]:
        shape = operation.values.shape[-2:]
        if from_x.intersection(operation.parents):
            from_x.add(operation.number)
        elif operation.line is None or len(shape) < 2:  # a parameter, or no mask
            continue
        elif shape[0] == shape[1] or operation.values.dtype is torch.bool:
            last = operation
    wrong = {*last.values.shape[-2:]} - {1, num_tokens} if last is not None else set()
    told = {int(number) for number in re.findall(r"\d+", error_alone(said))}
    if last is None or len(wrong) != 1 or not {num_tokens, *wrong} <= told:
        return None
    (length,) = wrong
    one_side = num_tokens in last.values.shape[-2:]
    begun = last if one_side else _begun(operations, last) or last
    if begun.number < x:  # a mask of the constructor, to be cut
        return None
    return Departure(
        "mask.length",
        f"{'One side of the' if one_side else 'The'} mask is for {length} tokens, and x has "
        f"{num_tokens}: make it from x.shape[1].",
        begun.line,
    )


def _masks(operations: list[Operation], x: int, context_length: int) -> set[int]:
    """Return the operations that hold a mask: what comes from a square that was there before x."""
    found: set[int] = set()
    for operation in operations:
        shape = operation.values.shape
        if len(shape) < 2 or operation.number == x:
            continue
        if operation.number < x or operation.given:
            square = shape[-1] == shape[-2] and shape[-1] > 1
            if square and not operation.name.endswith("weight"):
                found.add(operation.number)
        elif operation.parents and all(n in found for n in operation.parents):
            found.add(operation.number)
    return found


def _back(operations: list[Operation], last: Operation, masks: set[int]) -> list[Operation]:
    """Return the operations that led from a mask that was there before to this one, in order."""
    chain = [last]
    while True:
        before = [n for n in chain[0].parents if n in masks]
        if not before:
            return chain
        chain.insert(0, operations[before[0]])


def _begun(operations: list[Operation], made: Operation) -> Operation | None:
    """Return the operation that first had the size of a tensor."""
    size = made.values.shape[-1]
    while True:
        before = [n for n in made.parents if size in operations[n].values.shape]
        if not before or operations[before[0]].line is None:
            return made if made.line is not None else None
        made = operations[before[0]]
