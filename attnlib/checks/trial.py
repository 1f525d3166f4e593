"""A learner's class, run beside the right one on inputs and weights of our choice."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attnlib.checks.attempt import NOT_ATTEMPTED, Diagnosis, draw, name_shape, reporting, run
from attnlib.convert import PROJECTIONS
from attnlib.functional import split_heads
from attnlib.modules import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper

# Distinct primes: a wrong axis cannot pass by coincidence, and a product tells its factors
B, NUM_HEADS, NUM_TOKENS, HEAD_DIM, D_IN, CONTEXT_LENGTH = 2, 3, 5, 7, 11, 13
NO_WEIGHTS: Mapping[str, Tensor] = {}


class Trial:
    """A learner's class beside the class that is right.

    Args:
        written: the learner's class.
        right: CausalAttention, MultiHeadAttentionWrapper or MultiHeadAttention.
    """

    def __init__(self, written: type[nn.Module], right: type[nn.Module]) -> None:
        self.written = written
        self.right = right

    @property
    def head_counts(self) -> tuple[int, ...]:
        """One head first: there, splitting and merging do nothing."""
        return (1,) if self.right is CausalAttention else (1, NUM_HEADS)

    def sizes(self, num_heads: int = NUM_HEADS) -> dict[str, int]:
        """Return the names of the sizes, for sentences about shapes."""
        sizes = {"b": B, "num_tokens": NUM_TOKENS, "d_in": D_IN, "context_length": CONTEXT_LENGTH}
        if self.right is not CausalAttention:
            sizes["num_heads"] = num_heads
        if self.right is MultiHeadAttention:
            return sizes | {"head_dim": HEAD_DIM, "d_out": num_heads * HEAD_DIM}
        return sizes | {"d_out": HEAD_DIM}

    def width(self, num_heads: int = NUM_HEADS) -> int:
        """Return how many columns the result has."""
        return HEAD_DIM if self.right is CausalAttention else num_heads * HEAD_DIM

    def build(
        self,
        num_heads: int = NUM_HEADS,
        context_length: int = CONTEXT_LENGTH,
        dropout: float = 0.0,
        qkv_bias: bool = False,
    ) -> tuple[nn.Module, nn.Module]:
        """Return a module of the learner's class and one of ours, both in eval."""
        sizes = self.sizes(num_heads) | {"context_length": context_length}
        taken = inspect.signature(self.right).parameters
        arguments: dict[str, Any] = {name: sizes[name] for name in sizes if name in taken}
        arguments["dropout"] = dropout
        if qkv_bias:  # not handed over otherwise: False must be the default
            arguments["qkv_bias"] = True
        with reporting():
            mine = self.written(**arguments)
        if "_modules" not in vars(mine):
            raise Diagnosis(f"{NOT_ATTEMPTED}: __init__ does not call super().__init__()")
        return mine.eval(), self.right(**arguments).eval()

    def weights(self, num_heads: int = NUM_HEADS, **matrices: Tensor) -> dict[str, Tensor]:
        """Return the three projections, under the names of this class; out_proj does nothing.

        Each is (num_heads * head_dim, d_in), and random where it is not given.
        """
        named = {}
        for seed, name in enumerate(PROJECTIONS, start=10):
            matrix = matrices.get(name, draw(num_heads * HEAD_DIM, D_IN, seed=seed) / 3)
            if self.right is MultiHeadAttentionWrapper:
                for h, rows in enumerate(matrix.chunk(num_heads)):
                    named[f"heads.{h}.{name}.weight"] = rows
            else:
                named[f"{name}.weight"] = matrix
        if self.right is MultiHeadAttention:
            named["out_proj.weight"] = torch.eye(num_heads * HEAD_DIM)
            named["out_proj.bias"] = torch.zeros(num_heads * HEAD_DIM)
        return named

    def run(
        self,
        mine: nn.Module,
        x: Tensor,
        weights: Mapping[str, Tensor] = NO_WEIGHTS,
        num_heads: int = NUM_HEADS,
        before: str = "",
    ) -> Tensor:
        """Run the learner's module; a result of another shape is a Diagnosis too."""
        sizes = self.sizes(num_heads)
        result = run(mine, x, weights, sizes, before)
        have, want = tuple(result.shape), (*x.shape[:2], self.width(num_heads))
        if have == want:
            return result
        place = "makes context_vec" if self.right is CausalAttention else "joins the heads"
        raise Diagnosis(
            f"{before}The result is {name_shape(have, sizes)} where {name_shape(want, sizes)} is "
            f"right: look at the line that {place}."
        )

    def attn_weights_of(
        self, mine: nn.Module, x: Tensor, num_heads: int, before: str = "", **matrices: Tensor
    ) -> Tensor:
        """Return the attention weights, read off the result: (b, num_heads, num_tokens, head_dim).

        The tokens of x carry marks: token t is 1 in column t and 0 in the columns of the others.
        Every head's values copy the marks. So column j of a result says how much token j weighs
        in it; the last two columns repeat the first two.
        """
        marks = torch.eye(NUM_TOKENS, D_IN)
        copies = torch.cat([marks, marks[: HEAD_DIM - NUM_TOKENS]])
        weights = self.weights(num_heads, W_value=copies.repeat(num_heads, 1), **matrices)
        weights = {name: weight.to(x.dtype) for name, weight in weights.items()}
        return split_heads(self.run(mine, x, weights, num_heads, before).detach(), num_heads)


def marked_tokens(b: int = B, num_tokens: int = NUM_TOKENS) -> Tensor:
    """Return tokens that carry their marks, (b, num_tokens, d_in); the other columns are random."""
    x = draw(b, NUM_TOKENS, D_IN, seed=1)
    x[:, :, :NUM_TOKENS] = torch.eye(NUM_TOKENS)
    return x[:, :num_tokens]


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> bool:
    """Return whether two tensors of one shape agree; NaN agrees with nothing."""
    return bool((a - b).abs().max() <= tolerance)
