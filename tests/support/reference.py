"""Causal attention a second time: plain Python floats and loops.

Nothing here comes from torch or attnlib but the weights themselves, read out as lists.
"""

import math
from typing import Any, NamedTuple

from torch import nn

Vector = list[float]
Matrix = list[Vector]


def dot(a: Vector, b: Vector) -> float:
    """Return the sum of the products."""
    return sum(left * right for left, right in zip(a, b, strict=True))


def project(x: Matrix, weight: Matrix, bias: Vector) -> Matrix:
    """Return x weight^T + bias."""
    return [
        [dot(token, row) + offset for row, offset in zip(weight, bias, strict=True)] for token in x
    ]


def one_head(queries: Matrix, keys: Matrix, values: Matrix) -> tuple[Matrix, Matrix]:
    """Return the context vectors and weights of one causal head."""
    scale = 1 / math.sqrt(len(queries[0]))
    context_vec, attn_weights = [], []
    for t, query in enumerate(queries):
        powers = [math.exp(dot(query, key) * scale) for key in keys[: t + 1]]  # the past and itself
        weights = [power / sum(powers) for power in powers]
        columns = zip(*values[: t + 1], strict=True)
        context_vec.append([dot(weights, list(column)) for column in columns])
        attn_weights.append(weights + [0.0 for _ in keys[t + 1 :]])
    return context_vec, attn_weights


class Parameters(NamedTuple):
    """A module's weights as lists under the names of its state_dict, and how to read them."""

    entries: dict[str, Any]
    num_heads: int
    stacked: bool  # heads.0.W_query, heads.1.W_query ... instead of one W_query for all heads

    def projection(self, which: str, head: int) -> tuple[Matrix, Vector]:
        """Return the weight and the bias with which one head makes its queries, keys or values."""
        prefix = f"heads.{head}." if self.stacked else ""
        weight = self.entries[f"{prefix}{which}.weight"]
        bias = self.entries.get(f"{prefix}{which}.bias") or [0.0 for _ in weight]
        if self.stacked:
            return weight, bias
        head_dim = len(weight) // self.num_heads
        rows = slice(head * head_dim, (head + 1) * head_dim)
        return weight[rows], bias[rows]


def read(module: nn.Module) -> Parameters:
    """Return the weights of a module."""
    entries = {name: entry.tolist() for name, entry in module.state_dict().items()}
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
