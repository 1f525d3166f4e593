"""Models that may look ahead, and what becomes of them where nothing lies ahead."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse.learning.model import AttentionModel
from attncourse.learning.tasks import Batch
from attnlib.convert import with_weights
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
        queries = split_heads(self.W_query(x), self.head_dim)
        keys = split_heads(self.W_key(x), self.head_dim)
        values = split_heads(self.W_value(x), self.head_dim)
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
        copied.layers[i] = with_weights(UnmaskedAttention, layer, layer.state_dict())
    return copied


@torch.no_grad()
def losses_when_cut(model: AttentionModel, batch: Batch) -> list[float]:
    """Return the mean loss of the next token where each text is cut after 1 token, after 2, ...

    So a model is asked when it writes: nothing lies ahead.

    >>> batch = Batch(torch.tensor([[2, 0, 1]]), torch.tensor([[[0], [1], [2]]]))
    >>> model = AttentionModel(vocabulary=3, context_length=5, width=4, num_heads=2)
    >>> len(losses_when_cut(model, batch))
    3
    """
    return [
        F.cross_entropy(model(batch.tokens[:, : i + 1])[:, -1, 0], batch.answers[:, i, 0]).item()
        for i in range(batch.tokens.shape[1])
    ]
