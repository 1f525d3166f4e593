"""Read and change what goes on inside an attention module, by the field's names of its parts.

Nothing here knows the class: it has `out_proj`, whose input is the heads' numbers side by side,
and `W_query`, `W_key`, `W_value`, or all three in one `W_qkv`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from attncourse.language.interventions import PARTS
from attncourse.language.model import LlamaSize, matrix_of, split_last
from attnlib.convert import PROJECTIONS

Inputs = Mapping[str, Tensor]  # what queries, keys or values are made of, in the place of x


class AttentionResult(NamedTuple):
    """What an attention module did."""

    written: Tensor  # what it returned, (b, num_tokens, width)
    numbers: Tensor  # what its heads handed to out_proj, (b, num_tokens, num_heads, head_dim)
    # queries, keys (before rotary positions) and values, (b, num_heads, num_tokens, head_dim);
    # weights, (b, num_heads, num_tokens, num_tokens), where they were asked for
    maps: dict[str, Tensor]


def run_attention(
    attention: nn.Module,
    size: LlamaSize,
    x: Tensor,
    edit: Callable[[Tensor], None] | None = None,
    reads: Inputs | None = None,
    **options: Any,
) -> AttentionResult:
    """Run an attention module on x and options; edit changes its heads' numbers in place."""
    kept: list[Tensor] = []
    maps: dict[str, Tensor] = {}

    def before_out_proj(_module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        numbers = split_last(inputs[0], size.head_dim).clone()
        if edit is not None:
            edit(numbers)
        kept.append(numbers)
        return (numbers.flatten(-2),)

    def after_projection(
        part: str, columns: slice, module: nn.Module, _inputs: tuple[Tensor], made: Tensor
    ) -> Tensor:
        if reads and part in reads:
            made = made.clone()
            made[..., columns] = module.forward(reads[part])[..., columns]
        heads = split_last(made[..., columns], size.head_dim).transpose(1, 2)
        maps[part] = heads.repeat_interleave(size.num_heads // heads.shape[1], dim=1)
        return made

    with ExitStack() as stack:
        hook = attention.get_submodule("out_proj").register_forward_pre_hook(before_out_proj)
        stack.callback(hook.remove)
        for part, (name, columns) in _columns(attention, size).items():
            read = partial(after_projection, part, columns)
            stack.callback(attention.get_submodule(name).register_forward_hook(read).remove)
        returned = attention(x, **options)
    if isinstance(returned, tuple):
        returned, maps["weights"] = returned
    return AttentionResult(returned, kept[0], maps)


def _columns(attention: nn.Module, size: LlamaSize) -> dict[str, tuple[str, slice]]:
    """Return for queries, keys and values the projection that makes them, and its columns."""
    if not hasattr(attention, "W_qkv"):
        names = zip(PARTS, PROJECTIONS, strict=True)
        return {part: (name, slice(None)) for part, name in names}
    ends = (0, *accumulate(size.widths))
    return {part: ("W_qkv", slice(*ends[i : i + 2])) for i, part in enumerate(PARTS)}


def _projections(attention: nn.Module) -> tuple[str, ...]:
    return ("W_qkv",) if hasattr(attention, "W_qkv") else PROJECTIONS


def share_weights(attention: nn.Module, other: nn.Module, size: LlamaSize) -> nn.Module:
    """Give a module the weights of another, as views where they fit; its biases become 0.

    Both have W_query, W_key, W_value (or W_qkv) and out_proj.
    """
    rows = torch.cat([matrix_of(other, name) for name in _projections(other)])
    weights = {"W_qkv": rows, "out_proj": matrix_of(other, "out_proj")}
    weights |= zip(PROJECTIONS, torch.split(rows, list(size.widths)), strict=True)
    for name in (*_projections(attention), "out_proj"):
        linear = cast(Any, attention.get_submodule(name))
        if linear.weight.shape != weights[name].shape:
            raise ValueError(
                f"{name}.weight of {type(attention).__name__} is {tuple(linear.weight.shape)}; "
                f"the model's is {tuple(weights[name].shape)}"
            )
        linear.weight = nn.Parameter(weights[name], requires_grad=False)
        if (bias := getattr(linear, "bias", None)) is not None:
            nn.init.zeros_(bias)
    return attention.eval().requires_grad_(False)
