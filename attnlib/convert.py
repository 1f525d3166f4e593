"""Copy weights between classes that compute the same function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from attnlib.fused import FusedMultiHeadAttention, repeat_heads
from attnlib.modules import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper
from attnlib.torch_compatible import MultiheadAttention
from attnlib.validate import require_plain, require_positive_int

PROJECTIONS = ("W_query", "W_key", "W_value")

Module = TypeVar("Module", bound=nn.Module)


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
    require_plain(
        stacked, *(f"heads.{h}.{W}" for h in range(stacked.num_heads) for W in PROJECTIONS)
    )
    first = cast(CausalAttention, stacked.heads[0])
    state = join_heads(stacked.state_dict())
    d_out = stacked.num_heads * stacked.d_out

    dropout, qkv_bias = first.dropout.p, first.W_query.bias is not None
    sizes = (stacked.d_in, d_out, stacked.context_length, dropout, stacked.num_heads, qkv_bias)
    return with_weights(MultiHeadAttention, sizes, state, stacked.training)


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
    require_plain(split, *PROJECTIONS, "out_proj")
    weight, bias = split.out_proj.weight, split.out_proj.bias
    identity = torch.eye(split.d_out, dtype=weight.dtype, device=weight.device)
    off = torch.cat([weight - identity, bias[None]]).abs()
    if off.any():  # NaN too
        raise ValueError(
            "out_proj is not the identity with bias 0 (an entry is off by "
            f"{off.max().item():.3g}), and stacked heads have no output projection to hold it; "
            "apply split.out_proj to the stacked heads' result instead"
        )
    state = {
        f"heads.{h}.{name}": rows.clone()
        for name, entry in split.state_dict().items()
        if name.startswith(PROJECTIONS)
        for h, rows in enumerate(entry.split(split.head_dim))
    }

    dropout, qkv_bias = split.dropout.p, split.W_query.bias is not None
    sizes = (split.d_in, split.head_dim, split.context_length, dropout, split.num_heads, qkv_bias)
    return with_weights(MultiHeadAttentionWrapper, sizes, state, split.training)


def split_to_torch(split: MultiHeadAttention) -> nn.MultiheadAttention:
    """Copy the weights of a weight-split module into PyTorch's own module.

    Equation:
        in_proj_weight = rows of W_query, then of W_key, then of W_value (in_proj_bias likewise)

    Args:
        split: a MultiHeadAttention with d_in = d_out.

    Returns:
        An nn.MultiheadAttention with embed_dim = d_out and batch_first=True, on the same device,
        in the same dtype and mode, with weights of its own. It hides nothing by itself: called
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
    require_plain(split, *PROJECTIONS, "out_proj")
    if split.d_in != split.d_out:
        raise ValueError(
            f"d_in={split.d_in} is not d_out={split.d_out}, but nn.MultiheadAttention has one "
            "width, embed_dim, for its query and its result"
        )
    old = split.state_dict()
    qkv_bias = split.W_query.bias is not None
    state = {
        f"in_proj_{kind}": torch.cat([old[f"{W}.{kind}"] for W in PROJECTIONS])
        for kind in (("weight", "bias") if qkv_bias else ("weight",))
    }
    state |= {name: old[name].clone() for name in ("out_proj.weight", "out_proj.bias")}

    with torch.device("meta"):
        module = nn.MultiheadAttention(
            split.d_out, split.num_heads, split.dropout.p, batch_first=True
        )
    if not qkv_bias:
        module.register_parameter("in_proj_bias", None)
    module.load_state_dict(state, assign=True)
    return module.train(split.training)


def torch_to_split(
    module: nn.MultiheadAttention | MultiheadAttention, context_length: int
) -> MultiHeadAttention:
    """Copy the weights of PyTorch's module, or of our own MultiheadAttention, into a split one.

    Equation:
        W_query, W_key, W_value = the three thirds of in_proj_weight (in_proj_bias likewise)

    Args:
        module: attention over one width: kdim = vdim = embed_dim, without add_bias_kv and
            add_zero_attn. Its batch_first does not matter, the result is always batch first.
        context_length: the most tokens that the result accepts; PyTorch's module has no limit.

    Returns:
        A MultiHeadAttention with d_in = d_out = embed_dim, on the same device, in the same dtype
        and mode, with weights of its own. It is causal: its outputs, weights and gradients are
        those of module(x, x, x, attn_mask=causal_mask(num_tokens)). Where module has no bias,
        qkv_bias is False and out_proj.bias, which always exists here, is 0.

    Raises:
        TypeError: module is neither of the two, or context_length is not an int.
        ValueError: module has a part for which there is no place, or context_length < 1.

    >>> split = MultiHeadAttention(6, 6, context_length=3, dropout=0.0, num_heads=2)
    >>> again = torch_to_split(split_to_torch(split), context_length=3)
    >>> torch.equal(again.W_key.weight, split.W_key.weight)
    True

    Source: the parameters of torch.nn.MultiheadAttention.
    """
    if not isinstance(module, (nn.MultiheadAttention, MultiheadAttention)):
        raise TypeError(
            "module must be torch.nn.MultiheadAttention or "
            f"attnlib.torch_compatible.MultiheadAttention, not {type(module).__name__}"
        )
    require_positive_int("context_length", context_length)
    parts = {
        f"kdim={module.kdim}": module.kdim != module.embed_dim,
        f"vdim={module.vdim}": module.vdim != module.embed_dim,
        "add_bias_kv=True": module.bias_k is not None,
        "add_zero_attn=True": module.add_zero_attn,
    }
    homeless = [part for part, is_there in parts.items() if is_there]
    if homeless:
        raise ValueError(
            f"MultiHeadAttention has no place for {', '.join(homeless)}: its queries, keys and "
            f"values all come from the same x, here of width embed_dim={module.embed_dim}, and "
            "from nothing else"
        )
    require_plain(module, "out_proj")
    old = module.state_dict()
    qkv_bias = module.in_proj_bias is not None
    state = {
        f"{W}.{kind}": rows.clone()
        for kind in (("weight", "bias") if qkv_bias else ("weight",))
        for W, rows in zip(PROJECTIONS, old[f"in_proj_{kind}"].chunk(3), strict=True)
    }
    weight = old["out_proj.weight"]
    state["out_proj.weight"] = weight.clone()
    state["out_proj.bias"] = old.get("out_proj.bias", torch.zeros_like(weight[0])).clone()

    width = module.embed_dim
    sizes = (width, width, context_length, module.dropout, module.num_heads, qkv_bias)
    return with_weights(MultiHeadAttention, sizes, state, module.training)


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
    require_plain(split, *PROJECTIONS, "out_proj")
    old = split.state_dict()
    qkv_bias = split.W_query.bias is not None
    state = {
        f"W_qkv.{kind}": torch.cat([old[f"{W}.{kind}"] for W in PROJECTIONS])
        for kind in (("weight", "bias") if qkv_bias else ("weight",))
    }
    state |= {name: old[name].clone() for name in ("out_proj.weight", "out_proj.bias")}

    dropout = split.dropout.p
    sizes = (split.d_in, split.d_out, split.context_length, dropout, split.num_heads, qkv_bias)
    return with_weights(FusedMultiHeadAttention, sizes, state, split.training)


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
    require_plain(fused, "W_qkv", "out_proj")
    old = fused.state_dict()
    qkv_bias = fused.W_qkv.bias is not None
    state = {name: old[name].clone() for name in ("out_proj.weight", "out_proj.bias")}
    for kind in ("weight", "bias") if qkv_bias else ("weight",):
        parts = old[f"W_qkv.{kind}"].split(fused.widths)
        for W, rows in zip(PROJECTIONS, parts, strict=True):
            by_head = rows.unflatten(0, (-1, fused.head_dim))[None]
            state[f"{W}.{kind}"] = repeat_heads(by_head, fused.num_heads).flatten(0, 2)

    dropout = fused.dropout.p
    sizes = (fused.d_in, fused.d_out, fused.context_length, dropout, fused.num_heads, qkv_bias)
    return with_weights(MultiHeadAttention, sizes, state, fused.training)


def with_weights(
    cls: type[Module], sizes: tuple[object, ...], state: dict[str, Tensor], training: bool
) -> Module:
    """Make a module of these sizes that holds these tensors themselves.

    Args:
        cls: a class of the course.
        sizes: what it is made with, in the order of its parameters.
        state: all its weights, by name.
        training: whether it is in training or in eval.

    Returns:
        The module, on the device and in the dtype of its weights.

    >>> old = MultiHeadAttention(6, 4, context_length=3, dropout=0.0, num_heads=2)
    >>> new = with_weights(MultiHeadAttention, (6, 4, 3, 0.0, 2), old.state_dict(), training=False)
    >>> torch.equal(new.W_key.weight, old.W_key.weight)
    True
    """
    with torch.device("meta"):  # no weights are drawn that would be replaced at once
        module = cls(*sizes)
    module.load_state_dict(state, assign=True)
    return module.train(training)
