"""A Llama around our attention: what stands between the class and a model that speaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import getfullargspec
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlib.fused import FusedMultiHeadAttention
from attnlib.rotary import rotary_cos_sin, rotate_interleaved

Attend = Callable[[Tensor], Tensor]  # from what attention reads to what it writes


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
    """How large a Llama is, and the numbers of its arithmetic."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    width: int
    mlp_width: int  # of the MLP in each block
    vocabulary: int
    context_length: int
    rotary_base: float = 10000.0
    epsilon: float = 1e-5  # added under the root of each norm
    is_tied: bool = True  # whether the embedding also makes the logits

    @property
    def head_dim(self) -> int:
        """The width of one head."""
        return self.width // self.num_heads

    @property
    def widths(self) -> tuple[int, int, int]:
        """The widths of queries, keys and values, all heads together."""
        kv_width = self.num_kv_heads * self.head_dim
        return self.width, kv_width, kv_width

    @property
    def heads(self) -> tuple[Head, ...]:
        """All heads, layer by layer."""
        layers, heads = range(self.num_layers), range(self.num_heads)
        return tuple(Head(layer, head) for layer in layers for head in heads)


class Block(nn.Module):
    """One layer: attention, then a small network for each token, each added to x.

    Equation:
        a = x + attention(norm_1(x))
        block(x) = a + down_proj(silu(gate_proj(read)) * up_proj(read)),  read = norm_2(a)

    Source: Touvron et al. 2023, section 2.2.
    """

    def __init__(self, size: LlamaSize) -> None:
        super().__init__()
        self.norm_1 = nn.RMSNorm(size.width, eps=size.epsilon)
        self.attention: nn.Module = FusedMultiHeadAttention(
            *(size.width, size.width, size.context_length, 0.0, size.num_heads),
            num_kv_heads=size.num_kv_heads,
            out_bias=False,
            rotary_base=size.rotary_base,
            rotary_layout="interleaved",
        )
        self.norm_2 = nn.RMSNorm(size.width, eps=size.epsilon)
        self.gate_proj = nn.Linear(size.width, size.mlp_width, bias=False)
        self.up_proj = nn.Linear(size.width, size.mlp_width, bias=False)
        self.down_proj = nn.Linear(size.mlp_width, size.width, bias=False)

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        """Return x with what attention and the network add; options are for attention."""
        return self.around(partial(self.attention, **options), x)

    def around(self, attend: Attend, x: Tensor) -> Tensor:
        """Return x with what attend, in the place of attention, and the network add."""
        x = x + attend(self.norm_1(x))  # (b, num_tokens, width)
        read = self.norm_2(x)
        mixed = F.silu(self.gate_proj(read)).mul_(self.up_proj(read))  # (b, num_tokens, mlp_width)
        return x + cast(Tensor, self.down_proj(mixed))  # (b, num_tokens, width)


class OwnBlock(Block):
    """A block with the parts of another, whose whole arithmetic is a learner's function."""

    def __init__(self, like: Block, own: Callable[[Tensor, Any], Tensor]) -> None:
        nn.Module.__init__(self)
        for name, part in like.named_children():
            setattr(self, name, part)
        self.own = own

    def around(self, attend: Attend, x: Tensor) -> Tensor:
        """Let the function do it, with attend as its layer's attention."""
        return self.own(x, SimpleNamespace(**dict(self.named_children()) | {"attention": attend}))


class Llama(nn.Module):
    """The blocks of a Llama between its embedding and its logits.

    >>> size = LlamaSize(2, 4, 2, width=8, mlp_width=5, vocabulary=11, context_length=7)
    >>> model = Llama(size)
    >>> model.logits(model(model.token_embedding(torch.tensor([[3, 1, 4]])))).shape
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
            self.lm_head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, x: Tensor, caches: Sequence[Any] = (), first: int = 0) -> Tensor:
        """Run x, (b, num_tokens, width), through the blocks from the first on.

        With caches, one for each block, x are the tokens that follow those in the caches.
        """
        options: list[dict[str, Any]] = [{"cache": c} for c in caches] or [{}] * len(self.blocks)
        attentions = [cast(Any, block).attention for block in self.blocks]
        if all(type(attention) is FusedMultiHeadAttention for attention in attentions):
            cos_sin = attentions[0].cos_sin(x, caches[first] if caches else None)
            options = [{**own, "cos_sin": cos_sin} for own in options]  # all layers rotate alike
        for block, own in zip(self.blocks[first:], options[first:], strict=True):
            x = block(x, **own)  # (b, num_tokens, width)
        return x

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits of the next token, (..., vocabulary), of the last block's output."""
        return F.linear(self.final_norm(x), self.unembedding)

    @property
    def unembedding(self) -> Tensor:
        """The matrix that makes the logits, (vocabulary, width)."""
        return (self.token_embedding if self.size.is_tied else self.lm_head).weight

    def new_caches(self, max_tokens: int) -> list[Any]:
        """Return an empty cache for each block: of its attention's new_cache, or a dictionary.

        None where forward takes no cache.
        """
        attentions = [cast(Any, block).attention for block in self.blocks]
        if all(hasattr(attention, "new_cache") for attention in attentions):
            return [attention.new_cache(1, max_tokens) for attention in attentions]
        takes_one = all("cache" in getfullargspec(each.forward).args for each in attentions)
        return [{} for _ in attentions if takes_one]


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


def matrix_of(attention: nn.Module, name: str) -> Tensor:
    """Return the weight of one of an attention's projections, (out, in)."""
    return cast(Tensor, attention.get_submodule(name).weight)


def split_last(x: Tensor, head_dim: int) -> Tensor:
    """Split the last dimension into heads, (..., num_heads, head_dim)."""
    return x.view(*x.shape[:-1], -1, head_dim)


def apply_rotary(x: Tensor, size: LlamaSize) -> Tensor:
    """Return queries or keys with their rotary positions, (b, num_heads, num_tokens, head_dim)."""
    positions = torch.arange(x.shape[2])
    cos_sin = rotary_cos_sin(positions, size.head_dim, size.rotary_base, x.dtype)
    return rotate_interleaved(x, *cos_sin)
