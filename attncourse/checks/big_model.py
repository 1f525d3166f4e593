"""Checks of what stands between the class and a model that speaks: the class, a block, a cache."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.checks.answers import (
    FailedCall,
    first_near,
    in_words,
    is_near,
    noted,
    remedied,
    require,
    require_shape,
)
from attncourse.checks.exercises import exercise_check
from attncourse.checks.safe_run import CheckFailed, draw, reporting
from attncourse.checks.verdict import Verdict
from attncourse.variants.llama import (
    NUM_HEADS,
    WIDTH,
    CachedAttention,
    LlamaAttention,
    Ways,
    attended,
)
from attnlib.functional import causal_mask
from attnlib.rotary import rotary_cos_sin, rotate_half, rotate_interleaved
from attnlib.validate import require_attention, require_broadcastable

B, HEADS, TOKENS, HEAD_DIM = 2, 3, 7, 10


@exercise_check(reference=rotate_interleaved)
def check_rotate(rotate: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Verdict | str:
    """Check a function that turns neighboring numbers of queries or keys by their angles.

    Args:
        rotate: takes x, (b, num_heads, num_tokens, 64), and cos and sin of the angles,
            (num_tokens, 32), and returns the turned x.

    >>> check_rotate(lambda x, cos, sin: x)
    Nothing has turned: token 0 may stay as it is, its angle is 0, but no other.
    """
    x = draw(B, HEADS, TOKENS, WIDTH // NUM_HEADS)
    cos, sin = rotary_cos_sin(torch.arange(TOKENS), WIDTH // NUM_HEADS)
    given = x.clone()
    mine = rotate(given, cos, sin)
    right = rotate_interleaved(x, cos, sin)
    require_shape(mine, tuple(x.shape))
    require(torch.equal(given, x), "It changes x in place, which others may read: make a new one.")
    if is_near(mine, right):
        return noted("Right: every pair is turned, and keeps its length.")
    first, second = x[..., 0::2], x[..., 1::2]
    halves = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    usual = {
        "Nothing has turned: token 0 may stay as it is, its angle is 0, but no other.": x,
        "It turns the other way: which of the two products with sin is taken away?": (
            rotate_interleaved(x, cos, -sin)
        ),
        "It turns number i with number i + 32, as other files are stored. In this one the two "
        "numbers of a pair are neighbors, 2i and 2i + 1.": rotate_half(x, cos, sin),
        "The pairs are turned, but not put back in their places: first all first numbers, then "
        "all second ones. They must take turns again.": halves,
        "Both products are added in both lines: one of the two is a difference.": torch.stack(
            (first * cos + second * sin, second * cos + first * sin), dim=-1
        ).flatten(-2),
        "The second number is computed from the first one when that has already turned.": (
            _one_after_the_other(x, cos, sin)
        ),
    }
    return first_near(mine, usual) or (
        "The numbers are not those of the rule: number 2i becomes x[2i] cos - x[2i + 1] sin."
    )


def _one_after_the_other(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first = x[..., 0::2] * cos - x[..., 1::2] * sin
    return torch.stack((first, x[..., 1::2] * cos + first * sin), dim=-1).flatten(-2)


def _of_shapes(error: BaseException, _call: FailedCall) -> str | None:
    """Return what can be done where attention refuses what it is given."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    if frame.f_code is require_broadcastable.__code__:
        return (
            f"{in_words(error)} The mask has a row for each new token and a column for each key: "
            "of the mask of all tokens, the last rows."
        )
    if frame.f_code is require_attention.__code__:
        own = "Every query head needs a key and a value: nine of each."
        return f"{in_words(error)} {own}"
    return None


class Learned:
    """A learner's class, made when it is first called, with random parameters."""

    def __init__(self, cls: Callable[[], nn.Module]) -> None:
        self.cls = cls

    @cached_property
    def module(self) -> nn.Module:
        """The module, its parameters drawn in the order of their names."""
        made = self.cls().eval().requires_grad_(False)
        for i, (_, parameter) in enumerate(sorted(made.named_parameters())):
            parameter.copy_(1.5 * draw(*parameter.shape, seed=i) / WIDTH**0.5)
        return made

    @torch.no_grad()
    def forward(self, x: Tensor, *cache: dict[str, Tensor]) -> Tensor:
        """Return what the learner's forward makes of x."""
        found = self.module(x.clone(), *cache)
        if isinstance(found, tuple):
            raise CheckFailed(
                "forward returns a tuple: attention returns two, and the second goes."
            )
        return cast(Tensor, found)

    @torch.no_grad()
    def right(self, x: Tensor, cache: dict[str, Tensor] | None = None, **ways: Any) -> Tensor:
        """Return what ours makes of x with the same parameters, or what a mistake makes of it."""
        return attended(self.module, x, cache, Ways(**ways))


def check_llama_attention(cls: Callable[[], nn.Module]) -> Verdict:
    """Check a class of attention with SmolLM2's sizes, rotary positions and shared keys and values.

    Args:
        cls: makes a module with W_query, W_key, W_value and out_proj, whose forward takes x, (b,
            num_tokens, 576), and returns the same shape.

    >>> check_llama_attention(LlamaAttention)
    Right: positions turn queries and keys, and three query heads share a key.
    """
    return _checked(cls, LlamaAttention, _llama_attention)


def _checked(
    cls: Callable[[], nn.Module], ours: type[nn.Module], ask: Callable[..., Verdict | str]
) -> Verdict:
    """Ask something of a learner's class and of its forward."""
    learned = Learned(cls)

    @exercise_check(reference=ours)
    def check(forward: Callable[..., Tensor]) -> Verdict | str:
        with remedied(_of_shapes):
            return ask(learned, forward)

    return replace(check(learned.forward), answer=cls)


def _llama_attention(learned: Learned, forward: Callable[[Tensor], Tensor]) -> Verdict | str:
    x = draw(B, TOKENS, WIDTH)
    mine, right = forward(x), learned.right(x)
    require_shape(mine, tuple(x.shape))
    if is_near(mine, right, 1e-4):
        return noted("Right: positions turn queries and keys, and three query heads share a key.")
    once, twice = "Queries and keys must both turn: ", "only the {} do here."
    usual: dict[str, dict[str, Any]] = {
        "Nothing turns: neither queries nor keys know their positions.": {"turns": ""},
        once + twice.format("queries"): {"turns": "q"},
        once + twice.format("keys"): {"turns": "k"},
        "The values turn, too. Only what is compared must know positions: queries and keys.": {
            "turns": "qkv"
        },
        "The angles have another base: for this model it is 100_000.0.": {"base": 10_000.0},
        "The key heads take turns: query heads 0, 1, 2 get key heads 0, 1, 2. But the first three "
        "share key head 0, as in `[0, 0, 0, 1, 1, 1]`.": {"in_turns": "kv"},
        "The keys are shared as they should be, but the values take turns.": {"in_turns": "v"},
        "The values are shared as they should be, but the keys take turns.": {"in_turns": "k"},
        "Nothing hides the future: attention takes causal_mask(num_tokens) last.": {
            "is_causal": False
        },
        "out_proj is missing at the end.": {"is_projected": False},
    }
    found = {said: learned.right(x, **options) for said, options in usual.items()}
    if told := first_near(mine, found, 1e-4):
        return told
    alone = is_near(forward(x[:, :1]), right[:, :1], 1e-4)
    return (
        "Of a text of one token the output is right, of a longer one not: look at what turns, and "
        "at the mask."
        if alone
        else "Even of one token, which cannot turn and sees itself alone, the output is not right: "
        "look at the values, how they are shared and merged, and at out_proj."
    )


def check_cached_attention(cls: Callable[[], nn.Module]) -> Verdict:
    """Check a class like that of check_llama_attention whose forward also takes a cache, a dict.

    A text is given in portions of 4, 1 and 2 tokens, and compared with the whole; then once more,
    with another empty cache.

    >>> check_cached_attention(CachedAttention)
    Right: the past is kept, and nothing forgotten.
    """
    return _checked(cls, CachedAttention, _cached_attention)


def _cached_attention(learned: Learned, forward: Callable[..., Tensor]) -> Verdict | str:
    x = draw(B, TOKENS, WIDTH)
    projected: list[int] = []  # tokens of each x that W_key is given
    with reporting():  # the class is made here
        learned.module.get_submodule("W_key").register_forward_pre_hook(
            lambda _, given: projected.append(given[0].numel() // (B * WIDTH))
        )
    for again in (False, True):  # two caches, one after the other
        cache: dict[str, Tensor] = {}
        theirs: dict[str, Tensor] = {}
        backwards: dict[str, Tensor] = {}
        for old, new in ((0, 4), (4, 5), (5, 7)):
            portion, before = x[:, old:new], dict(theirs)
            projected.clear()
            mine, tokens = forward(portion, cache), max(projected, default=0)
            right = learned.right(portion, theirs)
            newest_first = learned.right(portion, backwards, is_last=False)
            require_shape(mine, tuple(portion.shape), ": one row for each new token")
            if not is_near(mine, right, 1e-4):
                if old and is_near(mine, newest_first, 1e-4):
                    return "The new tokens come last: behind those in the cache."
                return _of_a_portion(learned, portion, mine, before, again)
            if tokens > new - old:
                return (
                    f"The output is right, but W_key is given {tokens} tokens where {new - old} "
                    "came: the past is computed again. Keep keys and values, not x."
                )
    kept, enough = (_numbers(each) // (B * TOKENS) for each in (cache, theirs))
    if 2 * kept >= 3 * enough:  # x alone is so much
        return (
            f"The output is right, but cache keeps {kept} numbers for each token, and {enough} are "
            "enough: keep three heads of keys and of values, and share them afterwards."
        )
    return noted("Right: the past is kept, and nothing forgotten.")


def _numbers(kept: object) -> int:
    """Count the numbers of the tensors that a cache holds, in lists, too."""
    if isinstance(kept, dict):
        kept = list(kept.values())
    if isinstance(kept, list | tuple):
        return sum(map(_numbers, kept))
    return kept.numel() if isinstance(kept, Tensor) else 0


def _of_a_portion(
    learned: Learned, portion: Tensor, mine: Tensor, before: dict[str, Tensor], again: bool
) -> str:
    """Say what is wrong with what a cached class makes of some new tokens."""
    if not before:
        if again:
            return (
                "A second, empty cache still finds the tokens of the first: keep them in cache "
                "alone, which is given."
            )
        return "With an empty cache the output is not that of the class without one."

    def made_of(cache: dict[str, Tensor], **ways: Any) -> Tensor:
        return learned.right(portion, dict(cache), **ways)

    past = before["k"].shape[2]
    keys_twice = {"k": before["k"], "v": before["k"]}
    usual = {
        f"The new tokens turn as if they were the first ones. After {past} others they have "
        f"positions from {past} on.": made_of(before, first=0),
        "The new tokens see each other alone: nothing is kept in cache, or it is not read.": (
            made_of({})  # turned or not: scores depend on distances
        ),
        "Where the values of earlier tokens belong are their keys.": made_of(keys_twice),
        "Of two new tokens the first sees the second: of the mask of all tokens, theirs are the "
        "last rows.": made_of(before, is_causal=False),
    }
    if told := first_near(mine, usual, 1e-4):
        return told
    return (
        f"After {past} tokens the next one's output is not the one that the whole text gives. Does "
        "cache hold keys and values of all tokens so far, and is the position right?"
    )


def _block(x: Tensor, layer: Any) -> Tensor:
    x = x + layer.attention(layer.norm_1(x))
    gate, up = layer.widen(layer.norm_2(x)).chunk(2, dim=-1)
    return x + layer.narrow(F.silu(gate) * up)  # type: ignore[no-any-return]


@exercise_check(reference=_block)
def check_block(block: Callable[[Tensor, Any], Tensor]) -> Verdict | str:
    """Check a function that adds to x what attention writes, then what a gated MLP writes.

    Args:
        block: takes x, (b, num_tokens, width), and a layer with attention, norm_1, norm_2, widen
            and narrow, and returns the new x.

    >>> check_block(lambda x, layer: x + layer.attention(layer.norm_1(x)))
    Attention is added, and the MLP is missing.
    """
    x, hidden = draw(B, TOKENS, HEAD_DIM), 14
    mean = 1 - causal_mask(TOKENS).float()
    mean /= mean.sum(dim=-1, keepdim=True)
    first, second = (draw(HEAD_DIM, seed=seed).abs() + 0.5 for seed in (1, 2))
    out, wide, thin = draw(10, 10, seed=3), draw(10, 28, seed=4), draw(hidden, 10, seed=5)
    layer = SimpleNamespace(
        attention=lambda read: mean @ read @ out,
        norm_1=lambda read: F.rms_norm(read, (HEAD_DIM,), first, 1e-5),
        norm_2=lambda read: F.rms_norm(read, (HEAD_DIM,), second, 1e-5),
        widen=lambda read: read @ wide,
        narrow=lambda opened: opened @ thin,
    )
    given = x.clone()
    mine = block(given, layer)
    require_shape(mine, tuple(x.shape))
    require(torch.equal(given, x), "It changes x in place, which others may read: x = x + ...")
    if is_near(mine, _block(x, layer), 1e-4):
        return noted("Right: two readers of the stream, and both add to it.")
    return first_near(mine, _usual_blocks(x, layer), 1e-4) or (
        "The numbers are not those of the two lines: a = x + attention(norm_1(x)), then a + MLP("
        "norm_2(a))."
    )


def _usual_blocks(x: Tensor, layer: Any) -> dict[str, Tensor]:
    """Return what usual mistakes make of x."""

    def mlp(read: Tensor, opened: Callable[[Tensor, Tensor], Tensor] | None = None) -> Tensor:
        gate, up = layer.widen(read).chunk(2, dim=-1)
        return layer.narrow(opened(gate, up) if opened else F.silu(gate) * up)  # type: ignore[no-any-return]

    write = layer.attention(layer.norm_1(x))
    a = x + write
    read = layer.norm_2(a)
    return {
        "Attention is added, and the MLP is missing.": a,
        "What attention wrote is not added to x: without the sum the stream is lost.": (
            write + mlp(layer.norm_2(write))
        ),
        "What the MLP wrote is not added: without the sum the stream is lost.": mlp(read),
        "Neither of the two adds to x: without the sums the stream is lost.": (
            mlp(layer.norm_2(write))
        ),
        "The MLP reads the stream as it was before attention wrote.": a + mlp(layer.norm_2(x)),
        "The MLP is added to the x from before attention, so that what attention wrote is lost.": (
            x + mlp(read)
        ),
        "The wrong half is the gate: silu goes round the first half.": (
            a + mlp(read, lambda gate, up: gate * F.silu(up))
        ),
        "Both halves are multiplied as they are: silu round the first one is missing.": (
            a + mlp(read, lambda gate, up: gate * up)
        ),
        "The halves are added: the gate must multiply.": (
            a + mlp(read, lambda gate, up: F.silu(gate) + up)
        ),
        "That is another function than silu at the gate.": (
            a + mlp(read, lambda gate, up: F.gelu(gate) * up)
        ),
        "Attention reads x without norm_1.": (b := x + layer.attention(x)) + mlp(layer.norm_2(b)),
        "The MLP reads the stream without norm_2.": a + mlp(a),
        "The two norms are not one: before the MLP it is norm_2.": a + mlp(layer.norm_1(a)),
    }
