"""GPT-2 models with random weights, and their weights as a GPT-2 file has them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attncourse.gpt2.model import GPT2, Gpt2Size, in_file
from attnlib import MultiHeadAttention
from attnlib.convert import PROJECTIONS


def random_gpt2(size: Gpt2Size, seed: int = 3, std: float = 0.3) -> GPT2:
    torch.manual_seed(seed)
    model = GPT2(size)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    return model.eval()


def attention_state(module: MultiHeadAttention, layer: int) -> dict[str, Tensor]:
    """Return a module's weights under the names of a layer; without qkv_bias, c_attn.bias is 0."""
    state, zeros = module.state_dict(), torch.zeros(module.d_out)
    entries = {
        "c_attn.weight": torch.cat([state[f"{W}.weight"] for W in PROJECTIONS]).T,
        "c_attn.bias": torch.cat([state.get(f"{W}.bias", zeros) for W in PROJECTIONS]),
        "c_proj.weight": state["out_proj.weight"].T,
        "c_proj.bias": state["out_proj.bias"],
    }
    return {f"h.{layer}.attn.{name}": entry.contiguous() for name, entry in entries.items()}


def gpt2_state(model: GPT2, *, with_mask: bool = False) -> dict[str, Tensor]:
    """Return a model's weights; the released model's file has the causal masks too."""
    state = {}
    for ours, entry in model.state_dict().items():
        if ".attention." not in ours:
            theirs, is_transposed = in_file(ours)
            state[theirs] = (entry.T if is_transposed else entry).contiguous()
    n = model.size.context_length
    for layer, block in enumerate(model.blocks):
        state |= attention_state(block.attention, layer)
        if with_mask:
            state[f"h.{layer}.attn.bias"] = torch.ones(1, 1, n, n).tril()
    return state
