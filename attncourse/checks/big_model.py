"""Checks of what stands between the class and a language model: rotation, block, cache."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.checks.answers import (
    compare,
    describe_entry,
    is_near,
    is_result_of,
    known_mistakes,
    require,
    require_shape,
)
from attncourse.checks.exercises import exercise_check
from attncourse.checks.safe_run import draw, reporting
from attncourse.checks.verdict import Verdict
from attncourse.examples import seeded
from attncourse.variants.llama import (
    HEAD_DIM,
    WIDTH,
    CachedAttention,
    LlamaAttention,
    attended,
)
from attnlib.rotary import rotary_cos_sin

# No size that a learner can see (9 heads, 3 of keys, 64 wide): a wrong axis must not fit by chance
B, TOKENS = 5, 7
LARGE_NEAR = 1e-4  # sums of 576 products in float32 differ by more than a single one


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x[..., 0::2], x[..., 1::2]
    turned = first * cos - second * sin
    other = second * cos + first * sin
    return torch.stack((turned, other), dim=-1).flatten(-2)


@exercise_check(reference=_rotate)
def check_rotate(rotate: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Verdict | str:
    """Check a function that turns neighboring numbers of queries or keys by their angles.

    It takes x, (b, num_heads, num_tokens, 64), and cos and sin of the angles, (num_tokens, 32).
    """
    cos, sin = rotary_cos_sin(torch.arange(TOKENS), HEAD_DIM)
    inputs = [(draw(B, heads, TOKENS, HEAD_DIM), cos, sin) for heads in (2, 4)]
    said = compare(rotate, inputs, _rotate, "rotate")
    return said or Verdict(True, "Right: every pair is turned, and keeps its length.")


def _made(cls: Callable[[], nn.Module]) -> nn.Module:
    """Make a learner's class, its parameters drawn in the order of their names."""
    module = cls().eval().requires_grad_(False)
    for i, (_, parameter) in enumerate(sorted(module.named_parameters())):
        # 1.5: large enough for the weights of a row to differ by more than rounding
        parameter.copy_(1.5 * draw(*parameter.shape, seed=i) / WIDTH**0.5)
    return module


@torch.no_grad()
def _outputs(module: nn.Module, x: Tensor, *cache: dict[str, Tensor]) -> Tensor:
    """Return what a learner's forward makes of x."""
    with reporting():
        found = module(x.clone(), *cache)
    said = f"forward returns a {type(found).__name__}: return what out_proj gives, alone."
    require(isinstance(found, Tensor), said)
    return cast(Tensor, found)


@exercise_check(reference=LlamaAttention)
def check_llama_attention(cls: Callable[[], nn.Module]) -> Verdict | str:
    """Check a class of attention with SmolLM2's sizes, rotary positions and shared keys and values.

    Its layers are W_query, W_key, W_value and out_proj; forward takes x, (b, num_tokens, 576).
    """
    module = _made(cls)
    lengths = (TOKENS, TOKENS - 1)
    inputs = [(draw(B, length, WIDTH, seed=length), module) for length in lengths]
    said = compare(lambda x, module: _outputs(module, x), inputs, attended, "llama", LARGE_NEAR)
    sentence = "Right: positions turn queries and keys, and three query heads share a key."
    return said or Verdict(True, sentence)


@exercise_check(reference=CachedAttention)
def check_cached_attention(cls: Callable[[], nn.Module]) -> Verdict | str:
    """Check a class like that of check_llama_attention whose forward also takes a cache, a dict.

    Two sequences are given in portions of 4, 2 and 1 tokens, each with a cache of its own.
    """
    module = _made(cls)
    projected: list[int] = []  # tokens of each x that W_key is given
    module.get_submodule("W_key").register_forward_pre_hook(
        lambda _, given: projected.append(given[0].numel() // (B * WIDTH))
    )
    for seed in (1, 2):
        x = draw(B, TOKENS, WIDTH, seed=seed)
        cache: dict[str, Tensor] = {}
        right_cache: dict[str, Tensor] = {}
        for old, new in ((0, 4), (4, 6), (6, 7)):
            portion, before = x[:, old:new], dict(right_cache)
            projected.clear()
            mine = _outputs(module, portion, cache)
            right = attended(portion, module, right_cache)
            require_shape(mine, tuple(portion.shape), ": one row for each new token")
            if not is_near(mine, right, LARGE_NEAR):
                where = f"With {old} tokens in the cache: " if old else "With an empty cache: "
                where = f"For a second text. {where}" if seed == 2 else where
                return where + _of_a_portion(module, portion, mine, right, before)
            if max(projected, default=0) > new - old:
                return (
                    f"The output is right, but W_key is given {max(projected)} tokens where "
                    f"{new - old} came: the past is computed again. Keep keys and values, not x."
                )
    return Verdict(True, "Right: the past is kept, and nothing forgotten.")


def _of_a_portion(
    module: nn.Module, portion: Tensor, mine: Tensor, right: Tensor, before: dict[str, Tensor]
) -> str:
    """Say what is wrong with what a cached class makes of some new tokens."""
    # With a single new token, wrong positions and a missing rotation give the same output
    tables = ("llama", "cache")[: 1 + bool(before)] if portion.shape[1] > 1 else ()
    for table in tables:
        for said, mistake in known_mistakes(table, attended).items():
            if is_result_of(mistake, (portion, module, dict(before)), mine, LARGE_NEAR):
                return said
    return describe_entry(mine, right)


def _block(x: Tensor, layer: Any) -> Tensor:
    x = x + layer.attention(layer.norm_1(x))
    read = layer.norm_2(x)
    gate, up = layer.gate_proj(read), layer.up_proj(read)
    return x + layer.down_proj(F.silu(gate) * up)  # type: ignore[no-any-return]


@exercise_check(reference=_block)
def check_block(block: Callable[[Tensor, Any], Tensor]) -> Verdict | str:
    """Check a function that adds to x what attention writes, then what a gated MLP writes.

    It takes x and a layer, which has attention, norm_1, norm_2, gate_proj, up_proj, down_proj.
    """
    inputs = [(draw(B, TOKENS, 10, seed=seed), _layer(seed)) for seed in (1, 2)]

    said = compare(block, inputs, _block, "block", LARGE_NEAR)
    sentence = "Right: two readers of the residual stream, and both add to it."
    return said or Verdict(True, sentence)


@torch.no_grad()
def _layer(seed: int, width: int = 10, mlp_width: int = 14) -> SimpleNamespace:
    """Return the parts of a block; in place of attention it has a linear layer."""
    with seeded(seed):
        norms = [nn.RMSNorm(width, eps=1e-5) for _ in range(2)]
        for norm in norms:
            norm.weight.uniform_(0.5, 2.5)
        gate, up = (nn.Linear(width, mlp_width) for _ in range(2))
        attention, down = nn.Linear(width, width), nn.Linear(mlp_width, width)
    return SimpleNamespace(
        attention=attention,
        norm_1=norms[0],
        norm_2=norms[1],
        gate_proj=gate,
        up_proj=up,
        down_proj=down,
    )
