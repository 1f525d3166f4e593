"""Broken forwards of the weight split, each by a line or two, and what is said of their repair."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from attncourse.checks.answers import is_near, noted, require, require_shape
from attncourse.checks.attempt import draw
from attncourse.checks.exercises import OPEN, check_weight_split, exercise_check
from attncourse.checks.torch_calls import alone
from attncourse.checks.verdict import Verdict
from attncourse.examples import seeded
from attncourse.variants.changes import with_lines
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


class PaddedAttention(MultiHeadAttention):
    """The weight split for padded texts that are read in both directions."""

    def forward(self, x, is_padding):  # type: ignore[no-untyped-def, override]
        split = (*x.shape[:2], self.num_heads, self.head_dim)
        queries = self.W_query(x).view(split).transpose(1, 2)
        keys = self.W_key(x).view(split).transpose(1, 2)
        values = self.W_value(x).view(split).transpose(1, 2)
        attn_scores = queries @ keys.transpose(2, 3)
        attn_scores = attn_scores.masked_fill(is_padding[:, None, None], -torch.inf)
        attn_weights = (attn_scores / self.head_dim**0.5).softmax(dim=-1)
        context_vec = attn_weights @ values
        merged = context_vec.transpose(1, 2).flatten(2)
        return self.out_proj(merged)


QUERIES = "queries = self.W_query(x).view(split).transpose(1, 2)"
KEYS = "keys = self.W_key(x).view(split).transpose(1, 2)"
SCORES = "attn_scores = queries @ keys.transpose(2, 3)"
MERGED = "merged = context_vec.transpose(1, 2).flatten(2)"
FILL = "attn_scores = attn_scores.masked_fill(is_future, -torch.inf)"
# By the name of a class: the lines that are not as in WholeAttention, and what it has there
BROKEN: dict[str, Mapping[str, str]] = {
    "Broken1": {
        QUERIES: "queries = self.W_query(x).view(split)",
        KEYS: "keys = self.W_key(x).view(split)",
        FILL: "attn_scores.masked_fill_(is_future, -torch.inf)",
    },
    "Broken2": {"is_future = causal_mask(x.shape[1])": "is_future = causal_mask(x.shape[2])"},
    "Broken3": {SCORES: "attn_scores = queries @ keys"},
    "Broken4": {SCORES: "attn_scores = queries @ keys.T"},
    "Broken5": {MERGED: "merged = context_vec"},
    "Broken6": {MERGED: "merged = context_vec.transpose(1, 2).view(*x.shape[:2], -1)"},
    "Broken7": {
        "split = (*x.shape[:2], self.num_heads, self.head_dim)": (
            "split = (x.shape[0], -1, self.num_heads, x.shape[2])"
        )
    },
    "Broken8": {MERGED: "merged = context_vec.reshape(*x.shape[:2], -1)"},
    "Broken9": {MERGED: "merged = context_vec.permute(0, 2, 3, 1).flatten(2)"},
}
PADDED = {"Broken10": {"[:, None, None]": "[:, None]"}}
# Five people wrote them, each in names of their own: so no class has, word for word, the line that
# another one lacks
WORDS = "x split queries keys values attn_scores is_future attn_weights context_vec merged"
HANDS = {
    "x shape q k v scores future weights mixed joined": ("Broken2", "Broken10"),
    "tokens sizes query key value dots is_later looks context flat": ("Broken3", "Broken4"),
    WORDS.replace("x split", "stream parts"): ("Broken5", "Broken6", "Broken8", "Broken9"),
    "inputs split Q K V scores is_future shares found merged": ("Broken7",),
}


def broken(name: str) -> str:
    """Return the source of a broken forward.

    >>> [line.strip() for line in broken("Broken3").splitlines() if "query @" in line]
    ['dots = query @ key']
    """
    if name in PADDED:
        text = inspect.getsource(PaddedAttention.forward)
        for right, wrong in PADDED[name].items():
            text = text.replace(right, wrong)
    else:
        text = with_lines(inspect.getsource(WholeAttention.forward), BROKEN[name])
    return in_hand(name, text)


def in_hand(name: str, text: str) -> str:
    """Return code in the names of whoever wrote a class.

    >>> in_hand("Broken2", "attn_scores = queries @ keys")
    'scores = q @ k'
    """
    words = next((words for words, classes in HANDS.items() if name in classes), WORDS)
    names = dict(zip(WORDS.split(), words.split(), strict=True))
    return re.sub(r"\b[a-z_]+\b", lambda word: names.get(word[0], word[0]), text)


def check_repair(cls: type[MultiHeadAttention]) -> Verdict:
    """Check a class that began as one of the broken ones, in whatever way it was repaired.

    Args:
        cls: by its name one of them; one whose lines are as they were is not attempted yet.

    >>> check_repair(type("Broken3", (WholeAttention,), {})).holds
    True
    """
    padded = cls.__name__ in PADDED
    if _bare(inspect.getsource(cls.forward)) == _bare(broken(cls.__name__)):
        return replace(OPEN, written=cls, ours=PaddedAttention if padded else WholeAttention)
    if padded:
        return _check_padded(cls)

    def made(d_in: int, d_out: int, num_heads: int, qkv_bias: bool = False) -> MultiHeadAttention:
        return cls(d_in, d_out, 64, 0.0, num_heads, qkv_bias)

    made.__name__ = cls.__name__
    verdict = check_weight_split(made, skip=("dropout", "context_length"))
    return replace(verdict, written=cls, ours=WholeAttention)


def _bare(text: str) -> str:
    """Return code without comments and blanks."""
    return "".join("".join(line.partition("#")[0].split()) for line in text.splitlines())


def _check_padded(cls: type[MultiHeadAttention]) -> Verdict:
    """Check a class that is told which tokens are padding."""

    def forward(x: Tensor, is_padding: Tensor) -> Tensor:
        with seeded(1):
            module: nn.Module = cls(4, 6, 5, 0.0, num_heads=2)
        output: Tensor = module.eval().requires_grad_(False)(x, is_padding)
        return output

    return replace(_padded(forward), written=cls)


@exercise_check(ours=PaddedAttention)
def _padded(forward: object) -> Verdict:
    assert callable(forward)
    for b in (2, 3):
        with seeded(1):
            module = MultiHeadAttention(4, 6, 5, 0.0, num_heads=2).requires_grad_(False)
        x, is_padding = draw(b, 5, 4, seed=2), torch.arange(5) >= torch.tensor([[3], [5], [4]])[:b]
        mine = forward(x, is_padding)
        require_shape(mine, (b, 5, 6))
        said = "A query sees no key, and its row is NaN: hide keys, the last axis of the scores."
        require(mine.isfinite().all(), said)
        right = alone(module, x, x, ~is_padding[:, None].expand(b, 5, 5))
        said = (
            f"With {b} texts and 2 heads the words of a padded text do not come out as if it were "
            "alone. Which axis of the scores does the mask's first axis meet?"
        )
        require(is_near(mine, right), said)
    return noted("Right: with 2 texts and with 3 every text is read as if it were alone.")
