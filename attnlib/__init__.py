"""Multi-head causal attention, built to be read, checked and measured.

The names below load with the package. Everything else loads when first imported, so that
`import attnlib` costs next to nothing over torch.
"""

from attnlib.convert import (
    fused_to_split,
    split_to_fused,
    split_to_stacked,
    split_to_torch,
    stacked_to_split,
    torch_to_split,
)
from attnlib.functional import attention, causal_mask, merge_heads, split_heads
from attnlib.fused import FusedMultiHeadAttention
from attnlib.modules import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper
from attnlib.tiled import tiled_attention
from attnlib.tracing.shapes import shape_table
from attnlib.tracing.source import show_source
from attnlib.tracing.tracer import trace

__all__ = [
    "CausalAttention",
    "FusedMultiHeadAttention",
    "MultiHeadAttention",
    "MultiHeadAttentionWrapper",
    "attention",
    "causal_mask",
    "fused_to_split",
    "merge_heads",
    "shape_table",
    "show_source",
    "split_heads",
    "split_to_fused",
    "split_to_stacked",
    "split_to_torch",
    "stacked_to_split",
    "tiled_attention",
    "torch_to_split",
    "trace",
]
