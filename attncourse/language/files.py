"""Open a GGUF file of the Llama architecture, and unpack its tensors into our model's.

gguf, the library of the format, is loaded when the first file is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attncourse.language.model import LlamaSize
from attncourse.language.tokenizer import new_tokenizer
from attnlib.convert import PROJECTIONS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

OUTSIDE = {  # ours: the file's
    "token_embedding.weight": "token_embd.weight",
    "final_norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
INSIDE = {  # for each layer; of several parts the rows stand one below the other
    "norm_1.weight": ("attn_norm",),
    "norm_2.weight": ("ffn_norm",),
    "attention.W_qkv.weight": ("attn_q", "attn_k", "attn_v"),
    "attention.out_proj.weight": ("attn_output",),
    "gate_proj.weight": ("ffn_gate",),
    "up_proj.weight": ("ffn_up",),
    "down_proj.weight": ("ffn_down",),
}
CONTROL = 3  # the format's number for tokens that are no text


class LlamaFile:
    """A GGUF file whose model our classes compute: its size, its vocabulary, its weights."""

    def __init__(self, path: Path) -> None:
        from gguf import GGUFReader

        reader = GGUFReader(path, "c")  # a private mapping: torch warns of memory it may not write
        self.fields = reader.fields
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.size = LlamaSize(
            num_layers=self._field("llama.block_count"),
            num_heads=self._field("llama.attention.head_count"),
            num_kv_heads=self._field("llama.attention.head_count_kv"),
            width=self._field("llama.embedding_length"),
            mlp_width=self._field("llama.feed_forward_length"),
            vocabulary=int(self.tensors["token_embd.weight"].shape[-1]),
            context_length=self._field("llama.context_length"),
            rotary_base=self._field("llama.rope.freq_base"),
            epsilon=self._field("llama.attention.layer_norm_rms_epsilon"),
            is_tied="output.weight" not in self.tensors,
        )
        self.end: int = self._field("tokenizer.ggml.eos_token_id")  # the token that ends a text

    def weight(self, name: str) -> Tensor:
        """Return a weight of our model, by our name, in float32."""
        if name in OUTSIDE:
            return self._unpacked(OUTSIDE[name])
        _, layer, ours = name.split(".", 2)
        return torch.cat([self._unpacked(f"blk.{layer}.{part}.weight") for part in INSIDE[ours]])

    def tokenizer(self) -> Tokenizer:
        """Return what cuts texts into the file's tokens; ids of its CONTROL tokens are no text."""
        tokens, merges, kinds = (
            self._field(f"tokenizer.ggml.{part}") for part in ("tokens", "merges", "token_type")
        )
        special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
        return new_tokenizer(tokens, merges, special)

    def _field(self, name: str) -> Any:
        return self.fields[name].contents()

    def _unpacked(self, name: str) -> Tensor:
        from gguf.quants import dequantize

        tensor = self.tensors[name]
        return torch.from_numpy(dequantize(tensor.data, tensor.tensor_type))


def file_tensors(size: LlamaSize, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a model's weights as its file has them; parts of what ours joins are views."""
    found = {theirs: state[ours] for ours, theirs in OUTSIDE.items() if ours in state}
    for layer in range(size.num_layers):
        for ours, parts in INSIDE.items():
            names = [f"blk.{layer}.{part}.weight" for part in parts]
            ours = f"blocks.{layer}.{ours}"
            if ours not in state:  # an attention class with three projections
                apart = [state[ours.replace("W_qkv", each)] for each in PROJECTIONS]
            else:
                rows = list(size.widths) if len(parts) == 3 else [len(state[ours])]
                apart = list(torch.split(state[ours], rows))
            found |= zip(names, apart, strict=True)
    return found
