"""Checks of attention over tiles of keys, and of two partial results that are joined."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from attncourse.checks.answers import (
    FINITE,
    accept,
    call_on_copies,
    compare,
    describe_entry,
    is_near,
    known_mistakes,
    require,
)
from attncourse.checks.exercises import exercise_check
from attncourse.checks.verdict import Verdict
from attnlib.functional import attention, causal_mask

NUM_TOKENS, HEAD_DIM, VALUE_DIM = 7, 11, 5
MANY, SMALL_TILE = 61, 4  # tokens and tile_size, to see how large the tensors are
CLOSE = 1e-12
FLOAT32 = 1e-5  # a difference below this, and above CLOSE, comes from float32
LOWEST = 1e12  # further below 0 than any number that hides scores, such as -1e9
Part = tuple[Tensor, Tensor, Tensor]  # largest, total, mixed


def attend_in_tiles(queries: Tensor, keys: Tensor, values: Tensor, tile_size: int) -> Tensor:
    """Compute attention over tiles of keys; a tile that is all future is computed, too.

    Args:
        queries: (num_queries, head_dim), those of the last tokens.
        keys: (num_tokens, head_dim).
        values: (num_tokens, value_dim).
        tile_size: keys in each tile.
    """
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
    whole = call_on_copies(written, (*drawn, NUM_TOKENS))
    near = CLOSE if is_near(whole, _exact(*drawn, NUM_TOKENS), CLOSE) else FLOAT32

    def ask(*inputs: tuple[Any, ...]) -> str | None:
        known = known_mistakes("attend_in_tiles", attend_in_tiles)
        # A single input is enough where no mistake is to be named
        return compare(written, inputs, _exact, known if len(inputs) > 1 else {}, near)

    if said := ask((*drawn, NUM_TOKENS), (*other, NUM_TOKENS)):
        rule = " In the first tile largest is minus infinity, so exp(largest - larger) must be 0."
        return f"With one tile of all {NUM_TOKENS} keys: {said}{rule * bool(whole.isnan().all())}"
    for tile_size in (2, 3, 1):
        if said := ask((*drawn, tile_size), (*other, tile_size)):
            return f"Right with one tile. With tiles of {tile_size}: {said}"
    ones, above = torch.ones_like(drawn[1]), torch.ones_like(drawn[0])
    above[3] = 3000.0  # one query, its scores far above all others
    for where, queries in {
        "With scores above a thousand, whose exp is infinite": 1000 * ones,
        "With scores below minus a thousand, whose exp is 0": -1000 * ones,
        "With scores of query 3 far above those of the others, where each query needs a largest "
        "score of its own": above,
    }.items():
        if said := ask((queries, ones, drawn[2], 2)):
            return f"{where}: {said}"
    if said := _too_large(written):
        return said
    if said := ask((drawn[0][4:], *drawn[1:], 2)):
        return f"With the last 3 tokens alone as queries, at the positions of_query: {said}"
    lowest = -LOWEST * ones, ones, drawn[2], 2
    hides = is_near(call_on_copies(written, lowest), _exact(*lowest), near)
    dtype = "The queries are float64, and a new tensor is float32: zeros_like keeps the dtype."
    return accept(
        f"Right: equal within {near:.0e} with tiles of 1, 2, 3 and 7 keys, and with {MANY} tokens "
        "no tensor has a number for every pair.",
        *[dtype] * (near > CLOSE),
        *[FINITE] * (not hides),
    )


def _drawn(num_tokens: int, seed: int) -> Part:
    generator = torch.Generator().manual_seed(seed)
    queries, keys, values = (
        torch.randn(num_tokens, size, generator=generator, dtype=torch.float64)
        for size in (HEAD_DIM, HEAD_DIM, VALUE_DIM)
    )
    return 3 * queries, keys, values  # 3: so that the maximum often changes from tile to tile


def _exact(queries: Tensor, keys: Tensor, values: Tensor, _tile_size: int) -> Tensor:
    return attention(queries, keys, values, causal_mask(len(keys))[-len(queries) :])[0]


class _Calls(TorchFunctionMode):
    """Counts the functions of torch that are called, and keeps the largest tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.largest = 0, torch.zeros(0)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.count += 1
        for tensor in result if isinstance(result, tuple) else (result,):
            if isinstance(tensor, Tensor) and tensor.numel() > self.largest.numel():
                self.largest = tensor
        return result


def _too_large(written: Callable[..., Any]) -> str | None:
    """Look for a tensor that has a number for every pair of tokens."""
    drawn = _drawn(MANY, seed=1)
    with _Calls() as calls:
        written(*drawn, SMALL_TILE)
    if calls.largest.numel() >= MANY * MANY:
        shape = tuple(calls.largest.shape)
        return f"Equal, but with {MANY} tokens a tensor of {shape} was made, for all pairs at once."
    with _Calls() as at_once:
        written(*drawn, MANY)
    if at_once.count == calls.count:
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

    def columns(join: Callable[..., Any], *parts: Part) -> Tensor:
        found = join(*parts)
        is_part = isinstance(found, (tuple, list)) and len(found) == 3
        require(is_part, "join must return three tensors: largest, total, mixed.")
        return torch.cat(list(found), dim=1)

    def describe(mine: Tensor, right: Tensor, *_parts: Part) -> str:
        for name, place in {"largest": slice(1), "total": slice(1, 2)}.items():
            if not is_near(mine[:, place], right[:, place]):
                return f"Of {name}: {describe_entry(mine[:, place], right[:, place])}"
        return f"Of mixed: {describe_entry(mine[:, 2:], right[:, 2:])}"

    known = known_mistakes("join", _join).items()
    mistakes = {said: partial(columns, mistake) for said, mistake in known}
    for stretch, where in ((0.3, ""), (1000.0, "With scores of a thousand: ")):
        queries, keys, values = _drawn(NUM_TOKENS, seed=1)
        scores = stretch * queries @ keys.T
        parts = _part(scores[:, :2], values[:2]), _part(scores[:, 2:], values[2:])
        inputs, mine, right = [parts, parts[::-1]], partial(columns, join), partial(columns, _join)
        if said := compare(mine, inputs, right, mistakes, describe=describe):
            return f"{where}{said}"
    return accept("Right: in either order, and with scores of a thousand.")


def _part(scores: Tensor, values: Tensor) -> Part:
    largest = scores.amax(dim=1, keepdim=True)
    powers = torch.exp(scores - largest)
    return largest, powers.sum(dim=1, keepdim=True), powers @ values
