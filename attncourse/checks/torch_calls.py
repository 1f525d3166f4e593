"""What a learner writes around PyTorch's attention: a class of its own, masks, and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.checks.answers import (
    Mistakes,
    accept,
    compare,
    first_wrong_row,
    is_near,
    known_mistakes,
    require,
    require_mask,
)
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

    >>> print(check_fused(type("Mine", (FusedAttention,), {})))
    Right: one text or two, with attn_mask or is_causal, and dropout in training only.
    """

    def forward(dropout: float, training: bool, *texts: Tensor, **mask: Any) -> Tensor:
        with seeded(1):
            module = cls(D_IN, HEADS * HEAD_DIM, 13, dropout, num_heads=HEADS, qkv_bias=True)
        if training:  # what is dropped must be seen: out_proj passes on what it gets
            nn.init.eye_(module.out_proj.weight)
            nn.init.zeros_(module.out_proj.bias)
        run: Callable[..., Tensor] = module.train(training)
        with seeded(2), torch.no_grad(), reporting():
            found = run(*texts, **mask)
        require(found is not None, "forward returns None: is the return missing?")
        require(not isinstance(found, tuple), "forward returns a tuple: SDPA returns no weights.")
        return found

    with seeded(1):
        right = MultiHeadAttention(
            D_IN, HEADS * HEAD_DIM, 13, 0.0, num_heads=HEADS, qkv_bias=True
        ).requires_grad_(False)
    run = partial(forward, 0.0, False)

    def mistakes(table: str, **mask: Tensor) -> Mistakes:
        known = known_mistakes(table, _attended).items()
        return {said: partial(mistake, right, **mask) for said, mistake in known}

    x, other, long = (draw(B, length, D_IN, seed=i) for i, length in enumerate((8, 8, 10)))
    # With two sequences of one length the output of every mistake has the right shape
    for inputs in ([(x,), (other,)], [(x, other), (other, x)], [(x, long), (long, x)]):
        if said := compare(run, inputs, partial(_attended, right), mistakes("fused")):
            return said
    for name, given in {"attn_mask": ~causal_mask(8), "is_causal": True}.items():
        inputs = [(x, other), (other, x)]
        masked = partial(_attended, right, is_masked=causal_mask(8))
        ignored = mistakes("masked", is_masked=causal_mask(8))
        if said := compare(partial(run, **{name: given}), inputs, masked, ignored):
            return f"With {name}: {said}"
    said = "In eval mode with dropout=0.5 the output is another one: dropout_p must be 0.0 there."
    require(is_near(forward(0.5, False, x), _attended(right, x)), said)
    # Of one key each head's weight is 1. So what a head gives is its value, or nothing if the
    # weight was dropped, and the value is stretched by 1 / (1 - p) if it was not
    x, memory = draw(B, 12, D_IN, seed=2), draw(B, 1, D_IN, seed=3)
    values = split_heads(right.W_value(memory), right.head_dim)
    for p in (0.5, 0.2):
        left = split_heads(forward(p, True, x, memory), right.head_dim) / values
        said = "In training no weight is dropped: SDPA needs dropout_p=self.dropout.p there."
        require(not is_near(left, torch.ones_like(left), near=1e-3), said)
        said = "Dropout hits single numbers of a head's output, and it must hit attention weights."
        require(is_near(left[..., 0], left[..., 1], near=1e-3), said)
        stretch, wanted = left.max().item(), 1 / (1 - p)
        said = f"With dropout={p} what is kept grows by {stretch:.3g}, and it must by {wanted:.3g}."
        require(abs(stretch - wanted) < 1e-3, f"{said} SDPA needs dropout_p=self.dropout.p.")
    return accept(
        "Right: one text or two, with attn_mask or is_causal, and dropout in training only."
    )


def _attended(
    module: MultiHeadAttention,
    x: Tensor,
    memory: Tensor | None = None,
    is_masked: Tensor | None = None,
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

    >>> check_padded(lambda is_padding: _padded_mask(is_padding).tril(-1))
    In text 0 query 0 may attend to keys [], and it must attend to [0].
    """

    def of_words(function: Callable[[Tensor], Tensor], is_padding: Tensor) -> Tensor:
        mask = function(is_padding)
        is_free = is_padding[:, None, :, None] & mask.any(dim=-1, keepdim=True)
        return torch.where(is_free, _padded_mask(is_padding), mask)

    def mask_of(is_padding: Tensor) -> Tensor:
        mask, (b, num_tokens) = padded_mask(is_padding), is_padding.shape
        said = f"SDPA has its heads at dimension 1, where your {b} texts are: add it by [:, None]."
        require(mask.shape != (b, num_tokens, num_tokens), said)
        require_mask(mask, (b, 1, num_tokens, num_tokens))
        return mask

    def describe(mine: Tensor, right: Tensor, _is_padding: Tensor) -> str:
        (text, _, query), found, wanted = first_wrong_row(mine, right)
        must = f"and it must attend to {wanted}"
        return f"In text {text} query {query} may attend to keys {found}, {must}."

    inputs = [
        (torch.arange(num_tokens) < torch.tensor(paddings)[:, None],)
        for num_tokens, paddings in ((8, (0, 2, 5)), (8, (4, 1, 3)), (7, (3, 1, 0, 2)))
    ]
    known = known_mistakes("padded_mask", _padded_mask).items()
    mistakes = {said: partial(of_words, mistake) for said, mistake in known}
    said = compare(partial(of_words, mask_of), inputs, _padded_mask, mistakes, describe=describe)
    right = "Right: no row is empty, and the words of 10 texts attend as if each text were alone."
    return said or accept(right)


Shape = tuple[int, int, int, int]


def _for_module(may_attend: Tensor, shape: Shape) -> Tensor:
    return ~may_attend.expand(shape).flatten(0, 1)


@exercise_check(reference=_for_module)
def check_for_module(written: Callable[[Tensor, Shape], Tensor]) -> Verdict | str:
    """Check how a mask for SDPA becomes one for nn.MultiheadAttention.

    It takes the mask, True where a query may attend, and the shape to which it broadcasts,
    (b, num_heads, n, m); it returns (b * num_heads, n, m), True where a query may not attend.

    >>> print(check_for_module(lambda may_attend, shape: may_attend.expand(shape).flatten(0, 1)))
    True shows in your mask. In the module's mask True means: hide.
    """

    def mask_of(may_attend: Tensor, shape: Shape) -> Tensor:
        mask = written(may_attend, shape)
        require_mask(mask, (shape[0] * shape[1], *shape[2:]))
        return mask

    def describe(mine: Tensor, right: Tensor, may_attend: Tensor, shape: Shape) -> str:
        (row, query), found, wanted = first_wrong_row(mine, right)
        text, head = divmod(row, shape[1])
        where = f"From a mask of shape {tuple(may_attend.shape)}: of text {text}, head {head}"
        return f"{where}, query {query} hides keys {found}, and it must hide {wanted}."

    inputs = [
        (may_attend, (b, num_heads, 5, 5))
        for b, num_heads in ((3, 2), (2, 3), (2, 2))
        for may_attend in _masks(b, 5)
    ]
    mistakes = known_mistakes("for_module", _for_module)
    said = compare(mask_of, inputs, _for_module, mistakes, describe=describe)
    right = "Right: three shapes of mask, for 3 texts and 2 heads, 2 and 3, 2 and 2."
    return said or accept(right)


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

    Args:
        calls: code, with the names mine, module, x, memory, may_attend, new, text, n, m, shape,
            is_future and sdpa, and those of names.
        cls: the learner's class, or FusedAttention.
        names: what else the calls name.

    Returns:
        For each call on how many inputs it was right, and how many there were.

    >>> run_calls(["mine(x, attn_mask=may_attend)", "mine(x)"], FusedAttention)
    {'mine(x, attn_mask=may_attend)': (10, 10), 'mine(x)': (0, 2)}
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
            yield {**space, "may_attend": may_attend}, _attended(mine, x, is_masked=~may_attend)
    elif "memory" in call:
        yield {**space, "memory": memory}, _attended(mine, x, memory)
    elif "new" in call:
        for n in (1, 3):
            right = _attended(mine, x[:, -n:], x, is_masked=is_future[-n:])
            yield {**space, "new": x[:, -n:], "n": n, "m": 5}, right
    else:
        yield space, _attended(mine, x, is_masked=is_future)
