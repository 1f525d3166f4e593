"""What a learner writes around PyTorch's attention: a class of its own, masks, and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.checks.answers import compare, is_near, require
from attncourse.checks.exercises import exercise_check
from attncourse.checks.safe_run import draw, reporting
from attncourse.checks.verdict import Verdict
from attncourse.examples import seeded
from attnlib.convert import split_to_torch
from attnlib.functional import attention, causal_mask, merge_heads, split_heads
from attnlib.modules import MultiHeadAttention

# A class around SDPA


class FusedAttention(MultiHeadAttention):
    """MultiHeadAttention that lets PyTorch's function do the middle, on one text or two."""

    def forward(self, x: Tensor, memory: Tensor | None = None, **mask: Any) -> Tensor:  # type: ignore[override]
        memory = x if memory is None else memory
        made = self.W_query(x), self.W_key(memory), self.W_value(memory)
        queries, keys, values = (split_heads(each, self.head_dim) for each in made)
        mask["dropout_p"] = self.dropout.p * self.training
        context_vec = F.scaled_dot_product_attention(queries, keys, values, **mask)
        output: Tensor = self.out_proj(merge_heads(context_vec))
        return output


B, HEADS, HEAD_DIM, D_IN = 5, 3, 7, 11  # no size fits in the place of another


@exercise_check(reference=FusedAttention)
def check_fused(cls: Callable[..., MultiHeadAttention]) -> Verdict | str:
    """Check a class around scaled_dot_product_attention: one sequence, two, masks, dropout.

    It is made as MultiHeadAttention is; its forward takes x, memory (x itself if there is none) and
    the masks of scaled_dot_product_attention by keyword.
    """

    def made(kind: Callable[..., MultiHeadAttention], dropout: float) -> MultiHeadAttention:
        with seeded(1):
            return kind(D_IN, HEADS * HEAD_DIM, 13, dropout, num_heads=HEADS, qkv_bias=True)

    def forward(module: Callable[..., Any], *texts: Tensor, **mask: Any) -> Tensor:
        with seeded(2), torch.no_grad(), reporting():
            return module(*texts, **mask)  # type: ignore[no-any-return]

    right, mine = made(MultiHeadAttention, 0.0).requires_grad_(False), made(cls, 0.0).eval()

    def ask(*texts: tuple[Tensor, Tensor | None], table: str = "fused", **mask: Any) -> str | None:
        def written(x: Tensor, memory: Tensor | None, *_others: Any) -> Tensor:
            return forward(mine, *([x] if memory is None else [x, memory]), **mask)

        is_masked = causal_mask(8) if mask else None
        inputs = [(x, memory, right, is_masked) for x, memory in texts]
        return compare(written, inputs, _attended, table)

    x, other, long = (draw(B, length, D_IN, seed=i) for i, length in enumerate((8, 8, 10)))
    # With two sequences of one length the output of every mistake has the right shape
    for texts in (((x, None), (other, None)), ((x, other), (other, x)), ((x, long), (long, x))):
        if said := ask(*texts):
            return said
    for name, mask in {"attn_mask": ~causal_mask(8), "is_causal": True}.items():
        if said := ask((x, other), (other, x), table="masked", **{name: mask}):
            return f"With {name}: {said}"
    said = "In eval mode with dropout=0.5 the output is another one: dropout_p must be 0.0 there."
    require(is_near(forward(made(cls, 0.5).eval(), x), _attended(x, None, right)), said)
    # One key gets a weight of 1 from each query. So without out_proj a head returns its value,
    # multiplied by 1 / (1 - p), or 0 where dropout hits the weight
    module = made(cls, 0.2).train()
    nn.init.eye_(module.out_proj.weight)
    nn.init.zeros_(module.out_proj.bias)
    memory = draw(B, 1, D_IN, seed=3)
    values = split_heads(right.W_value(memory), HEAD_DIM)
    kept = split_heads(forward(module, draw(B, 12, D_IN, seed=2), memory), HEAD_DIM) / values
    is_dropped = kept[..., :1] == 0
    wanted = torch.where(is_dropped, 0.0, 1.25).expand_as(kept)
    said = "In training with dropout=0.2 attention weights must be dropped or multiplied by 1.25"
    require(
        is_dropped.any() and is_near(kept, wanted, near=1e-3),
        f"{said}: SDPA needs dropout_p=self.dropout.p there.",
    )
    sentence = "Right: one text or two, with attn_mask or is_causal, and dropout in training only."
    return Verdict(True, sentence)


def _attended(
    x: Tensor, memory: Tensor | None, module: MultiHeadAttention, is_masked: Tensor | None = None
) -> Tensor:
    """Return what the layers of a module give, around attnlib's attention."""
    memory = x if memory is None else memory
    queries = split_heads(module.W_query(x), module.head_dim)
    keys = split_heads(module.W_key(memory), module.head_dim)
    values = split_heads(module.W_value(memory), module.head_dim)
    context_vec, _ = attention(queries, keys, values, is_masked)
    return module.out_proj(merge_heads(context_vec))  # type: ignore[no-any-return]


# Masks


def _padded_mask(is_padding: Tensor) -> Tensor:
    num_tokens = is_padding.shape[1]
    may_attend = ~causal_mask(num_tokens) & ~is_padding[:, None]
    return (may_attend | torch.eye(num_tokens, dtype=torch.bool))[:, None]


@exercise_check(reference=_padded_mask)
def check_padded(padded_mask: Callable[[Tensor], Tensor]) -> Verdict | str:
    """Check a mask for SDPA and texts that are padded on the left, with a True in every row.

    It is made of is_padding, (b, num_tokens), as (b, 1, num_tokens, num_tokens), True where a query
    may attend. What padding attends to, if it attends to something, is free.
    """
    inputs = [
        (torch.arange(num_tokens) < torch.tensor(paddings)[:, None],)
        for num_tokens, paddings in ((8, (0, 2, 5)), (8, (4, 1, 3)), (7, (3, 1, 0, 2)))
    ]

    def view(mask: Tensor, is_padding: Tensor) -> Tensor:
        """Replace the rows of padding: what they attend to is free, but not nothing."""
        right = _padded_mask(is_padding)
        if mask.dtype != torch.bool or mask.shape != right.shape:
            return mask
        return torch.where(is_padding[:, None, :, None] & mask.any(-1, keepdim=True), right, mask)

    said = compare(padded_mask, inputs, _padded_mask, "padded_mask", view=view)
    right = "Right: no row is empty, and the words of 10 texts attend as if each text were alone."
    return said or Verdict(True, right)


Shape = tuple[int, int, int, int]


def _for_module(may_attend: Tensor, shape: Shape) -> Tensor:
    return ~may_attend.expand(shape).flatten(0, 1)


@exercise_check(reference=_for_module)
def check_for_module(written: Callable[[Tensor, Shape], Tensor]) -> Verdict | str:
    """Check how a mask for SDPA becomes one for nn.MultiheadAttention.

    It takes the mask, True where a query may attend, and the shape to which it broadcasts,
    (b, num_heads, n, m); it returns (b * num_heads, n, m), True where a query may not attend.
    """
    inputs = [
        (may_attend, (b, num_heads, 5, 5))
        for b, num_heads in ((3, 2), (2, 3), (2, 2))
        for may_attend in _masks(b, 5)
    ]
    said = compare(written, inputs, _for_module, "for_module")
    right = "Right: three shapes of mask, for 3 texts and 2 heads, 2 and 3, 2 and 2."
    return said or Verdict(True, right)


# The table


def _masks(b: int, num_tokens: int) -> Iterator[Tensor]:
    """Return a mask of each shape that the table allows, True where a query may look.

    (n, n), causal; (b, 1, 1, n), padding on the right and on the left; (b, 1, n, n), both of it
    and causal, where a padding token sees itself.
    """
    may_see, itself = ~causal_mask(num_tokens), torch.eye(num_tokens, dtype=torch.bool)
    yield may_see
    lengths = num_tokens - 2 * torch.arange(b)[:, None] % (num_tokens - 1)
    on_the_right = torch.arange(num_tokens) < lengths
    for is_word in (on_the_right, on_the_right.flip(1)):
        yield is_word[:, None, None]
        yield ((may_see & is_word[:, None]) | itself)[:, None]


@torch.no_grad()
def run_calls(
    calls: Iterable[str], cls: type[MultiHeadAttention], **names: Any
) -> dict[str, tuple[int, int]]:
    """Run each call on every input that fits it, and compare with attnlib's attention.

    A call that names may_attend gets every shape of mask, with as many texts as heads and with
    more; one that names memory attends to another text; one that names new has one or three new
    tokens; all others are causal.

    Returns:
        For each call on how many inputs it was right, and how many there were.
    """
    from torch.nn.attention.bias import causal_lower_right  # it loads torch's compiler, in seconds

    found = {}
    for call in calls:
        is_right = [
            is_near(eval(call, {"causal_lower_right": causal_lower_right, **names, **space}), right)
            for b in (2, 3)
            for space, right in _cases(call, b, cls)
        ]
        found[call] = (sum(is_right), len(is_right))
    return found


def _cases(
    call: str, b: int, cls: type[MultiHeadAttention]
) -> Iterator[tuple[dict[str, Any], Tensor]]:
    """Return the names of each input that fits a call, and what must come out."""
    with seeded(1):
        mine, plain = (kind(4, 4, 7, 0.0, num_heads=2).eval() for kind in (cls, MultiHeadAttention))
        plain.load_state_dict(mine.state_dict())
        x, memory = torch.randn(b, 5, 4), torch.randn(b, 7, 4)
    is_future = causal_mask(5)
    space = {"mine": mine, "module": split_to_torch(plain), "x": x, "is_future": is_future}
    space |= {"shape": (b, 2, 5, 5), "text": x, "sdpa": F.scaled_dot_product_attention}
    if "may_attend" in call:
        for may_attend in _masks(b, 5):
            yield {**space, "may_attend": may_attend}, _attended(x, None, mine, ~may_attend)
    elif "memory" in call:
        yield {**space, "memory": memory}, _attended(x, memory, mine)
    elif "new" in call:
        for n in (1, 3):
            right = _attended(x[:, -n:], x, mine, is_future[-n:])
            yield {**space, "new": x[:, -n:], "n": n, "m": 5}, right
    else:
        yield space, _attended(x, None, mine, is_future)
