"""What can be changed while a model reads: mute a head, put other numbers in, cut a path.

The field calls these ablation, activation patching and path patching. Each is a value; a run takes
any number of them, and where two concern the same numbers, the later one has the last word.
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
class Mute:
    """Silence a head: the numbers that it hands over become 0 (ablation).

    Args:
        layer: of the head, counted from 0.
        head: in its layer.
        at: at which tokens, counted from 0, or from -1 for the last; None means everywhere.

    >>> Mute(23, 4)
    Mute(layer=23, head=4, at=None)
    """

    layer: int
    head: int
    at: At = None

    def edited(self, numbers: Tensor) -> Tensor:
        """Return the head's numbers with 0 in their place, (b, num_tokens, head_dim)."""
        return _replaced(numbers, self.at, numbers.new_zeros(()))


@dataclass(frozen=True, eq=False)
class Put:
    """Hand over other numbers than the head's own (activation patching).

    Args:
        layer: of the head, counted from 0.
        head: in its layer.
        numbers: floating, (head_dim) or, one row for each token of at, (len(at), head_dim); such
            as run.head(layer, head) of another run.
        at: at which tokens, counted from 0, or from -1 for the last; None means everywhere.
    """

    layer: int
    head: int
    numbers: Tensor
    at: At = -1

    def edited(self, numbers: Tensor) -> Tensor:
        """Return the head's numbers with the others in their place."""
        return _replaced(numbers, self.at, self.numbers)


@dataclass(frozen=True)
class Cut:
    """Take what one head wrote out of what another head reads, and out of nothing else.

    This is path patching: the reader's other parts, and all other heads, still read it.

    Args:
        writer: (layer, head) of the head whose write is taken out.
        reader: (layer, head) of the head that goes without it, in a later layer.
        part: what the reader makes without it: queries, keys or values.

    >>> Cut((16, 0), (18, 6), "keys").part
    'keys'

    Source: Wang et al. 2022, section 3.1 (path patching), where what is taken out is replaced by
    the same path of another text; here by nothing.
    """

    writer: tuple[int, int]
    reader: tuple[int, int]
    part: str


Intervention = Mute | Put | Cut


def require_fits(change: object, size: LlamaSize, num_tokens: int) -> None:
    """Raise unless a change names heads and tokens that are there, and has their shape."""
    if isinstance(change, Cut):
        writer, reader = (_require_head(head, size) for head in (change.writer, change.reader))
        if writer.layer >= reader.layer:
            raise ValueError(
                f"{reader} cannot read what {writer} writes: only heads of later layers can; "
                f"the reader's layer must be above {writer.layer}"
            )
        if change.part not in PARTS:
            raise ValueError(f"part={change.part!r} is not one of {', '.join(PARTS)}")
    elif isinstance(change, Mute | Put):
        _require_head((change.layer, change.head), size)
        places = _require_places(change.at, num_tokens)
        if isinstance(change, Put):
            _require_numbers(change.numbers, size.head_dim, places)
    else:
        raise TypeError(
            f"an intervention is Mute(...), Put(...) or Cut(...), not {type(change).__name__}"
        )


def _require_head(head: object, size: LlamaSize) -> Head:
    """Return a (layer, head) of the model, or raise."""
    if not isinstance(head, tuple) or [type(n) for n in head] != [int, int]:
        raise TypeError(f"a head is two whole numbers, (layer, head), not {head!r}")
    found = Head(*head)
    if not (0 <= found.layer < size.num_layers and 0 <= found.head < size.num_heads):
        raise ValueError(
            f"{found} does not exist: layers are 0 to {size.num_layers - 1}, "
            f"heads 0 to {size.num_heads - 1}"
        )
    return found


def _require_places(at: At, num_tokens: int) -> int:
    """Return at how many tokens, or raise unless all of them are there."""
    if at is None:
        return num_tokens
    places = [at] if isinstance(at, int) else list(at)
    for place in places:
        if type(place) is not int:
            raise TypeError(f"at={at!r} must be whole numbers, or None for everywhere")
        if not -num_tokens <= place < num_tokens:
            raise ValueError(
                f"at={place} does not exist: the text has {num_tokens} tokens, "
                f"0 to {num_tokens - 1}, or -{num_tokens} to -1 from its end"
            )
    return len(places)


def _require_numbers(numbers: object, head_dim: int, places: int) -> None:
    if not isinstance(numbers, Tensor) or not numbers.is_floating_point():
        kind = numbers.dtype if isinstance(numbers, Tensor) else type(numbers).__name__
        raise TypeError(f"numbers must be a floating tensor, such as run.head(23, 4), not {kind}")
    shapes = (head_dim,), (places, head_dim)
    if tuple(numbers.shape) not in shapes:
        raise ValueError(
            f"numbers are {tuple(numbers.shape)}, not {shapes[0]} or, with one row for each of "
            f"the tokens named by at, {shapes[1]}"
        )


def _replaced(numbers: Tensor, at: At, others: Tensor) -> Tensor:
    """Return a copy of (b, num_tokens, head_dim) with others at some tokens."""
    places = slice(None) if at is None else torch.tensor([at] if isinstance(at, int) else list(at))
    replaced = numbers.clone()
    replaced[:, places] = others.to(numbers)
    return replaced
