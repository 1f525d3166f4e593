"""A small model with two answers: one head must attend to two words, two heads to one each.

*A train from France to Italy runs* asks at its last word for two words at once: Paris, where it
starts, and Rome, where it ends. tools/train_mini.py trains the model, with one head or with two of
half the width, with an MLP or without.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attncourse.learning.mini import COUNTRIES, DATA, word_ids, words_of
from attncourse.learning.model import load_stored, stored_tensors
from attnlib import MultiHeadAttention

WIDTH = 4
QUESTIONS = ("from", "to")
SEEDS = range(8)
STORED = ((1, 5), (1, 3), (2, 5))  # models that are kept: how many heads, from which seed


def journeys() -> tuple[tuple[str, tuple[str, str]], ...]:
    """Return the sentences of the task, each with its two answers.

    >>> journeys()[0]
    ('A train from France to Italy runs', ('Paris', 'Rome'))
    """
    return tuple(
        (f"A train from {start.name} to {end.name} runs", (start.capital, end.capital))
        for start in COUNTRIES
        for end in COUNTRIES
        if start != end
    )


@dataclass(frozen=True, eq=False)
class TwoAnswers:
    """What the model made of a sentence of n tokens."""

    tokens: tuple[str, ...]
    weights: Tensor  # the attention weights, (num_heads, n, n)
    named: tuple[str, str]  # the likeliest word for each question: from, to
    probabilities: tuple[float, float]  # of these two words


class TwoAnswerModel(nn.Module):
    """Name two words at the last one, by one layer of attention, with or without an MLP after it.

    Equation:
        x = embedding[tokens] + positions[0, 1, 2, ...]
        x = x + attention(x)
        x = x + mlp(x), if there is one: as in a block of GPT-2, four times as wide, no norms
        logits = (x @ questions[from], x @ questions[to]) @ embedding^T, at the last token

    The heads share the width, 4, among them.

    forward takes tokens, int64, (b, num_tokens), and returns logits, (b, 2, len(words)), and on
    demand the attention weights.
    """

    def __init__(self, num_heads: int, has_mlp: bool = False) -> None:
        super().__init__()
        names, capitals, _ = (" ".join(words) for words in zip(*COUNTRIES, strict=True))
        self.words = words_of(names, capitals, *(text for text, _ in journeys()))
        context_length = len(journeys()[0][0].split())
        self.embedding = nn.Embedding(len(self.words), WIDTH)
        self.positions = nn.Embedding(context_length, WIDTH)
        self.attention = MultiHeadAttention(WIDTH, WIDTH, context_length, 0.0, num_heads)
        layers = (nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.mlp = nn.Sequential(*layers) if has_mlp else None
        self.questions = nn.Linear(WIDTH, len(QUESTIONS) * WIDTH, bias=False)

    def forward(
        self, tokens: Tensor, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        x = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        context_vec, weights = self.attention(x, return_weights=True)
        x = (x + context_vec)[:, -1]  # (b, width)
        if self.mlp is not None:
            x = x + self.mlp(x)  # (b, width)
        asked = self.questions(x).unflatten(-1, (len(QUESTIONS), WIDTH))  # (b, 2, width)
        logits: Tensor = asked @ self.embedding.weight.T  # (b, 2, len(words))
        return (logits, weights) if return_weights else logits

    @torch.no_grad()
    def read(self, text: str) -> TwoAnswers:
        """Read a sentence; each of its words must be one of the model's."""
        logits, weights = self(word_ids(text, self.words)[None], return_weights=True)
        likeliest = logits[0].softmax(dim=-1).max(dim=-1)
        start, end = (self.words[i] for i in likeliest.indices.tolist())
        first, second = likeliest.values.tolist()
        return TwoAnswers(tuple(text.split()), weights[0], (start, end), (first, second))


def two_answer_model(num_heads: int, seed: int = 5) -> TwoAnswerModel:
    """Return a stored model with one head or with two, trained on the journeys, without an MLP.

    From seed 5 one head gets stuck, and two do not; from seed 3 one head names both ends.

    >>> two_answer_model(num_heads=2).read("A train from France to Italy runs").named
    ('Paris', 'Rome')
    """
    if (num_heads, seed) not in STORED:
        raise ValueError(
            f"num_heads={num_heads}, seed={seed} is not stored; stored are "
            + ", ".join(map(str, STORED))
        )
    return load_stored(TwoAnswerModel(num_heads), DATA, f"two_looks/{num_heads}/{seed}")


def correct_journeys(num_heads: int, has_mlp: bool = False) -> list[int]:
    """Return how many of the 56 journeys the stored trainings got right, one for each seed.

    They start from embeddings with a standard deviation of 0.3. From 1, nn.Embedding's own, one
    head gets stuck less often: 7 of 8 trainings name both without an MLP, all 8 with one.
    """
    return stored_tensors(DATA)[f"right/{num_heads}/{int(has_mlp)}"].int().tolist()
