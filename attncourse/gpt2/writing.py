"""Let a GPT-2 write: token by token, each read once, with the keys and values of the past kept."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from attncourse.gpt2.model import GPT2, Block, require_token_ids
from attnlib.convert import split_to_fused


class CachedGpt2:
    """A GPT2 that reads every token once, and keeps its keys and values.

    Args:
        model: its attention must be causal. Its parameters are copied; it is not changed.
        batch_size: how many texts are read side by side.

    next_logits(token_ids) takes the tokens that follow those it has read, (b, num_new), and returns
    the scores of the token after them, (b, vocabulary): those of the last place of model.logits.

    >>> from attncourse.gpt2.model import tiny_gpt2
    >>> model, text = tiny_gpt2(), torch.tensor([[3, 1, 4]])
    >>> reader = CachedGpt2(model)
    >>> one_by_one = [reader.next_logits(token) for token in text.split(1, dim=1)]
    >>> torch.allclose(one_by_one[2], model.logits(text)[:, 2], atol=1e-4)
    True

    Source: Shazeer 2019, section 2.4.
    """

    def __init__(self, model: GPT2, batch_size: int = 1) -> None:
        self.model = model
        self.blocks = [cast(Block, block) for block in model.blocks]
        self.attentions = [split_to_fused(block.attention).eval() for block in self.blocks]
        length = model.size.context_length
        self.caches = [each.new_cache(batch_size, length) for each in self.attentions]

    @torch.no_grad()
    def next_logits(self, token_ids: Tensor) -> Tensor:
        """Read new tokens, and return the scores of the token after them."""
        require_token_ids(token_ids, self.model.size)
        start = self.caches[0].num_tokens
        places = self.model.position_embedding.weight[start : start + token_ids.shape[1]]
        x = self.model.token_embedding(token_ids) + places  # (b, num_new, width)
        for block, attention, cache in zip(self.blocks, self.attentions, self.caches, strict=True):
            x = x + attention(block.norm_1(x), cache=cache)  # (b, num_new, width)
            x = x + block.mlp(block.norm_2(x))  # (b, num_new, width)
        last: Tensor = self.model.final_norm(x[:, -1])  # (b, width)
        return last @ self.model.token_embedding.weight.T


@torch.no_grad()
def write_on(
    model: GPT2, token_ids: Tensor, num_tokens: int, seed: int | None = None, cached: bool = True
) -> Tensor:
    """Continue texts, one token at a time.

    Args:
        model: with cached, its attention must be causal.
        token_ids: the beginnings, int64, (b, num_beginning), at least one token each.
        num_tokens: how long the texts become; at most the model's context_length.
        seed: of the draws from what the model expects next. None: always the likeliest token.
        cached: whether each token is read once, or the whole text for every new token.

    Returns:
        int64, (b, num_tokens): the beginnings and what the model wrote after them.

    Raises:
        TypeError: token_ids are not integers.
        ValueError: the beginnings are empty, or there are more tokens than the model takes.

    >>> from attncourse.gpt2.model import tiny_gpt2
    >>> write_on(tiny_gpt2(), torch.tensor([[3, 1]]), num_tokens=2).tolist()
    [[3, 1]]
    """
    require_token_ids(token_ids, model.size)
    if token_ids.shape[1] == 0:
        raise ValueError("token_ids are empty: give at least one token to go on from")
    if num_tokens > model.size.context_length:
        raise ValueError(
            f"num_tokens={num_tokens}, more than context_length={model.size.context_length}: "
            "write a shorter text"
        )
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    reader = CachedGpt2(model, len(token_ids)) if cached else None
    text = new = token_ids
    while text.shape[1] < num_tokens:
        logits = model.logits(text)[:, -1] if reader is None else reader.next_logits(new)
        if generator is None:
            new = logits.argmax(dim=-1, keepdim=True)  # (b, 1)
        else:
            new = torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)  # (b, 1)
        text = torch.cat((text, new), dim=1)
    return text
