"""Copy attention weights from a GPT-2 file into our classes.

The names of the weights are those of Hugging Face's GPT-2; files.py opens its files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from os import PathLike
from typing import cast

import torch
from torch import Tensor, nn

from attncourse.gpt2.files import Gpt2File
from attnlib.convert import PROJECTIONS
from attnlib.modules import MultiHeadAttention
from attnlib.validate import require_equal_heads, require_positive_int

GPT2_HEAD_DIM = 64  # in all four published sizes; the file does not state it
GPT2_CONTEXT_LENGTH = 1024  # likewise; if the file has wpe.weight, its number of rows is used
LAYER = re.compile(r"^(transformer\.)?h\.(\d+)\.")
ATTENTION = {  # what config.json says, if it says it, of an attention that is ours
    "model_type": ("gpt2",),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
}


def from_gpt2(
    state_dict: Mapping[str, Tensor], layer: int, num_heads: int | None = None
) -> MultiHeadAttention:
    """Copy the attention weights of one layer of GPT-2 into one of our modules.

    Equation:
        W_query, W_key, W_value = the three thirds of the rows of c_attn.weight^T
        out_proj = c_proj.weight^T

    Args:
        state_dict: what read_gpt2 returns, or the state_dict of a Hugging Face GPT-2. Old files
            also hold the causal mask, as attn.bias and attn.masked_bias; both are ignored.
        layer: which layer, counted from 0.
        num_heads: how many heads. The file does not state it. None means what a config.json
            beside the file says, or else heads of width 64, as in all published sizes of GPT-2.

    Returns:
        A module with d_in = d_out = GPT-2's width and qkv_bias=True, without dropout, in the widest
        dtype of the weights, which are copied. In eval its outputs, weights and gradients equal
        those of GPT-2's attention in that layer. context_length is the number of rows of
        wpe.weight, or 1024 if that is missing.

    Raises:
        TypeError: an argument is of another type, or the weights are not floating.
        ValueError: there is no such layer, a weight is missing or of the wrong shape, num_heads
            does not divide the width, or config.json wants an attention that our classes do not
            compute. The message names the file, if there is one.

    Source: Radford et al. 2019. The names are Hugging Face's. c_attn and c_proj are multiplied
    from the right, x @ weight, so they are stored transposed against nn.Linear.
    """
    file = Weights(state_dict)
    weights = file.attention(layer)
    file.require_config(ATTENTION)
    width = len(weights["c_proj.bias"])
    num_heads = file.head_count(width, num_heads)
    has_places = f"{file.prefix}wpe.weight" in state_dict
    context_length = file.rows("wpe.weight") if has_places else GPT2_CONTEXT_LENGTH
    dtype = widest(weights)
    weights = {name: weight.to(dtype) for name, weight in weights.items()}
    rows, bias = weights["c_attn.weight"].T, weights["c_attn.bias"]
    state = {"out_proj.weight": weights["c_proj.weight"].T, "out_proj.bias": weights["c_proj.bias"]}
    for W, third, its_bias in zip(PROJECTIONS, rows.chunk(3), bias.chunk(3), strict=True):
        state |= {f"{W}.weight": third, f"{W}.bias": its_bias}

    with torch.device("meta"):
        module = MultiHeadAttention(width, width, context_length, 0.0, num_heads, qkv_bias=True)
    module.load_state_dict({name: copy(entry) for name, entry in state.items()}, assign=True)
    return module


def copy(tensor: Tensor) -> Tensor:
    """Return a copy in memory of its own, without gaps."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def widest(weights: Mapping[str, Tensor]) -> torch.dtype:
    """Return the dtype that holds the numbers of all of them.

    >>> widest({"a": torch.ones(1).half(), "b": torch.ones(1).bfloat16()})
    torch.float32
    """
    return reduce(torch.promote_types, (weight.dtype for weight in weights.values()))


class Weights:
    """GPT-2's weights by name, and what is known of where they come from.

    Raises:
        TypeError: state_dict is not a mapping; a path or a module gets its remedy.
        ValueError: it holds no layer of GPT-2.
    """

    def __init__(self, state_dict: Mapping[str, Tensor]) -> None:
        if not isinstance(state_dict, Mapping):
            remedy = ""
            if isinstance(state_dict, (str, PathLike)):
                remedy = f"; try read_gpt2({str(state_dict)!r})"
            elif isinstance(state_dict, nn.Module):
                remedy = "; try its state_dict()"
            raise TypeError(
                "state_dict must map names to tensors, as what read_gpt2 returns does, "
                f"not {type(state_dict).__name__}{remedy}"
            )
        self.state_dict = state_dict
        self.origin, self.config = "the state_dict", dict[str, object]()
        if isinstance(state_dict, Gpt2File):
            self.origin, self.config = str(state_dict.path), state_dict.config
        layers = [found for key in state_dict if (found := LAYER.match(key))]
        if not layers:
            first = ", ".join(list(state_dict)[:3]) or "none at all"
            raise ValueError(
                f"{self.origin} holds no layer of GPT-2: no name begins with h.0 or "
                f"transformer.h.0; the first names are: {first}"
            )
        self.prefix = layers[0][1] or ""
        self.num_layers = max(int(found[2]) for found in layers) + 1

    def read(self, name: str, shape: tuple[int, ...] | None = None) -> Tensor:
        """Return a weight, or raise unless it is there, floating, and of this shape if any."""
        key = self.prefix + name
        if key not in self.state_dict:
            raise ValueError(f"{self.origin} has no {key}: it is not a GPT-2, or it is incomplete")
        weight = self.state_dict[key]
        if not weight.is_floating_point():
            raise TypeError(f"{key} of {self.origin} must be floating, not {weight.dtype}")
        if weight.element_size() == 1:
            raise TypeError(
                f"{key} of {self.origin} is {weight.dtype}: eight bits, which nothing can "
                "multiply as they are, and without their scales; take the file of the same model "
                "in half or single precision"
            )
        found = tuple(weight.shape)
        if shape not in (None, found):
            is_transposed = found == shape[::-1]
            remedy = "; it seems to be transposed: GPT-2 stores (in, out)" if is_transposed else ""
            raise ValueError(f"{key} of {self.origin} is {found}, not {shape}{remedy}")
        return weight

    def rows(self, name: str) -> int:
        """Return how many rows a weight has."""
        return self.read(name).shape[:1].numel()  # 1 if it has no dimensions

    def attention(self, layer: int) -> dict[str, Tensor]:
        """Return the four tensors of a layer's attention, by the ends of their names."""
        if isinstance(layer, bool) or not isinstance(layer, int):
            raise TypeError(f"layer must be an int, not {layer!r} ({type(layer).__name__})")
        if not 0 <= layer < self.num_layers:
            raise ValueError(
                f"layer={layer} does not exist: {self.origin} has layers 0 to {self.num_layers - 1}"
            )
        start = f"h.{layer}.attn."
        width = self.read(f"{start}c_proj.bias").numel()
        shapes = {
            "c_attn.weight": (width, 3 * width),
            "c_attn.bias": (3 * width,),
            "c_proj.weight": (width, width),
            "c_proj.bias": (width,),
        }
        return {name: self.read(start + name, shape) for name, shape in shapes.items()}

    def require_config(self, rules: Mapping[str, tuple[object, ...]]) -> None:
        """Raise unless the config.json beside a file, if any, says what our classes compute."""
        for name, right in rules.items():
            said = self.config.get(name, right[0])
            if said not in right:
                raise ValueError(
                    f"the config.json of {self.origin} says {name}={said!r}, and our classes "
                    f"compute {' or '.join(map(repr, right))} only: with these weights they would "
                    "be another function"
                )

    def head_count(self, width: int, num_heads: int | None) -> int:
        """Return num_heads, which divides the width.

        None means what config.json says, or else how many heads of width 64 fit.
        """
        said = self.config.get("n_head")
        if said is not None:
            require_positive_int(f"n_head in the config.json of {self.origin}", said)
            if num_heads not in (None, said):
                raise ValueError(
                    f"num_heads={num_heads}, but the config.json of {self.origin} says "
                    f"n_head={said}; leave num_heads out, or remove the config.json if it is wrong"
                )
            num_heads = cast(int, said)
        if num_heads is not None:
            require_positive_int("num_heads", num_heads)
            require_equal_heads(width, num_heads, f"{self.origin}: width")
        elif width % GPT2_HEAD_DIM:
            raise ValueError(
                f"how many heads {self.origin} has is not known: its width {width} is not "
                f"a multiple of {GPT2_HEAD_DIM}, the width of a head in all published sizes; "
                "give num_heads"
            )
        return num_heads or width // GPT2_HEAD_DIM
