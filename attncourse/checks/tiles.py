"""Checks of attention over tiles of keys, and of two partial results that are joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from attncourse.checks.attempt import Diagnosis
from attncourse.checks.exercises import exercise_check
from attnlib.functional import attention, causal_mask

NUM_TOKENS, HEAD_DIM, VALUE_DIM = 7, 3, 5
MANY, SMALL_TILE = 61, 4  # tokens and tile_size, to see how large the tensors are
CLOSE = 1e-12
FLOAT32 = 1e-5  # a difference below this, and above CLOSE, comes from float32
ONE_LARGEST = (
    "Right until the scores of one query are far above those of the others, whose powers are then "
    "all 0: every query needs a largest score of its own, amax(dim=1, keepdim=True)."
)
Part = tuple[Tensor, Tensor, Tensor]  # largest, total, mixed


@exercise_check
def check_tiles(attend_in_tiles: Callable[..., Any]) -> str:
    """Check attention over tiles of keys, one difficulty after the other.

    Args:
        attend_in_tiles: takes queries, keys (num_tokens, head_dim), values (num_tokens, value_dim)
            and tile_size, and returns context_vec (num_tokens, value_dim), with the causal mask.

    Returns:
        A sentence: that it is right, or the first difficulty at which it is wrong.
    """
    attend_in_tiles = _guarded(attend_in_tiles)
    queries, keys, values = _drawn(NUM_TOKENS)
    with _Calls(keys, NUM_TOKENS) as calls:
        found = attend_in_tiles(queries, keys, values, NUM_TOKENS)
    right = _exact(queries, keys, values)
    if found.shape != right.shape:
        return f"The shape is {tuple(found.shape)}, not {tuple(right.shape)}."
    if not _equal(found, right):
        return _one_tile(found, queries, keys, values)
    still = torch.zeros_like(queries)  # equal scores: the maximum never changes
    found, right = attend_in_tiles(still, keys, values, 2), _exact(still, keys, values)
    if not _equal(found, right):
        return _equal_scores(found, right, keys, values, calls.softmax)
    for rising in (True, False):
        some = _with_scores(3.0, rising)
        found, right = attend_in_tiles(*some, 2), _exact(*some)
        if not _equal(found, right):
            return _unequal_scores(found, some, rising)
    for name, size in {"a thousand": 1000.0, "minus a thousand": -1000.0}.items():
        some = (torch.full_like(queries, size), torch.ones_like(keys), values)
        if not _equal(attend_in_tiles(*some, 2), _exact(*some)):
            return _extreme(name, size)
    above = torch.ones_like(queries)
    above[3] = 3000.0  # one query, its scores far above all others
    some = (above, torch.ones_like(keys), values)
    if not _equal(attend_in_tiles(*some, 2), _exact(*some)):
        return ONE_LARGEST
    for tile_size in (1, 3):
        if not _equal(
            attend_in_tiles(queries, keys, values, tile_size), _exact(queries, keys, values)
        ):
            return f"Right with tiles of 2 keys, wrong with tiles of {tile_size}."
    return _sizes(attend_in_tiles)


def _guarded(attend_in_tiles: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return the function so that it must return a tensor, and leave its arguments as they are."""

    def run(queries: Tensor, keys: Tensor, values: Tensor, tile_size: int) -> Tensor:
        given = {"queries": queries, "keys": keys, "values": values}
        before = {name: tensor.clone() for name, tensor in given.items()}
        found = attend_in_tiles(queries, keys, values, tile_size)
        if not isinstance(found, Tensor):
            many = f" of {len(found)}" if isinstance(found, (tuple, list)) else ""
            raise Diagnosis(
                f"It returns a {type(found).__name__}{many}, not a tensor: return mixed / total, "
                "and nothing else."
            )
        for name, tensor in given.items():
            if not torch.equal(tensor, before[name]):
                raise Diagnosis(
                    f"It changes {name}, which belong to whoever calls it: write "
                    f"{name} = {name} / ..., not {name} /= ... ."
                )
        return found

    return run


def _drawn(num_tokens: int) -> Part:
    generator = torch.Generator().manual_seed(1)
    sizes = (HEAD_DIM, HEAD_DIM, VALUE_DIM)
    queries, keys, values = (
        torch.randn(num_tokens, size, generator=generator, dtype=torch.float64) for size in sizes
    )
    return queries, keys, values


def _with_scores(step: float, rising: bool) -> Part:
    """Return queries, keys and values whose scores rise, or fall, by so much from key to key."""
    queries, keys, values = _drawn(NUM_TOKENS)
    queries[:], keys[:] = 0.0, 0.0
    queries[:, 0] = step * HEAD_DIM**0.5
    keys[:, 0] = torch.arange(NUM_TOKENS, dtype=torch.float64)
    return queries, keys if rising else -keys, values


def _exact(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return what attention gives with the causal mask, all scores at once."""
    return attention(queries, keys, values, causal_mask(len(queries)))[0]


def _equal(found: Tensor, right: Tensor) -> bool:
    return found.shape == right.shape and torch.allclose(
        found.to(right.dtype), right, rtol=0.0, atol=CLOSE
    )


def _off(found: Tensor, right: Tensor) -> str:
    return f"the largest difference is {(found - right).abs().max().item():.0e}"


def _first(found: Tensor, causes: Mapping[str, Tensor]) -> str | None:
    """Return the first sentence whose tensor is what was found."""
    return next((said for said, wrong in causes.items() if _equal(found, wrong)), None)


def _one_tile(found: Tensor, queries: Tensor, keys: Tensor, values: Tensor) -> str:
    """Say what is wrong where one tile holds all keys, so that nothing runs."""
    missing = found.isnan().any(dim=1)
    if missing.all():
        return (
            "NaN for every query, in the first tile already. Is the correction the wrong way up? "
            "It is exp(old maximum - new maximum), which is 0 at first; upside down it is "
            "infinite, and infinite times 0 is NaN."
        )
    if missing[0] and not missing[1:].any():
        return (
            "NaN for query 0, which sees no key at all: does the mask hide a query's own key? "
            "Only keys at later positions are hidden."
        )
    if missing[-1] and not missing[:-1].any():
        return (
            "NaN for the last query, which sees no key at all, while the first sees those of its "
            "future. Turn the mask round: a key is hidden where its position is later than the "
            "query's."
        )
    right, is_future = _exact(queries, keys, values), causal_mask(NUM_TOKENS)
    if torch.allclose(found.to(right.dtype), right, rtol=0.0, atol=FLOAT32):
        return (
            f"Right, but only up to {_off(found, right).split()[-1]}, which is float32, though the "
            "queries are float64: make new tensors with torch.zeros_like and torch.full_like, or "
            "with dtype=values.dtype."
        )
    scores = (queries @ keys.T / HEAD_DIM**0.5).masked_fill(is_future, -torch.inf)
    with_zero = scores.masked_fill(is_future, 0.0)
    powers = torch.exp(scores - scores.amax(dim=1, keepdim=True))
    causes = {
        "The scores are not divided by the root of head_dim.": _exact(
            queries * HEAD_DIM**0.5, keys, values
        ),
        "Nothing is hidden: every query sees the keys of its future too.": attention(
            queries, keys, values
        )[0],
        "The mask is the wrong way round: each query sees its future and itself, and its past is "
        "hidden.": attention(queries, keys, values, is_future.T)[0],
        "Hidden scores are 0, and exp(0) is 1: a key is hidden by a score of minus infinity.": (
            torch.softmax(with_zero, dim=1) @ values
        ),
        "The result is not divided by the total, so the weights of a row do not sum to 1.": (
            powers @ values
        ),
    }
    return _first(found, causes) or (
        f"With a single tile of all {NUM_TOKENS} keys it is not attention: "
        f"{_off(found, right)}. Before you run over tiles, get this one "
        "right: scores, mask, largest, powers, total, mixed, and one division at the end."
    )


def _equal_scores(found: Tensor, right: Tensor, keys: Tensor, values: Tensor, softmax: bool) -> str:
    """Say what is wrong where all scores are 0, so that no maximum changes."""
    if softmax:
        return (
            "softmax divides every tile by a total of its own, as if each were a text by itself, "
            "and where a tile is all future it gives NaN. Add up the powers and the mixtures of "
            "all tiles, and divide once, at the end."
        )
    forgotten = (
        "Every query keeps only the last tile it sees: is largest = larger missing, at the end of "
        "a tile? While largest stays minus infinity, the correction is 0 and forgets all before."
    )
    last_tile_only = _forgetful(keys, values)
    seen = found.isfinite().all(dim=1)
    if seen.any() and _equal(found[seen], last_tile_only[seen]):
        return forgotten
    if found.isnan().any():
        return (
            "NaN: for an early query a later tile is all future, and its own maximum is minus "
            "infinity. Subtract the largest score of all tiles so far."
        )
    places = torch.arange(NUM_TOKENS)
    restarted = (places % 2)[None, :] <= places[:, None]
    even = restarted.to(values.dtype)
    if _equal(found[:-1], right[:-1]):
        return (
            "Only the last query is wrong: the last tile is smaller than the others, and its key "
            f"{len(keys) - 1} is missing."
        )
    causes = {
        "With tiles of 2 keys a query sees its future: in the mask, count the keys from the start "
        "of the text, not of the tile.": even @ values / even.sum(dim=1, keepdim=True),
    }
    return _first(found, causes) or (
        "Right with one tile, wrong with tiles of 2 keys, though all scores are equal and no "
        "maximum changes: are total and mixed added up over all tiles, and divided once, at the "
        "end?"
    )


def _forgetful(keys: Tensor, values: Tensor) -> Tensor:
    """Return, where all scores are 0, the average over those keys of its last tile a query sees."""
    places = torch.arange(len(keys))
    same_tile = places[:, None] // 2 == places // 2
    seen = (same_tile & (places <= places[:, None])).to(values.dtype)
    return seen @ values / seen.sum(dim=1, keepdim=True)


def _unequal_scores(found: Tensor, some: Part, rising: bool) -> str:
    """Say what is wrong where only scores that rise, or fall, make a difference."""
    causes = {
        "total keeps what it summed up with a smaller maximum: multiply it by the correction.": (
            _running(*some, total=0.0)
        ),
        "mixed keeps what it summed up with a smaller maximum: multiply it by the correction.": (
            _running(*some, mixed=0.0)
        ),
        "The correction is the wrong way up: it is exp(old maximum - new maximum), at most 1.": (
            _running(*some, total=-1.0, mixed=-1.0)
        ),
        "Neither total nor mixed is corrected when a tile has a larger score.": (
            _running(*some, total=0.0, mixed=0.0)
        ),
    }
    where = "rise from tile to tile" if rising else "fall from tile to tile"
    hint = (
        "what was summed up before must be made smaller"
        if rising
        else "the maximum so far must stay, where a tile has only smaller scores"
    )
    return _first(found, causes) or f"Wrong where the scores {where}: {hint}."


def _running(
    queries: Tensor, keys: Tensor, values: Tensor, total: float = 1.0, mixed: float = 1.0
) -> Tensor:
    """Return the running softmax over tiles of 2 keys, its corrections to these powers."""
    largest = torch.full_like(queries[:, :1], -torch.inf)
    totals, mixtures = torch.zeros_like(largest), torch.zeros_like(values)
    places = torch.arange(len(queries))
    for start in range(0, len(places), 2):
        tile = places[start : start + 2]
        scores = queries @ keys[tile].T / HEAD_DIM**0.5
        scores = scores.masked_fill(tile > places[:, None], -torch.inf)
        now = torch.maximum(largest, scores.amax(dim=1, keepdim=True))
        correction = torch.exp((largest - now).clamp(min=-700.0))
        powers = torch.exp(scores - now)
        totals = correction**total * totals + powers.sum(dim=1, keepdim=True)
        mixtures = correction**mixed * mixtures + powers @ values[tile]
        largest = now
    return mixtures / totals


def _extreme(name: str, size: float) -> str:
    """Say what happens with scores that exp cannot take."""
    if size > 0:
        return (
            f"Right until scores are about {name}: exp of that is infinite. Take the largest score "
            "so far away first."
        )
    return (
        f"Right until scores are about {name}: exp of that is 0, and 0 / 0 is NaN. The largest "
        "score so far must begin at minus infinity, not at 0."
    )


PRODUCTS = ("matmul", "mm", "mv", "bmm", "einsum", "linear", "inner", "tensordot", "mul")


class _Calls(TorchFunctionMode):
    """Watch the functions of torch that are called.

    Args:
        keys: those of the attention that runs.
        tile_size: how many of them it may take at a time.
    """

    def __init__(self, keys: Tensor, tile_size: int) -> None:
        super().__init__()
        self.keys, self.tile_size = keys, tile_size
        self.largest = torch.zeros(0)  # tensor that a function returned
        self.many = 0  # calls
        self.softmax = False  # whether it was called
        self.whole_row = False  # whether a query met more keys than a tile has

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.many += 1
        name = getattr(func, "__name__", "").strip("_").removeprefix("r")
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        for tensor in result if isinstance(result, tuple) else (result,):
            if isinstance(tensor, Tensor) and tensor.numel() > self.largest.numel():
                self.largest = tensor
        if name in {"softmax", "scaled_dot_product_attention"}:
            self.softmax = True
            self.whole_row |= max(inputs[0].shape) > self.tile_size
        if name in PRODUCTS and len(inputs) > 1:
            self.whole_row |= any(map(self._more_than_a_tile, inputs))
        return result

    def _more_than_a_tile(self, tensor: Tensor) -> bool:
        """Tell whether this is a view of more keys than a tile has."""
        same = tensor.untyped_storage().data_ptr() == self.keys.untyped_storage().data_ptr()
        return same and tensor.numel() > self.tile_size * self.keys.shape[1]


def _sizes(attend_in_tiles: Callable[..., Any]) -> str:
    """Look for a tensor that has a number for every pair of tokens."""
    some = _drawn(MANY)
    with _Calls(some[1], SMALL_TILE) as calls:
        attend_in_tiles(*some, SMALL_TILE)
    shape, pairs = tuple(calls.largest.shape), MANY * MANY
    if calls.largest.numel() < pairs:
        if calls.whole_row:
            return (
                f"Equal, but with a tile_size of {SMALL_TILE} a query still meets more keys than "
                f"that at a time. Take the keys tile by tile, and keep only largest, total and "
                "mixed in between."
            )
        with _Calls(some[1], MANY) as at_once:
            attend_in_tiles(*some, MANY)
        if at_once.many == calls.many:
            return (
                f"Equal, but tile_size makes no difference: with {SMALL_TILE} keys in a tile or "
                f"{MANY}, it does the same. Take tile_size keys at a time."
            )
        return (
            "Right: equal within 1e-12 with tiles of 1, 2, 3 and 7 keys, and with 61 tokens no "
            "query meets more keys at a time than a tile has."
        )
    if calls.largest.dtype == torch.bool:
        return (
            f"Equal, but the mask is made for all pairs, {shape}: compare the places of one tile."
        )
    return f"Equal, but a tensor of {shape} was made: all scores at once, for {MANY} tokens."


@exercise_check
def check_joined(join: Callable[..., Any]) -> str:
    """Check a function that joins what two readers have made of different keys.

    Args:
        join: takes two tuples (largest, total, mixed), of sizes (n, 1), (n, 1), (n, value_dim),
            and returns one.

    Returns:
        A sentence: that it is right, or what is wrong.
    """
    queries, keys, values = _drawn(NUM_TOKENS)
    scores = queries @ keys.T
    for name, stretch in {"": 1.0, " where scores reach a thousand": 1000.0}.items():
        first = _part(stretch * scores[:, :2], values[:2])
        second = _part(stretch * scores[:, 2:], values[2:])
        right = _part(stretch * scores, values)
        for parts in ((first, second), (second, first)):
            found = join(*parts)
            if not isinstance(found, (tuple, list)) or len(found) != 3:
                return "join returns three tensors: largest, total, mixed."
            wrong = _wrong_join(found, parts, right)
            if wrong:
                return f"{wrong[:-1]}{name}." if stretch > 1 else wrong
    return "Right: in either order, and with scores of a thousand."


def _part(scores: Tensor, values: Tensor) -> Part:
    """Return what one reader makes of some keys."""
    largest = scores.amax(dim=1, keepdim=True)
    powers = torch.exp(scores - largest)
    return largest, powers.sum(dim=1, keepdim=True), powers @ values


def _wrong_join(found: Any, parts: tuple[Part, Part], right: Part) -> str | None:
    (largest_0, total_0, mixed_0), (largest_1, total_1, mixed_1) = parts
    if not _equal(found[0], right[0]):
        return "largest is not the larger of the two, row by row."
    if _equal(found[1], total_0 + total_1):
        return "The totals are added as they are, but each was made with a maximum of its own."
    if not all(part.isfinite().all() for part in found):
        return "A number is infinite or NaN: take the larger maximum away before exp."
    if not _equal(found[1], right[1]):
        factor_0, factor_1 = torch.exp(largest_0 - right[0]), torch.exp(largest_1 - right[0])
        causes = {
            "The factors are upside down: exp(its largest - the larger one) is at most 1.": (
                total_0 / factor_0 + total_1 / factor_1
            ),
            "The factors are exchanged: each of the two needs its own.": (
                factor_1 * total_0 + factor_0 * total_1
            ),
            "Only the first is corrected, but in some rows the second has the smaller maximum.": (
                factor_0 * total_0 + total_1
            ),
            "Only the second is corrected, but in some rows the first has the smaller maximum.": (
                total_0 + factor_1 * total_1
            ),
        }
        return _first(found[1], causes) or (
            "total is wrong: correct each of the two by exp(its largest - the larger one)."
        )
    if _equal(found[2], mixed_0 + mixed_1):
        return "The mixtures are added as they are: correct them like the totals."
    if not _equal(found[2], right[2]):
        return "mixed is wrong: correct each by its own factor, and do not divide yet."
    return None
