"""One class's weights in another class's places: the same function, written differently."""

from __future__ import annotations

from typing import cast

import torch

from attnlib.modules import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper


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
    first = cast(CausalAttention, stacked.heads[0])
    state = {
        name: torch.cat([head.state_dict()[name] for head in stacked.heads])
        for name in first.state_dict()
    }
    d_out = stacked.num_heads * stacked.d_out
    weight = first.W_query.weight
    state["out_proj.weight"] = torch.eye(d_out, dtype=weight.dtype, device=weight.device)
    state["out_proj.bias"] = torch.zeros(d_out, dtype=weight.dtype, device=weight.device)

    with torch.device("meta"):
        split = MultiHeadAttention(
            stacked.d_in,
            d_out,
            stacked.context_length,
            first.dropout.p,
            stacked.num_heads,
            qkv_bias=first.W_query.bias is not None,
        )
    split.load_state_dict(state, assign=True)
    return split.train(stacked.training)


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
    weight, bias = split.out_proj.weight, split.out_proj.bias
    identity = torch.eye(split.d_out, dtype=weight.dtype, device=weight.device)
    if not torch.equal(weight, identity) or bias.any():
        furthest = max((weight - identity).abs().max().item(), bias.abs().max().item())
        raise ValueError(
            "out_proj is not the identity with bias 0 (an entry is off by "
            f"{furthest:.3g}), and stacked heads have no output projection to hold it; "
            "apply split.out_proj to the stacked heads' result instead"
        )
    state = {
        f"heads.{h}.{name}": rows.clone()
        for name, entry in split.state_dict().items()
        if name.startswith(("W_query", "W_key", "W_value"))
        for h, rows in enumerate(entry.split(split.head_dim))
    }

    with torch.device("meta"):
        stacked = MultiHeadAttentionWrapper(
            split.d_in,
            split.head_dim,
            split.context_length,
            split.dropout.p,
            split.num_heads,
            qkv_bias=split.W_query.bias is not None,
        )
    stacked.load_state_dict(state, assign=True)
    return stacked.train(split.training)
