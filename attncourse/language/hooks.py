"""Read and change what goes on inside an attention module, by the field's names of its parts.

Nothing here knows the class: it has `out_proj`, whose input is the heads' numbers side by side,
and `W_query`, `W_key`, `W_value`, or all three in one `W_qkv`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncourse.language.interventions import PARTS
from attncourse.language.model import LlamaSize, matrix_of, split_last
from attnlib.convert import PROJECTIONS

Inputs = Mapping[str, Tensor]  # what queries, keys or values are made of, in the place of x


class AttentionResult(NamedTuple):
    """What an attention module did.

    Args:
        written: what it returned, (b, num_tokens, width).
        numbers: what its heads handed to out_proj, (b, num_tokens, num_heads, head_dim).
        maps: its queries and keys before rotary positions, (b, num_heads, num_tokens, head_dim);
            its weights, (b, num_heads, num_tokens, num_tokens), where they were asked for.
    """

    written: Tensor
    numbers: Tensor
    maps: dict[str, Tensor]


def run_attention(
    attention: nn.Module,
    size: LlamaSize,
    x: Tensor,
    edit: Callable[[Tensor], None],
    patched: Mapping[int, Inputs] | None = None,
    **options: Any,
) -> AttentionResult:
    """Run an attention module, and change what its heads read and hand over.

    Args:
        attention: called with x.
        size: of the model.
        x: (b, num_tokens, width).
        edit: changes the heads' numbers in place, (b, num_tokens, num_heads, head_dim).
        patched: for some heads, what parts of them read in the place of x. The module runs once
            more for each, and only that head's output is used: others that share keys with it
            keep theirs.
        **options: for the module; with return_weights=True it returns its weights too.
    """
    others = {
        head: _attend_once(attention, size, x, lambda numbers: None, reads, **options)
        for head, reads in (patched or {}).items()
    }

    def edit_all(numbers: Tensor) -> None:
        for head, other in others.items():
            numbers[:, :, head] = other.numbers[:, :, head]
        edit(numbers)

    attended = _attend_once(attention, size, x, edit_all, {}, **options)
    for head, other in others.items():
        for kind, own in attended.maps.items():
            own[:, head] = other.maps[kind][:, head]
    return attended


def _attend_once(
    attention: nn.Module,
    size: LlamaSize,
    x: Tensor,
    edit: Callable[[Tensor], None],
    reads: Inputs,
    **options: Any,
) -> AttentionResult:
    kept: list[Tensor] = []
    maps: dict[str, Tensor] = {}

    def before_out_proj(_module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        numbers = split_last(inputs[0], size.head_dim).clone()
        edit(numbers)
        kept.append(numbers)
        return (numbers.flatten(-2),)

    def after_projection(module: nn.Module, _inputs: tuple[Tensor], made: Tensor) -> Tensor:
        for part, columns in _columns(attention, module, size).items():
            if part in reads:
                made = made.clone()
                made[..., columns] = module.forward(reads[part])[..., columns]
            heads = split_last(made[..., columns], size.head_dim).transpose(1, 2)
            maps[part] = heads.repeat_interleave(size.num_heads // heads.shape[1], dim=1)
        return made

    with ExitStack() as stack:
        hook = attention.get_submodule("out_proj").register_forward_pre_hook(before_out_proj)
        stack.callback(hook.remove)
        for name in _projections(attention):
            hook = attention.get_submodule(name).register_forward_hook(after_projection)
            stack.callback(hook.remove)
        returned = attention(x, **options)
    if isinstance(returned, tuple):
        returned, maps["weights"] = returned
    return AttentionResult(returned, kept[0], maps)


def _projections(attention: nn.Module) -> tuple[str, ...]:
    return ("W_qkv",) if hasattr(attention, "W_qkv") else PROJECTIONS


def _columns(attention: nn.Module, module: nn.Module, size: LlamaSize) -> dict[str, slice]:
    """Return which columns of what a projection makes are queries, keys, values."""
    if hasattr(attention, "W_qkv"):
        ends = (0, *torch.tensor(size.widths).cumsum(0).tolist())
        return {part: slice(ends[i], ends[i + 1]) for i, part in enumerate(PARTS)}
    names = zip(PARTS, PROJECTIONS, strict=True)
    return {part: slice(None) for part, name in names if getattr(attention, name) is module}


def share_weights(attention: nn.Module, other: nn.Module, size: LlamaSize) -> nn.Module:
    """Give a module the weights of another, as views where they fit; its biases become 0.

    Both have W_query, W_key, W_value (or W_qkv) and out_proj.
    """
    rows = torch.cat([matrix_of(other, name) for name in _projections(other)])
    first, second = size.width, size.width + size.widths[1]
    weights = {"W_qkv": rows, "out_proj": matrix_of(other, "out_proj")}
    weights |= zip(PROJECTIONS, (rows[:first], rows[first:second], rows[second:]), strict=True)
    kind = type(attention).__name__
    for name in (*_projections(attention), "out_proj"):
        linear = getattr(attention, name, None)
        if not isinstance(linear, nn.Module) or not isinstance(linear.weight, Tensor):
            raise TypeError(f"{kind} needs {name} with a weight, such as an nn.Linear")
        if linear.weight.shape != weights[name].shape:
            raise ValueError(
                f"{name}.weight of {kind} is {tuple(linear.weight.shape)}; "
                f"the model's is {tuple(weights[name].shape)}"
            )
        linear.weight = nn.Parameter(weights[name], requires_grad=False)
        if (bias := getattr(linear, "bias", None)) is not None:
            nn.init.zeros_(bias)
    return attention.eval().requires_grad_(False)
