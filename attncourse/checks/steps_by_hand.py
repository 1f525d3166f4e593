"""Checks of attention by hand: a row of scores, a softmax, a broken chain."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from attncourse.checks.answers import first_near, is_near, noted
from attncourse.checks.exercises import value_check
from attncourse.checks.verdict import Verdict

NEAR = 0.0051  # two decimals are enough, if they are rounded right


def _scores_row(queries: Tensor, keys: Tensor, head: int, token: int) -> list[float]:
    row: list[float] = (queries[head, token] @ keys[head].T).tolist()
    return row


@value_check(reference=_scores_row)
def check_scores_row(
    mine: Sequence[float], queries: Tensor, keys: Tensor, head: int, token: int
) -> Verdict | str:
    """Check a row of attention scores that was computed by hand.

    Args:
        mine: a number for each key; None is "not attempted yet".
        queries: (num_heads, num_tokens, head_dim), and keys too.
        keys: those of all heads.
        head: whose row it is, and which token's.
        token: of the query.

    >>> queries, keys = torch.eye(2)[None], torch.tensor([[[2.0, 4.0], [3.0, 5.0]]])
    >>> check_scores_row([2.0, 3.0], queries, keys, 0, 0)
    Right: each key of head 0, multiplied by the query of token 0.
    """
    scores = queries @ keys.mT
    right = scores[head, token]
    root = queries.shape[-1] ** 0.5
    if (numbers := _numbers(mine, len(right))) is None:
        return f"It must be {len(right)} numbers, one for each key."
    usual = {
        "Divided already: that is the next step. Here we want the plain products.": right / root,
        f"That is column {token}: the key of token {token} with each query.": scores[
            head, :, token
        ],
        "That adds up both heads. A head uses its own columns alone.": scores[:, token].sum(dim=0),
        "The mask comes later: here every key has a score.": _cut(right, token),
        "The signs are turned round: minus times minus is plus.": -right,
    }
    usual |= {
        f"That is the row of head {other}, not of head {head}.": scores[other, token]
        for other in range(len(scores))
    }
    usual |= {
        f"That is the row of token {other}, not of token {token}.": scores[head, other]
        for other in range(len(right))
    }
    if is_near(numbers, right, NEAR):
        return noted(f"Right: each key of head {head}, multiplied by the query of token {token}.")
    key = int((numbers - right).abs().argmax())
    again = f"multiply the query of token {token} with it once more, entry by entry"
    return (
        first_near(numbers, usual, NEAR) or f"You have {numbers[key]:.2f} for key {key}: {again}."
    )


def _weights_row(scores: Tensor, token: int, width: int) -> list[float]:
    hidden = scores.masked_fill(torch.arange(len(scores)) > token, -torch.inf)
    row: list[float] = torch.softmax(hidden / width**0.5, dim=-1).tolist()
    return row


@value_check(reference=_weights_row)
def check_weights_row(
    mine: Sequence[float], scores: Tensor, token: int, width: int
) -> Verdict | str:
    """Check a row of attention weights that was computed by hand: masked, divided, softmax.

    Args:
        mine: a number for each key; None is "not attempted yet".
        scores: (num_tokens), plain products.
        token: of the query.
        width: of the head.

    >>> check_weights_row([0.5, 0.5], torch.zeros(2), token=0, width=3)
    Key 1 is in the future of token 0: its attention weight must be 0.
    """
    if (numbers := _numbers(mine, len(scores))) is None:
        return f"It must be {len(scores)} numbers, one for each key."
    hidden = scores.masked_fill(torch.arange(len(scores)) > token, -torch.inf)
    right = torch.tensor(_weights_row(scores, token, width))
    if is_near(numbers, right, NEAR):
        return noted(f"Right: {token + 1} keys share the attention of token {token}.")
    seen, divided = _cut(scores, token), _cut(scores / width**0.5, token)
    usual = {
        f"Softmax of the plain scores: divide by the root of {width} first.": hidden.softmax(-1),
        f"Divided by {width}: it is the root of {width}.": (hidden / width).softmax(-1),
        "Those are the exponentials. Divide each by their sum.": (hidden / width**0.5).exp(),
        "Shares of the scores themselves: take e to the power of each first.": seen / seen.sum(),
        f"Divided by the root of {2 * width}: a head is {width} wide, not both together.": (
            (hidden / (2 * width) ** 0.5).softmax(-1)
        ),
        "Those are the divided scores. Softmax comes next.": divided,
        "Those are the divided scores, the future hidden. Softmax comes next.": hidden / width**0.5,
    }
    if (sentence := first_near(numbers, usual, NEAR)) is not None:
        return sentence
    future = numbers[token + 1 :].abs() > NEAR
    if future.any():
        key = token + 1 + int(future.int().argmax())
        return f"Key {key} is in the future of token {token}: its attention weight must be 0."
    if abs(float(numbers.sum()) - 1) > 2 * NEAR:
        return f"The row sums to {numbers.sum():.2f}, not to 1."
    if torch.allclose(numbers.sort().values, right.sort().values, rtol=0, atol=NEAR):
        return "Right numbers at wrong places: the larger score has the larger attention weight."
    return "The row sums to 1, but its numbers are not right: compute the powers of e again."


FOLLOWS = {
    10: "Step 10 follows: it moves the row of step 9 and changes no number.",
    11: "Step 11 follows: the first three numbers are those of head 0, from step 9.",
}
BREAKS = {7, 8, 9}


@value_check(reference=lambda: BREAKS)
def check_broken_steps(mine: Collection[int] | int) -> Verdict | str:
    """Check which steps, 7 to 11, of the published example do not follow from the ones before.

    >>> check_broken_steps({9, 11})
    Step 11 follows: the first three numbers are those of head 0, from step 9.
    """
    given = mine if isinstance(mine, Collection) else [mine]
    if not all(type(step) is int for step in given):
        return "It must be a set of numbers, such as {10, 11}."
    if not given:
        return "At least one of them does not follow: begin with step 7, key 0."
    for step in sorted(set(given) - BREAKS):
        return FOLLOWS.get(step, f"Step {step} is not asked for here: only steps 7 to 11 are.")
    if set(given) != BREAKS:
        return f"So far {', '.join(map(str, sorted(given)))}: right. Those are not all."
    return noted("Right: 7, 8 and 9 do not follow. Steps 10 and 11 only move numbers, and do.")


def _numbers(mine: Sequence[float], count: int) -> Tensor | None:
    """Return a learner's numbers as a tensor, None if they are not as many numbers."""
    try:
        numbers = torch.as_tensor(mine, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError):
        return None
    return numbers.flatten() if numbers.numel() == count else None


def _cut(row: Tensor, token: int) -> Tensor:
    return row.masked_fill(torch.arange(len(row)) > token, 0.0)
