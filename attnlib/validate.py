"""Checks of arguments: each message names the argument, the value, the rule and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from numbers import Integral, Real
from typing import cast

import torch
from torch import Tensor, nn


def require_positive_int(name: str, value: object) -> None:
    """Raise unless value is a positive int, NumPy's included (True, 2.0 and "2" are not)."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a positive int, not {value!r} ({type(value).__name__})")
    if value < 1:
        raise ValueError(f"{name} must be a positive int, not {value}")


def positive_ints(**values: object) -> tuple[int, ...]:
    """Return each as a plain int, or raise unless it is positive."""
    for name, value in values.items():
        require_positive_int(name, value)
    return tuple(int(cast(Integral, value)) for value in values.values())


def is_tracing() -> bool:
    """Return whether torch.jit.trace, or the legacy ONNX exporter, is recording operations."""
    return torch.jit.is_tracing()  # type: ignore[attr-defined, no-any-return, no-untyped-call]


def is_exporting() -> bool:
    """Return whether PyTorch records a graph that is to run without this code."""
    exports = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # 2.6 has none
    return is_tracing() or exports()


def is_recording() -> bool:
    """Return whether PyTorch records the operations: compiles, exports or traces."""
    return torch.compiler.is_compiling() or is_tracing()


def require_count(name: str, value: object) -> None:
    """Raise unless value is an int >= 0, or what torch has for one while it records a module."""
    if isinstance(value, torch.SymInt) or is_tracing():  # it has tensors for sizes
        return
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int >= 0, not {value!r} ({type(value).__name__})")
    if value < 0:
        raise ValueError(f"{name} must be an int >= 0, not {value}")


def require_newest(num_queries: object, num_keys: object) -> None:
    """Raise unless these are numbers of tokens, and the queries those of the newest of the keys."""
    require_count("num_queries", num_queries)
    require_count("num_keys", num_keys)
    if num_queries is not num_keys and num_queries > num_keys:  # type: ignore[operator]
        raise ValueError(
            f"num_queries={num_queries} is more than num_keys={num_keys}, but the tokens that ask "
            "are the newest of those with keys; give the keys of all tokens so far"
        )


def require_bools(**flags: object) -> None:
    """Raise unless each of them is True or False."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, not {value!r} ({type(value).__name__})")


def require_switch(return_weights: object) -> None:
    """Raise unless return_weights is True or False, and not what forward takes elsewhere."""
    if not isinstance(return_weights, bool):
        raise TypeError(
            "return_weights, the second argument of forward, must be True or False, not "
            f"{type(return_weights).__name__}; give a mask by name, is_masked=...; keys and values "
            "are always made of x"
        )


def require_probability(name: str, value: object) -> None:
    """Raise unless value is a number from 0 to 1, NumPy's included."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number from 0 to 1, not {value!r}")
    if not 0 <= float(value) <= 1:
        raise ValueError(f"{name} must lie between 0 and 1, not {value}")


def require_rate(name: str, value: object) -> None:
    """Raise unless value is a positive, finite number, NumPy's included."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a positive number, not {value!r} ({type(value).__name__})")
    if not 0 < float(value) < float("inf"):
        raise ValueError(f"{name} must be a positive, finite number, not {value}")


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive int in ascending order."""
    return [candidate for candidate in range(1, number + 1) if number % candidate == 0]


def require_divides(count: int, whole: int, rule: str, counts: str = "counts") -> None:
    """Raise unless count divides whole; the message is the rule, and the nearest that do."""
    if count == 0 or whole % count:
        known = divisors(whole)
        below = [d for d in known if d < count][-1:]
        nearest = [*below, *(d for d in known if d > count)][:2]
        names = " and ".join(map(str, nearest))
        raise ValueError(f"{rule}; the nearest {counts} that divide {whole}: {names}")


def require_equal_heads(width: int, num_heads: int, name: str = "d_out") -> None:
    """Raise unless num_heads divides width; the message names the nearest head counts that do."""
    rule = f"{name}={width} cannot be split into num_heads={num_heads} heads of equal width"
    require_divides(num_heads, width, rule, "head counts")


def require_whole_heads(width: int, head_dim: int) -> None:
    """Raise unless a width is that of some heads, each of them whole."""
    if width % head_dim:
        raise ValueError(
            f"a width of {width} is not a multiple of head_dim={head_dim}, so it cannot be split "
            "into whole heads; where heads are shared out among processes, the number of processes "
            "must divide the number of heads"
        )


def require_whole_head(queries: Tensor, d_out: int) -> None:
    """Raise unless queries have the width of the one head that makes them."""
    if queries.shape[-1] != d_out:
        raise ValueError(
            f"W_query makes queries of width {queries.shape[-1]}, not d_out={d_out}: one head "
            "cannot be shared out among processes; stacked_to_split makes a module whose heads can"
        )


def require_shared(num_heads: int, num_kv_heads: int) -> None:
    """Raise unless each head of keys and values can be shared by equally many heads."""
    rule = f"num_kv_heads={num_kv_heads} does not divide num_heads={num_heads}"
    shared = "each head of keys and values is shared by equally many heads"
    require_divides(num_kv_heads, num_heads, f"{rule}: {shared}")


def require_floating_dtype(dtype: object) -> None:
    """Raise unless dtype can hold weights; None stands for the default."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise TypeError(f"dtype must be floating, for instance torch.float32, not {dtype!r}")


def require_tensor(name: str, x: object) -> None:
    """Raise unless x is a tensor, and not a nested one."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor, not {type(x).__name__}; try torch.tensor({name})"
        )
    if x.is_nested:
        raise TypeError(
            f"{name} must not be a nested tensor; try torch.nested.to_padded_tensor({name}, 0.0)"
        )


def require_floating(name: str, x: object) -> None:
    """Raise unless x is a tensor of floating-point numbers."""
    require_tensor(name, x)
    if not cast(Tensor, x).is_floating_point():
        raise TypeError(
            f"{name} must hold floating-point numbers, not {cast(Tensor, x).dtype}; "
            f"try {name}.float()"
        )


def plain_weight(projection: nn.Module) -> Tensor | None:
    """Return the weight of a projection that is nn.Linear, or computes as it does, else None.

    A projection that somebody wraps, quantizes or prunes may hold its numbers in another dtype,
    or nowhere; what it accepts is its own affair. The parameter is looked up where nn.Module
    keeps it: a weight that is computed anew on each access is not computed for this.
    """
    if type(projection).forward is not nn.Linear.forward:
        return None
    return projection._parameters.get("weight")


def _weight_that_multiplies(projection: nn.Module) -> Tensor | None:
    """Return the weight of an nn.Linear if it is certain that forward will multiply by this one.

    Sharding (FSDP, tensor parallelism) makes a subclass of nn.Linear, or of the parameter, and may
    convert the dtypes of both x and the weight before they meet.
    """
    weight = projection._parameters.get("weight") if type(projection) is nn.Linear else None
    return weight if type(weight) is nn.Parameter else None


def require_plain(module: nn.Module, *names: str) -> None:
    """Raise unless the projections of these names hold their weights as nn.Linear does."""
    for name in names:
        projection = module.get_submodule(name)
        if plain_weight(projection) is None:
            computed = " whose weight is computed" if isinstance(projection, nn.Linear) else ""
            raise TypeError(
                f"{name} is a {type(projection).__name__}{computed}, not a plain nn.Linear; "
                "merge it into one first: only its weight and bias can be copied"
            )


def dropout_rate(dropout: nn.Module) -> float:
    """Return the share that a part drops; somebody may have exchanged it."""
    if not isinstance(dropout, (nn.Dropout, nn.Identity)):
        raise TypeError(
            f"dropout is a {type(dropout).__name__}, but kernels and conversions know nn.Dropout "
            "and nn.Identity only; return_weights=True applies any module"
        )
    return dropout.p if isinstance(dropout, nn.Dropout) else 0.0


def autocasts(device: torch.device) -> bool:
    """Return whether autocast converts dtypes on this device; not every device has it."""
    kind = device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def require_like(name: str, x: Tensor, other: Tensor | None, others: str = "the weights") -> None:
    """Raise unless x is on the device of the others and, if it is floating, has their dtype.

    Where there is no other there is nothing to compare.
    """
    if other is None:
        return
    verb = "are" if name.endswith("s") else "is"
    if x.device != other.device:
        raise ValueError(
            f"{name} {verb} on {x.device}, {others} are on {other.device}; "
            f"try {name}.to('{other.device}')"
        )
    same_kind = x.dtype == other.dtype or not x.is_floating_point()
    if not same_kind and not autocasts(x.device):
        raise TypeError(
            f"{name} {verb} {x.dtype}, {others} are {other.dtype}; try {name}.to({other.dtype})"
        )


def require_parts(queries: Tensor, keys: Tensor, values: Tensor) -> None:
    """Raise unless the queries have scores with the keys, each of which has one value."""
    for name, x in (("queries", queries), ("keys", keys), ("values", values)):
        require_floating(name, x)
        if x.ndim < 2:
            raise ValueError(f"{name} must be (..., num_tokens, width), not {tuple(x.shape)}")
        require_like(name, x, queries, "queries")
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            "queries and keys must have one width, head_dim, "
            f"not {queries.shape[-1]} and {keys.shape[-1]}"
        )
    if keys.shape[-2] != values.shape[-2]:
        raise ValueError(
            "each key needs one value: keys and values must have equally many tokens, "
            f"not {keys.shape[-2]} and {values.shape[-2]}"
        )


def require_attention(
    queries: Tensor, keys: Tensor, values: Tensor, is_masked: Tensor | None, dropout: object
) -> None:
    """Raise unless attention can compute: the batches fit, is_masked is a mask for the scores."""
    require_parts(queries, keys, values)
    given = {"queries": queries, "keys": keys, "values": values}
    for (name, x), (other, y) in combinations(given.items(), 2):
        pairs = zip(x.shape[-3::-1], y.shape[-3::-1], strict=False)
        if any(size != twin and size != 1 and twin != 1 for size, twin in pairs):
            raise ValueError(
                f"{name} and {other} must agree in all dimensions but the last two, or be 1 there, "
                f"not {tuple(x.shape)} and {tuple(y.shape)}"
            )
    if is_masked is not None:
        batch = queries.shape[:-2]
        if batch != keys.shape[:-2]:  # asked first, because broadcast_shapes is slow
            batch = torch.broadcast_shapes(batch, keys.shape[:-2])  # type: ignore[no-untyped-call]
        require_mask(is_masked, (*batch, queries.shape[-2], keys.shape[-2]), queries)
    if dropout is not None and not callable(dropout):
        raise TypeError(f"dropout must be a function, for instance an nn.Dropout, not {dropout!r}")


def require_mask(
    is_masked: Tensor, sizes: Sequence[int], other: Tensor, others: str = "queries"
) -> None:
    """Raise unless a mask is bool, on the other's device, and broadcastable to the scores."""
    require_tensor("is_masked", is_masked)
    if is_masked.dtype != torch.bool:
        raise TypeError(
            f"is_masked must be bool (True: may not attend), not {is_masked.dtype}; "
            "try is_masked.bool()"
        )
    require_broadcastable("is_masked", is_masked, sizes)
    require_like("is_masked", is_masked, other, others)


def require_broadcastable(name: str, mask: Tensor, sizes: Sequence[int]) -> None:
    """Raise unless a mask broadcasts to the sizes of the scores: it neither enlarges nor crops."""
    missing = len(sizes) - mask.ndim
    pairs = zip(mask.shape, sizes[missing:], strict=False)  # a list: faster in each decode step
    if missing < 0 or [size for size, want in pairs if size not in (1, want)]:
        raise ValueError(
            f"{name} must be broadcastable to (..., num_queries, num_keys) = {tuple(sizes)}, "
            f"not {tuple(mask.shape)}"
        )


def require_shape(name: str, x: Tensor, shape: str) -> None:
    """Raise unless x is a tensor of as many dimensions as a shape, "(b, num_tokens)", names."""
    require_tensor(name, x)
    if x.ndim != shape.count(",") + 1:
        remedy = f"; for one sequence try {name}.unsqueeze(0)" if x.ndim == shape.count(",") else ""
        raise ValueError(f"{name} must be {shape}, not {x.ndim}-d, {tuple(x.shape)}{remedy}")


def require_input(x: Tensor, d_in: int, context_length: int, projection: nn.Module) -> None:
    """Raise unless x is a batch of token vectors that the projection can multiply."""
    require_floating("x", x)
    require_shape("x", x, "(b, num_tokens, d_in)")
    if x.shape[2] != d_in:
        raise ValueError(
            f"the last dimension of x must be d_in={d_in}, not {x.shape[2]}: {tuple(x.shape)}"
        )
    if x.shape[1] > context_length:
        raise ValueError(
            f"x has {x.shape[1]} tokens, more than context_length={context_length}; "
            f"try x[:, -{context_length}:] or a larger context_length"
        )
    require_like("x", x, _weight_that_multiplies(projection))
