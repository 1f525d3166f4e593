"""Let a GPT-2 write: token by token, each read once, with the keys and values of the past kept."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from attncourse.gpt2.model import GPT2, Block, require_token_ids
from attnlib.convert import split_to_fused


@torch.no_grad()
def write_on(model: GPT2, token_ids: Tensor, num_tokens: int, seed: int | None = None) -> Tensor:
    """Continue texts, one token at a time.

    Args:
        model: its attention must be causal.
        token_ids: the beginnings, int64, (b, num_beginning), at least one token each.
        num_tokens: how long the texts become; at most the model's context_length.
        seed: of the draws from what the model expects next. None: always the likeliest token.

    Returns:
        int64, (b, num_tokens): the beginnings and what the model wrote after them.

    Raises:
        TypeError: token_ids are not integers.
        ValueError: the beginnings are empty, or there are more tokens than the model takes.

    >>> from attncourse.gpt2.model import Gpt2Size
    >>> model = GPT2(Gpt2Size(2, 3, 6, vocabulary=5, context_length=4))
    >>> write_on(model, torch.tensor([[3, 1]]), num_tokens=4).shape
    torch.Size([1, 4])

    Source: Shazeer 2019, section 2.4.
    """
    require_token_ids(token_ids, model.size)
    if token_ids.shape[1] == 0:
        raise ValueError("token_ids are empty: give at least one token to go on from")
    length = model.size.context_length
    if num_tokens > length:
        raise ValueError(
            f"num_tokens={num_tokens}, more than context_length={length}: write a shorter text"
        )
    blocks = [cast(Block, block) for block in model.blocks]
    attentions = [split_to_fused(block.attention).eval() for block in blocks]
    caches = [attention.new_cache(len(token_ids), length) for attention in attentions]
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    text = new = token_ids
    while text.shape[1] < num_tokens:
        places = model.position_embedding.weight[caches[0].num_tokens : text.shape[1]]
        x = model.token_embedding(new) + places  # (b, num_new, width)
        for block, attention, cache in zip(blocks, attentions, caches, strict=True):
            x = x + attention(block.norm_1(x), cache=cache)  # (b, num_new, width)
            x = x + block.mlp(block.norm_2(x))  # (b, num_new, width)
        logits = model.final_norm(x[:, -1]) @ model.token_embedding.weight.T  # (b, vocabulary)
        if generator is None:
            new = logits.argmax(dim=-1, keepdim=True)  # (b, 1)
        else:
            new = torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)  # (b, 1)
        text = torch.cat((text, new), dim=1)
    return text
