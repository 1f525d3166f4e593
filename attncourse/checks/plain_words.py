"""What PyTorch answers to those who set parameters or masks, and what they can do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from attncourse.checks.attempt import Diagnosis

PARAMETERS = {
    "a leaf Variable": (
        "PyTorch refuses to change a parameter in place while it records for gradients: put the "
        "line under torch.no_grad()."
    ),
    "cannot assign .* as child module": (
        "A layer cannot be replaced by a tensor: fill its parameter in place, .weight.copy_(...)."
    ),
    "cannot assign": (
        "A parameter cannot be replaced by a plain tensor: fill it in place, weight.copy_(...)."
    ),
    "'Linear'": "A layer is no tensor. Its parameter is: add .weight to the layer's name.",
}


@contextmanager
def in_plain_words(words: Mapping[str, str]) -> Iterator[None]:
    """Replace PyTorch's words in what is said of a function that fails.

    Args:
        words: what to say, by a pattern of what PyTorch says, whose groups it may repeat.
    """
    try:
        yield
    except Diagnosis as said:
        stopped, _, error = str(said).rpartition(f"{said.line} | ")
        for theirs, ours in words.items():
            if said.line is not None and (found := re.search(theirs, error)):
                sentence = f"{stopped}{said.line} | {found.expand(ours)}"
                told = Diagnosis(sentence)
                told.line = said.line
                raise told from None
        raise
