"""Is a file the released model? Its heads are compared with what the released model's looked at."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attncourse.gpt2.model import GPT2, SIZES, Gpt2Size
from attncourse.gpt2.recorded import TEXTS, RecordedText, recorded

SAME, NEAR = 1e-4, 0.05  # the largest difference of an attention weight


@torch.no_grad()
def check_gpt2(model: GPT2, texts: Sequence[RecordedText] | None = None) -> str:
    """Say in a sentence whether a model is the released GPT-2, the smallest.

    It reads the five recorded texts, and compares the attention weights of all heads with those
    that were recorded, and its first next token with theirs.

    Args:
        model: what load_gpt2 returns, or the model of own_gpt2.
        texts: other recordings to compare with. None: the five of the package.

    Returns:
        A sentence. Weights within 1e-4 are the same, within 0.05 nearly so.

    >>> check_gpt2(GPT2(Gpt2Size(2, 3, 6, vocabulary=5, context_length=4)))
    'This is not the released model: it has 2 layers of 3 heads, that has 12 layers of 12 heads.'
    """
    texts = [recorded(name) for name in TEXTS] if texts is None else texts
    num_layers, num_heads = texts[0].weights.shape[:2]
    size = model.size
    if (size.num_layers, size.num_heads) != (num_layers, num_heads):
        return (
            f"This is not the released model: it has {_heads(size.num_layers, size.num_heads)}"
            f"{_published(size)}, that has {_heads(num_layers, num_heads)}."
        )
    longest = max(len(text.tokens) for text in texts)
    most = max(int(text.token_ids.max()) for text in texts)
    if size.vocabulary <= most or size.context_length < longest:
        return (
            f"This is not the released model: it knows {size.vocabulary:,} tokens and reads "
            f"{size.context_length:,} at a time; the texts need token {most:,}, and {longest} "
            "at a time."
        )
    worst, where, firsts = 0.0, (0, 0), 0
    for text in texts:
        hidden, maps = model(text.token_ids[None], return_weights=True)
        off = (maps[0] - text.weights).abs().flatten(start_dim=2).amax(dim=-1)
        off = off.nan_to_num(torch.inf)
        logits = hidden[0, -1] @ model.token_embedding.weight.T
        (_, first), (_, second), *_ = text.next_tokens
        firsts += bool(abs(logits.max() - first) < first - second)
        if not worst >= off.max():
            worst = float(off.max())
            where = divmod(int(off.argmax()), num_heads)
    agree = f"its best next token has the recorded score in {firsts} of {len(texts)} texts"
    every = f"all {num_layers * num_heads} heads on {len(texts)} texts"
    if worst <= SAME:
        return f"The released model: {every} look where it looked, within {SAME:g}; {agree}."
    at = f"head {where[0]}.{where[1]}"
    if worst <= NEAR:
        return (
            f"Nearly the released model: {every} look where it looked, but for {worst:.1e} at "
            f"{at}. A copy in half precision? Then {agree}."
        )
    return (
        "Not the released model, though it has its size: an attention weight of "
        f"{at} is off by {worst:.2g}. Was it trained further, or is a file mixed up?"
    )


def _heads(num_layers: int, num_heads: int) -> str:
    return f"{num_layers} layers of {num_heads} heads"


def _published(size: Gpt2Size) -> str:
    """Return the name of a published size, in brackets, or nothing."""
    shape = (size.num_layers, size.num_heads)
    names = [name for name, one in SIZES.items() if (one.num_layers, one.num_heads) == shape]
    return f" (GPT-2 {names[0]})" if names else ""
