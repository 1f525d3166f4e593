"""Cut a text into tokens as the model's own tokenizer does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer


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
