"""Multi-head causal attention, built to be read, checked and measured: torch is all it needs.

The names below load with the package and cost next to nothing over torch. `attncourse` beside it
is the course: it imports attnlib, never the other way round.
"""

from attnlib.cache import KeyValueCache
from attnlib.convert import (
    fused_to_gpt2,
    fused_to_llama,
    fused_to_split,
    gpt2_to_fused,
    llama_to_fused,
    split_to_fused,
    split_to_stacked,
    split_to_torch,
    stacked_to_split,
    torch_to_split,
)
from attnlib.functional import attention, causal_mask, merge_heads, split_heads
from attnlib.fused import FusedMultiHeadAttention
from attnlib.modules import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper

__all__ = [
    "CausalAttention",
    "FusedMultiHeadAttention",
    "KeyValueCache",
    "MultiHeadAttention",
    "MultiHeadAttentionWrapper",
    "attention",
    "causal_mask",
    "fused_to_gpt2",
    "fused_to_llama",
    "fused_to_split",
    "gpt2_to_fused",
    "llama_to_fused",
    "merge_heads",
    "split_heads",
    "split_to_fused",
    "split_to_stacked",
    "split_to_torch",
    "stacked_to_split",
    "torch_to_split",
]
