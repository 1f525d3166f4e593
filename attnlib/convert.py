"""Copy weights between classes that compute the same function.

A conversion keeps sizes, dropout, dtype, device, mode and requires_grad. It refuses, in words, what
the other class has no place for, and modules that compute something else than their class does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from attnlib.fused import FusedMultiHeadAttention, repeat_heads
from attnlib.modules import (
    CausalAttention,
    CausalModule,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
)
from attnlib.validate import require_plain

PROJECTIONS = ("W_query", "W_key", "W_value")

Module = TypeVar("Module", bound=nn.Module)
State = dict[str, Tensor]


def stacked_to_split(stacked: MultiHeadAttentionWrapper) -> MultiHeadAttention:
    """Copy the weights of stacked heads into one weight-split module.

    Equation:
        W_query = rows of heads[0].W_query, then of heads[1].W_query, ... (keys, values likewise)
        out_proj = identity, with bias 0

    Args:
        stacked: any MultiHeadAttentionWrapper.

    Returns:
        A MultiHeadAttention with d_out = num_heads * stacked.d_out, on the same device, in the
        same dtype and mode, with weights of its own. Outputs, weights and gradients are equal.

    >>> stacked = MultiHeadAttentionWrapper(3, 2, context_length=6, dropout=0.0, num_heads=4)
    >>> stacked_to_split(stacked).W_query.weight.shape
    torch.Size([8, 3])

    Source: Vaswani et al. 2017, section 3.2.2: the W_i^Q as rows of one matrix, W^O = identity.
    """
    _require_ours(stacked, MultiHeadAttentionWrapper)
    for h, head in enumerate(stacked.heads):
        _require_ours(head, CausalAttention, f"heads.{h}")
    names = [f"heads.{h}.{W}" for h in range(stacked.num_heads) for W in PROJECTIONS]
    _require_projections(stacked, *names)
    parts = stacked.named_modules()
    _require_one("p", {name: part.p for name, part in parts if isinstance(part, nn.Dropout)})
    state = _state(stacked, join_heads, made=("out_proj.weight", "out_proj.bias"))
    return with_weights(MultiHeadAttention, stacked, state, d_out=stacked.num_heads * stacked.d_out)


def join_heads(stacked: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of stacked heads under the names of a weight-split module.

    Equation:
        W_query.weight = rows of heads.0.W_query.weight, then of heads.1.W_query.weight, ...
        out_proj = identity, with bias 0

    Args:
        stacked: the parameters or the state_dict of stacked heads.

    Returns:
        The weights of the split module. Gradients flow back through them.

    >>> heads = {f"heads.{h}.W_query.weight": torch.ones(2, 3) for h in range(4)}
    >>> {name: tuple(weight.shape) for name, weight in join_heads(heads).items()}
    {'W_query.weight': (8, 3), 'out_proj.weight': (8, 8), 'out_proj.bias': (8,)}
    """
    parts: dict[str, list[Tensor]] = {}
    for name, rows in stacked.items():
        parts.setdefault(name.split(".", maxsplit=2)[2], []).append(rows)
    joined = {name: torch.cat(rows) for name, rows in parts.items()}
    weight = joined["W_query.weight"]
    joined["out_proj.weight"] = torch.eye(len(weight)).to(weight)
    joined["out_proj.bias"] = torch.zeros(len(weight)).to(weight)
    return joined


def split_to_stacked(split: MultiHeadAttention) -> MultiHeadAttentionWrapper:
    """Copy the weights of a weight-split module into stacked heads: undoes stacked_to_split.

    Equation:
        heads[h].W_query = rows h * head_dim to (h + 1) * head_dim of W_query (keys, values too)

    Args:
        split: a MultiHeadAttention whose out_proj is the identity with bias 0.

    Returns:
        A MultiHeadAttentionWrapper with d_out = split.head_dim per head, on the same device, in
        the same dtype and mode, with weights of its own. Outputs, weights and gradients are equal.

    Raises:
        ValueError: out_proj is not the identity with bias 0. Stacked heads have no place for it.

    >>> stacked = MultiHeadAttentionWrapper(3, 2, context_length=6, dropout=0.0, num_heads=4)
    >>> again = split_to_stacked(stacked_to_split(stacked)).heads[1].W_key.weight
    >>> torch.equal(again, stacked.heads[1].W_key.weight)
    True

    Source: Vaswani et al. 2017, section 3.2.2.
    """
    _require_ours(split, MultiHeadAttention)
    _require_projections(split, *PROJECTIONS)
    weight, bias = split.out_proj.weight, split.out_proj.bias
    identity = torch.eye(split.d_out, dtype=weight.dtype, device=weight.device)
    off = torch.cat([weight - identity, bias[None]]).abs()
    if not off.is_meta and off.any():  # NaN too
        raise ValueError(
            "out_proj is not the identity with bias 0 (an entry is off by "
            f"{off.max().item():.3g}), and stacked heads have no output projection to hold it; "
            "apply split.out_proj to the stacked heads' result instead"
        )

    def by_head(old: State) -> State:
        return {
            f"heads.{h}.{name}": rows
            for name, entry in old.items()
            if name.startswith(PROJECTIONS)
            for h, rows in enumerate(torch.split(entry, split.head_dim))
        }

    state = _state(split, by_head)
    return with_weights(MultiHeadAttentionWrapper, split, state, d_out=split.head_dim)


def split_to_torch(split: MultiHeadAttention) -> nn.MultiheadAttention:
    """Copy the weights of a weight-split module into PyTorch's own module.

    Equation:
        in_proj_weight = rows of W_query, then of W_key, then of W_value (in_proj_bias likewise)

    Args:
        split: a MultiHeadAttention with d_in = d_out.

    Returns:
        An nn.MultiheadAttention with embed_dim = d_out and batch_first=True, on the same device,
        in the same dtype and mode, with weights of its own. It masks nothing by itself: called
        as module(x, x, x, attn_mask=causal_mask(num_tokens)), its outputs, weights and gradients
        are equal. Without qkv_bias its in_proj_bias is None while out_proj has a bias. No
        argument of nn.MultiheadAttention says that: set in_proj_bias = None on a new one before
        it loads this state_dict.

    Raises:
        ValueError: d_in is not d_out.

    >>> split = MultiHeadAttention(6, 6, context_length=3, dropout=0.0, num_heads=2)
    >>> split_to_torch(split).in_proj_weight.shape
    torch.Size([18, 6])

    Source: the parameters of torch.nn.MultiheadAttention.
    """
    _require_ours(split, MultiHeadAttention)
    _require_projections(split, *PROJECTIONS)
    if split.d_in != split.d_out:
        raise ValueError(
            f"d_in={split.d_in} is not d_out={split.d_out}, but nn.MultiheadAttention has one "
            "width, embed_dim, for its query and its result"
        )
    state = _state(split, lambda old: _packed(old, "in_proj_"))
    with torch.device("meta"):
        module = nn.MultiheadAttention(
            split.d_out, split.num_heads, split.dropout.p, batch_first=True
        )
    if "in_proj_bias" not in state:
        module.register_parameter("in_proj_bias", None)
    return _loaded(module, state, split.training)


def split_to_fused(split: MultiHeadAttention) -> FusedMultiHeadAttention:
    """Copy the weights of a weight-split module into a fused one.

    Equation:
        W_qkv = rows of W_query, then of W_key, then of W_value

    Args:
        split: any MultiHeadAttention.

    Returns:
        A FusedMultiHeadAttention with num_kv_heads = num_heads, on the same device, in the same
        dtype and mode, with weights of its own. Outputs, weights and gradients are equal.

    >>> split = MultiHeadAttention(6, 4, context_length=3, dropout=0.0, num_heads=2)
    >>> split_to_fused(split).W_qkv.weight.shape
    torch.Size([12, 6])

    Source: Vaswani et al. 2017, section 3.2.2: all W_i^Q, W_i^K, W_i^V as rows of one matrix.
    """
    _require_ours(split, MultiHeadAttention)
    _require_projections(split, *PROJECTIONS)
    state = _state(split, lambda old: _packed(old, "W_qkv."))
    return with_weights(FusedMultiHeadAttention, split, state)


def fused_to_split(fused: FusedMultiHeadAttention) -> MultiHeadAttention:
    """Copy the weights of a fused module into a weight-split one: undoes split_to_fused.

    Equation:
        W_query, W_key, W_value = the first, second and third part of the rows of W_qkv

    Args:
        fused: any FusedMultiHeadAttention.

    Returns:
        A MultiHeadAttention on the same device, in the same dtype and mode, with weights of its
        own. Outputs, weights and gradients are equal. Where num_kv_heads < num_heads, the rows
        of each key and value head are repeated for every head that shared them: outputs and
        weights stay equal, and the gradient of shared rows is the sum over their copies.

    >>> fused = FusedMultiHeadAttention(6, 4, context_length=3, dropout=0.0, num_heads=2)
    >>> torch.equal(split_to_fused(fused_to_split(fused)).W_qkv.weight, fused.W_qkv.weight)
    True

    Source: Vaswani et al. 2017, section 3.2.2; Ainslie et al. 2023 for shared heads.
    """
    _require_ours(fused, FusedMultiHeadAttention)
    _require_projections(fused, "W_qkv")
    if fused.rotary_base is not None:
        raise ValueError(
            f"rotary_base={fused.rotary_base} has no place in MultiHeadAttention, which rotates no "
            "queries and keys"
        )

    def unpacked(old: State) -> State:
        new = {name: old[name] for name in old if name.startswith("out_proj")}
        for name in old.keys() - new.keys():
            parts = torch.split(old[name], list(fused.widths))
            for W, rows in zip(PROJECTIONS, parts, strict=True):
                heads = rows.view(1, -1, fused.head_dim, *rows.shape[1:])
                new[name.replace("W_qkv", W)] = repeat_heads(heads, fused.num_heads).flatten(0, 2)
        return new

    return with_weights(MultiHeadAttention, fused, _state(fused, unpacked))


def with_weights(
    cls: type[Module], like: CausalModule, state: Mapping[str, Tensor], **changes: int
) -> Module:
    """Make a module of the sizes of another that holds these tensors themselves.

    Args:
        cls: a class that takes the arguments of MultiHeadAttention.
        like: the module whose sizes, dropout and mode are kept.
        state: all weights of the new one, by name. An nn.Parameter keeps its requires_grad.
        changes: the sizes that are not kept.

    Returns:
        The module, on the device and in the dtype of its weights.

    >>> old = MultiHeadAttention(6, 4, context_length=3, dropout=0.0, num_heads=2).eval()
    >>> new = with_weights(MultiHeadAttention, old, old.state_dict(), context_length=9)
    >>> new.context_length, new.training, torch.equal(new.W_key.weight, old.W_key.weight)
    (9, False, True)
    """
    sizes = {name: getattr(like, name) for name in ("d_in", "d_out", "context_length", "num_heads")}
    dropout = next(part.p for part in like.modules() if isinstance(part, nn.Dropout))
    qkv_bias = any(name.endswith("bias") and "W_" in name for name in state)
    with torch.device("meta"):  # no weights are drawn that would be replaced at once
        module = cls(**{**sizes, "dropout": dropout, "qkv_bias": qkv_bias, **changes})
    return _loaded(module, state, like.training)


def _loaded(module: Module, state: Mapping[str, Tensor], training: bool) -> Module:
    """Let a module hold these tensors themselves."""
    frozen = [
        name
        for name, entry in state.items()
        if isinstance(entry, nn.Parameter) and not entry.requires_grad
    ]
    module.load_state_dict(state, assign=True)
    for name in frozen:
        module.get_parameter(name).requires_grad_(False)
    return module.train(training)


def _state(
    module: nn.Module, rearranged: Callable[[State], State], made: Iterable[str] = ()
) -> State:
    """Return copies of a module's weights, rearranged; what was frozen stays so.

    Whether each entry of a new weight was trained is found by rearranging that alike. Weights in
    `made` come from no old one, and can be trained.
    """
    old = dict(module.named_parameters())
    trained = rearranged({name: torch.full(w.shape, w.requires_grad) for name, w in old.items()})
    state: State = {}
    for name, entry in rearranged({name: w.detach() for name, w in old.items()}).items():
        flags = trained[name]
        if name not in made and flags.any() != flags.all():
            raise ValueError(
                f"{name} would hold rows that are frozen and rows that are trained, but it has one "
                "requires_grad for all; set that of the weights to convert alike"
            )
        state[name] = nn.Parameter(entry.clone(), requires_grad=name in made or bool(flags.any()))
    return state


def _packed(old: State, prefix: str) -> State:
    """Put the rows of W_query, W_key and W_value below one another, out_proj beside them."""
    new = {name: entry for name, entry in old.items() if name.startswith("out_proj")}
    kinds = [name.removeprefix("W_query.") for name in old if name.startswith("W_query.")]
    return new | {
        f"{prefix}{kind}": torch.cat([old[f"{W}.{kind}"] for W in PROJECTIONS]) for kind in kinds
    }


def _require_ours(module: nn.Module, cls: type[nn.Module], name: str = "the module") -> None:
    """Raise unless a module is of this class and computes as the class does."""
    if not isinstance(module, cls):
        raise TypeError(f"{name} must be a {cls.__name__}, not a {type(module).__name__}")
    if getattr(module.forward, "__func__", None) is not cls.forward:
        raise TypeError(
            f"{name}, a {type(module).__name__}, has a forward of its own, which would be lost; "
            f"copy its weights by load_state_dict if it computes what {cls.__name__} does"
        )


def _require_projections(module: nn.Module, *names: str) -> None:
    """Raise unless these are plain, all with a bias or none, and out_proj, if any, with one."""
    require_plain(module, *names)
    _require_one("bias", {name: module.get_submodule(name).bias is not None for name in names})
    if hasattr(module, "out_proj"):
        require_plain(module, "out_proj")
        if module.get_submodule("out_proj").bias is None:
            raise ValueError("out_proj has no bias, but the new one must; give it one of zeros")


def _require_one(kind: str, found: Mapping[str, object]) -> None:
    """Raise unless all parts of a module have the same of a kind, named by part."""
    (first, value), *others = found.items()
    for name, other in others:
        if other != value:
            raise ValueError(
                f"{name} has {kind}={other} and {first} has {kind}={value}, but the new module has "
                "one for all"
            )
