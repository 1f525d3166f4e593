"""Cut a text into tokens as the model's own tokenizer does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attncourse.language.files import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def new_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """Return the byte-level BPE of a vocabulary, which takes digits one by one.

    >>> letters = [chr(i) for i in range(33, 127)]
    >>> words = Vocabulary([*letters, "ab"], ["a b"], special=[], end=0)
    >>> new_tokenizer(words).encode("abc12").tokens
    ['ab', 'c', '1', '2']

    Source: Radford et al. 2019, section 2.2, with the pattern of its published code.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    pairs = (merge.partition(" ") for merge in vocabulary.merges)
    model = models.BPE(vocab=ids, merges=[(first, second) for first, _, second in pairs])
    tokenizer = Tokenizer(model)
    digits = pre_tokenizers.Digits(individual_digits=True)
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pieces])
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(vocabulary.tokens[i], special=True) for i in vocabulary.special]
    tokenizer.add_special_tokens(special)
    return tokenizer
