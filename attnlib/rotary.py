"""Rotary positions: queries and keys are rotated by angles that grow with their position.

The score of two tokens then depends on their vectors and on their distance, not on where they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlib.validate import (
    is_recording,
    positive_ints,
    require_floating,
    require_floating_dtype,
    require_rate,
    require_tensor,
)


def rotary_cos_sin(
    positions: Tensor, head_dim: int, base: float = 10_000.0, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the angles by which each position rotates its pairs of numbers.

    Equation:
        angle[..., t, i] = positions[..., t] / base^(2i / head_dim), for pair i of head_dim / 2

    Args:
        positions: (..., num_tokens), int, float32 or float64: 0 rotates nothing. Divided by a
            factor they are linear rope scaling.
        head_dim: width of a head, even.
        base: the slowest pair rotates about base times more slowly than the fastest, > 0.
        dtype: floating dtype of the result, torch's default if None. The angles are computed in
            float32 at least.

    Returns:
        cos and sin, (..., num_tokens, head_dim / 2) each.

    Raises:
        TypeError: an argument is of the wrong type; half precision cannot count positions.
        ValueError: positions are a single number, head_dim is odd or not positive, or base is.

    >>> cos, sin = rotary_cos_sin(torch.arange(3), head_dim=4, base=100.0)
    >>> torch.atan2(sin, cos)  # the second pair is 100^(2/4) = 10 times slower
    tensor([[0.0000, 0.0000],
            [1.0000, 0.1000],
            [2.0000, 0.2000]])

    Source: Su et al. 2021 (RoFormer), section 3.4.2: positions are m, the angles m theta_i.
    """
    _require_positions(positions)
    (head_dim,) = positive_ints(head_dim=head_dim)
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, as numbers rotate in pairs, not {head_dim}")
    require_rate("base", base)
    require_floating_dtype(dtype)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    wide = torch.promote_types(dtype, torch.float32)
    exponents = torch.arange(0, head_dim, 2, dtype=wide, device=positions.device) / head_dim
    angles = positions[..., None].to(wide) * (
        1 / base**exponents
    )  # (..., num_tokens, head_dim / 2)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate_half(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate number i of each head together with number i + head_dim / 2.

    Equation:
        y[i] = x[i] cos[i] - x[i + head_dim / 2] sin[i]
        y[i + head_dim / 2] = x[i + head_dim / 2] cos[i] + x[i] sin[i]

    Args:
        x: floating, (..., num_tokens, head_dim): queries or keys.
        cos: of rotary_cos_sin, (..., num_tokens, head_dim / 2).
        sin: of the same shape.

    Returns:
        The rotated x, of the same shape and dtype. A rotation keeps each vector's length.

    Raises:
        TypeError: x, cos or sin is no tensor of floating-point numbers.
        ValueError: cos and sin are not for these tokens or this head_dim.

    >>> quarter = torch.zeros(1, 2), torch.ones(1, 2)  # cosine and sine of a quarter turn
    >>> rotate_half(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), *quarter).tolist()
    [[-3.0, -4.0, 1.0, 2.0]]

    Source: the layout of GPT-NeoX, of Llama in transformers, and of most models there.
    transformers' function of this name does the inner part only: it returns (-x2, x1).
    """
    _require_cos_sin(x, cos, sin)
    first, second = x.to(_wide(x)).chunk(2, dim=-1)
    return torch.cat(_rotate(first, second, cos, sin), dim=-1).to(x.dtype)


def rotate_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate numbers 2i and 2i + 1 of each head together.

    Equation:
        y[2i] = x[2i] cos[i] - x[2i + 1] sin[i], y[2i + 1] = x[2i + 1] cos[i] + x[2i] sin[i]

    Args, Returns and Raises are those of rotate_half. It is that function with the numbers of a
    head in another order, so weights for one layout become weights for the other by permuting rows.

    >>> quarter = torch.zeros(1, 2), torch.ones(1, 2)
    >>> rotate_interleaved(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), *quarter).tolist()
    [[-2.0, 1.0, -4.0, 3.0]]

    Source: Su et al. 2021, equation 34; the layout of Llama as Meta released it, and of GPT-J.
    """
    _require_cos_sin(x, cos, sin)
    wide = _wide(x)
    if is_recording():
        first, second = x.to(wide)[..., 0::2], x.to(wide)[..., 1::2]
        rotated = torch.stack(_rotate(first, second, cos, sin), dim=-1)
        return rotated.flatten(-2).to(x.dtype)
    x_wide = x.to(wide, copy=True, memory_format=torch.contiguous_format)
    pairs = torch.view_as_complex(x_wide.view(*x.shape[:-1], x.shape[-1] // 2, 2))
    rotated = torch.view_as_real(pairs * torch.complex(cos.to(wide), sin.to(wide)))
    return rotated.flatten(-2).to(x.dtype)


ROTATIONS = {"half": rotate_half, "interleaved": rotate_interleaved}


def _wide(x: Tensor) -> torch.dtype:
    """Return the dtype in which x is rotated: float32 at least."""
    return torch.promote_types(x.dtype, torch.float32)


def _rotate(first: Tensor, second: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Rotate pairs of numbers, given apart from one another.

    One product of complex numbers takes a third of the time of four real ones, but no compiler
    makes code for it, and the legacy ONNX exporter knows no complex numbers.
    """
    cos, sin = cos.to(first.dtype), sin.to(first.dtype)
    if is_recording():
        return first * cos - second * sin, second * cos + first * sin
    rotated = torch.complex(first, second) * torch.complex(cos, sin)
    return rotated.real, rotated.imag


def _require_positions(positions: Tensor) -> None:
    """Raise unless positions are numbers that can count far enough."""
    require_tensor("positions", positions)
    if positions.ndim == 0:
        raise ValueError("positions must be (..., num_tokens), not a single number")
    if positions.dtype in (torch.float16, torch.bfloat16, torch.bool):
        raise TypeError(
            f"positions must be int, float32 or float64, not {positions.dtype}, which cannot hold "
            "all whole numbers up to a usual length; try torch.arange(num_tokens)"
        )


def _require_cos_sin(x: Tensor, cos: Tensor, sin: Tensor) -> None:
    """Raise unless cos and sin fit x."""
    for name, given in {"x": x, "cos": cos, "sin": sin}.items():
        require_floating(name, given)
    fits = x.ndim > 1 < cos.ndim <= x.ndim and cos.shape == sin.shape
    fits = fits and (cos.shape[-2], 2 * cos.shape[-1]) == x.shape[-2:]
    pairs = zip(cos.shape[-3::-1], x.shape[-3::-1], strict=False)
    if not fits or any(size not in (1, want) for size, want in pairs):
        raise ValueError(
            "cos and sin must be (..., num_tokens, head_dim / 2) for x, (..., num_tokens, "
            f"head_dim), not {tuple(cos.shape)} and {tuple(sin.shape)} for {tuple(x.shape)}"
        )
    if not x.device == cos.device == sin.device:
        raise ValueError(
            f"cos and sin must be on {x.device}, as x is, not on {cos.device} and {sin.device}; "
            "try rotary_cos_sin of positions on that device"
        )
