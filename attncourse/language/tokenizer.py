"""Turn texts into token ids and back, as the model's own tokenizer does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class TextTokenizer:
    """A tokenizer of the library tokenizers, asked for what the course needs."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        return list(self.tokenizer.encode(text).ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        return str(self.tokenizer.decode(list(token_ids), skip_special_tokens=False))

    def token_texts(self, token_ids: Sequence[int]) -> tuple[str, ...]:
        """Return the text of each token, spaces included."""
        return tuple(self.decode([token]) for token in token_ids)

    def token_id(self, word: str) -> int:
        """Return the id of a word of one token; a space is put before it unless it has one."""
        found = self.encode(word if word[:1].isspace() else f" {word}")
        if len(found) != 1:
            raise ValueError(
                f"{word!r} is {len(found)} tokens for this model, {self.token_texts(found)}; "
                "give a word of one, such as the first of these"
            )
        return found[0]


def new_tokenizer(tokens: list[str], merges: list[str], special: list[str]) -> Tokenizer:
    """Return the byte-level BPE that makes tokens by merges, and takes digits one by one.

    >>> letters = [chr(i) for i in range(33, 127)]
    >>> new_tokenizer([*letters, "ab"], ["a b"], special=[]).encode("abc12").tokens
    ['ab', 'c', '1', '2']

    Source: Radford et al. 2019, section 2.2, with the pattern of its published code.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    ids = {token: i for i, token in enumerate(tokens)}
    pairs = (merge.partition(" ") for merge in merges)
    model = models.BPE(vocab=ids, merges=[(first, second) for first, _, second in pairs])
    tokenizer = Tokenizer(model)
    digits = pre_tokenizers.Digits(individual_digits=True)
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pieces])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    return tokenizer
