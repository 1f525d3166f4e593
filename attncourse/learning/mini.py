"""A trained model small enough to print: one head of width 2, and sentences about eight countries.

The two numbers of its head do what 64 do in a language model: they carry the country to the last
word. The last word itself decides what is asked: the capital after *is*, the language after
*speak*. The model has no positions, no MLP and no norm. tools/train_mini.py trains it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncourse.learning.model import load_stored
from attncourse.next_words import NextWords
from attnlib import CausalAttention
from attnlib.functional import attention, causal_mask

DATA = Path(__file__).parent / "data" / "mini.safetensors"
CONTEXT_LENGTH, WIDTH = 12, 4


class Country(NamedTuple):
    """A country, its capital (its largest city, too), and what most people speak there."""

    name: str
    capital: str
    language: str


_WORDS = json.loads(DATA.with_suffix(".json").read_text("utf-8"))
COUNTRIES = tuple(Country(*words) for words in _WORDS["countries"])
# Many, and "capital" in both kinds: the last word alone says what is asked.
FORMS: tuple[str, ...] = tuple(_WORDS["forms"])


class Sentence(NamedTuple):
    """A beginning, the word that goes on with it, and the country that it is about."""

    text: str
    answer: str
    country: Country


def sentences() -> tuple[Sentence, ...]:
    """Return the sentences that the mini model was trained on, country by country.

    >>> sentences()[15].text, sentences()[15].answer
    ('The capital of Italy is', 'Rome')
    """
    return tuple(
        Sentence(form.format(**country._asdict()), answer_about(country, form), country)
        for country in COUNTRIES
        for form in FORMS
    )


def answer_about(country: Country, text: str) -> str:
    """Return what the last word of a text asks about a country."""
    return country.language if text.endswith("speak") else country.capital


def words_of(*texts: str) -> tuple[str, ...]:
    """Return the words of some texts, each once, in order of appearance."""
    return tuple(dict.fromkeys(word for text in texts for word in text.split()))


def word_ids(text: str, words: Sequence[str]) -> Tensor:
    """Return the number of each word of a text, int64, (num_tokens)."""
    tokens = text.split()
    if unknown := [word for word in tokens if word not in words]:
        known = ", ".join(words)
        raise ValueError(f"{unknown[0]!r} is not among the words of this model, which are: {known}")
    if not tokens:
        raise ValueError(f"text={text!r} has no words: give at least one")
    return torch.tensor([words.index(word) for word in tokens])


@dataclass(eq=False)
class Reading:
    """What the mini model made of a text; n is the number of its tokens."""

    words: tuple[str, ...]  # that the model knows
    tokens: tuple[str, ...]
    x: Tensor  # the vectors of the words, (n, width)
    queries: Tensor  # (n, 2)
    keys: Tensor  # (n, 2)
    values: Tensor  # (n, 2)
    scores: Tensor  # queries @ keys^T, (n, n), neither divided nor masked
    weights: Tensor  # the attention weights, (n, n)
    numbers: Tensor  # the head's output at the last word, (2)
    before: Tensor  # the residual stream of the last word, (width)
    after: Tensor  # the same plus out_proj(numbers), (width)
    logits: Tensor  # (len(words))

    @property
    def probabilities(self) -> Tensor:
        """The probability of each word to be the next one, (len(words))."""
        return self.logits.softmax(dim=-1)

    def next_words(self, how_many: int = 3) -> NextWords:
        """Return the likeliest next words with their probabilities."""
        likeliest = self.probabilities.topk(how_many)
        words = [self.words[i] for i in likeliest.indices.tolist()]
        return NextWords(zip(words, likeliest.values.tolist(), strict=True))


class MiniModel(nn.Module):
    """One head between an embedding and the same embedding, which reads the answer out.

    Equation:
        x = embedding[tokens]
        x = x + out_proj(head(x))
        logits = x @ embedding^T, (b, num_tokens, len(words))
    """

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__()
        self.words = tuple(words)
        self.embedding = nn.Embedding(len(words), WIDTH)
        self.head = CausalAttention(WIDTH, 2, CONTEXT_LENGTH, 0.0)
        self.out_proj = nn.Linear(2, WIDTH, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.embedding(tokens)  # (b, num_tokens, width)
        x = x + self.out_proj(self.head(x))  # (b, num_tokens, width)
        return x @ self.embedding.weight.T  # (b, num_tokens, len(words))

    def read_ablated(self, text: str) -> Reading:
        """Read a text with the head's output at the last word set to zeros (ablation)."""
        return self.read(text, torch.zeros(2))

    def read_patched(self, text: str, numbers: Tensor | Sequence[float]) -> Reading:
        """Read a text with another head output, two numbers, at the last word (patching)."""
        return self.read(text, torch.as_tensor(numbers))

    @torch.no_grad()
    def read(self, text: str, numbers: Tensor | None = None) -> Reading:
        """Read a text; each of its words must be one of the model's."""
        tokens, weight = word_ids(text, self.words), self.embedding.weight
        x = weight[tokens]  # (n, width)
        own = self.head(x[None])[0, -1]  # (2); the head refuses a text that is too long
        queries, keys, values = self.head.W_query(x), self.head.W_key(x), self.head.W_value(x)
        _, weights = attention(queries, keys, values, causal_mask(len(tokens)))
        numbers = own if numbers is None else numbers.to(own)
        if numbers.shape != own.shape:
            raise ValueError(f"numbers must be two, not {tuple(numbers.shape)}")
        before, after = x[-1], x[-1] + self.out_proj(numbers)
        found = (x, queries, keys, values, queries @ keys.T, weights, numbers, before, after)
        return Reading(self.words, tuple(text.split()), *found, logits=weight @ after)


def new_mini_model() -> MiniModel:
    """Return a mini model with the words of the sentences, before its training."""
    named = (" ".join(words) for words in zip(*COUNTRIES, strict=True))
    return MiniModel(words_of(*named, *(sentence.text for sentence in sentences())))


def mini_model() -> MiniModel:
    """Return the mini model, trained.

    >>> mini_model().read("The capital of France is").next_words(1)
    Paris 0.97
    """
    return load_stored(new_mini_model(), DATA, "mini")


def page_data(model: MiniModel) -> dict[str, object]:
    """Return all that a page without Python needs; every parameter has two decimals."""
    return {
        "words": list(model.words),
        "sentences": [[sentence.text, sentence.answer] for sentence in sentences()],
        "parameters": {
            name: [[round(number, 2) for number in row] for row in weight.tolist()]
            for name, weight in model.state_dict().items()
        },
    }
