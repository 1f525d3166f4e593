"""A Llama around our attention: what stands between the class and a model that speaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.convert import PROJECTIONS
from attnlib.fused import FusedMultiHeadAttention, KeyValueCache
from attnlib.rotary import rotary_angles, rotate_pairs


class Head(NamedTuple):
    """A head of a layer, both counted from 0.

    >>> str(Head(23, 4))
    'L23H4'
    """

    layer: int
    head: int

    def __str__(self) -> str:
        return f"L{self.layer}H{self.head}"


@dataclass(frozen=True)
class LlamaSize:
    """How large a Llama is, and the three numbers of its arithmetic.

    Args:
        num_layers: how many blocks.
        num_heads: of queries, in each block; it divides width.
        num_kv_heads: of keys and values; it divides num_heads.
        width: of a token's vector.
        hidden: width of the small network in each block.
        vocabulary: how many different tokens there are.
        context_length: the most tokens that it reads.
        rotary_base: base of the angles by which queries and keys are turned.
        epsilon: added under the root of each norm.
        is_tied: whether the embedding is also the matrix of the logits.
    """

    num_layers: int
    num_heads: int
    num_kv_heads: int
    width: int
    hidden: int
    vocabulary: int
    context_length: int
    rotary_base: float = 10000.0
    epsilon: float = 1e-5
    is_tied: bool = True

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.width // self.num_heads

    @property
    def heads(self) -> tuple[Head, ...]:
        """All heads, layer by layer."""
        return tuple(
            Head(layer, head) for layer in range(self.num_layers) for head in range(self.num_heads)
        )


class Block(nn.Module):
    """One layer: attention, then a small network for each token, each added to x.

    Equation:
        a = x + attention(norm_1(x))
        block(x) = a + narrow(silu(gate) * up),  [gate | up] = widen(norm_2(a))

    Source: Touvron et al. 2023, section 2.2; Shazeer 2020 (SwiGLU); Zhang and Sennrich 2019
    (RMSNorm).
    """

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.norm_1 = nn.RMSNorm(size.width, eps=size.epsilon)
        self.attention: nn.Module = new_attention(size)
        self.norm_2 = nn.RMSNorm(size.width, eps=size.epsilon)
        self.widen = nn.Linear(size.width, 2 * size.hidden, bias=False)
        self.narrow = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        return self.after_attention(x, self.attention(self.norm_1(x), **options))

    def after_attention(self, x: Tensor, written: Tensor) -> Tensor:
        """Add what attention wrote, then what the small network makes of it."""
        x = x + written  # (b, num_tokens, width)
        gate, up = self.widen(self.norm_2(x)).chunk(2, dim=-1)  # (b, num_tokens, hidden)
        return x + cast(Tensor, self.narrow(F.silu(gate) * up))


class Llama(nn.Module):
    """Turn token ids into logits, as a Llama does.

    Args:
        size: how large it is.

    Returns:
        forward(token_ids) takes int64, (b, num_tokens), and returns the residual stream after the
        last block, (b, num_tokens, width); logits(x) makes of it the logits of the next token,
        (b, num_tokens, vocabulary). With caches, one for each block, token_ids are the tokens that
        follow those in the caches.

    >>> size = LlamaSize(2, 4, 2, width=8, hidden=5, vocabulary=11, context_length=7)
    >>> model = Llama(size)
    >>> model.logits(model(torch.tensor([[3, 1, 4]]))).shape
    torch.Size([1, 3, 11])

    Source: Touvron et al. 2023, section 2.2; the shared keys and values are those of Ainslie et
    al. 2023.
    """

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.size = size
        numbers = torch.empty(size.vocabulary, size.width)  # not drawn: on meta that takes seconds
        self.token_embedding = nn.Embedding(size.vocabulary, size.width, _weight=numbers)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.num_layers))
        self.final_norm = nn.RMSNorm(size.width, eps=size.epsilon)
        if not size.is_tied:
            self.read_out = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, token_ids: Tensor, caches: Sequence[KeyValueCache] = ()) -> Tensor:
        x: Tensor = self.token_embedding(token_ids)  # (b, num_tokens, width)
        options: list[dict[str, Any]] = [{"cache": cache} for cache in caches]
        options = options or [{} for _ in self.blocks]
        first = cast(Block, self.blocks[0]).attention
        if isinstance(first, FusedMultiHeadAttention):
            angles = first.angles(x, **options[0])  # the same for all layers
            options = [{**own, "angles": angles} for own in options]
        for block, own in zip(self.blocks, options, strict=True):
            x = block(x, **own)  # (b, num_tokens, width)
        return x

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits of the next token, (..., vocabulary), of the last block's output."""
        return F.linear(self.final_norm(x), self.unembedding)

    @property
    def unembedding(self) -> Tensor:
        """The matrix that makes logits of a vector, (vocabulary, width)."""
        return (self.token_embedding if self.size.is_tied else self.read_out).weight

    def new_caches(self, max_tokens: int) -> list[Any]:
        """Return an empty cache for each block; none where its attention has no new_cache."""
        attentions = [cast(Block, block).attention for block in self.blocks]
        if not all(hasattr(attention, "new_cache") for attention in attentions):
            return []
        return [cast(Any, attention).new_cache(1, max_tokens) for attention in attentions]


def new_attention(size: LlamaSize) -> FusedMultiHeadAttention:
    """Return our class as a Llama of this size needs it."""
    return FusedMultiHeadAttention(
        size.width,
        size.width,
        size.context_length,
        0.0,
        size.num_heads,
        num_kv_heads=size.num_kv_heads,
        out_bias=False,
        rotary_base=size.rotary_base,
        rotary_layout="pairs",
    )


def shapes(size: LlamaSize) -> dict[str, tuple[int, ...]]:
    """Return the names of a model's weights, with their shapes."""
    with torch.device("meta"):
        return {name: tuple(entry.shape) for name, entry in Llama(size).state_dict().items()}


def load_llama(size: LlamaSize, state: dict[str, Tensor]) -> Llama:
    """Return a Llama with these weights, not copied, in eval and without gradients."""
    with torch.device("meta"):
        model = Llama(size)
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)


def with_blocks(llama: Llama, attentions: Sequence[nn.Module]) -> Llama:
    """Return a Llama with other attention modules; everything else it shares with the first."""
    with torch.device("meta"):
        other = Llama(llama.size)
    for name, part in llama.named_children():
        if name != "blocks":
            setattr(other, name, part)
    for block, own, attention in zip(llama.blocks, other.blocks, attentions, strict=True):
        for name, part in block.named_children():
            setattr(own, name, attention if name == "attention" else part)
    return other.eval()


def attention_weights(attention: nn.Module, size: LlamaSize) -> dict[str, Tensor]:
    """Return the four matrices of an attention, each (out, in), as views."""
    if hasattr(attention, "W_qkv"):
        rows = _matrix(attention, "W_qkv")
        first, second = size.width, size.width + size.num_kv_heads * size.head_dim
        parts = [rows[:first], rows[first:second], rows[second:]]
    else:
        parts = [_matrix(attention, name) for name in PROJECTIONS]
    return {
        **dict(zip(PROJECTIONS, parts, strict=True)),
        "out_proj": _matrix(attention, "out_proj"),
    }


def by_head(x: Tensor, head_dim: int) -> Tensor:
    """Cut the last dimension into heads, (..., num_heads, head_dim)."""
    return x.view(*x.shape[:-1], -1, head_dim)


def _matrix(attention: nn.Module, name: str) -> Tensor:
    return cast(Tensor, attention.get_submodule(name).weight)


def turned(x: Tensor, size: LlamaSize) -> Tensor:
    """Return queries or keys with their rotary positions, (b, num_heads, num_tokens, head_dim)."""
    positions = torch.arange(x.shape[2], device=x.device)
    return rotate_pairs(x, *rotary_angles(positions, size.head_dim, size.rotary_base))
