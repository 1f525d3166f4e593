"""Models without a causal mask, and their loss where no later token is there to see."""

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
    """MultiHeadAttention without its mask: every token also attends to the tokens after it."""

    def forward(  # type: ignore[override]  # it takes no mask at all
        self, x: Tensor, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return context_vec, (b, num_tokens, d_out), and on demand the attention weights."""
        queries = split_heads(self.W_query(x), self.head_dim)
        keys = split_heads(self.W_key(x), self.head_dim)
        values = split_heads(self.W_value(x), self.head_dim)
        context_vec, attn_weights = attention(queries, keys, values, None, self.dropout)
        context_vec = self.out_proj(merge_heads(context_vec))  # (b, num_tokens, d_out)
        return (context_vec, attn_weights) if return_weights else context_vec


def without_mask(model: AttentionModel) -> AttentionModel:
    """Return a copy of a model, with the same parameters, whose layers have no causal mask."""
    copied = copy.deepcopy(model)
    for i, layer in enumerate(copied.layers):
        assert isinstance(layer, MultiHeadAttention)
        copied.layers[i] = with_weights(UnmaskedAttention, layer, layer.state_dict())
    return copied


@torch.no_grad()
def losses_of_prefixes(model: AttentionModel, batch: Batch) -> list[float]:
    """Return the mean loss of the next token after 1 token, after 2, ..., nothing lying ahead.

    A model that generates text is in this situation at every step.
    """
    return [
        F.cross_entropy(model(batch.tokens[:, : i + 1])[:, -1, 0], batch.answers[:, i, 0]).item()
        for i in range(batch.tokens.shape[1])
    ]
