"""Forwards of the weight split that are broken by a line or two, in the names of five authors."""

from __future__ import annotations

import inspect
import re

import torch

from attncourse.variants.changes import stored_lines, with_lines
from attnlib.functional import causal_mask
from attnlib.modules import MultiHeadAttention


class WholeAttention(MultiHeadAttention):
    """The weight split as the workshop writes it; each of its forwards has other lines."""

    def forward(self, x):  # type: ignore[no-untyped-def, override]
        split = (*x.shape[:2], self.num_heads, self.head_dim)
        queries = self.W_query(x).view(split).transpose(1, 2)
        keys = self.W_key(x).view(split).transpose(1, 2)
        values = self.W_value(x).view(split).transpose(1, 2)
        attn_scores = queries @ keys.transpose(2, 3)
        is_future = causal_mask(x.shape[1])
        attn_scores = attn_scores.masked_fill(is_future, -torch.inf)
        attn_weights = (attn_scores / self.head_dim**0.5).softmax(dim=-1)
        context_vec = attn_weights @ values
        merged = context_vec.transpose(1, 2).flatten(2)
        return self.out_proj(merged)


# By the name of a class: the lines that are not as in WholeAttention, and what it has there
BROKEN_LINES: dict[str, dict[str, str]] = stored_lines("broken")

# Five authors, each with variable names of their own, so that no class has, word for word, the line
# that another one lacks
WORDS = "x split queries keys values attn_scores is_future attn_weights context_vec merged"
AUTHOR_NAMES = {
    "x shape q k v scores future weights mixed joined": ("Broken2",),
    "tokens sizes query key value dots is_later looks context flat": ("Broken3",),
    WORDS.replace("x split", "stream parts"): ("Broken4", "Broken5", "Broken7", "Broken8"),
    "inputs split Q K V scores is_future shares found merged": ("Broken6", "Broken9"),
}


def broken_source(name: str) -> str:
    """Return the source of a broken forward.

    >>> [line.strip() for line in broken_source("Broken3").splitlines() if "query @" in line]
    ['dots = query @ key']
    """
    text = inspect.getsource(WholeAttention.forward)
    return in_author_names(name, with_lines(text, BROKEN_LINES[name]))


def in_author_names(name: str, text: str) -> str:
    """Return code in the variable names of the author of a class.

    >>> in_author_names("Broken2", "attn_scores = queries @ keys")
    'scores = q @ k'
    """
    words = next((words for words, classes in AUTHOR_NAMES.items() if name in classes), WORDS)
    names = dict(zip(WORDS.split(), words.split(), strict=True))
    return re.sub(r"\b[a-z_]+\b", lambda word: names.get(word[0], word[0]), text)
