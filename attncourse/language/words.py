"""Cut a text into tokens as the model's own tokenizer does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attncourse.language.files import Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CUTS = {"smollm": True, "gpt-2": False, "default": False}  # whether digits are cut one by one


def is_ours(vocabulary: Vocabulary) -> bool:
    """Return whether new_tokenizer cuts texts as this vocabulary asks for."""
    return vocabulary.kind == "gpt2" and vocabulary.cut in CUTS


def new_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """Return the byte-level BPE that a vocabulary describes, which is one of ours.

    >>> letters = [chr(i) for i in range(33, 127)]
    >>> words = Vocabulary("gpt2", "smollm", [*letters, "ab"], ["a b"], special=[], end=None)
    >>> new_tokenizer(words).encode("abc12").tokens
    ['ab', 'c', '1', '2']

    Source: Radford et al. 2019, section 2.2, with the pattern of its published code.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    pairs = (merge.partition(" ") for merge in vocabulary.merges)
    try:
        model = models.BPE(vocab=ids, merges=[(first, second) for first, _, second in pairs])
    except Exception as error:  # the library raises Exception itself
        raise ValueError(f"the file's merges are damaged: {error}") from error
    tokenizer = Tokenizer(model)
    digits = [pre_tokenizers.Digits(individual_digits=True)] if CUTS[vocabulary.cut] else []
    pieces = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*digits, pieces])
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(vocabulary.tokens[i], special=True) for i in vocabulary.special]
    tokenizer.add_special_tokens(special)
    return tokenizer
