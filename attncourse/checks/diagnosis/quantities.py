"""The quantities of attention, and how they are found among a learner's tensors by numbers alone.

The inputs are random, so each number of a quantity occurs once, and it tells where it comes from:
sequence, head, token, column. A learner's tensor may hold the same numbers in any order of
dimensions, cut into heads or rows, or flattened. Each of its numbers is looked up, and then either
each of its dimensions has a meaning, or the numbers are mixed up.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from attnlib.convert import PROJECTIONS
from attnlib.functional import causal_mask, merge_heads, split_heads

MASKED = -1000.0  # A score below this is a masked one. True scores here are below 50.
# float32 results differ from the float64 quantities by up to about 1e-6 of the largest number.
# Two numbers of one quantity are rarely as near to each other as 2e-5.
TOLERANCE = 2e-5
# The first SAMPLE numbers are looked up before all of a tensor. Among so many of masked scores or
# weights enough are no zeros.
SAMPLE = 64
# At least this share of all telling numbers must be among those of the quantity: a few in a
# thousand may be rounded further than TOLERANCE.
SHARE_FOUND = 0.98
# A number may be near to another number of the quantity by chance, and then it points to a wrong
# place. So only this share must agree on the place along an axis. That all numbers are at the
# places found is compared afterwards.
SHARE_IN_PLACE = 0.8

AXES = {
    "b": "sequences",
    "h": "heads",
    "t": "tokens",
    "i": "queries",
    "j": "keys",
    "d": "columns",
    "c": "columns",
}


@dataclass(frozen=True)
class Quantity:
    """One quantity of attention, right by definition."""

    name: str
    axes: str  # a letter for each dimension, as in AXES
    values: Tensor  # float64
    factor: float = 1.0

    @cached_property
    def table(self) -> tuple[Tensor, Tensor]:
        """All numbers in order, and where each of them is."""
        numbers, order = self.values.flatten().sort()
        return numbers, order

    @cached_property
    def tolerance(self) -> float:
        """How far off a number may be."""
        return TOLERANCE * max(1.0, float(self.values[self.values.isfinite()].abs().max()))

    def look_up(self, tensor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return which numbers tell something, which of them are found, and where.

        0 and 1 occur anywhere, and a masked score tells nothing.
        """
        numbers, order = self.table
        known = tensor.isfinite()
        known &= (tensor.abs() > self.tolerance) & ((tensor - 1).abs() > self.tolerance)
        place, off = _nearest(tensor.flatten(), numbers)
        told = known & (off <= self.tolerance).view(tensor.shape)
        return known, told, order[place].view(tensor.shape)


@dataclass(frozen=True)
class Match:
    """What a learner's tensor holds.

    Args:
        name: of the quantity.
        factor: how many times the plain quantity it is.
        layout: for each dimension of the tensor the axes of the quantity that run along it; None
            if the numbers are those of the quantity, but mixed up.
        index: where along each axis of the quantity a number comes from: one tensor for each
            axis, which broadcasts over the learner's tensor.
        moved: the axis along which the places have changed, and how.
        masked: in scores, which of them are masked, in the tensor's own shape.
        kept: the axes that are in order where the layout is None.
    """

    name: str
    factor: float
    layout: tuple[str, ...] | None
    index: dict[str, Tensor] = field(default_factory=dict)
    moved: tuple[str, str] | None = None
    masked: Tensor | None = None
    kept: str = ""

    @property
    def in_order(self) -> bool:
        """Whether each number is where it belongs."""
        return self.layout is not None and self.moved is None


def quantities(
    x: Tensor, weights: Mapping[str, Tensor], num_heads: int
) -> dict[str, tuple[Quantity, ...]]:
    """Return every quantity of causal attention by its name, in the variants that are right.

    Args:
        x: (b, num_tokens, d_in).
        weights: of the right class, by the names of its parameters.
        num_heads: how many heads.
    """
    x = x.detach().double()
    parts = {}
    for name in PROJECTIONS:
        weight, bias = (
            torch.cat(
                [w for key, w in weights.items() if key.endswith(f"{name}.{kind}")] or [x[:0]]
            )
            .detach()
            .double()
            for kind in ("weight", "bias")
        )
        made = x @ weight.T + (bias if bias.numel() else 0.0)
        parts[name] = split_heads(made, made.shape[-1] // num_heads)
    queries, keys, values = parts.values()
    root = queries.shape[-1] ** -0.5
    scores = queries @ keys.mT
    masked = (root * scores).masked_fill(causal_mask(x.shape[1]), -torch.inf)
    attn_weights = masked.softmax(dim=-1)
    context_vec = attn_weights @ values
    named = {
        "x": _alike("x", "btc", x),
        "queries": _plain_and_scaled("queries", "bhtd", queries, root),
        "keys": _plain_and_scaled("keys", "bhtd", keys, root),
        "values": _alike("values", "bhtd", values),
        "scores": _plain_and_scaled("scores", "bhij", scores, root),
        "attn_weights": _alike("attn_weights", "bhij", attn_weights),
        "context_vec": _alike("context_vec", "bhtd", context_vec),
    }
    if "out_proj.weight" in weights:
        weight, bias = (
            weights[f"out_proj.{kind}"].detach().double() for kind in ("weight", "bias")
        )
        joined = merge_heads(context_vec) @ weight.T
        named["result"] = _alike("result", "btc", joined + bias)
    return named


def _alike(name: str, axes: str, *each: Tensor) -> tuple[Quantity, ...]:
    return tuple(Quantity(name, axes, values) for values in each)


def _plain_and_scaled(name: str, axes: str, values: Tensor, root: float) -> tuple[Quantity, ...]:
    return Quantity(name, axes, values), Quantity(name, axes, values * root, root)


def find(tensor: Tensor, quantity: Quantity) -> Match | None:
    """Return how a tensor holds a quantity, or None if its numbers are others."""
    tensor = tensor.double()
    if quantity.axes == "bhij":
        tensor = torch.where(tensor < MASKED, -torch.inf, tensor)
    for some in (tensor.flatten()[:SAMPLE], tensor):  # a sample is quick, and rejects most pairs
        known, told, place = quantity.look_up(some)
        if told.sum() < SHARE_FOUND * known.sum():
            return None
    if not told.any():
        return None
    origin, tolerance = _unravel(place, quantity.values.shape), quantity.tolerance
    layout = [""] * tensor.ndim
    index, seen = {}, {}
    for axis, size, where in zip(quantity.axes, quantity.values.shape, origin, strict=True):
        found = _along(where, told, size)
        if found is None:
            return Match(quantity.name, quantity.factor, None, kept=_kept(quantity, origin, told))
        dim, index[axis], seen[axis] = found
        if dim is not None:
            layout[dim] += axis
    again = quantity.values[tuple(index[axis] for axis in quantity.axes)].expand(tensor.shape)
    same = (again == tensor) | ((again - tensor).abs() <= tolerance)
    masked = None
    if quantity.name == "scores":
        masked = tensor == -torch.inf
        same |= masked
    if not same.all():
        return Match(quantity.name, quantity.factor, None, kept=_kept(quantity, origin, told))
    moved = next(
        (
            (AXES[axes[0]] if len(axes) == 1 else "columns", how)
            for axes in layout
            if axes
            and (
                how := _how_moved(axes, *([part[axis] for axis in axes] for part in (index, seen)))
            )
        ),
        None,
    )
    return Match(quantity.name, quantity.factor, tuple(layout), index, moved, masked)


def find_any(
    tensor: Tensor, named: Mapping[str, tuple[Quantity, ...]], names: tuple[str, ...] = ()
) -> Match | None:
    """Return what a tensor holds, in order if possible."""
    worse = None
    for name in names or named:
        for quantity in named.get(name, ()):
            found = find(tensor, quantity)
            if found is not None and found.in_order:
                return found
            worse = worse or found
    return worse


def scaled(found: Match, factor: float) -> Match:
    """Return the same numbers, times a factor."""
    return replace(found, factor=found.factor * factor)


def _nearest(numbers: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Return where in a sorted table the numbers are nearest, and how far off."""
    numbers = numbers.nan_to_num(0.0)
    right = torch.searchsorted(table, numbers).clamp(max=len(table) - 1)
    left = (right - 1).clamp(min=0)
    off_right, off_left = (table[right] - numbers).abs(), (table[left] - numbers).abs()
    off_right, off_left = off_right.nan_to_num(torch.inf), off_left.nan_to_num(torch.inf)
    nearer = off_right <= off_left
    return torch.where(nearer, right, left), torch.where(nearer, off_right, off_left)


def _along(
    where: Tensor, told: Tensor, size: int, share: float = SHARE_IN_PLACE
) -> tuple[int | None, Tensor, Tensor] | None:
    """Return the dimension along which an axis runs, its index there, and where that was seen.

    None if the places along the axis are mixed up.
    """
    places, count = torch.where(told, where.double(), torch.nan), int(told.sum())
    dims = [dim for dim in range(where.ndim) if where.shape[dim] > 1]
    for dim in (None, *dims):
        rows = (
            places.reshape(1, -1)
            if dim is None
            else places.movedim(dim, 0).reshape(where.shape[dim], -1)
        )
        known = rows.nanmedian(dim=1).values  # a number may be near another by chance
        if int((rows == known[:, None]).sum()) >= share * count:
            shape = [1] * where.ndim
            if dim is not None:
                shape[dim] = -1
            # rows that tell nothing, as one weight of 1 does, are at their own place
            own = torch.arange(len(known), dtype=known.dtype)
            index = torch.where(known.isnan(), own, known).long().clamp(0, size - 1)
            return dim, index.view(shape), ~known.isnan()
    return None


def _kept(quantity: Quantity, origin: list[Tensor], told: Tensor) -> str:
    """Return the axes along which the numbers are in order though others are mixed up."""
    sizes = quantity.values.shape
    parts = zip(quantity.axes, origin, sizes, strict=True)
    return "".join(a for a, where, size in parts if _along(where, told, size, SHARE_FOUND))


def _how_moved(axes: str, places: list[Tensor], seen: list[Tensor]) -> str | None:
    """Return how places along one dimension have changed, or None if they have not."""
    told = torch.stack(seen).all(dim=0)
    index = [part.flatten()[told] for part in places]
    if not told.any():
        return None
    for some in itertools.permutations(range(len(index))):
        code = torch.zeros_like(index[0])
        for place in some:
            code = code * 1000 + index[place]
        if bool((code.diff() >= 0).all()):
            order = "".join(axes[place] for place in some)
            return "in another order" if order == "dh" else None
    if axes == "d" and len(set(index[0].tolist())) < len(index[0]):
        return "those of one head, repeated"
    if "h" in axes and len(axes) > 1 and len({*index[axes.index("h")].tolist()}) == 1:
        return "those of one head, repeated"
    return "in another order"


def _unravel(place: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    origin: list[Tensor] = []
    for size in reversed(shape):
        origin.insert(0, place % size)
        place = place // size
    return origin
