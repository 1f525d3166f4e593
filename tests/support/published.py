"""The three classes as lessons publish them: a stored float mask, no checks of what comes in.

They compute the same as attnlib's where all goes well: tests/attnlib/test_published.py shows where
they do not.
"""

import torch
from torch import Tensor, nn


def attend(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, dropout: nn.Dropout
) -> Tensor:
    """Mask the scores where the float mask is 1, and scale them after the product."""
    num_tokens = queries.shape[-2]
    attn_scores = queries @ keys.transpose(-2, -1)
    attn_scores.masked_fill_(mask.bool()[:num_tokens, :num_tokens], -torch.inf)
    attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
    return dropout(attn_weights) @ values


class PublishedHead(nn.Module):
    """One head; the mask is a float buffer."""

    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        for which in ("W_query", "W_key", "W_value"):
            setattr(self, which, nn.Linear(d_in, d_out, bias=qkv_bias))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.ones(context_length, context_length).triu(1))

    def forward(self, x):
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        return attend(queries, keys, values, self.mask, self.dropout)


class PublishedHeads(nn.Module):
    """Stacked heads: each has a mask of its own."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        sizes = (d_in, d_out, context_length, dropout, qkv_bias)
        self.heads = nn.ModuleList(PublishedHead(*sizes) for _ in range(num_heads))

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)


class PublishedSplit(PublishedHead):
    """The weight split: one mask, an output projection, and an assert for the head count."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
        assert d_out % num_heads == 0, "d_out must be divisible by num_heads"
        self.num_heads = num_heads
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries, keys, values = (
            project(x).view(b, num_tokens, self.num_heads, -1).transpose(1, 2)
            for project in (self.W_query, self.W_key, self.W_value)
        )
        context_vec = attend(queries, keys, values, self.mask, self.dropout)
        return self.out_proj(context_vec.transpose(1, 2).contiguous().view(b, num_tokens, -1))


CLASSES = (PublishedHead, PublishedHeads, PublishedSplit)
