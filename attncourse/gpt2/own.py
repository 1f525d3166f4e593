"""The reader's own GPT-2: a folder with the weights, and beside them the files of its tokenizer.

tokenizers, a library that attnlib can do without, is loaded when a text is first read.
"""

from __future__ import annotations

import os
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from attncourse.gpt2.files import Gpt2File, read_gpt2
from attncourse.gpt2.model import GPT2, load_gpt2, require_token_ids
from attncourse.gpt2.writing import write_on

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VARIABLE = "ATTNLIB_GPT2"
WHOLE, WORDS, MERGES = "tokenizer.json", "vocab.json", "merges.txt"


class Read(NamedTuple):
    """A text as a GPT-2 reads it, and what it makes of it."""

    tokens: tuple[str, ...]  # spaces included
    weights: Tensor  # the attention weights, (num_layers, num_heads, num_tokens, num_tokens)
    next_tokens: tuple[tuple[str, float], ...]  # the ten likeliest with their logits
    token_ids: Tensor  # their numbers in the model's vocabulary, int64, (num_tokens)


class OwnGpt2:
    """A GPT-2 from a folder, or a file in it: its model in float32, and its tokenizer."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.file: Gpt2File = read_gpt2(path)
        self.model: GPT2 = load_gpt2(self.file).float()

    def __repr__(self) -> str:
        size = self.model.size
        heads = f"{size.num_layers} layers of {size.num_heads} heads"
        return f"<GPT-2 of {self.file.path.name}: {heads}>"

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer whose files are in the folder."""
        return read_tokenizer(self.file.path.parent)

    def ids(self, text: str) -> Tensor:
        """Return the token ids of a text, (1, num_tokens), as many as the model can read."""
        found = self.tokenizer.encode(text).ids
        if not found:
            raise ValueError("text is empty: write at least one word")
        token_ids = torch.tensor([found])
        require_token_ids(token_ids, self.model.size)
        return token_ids

    def tokens(self, token_ids: Tensor) -> tuple[str, ...]:
        """Return the text of each token; token_ids is (num_tokens)."""
        return tuple(self.tokenizer.decode([i]) for i in token_ids.tolist())

    @torch.no_grad()
    def read(self, text: str) -> Read:
        """Run the model on a text."""
        token_ids = self.ids(text)
        hidden, maps = self.model(token_ids, return_weights=True)
        logits = hidden[0, -1] @ self.model.token_embedding.weight.T
        likeliest = logits.topk(min(10, len(logits)))
        words = self.tokens(likeliest.indices)
        expected = tuple(zip(words, likeliest.values.tolist(), strict=True))
        return Read(self.tokens(token_ids[0]), maps[0], expected, token_ids[0])

    def write(self, text: str, num_new: int = 20, seed: int | None = None) -> str:
        """Continue a text by num_new tokens, with the cache; without a seed the likeliest."""
        token_ids = self.ids(text)
        longest = min(token_ids.shape[1] + num_new, self.model.size.context_length)
        written = write_on(self.model, token_ids, longest, seed)[0]
        return str(self.tokenizer.decode(written.tolist()))


def own_gpt2(path: str | PathLike[str] | None = None) -> OwnGpt2 | None:
    """Return the GPT-2 at a path, or where the variable ATTNLIB_GPT2 says; without either, None.

    Raises:
        FileNotFoundError, TypeError, ValueError: there is one, and it cannot be read as a GPT-2.
    """
    path = path or os.environ.get(VARIABLE)
    return OwnGpt2(path) if path else None


def read_tokenizer(folder: str | PathLike[str]) -> Tokenizer:
    """Return the tokenizer of a folder that holds tokenizer.json, or vocab.json and merges.txt."""
    folder = Path(folder)
    whole, words, merges = (folder / name for name in (WHOLE, WORDS, MERGES))
    if not whole.is_file() and not (words.is_file() and merges.is_file()):
        raise FileNotFoundError(
            f"{folder} holds neither {WHOLE} nor {WORDS} and {MERGES}, which turn words into "
            "tokens; put those of the same model beside the weights"
        )
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    except ImportError as error:
        raise ImportError(
            "to read words, attnlib needs the library tokenizers; try `pip install tokenizers`"
        ) from error
    try:
        if whole.is_file():
            return Tokenizer.from_file(str(whole))
        made = Tokenizer(models.BPE.from_file(str(words), str(merges)))
    except Exception as error:  # the library raises no narrower class
        damaged = whole if whole.is_file() else f"{words} or {merges.name}"
        raise ValueError(
            f"{damaged} is damaged, or not a tokenizer's: {error}; download it again"
        ) from error
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made
