"""Causal attention a second time: plain Python floats and loops.

Nothing here comes from torch or attnlib but the weights themselves, read out as lists.
"""

import math

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


def forward(module: nn.Module, x: Matrix) -> tuple[Matrix, list[Matrix]]:
    """Return for one sequence the context vectors and, for each head, the weights."""
    entries = {name: entry.tolist() for name, entry in module.state_dict().items()}
    stacked, num_heads = hasattr(module, "heads"), getattr(module, "num_heads", 1)

    def part(which: str, head: int) -> Matrix:
        """Return one head's queries, keys or values."""
        prefix = f"heads.{head}." if stacked else ""
        weight = entries[f"{prefix}{which}.weight"]
        bias = entries.get(f"{prefix}{which}.bias") or [0.0 for _ in weight]
        head_dim = len(weight) if stacked else len(weight) // num_heads
        first = 0 if stacked else head * head_dim
        rows = slice(first, first + head_dim)
        return project(x, weight[rows], bias[rows])

    heads = [
        one_head(*(part(which, head) for which in ("W_query", "W_key", "W_value")))
        for head in range(num_heads)
    ]
    contexts, attn_weights = zip(*heads, strict=True)
    together = [[c for part in parts for c in part] for parts in zip(*contexts, strict=True)]
    if "out_proj.weight" in entries:
        together = project(together, entries["out_proj.weight"], entries["out_proj.bias"])
    return together, list(attn_weights)
