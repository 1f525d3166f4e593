"""Checks of attention by hand: a row of scores, a softmax, a broken chain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor

from attncourse.checks.answers import is_near, is_result_of, known_mistakes
from attncourse.checks.exercises import value_check
from attncourse.checks.verdict import Verdict

NEAR = 0.0051  # two decimals are enough, if they are rounded right


def _recognize(
    mine: Sequence[float], exercise: str, right: Callable[..., Tensor], *given: Any
) -> str | Tensor:
    """Return the sentence of the mistake whose row a learner's numbers are, or else the numbers.

    Two decimals of each number of a row fit no other row of these examples.
    """
    row, numbers = right(*given), torch.as_tensor(mine, dtype=torch.float32).flatten()
    if len(numbers) != len(row):
        return f"It must be {len(row)} numbers, one for each key."
    known = {} if is_near(numbers, row, NEAR) else known_mistakes(exercise, right)
    said = (said for said, wrong in known.items() if is_result_of(wrong, given, numbers, NEAR))
    return next(said, numbers)


def _scores_row(queries: Tensor, keys: Tensor, head: int, token: int) -> Tensor:
    return queries[head, token] @ keys[head].T


@value_check(reference=lambda *given, **named: _scores_row(*given, **named).tolist())
def check_scores_row(
    mine: Sequence[float], queries: Tensor, keys: Tensor, head: int, token: int
) -> Verdict | str:
    """Check a row of attention scores that was computed by hand, a number for each key.

    Queries and keys are those of all heads, (num_heads, num_tokens, head_dim).
    """
    numbers = _recognize(mine, "scores_row", _scores_row, queries, keys, head, token)
    if isinstance(numbers, str):
        return numbers
    off = (numbers - _scores_row(queries, keys, head, token)).abs()
    if off.max() <= NEAR:
        said = f"Right: each key of head {head}, multiplied by the query of token {token}."
        return Verdict(True, said)
    key = int(off.argmax())
    again = f"multiply the query of token {token} with it once more, entry by entry"
    return f"You have {numbers[key]:.2f} for key {key}, which is not right: {again}."


def _weights_row(scores: Tensor, token: int, width: int) -> Tensor:
    is_future = torch.arange(len(scores)) > token
    divided = scores.masked_fill(is_future, -torch.inf) / width**0.5
    return torch.softmax(divided, dim=-1)


@value_check(reference=lambda *given, **named: _weights_row(*given, **named).tolist())
def check_weights_row(
    mine: Sequence[float], scores: Tensor, token: int, width: int
) -> Verdict | str:
    """Check a row of attention weights that was computed by hand: masked, divided, softmax.

    The scores are plain products, (num_tokens); width is that of the head.
    """
    numbers = _recognize(mine, "weights_row", _weights_row, scores, token, width)
    if isinstance(numbers, str):
        return numbers
    right = _weights_row(scores, token, width)
    if is_near(numbers, right, NEAR):
        return Verdict(True, f"Right: {token + 1} keys share the attention of token {token}.")
    future = numbers[token + 1 :].abs() > NEAR
    if future.any():
        key = token + 1 + int(future.int().argmax())
        return f"Key {key} is in the future of token {token}: its attention weight must be 0."
    if abs(float(numbers.sum()) - 1) > 2 * NEAR:
        return f"The row sums to {numbers.sum():.2f}, and it must sum to 1."
    return "The row sums to 1, but its numbers are not right: compute the powers of e again."


FOLLOWS = {
    10: "Step 10 follows: it moves the row of step 9 and changes no number.",
    11: "Step 11 follows: the first three numbers are those of head 0, from step 9.",
}
BREAKS = {7, 8, 9}


@value_check(reference=lambda: BREAKS)
def check_broken_steps(mine: Collection[int]) -> Verdict | str:
    """Check which steps, 7 to 11, of the published example do not follow from the ones before."""
    if not isinstance(mine, Collection) or not mine:
        return "It must be a set of numbers, such as {10, 11}."
    for step in sorted(set(mine) - BREAKS):
        return FOLLOWS.get(step, f"Step {step} is not asked for here: only steps 7 to 11 are.")
    if set(mine) != BREAKS:
        return f"So far {', '.join(map(str, sorted(mine)))}: right. Those are not all."
    said = "Right: 7, 8 and 9 do not follow. Steps 10 and 11 only move numbers, and do."
    return Verdict(True, said)
