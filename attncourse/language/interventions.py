"""Interventions in a run: ablation, activation patching and path patching.

Each is a value. A run takes any number of them; where two change the same numbers, the later one
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attncourse.language.model import Head, LlamaSize

PARTS = "queries", "keys", "values"
At = int | Sequence[int] | None


@dataclass(frozen=True)
class Ablate:
    """Set the output of a head, before out_proj, to 0 (zero ablation).

    Args:
        layer: of the head, counted from 0.
        head: in its layer.
        at: at which tokens, counted from 0, or from -1 for the last; None means everywhere.

    >>> Ablate(23, 4)
    Ablate(layer=23, head=4, at=None)
    """

    layer: int
    head: int
    at: At = None
    numbers = torch.zeros(())


@dataclass(frozen=True, eq=False)
class Patch:
    """Replace the output of a head, before out_proj, by other numbers (activation patching).

    Args:
        layer: of the head, counted from 0.
        head: in its layer.
        numbers: floating, (head_dim) or, one row for each token of at, (len(at), head_dim); such
            as run.head_output(layer, head) of another run.
        at: at which tokens, counted from 0, or from -1 for the last; None means everywhere.
    """

    layer: int
    head: int
    numbers: Tensor
    at: At = -1


@dataclass(frozen=True)
class PathPatch:
    """Take what one head wrote out of what one other head reads (path patching).

    Args:
        writer: (layer, head) of the head whose write is taken out.
        reader: (layer, head) of the head that goes without it, in a later layer.
        part: what the reader makes without it: queries, keys or values.

    >>> PathPatch((16, 0), (18, 6), "keys").part
    'keys'

    Source: Wang et al. 2022, section 3.1, where the same path of another text takes its place.
    """

    writer: tuple[int, int]
    reader: tuple[int, int]
    part: str


Intervention = Ablate | Patch | PathPatch


def require_fits(change: object, size: LlamaSize, num_tokens: int) -> None:
    """Raise unless a change names heads and tokens that are there, and has their shape."""
    if isinstance(change, PathPatch):
        writer, reader = (_require_head(head, size) for head in (change.writer, change.reader))
        if writer.layer >= reader.layer:
            raise ValueError(
                f"{reader} cannot read what {writer} writes: a head reads what earlier layers "
                f"wrote; take a reader in a layer above {writer.layer}"
            )
        if change.part not in PARTS:
            raise ValueError(f"part={change.part!r} is not one of {', '.join(PARTS)}")
    elif isinstance(change, Ablate | Patch):
        _require_head((change.layer, change.head), size)
        places = list(range(num_tokens)) if change.at is None else places_of(change.at)
        for place in places:
            if place not in range(-num_tokens, num_tokens):
                raise ValueError(f"at={place!r} is not a token: the text has {num_tokens}")
        if isinstance(change, Patch):
            shapes = (size.head_dim,), (len(places), size.head_dim)
            if change.numbers.shape not in shapes:
                raise ValueError(
                    f"numbers are {tuple(change.numbers.shape)}, not {shapes[0]} or, a row for "
                    f"each token of at, {shapes[1]}"
                )
    else:
        raise TypeError(f"changes are Ablate(...), Patch(...) or PathPatch(...), not {change!r}")


def places_of(at: int | Sequence[int]) -> list[int]:
    """Return at as a list."""
    return [at] if isinstance(at, int) else list(at)


def _require_head(head: tuple[int, int], size: LlamaSize) -> Head:
    if head not in size.heads:
        raise ValueError(
            f"there is no head {head!r}: a head is (layer, head), layers 0 to "
            f"{size.num_layers - 1}, heads 0 to {size.num_heads - 1}"
        )
    return Head(*head)
