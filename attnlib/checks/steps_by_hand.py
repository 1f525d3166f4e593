"""Checks of attention by hand: a row of scores, a softmax, a merge, and where a chain breaks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.checks.attempt import NOT_ATTEMPTED, draw
from attnlib.checks.exercises import exercise_check
from attnlib.functional import merge_heads

NEAR = 0.006  # as close as two decimals, an answer is meant


def telling(written: Callable[..., nn.Module]) -> tuple[nn.Module, Tensor]:
    """Make a module whose values say where they come from, and the input for it.

    Each token looks at itself alone, since its score for another falls with the square of their
    distance: times -30 in head 0, times -60 in head 1. out_proj changes nothing. So the value of
    token t in column c is 10 * t + c, and stays so up to the output, if every number stays where
    it belongs.

    Args:
        written: a class made as MultiHeadAttention is.

    Returns:
        The module, with d_in 4, d_out 6, 2 heads, and x, (1, 5, 4): one, the token's number, its
        square, and ten times its number.

    Raises:
        AttributeError: the class has no W_query, W_key, W_value or out_proj.

    >>> from attnlib.modules import MultiHeadAttention
    >>> module, x = telling(MultiHeadAttention)
    >>> module(x)[0, 2].tolist()
    [20.0, 21.0, 22.0, 23.0, 24.0, 25.0]
    """
    with torch.random.fork_rng(devices=[]):  # the reader's random numbers stay as they are
        module: Any = written(d_in=4, d_out=6, context_length=5, dropout=0.0, num_heads=2)
    token = torch.arange(5.0)
    x = torch.stack([torch.ones(5), token, token**2, 10 * token], dim=-1)[None]
    weights = {name: torch.zeros(6, 4) for name in ("W_query", "W_key", "W_value")}
    for first, steep in ((0, 30.0), (3, 60.0)):  # columns: the score of t for s, -steep (t - s)^2
        weights["W_query"][first, 1] = 2 * steep
        weights["W_query"][first + 1, 0] = -steep
        weights["W_query"][first + 2, 2] = -steep
        weights["W_key"][first, 1] = 1.0
        weights["W_key"][first + 1, 2] = 1.0
        weights["W_key"][first + 2, 0] = 1.0
    weights["W_value"][:, 0] = torch.arange(6.0)
    weights["W_value"][:, 3] = 1.0
    with torch.no_grad():
        for name, weight in weights.items():
            getattr(module, name).weight.copy_(weight)
        module.out_proj.weight.copy_(torch.eye(6))
        module.out_proj.bias.zero_()
    return module.eval(), x


def check_scores_row(
    mine: Sequence[float] | None, queries: Tensor, keys: Tensor, head: int, token: int
) -> str:
    """Check a row of attention scores that was computed by hand.

    Args:
        mine: a number for each key; None is "not attempted yet".
        queries: (num_heads, num_tokens, head_dim).
        keys: (num_heads, num_tokens, head_dim).
        head: whose row it is.
        token: of the query.

    Returns:
        A sentence.

    >>> queries, keys = torch.eye(2)[None], torch.tensor([[[2.0, 4.0], [3.0, 5.0]]])
    >>> check_scores_row([2.0, 3.0], queries, keys, 0, 0)
    'Right: each key of head 0, multiplied by the query of token 0.'
    >>> check_scores_row([2.0, 5.5], queries, keys, 0, 0)
    'You have 5.50 for key 1: multiply the query of token 0 with it once more, entry by entry.'
    """
    if mine is None:
        return NOT_ATTEMPTED
    scores = queries @ keys.mT
    right = scores[head, token]
    root = queries.shape[-1] ** 0.5
    if (numbers := _numbers(mine, len(right))) is None:
        return f"It must be {len(right)} numbers, one for each key."
    usual = {
        f"Right: each key of head {head}, multiplied by the query of token {token}.": right,
        "Divided already: that is the next step. Here we want the plain products.": right / root,
        f"That is column {token}: the key of token {token} with each query. "
        "We want its query with each key.": scores[head, :, token],
        "That adds up both heads. A head uses its own columns alone.": scores[:, token].sum(dim=0),
        "The mask comes later: here every key has a score.": _cut(right, token),
    }
    usual |= {
        f"That is the row of head {other}, not of head {head}.": scores[other, token]
        for other in range(len(scores))
        if other != head
    }
    usual |= {
        f"That is the row of token {other}, not of token {token}.": scores[head, other]
        for other in range(len(right))
        if other != token
    }
    if (sentence := _first(usual, numbers)) is not None:
        return sentence
    key = int((numbers - right).abs().argmax())
    return (
        f"You have {numbers[key]:.2f} for key {key}: multiply the query of token {token} with it "
        "once more, entry by entry."
    )


def check_weights_row(mine: Sequence[float] | None, scores: Tensor, token: int, width: int) -> str:
    """Check a row of attention weights that was computed by hand: masked, divided, softmax.

    Args:
        mine: a number for each key; None is "not attempted yet".
        scores: (num_tokens), plain products.
        token: of the query.
        width: of the head.

    Returns:
        A sentence.

    >>> check_weights_row([0.5, 0.5], torch.zeros(2), token=0, width=3)
    'Key 1 is in the future of token 0: its attention weight must be 0.'
    """
    if mine is None:
        return NOT_ATTEMPTED
    if (numbers := _numbers(mine, len(scores))) is None:
        return f"It must be {len(scores)} numbers, one for each key."
    hidden = scores.masked_fill(torch.arange(len(scores)) > token, -torch.inf)
    right = torch.softmax(hidden / width**0.5, dim=-1)
    seen = hidden[: token + 1]
    shares = torch.zeros_like(scores)
    shares[: token + 1] = seen / seen.sum()
    exponentials = (hidden / width**0.5).exp()
    usual = {
        f"Right: {token + 1} keys share the attention of token {token}.": right,
        f"Softmax of the plain scores: divide by the root of {width} first.": hidden.softmax(-1),
        f"Divided by {width}: it is the root of {width}.": (hidden / width).softmax(-1),
        "Those are the exponentials. Divide each by their sum.": exponentials,
        "Shares of the scores themselves: take e to the power of each first.": shares,
    }
    if (sentence := _first(usual, numbers)) is not None:
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


@exercise_check
def check_merge(merge: Callable[[Tensor], Tensor]) -> str:
    """Check a merge of heads: each token's heads side by side.

    Args:
        merge: takes (b, num_heads, num_tokens, head_dim) and returns (b, num_tokens, d_out).

    Returns:
        A sentence.

    >>> check_merge(lambda context_vec: context_vec.reshape(2, 5, 6))
    'The row of token 0 holds numbers of token 1: heads and tokens must change places first.'
    """
    by_head = torch.arange(60.0).view(2, 2, 5, 3)
    kept = by_head.clone()
    mine = merge(by_head)
    if not torch.equal(by_head, kept):
        return "It changes context_vec itself."
    if mine.shape != (2, 5, 6):
        return f"(2, 2, 5, 3) became {tuple(mine.shape)}, not (2, 5, 6)."
    usual = {
        "Right: two heads of 3 became rows of 6, and every number is in the row of its token.": (
            merge_heads(by_head)
        ),
        "The row of token 0 holds numbers of token 1: heads and tokens must change places "
        "first.": by_head.reshape(2, 5, 6),
        "Rows and tokens agree, but the columns of the heads take turns: head 0, head 1, head 0. "
        "Keep each head's columns together.": by_head.permute(0, 2, 3, 1).reshape(2, 5, 6),
        "Head 1 comes before head 0.": torch.cat([by_head[:, 1], by_head[:, 0]], dim=-1),
    }
    other = "The shape is right, and the numbers are not where they belong: follow one of them."
    return _first(usual, mine) or other


FAULTY = {
    "queries": "queries is right: row t of each head is the query of token t.",
    "keys": "keys is right: row t of each head is the key of token t.",
    "values": "values is right: head 1, token 2 holds 23, 24, 25.",
    "attn_scores": "attn_scores is right: token t has its largest score, 0, for itself.",
    "attn_weights": "attn_weights is right: each token looks at itself.",
    "context_vec": "context_vec is right: head 1, token 2 still holds 23, 24, 25.",
    "return": "The result is wrong too, but it was wrong before: look one line higher.",
    "x": "x is the input.",
}


def check_fault(name: object) -> str:
    """Check which tensor of the interleaved merge is the first that is wrong.

    Args:
        name: of the variable; None is "not attempted yet".

    Returns:
        A sentence.

    >>> check_fault("values")
    'values is right: head 1, token 2 holds 23, 24, 25.'
    """
    if name is None:
        return NOT_ATTEMPTED
    if name == "merged":
        return (
            "Right: token 2 has 20, 23, 21, 24, 22, 25. Every number is in its row, "
            "but the heads take turns."
        )
    known = ", ".join(key for key in FAULTY if key != "x")
    return FAULTY.get(str(name), f"No line makes {name!r}. There are: {known}, merged.")


FOLLOWS = {
    10: "Step 10 follows: it moves the row of step 9 and changes no number.",
    11: "Step 11 follows: the first three numbers are those of head 0, from step 9.",
}
BREAKS = {7, 8, 9}


def check_broken_steps(mine: Collection[int] | int | None) -> str:
    """Check which steps of the published worked example do not follow from the ones before.

    Args:
        mine: numbers of steps, 7 to 11; None is "not attempted yet".

    Returns:
        A sentence.

    >>> check_broken_steps({9, 11})
    'Step 11 follows: the first three numbers are those of head 0, from step 9.'
    """
    if mine is None:
        return NOT_ATTEMPTED
    given = mine if isinstance(mine, Collection) else [mine]
    if not all(type(step) is int for step in given):
        return "It must be a set of numbers, such as {10, 11}."
    steps = set(given)
    for step in sorted(steps):
        if step in FOLLOWS:
            return FOLLOWS[step]
        if step not in BREAKS:
            return f"Step {step} is not one of the five: those are 7 to 11."
    if steps != BREAKS:
        found = ", ".join(map(str, sorted(steps))) or "none"
        return f"So far {found}: right. Those are not all."
    return "Right: 7, 8 and 9 do not follow. Steps 10 and 11 only move numbers, and do."


def check_equation(text: str | None) -> str:
    """Check an einsum equation that makes attention scores of queries and keys.

    Args:
        text: such as "ij,jk->ik"; None is "not attempted yet".

    Returns:
        A sentence.

    >>> check_equation("bhqd,bhkd->bhkq")
    'Queries and keys are the wrong way round in the result: queries go down, keys across.'
    """
    if text is None:
        return NOT_ATTEMPTED
    queries, keys = draw(2, 3, 5, 7, seed=1), draw(2, 3, 5, 7, seed=2)
    if not isinstance(text, str) or "->" not in text:
        return 'It must be a text with an arrow, such as "ij,jk->ik".'
    if (slip := _slip_of_letters(text)) is not None:
        return slip
    try:
        mine = torch.einsum(text, queries, keys)
    except (RuntimeError, ValueError) as error:
        return f"einsum cannot read it: {' '.join(str(error).split())}"
    right = queries @ keys.mT
    usual = {
        "Right: the letter that is missing on the right is summed over, head_dim.": right,
        "Queries and keys are the wrong way round in the result: queries go down, keys "
        "across.": right.mT,
        "One letter for both tokens: each query meets its own key alone.": (queries * keys).sum(-1),
        "Batch or heads are summed too: keep both on the right.": right.sum(dim=1),
        "head_dim is not summed: leave its letter out on the right.": (
            queries[..., :, None, :] * keys[..., None, :, :]
        ),
        "Two letters for head_dim are summed one by one. With one letter in both, each number of "
        "a query meets its own number of the key.": (
            queries.sum(-1)[..., :, None] * keys.sum(-1)[..., None, :]
        ),
    }
    if (sentence := _first(usual, mine)) is not None:
        return sentence
    if mine.shape == right.shape:
        return "The shape is right, and the numbers are not: which letters are summed?"
    return (
        f"With 2 texts, 3 heads and 5 tokens the result is {tuple(mine.shape)}, and the scores "
        f"are {tuple(right.shape)}."
    )


DIMENSIONS = ("b", "num_heads", "num_tokens", "head_dim")


def _slip_of_letters(text: str) -> str | None:
    """Return what is wrong with the letters of an equation for queries and keys, or None."""
    given, _, result = text.replace(" ", "").partition("->")
    inputs = given.split(",")
    if "." in text or not (given + result).replace(",", "").isalpha():
        return None  # an ellipsis stands for some letters, and einsum refuses the rest
    if len(inputs) != 2 or any(len(letters) != 4 for letters in inputs):
        return "On the left of the arrow: four letters for queries, a comma, four for keys."
    for letter in result:
        if letter not in given:
            return f"The letter {letter} is not on the left of the arrow: what is its size?"
        if result.count(letter) > 1:
            return (
                f"The letter {letter} is twice in the result. The tokens of the queries and those "
                "of the keys are two dimensions, and need two letters."
            )
    for query, key in ((q, k) for q in range(4) for k in range(4) if q != k):
        letter = inputs[0][query]
        if letter == inputs[1][key] and letter != inputs[1][query]:
            return (
                f"The letter {letter} is {DIMENSIONS[query]} in queries and {DIMENSIONS[key]} in "
                "keys. A letter is one dimension."
            )
    return None


def _numbers(mine: Sequence[float], count: int) -> Tensor | None:
    """Return a learner's numbers as a tensor, None if they are not as many numbers."""
    try:
        numbers = torch.as_tensor(mine, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError):
        return None
    return numbers.flatten() if numbers.numel() == count else None


def _cut(row: Tensor, token: int) -> Tensor:
    """Return a row in which the future of a token is 0."""
    return row.masked_fill(torch.arange(len(row)) > token, 0.0)


def _first(usual: Mapping[str, Tensor], mine: Tensor) -> str | None:
    """Return the sentence of the first tensor that is what a learner means, if one is."""
    for sentence, numbers in usual.items():
        if mine.shape == numbers.shape and torch.allclose(mine, numbers, rtol=0, atol=NEAR):
            return sentence
    return None
