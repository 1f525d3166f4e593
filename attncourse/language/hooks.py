"""Read and change what goes on inside an attention module, by the field's names of its parts.

Nothing here knows the class: it has `out_proj`, whose input is the heads' numbers side by side,
and `W_query`, `W_key`, `W_value`, or all three in one `W_qkv`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from attncourse.language.interventions import PARTS
from attncourse.language.model import LlamaSize, by_head

SEPARATE = dict(zip(PARTS, ("W_query", "W_key", "W_value"), strict=True))
Edit = Callable[[Tensor], Tensor]
Instead = Mapping[int, Mapping[str, Tensor]]  # for a head: what its queries, keys, values read


class Attended(NamedTuple):
    """What an attention module did.

    Args:
        written: (b, num_tokens, width), what it returned.
        numbers: (b, num_tokens, num_heads, head_dim), what its heads handed to out_proj.
        weights: (b, num_heads, num_tokens, num_tokens), where they were asked for.
    """

    written: Tensor
    numbers: Tensor
    weights: Tensor | None


def attend(
    attention: nn.Module,
    size: LlamaSize,
    x: Tensor,
    edit: Edit | None = None,
    instead: Instead | None = None,
    return_weights: bool = False,
) -> Attended:
    """Run an attention module, and change what its heads read and hand over.

    Args:
        attention: any module with out_proj, called with x.
        size: of the model.
        x: (b, num_tokens, width).
        edit: takes the heads' numbers, (b, num_tokens, num_heads, head_dim), and returns what is
            handed over in their place.
        instead: what some parts of some heads read in the place of x.
        return_weights: whether the module is asked for its weights too.
    """
    others = {
        head: _attend_once(attention, size, x, None, (head, parts), return_weights)
        for head, parts in (instead or {}).items()
    }

    def whole_edit(numbers: Tensor) -> Tensor:
        numbers = numbers.clone()
        for head, other in others.items():
            numbers[:, :, head] = other.numbers[:, :, head]
        return numbers if edit is None else edit(numbers)

    attended = _attend_once(attention, size, x, whole_edit, None, return_weights)
    if attended.weights is not None:
        for head, other in others.items():
            attended.weights[:, head] = cast(Tensor, other.weights)[:, head]
    return attended


def _attend_once(
    attention: nn.Module,
    size: LlamaSize,
    x: Tensor,
    edit: Edit | None,
    instead: tuple[int, Mapping[str, Tensor]] | None,
    return_weights: bool,
) -> Attended:
    kept: list[Tensor] = []

    def before_out_proj(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        numbers = by_head(inputs[0], size.head_dim)
        numbers = numbers if edit is None else edit(numbers)
        kept.append(numbers)
        return (numbers.flatten(-2),)

    with ExitStack() as stack:
        out_proj = cast(nn.Module, attention.out_proj)
        stack.enter_context(out_proj.register_forward_pre_hook(before_out_proj))
        if instead is not None:
            stack.enter_context(_reading(attention, size, *instead))
        returned = attention(x, return_weights=True) if return_weights else attention(x)
    written, weights = returned if return_weights else (returned, None)
    return Attended(written, kept[0], weights)


def projected(
    attention: nn.Module, size: LlamaSize, x: Tensor, instead: Instead
) -> dict[str, Tensor]:
    """Return the queries, keys and values of all heads, (b, num_heads, num_tokens, head_dim).

    They are as the projections make them, before rotary positions; where heads share keys and
    values, each has a copy.
    """
    heads: dict[str, Tensor] = {}
    for part in PARTS:
        module, start, stop = _rows(attention, size, part)
        own = by_head(module(x)[..., start:stop], size.head_dim)
        group = size.num_heads // own.shape[-2]
        own = own.repeat_interleave(group, dim=-2)
        for head, parts in instead.items():
            if part in parts:
                other = by_head(module(parts[part])[..., start:stop], size.head_dim)
                own[:, :, head] = other[:, :, head // group]
        heads[part] = own.transpose(1, 2)
    return heads


@contextmanager
def _reading(
    attention: nn.Module, size: LlamaSize, head: int, parts: Mapping[str, Tensor]
) -> Iterator[None]:
    """Have some parts of a head made of other vectors, while the module runs.

    Heads that share keys with it are changed too: only this head's numbers are of use then.
    """
    with ExitStack() as stack:
        for part, x in parts.items():
            module, start, stop = _rows(attention, size, part)

            def replace(
                module: nn.Module,
                _inputs: tuple[Tensor, ...],
                output: Tensor,
                x: Tensor = x,
                rows: slice = slice(start, stop),
            ) -> Tensor:
                changed = output.clone()
                changed[..., rows] = module.forward(x)[..., rows]  # forward: without this hook
                return changed

            stack.enter_context(module.register_forward_hook(replace))
        yield


def _rows(attention: nn.Module, size: LlamaSize, part: str) -> tuple[nn.Module, int, int | None]:
    """Return the module that makes a part, and which columns of its result are that part."""
    if hasattr(attention, "W_qkv"):
        kv_width = size.num_kv_heads * size.head_dim
        ends = {"queries": size.width, "keys": size.width + kv_width, "values": None}
        starts = {"queries": 0, "keys": size.width, "values": size.width + kv_width}
        return cast(nn.Module, attention.W_qkv), starts[part], ends[part]
    return cast(nn.Module, getattr(attention, SEPARATE[part])), 0, None


def gives_weights(attention: nn.Module) -> bool:
    """Return whether a module's forward can be asked for its weights."""
    return "return_weights" in inspect.signature(attention.forward).parameters


def adopt(attention: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give a module the weights of another attention: W_query, W_key, W_value and out_proj.

    Args:
        attention: it has these four, or W_qkv in the place of three. Its own weights go, its
            biases become 0.
        weights: of the four, each (out, in); they are not copied.

    Raises:
        TypeError: it lacks one of them.
        ValueError: one has another shape.
    """
    names = ["W_query", "W_key", "W_value", "out_proj"]
    parts = dict(weights)
    if hasattr(attention, "W_qkv"):
        parts = {"W_qkv": torch.cat([weights[name] for name in names[:3]]), **parts}
        names = ["W_qkv", "out_proj"]
    kind = type(attention).__name__
    for name in names:
        linear: Any = getattr(attention, name, None)
        if not isinstance(linear, nn.Module) or not isinstance(linear.weight, Tensor):
            raise TypeError(f"{kind} has no {name} with a weight; it needs {', '.join(names)}")
        found, wanted = tuple(linear.weight.shape), tuple(parts[name].shape)
        if found != wanted:
            raise ValueError(
                f"{name}.weight of {kind} is {found}, and the model's is {wanted}: (out, in)"
            )
        linear.weight = nn.Parameter(parts[name], requires_grad=False)
        if (bias := getattr(linear, "bias", None)) is not None:
            nn.init.zeros_(bias)
