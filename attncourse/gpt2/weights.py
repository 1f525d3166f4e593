"""Copy attention weights from a GPT-2 file into our classes, and back.

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
from attnlib.fused import FusedMultiHeadAttention
from attnlib.modules import MultiHeadAttention
from attnlib.validate import require_equal_heads, require_plain, require_positive_int

GPT2_HEAD_DIM = 64  # in all four published sizes; the file does not state it
GPT2_CONTEXT_LENGTH = 1024  # likewise; if the file has wpe.weight, its number of rows is used
LAYER = re.compile(r"^(transformer\.)?h\.(\d+)\.")
ATTENTION = (  # what config.json says, if it says it, of an attention that is ours
    ("model_type", ("gpt2",)),
    ("scale_attn_weights", (True,)),
    ("scale_attn_by_inverse_layer_idx", (False,)),
)

Attention = MultiHeadAttention | FusedMultiHeadAttention


def from_gpt2(
    state_dict: Mapping[str, Tensor],
    layer: int,
    num_heads: int | None = None,
    into: type[Attention] = MultiHeadAttention,
) -> Attention:
    """Copy the attention weights of one layer of GPT-2 into one of our modules.

    Equation:
        W_query, W_key, W_value = the three thirds of the rows of c_attn.weight^T
        out_proj = c_proj.weight^T

    Args:
        state_dict: GPT-2's weights by name, with or without the prefix "transformer.": what
            read_gpt2 returns, or the state_dict of a Hugging Face GPT-2. Old files also hold the
            causal mask, as attn.bias and attn.masked_bias; both are ignored.
        layer: which layer, counted from 0.
        num_heads: how many heads. The file does not state it. None means what a config.json
            beside the file says, or else heads of width 64, as in all published sizes of GPT-2.
        into: MultiHeadAttention or FusedMultiHeadAttention.

    Returns:
        A module of that class with d_in = d_out = GPT-2's width and qkv_bias=True, without
        dropout, in the widest dtype of the weights, which are copied. In eval its outputs, weights
        and gradients equal those of GPT-2's attention in that layer. context_length is the number
        of rows of wpe.weight, or 1024 if that is missing.

    Raises:
        TypeError: state_dict is a path or a module, layer or num_heads is not an int, the weights
            are not floating or have eight bits, or into is another class.
        ValueError: there is no such layer, a weight is missing or of the wrong shape, num_heads
            does not divide the width, or config.json contradicts it or wants an attention that
            our classes do not compute. The message names the file, if there is one.

    >>> file = to_gpt2(MultiHeadAttention(6, 6, context_length=3, dropout=0.0, num_heads=2), 0)
    >>> from_gpt2(file, layer=0, num_heads=2).W_key.weight.shape
    torch.Size([6, 6])

    Source: Radford et al. 2019. The names are Hugging Face's. c_attn and c_proj are multiplied
    from the right, x @ weight, so they are stored transposed against nn.Linear.
    """
    if not issubclass(into, (MultiHeadAttention, FusedMultiHeadAttention)):
        raise TypeError(
            f"into must be MultiHeadAttention or FusedMultiHeadAttention, not {into.__name__}"
        )
    weights = attention_parameters(state_dict, layer)
    require_config(state_dict, ATTENTION)
    width = len(weights["c_proj.bias"])
    num_heads = head_count(state_dict, width, num_heads)
    dtype = widest(weights)
    weights = {name: weight.to(dtype) for name, weight in weights.items()}
    rows, bias = weights["c_attn.weight"].T, weights["c_attn.bias"]
    state = {"out_proj.weight": weights["c_proj.weight"].T, "out_proj.bias": weights["c_proj.bias"]}
    if issubclass(into, FusedMultiHeadAttention):
        state |= {"W_qkv.weight": rows, "W_qkv.bias": bias}
    else:
        for W, third, its_bias in zip(PROJECTIONS, rows.chunk(3), bias.chunk(3), strict=True):
            state |= {f"{W}.weight": third, f"{W}.bias": its_bias}

    with torch.device("meta"):
        module = into(width, width, _context_length(state_dict), 0.0, num_heads, qkv_bias=True)
    own = torch.contiguous_format
    copies = {name: rows.detach().clone(memory_format=own) for name, rows in state.items()}
    module.load_state_dict(copies, assign=True)
    return module


def to_gpt2(module: Attention, layer: int, prefix: str = "") -> dict[str, Tensor]:
    """Copy a module's weights into the names and layout of a GPT-2 file.

    Equation:
        c_attn.weight = [W_query^T | W_key^T | W_value^T], c_proj.weight = out_proj^T

    Args:
        module: it has d_in = d_out, and as many key heads as query heads.
        layer: which layer it becomes, counted from 0.
        prefix: put before each name; "transformer." in some files.

    Returns:
        Four tensors by name, in memory of their own; from_gpt2 is the inverse. Without qkv_bias,
        c_attn.bias is 0.

    Raises:
        ValueError: d_in is not d_out, or heads share keys and values; GPT-2 can hold neither.

    >>> module = MultiHeadAttention(6, 6, context_length=3, dropout=0.0, num_heads=2)
    >>> [tuple(weight.shape) for weight in to_gpt2(module, layer=0).values()]
    [(6, 18), (18,), (6, 6), (6,)]

    Source: Radford et al. 2019, with Hugging Face's names.
    """
    if module.d_in != module.d_out:
        raise ValueError(
            f"d_in={module.d_in} is not d_out={module.d_out}, but GPT-2 has one width for both"
        )
    fused = isinstance(module, FusedMultiHeadAttention)
    require_plain(module, *(("W_qkv",) if fused else PROJECTIONS), "out_proj")
    state = module.state_dict()
    if isinstance(module, FusedMultiHeadAttention):
        if module.num_kv_heads != module.num_heads:
            raise ValueError(
                f"num_kv_heads={module.num_kv_heads} is not num_heads={module.num_heads}, but "
                "GPT-2's heads share nothing; try fused_to_split(module)"
            )
        rows, bias = state["W_qkv.weight"], state.get("W_qkv.bias")
    else:
        rows = torch.cat([state[f"{W}.weight"] for W in PROJECTIONS])
        has_bias = "W_query.bias" in state
        bias = torch.cat([state[f"{W}.bias"] for W in PROJECTIONS]) if has_bias else None
    entries = {
        "c_attn.weight": rows.T,
        "c_attn.bias": rows.new_zeros(len(rows)) if bias is None else bias,
        "c_proj.weight": state["out_proj.weight"].T,
        "c_proj.bias": state["out_proj.bias"],
    }
    own = torch.contiguous_format
    return {
        f"{prefix}h.{layer}.attn.{name}": entry.clone(memory_format=own)
        for name, entry in entries.items()
    }


def attention_parameters(state_dict: Mapping[str, Tensor], layer: int) -> dict[str, Tensor]:
    """Return the four tensors of a layer's attention, by the ends of their names."""
    start = f"{layer_start(state_dict, layer)}attn."
    parameters = {}
    for name in ("c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias"):
        parameters[name] = require_entry(state_dict, start + name)
    width = parameters["c_proj.bias"].numel()
    require_shape(state_dict, f"{start}c_attn.weight", (width, 3 * width))
    require_shape(state_dict, f"{start}c_attn.bias", (3 * width,))
    require_shape(state_dict, f"{start}c_proj.weight", (width, width))
    require_shape(state_dict, f"{start}c_proj.bias", (width,))
    return parameters


def widest(weights: Mapping[str, Tensor]) -> torch.dtype:
    """Return the dtype that holds the numbers of all of them.

    >>> widest({"a": torch.ones(1).half(), "b": torch.ones(1).bfloat16()})
    torch.float32
    """
    return reduce(torch.promote_types, (weight.dtype for weight in weights.values()))


def require_config(
    state_dict: Mapping[str, Tensor], rules: tuple[tuple[str, tuple[object, ...]], ...]
) -> None:
    """Raise unless the config.json beside a file, if any, says what our classes compute."""
    for name, right in rules:
        said = config_of(state_dict).get(name, right[0])
        if said not in right:
            raise ValueError(
                f"the config.json of {origin_of(state_dict)} says {name}={said!r}, and our "
                f"classes compute {' or '.join(map(repr, right))} only: with these weights they "
                "would be another function"
            )


def config_of(state_dict: Mapping[str, Tensor]) -> Mapping[str, object]:
    """Return what the config.json beside a file says; nothing where there is none."""
    return state_dict.config if isinstance(state_dict, Gpt2File) else {}


def require_state_dict(state_dict: object) -> None:
    """Raise unless it is a mapping; a path or a module gets its remedy."""
    if isinstance(state_dict, Mapping):
        return
    remedy = ""
    if isinstance(state_dict, (str, PathLike)):
        remedy = f"; try read_gpt2({str(state_dict)!r})"
    elif isinstance(state_dict, nn.Module):
        remedy = "; try its state_dict()"
    raise TypeError(
        "state_dict must map names to tensors, as what read_gpt2 returns does, "
        f"not {type(state_dict).__name__}{remedy}"
    )


def count_layers(state_dict: Mapping[str, Tensor]) -> int:
    """Return how many layers a GPT-2 file has, or raise if it has none.

    >>> count_layers({"h.0.ln_1.bias": torch.zeros(6), "h.1.ln_1.bias": torch.zeros(6)})
    2
    """
    require_state_dict(state_dict)
    layers = {int(found[2]) for key in state_dict if (found := LAYER.match(key))}
    if not layers:
        first = ", ".join(list(state_dict)[:3]) or "none at all"
        raise ValueError(
            f"{origin_of(state_dict)} holds no layer of GPT-2: no name begins with h.0 or "
            f"transformer.h.0; the first names are: {first}"
        )
    return max(layers) + 1


def layer_start(state_dict: Mapping[str, Tensor], layer: int) -> str:
    """Return the common start of a layer's names, such as "transformer.h.0."."""
    if isinstance(layer, bool) or not isinstance(layer, int):
        raise TypeError(f"layer must be an int, not {layer!r} ({type(layer).__name__})")
    num_layers = count_layers(state_dict)
    if not 0 <= layer < num_layers:
        raise ValueError(
            f"layer={layer} does not exist: "
            f"{origin_of(state_dict)} has layers 0 to {num_layers - 1}"
        )
    return f"{prefix_of(state_dict)}h.{layer}."


def prefix_of(state_dict: Mapping[str, Tensor]) -> str:
    """Return "transformer." if the names of the layers begin with it, else ""."""
    require_state_dict(state_dict)
    found = next((match for key in state_dict if (match := LAYER.match(key))), None)
    return (found[1] or "") if found else ""


def require_entry(state_dict: Mapping[str, Tensor], key: str) -> Tensor:
    """Return a floating entry of GPT-2's weights, or raise."""
    if key not in state_dict:
        raise ValueError(
            f"{origin_of(state_dict)} has no {key}: it is not a GPT-2, or it is incomplete"
        )
    weight = state_dict[key]
    if not weight.is_floating_point():
        raise TypeError(f"{key} of {origin_of(state_dict)} must be floating, not {weight.dtype}")
    if weight.element_size() == 1:
        raise TypeError(
            f"{key} of {origin_of(state_dict)} is {weight.dtype}: eight bits, which nothing can "
            "multiply as they are, and without their scales; take the file of the same model in "
            "half or single precision"
        )
    return weight


def require_shape(state_dict: Mapping[str, Tensor], key: str, shape: tuple[int, ...]) -> None:
    """Raise unless an entry has this shape."""
    found = tuple(state_dict[key].shape)
    if found != shape:
        is_transposed = found == shape[::-1]
        remedy = "; it seems to be transposed: GPT-2 stores (in, out)" if is_transposed else ""
        raise ValueError(f"{key} of {origin_of(state_dict)} is {found}, not {shape}{remedy}")


def head_count(state_dict: Mapping[str, Tensor], width: int, num_heads: int | None) -> int:
    """Return num_heads, which divides the width.

    None means what config.json says, or else how many heads of width 64 fit.

    >>> head_count({}, 768, None)
    12
    """
    said = config_of(state_dict).get("n_head")
    if said is not None:
        require_positive_int(f"n_head in the config.json of {origin_of(state_dict)}", said)
        if num_heads not in (None, said):
            raise ValueError(
                f"num_heads={num_heads}, but the config.json of {origin_of(state_dict)} says "
                f"n_head={said}; leave num_heads out, or remove the config.json if it is wrong"
            )
        num_heads = cast(int, said)
    if num_heads is not None:
        require_positive_int("num_heads", num_heads)
        require_equal_heads(width, num_heads, f"{origin_of(state_dict)}: width")
    elif width % GPT2_HEAD_DIM:
        raise ValueError(
            f"how many heads {origin_of(state_dict)} has is not known: its width {width} is not "
            f"a multiple of {GPT2_HEAD_DIM}, the width of a head in all published sizes; "
            "give num_heads"
        )
    return num_heads or width // GPT2_HEAD_DIM


def origin_of(state_dict: Mapping[str, Tensor]) -> str:
    """Return where the weights come from, for messages: the path of their file, if any."""
    return str(state_dict.path) if isinstance(state_dict, Gpt2File) else "the state_dict"


def _context_length(state_dict: Mapping[str, Tensor]) -> int:
    key = f"{prefix_of(state_dict)}wpe.weight"
    return len(state_dict[key]) if key in state_dict else GPT2_CONTEXT_LENGTH
