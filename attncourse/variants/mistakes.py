"""Classes that are wrong by one line.

The right text is OnePageAttention. A Mistake changes one line of it and compiles the result; most
return the right shape all the same.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch
from torch import Tensor, nn  # noqa: F401  # a wrong line calls nn

from attncourse.examples import seeded
from attncourse.variants.changes import compile_class, stored_lines, with_lines
from attnlib.functional import causal_mask  # noqa: F401  # a wrong line calls it
from attnlib.modules import MultiHeadAttention


class OnePageAttention(MultiHeadAttention):
    """MultiHeadAttention with every step of forward written out, one on a line."""

    def split(self, x: Tensor) -> Tensor:
        b, num_tokens, _ = x.shape
        x = x.view(b, num_tokens, self.num_heads, self.head_dim)
        x = x.transpose(1, 2)  # (b, num_heads, num_tokens, head_dim)
        return x

    def forward(self, x: Tensor, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        b, num_tokens, _ = x.shape
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        queries = self.split(queries)  # (b, num_heads, num_tokens, head_dim)
        keys = self.split(keys)  # (b, num_heads, num_tokens, head_dim)
        values = self.split(values)  # (b, num_heads, num_tokens, head_dim)

        attn_scores = queries @ keys.transpose(2, 3)  # (b, num_heads, num_tokens, num_tokens)
        attn_scores = attn_scores / self.head_dim**0.5
        is_future = x.new_ones(num_tokens, num_tokens).triu(diagonal=1).bool()
        attn_scores = attn_scores.masked_fill(is_future, -torch.inf)
        attn_weights = self.dropout(attn_scores.softmax(dim=-1))

        context_vec = attn_weights @ values  # (b, num_heads, num_tokens, head_dim)
        context_vec = context_vec.transpose(1, 2)  # (b, num_tokens, num_heads, head_dim)
        context_vec = context_vec.contiguous()
        context_vec = context_vec.view(b, num_tokens, self.d_out)
        context_vec = self.out_proj(context_vec)  # (b, num_tokens, d_out)
        return (context_vec, attn_weights) if return_weights else context_vec


@dataclass(frozen=True)
class Mistake:
    """One line of OnePageAttention gone wrong."""

    name: str
    right: str  # the line that is changed, without its comment
    wrong: str  # what stands there instead; empty if the line is left out
    after: Mistake | None = None  # the mistake that this one is added to

    @property
    def before(self) -> str:
        """The text in which the line is still right."""
        return self.after.text if self.after else inspect.getsource(OnePageAttention)

    @property
    def text(self) -> str:
        """The text in which the line is wrong."""
        return with_lines(self.before, {self.right: self.wrong})

    @cached_property
    def cls(self) -> type[MultiHeadAttention]:
        """The class, a subclass of MultiHeadAttention."""
        made = self.called("OnePageAttention", self.name)
        made.__name__ = made.__qualname__ = self.name.title().replace(" ", "")
        return made

    def called(self, title: str, file: str) -> type[MultiHeadAttention]:
        """Make the class anew under a title, its source in a file of another name."""
        text = self.text.replace("OnePageAttention", title)
        return cast(type[MultiHeadAttention], compile_class(text, title, file, globals()))


def _read() -> dict[str, Mistake]:
    """Return the stored mistakes by name."""
    made: dict[str, Mistake] = {}
    for name, told in stored_lines("mistakes").items():
        after = made.get(told.get("after", ""))
        made[name] = Mistake(name, told["right"], told["wrong"], after)
    return made


BY_NAME = _read()
MISTAKES = tuple(BY_NAME.values())
# The lines that go wrong in more than one way
MASK = BY_NAME["mask one too late"].right
FILL = BY_NAME["mask inverted"].right
SCALE = BY_NAME["no scale"].right
WEIGHTS = BY_NAME["softmax over queries"].right
QKV = BY_NAME["keys and values swapped"].right


def make(
    cls: type[MultiHeadAttention],
    num_heads: int = 2,
    dropout: float = 0.0,
    seed: int = 1,
) -> MultiHeadAttention:
    """Make a module in eval, 3 numbers to 8, its parameters normal numbers from one seed.

    They are larger than those of a new module, so that heads choose.

    >>> make(OnePageAttention).head_dim
    4
    """
    with seeded(seed), torch.no_grad():
        module = cls(3, 8, 6, dropout, num_heads)
        for parameter in module.parameters():
            parameter.normal_()
    return module.eval()
