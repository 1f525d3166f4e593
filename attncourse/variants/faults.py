"""Classes that are wrong by a line and have no label, and the faults of each part of a class."""

from __future__ import annotations

import inspect
import linecache
from random import Random

from attncourse.tracing.diffs import Diff
from attncourse.tracing.source import Source
from attncourse.variants.mistakes import (
    BY_NAME,
    FILL,
    MASK,
    MISTAKES,
    QKV,
    SCALE,
    WEIGHTS,
    Mistake,
    OnePageAttention,
)
from attnlib.modules import MultiHeadAttention

# Two mistakes more, which are easily made: the future is set to 0 when softmax has already counted
# it, and a line was copied, of which one name was not changed
AFTER_SOFTMAX = Mistake(
    "mask after softmax",
    WEIGHTS,
    "attn_weights = self.dropout(attn_scores.softmax(dim=-1).masked_fill(is_future, 0))",
    after=Mistake("no mask", FILL, ""),
)
KEYS_BY_QUERY = Mistake("keys by W_query", QKV, QKV.replace("W_key", "W_query"))
ALL_MISTAKES = (*MISTAKES, AFTER_SOFTMAX, KEYS_BY_QUERY)
class_a = OnePageAttention  # for whoever is not to know which of the two is right
class_b = BY_NAME["mask one too late"].called("ClassB", "ClassB")


def source_lines(cls: type[MultiHeadAttention] = OnePageAttention) -> list[str]:
    """Return the lines of a class's source."""
    file = cls.forward.__code__.co_filename
    if file.startswith("<") and file in linecache.cache:
        return [line.rstrip("\n") for line in linecache.getlines(file)]
    return inspect.getsource(cls).splitlines()


def numbered_source(cls: type[MultiHeadAttention] = OnePageAttention) -> Source:
    """Show the source of a class with the number of each line."""
    lines = enumerate(source_lines(cls), start=1)
    return Source("\n".join(f"{i:2}  {line}".rstrip() for i, line in lines))


def show_fault(cls: type[MultiHeadAttention], title: str = "") -> Diff:
    """Show where a class differs from the right one: - what it has, + what belongs there.

    Args:
        cls: a class that is wrong by a line or two.
        title: a line above, to tell several apart.
    """
    wrong, right = (
        "\n".join(line.partition("  #")[0] for line in source_lines(each))
        for each in (cls, OnePageAttention)
    )
    unnamed = wrong.replace(cls.__name__, "OnePageAttention")
    return Diff(unnamed, right, title=title, numbered=True)


# The faults, by the part of the class in which they are

VIEW = "x = x.view(b, num_tokens, self.num_heads, self.head_dim)"
CUT = "x = x.transpose(1, 2)"
SCORES = "attn_scores = queries @ keys.transpose(2, 3)"
MIX = "context_vec = attn_weights @ values"
JOIN = "context_vec = context_vec.transpose(1, 2)"
OUT = "context_vec = self.out_proj(context_vec)"
Change = tuple[str, str]  # the right line, and what stands there instead
FAULTS: dict[str, tuple[Change, ...]] = {
    "queries and keys": (
        (QKV, KEYS_BY_QUERY.wrong),
        (QKV, QKV.replace("W_query(x)", "W_key(x)", 1)),
        (QKV, "queries, keys, values = self.W_key(x), self.W_query(x), self.W_value(x)"),
        (SCORES, "attn_scores = keys @ queries.transpose(2, 3)"),
        (SCORES, "attn_scores = queries @ queries.transpose(2, 3)"),
        (SCORES, "attn_scores = keys @ keys.transpose(2, 3)"),
    ),
    "scale": (
        (SCALE, ""),
        (SCALE, "attn_scores = attn_scores / self.d_out**0.5"),
        (SCALE, "attn_scores = attn_scores / self.d_in**0.5"),
        (SCALE, "attn_scores = attn_scores / self.head_dim"),
        (SCALE, "attn_scores = attn_scores * self.head_dim**0.5"),
    ),
    "mask and softmax": (
        (MASK, MASK.replace("=1", "=2")),
        (MASK, MASK.replace("=1", "=3")),
        (MASK, MASK.replace("triu(diagonal=1)", "tril(diagonal=-1)")),
        (FILL, "attn_scores.masked_fill(is_future, -torch.inf)"),
        (FILL, "attn_scores = attn_scores.masked_fill(is_future, 0)"),
        (WEIGHTS, WEIGHTS.replace("dim=-1", "dim=-2")),
        (MASK, MASK.replace("=1", "=0")),  # of this and the next come rows that see nothing
        (FILL, FILL.replace("is_future", "~is_future")),
        *((MASK, f"{MASK} & (torch.arange(num_tokens) != {t})") for t in range(1, 6)),
    ),
    "values": (
        (QKV, QKV.replace("W_value", "W_key")),
        (QKV, QKV.replace("W_value", "W_query")),
        (MIX, "context_vec = attn_weights @ keys"),
        (MIX, "context_vec = attn_weights @ queries"),
    ),
    "split": (
        (CUT, "x = x.reshape(b, self.num_heads, num_tokens, self.head_dim)"),
        (VIEW, "x = x.view(b, num_tokens, self.head_dim, self.num_heads).mT"),
    ),
    "merge": (
        (JOIN, ""),
        (JOIN, "context_vec = context_vec.flip(1).transpose(1, 2)"),
        (JOIN, "context_vec = context_vec.permute(0, 2, 3, 1)"),
    ),
    "out_proj": (
        (OUT, ""),
        (OUT, "context_vec = self.out_proj(self.out_proj(context_vec))"),
        (OUT, "context_vec = context_vec @ self.out_proj.weight.T"),
        (OUT, "context_vec = context_vec @ self.out_proj.weight + self.out_proj.bias"),
    ),
}


def faulty_class(change: Change, title: str) -> type[MultiHeadAttention]:
    """Return the class with a fault, under a title."""
    return Mistake(title, *change).called(title, title)


def random_faulty_class(seed: int) -> type[MultiHeadAttention]:
    """Return a class that is wrong by a line: each seed draws a part, and a fault of it.

    >>> random_faulty_class(1).__name__
    'Case1'
    """
    draw = Random(seed)
    return faulty_class(draw.choice(FAULTS[draw.choice([*FAULTS])]), f"Case{seed}")


MYSTERIES = {
    1: AFTER_SOFTMAX.called("Mystery1", "Mystery1"),
    2: KEYS_BY_QUERY.called("Mystery2", "Mystery2"),
    3: BY_NAME["merge without transpose"].called("Mystery3", "Mystery3"),
    4: BY_NAME["scale by d_out"].called("Mystery4", "Mystery4"),
}
mystery_1, mystery_2, mystery_3, mystery_4 = MYSTERIES.values()
