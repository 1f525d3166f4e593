"""Checks of attention over tiles of keys, and of two partial results that are joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from attncourse.checks.answers import compare
from attncourse.checks.exercises import exercise_check
from attncourse.checks.verdict import Verdict

NUM_TOKENS, HEAD_DIM, VALUE_DIM = 7, 11, 5
MANY, SMALL_TILE = 61, 4  # tokens and tile_size, to see how large the tensors are
Part = tuple[Tensor, Tensor, Tensor]  # largest, total, mixed


def attend_in_tiles(queries: Tensor, keys: Tensor, values: Tensor, tile_size: int) -> Tensor:
    """Compute causal attention over tiles of keys; the queries are those of the last tokens."""
    position = torch.arange(len(keys))
    of_query = position[-len(queries) :, None]
    largest = torch.full_like(queries[:, :1], -torch.inf)
    total, mixed = torch.zeros_like(largest), torch.zeros_like(values[-len(queries) :])
    for start in range(0, len(keys), tile_size):
        tile = slice(start, start + tile_size)
        scores = queries @ keys[tile].T / queries.shape[1] ** 0.5
        scores = scores.masked_fill(position[tile] > of_query, -torch.inf)
        larger = torch.maximum(largest, scores.amax(dim=1, keepdim=True))
        correction = torch.exp(largest - larger)
        powers = torch.exp(scores - larger)
        total = correction * total + powers.sum(dim=1, keepdim=True)
        mixed = correction * mixed + powers @ values[tile]
        largest = larger
    return mixed / total


@exercise_check(reference=attend_in_tiles)
def check_tiles(written: Callable[..., Any]) -> Verdict | str:
    """Check attention over tiles of keys, as attend_in_tiles, one difficulty after the other."""
    drawn, other = _drawn(NUM_TOKENS, seed=1), _drawn(NUM_TOKENS, seed=2)
    stages = {"With one tile of all 7 keys": NUM_TOKENS}
    stages |= {f"Right with one tile. With tiles of {size}": size for size in (2, 3, 1)}
    for where, size in stages.items():
        inputs = [(*drawn, size), (*other, size)]
        if said := compare(written, inputs, attend_in_tiles, "attend_in_tiles"):
            return f"{where}: {said}"
    ones, above = torch.ones_like(drawn[1]), torch.ones_like(drawn[0])
    above[3] = 3000.0  # one query, its scores far above all others
    for where, queries in {
        "With scores above a thousand, whose exp is infinite": 1000 * ones,
        "With scores below minus a thousand, whose exp is 0": -1000 * ones,
        "With scores of query 3 far above those of the others, where each query needs a largest "
        "score of its own": above,
    }.items():
        if said := compare(written, [(queries, ones, drawn[2], 2)], attend_in_tiles):
            return f"{where}: {said}"
    if said := _too_large(written):
        return said
    if said := compare(written, [(drawn[0][4:], *drawn[1:], 2)], attend_in_tiles):
        return f"With the last 3 tokens alone as queries, at the positions of_query: {said}"
    return Verdict(
        True,
        "Right: equal with tiles of 1, 2, 3 and 7 keys, and with 61 tokens no tensor has a number "
        "for every pair.",
    )


def _drawn(num_tokens: int, seed: int) -> Part:
    generator = torch.Generator().manual_seed(seed)
    queries, keys, values = (
        torch.randn(num_tokens, size, generator=generator, dtype=torch.float64)
        for size in (HEAD_DIM, HEAD_DIM, VALUE_DIM)
    )
    return 3 * queries, keys, values  # 3: so that the maximum often changes from tile to tile


class _Results(TorchFunctionMode):
    """Keeps what the functions of torch return."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.tensors += [each for each in tree_leaves(result) if isinstance(each, Tensor)]
        return result


def _too_large(written: Callable[..., Any]) -> str | None:
    """Look for a tensor that has a number for every pair of tokens."""
    with _Results() as in_tiles:
        written(*_drawn(MANY, seed=1), SMALL_TILE)
    for tensor in in_tiles.tensors:
        if tensor.numel() >= MANY * MANY:
            made = f"a tensor of {tuple(tensor.shape)} was made, for all pairs at once."
            return f"Equal, but with {MANY} tokens {made}"
    with _Results() as at_once:
        written(*_drawn(MANY, seed=1), MANY)
    if len(at_once.tensors) == len(in_tiles.tensors):
        return "Equal, but tile_size makes no difference: take tile_size keys at a time."
    return None


def _join(first: Part, second: Part) -> Part:
    (m_0, total_0, mixed_0), (m_1, total_1, mixed_1) = first, second
    largest = torch.maximum(m_0, m_1)
    c_0, c_1 = torch.exp(m_0 - largest), torch.exp(m_1 - largest)
    return largest, c_0 * total_0 + c_1 * total_1, c_0 * mixed_0 + c_1 * mixed_1


@exercise_check(reference=_join)
def check_joined(join: Callable[..., Any]) -> Verdict | str:
    """Check a function that joins what two readers have made of different keys.

    It takes two tuples (largest, total, mixed), of (n, 1), (n, 1), (n, value_dim), and returns one.
    """

    def columns(part: Part, *_parts: Part) -> Tensor:
        return torch.cat(list(part), dim=1)

    queries, keys, values = _drawn(NUM_TOKENS, seed=1)
    for stretch, where in ((0.3, ""), (1000.0, "With scores of a thousand: ")):
        scores = stretch * queries @ keys.T
        parts = _part(scores[:, :2], values[:2]), _part(scores[:, 2:], values[2:])
        inputs = [parts, parts[::-1]]
        if said := compare(join, inputs, _join, "join", view=columns):
            return f"{where}{said} Column 0 is largest, column 1 is total, the others are mixed."
    return Verdict(True, "Right: in either order, and with scores of a thousand.")


def _part(scores: Tensor, values: Tensor) -> Part:
    largest = scores.amax(dim=1, keepdim=True)
    powers = torch.exp(scores - largest)
    return largest, powers.sum(dim=1, keepdim=True), powers @ values
