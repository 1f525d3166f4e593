"""Proofs that answer in a sentence: what was verified, or what went wrong and where."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnlib.functional import causal_mask


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and a sentence that says so."""

    holds: bool
    sentence: str

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return self.sentence


def check_equal(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> Verdict:
    """Say whether two tensors agree number by number.

    Equation:
        max |a - b| <= tolerance

    Args:
        a: any floating tensor.
        b: a tensor of the same shape.
        tolerance: the largest difference that passes.

    Returns:
        A Verdict. The largest difference is rounded up to a power of ten, and never below a
        tenth of the tolerance, so that the sentence is the same on every machine.

    >>> check_equal(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]))
    Equal within 1e-05: the largest difference is at most 1e-06.
    """
    if a.shape != b.shape:
        shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
        return Verdict(False, f"Not equal: the shapes differ, {shapes}.")
    difference = (a - b).abs()
    largest = difference.max().item() if a.numel() else 0.0
    if not largest <= tolerance:  # so written that NaN does not pass
        place = tuple(int(i) for i in torch.unravel_index(difference.argmax(), a.shape))
        return Verdict(False, f"Not equal: the largest difference is {largest:.4g}, at {place}.")
    bound = max(10.0 ** math.ceil(math.log10(largest)) if largest else 0.0, tolerance / 10)
    sentence = f"Equal within {tolerance:.0e}: the largest difference is at most {bound:.0e}."
    return Verdict(True, sentence)


def check_causal(module: nn.Module, x: Tensor) -> Verdict:
    """Say whether a module's outputs depend on the future.

    Equation:
        out[:, : t + 1] does not change by a single bit when x[:, t + 1 :] changes, for every t

    Args:
        module: takes x and returns its outputs, (b, num_tokens, ...), token by token.
        x: floating, (b, num_tokens, d_in), with at least two tokens. It is not changed.

    Returns:
        A Verdict.

    >>> check_causal(nn.Identity(), torch.ones(1, 3, 2))
    Causal: no output moved by a single bit when later tokens changed (2 cuts tried).
    """
    num_tokens = x.shape[1]
    if num_tokens < 2:
        raise ValueError(f"x has {num_tokens} token; a future needs at least 2")
    with torch.no_grad():
        before = module(x)
        for t in range(num_tokens - 1):
            changed = x.clone()
            changed[:, t + 1 :] += 1.0
            moved = (module(changed) - before)[:, : t + 1].abs().amax(dim=(0, 2))
            if moved.any():
                first = int(moved.nonzero()[0])
                return Verdict(
                    False,
                    f"Not causal: when the tokens after position {t} changed, output {first} "
                    f"moved by {moved[first].item():.4g}.",
                )
    cuts = f"{num_tokens - 1} cut{'s' if num_tokens > 2 else ''} tried"
    return Verdict(
        True, f"Causal: no output moved by a single bit when later tokens changed ({cuts})."
    )


def check_weights(attn_weights: Tensor, tolerance: float = 1e-5) -> Verdict:
    """Say whether weights are a causal average: not negative, rows sum to 1, the future at 0.

    Args:
        attn_weights: (..., num_tokens, num_tokens).
        tolerance: how far a row sum may be from 1.

    Returns:
        A Verdict.

    >>> check_weights(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    Weights: none negative, every row sums to 1 within 1e-05, exactly 0 above the diagonal.
    """
    is_future = causal_mask(attn_weights.shape[-1], device=attn_weights.device)
    if attn_weights.lt(0).any():
        return Verdict(False, f"A weight is negative: {attn_weights.min().item():.4g}.")
    furthest = (attn_weights.sum(dim=-1) - 1).abs().max().item()
    if not furthest <= tolerance:
        return Verdict(False, f"A row's sum is off from 1 by {furthest:.4g}.")
    if attn_weights[..., is_future].any():
        leak = attn_weights[..., is_future].max().item()
        return Verdict(False, f"A weight above the diagonal is {leak:.4g}, not 0.")
    return Verdict(
        True,
        f"Weights: none negative, every row sums to 1 within {tolerance:.0e}, "
        "exactly 0 above the diagonal.",
    )
