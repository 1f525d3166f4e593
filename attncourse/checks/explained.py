"""What an operation does, in words, and the line it stands in: what every explanation needs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attncourse.checks.path import Path
from attncourse.checks.quantities import Found, Quantity, find
from attncourse.tracing.operations import Line, Operation

PARTS = ("queries", "keys", "values")
TURNS = {"permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "mT", "einsum"}
TURNS |= {"stack", "rearrange"}
PASSES = {
    "contiguous",
    "clone",
    "unbind",
    "__getitem__",
    "select",
    "chunk",
    "split",
    "to",
    "squeeze",
}
ASSIGNS = {"__setitem__", "copy_", "index_copy_", "index_put_", "scatter_", "narrow_copy"}
LEAK = "Outputs before the changed token moved: your mask lets token 0 see token 1."


@dataclass(frozen=True)
class Departure:
    """Where forward leaves the path, and why.

    Args:
        code: short and stable, for counting: "scale.none".
        cause: a sentence that a learner reads.
        line: the learner's own, if it is known.
        sure: whether one relation fits; otherwise the cause says only what should be there.
    """

    code: str
    cause: str
    line: Line | None
    sure: bool = True


class Explained(Path):
    """A path, and sentences on its operations."""

    def _at(self, operation: Operation, code: str, cause: str, sure: bool = True) -> Departure:
        begin = cause if cause.startswith(("x ", "out_proj ")) else cause[0].upper() + cause[1:]
        return Departure(code, begin, self._line(operation), sure)

    def _line(self, operation: Operation) -> Line | None:
        """Return the line of an operation, or of the nearest one before it that has a line."""
        while operation.line is None and operation.parents:
            operation = self.operations[operation.parents[0]]
        return operation.line

    def _given_name(self, number: int) -> str:
        """Return the name of the parameter that an operation only copies or turns."""
        operation = self.operations[number]
        while operation.parents and number not in self.from_x:
            operation = self.operations[operation.parents[0]]
        return operation.name if operation.given else ""

    def _summed_letters(self, operation: Operation, kind: str) -> Departure | None:
        """Tell a letter of einsum that stands in one tensor only and is not kept: it adds up."""
        if operation.name != "einsum" or not isinstance(operation.arguments[0], str):
            return None
        equation = operation.arguments[0].replace(" ", "")
        inputs, _, output = equation.partition("->")
        tensors = inputs.split(",")
        for place, letters in enumerate(tensors):
            others = "".join(tensors[:place] + tensors[place + 1 :]) + output
            for letter in letters:
                if letter.isalpha() and letter not in others:
                    return self._at(
                        operation,
                        f"{kind}.einsum",
                        f"in {equation} the letter {letter} is in one tensor alone and not "
                        f"after the arrow, so einsum adds up over it. Axes that belong together, "
                        "such as a head of the queries and the same head of the keys, need one "
                        "letter.",
                    )
        return None

    def _apart(self, one: int, other: int) -> tuple[str, int, int] | None:
        """Return the axis, text or head, and the places at which two operands do not fit.

        It is told only of tensors whose two last dimensions are tokens and columns, or tokens
        and tokens.
        """
        first, second = self.found[one], self.found[other]
        if first is None or second is None or None in (first.layout, second.layout):
            return None
        for axis in ("h", "b"):
            if axis not in first.index or axis not in second.index:
                continue
            a, b = first.index[axis], second.index[axis]
            rows = [part.shape[-2:].numel() for part in (a, b)]
            if rows != [1, 1]:
                continue
            try:
                shape = (a[..., 0, 0] + b[..., 0, 0]).shape
            except RuntimeError:
                continue
            pairs = zip(*(part[..., 0, 0].expand(shape).flatten() for part in (a, b)), strict=True)
            for mine, others in pairs:
                if mine != others:
                    return axis, int(mine), int(others)
        return None

    def _cut_at(self, number: int, axis: str) -> Operation | None:
        """Return the operation that took some places along an axis out of a quantity."""
        found = self.found.get(number)
        while found is not None and axis in found.index:
            places = set(found.index[axis].flatten().tolist())
            parents = [
                (n, before)
                for n in self._parents(self.operations[number])
                if (before := self.found.get(n)) is not None and before.name == found.name
            ]
            if not parents:
                return None
            before_number, before = parents[0]
            if set(before.index[axis].flatten().tolist()) != places:
                return self.operations[number]
            number, found = before_number, before
        return None

    def _made_at(self, number: int) -> Operation:
        """Return the operation that cut or turned a quantity last, of those that have a line."""
        number = self._unscaled(number)
        while self.operations[number].line is None and self.operations[number].parents:
            number = self.operations[number].parents[0]
        return self.operations[number]

    def _unscaled(self, number: int) -> int:
        """Go back over operations that leave each number in its place, such as a factor."""
        while True:
            found, before = self.found.get(number), self._parents(self.operations[number])
            held = self.found.get(before[0]) if len(before) == 1 else None
            if found is None or held is None or found.layout is None:
                return number
            if self.operations[number].name in TURNS:
                return number
            if (held.name, held.layout) != (found.name, found.layout) or any(
                not held.index[axis].equal(found.index[axis]) for axis in found.index
            ):
                return number
            number = before[0]

    def _turned_at(self, number: int) -> Operation | None:
        """Return the operation that last ordered the dimensions of a quantity, if one did."""
        number = self._unscaled(number)
        found = self.found.get(number)
        while found is not None and number in self.from_x:
            operation = self.operations[number]
            if operation.name in TURNS and operation.line is not None:
                return operation
            if not operation.parents or operation.name not in PASSES:
                return None
            number = operation.parents[0]
        return None

    def _by_head(self, found: Found) -> bool:
        """Return whether all columns of a head, and of no other, lie along one dimension."""
        if self.num_heads == 1 or found.layout is None:
            return True
        columns = set(found.index["d"].flatten().tolist())
        if len(columns) < self.named["queries"][0].values.shape[-1]:
            return False
        for axes in found.layout:
            if "d" in axes:
                return "h" not in axes or bool(
                    (found.index["h"] == found.index["h"].flatten()[0]).all()
                )
        return True

    def _mixed(self, operation: Operation, made: Found) -> Departure:
        name = made.name
        if made.moved is None and name in PARTS and self._other_numbers(operation):
            return self._at(
                operation,
                f"{name}.changed",
                f"this line changes {the(name)}: it {does(operation)}.",
            )
        if made.moved is None and self.num_heads == 1:
            return self._at(
                operation, f"{name}.mixed", f"the numbers of {the(name)} get mixed up here."
            )
        if made.moved is not None:
            what, how = made.moved
            if name == "context_vec" and what == "columns":
                code = f"merge.{'alternating' if how == 'alternating' else 'order'}"
                if how == "alternating":
                    cause = (
                        "the columns of the heads alternate: all columns of head 0 come first, "
                        "then all of head 1."
                    )
                elif how == "reversed":
                    cause = (
                        "the heads come out in reverse order: head 0 belongs in the first columns."
                    )
                elif "repeated" in how:
                    cause = _repeated(made, self.num_heads)
                else:
                    cause = (
                        "the heads come out in another order: head 0 belongs in the first columns."
                    )
                return self._at(self._of_the_merge(operation, how), code, cause)
            return self._at(
                operation,
                f"{name}.order",
                f"the {what} of {the(name)} are {how} here; they must keep their places.",
            )
        if name == "context_vec":
            return self._mixed_merge(operation, made)
        if name in PARTS:
            return self._mixed_split(operation, made)
        if name == "scores":
            return self._at(
                operation, "scores.mixed", "the scores change places here and get mixed up."
            )
        return self._at(
            operation, f"{name}.mixed", f"the numbers of {the(name)} get mixed up here."
        )

    def _mixed_split(self, operation: Operation, made: Found) -> Departure:
        """Tell a split after which a head has numbers that belong to others."""
        width = self.named["queries"][0].values.shape[-1]
        kept, columns = made.mixture or ("", ())
        if {"b", "t"} <= set(kept) and len(columns) == width:
            return self._at(
                operation,
                "split.missing",
                f"this takes columns {_ranges(columns)} of the {made.name}, which are not those of "
                f"one head: head h owns columns h * {self.width} to (h + 1) * {self.width}.",
            )
        if {"b", "t"} <= set(kept):
            return self._at(
                operation,
                "split.columns",
                f"the heads get other columns of the {made.name} here than their own: the "
                f"{width} columns of head 0 come first, then those of head 1, as view(b, "
                "num_tokens, num_heads, head_dim) takes them, in this order.",
            )
        if "t" in kept and "b" not in kept:
            return self._at(
                operation,
                "split.texts",
                f"the split mixes texts and heads of the {made.name}: view takes the dimensions "
                "in the order in which they come.",
            )
        return self._at(
            operation,
            "split.mixed",
            f"the split mixes tokens and heads of the {made.name}. First view(b, num_tokens, "
            "num_heads, head_dim), then transpose(1, 2).",
        )

    def _mixed_merge(self, operation: Operation, made: Found) -> Departure:
        """Tell a merge after which a row does not hold the heads of one token."""
        kept, _ = made.mixture or ("", ())
        before = [n for n in self._parents(operation) if self.found.get(n) is not None]
        held = self.found[before[0]] if len(before) == 1 else None
        layout = (held and held.layout) or ()
        for dim, axes in enumerate(layout):
            if len(axes) > 1 and "h" in axes and "t" in axes:
                return self._at(
                    self._made_at(before[0]),
                    "merge.axis",
                    f"the heads are put together along dimension {dim} here, counted from 0, like "
                    "more tokens: they belong side by side, along the last dimension, dim=-1.",
                )
        if "t" in kept and "b" not in kept:
            first = {"bh": "the texts", "hb": "the heads"}.get(layout[0] if layout else "", "")
            other = {"the texts": "heads", "the heads": "texts"}.get(first, "")
            order = f" Here {first} come first, and the {other} within them." if first else ""
            return self._at(
                operation,
                "merge.texts",
                "the merge mixes texts and heads: view takes the dimensions in the order in which "
                f"they come.{order}",
            )
        if len(layout) == 4 and layout != ("b", "h", "t", "d") and all(layout):
            words = {"b": "texts", "h": "heads", "t": "tokens", "d": "columns"}
            have = ", ".join(" and ".join(words[a] for a in axes) for axes in layout)
            return self._at(
                self._of_the_merge(operation, ""),
                "merge.mixed",
                f"the merge mixes the heads up: before it the dimensions are ({have}), and (texts, "
                "tokens, heads, columns) can be joined, the last two into one.",
            )
        return self._at(
            self._of_the_merge(operation, ""),
            "merge.mixed",
            "the merge mixes tokens and heads. First transpose(1, 2), then view.",
        )

    def _of_the_merge(self, operation: Operation, how: str) -> Operation:
        """Return where the context vectors were turned wrongly before they were joined."""
        before = self._parents(operation)
        if how not in ("", "alternating") or len(before) != 1:
            return operation
        turned = self._turned_at(before[0])
        found = self.found.get(turned.number) if turned is not None else None
        if turned is None or found is None or found.layout is None or found.name != "context_vec":
            return operation
        return operation if "".join(found.layout) == "bthd" else turned

    def _other_numbers(self, operation: Operation) -> bool:
        """Return whether an operation on one tensor changes numbers, and not only their places."""
        (number, *more) = self._parents(operation)
        old, new = self.operations[number].values, operation.values
        if more or old.numel() != new.numel() or operation.name in ASSIGNS:
            return False
        return not torch.equal(old.flatten().sort().values, new.flatten().sort().values)


def _repeated(made: Found, num_heads: int) -> str:
    """Return which columns of the result come from a head that was there before."""
    columns, heads = made.index["d"].flatten().tolist(), made.index["h"].flatten().tolist()
    heads = heads * len(columns) if len(heads) == 1 else heads
    width = len(columns) // num_heads
    for place, head in enumerate(heads):
        if width and head != place // width:
            return (
                f"columns {place} to {place + width - 1} are head {head} again, where head "
                f"{place // width} belongs: does each round use a head of its own?"
            )
    return "every head returns what one head returns: does each round use a head of its own?"


def _ranges(places: tuple[int, ...]) -> str:
    """Return numbers in words: "7 to 13" if none is left out."""
    if len(places) > 2 and places == tuple(range(places[0], places[-1] + 1)):
        return f"{places[0]} to {places[-1]}"
    return f"{', '.join(map(str, places[:-1]))} and {places[-1]}"


def the(name: str) -> str:
    """Return a quantity with its article."""
    return {
        "x": "x",
        "attn_weights": "the attention weights",
        "context_vec": "the context vectors",
    }.get(name, f"the {name}")


def are(name: str) -> str:
    """Return the verb that goes with a quantity."""
    return "is" if name in {"x", "result"} else "are"


def does(operation: Operation) -> str:
    """Return what an operation does, in words."""
    name = operation.name.strip("_").removeprefix("r")
    words = {
        "add": "adds something", "iadd": "adds something", "sub": "subtracts something",
        "mul": "multiplies by something", "imul": "multiplies by something",
        "div": "divides by something", "truediv": "divides by something",
        "matmul": "makes another product", "bmm": "makes another product",
        "einsum": "makes another product", "sum": "adds numbers up", "mean": "takes a mean",
        "getitem": "takes out a part", "setitem": "overwrites a part", "cat": "puts parts together",
        "stack": "puts parts together", "softmax": "applies softmax", "linear": "makes a product",
        "masked_fill": "overwrites a part",
    }  # fmt: skip
    return words.get(name, f"applies {operation.name}")


def has(tensor: Tensor, right: Tensor) -> bool:
    """Return whether a tensor holds the numbers of another, in whatever layout."""
    if tensor.numel() > right.numel() or not tensor.numel():
        return False
    axes = "bhij" if right.shape[-1] == right.shape[-2] else "bhtd"
    axes = axes if right.ndim == 4 else "btd"
    found = find(tensor, Quantity("", axes, right.nan_to_num(0.0)))
    return found is not None
