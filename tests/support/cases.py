"""The classes and panels under test, in sizes that cannot be mistaken for one another.

Every free dimension is another prime, so that a wrong axis cannot pass by coincidence.
"""

import atexit
import copy
import json
import os
import re
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from attncourse.panels.gallery import MISTAKE_GALLERY
from attncourse.panels.online_softmax import ONLINE_SOFTMAX
from attncourse.panels.stacked_heads import STACKED_HEADS
from attncourse.panels.weight_split import WEIGHT_SPLIT
from attncourse.variants.torch_multihead import MultiheadAttention
from attnlib import (
    CausalAttention,
    FusedMultiHeadAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    causal_mask,
    fused_to_split,
    split_heads,
)

B = 2
T = 7  # num_tokens
H = 3  # num_heads
HEAD_DIM = 5
D_IN = 11
CONTEXT_LENGTH = 13


class CausalMultiheadAttention(MultiheadAttention):
    """PyTorch's module rebuilt, with the arguments of our classes, on x alone and causal."""

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__(d_out, num_heads, dropout, batch_first=True)
        self.d_in, self.context_length = d_in, context_length
        self.widths = (d_out, d_out, d_out)  # of queries, keys and values
        nn.init.normal_(self.out_proj.bias)
        if qkv_bias:
            nn.init.normal_(self.in_proj_bias)
        else:
            self.in_proj_bias = None

    def forward(self, x: Tensor, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        mask = causal_mask(x.shape[1], device=x.device)
        shown = {"need_weights": return_weights, "average_attn_weights": False}
        context_vec, attn_weights = super().forward(x, x, x, attn_mask=mask, **shown)
        return (context_vec, attn_weights) if return_weights else context_vec


@dataclass(frozen=True)
class Case:
    """A class of the package, and what its d_out and num_heads mean."""

    cls: type[nn.Module]
    has_heads: bool = True  # takes num_heads
    d_out_is_total: bool = True  # else d_out is the width of one head
    in_kernel: bool = False  # attends in a fused kernel unless asked for the weights
    num_kv_heads: int | None = None  # fewer heads of keys and values than of queries
    one_width: bool = False  # d_in is d_out

    def arguments(self, num_heads: int = H, head_dim: int = HEAD_DIM, **changes: Any) -> dict:
        """Return the arguments that build this class at these sizes."""
        heads = {"num_heads": num_heads} if self.has_heads else {}
        d_out = num_heads * head_dim if self.d_out_is_total and self.has_heads else head_dim
        sizes = {"d_in": D_IN, "d_out": d_out, "context_length": CONTEXT_LENGTH, "dropout": 0.0}
        shared = {"num_kv_heads": self.num_kv_heads} if self.num_kv_heads else {}
        d_in = {"d_in": d_out} if self.one_width else {}
        return {**sizes, **heads, **shared, **changes, **d_in}

    def build(self, seed: int = 1, **changes: Any) -> nn.Module:
        """Return a module with random weights."""
        torch.manual_seed(seed)
        return self.cls(**self.arguments(**changes))

    def tokens(self, b: int = B, num_tokens: int = T, **how: Any) -> Tensor:
        """Return random token vectors that this class takes, (b, num_tokens, d_in)."""
        return tokens(b, num_tokens, self.arguments()["d_in"], **how)

    def width(self, num_heads: int = H, head_dim: int = HEAD_DIM) -> int:
        """Return how many columns forward returns."""
        return num_heads * head_dim if self.has_heads else head_dim


CASES = (
    Case(CausalAttention, has_heads=False),
    Case(MultiHeadAttentionWrapper, d_out_is_total=False),
    Case(MultiHeadAttention),
    Case(FusedMultiHeadAttention, in_kernel=True),
    Case(FusedMultiHeadAttention, in_kernel=True, num_kv_heads=1),
)
CONTRACT = (*CASES, Case(CausalMultiheadAttention, one_width=True))  # the latter by an adapter
LESSON = tuple(case for case in CASES if not case.in_kernel)  # W_query, W_key, W_value apart
SEVERAL_HEADS = tuple(case for case in CASES if case.has_heads)
ALL_PANELS = (STACKED_HEADS, WEIGHT_SPLIT, MISTAKE_GALLERY, ONLINE_SOFTMAX)


@cache
def sheet(name: str) -> dict[str, Any]:
    """Return what a page gets of a panel, drawn by one of the workers: let nobody change it."""
    (panel,) = (panel for panel in ALL_PANELS if panel.name == name)
    if (run := os.environ.get("PYTEST_XDIST_TESTRUNUID")) is None:
        return panel.to_json()
    kept = Path(tempfile.gettempdir(), f"attnlib-{run}-{name}.json".replace(" ", "-"))
    if not kept.exists():
        mine = kept.with_suffix(f".{os.getpid()}")
        mine.write_text(json.dumps(panel.to_json()), encoding="utf-8")
        mine.replace(kept)
        atexit.register(kept.unlink, missing_ok=True)
    return json.loads(kept.read_text(encoding="utf-8"))


def refused(error: type[Exception], words: str) -> pytest.RaisesExc:
    """Expect this error with exactly these words in its message."""
    return pytest.raises(error, match=re.escape(words))


def name(case: Case) -> str:
    """Return a case's name in pytest's output."""
    shared = f"(num_kv_heads={case.num_kv_heads})" if case.num_kv_heads else ""
    return case.cls.__name__ + shared


def spelled_out(module: nn.Module) -> nn.Module:
    """Return the same function with W_query, W_key and W_value apart."""
    if isinstance(module, FusedMultiHeadAttention):
        return fused_to_split(module)
    if isinstance(module, CausalMultiheadAttention):
        return from_torch(module, module.context_length)
    return module


def from_torch(module: nn.Module, context_length: int) -> MultiHeadAttention:
    """Return PyTorch's module, or ours, as the split class: it is causal there."""
    width, bias = module.embed_dim, module.in_proj_bias
    sizes = (width, width, context_length, module.dropout, module.num_heads)
    like = module.out_proj.weight
    split = MultiHeadAttention(*sizes, bias is not None, device=like.device, dtype=like.dtype)
    state = {f"out_proj.{name}": entry for name, entry in module.out_proj.state_dict().items()}
    kinds = {"weight": module.in_proj_weight} | ({} if bias is None else {"bias": bias})
    for kind, rows in kinds.items():
        parts = zip(("W_query", "W_key", "W_value"), rows.chunk(3), strict=True)
        state |= {f"{W}.{kind}": part for W, part in parts}
    split.load_state_dict(state, strict=True)
    return split.train(module.training)


def projected(module: nn.Module, which: str, x: Tensor) -> Tensor:
    """Return all heads' queries, keys or values, (b, num_heads, num_tokens, head_dim)."""
    module = spelled_out(module)
    if hasattr(module, "heads"):
        return torch.stack([getattr(head, which)(x) for head in module.heads], dim=1)
    made = getattr(module, which)(x)
    return split_heads(made, made.shape[-1] // getattr(module, "num_heads", 1))


def tokens(b: int = B, num_tokens: int = T, d_in: int = D_IN, seed: int = 2, **how: Any) -> Tensor:
    """Return random token vectors, (b, num_tokens, d_in)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(b, num_tokens, d_in, generator=generator, **how)


def nested(width: int) -> Tensor:
    """Return two texts in one nested tensor, at whose first PyTorch loads for seconds."""
    return torch.nested.nested_tensor([torch.ones(n, width) for n in (2, 3)], layout=torch.jagged)


def by_head(attn_weights: Tensor) -> Tensor:
    """Return weights as (b, num_heads, num_tokens, num_keys), of a single head too."""
    return attn_weights if attn_weights.ndim == 4 else attn_weights[:, None]


def both_ways(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the result where the weights are not asked for, and where they are."""
    return module(x), module(x, return_weights=True)[0]


def gradients(module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return what an uneven loss sends back to the weights and to the input."""
    module = copy.deepcopy(module)
    x = x.detach().clone().requires_grad_()
    sum(context_vec.square().sum() for context_vec in both_ways(module, x)).backward()
    return {"x": x.grad, **{key: weight.grad for key, weight in module.named_parameters()}}


class LargestTensor(TorchDispatchMode):
    """Remember the operations, and how many numbers their largest result has."""

    def __init__(self) -> None:
        super().__init__()
        self.operations, self.numbers = [], 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.operations.append(str(func))
        results = result if isinstance(result, (tuple, list)) else [result]
        sizes = [part.numel() for part in results if isinstance(part, Tensor)]
        self.numbers = max([self.numbers, *sizes])
        return result
