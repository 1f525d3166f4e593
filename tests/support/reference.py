"""Causal attention a second time: plain Python numbers, loops, and their derivatives.

Nothing here comes from torch or attnlib but the weights themselves, read out as lists. A Number
remembers how it was made, so that gradients follow from the rules of +, *, /, exp and dot.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import nn

Vector = list["Number"]
Matrix = list[Vector]


class Number:
    """A float that knows from which numbers it was made, and its slope in each of them.

    >>> a, b = Number(3.0), Number(2.0)
    >>> backward(a * a / b + dot([a, b], [b, b]))
    >>> (a.grad, b.grad)
    (5.0, 4.75)
    """

    __slots__ = ("grad", "order", "parents", "value")
    count = itertools.count()

    def __init__(self, value: float, *parents: tuple[Number, float]) -> None:
        self.value = value
        self.parents = parents
        self.grad = 0.0
        self.order = next(Number.count)

    def __add__(self, other: Number) -> Number:
        return Number(self.value + other.value, (self, 1.0), (other, 1.0))

    def __mul__(self, other: Number) -> Number:
        return Number(self.value * other.value, (self, other.value), (other, self.value))

    def __truediv__(self, other: Number) -> Number:
        ratio = self.value / other.value
        return Number(ratio, (self, 1.0 / other.value), (other, -ratio / other.value))

    def exp(self) -> Number:
        power = math.exp(self.value)
        return Number(power, (self, power))


def backward(result: Number) -> None:
    """Set the grad of every number that the result was made from."""
    found, waiting = {id(result): result}, [result]
    while waiting:
        for parent, _ in waiting.pop().parents:
            if id(parent) not in found:
                found[id(parent)] = parent
                waiting.append(parent)
    result.grad = 1.0
    for number in sorted(found.values(), key=lambda number: -number.order):
        for parent, slope in number.parents:
            parent.grad += slope * number.grad


def numbers(nested: Any) -> Any:
    """Return nested lists of floats as nested lists of Numbers."""
    return [numbers(item) for item in nested] if isinstance(nested, list) else Number(nested)


def flat(nested: Any) -> Iterator[Number]:
    """Yield the Numbers in nested lists."""
    if isinstance(nested, Number):
        yield nested
    else:
        for item in nested:
            yield from flat(item)


def dot(a: Vector, b: Vector) -> Number:
    """Return the sum of the products, as one Number: many of them in a row would be slow."""
    total, parents = 0.0, []
    for left, right in zip(a, b, strict=True):
        total += left.value * right.value
        parents += [(left, right.value), (right, left.value)]
    return Number(total, *parents)


def project(x: Matrix, weight: Matrix, bias: Vector) -> Matrix:
    """Return x weight^T + bias."""
    return [
        [dot(token, row) + offset for row, offset in zip(weight, bias, strict=True)] for token in x
    ]


def one_head(queries: Matrix, keys: Matrix, values: Matrix) -> tuple[Matrix, Matrix]:
    """Return the context vectors and weights of one causal head."""
    scale = Number(1.0 / math.sqrt(len(queries[0])))
    context_vec, attn_weights = [], []
    for t, query in enumerate(queries):
        powers = [(dot(query, key) * scale).exp() for key in keys[: t + 1]]  # the past and itself
        total = Number(0.0)
        for power in powers:
            total = total + power
        weights = [power / total for power in powers]
        columns = zip(*values[: t + 1], strict=True)
        context_vec.append([dot(weights, list(column)) for column in columns])
        attn_weights.append(weights + [Number(0.0) for _ in keys[t + 1 :]])
    return context_vec, attn_weights


class Parameters(NamedTuple):
    """A module's weights as Numbers under the names of its state_dict, and how to read them."""

    entries: dict[str, Any]
    num_heads: int
    stacked: bool  # heads.0.W_query, heads.1.W_query ... instead of one W_query for all heads

    def projection(self, which: str, head: int) -> tuple[Matrix, Vector]:
        """Return the weight and the bias with which one head makes its queries, keys or values."""
        prefix = f"heads.{head}." if self.stacked else ""
        weight = self.entries[f"{prefix}{which}.weight"]
        bias = self.entries.get(f"{prefix}{which}.bias") or [Number(0.0) for _ in weight]
        if self.stacked:
            return weight, bias
        head_dim = len(weight) // self.num_heads
        rows = slice(head * head_dim, (head + 1) * head_dim)
        return weight[rows], bias[rows]


def read(module: nn.Module) -> Parameters:
    """Return the weights of a module."""
    entries = {name: numbers(entry.tolist()) for name, entry in module.state_dict().items()}
    stacked = any(name.startswith("heads.") for name in entries)
    return Parameters(entries, getattr(module, "num_heads", 1), stacked)


def forward(parameters: Parameters, x: Matrix) -> tuple[Matrix, list[Matrix]]:
    """Return for one sequence the context vectors and, for each head, the weights."""
    contexts, attn_weights = [], []
    for head in range(parameters.num_heads):
        queries, keys, values = (
            project(x, *parameters.projection(which, head))
            for which in ("W_query", "W_key", "W_value")
        )
        context_vec, weights = one_head(queries, keys, values)
        contexts.append(context_vec)
        attn_weights.append(weights)
    together = [[c for part in parts for c in part] for parts in zip(*contexts, strict=True)]
    if "out_proj.weight" in parameters.entries:
        out_proj = (parameters.entries[f"out_proj.{part}"] for part in ("weight", "bias"))
        together = project(together, *out_proj)
    return together, attn_weights
