"""Tasks that a small attention model can learn in seconds, drawn from a seeded generator.

A task is a function that draws a batch: `task(batch_size, generator)`. Each position of a
sequence asks for one token or more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

NO_ANSWER = -100  # F.cross_entropy ignores it
VOCABULARY, NUM_TOKENS = 12, 16  # of previous_tokens and random_walk
SHORTEST, LONGEST = 8, 24  # the distances at which sequences repeat themselves


class Batch(NamedTuple):
    """Sequences, and the tokens that are asked for at each position."""

    tokens: Tensor  # (b, num_tokens)
    answers: Tensor  # (b, num_tokens, num_answers)


Task = Callable[[int, torch.Generator], Batch]


def previous_tokens(*distances: int) -> Task:
    """Ask at each position for the tokens at these distances before it.

    `previous_tokens(1, 3)` asks for the tokens 1 and 3 back. The first max(distances) positions
    have no answer.

    >>> tokens, answers = previous_tokens(1, 3)(1, torch.Generator().manual_seed(0))
    >>> tokens[0, :4].tolist(), answers[0, 3].tolist()
    ([8, 3, 5, 0], [5, 8])
    """
    if not distances or not all(1 <= distance < NUM_TOKENS for distance in distances):
        raise ValueError(f"distances={distances}: give at least one, each from 1 to 15")

    def draw(batch_size: int, generator: torch.Generator) -> Batch:
        tokens = torch.randint(VOCABULARY, (batch_size, NUM_TOKENS), generator=generator)
        answers = torch.stack([tokens.roll(distance, dims=1) for distance in distances], dim=-1)
        answers[:, : max(distances)] = NO_ANSWER
        return Batch(tokens, answers)

    return draw


def repeated_sequences() -> Task:
    """Ask for the next token of random sequences that repeat themselves.

    Each sequence draws the distance at which it does, so that no fixed distance is right. Only
    positions whose own token is a repeat have an answer.

    >>> tokens, answers = repeated_sequences()(5, torch.Generator().manual_seed(0))
    >>> torch.equal(tokens[:, 25:], answers[:, 24:-1, 0])
    True

    Source: Elhage et al. 2021, "Induction Heads", for repeated random tokens.
    """

    def draw(batch_size: int, generator: torch.Generator) -> Batch:
        distance = torch.randint(SHORTEST, LONGEST + 1, (batch_size, 1), generator=generator)
        first = torch.randint(24, (batch_size, LONGEST), generator=generator)
        place = torch.arange(48 + 1)
        text = first.gather(1, place % distance)
        answers = text[:, 1:, None].clone()
        answers[place[:-1] < distance] = NO_ANSWER
        return Batch(text[:, :-1], answers)

    return draw


def random_walk() -> Task:
    """Ask for the next letter of walks on a ring: a coin says one letter on, or one letter back.

    Nothing in a walk predicts the next toss, so no model that sees only the past has a smaller
    expected loss than log 2 = 0.693. As is usual, x = text[:-1] and y = text[1:]: each answer but
    the last is in the input too, one position further on.

    >>> tokens, answers = random_walk()(1, torch.Generator().manual_seed(0))
    >>> tokens[0, :6].tolist(), answers[0, :6, 0].tolist()
    ([8, 9, 10, 9, 10, 11], [9, 10, 9, 10, 11, 0])
    """

    def draw(batch_size: int, generator: torch.Generator) -> Batch:
        first = torch.randint(VOCABULARY, (batch_size, 1), generator=generator)
        coins = torch.randint(2, (batch_size, NUM_TOKENS), generator=generator)
        places = torch.cat((first, first + (2 * coins - 1).cumsum(dim=1)), dim=1)
        letters = places % VOCABULARY
        return Batch(letters[:, :-1], letters[:, 1:, None])

    return draw
