"""The smallest model around our attention: embeddings, attention layers, a read-out."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from attnlib.functional import merge_heads, split_heads
from attnlib.modules import MultiHeadAttention


class AttentionModel(nn.Module):
    """Name tokens by attention alone: no normalisation, and no layers between those of attention.

    Equation:
        x = token_embedding[tokens] + position_embedding[0, 1, 2, ...]
        x = x + attention(x), for each layer
        logits = x W_read_out^T + b_read_out

    Args:
        vocabulary: how many different tokens there are.
        context_length: the most tokens that forward accepts.
        width: of a token's vector, everywhere in the model.
        num_heads: of each layer; it divides width.
        num_layers: how many layers of attention.
        num_answers: how many tokens to predict at each position.

    Returns:
        forward(tokens) takes tokens, int64, (b, num_tokens), and returns logits,
        (b, num_tokens, num_answers, vocabulary). forward(tokens, return_weights=True) returns
        logits and attn_weights, (b, num_layers, num_heads, num_tokens, num_tokens).

    Raises:
        ValueError: there are more than context_length tokens.

    >>> model = AttentionModel(vocabulary=12, context_length=16, width=8, num_heads=2)
    >>> model(torch.zeros(5, 7, dtype=torch.int64)).shape
    torch.Size([5, 7, 1, 12])

    Source: Elhage et al. 2021, "Attention-Only Transformers"; their W_E and W_U are our
    token_embedding and read_out.
    """

    def __init__(
        self,
        vocabulary: int,
        context_length: int,
        width: int,
        num_heads: int,
        num_layers: int = 1,
        num_answers: int = 1,
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.num_answers = num_answers
        self.context_length = context_length
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(context_length, width)
        self.layers = nn.ModuleList(
            MultiHeadAttention(width, width, context_length, 0.0, num_heads)
            for _ in range(num_layers)
        )
        self.read_out = nn.Linear(width, num_answers * vocabulary)

    def forward(
        self, tokens: Tensor, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        b, num_tokens = tokens.shape
        if num_tokens > self.context_length:
            raise ValueError(f"{num_tokens} tokens, but context_length={self.context_length}")
        position = torch.arange(num_tokens, device=tokens.device)  # (num_tokens)
        x = self.token_embedding(tokens)  # (b, num_tokens, width)
        x = x + self.position_embedding(position)  # (b, num_tokens, width)

        weights = []
        for layer in self.layers:
            context_vec, attn_weights = layer(x, return_weights=True)
            x = x + context_vec  # (b, num_tokens, width)
            weights.append(attn_weights)

        logits: Tensor = self.read_out(x)  # (b, num_tokens, num_answers * vocabulary)
        logits = logits.view(b, num_tokens, self.num_answers, self.vocabulary)
        return (logits, torch.stack(weights, dim=1)) if return_weights else logits


def run_with_weights(model: AttentionModel, tokens: Tensor, attn_weights: Tensor) -> Tensor:
    """Run a model with given attention weights instead of its own.

    Args:
        model: its queries and keys are not used.
        tokens: int64, (b, num_tokens).
        attn_weights: (b or 1, num_layers, num_heads, num_tokens, num_tokens).

    Returns:
        logits, (b, num_tokens, num_answers, vocabulary).

    >>> model = AttentionModel(vocabulary=3, context_length=2, width=4, num_heads=2)
    >>> tokens = torch.tensor([[2, 0]])
    >>> logits, attn_weights = model(tokens, return_weights=True)
    >>> torch.allclose(run_with_weights(model, tokens, attn_weights), logits)
    True
    """
    x = model.token_embedding(tokens)  # (b, num_tokens, width)
    x = x + model.position_embedding.weight[: tokens.shape[1]]  # (b, num_tokens, width)
    for i, layer in enumerate(model.layers):
        assert isinstance(layer, MultiHeadAttention)
        values = split_heads(layer.W_value(x), layer.num_heads)
        context_vec = merge_heads(attn_weights[:, i] @ values)  # (b, num_tokens, width)
        x = x + layer.out_proj(context_vec)  # (b, num_tokens, width)
    logits: Tensor = model.read_out(x)  # (b, num_tokens, num_answers * vocabulary)
    return logits.view(*tokens.shape, model.num_answers, model.vocabulary)


def mute_head(model: AttentionModel, layer: int, head: int) -> AttentionModel:
    """Return a copy of a model in which one head adds nothing: its columns of out_proj are 0.

    The head still has its attention weights, but its output is not used.

    Args:
        model: it is not changed.
        layer: counted from 0.
        head: counted from 0.

    Raises:
        ValueError: there is no such layer or head.

    >>> model = AttentionModel(vocabulary=3, context_length=2, width=4, num_heads=2)
    >>> mute_head(model, layer=0, head=1).layers[0].out_proj.weight[:, 2:].count_nonzero().item()
    0

    Source: Michel et al. 2019, section 2.3, where a mask variable of a head is set to 0.
    """
    if not 0 <= layer < len(model.layers):
        raise ValueError(f"layer={layer}, but the model has layers 0 to {len(model.layers) - 1}")
    muted = copy.deepcopy(model)
    attention = muted.layers[layer]
    assert isinstance(attention, MultiHeadAttention)
    if not 0 <= head < attention.num_heads:
        raise ValueError(f"head={head}, but layer {layer} has heads 0 to {attention.num_heads - 1}")
    first = head * attention.head_dim
    with torch.no_grad():
        attention.out_proj.weight[:, first : first + attention.head_dim] = 0.0
    return muted
