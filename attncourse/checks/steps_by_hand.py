"""Checks of attention by hand: a row of scores, a softmax, a broken chain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from attncourse.checks.answers import accept, is_near
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
        head: whose row it is.
        token: of the query.

    >>> queries, keys = torch.eye(2)[None], torch.tensor([[[2.0, 4.0], [3.0, 5.0]]])
    >>> check_scores_row([2.0, 3.0], queries, keys, 0, 0)
    Right: each key of head 0, multiplied by the query of token 0.
    """
    scores = queries @ keys.mT
    right = scores[head, token]
    usual = {
        "These are the scores divided by the root of head_dim, which is the next step.": (
            right / queries.shape[-1] ** 0.5
        ),
        f"These are the numbers of column {token}: the key of token {token} with each query.": (
            scores[head, :, token]
        ),
        "These are the sums over both heads. A head uses its own columns alone.": (
            scores[:, token].sum(dim=0)
        ),
        "The future is 0 here. The mask comes later: now every key has a score.": (
            _without_future(right, token)
        ),
        "All signs are turned round: minus times minus is plus.": -right,
    }
    for h, of_head in enumerate(scores):
        for t, row in enumerate(of_head):
            usual |= {f"These are the numbers of head {h}, token {t}.": row}
    done = f"Right: each key of head {head}, multiplied by the query of token {token}."
    if (said := _recognize(mine, len(right), {done: right, **usual})) is not None:
        return accept(said) if said == done else said
    numbers = torch.tensor(mine)
    key = int((numbers - right).abs().argmax())
    again = f"multiply the query of token {token} with it once more, entry by entry"
    return f"You have {numbers[key]:.2f} for key {key}, which is not right: {again}."


def _recognize(mine: Sequence[float], count: int, usual: Mapping[str, Tensor]) -> str | None:
    """Return the sentence of the row that a learner's numbers are, None if they are none of them.

    Two decimals of each number fit no other row of these examples.
    """
    try:
        numbers = torch.as_tensor(mine, dtype=torch.float32).flatten()
    except (TypeError, ValueError, RuntimeError):
        numbers = torch.zeros(0)
    if len(numbers) != count:
        return f"It must be {count} numbers, one for each key."
    return next((said for said, row in usual.items() if is_near(numbers, row, NEAR)), None)


def _without_future(row: Tensor, token: int, filler: float = 0.0) -> Tensor:
    return row.masked_fill(torch.arange(len(row)) > token, filler)


def _weights_row(scores: Tensor, token: int, width: int) -> list[float]:
    hidden = _without_future(scores, token, -torch.inf)
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
    hidden = _without_future(scores, token, -torch.inf)
    divided, seen = hidden / width**0.5, _without_future(scores, token)
    right = torch.tensor(_weights_row(scores, token, width))
    done = f"Right: {token + 1} keys share the attention of token {token}."
    usual = {
        done: right,
        f"This is softmax of the plain scores: divide them by the root of {width} first.": (
            hidden.softmax(-1)
        ),
        f"The scores are divided by {width}: it must be the root of {width}.": (
            (hidden / width).softmax(-1)
        ),
        f"The scores are divided by the root of {2 * width}: a head is {width} wide, not both "
        "together.": (hidden / (2 * width) ** 0.5).softmax(-1),
        "These are the exponentials. Divide each by their sum.": divided.exp(),
        "These are shares of the scores: take e to the power of each score first.": (
            seen / seen.sum()
        ),
        "These are the divided scores. Softmax comes next.": seen / width**0.5,
        "These are the divided scores, the future masked. Softmax comes next.": divided,
    }
    if (said := _recognize(mine, len(scores), usual)) is not None:
        return accept(said) if said == done else said
    numbers = torch.as_tensor(mine, dtype=torch.float32)
    future = numbers[token + 1 :].abs() > NEAR
    if future.any():
        key = token + 1 + int(future.int().argmax())
        return f"Key {key} is in the future of token {token}: its attention weight must be 0."
    if abs(float(numbers.sum()) - 1) > 2 * NEAR:
        return f"The row sums to {numbers.sum():.2f}, and it must sum to 1."
    if is_near(numbers.sort().values, right.sort().values, NEAR):
        return "The numbers are right, their places are not: a larger score has a larger weight."
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
    return accept("Right: 7, 8 and 9 do not follow. Steps 10 and 11 only move numbers, and do.")
