"""Classes that are wrong by one line.

The right text is OnePageAttention. A Mistake changes one line of it and compiles the result; most
return the right shape all the same.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch
from torch import Tensor, nn  # noqa: F401  # a wrong line calls nn

from attncourse.examples import seeded
from attncourse.tracing.source import Source
from attncourse.variants.changes import class_of, with_lines
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
    """One line of OnePageAttention gone wrong.

    Args:
        name: what to call it.
        story: how it comes about or what it does, in one sentence.
        right: the line that is changed, without its comment.
        wrong: what stands there instead; empty if the line is left out.
        after: the mistake that this one is added to.
    """

    name: str
    story: str
    right: str
    wrong: str
    after: Mistake | None = None

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
        return cast(type[MultiHeadAttention], class_of(text, title, file, globals()))

    def diff(self) -> Source:
        """Show the line that is wrong beside the one that is right."""
        names = self.after.name if self.after else "right", self.name
        before, now = self.before.splitlines(), self.text.splitlines()
        changes = difflib.unified_diff(before, now, *names, n=2, lineterm="")
        return Source("\n".join(line for line in changes if not line.startswith("@@")), "diff")


AFTER = {"both without transpose": "split without transpose"}


def _read(text: str) -> Iterator[Mistake]:
    """Read mistakes: after "- " the right line, for all below it; a name, its story, the wrong."""
    made: dict[str, Mistake] = {}
    right, words = "", ""
    for line in text.splitlines():
        if line.startswith("- "):
            right = line[2:]
        elif not line.startswith("+"):
            words += f" {line}"
        else:
            name, _, story = words.strip().partition(": ")
            made[name] = Mistake(name, story, right, line[2:], made.get(AFTER.get(name, "")))
            words = ""
    yield from made.values()


MISTAKES = tuple(
    _read("""\
- x = x.transpose(1, 2)
split without transpose: view goes straight to the shape that is wanted, and cuts a head out of
several tokens.
+ x = x.view(b, self.num_heads, num_tokens, self.head_dim)
- context_vec = context_vec.transpose(1, 2)
merge without transpose: The heads are joined in the order in which they are in memory: head 0
first, all tokens.
+
both without transpose: Two mistakes that fit each other: the merge puts back what the split has
torn apart.
+
- is_future = x.new_ones(num_tokens, num_tokens).triu(diagonal=1).bool()
mask of the past: The triangle is the lower one, so each token sees itself and what comes after it.
+ is_future = x.new_ones(num_tokens, num_tokens).tril(diagonal=-1).bool()
mask one too late: The triangle begins one place too far right, so each token sees the next one.
+ is_future = x.new_ones(num_tokens, num_tokens).triu(diagonal=2).bool()
mask with the diagonal: Without diagonal=1 the triangle holds the diagonal, and token 0 sees
nothing: a NaN row.
+ is_future = x.new_ones(num_tokens, num_tokens).triu().bool()
- attn_scores = attn_scores.masked_fill(is_future, -torch.inf)
mask inverted: The mask says who may attend where masked_fill asks who may not.
+ attn_scores = attn_scores.masked_fill(~is_future, -torch.inf)
mask thrown away: masked_fill returns a new tensor, and nobody keeps it; masked_fill_ would have
worked.
+ attn_scores.masked_fill(is_future, -torch.inf)
minus 1e4: A number stands for -inf, because -1e9 did not fit into half precision; scores can be
lower.
+ attn_scores = attn_scores.masked_fill(is_future, -1e4)
minus 1e9: A number stands for -inf, and does not fit into half precision, which ends at 65,504.
+ attn_scores = attn_scores.masked_fill(is_future, -1e9)
- attn_scores = attn_scores / self.head_dim**0.5
no scale: The scores grow with head_dim, and softmax hardly mixes any more.
+
scale by d_out: The width of all heads together is taken for the width of one.
+ attn_scores = attn_scores / self.d_out**0.5
scale by d_in: The width of the embedding is taken for the width of a head.
+ attn_scores = attn_scores / self.d_in**0.5
- attn_weights = self.dropout(attn_scores.softmax(dim=-1))
softmax over queries: The columns sum to 1 instead of the rows.
+ attn_weights = self.dropout(attn_scores.softmax(dim=-2))
dropout before softmax: What is dropped is a score, not a weight; a hidden score times 0 is NaN.
+ attn_weights = self.dropout(attn_scores).softmax(dim=-1)
dropout in eval: The function, unlike the module, does not know the mode and always drops.
+ attn_weights = nn.functional.dropout(attn_scores.softmax(dim=-1), self.dropout.p)
- queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
keys and values swapped: Two names in the wrong order on the left of an assignment.
+ queries, values, keys = self.W_query(x), self.W_key(x), self.W_value(x)
- context_vec = context_vec.contiguous()
view without contiguous: The one that speaks up: after transpose the numbers are no longer in
reading order, and view refuses.
+
- context_vec = context_vec.transpose(1, 2)
heads in reverse: The last head comes first, and out_proj expects the first.
+ context_vec = context_vec.flip(1).transpose(1, 2)
- context_vec = self.out_proj(context_vec)
no output projection: The heads are side by side, but nothing mixes them.
+
""")
)
BY_NAME = {mistake.name: mistake for mistake in MISTAKES}
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

    Args:
        cls: OnePageAttention, or a class that is wrong by a line.
        num_heads: 1, 2, 4 or 8.
        dropout: of the attention weights.
        seed: of the parameters.

    >>> make(OnePageAttention).head_dim
    4
    """
    with seeded(seed), torch.no_grad():
        module = cls(3, 8, 6, dropout, num_heads)
        for parameter in module.parameters():
            parameter.normal_()
    return module.eval()
