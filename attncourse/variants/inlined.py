"""Attention whose forward has no helper functions, for lessons that show every line."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlib.functional import causal_mask
from attnlib.modules import MultiHeadAttention


class InlinedAttention(MultiHeadAttention):
    """MultiHeadAttention with one step on each line, those of its helper functions too."""

    def forward(self, x: Tensor, return_weights: bool = False) -> Any:
        split = (*x.shape[:2], self.num_heads, self.head_dim)
        queries = self.W_query(x).view(split).transpose(1, 2)
        keys = self.W_key(x).view(split).transpose(1, 2)

        values = self.W_value(x)  # (b, num_tokens, num_heads * head_dim)
        values = values.view(split)  # (b, num_tokens, num_heads, head_dim)
        values = values.transpose(1, 2)  # (b, num_heads, num_tokens, head_dim)

        attn_scores = queries @ keys.transpose(2, 3)
        attn_scores.masked_fill_(causal_mask(x.shape[1]), -torch.inf)
        scaled = attn_scores / self.head_dim**0.5
        attn_weights = torch.softmax(scaled, dim=-1)

        context_vec = attn_weights @ values  # (b, num_heads, num_tokens, head_dim)
        by_token = context_vec.transpose(1, 2)  # (b, num_tokens, num_heads, head_dim)
        merged = by_token.contiguous().view(*x.shape[:2], -1)
        output = self.out_proj(merged)
        return (output, attn_weights) if return_weights else output
