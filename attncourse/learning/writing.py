"""Let a model write, and let a model be trained that may look ahead."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from attncourse.learning.model import AttentionModel
from attnlib.functional import attention, merge_heads, split_heads
from attnlib.modules import MultiHeadAttention


class UnmaskedAttention(MultiHeadAttention):
    """MultiHeadAttention without its mask: every token also sees the tokens after it.

    Args, Returns and Raises are those of MultiHeadAttention.

    >>> UnmaskedAttention(4, 4, context_length=3, dropout=0.0, num_heads=2)(
    ...     torch.ones(1, 3, 4)
    ... ).shape
    torch.Size([1, 3, 4])
    """

    def forward(self, x: Tensor, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        """Return context_vec, (b, num_tokens, d_out), and on demand the attention weights."""
        queries = split_heads(self.W_query(x), self.num_heads)
        keys = split_heads(self.W_key(x), self.num_heads)
        values = split_heads(self.W_value(x), self.num_heads)
        context_vec, attn_weights = attention(queries, keys, values, None, self.dropout)
        context_vec = self.out_proj(merge_heads(context_vec))  # (b, num_tokens, d_out)
        return (context_vec, attn_weights) if return_weights else context_vec


def without_mask(model: AttentionModel) -> AttentionModel:
    """Return a copy of a model, with the same parameters, in which every token sees all others.

    >>> model = AttentionModel(vocabulary=3, context_length=5, width=4, num_heads=2)
    >>> tokens = torch.tensor([[2, 0, 1]])
    >>> _, attn_weights = without_mask(model)(tokens, return_weights=True)
    >>> attn_weights[..., 0, 2].gt(0).all().item()  # the first token looks at the last
    True
    """
    copied = copy.deepcopy(model)
    for i, layer in enumerate(copied.layers):
        assert isinstance(layer, MultiHeadAttention)
        unmasked = UnmaskedAttention(
            layer.d_in,
            layer.d_out,
            layer.context_length,
            layer.dropout.p,
            layer.num_heads,
            qkv_bias=layer.W_query.bias is not None,
        )
        unmasked.load_state_dict(layer.state_dict())
        copied.layers[i] = unmasked
    return copied


@torch.no_grad()
def write(model: AttentionModel, beginnings: Tensor, num_tokens: int, seed: int) -> Tensor:
    """Continue texts, one token at a time, each drawn from what the model expects next.

    Args:
        model: with one answer for each position.
        beginnings: int64, (b, num_beginning), at least one token each.
        num_tokens: how long the texts become; at most the model's context_length.
        seed: of the draws.

    Raises:
        ValueError: the beginnings are empty, or num_tokens is more than the model takes.

    >>> model = AttentionModel(vocabulary=3, context_length=5, width=4, num_heads=2)
    >>> write(model, torch.tensor([[2, 0]]), num_tokens=5, seed=1)[:, :2].tolist()
    [[2, 0]]
    """
    if beginnings.shape[1] == 0:
        raise ValueError("beginnings are empty: give at least one token to go on from")
    if num_tokens > model.context_length:
        raise ValueError(
            f"num_tokens={num_tokens}, more than context_length={model.context_length}: "
            "write a shorter text"
        )
    generator = torch.Generator().manual_seed(seed)
    tokens = beginnings
    while tokens.shape[1] < num_tokens:
        logits: Tensor = model(tokens)[:, -1, 0]  # (b, vocabulary)
        probabilities = torch.softmax(logits, dim=-1)  # (b, vocabulary)
        drawn = torch.multinomial(probabilities, 1, generator=generator)  # (b, 1)
        tokens = torch.cat((tokens, drawn), dim=1)
    return tokens
