"""Copy weights between classes that compute the same function.

The new module has weights of its own and keeps sizes, dropout, dtype, device, mode and
requires_grad. A conversion refuses, in words, what the other class has no place for, and modules
that compute something else than their class does.

Source: Vaswani et al. 2017, section 3.2.2: W_i^Q, W_i^K, W_i^V of all heads as rows of one matrix,
and W^O = identity for heads that are stacked; Ainslie et al. 2023 for shared heads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attnlib.fused import FusedMultiHeadAttention, repeat_heads
from attnlib.modules import (
    CausalAttention,
    CausalModule,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
)
from attnlib.validate import dropout_rate, require_equal_heads, require_plain

PROJECTIONS = ("W_query", "W_key", "W_value")
LLAMA_NAMES = ("q_proj", "k_proj", "v_proj")  # of PROJECTIONS

Module = TypeVar("Module", bound=nn.Module)
State = dict[str, Tensor]


def stacked_to_split(stacked: MultiHeadAttentionWrapper) -> MultiHeadAttention:
    """Copy the weights of stacked heads into one weight-split module.

    Equation:
        W_query = rows of heads[0].W_query, then of heads[1].W_query, ... (keys, values likewise)
        out_proj = identity, with bias 0

    Returns:
        A MultiHeadAttention with d_out = num_heads * stacked.d_out. Outputs, weights and gradients
        are equal.

    >>> stacked = MultiHeadAttentionWrapper(3, 2, context_length=6, dropout=0.0, num_heads=4)
    >>> stacked_to_split(stacked).W_query.weight.shape
    torch.Size([8, 3])
    """
    _require_ours(stacked, MultiHeadAttentionWrapper)
    for h, head in enumerate(stacked.heads):
        _require_ours(head, CausalAttention, f"heads.{h}")
    names = [f"heads.{h}.{W}" for h in range(stacked.num_heads) for W in PROJECTIONS]
    _require_projections(stacked, *names)
    rates = {
        f"heads.{h}.dropout": dropout_rate(head.get_submodule("dropout"))
        for h, head in enumerate(stacked.heads)
    }
    _require_one("p", rates)
    state = _state(stacked, join_heads, made=("out_proj.weight", "out_proj.bias"))
    return with_weights(MultiHeadAttention, stacked, state, d_out=stacked.num_heads * stacked.d_out)


def join_heads(stacked: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of stacked heads, or their state_dict, under the names of a split module.

    The equation is that of stacked_to_split. Gradients flow back through the weights.

    >>> heads = {f"heads.{h}.W_query.weight": torch.ones(2, 3) for h in range(4)}
    >>> {name: tuple(weight.shape) for name, weight in join_heads(heads).items()}
    {'W_query.weight': (8, 3), 'out_proj.weight': (8, 8), 'out_proj.bias': (8,)}
    """
    parts: dict[str, list[Tensor]] = {}
    for name, rows in stacked.items():
        parts.setdefault(name.split(".", maxsplit=2)[2], []).append(rows)
    joined = {name: torch.cat(rows) for name, rows in parts.items()}
    weight = joined["W_query.weight"]
    joined["out_proj.weight"] = torch.eye(len(weight)).to(weight)
    joined["out_proj.bias"] = torch.zeros(len(weight)).to(weight)
    return joined


def split_to_stacked(split: MultiHeadAttention) -> MultiHeadAttentionWrapper:
    """Copy the weights of a weight-split module into stacked heads: undoes stacked_to_split.

    Equation:
        heads[h].W_query = rows h * head_dim to (h + 1) * head_dim of W_query (keys, values too)

    Returns:
        A MultiHeadAttentionWrapper with d_out = split.head_dim per head. Outputs, weights and
        gradients are equal.

    Raises:
        ValueError: out_proj is not the identity with bias 0. Stacked heads have no place for it.

    >>> stacked = MultiHeadAttentionWrapper(3, 2, context_length=6, dropout=0.0, num_heads=4)
    >>> split_to_stacked(stacked_to_split(stacked)).num_heads
    4
    """
    _require_ours(split, MultiHeadAttention)
    _require_projections(split, *PROJECTIONS)
    weight, bias = split.out_proj.weight, split.out_proj.bias
    identity = torch.eye(split.d_out, dtype=weight.dtype, device=weight.device)
    off = torch.cat([weight - identity, bias[None]]).abs()
    if not off.is_meta and off.any():  # NaN too
        raise ValueError(
            "out_proj is not the identity with bias 0 (an entry is off by "
            f"{off.max().item():.3g}), and stacked heads have no output projection to hold it; "
            "apply split.out_proj to the stacked heads' result instead"
        )

    def by_head(old: State) -> State:
        return {
            f"heads.{h}.{name}": rows
            for name, entry in old.items()
            if name.startswith(PROJECTIONS)
            for h, rows in enumerate(torch.split(entry, split.head_dim))
        }

    state = _state(split, by_head)
    return with_weights(MultiHeadAttentionWrapper, split, state, d_out=split.head_dim)


def split_to_torch(split: MultiHeadAttention) -> nn.MultiheadAttention:
    """Copy the weights of a weight-split module into PyTorch's own module.

    Equation:
        in_proj_weight = rows of W_query, then of W_key, then of W_value (in_proj_bias likewise)

    Returns:
        An nn.MultiheadAttention with embed_dim = d_out and batch_first=True. It masks nothing by
        itself: called as module(x, x, x, attn_mask=causal_mask(num_tokens)), its outputs, weights
        and gradients are equal. Without qkv_bias its in_proj_bias is None while out_proj has a
        bias, which no argument of nn.MultiheadAttention says: set in_proj_bias = None on a new
        one before it loads this state_dict.

    Raises:
        ValueError: d_in is not d_out.

    >>> split = MultiHeadAttention(6, 6, context_length=3, dropout=0.0, num_heads=2)
    >>> split_to_torch(split).in_proj_weight.shape
    torch.Size([18, 6])
    """
    _require_ours(split, MultiHeadAttention)
    _require_projections(split, *PROJECTIONS)
    if split.d_in != split.d_out:
        raise ValueError(
            f"d_in={split.d_in} is not d_out={split.d_out}, but nn.MultiheadAttention has one "
            "width, embed_dim, for its query and its result"
        )
    state = _state(split, lambda old: _packed(old, "in_proj_"))
    with torch.device("meta"):
        module = nn.MultiheadAttention(
            split.d_out, split.num_heads, dropout_rate(split.dropout), batch_first=True
        )
    if "in_proj_bias" not in state:
        module.register_parameter("in_proj_bias", None)
    return _loaded(module, state, split.training)


def torch_to_split(module: nn.MultiheadAttention, context_length: int) -> MultiHeadAttention:
    """Copy the weights of PyTorch's own module into a weight-split one: undoes split_to_torch.

    Equation:
        W_query, W_key, W_value = the first, second and third part of the rows of in_proj_weight

    Args:
        module: an nn.MultiheadAttention for one input, with either value of batch_first.
        context_length: the most tokens that the new module accepts.

    Returns:
        A MultiHeadAttention. **It is causal and takes (b, num_tokens, d_in)**: its outputs,
        weights and gradients are those of module(x, x, x, attn_mask=causal_mask(num_tokens)) with
        batch_first=True. Where bias=False, its out_proj has a bias of 0.

    Raises:
        ValueError: it has kdim or vdim, add_bias_kv or add_zero_attn, which have no place here.

    >>> theirs = nn.MultiheadAttention(6, 2, batch_first=True)
    >>> torch_to_split(theirs, context_length=3).W_value.weight.shape
    torch.Size([6, 6])
    """
    _require_ours(module, nn.MultiheadAttention)
    options = {
        "kdim or vdim": module.in_proj_weight is None,
        "add_bias_kv": module.bias_k is not None,
        "add_zero_attn": module.add_zero_attn,
    }
    _require_no_option(options, "MultiHeadAttention")

    def unpacked(old: State) -> State:
        new = {"out_proj.bias": torch.zeros_like(old["out_proj.weight"][0])}
        for name, entry in old.items():
            if name.startswith("out_proj"):
                new[name] = entry
                continue
            kind = name.removeprefix("in_proj_")
            new |= {
                f"{W}.{kind}": rows for W, rows in zip(PROJECTIONS, entry.chunk(3), strict=True)
            }
        return new

    made = () if module.out_proj.bias is not None else ("out_proj.bias",)
    state = _state(module, unpacked, made)
    with torch.device("meta"):
        split = MultiHeadAttention(
            module.embed_dim,
            module.embed_dim,
            context_length,
            module.dropout,
            module.num_heads,
            qkv_bias=module.in_proj_bias is not None,
        )
    return _loaded(split, state, module.training)


def split_to_fused(split: MultiHeadAttention) -> FusedMultiHeadAttention:
    """Copy the weights of a weight-split module into a fused one.

    Equation:
        W_qkv = rows of W_query, then of W_key, then of W_value

    Returns:
        A FusedMultiHeadAttention with num_kv_heads = num_heads. Outputs, weights and gradients are
        equal.

    >>> split = MultiHeadAttention(6, 4, context_length=3, dropout=0.0, num_heads=2)
    >>> split_to_fused(split).W_qkv.weight.shape
    torch.Size([12, 6])
    """
    _require_ours(split, MultiHeadAttention)
    _require_projections(split, *PROJECTIONS)
    state = _state(split, lambda old: _packed(old, "W_qkv."))
    return with_weights(FusedMultiHeadAttention, split, state)


def fused_to_split(fused: FusedMultiHeadAttention) -> MultiHeadAttention:
    """Copy the weights of a fused module into a weight-split one: undoes split_to_fused.

    Equation:
        W_query, W_key, W_value = the first, second and third part of the rows of W_qkv

    Returns:
        A MultiHeadAttention. Outputs, weights and gradients are equal. Rows of shared heads
        of keys and values are repeated for every head that shared them: outputs and weights stay
        equal, and the gradient of shared rows is the sum over their copies.

    >>> fused = FusedMultiHeadAttention(6, 4, context_length=3, dropout=0.0, num_heads=2)
    >>> torch.equal(split_to_fused(fused_to_split(fused)).W_qkv.weight, fused.W_qkv.weight)
    True
    """
    _require_ours(fused, FusedMultiHeadAttention)
    _require_projections(fused, "W_qkv")
    if fused.rotary_base is not None:
        raise ValueError(
            f"rotary_base={fused.rotary_base} has no place in MultiHeadAttention, which rotates no "
            "queries and keys"
        )

    def unpacked(old: State) -> State:
        new = {name: old[name] for name in old if name.startswith("out_proj")}
        for name in old.keys() - new.keys():
            parts = torch.split(old[name], list(fused.widths))
            for W, rows in zip(PROJECTIONS, parts, strict=True):
                heads = rows.view(1, -1, fused.head_dim, *rows.shape[1:])
                new[name.replace("W_qkv", W)] = repeat_heads(heads, fused.num_heads).flatten(0, 2)
        return new

    return with_weights(MultiHeadAttention, fused, _state(fused, unpacked))


def gpt2_to_fused(
    state: Mapping[str, Tensor], num_heads: int, context_length: int, dropout: float = 0.0
) -> FusedMultiHeadAttention:
    """Copy the weights of one of GPT-2's attention layers into a fused module.

    Equation:
        W_qkv = c_attn.weight^T, out_proj = c_proj.weight^T

    Args:
        state: the state_dict of such a layer, GPT2Attention in transformers: c_attn.weight,
            (d, 3 * d), c_proj.weight, (d, d), and their biases, if any. Other entries are ignored.
            Where c_attn.weight is (3 * d, d), as in nn.Linear, both are taken as they are.
        num_heads: how many heads.
        context_length: the most tokens that the new module accepts.
        dropout: share of the attention weights that training sets to 0, attn_pdrop in GPT-2.

    Returns:
        A FusedMultiHeadAttention. Outputs are equal; GPT-2's dropout after c_proj is no part of it.

    >>> state = {"c_attn.weight": torch.ones(4, 12), "c_proj.weight": torch.ones(4, 4)}
    >>> gpt2_to_fused(state, num_heads=2, context_length=3).W_qkv.weight.shape
    torch.Size([12, 4])

    Source: Radford et al. 2019 (GPT-2). Its Conv1D keeps the transpose of nn.Linear's weight.
    """
    given = _entries(state, "c_attn", "c_proj")
    width = given["c_proj.weight"].shape[0]
    is_conv1d = given["c_attn.weight"].shape[0] == width
    new = {
        name.replace("c_attn", "W_qkv").replace("c_proj", "out_proj"): entry.t()
        if is_conv1d
        else entry
        for name, entry in given.items()
    }
    sizes = {"d_in": width, "d_out": width, "context_length": context_length}
    return _new_fused(new, **sizes, dropout=dropout, num_heads=num_heads)


def fused_to_gpt2(fused: FusedMultiHeadAttention) -> State:
    """Return copies of a fused module's weights under GPT-2's names: undoes gpt2_to_fused.

    Args:
        fused: with d_in = d_out, without rotary positions and shared heads.

    Returns:
        What load_state_dict of transformers' GPT2Attention takes: c_attn.weight, (d, 3 * d),
        c_proj.weight, (d, d), and their biases, if any.
    """
    has = {
        f"rotary_base={fused.rotary_base}": fused.rotary_base is not None,
        f"num_kv_heads={fused.num_kv_heads}": fused.num_kv_heads != fused.num_heads,
        f"d_in={fused.d_in}, which is not d_out": fused.d_in != fused.d_out,
    }
    _require_no_option(has, "GPT-2's attention")
    return {
        name.replace("W_qkv", "c_attn").replace("out_proj", "c_proj"): entry.t().clone(
            memory_format=torch.contiguous_format
        )
        for name, entry in _plain_weights(fused).items()
    }


def llama_to_fused(
    state: Mapping[str, Tensor],
    num_heads: int,
    context_length: int,
    rotary_base: float,
    rotary_layout: str = "half",
) -> FusedMultiHeadAttention:
    """Copy the weights of one of Llama's attention layers into a fused module.

    Equation:
        W_qkv = rows of q_proj, then of k_proj, then of v_proj; out_proj = o_proj

    Args:
        state: the state_dict of such a layer, LlamaAttention in transformers (Mistral, Qwen2 and
            SmolLM2 share its design): the weights of q_proj, k_proj, v_proj and o_proj, and their
            biases, if any. num_kv_heads follows from their shapes.
        num_heads: how many heads of queries.
        context_length: the most tokens that the new module accepts.
        rotary_base: rope_theta in the model's config.
        rotary_layout: "half" for weights in the order of transformers, "interleaved" for those
            that Meta released.

    Returns:
        A FusedMultiHeadAttention. Outputs are equal, except where the model scales its positions
        (rope_scaling).

    Raises:
        ValueError: an entry is missing or has another shape: o_proj, where num_heads * head_dim is
            not the width of the model.

    >>> shapes = {"q_proj": (8, 8), "k_proj": (4, 8), "v_proj": (4, 8), "o_proj": (8, 8)}
    >>> state = {f"{name}.weight": torch.ones(shape) for name, shape in shapes.items()}
    >>> llama_to_fused(state, num_heads=4, context_length=3, rotary_base=10_000.0).num_kv_heads
    2

    Source: Touvron et al. 2023 (Llama), as transformers has it.
    """
    given = _entries(state, *LLAMA_NAMES, "o_proj")
    d_out, d_in = given["q_proj.weight"].shape
    require_equal_heads(d_out, num_heads, "the number of rows of q_proj")
    kinds = [name.removeprefix("q_proj.") for name in given if name.startswith("q_proj.")]
    new = {
        f"W_qkv.{kind}": torch.cat([given[f"{W}.{kind}"] for W in LLAMA_NAMES]) for kind in kinds
    }
    new |= {name.replace("o_proj", "out_proj"): given[name] for name in given if "o_proj" in name}
    num_kv_heads = len(given["k_proj.weight"]) // (d_out // num_heads)
    sizes = {"d_in": d_in, "d_out": d_out, "context_length": context_length, "dropout": 0.0}
    sizes |= {"num_heads": num_heads, "num_kv_heads": num_kv_heads}
    return _new_fused(new, **sizes, rotary_base=rotary_base, rotary_layout=rotary_layout)


def fused_to_llama(fused: FusedMultiHeadAttention) -> State:
    """Return copies of a fused module's weights under Llama's names: undoes llama_to_fused.

    Args:
        fused: with rotary positions. The rows keep their order, so transformers' Llama needs
            rotary_layout="half".

    Returns:
        What load_state_dict of transformers' LlamaAttention takes: the weights of q_proj, k_proj,
        v_proj and o_proj, and their biases, if any.
    """
    _require_no_option({"rotary_base=None": fused.rotary_base is None}, "Llama's attention")
    new: State = {}
    for name, entry in _plain_weights(fused).items():
        part, kind = name.split(".")
        parts = [entry] if part == "out_proj" else torch.split(entry, list(fused.widths))
        names = ("o_proj",) if part == "out_proj" else LLAMA_NAMES
        new |= {f"{W}.{kind}": rows.clone() for W, rows in zip(names, parts, strict=True)}
    return new


def _entries(state: Mapping[str, Tensor], *parts: str) -> State:
    """Return the weights and biases of these parts, each weight of which must be there."""
    for part in parts:
        if f"{part}.weight" not in state:
            found = ", ".join(list(state)[:3])
            raise ValueError(f"the state has no '{part}.weight'; its first entries are {found}")
    names = [f"{part}.{kind}" for part in parts for kind in ("weight", "bias")]
    return {name: state[name].detach() for name in names if name in state}


def _plain_weights(fused: FusedMultiHeadAttention) -> State:
    """Return the weights of a fused module that computes as its class does."""
    _require_ours(fused, FusedMultiHeadAttention)
    require_plain(fused, "W_qkv", "out_proj")
    return {name: weight.detach() for name, weight in fused.named_parameters()}


def _new_fused(state: State, **arguments: Any) -> FusedMultiHeadAttention:
    """Return a fused module of these arguments with copies of weights, which must fit."""
    biases: dict[str, Any] = {
        "qkv_bias": "W_qkv.bias" in state,
        "out_bias": "out_proj.bias" in state,
    }
    with torch.device("meta"):
        module = FusedMultiHeadAttention(**arguments, **biases)
    for name, parameter in module.named_parameters():
        if state[name].shape != parameter.shape:
            raise ValueError(
                f"{name} would be {tuple(state[name].shape)}, but for {module.extra_repr()} it "
                f"must be {tuple(parameter.shape)}"
            )
    copies = {name: nn.Parameter(entry.clone()) for name, entry in state.items()}
    return _loaded(module, copies, training=True)


def _require_no_option(options: Mapping[str, bool], target: str) -> None:
    """Raise if a module has something for which the target has no place."""
    for option, is_there in options.items():
        if is_there:
            raise ValueError(f"the module has {option}, and {target} has no place for that")


def with_weights(
    cls: type[Module], like: CausalModule, state: Mapping[str, Tensor], **changes: int
) -> Module:
    """Make a module of the sizes of another that holds these tensors themselves.

    cls takes the arguments of MultiHeadAttention; changes are the sizes that are not kept. An
    nn.Parameter in state keeps its requires_grad.
    """
    sizes = {name: getattr(like, name) for name in ("d_in", "d_out", "context_length", "num_heads")}
    rates = [part.p for part in like.modules() if isinstance(part, nn.Dropout)]
    dropout = rates[0] if rates else 0.0
    qkv_bias = any(name.endswith("bias") and "W_" in name for name in state)
    with torch.device("meta"):  # no weights are drawn that would be replaced at once
        module = cls(**{**sizes, "dropout": dropout, "qkv_bias": qkv_bias, **changes})
    return _loaded(module, state, like.training)


def _loaded(module: Module, state: Mapping[str, Tensor], training: bool) -> Module:
    """Let a module hold these tensors themselves."""
    frozen = [
        name
        for name, entry in state.items()
        if isinstance(entry, nn.Parameter) and not entry.requires_grad
    ]
    module.load_state_dict(state, assign=True)
    for name in frozen:
        module.get_parameter(name).requires_grad_(False)
    return module.train(training)


def _state(
    module: nn.Module, rearranged: Callable[[State], State], made: Iterable[str] = ()
) -> State:
    """Return copies of a module's weights, rearranged; what was frozen stays so.

    Whether each entry of a new weight was trained is found by rearranging that alike. Weights in
    `made` come from no old one, and can be trained.
    """
    old = dict(module.named_parameters())
    trained = rearranged({name: torch.full(w.shape, w.requires_grad) for name, w in old.items()})
    state: State = {}
    for name, entry in rearranged({name: w.detach() for name, w in old.items()}).items():
        flags = trained[name]
        if name not in made and flags.any() != flags.all():
            raise ValueError(
                f"{name} would hold rows that are frozen and rows that are trained, but it has one "
                "requires_grad for all; set that of the weights to convert alike"
            )
        state[name] = nn.Parameter(entry.clone(), requires_grad=name in made or bool(flags.any()))
    return state


def _packed(old: State, prefix: str) -> State:
    """Put the rows of W_query, W_key and W_value below one another, out_proj beside them."""
    new = {name: entry for name, entry in old.items() if name.startswith("out_proj")}
    kinds = [name.removeprefix("W_query.") for name in old if name.startswith("W_query.")]
    return new | {
        f"{prefix}{kind}": torch.cat([old[f"{W}.{kind}"] for W in PROJECTIONS]) for kind in kinds
    }


def _require_ours(module: nn.Module, cls: type[nn.Module], name: str = "the module") -> None:
    """Raise unless a module is of this class and computes as the class does."""
    if not isinstance(module, cls):
        kind = type(module).__name__
        kind += " of an earlier import; make it anew" if kind == cls.__name__ else ""
        raise TypeError(f"{name} must be a {cls.__name__}, not a {kind}")
    forward = inspect.unwrap(module.forward)  # accelerate, for instance, wraps that of a module
    if getattr(forward, "__func__", forward) is not cls.forward:
        raise TypeError(
            f"{name}, a {type(module).__name__}, has a forward of its own, which would be lost; "
            f"copy its weights by load_state_dict if it computes what {cls.__name__} does"
        )


def _require_projections(module: nn.Module, *names: str) -> None:
    """Raise unless these are plain, all with a bias or none, and out_proj, if any, with one."""
    require_plain(module, *names)
    _require_one("bias", {name: module.get_submodule(name).bias is not None for name in names})
    if hasattr(module, "out_proj"):
        require_plain(module, "out_proj")
        if module.get_submodule("out_proj").bias is None:
            raise ValueError("out_proj has no bias, but the new one must; give it one of zeros")


def _require_one(kind: str, found: Mapping[str, object]) -> None:
    """Raise unless all parts of a module have the same of a kind, named by part."""
    (first, value), *others = found.items()
    for name, other in others:
        if other != value:
            raise ValueError(
                f"{name} has {kind}={other} and {first} has {kind}={value}, but the new module has "
                "one for all"
            )
