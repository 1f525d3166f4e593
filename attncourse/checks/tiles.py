"""Checks of attention over tiles of keys, and of two partial results that are joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from attncourse.checks.answers import (
    FINITE,
    FailedCall,
    first_near,
    is_near,
    noted,
    remedied,
    require,
    require_shape,
)
from attncourse.checks.exercises import exercise_check
from attncourse.checks.verdict import Verdict
from attncourse.variants import in_tiles
from attnlib.functional import attention, causal_mask

NUM_TOKENS, HEAD_DIM, VALUE_DIM = 7, 3, 5
MANY, SMALL_TILE = 61, 4  # tokens and tile_size, to see how large the tensors are
CLOSE = 1e-12
FARTHER = 1e12  # below 0 than the numbers that hide scores
FLOAT32 = 1e-5  # a difference below this, and above CLOSE, comes from float32
Part = tuple[Tensor, Tensor, Tensor]  # largest, total, mixed


@exercise_check(reference=in_tiles.attend_in_tiles)
def check_tiles(attend_in_tiles: Callable[..., Any]) -> Verdict | str:
    """Check attention over tiles of keys, one difficulty after the other.

    Args:
        attend_in_tiles: takes queries (num_queries, head_dim) of the last tokens, keys (num_tokens,
            head_dim), values (num_tokens, value_dim) and tile_size, and returns context_vec
            (num_queries, value_dim), with the causal mask.
    """
    attend = _guarded(attend_in_tiles)
    drawn = queries, keys, values = _drawn(NUM_TOKENS)
    with remedied(_of_columns), _Calls(keys, NUM_TOKENS) as calls:
        found = attend(*drawn, NUM_TOKENS)
    right = _exact(*drawn)
    require_shape(found, tuple(right.shape))
    near = CLOSE if is_near(found, right, CLOSE) else FLOAT32
    if not is_near(found, right, near):
        return _odd_rows(found) or _one_tile(found, *drawn)
    ones, above = torch.ones_like(keys), torch.ones_like(queries)
    above[3] = 3000.0  # one query, its scores far above all others
    lowest = (-FARTHER * ones, ones, values)
    still, rising, falling = (_with_scores(step) for step in (0.0, 3.0, -3.0))
    questions: tuple[tuple[Part, int, Callable[[Tensor], str]], ...] = (
        (still, 2, lambda found: _equal_scores(found, keys, values, calls.softmax)),
        (rising, 2, lambda found: _unequal_scores(found, rising, RISING)),
        (falling, 2, lambda found: _unequal_scores(found, falling, FALLING)),
        ((1000.0 * ones, ones, values), 2, lambda _: TOO_HIGH),
        ((-1000.0 * ones, ones, values), 2, lambda _: TOO_LOW),
        ((above, ones, values), 2, lambda _: ONE_LARGEST),
        (drawn, 1, lambda _: "Right with tiles of 2 keys, wrong with tiles of 1."),
        (drawn, 3, lambda _: "Right with tiles of 2 keys, wrong with tiles of 3."),
    )
    for some, tile_size, say in questions:  # say: what is wrong, from what was found
        found = attend(*some, tile_size)
        if not is_near(found, _exact(*some), near):
            return say(found)
    wrong = _too_large(attend) or _of_the_last(attend, near)
    return wrong or noted(
        f"Right: equal within {near:.0e} with tiles of 1, 2, 3 and 7 keys, and with {MANY} tokens "
        "no query meets more keys at a time than a tile has.",
        *[FEWER_DIGITS] * (near > CLOSE),
        *[FINITE] * (not is_near(attend(*lowest, 2), _exact(*lowest), near)),
    )


FEWER_DIGITS = "The queries are float64, and a new tensor is float32: zeros_like keeps the dtype."
RISING = "the scores rise from tile to tile: what was summed up before must be made smaller."
FALLING = "the scores fall from tile to tile: the maximum so far must stay where a tile has less."
TOO_HIGH = (
    "exp of scores about a thousand is infinite: the largest so far must be taken away first."
)
TOO_LOW = (
    "exp of scores about minus a thousand is 0, and 0 / 0 is NaN: the largest score so far must "
    "begin at minus infinity, not at 0."
)
ONE_LARGEST = (
    "Right until the scores of one query are far above all others, whose powers are then 0: every "
    "query needs a largest score of its own, amax(dim=1, keepdim=True)."
)


def _guarded(attend_in_tiles: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return the function so that it must return a tensor, and leave its arguments as they are."""

    def run(queries: Tensor, keys: Tensor, values: Tensor, tile_size: int) -> Tensor:
        given = {"queries": queries, "keys": keys, "values": values}
        before = {name: tensor.clone() for name, tensor in given.items()}
        found: Tensor = attend_in_tiles(queries, keys, values, tile_size)
        said = f"It returns a {type(found).__name__}, not a tensor: return mixed / total alone."
        require(isinstance(found, Tensor), said)
        for name, tensor in given.items():
            said = f"It changes {name}: write {name} = {name} / ..., not {name} /= ... ."
            require(tensor.equal(before[name]), said)
        return found

    return run


def _of_columns(_error: BaseException, call: FailedCall) -> str | None:
    """Return what is missing where a number for each query is a row, not a column."""
    if {shape[-1] for shape in call.shapes if shape} != {NUM_TOKENS, VALUE_DIM}:
        return None
    return (
        f"{call.shapes[0]} meets {call.shapes[1]}. A number for each query must stay a column, "
        "(num_tokens, 1), beside its values: is keepdim=True missing in amax or sum?"
    )


def _drawn(num_tokens: int) -> Part:
    generator = torch.Generator().manual_seed(1)
    queries, keys, values = (
        torch.randn(num_tokens, size, generator=generator, dtype=torch.float64)
        for size in (HEAD_DIM, HEAD_DIM, VALUE_DIM)
    )
    return queries, keys, values


def _with_scores(step: float) -> Part:
    queries, keys, values = _drawn(NUM_TOKENS)
    queries[:], queries[:, 0] = 0.0, step * HEAD_DIM**0.5
    keys[:, 0] = torch.arange(NUM_TOKENS, dtype=torch.float64)
    return queries, keys, values


def _exact(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return attention(queries, keys, values, causal_mask(len(queries)))[0]


def _odd_rows(found: Tensor) -> str | None:
    few = [False] * (NUM_TOKENS - 1)
    causes = {
        (True,) * NUM_TOKENS: "NaN for every query, in the first tile already: is the correction "
        "the wrong way up? exp(old maximum - new maximum) is 0 at first; upside down it is "
        "infinite, and infinite times 0 is NaN.",
        (True, *few): "NaN for query 0, which sees no key at all: does the mask hide a query's own "
        "key? Only keys at later positions must be hidden.",
        (*few, True): "NaN for the last query, which sees no key at all, while the first sees "
        "those of its future: a key must be hidden where its position is later than the query's.",
    }
    return causes.get(tuple(found.isnan().any(dim=1).tolist()))


def _one_tile(found: Tensor, queries: Tensor, keys: Tensor, values: Tensor) -> str:
    """Say what is wrong where one tile holds all keys, so that nothing runs."""
    is_future = causal_mask(NUM_TOKENS)
    scores = (queries @ keys.T / HEAD_DIM**0.5).masked_fill(is_future, -torch.inf)
    powers = torch.exp(scores - scores.amax(dim=1, keepdim=True))
    root = HEAD_DIM**0.5
    usual = {
        "The scores are not divided by the root of head_dim.": _exact(queries * root, keys, values),
        "Nothing is hidden: every query sees its future.": attention(queries, keys, values)[0],
        "The mask is the wrong way round: each query sees its future and itself, not its past.": (
            attention(queries, keys, values, is_future.T)[0]
        ),
        "Hidden scores are 0, and exp(0) is 1: a hidden score must be minus infinity.": (
            torch.softmax(scores.masked_fill(is_future, 0.0), dim=1) @ values
        ),
        "The result must be divided by the total, so that the weights of a row sum to 1.": (
            powers @ values
        ),
    }
    off = (found - _exact(queries, keys, values)).abs().max().item()
    return first_near(found, usual) or (
        f"With one tile of all {NUM_TOKENS} keys it is off by {off:.0e}. First get this right: "
        "scores, mask, largest, powers, total, mixed, and one division at the end."
    )


def _equal_scores(found: Tensor, keys: Tensor, values: Tensor, softmax: bool) -> str:
    """Say what is wrong where all scores are 0, so that no maximum changes."""
    if softmax:
        return (
            "softmax divides every tile by a total of its own. Add up the powers and the mixtures "
            "of all tiles, and divide once, at the end."
        )
    places = torch.arange(NUM_TOKENS)
    is_past, same_tile = places <= places[:, None], places[:, None] // 2 == places // 2
    last_tile_only, restarted = (
        (seen / seen.sum(dim=1, keepdim=True)) @ values
        for seen in ((is_past & same_tile).double(), (places % 2 <= places[:, None]).double())
    )
    is_whole = found.isfinite().all(dim=1)
    if is_whole.any() and is_near(found[is_whole], last_tile_only[is_whole]):
        return (
            "Every query keeps only the last tile it sees: is largest = larger missing, at the end "
            "of a tile? While largest stays minus infinity, the correction is 0."
        )
    if found.isnan().any():
        return (
            "NaN: for an early query a later tile is all future, and its own maximum is minus "
            "infinity. Subtract the largest score of all tiles so far."
        )
    if is_near(found, restarted):
        return "A query sees its future: count keys from the start of the text, not of the tile."
    if is_near(found[:-1], _exact(0 * keys, keys, values)[:-1]):
        return "Only the last query is wrong: the last tile is smaller, and its key 6 is missing."
    return (
        "Right with one tile, wrong with tiles of 2 keys, though all scores are equal: are total "
        "and mixed added up over all tiles, and divided once, at the end?"
    )


UNCORRECTED = {  # by what to say of it, to which powers the corrections of total and mixed are
    "total keeps what it summed up with a smaller maximum: it must be corrected.": (0.0, 1.0),
    "mixed keeps what it summed up with a smaller maximum: it must be corrected.": (1.0, 0.0),
    "The correction is the wrong way up: it must be exp(old maximum - new maximum).": (-1.0, -1.0),
    "Neither total nor mixed is corrected when a tile has a larger score.": (0.0, 0.0),
}


def _unequal_scores(found: Tensor, some: Part, where: str) -> str:
    """Say what is wrong where only scores that rise, or fall, make a difference."""
    usual = {
        said: in_tiles.attend_in_tiles(*some, 2, powers) for said, powers in UNCORRECTED.items()
    }
    return first_near(found, usual) or f"Wrong where {where}"


PRODUCTS = ("matmul", "mm", "mv", "bmm", "einsum", "linear", "inner", "tensordot", "mul")


class _Calls(TorchFunctionMode):
    """Watch the functions of torch that are called, of attention to so many keys at a time."""

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


def _too_large(attend: Callable[..., Any]) -> str | None:
    """Look for a tensor that has a number for every pair of tokens, or a row of them."""
    some = _drawn(MANY)
    with _Calls(some[1], SMALL_TILE) as calls:
        attend(*some, SMALL_TILE)
    shape, with_all_pairs = tuple(calls.largest.shape), calls.largest.numel() >= MANY * MANY
    if with_all_pairs and calls.largest.dtype == torch.bool:
        return f"Equal, but the mask is made for all pairs, {shape}: compare places of one tile."
    if with_all_pairs:
        return f"Equal, but a tensor of {shape} was made: all scores at once, for {MANY} tokens."
    if calls.whole_row:
        return (
            f"Equal, but with a tile_size of {SMALL_TILE} a query still meets more keys than that "
            "at a time. Keep only largest, total and mixed from tile to tile."
        )
    with _Calls(some[1], MANY) as at_once:
        attend(*some, MANY)
    if at_once.many == calls.many:
        return "Equal, but tile_size makes no difference: take tile_size keys at a time."
    return None


def _of_the_last(attend: Callable[..., Any], near: float) -> str | None:
    """Say what is wrong where the last tokens alone are queries."""
    queries, keys, values = _drawn(NUM_TOKENS)
    with remedied(lambda *_: LAST):
        found = attend(queries[4:], keys, values, 2)
    return None if is_near(found, _exact(queries, keys, values)[4:], near) else LAST


LAST = (
    "Right while every token is a query. Of the last three alone it is wrong: hide by of_query, "
    "the positions of the queries, and give total and mixed a row for each query."
)


def _join(first: Part, second: Part) -> Part:
    (m_0, total_0, mixed_0), (m_1, total_1, mixed_1) = first, second
    largest = torch.maximum(m_0, m_1)
    c_0, c_1 = torch.exp(m_0 - largest), torch.exp(m_1 - largest)
    return largest, c_0 * total_0 + c_1 * total_1, c_0 * mixed_0 + c_1 * mixed_1


@exercise_check(reference=_join)
def check_joined(join: Callable[..., Any]) -> Verdict:
    """Check a function that joins what two readers have made of different keys.

    Args:
        join: takes two tuples (largest, total, mixed), of sizes (n, 1), (n, 1), (n, value_dim),
            and returns one.
    """
    queries, keys, values = _drawn(NUM_TOKENS)
    scores = queries @ keys.T
    for stretch, where in ((1.0, ""), (1000.0, " where scores reach a thousand")):
        first = _part(stretch * scores[:, :2], values[:2])
        second = _part(stretch * scores[:, 2:], values[2:])
        right = _part(stretch * scores, values)
        for parts in ((first, second), (second, first)):
            found = join(*parts)
            is_part = isinstance(found, (tuple, list)) and len(found) == 3
            require(is_part, "join returns three tensors: largest, total, mixed.")
            wrong = _wrong_join(found, parts, right)
            require(wrong is None, f"{wrong}{where}.")
    return noted("Right: in either order, and with scores of a thousand.")


def _part(scores: Tensor, values: Tensor) -> Part:
    largest = scores.amax(dim=1, keepdim=True)
    powers = torch.exp(scores - largest)
    return largest, powers.sum(dim=1, keepdim=True), powers @ values


def _wrong_join(found: Part, parts: tuple[Part, Part], right: Part) -> str | None:
    """Return what is wrong with joined parts, without a full stop, or None."""
    (largest_0, total_0, mixed_0), (largest_1, total_1, mixed_1) = parts
    if not is_near(found[0], right[0], CLOSE):
        return "largest is not the larger of the two, row by row"
    if not all(part.isfinite().all() for part in found):
        return "A number is infinite or NaN: take the larger maximum away before exp"
    factor_0, factor_1 = torch.exp(largest_0 - right[0]), torch.exp(largest_1 - right[0])
    if not is_near(found[1], right[1], CLOSE):
        only = "is corrected, but in some rows the other has the smaller maximum"
        upside_down = total_0 / factor_0 + total_1 / factor_1
        exchanged = factor_1 * total_0 + factor_0 * total_1
        usual = {
            "The totals are added as they are, but each has a maximum of its own": total_0
            + total_1,
            "The factors are upside down: exp(its largest - the larger one) <= 1": upside_down,
            "The factors are exchanged: each of the two needs its own": exchanged,
            f"Only the first {only}": factor_0 * total_0 + total_1,
            f"Only the second {only}": total_0 + factor_1 * total_1,
        }
        other = "total is wrong: correct each of the two by exp(its largest - the larger one)"
        return first_near(found[1], usual) or other
    if is_near(found[2], mixed_0 + mixed_1):
        return "The mixtures are added as they are: correct them like the totals"
    if not is_near(found[2], right[2], CLOSE):
        return "mixed is wrong: correct each by its own factor, and do not divide yet"
    return None
