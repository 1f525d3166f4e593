"""A learner's class and the right one: their sizes, their weights, and a run of each."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.checks.attempt import Diagnosis, draw, name_shape, returns_weights, run
from attncourse.checks.door import Maker
from attncourse.checks.explained import Departure
from attncourse.checks.verdict import Note
from attncourse.tracing.operations import Line, Recording
from attnlib.convert import PROJECTIONS
from attnlib.functional import split_heads
from attnlib.modules import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper

# Distinct primes: a wrong axis cannot pass by coincidence, and a product tells its factors
B, NUM_HEADS, NUM_TOKENS, HEAD_DIM, D_IN, CONTEXT_LENGTH = 2, 3, 5, 7, 11, 13
NO_WEIGHTS: Mapping[str, Tensor] = {}


class Pair:
    """A learner's class beside the class that is right.

    Args:
        make: makes modules of the learner's class.
        right: CausalAttention, MultiHeadAttentionWrapper or MultiHeadAttention.
        one_width: whether the learner's class needs d_in equal to the width of its result.
    """

    def __init__(self, make: Maker, right: type[nn.Module], one_width: bool = False) -> None:
        self.make = make
        self.right = right
        self.one_width = one_width
        self.notes: list[Note] = []
        self._constructed: dict[int, tuple[nn.Module, Recording]] = {}

    @property
    def head_counts(self) -> tuple[int, ...]:
        """One head first: there, splitting and merging do nothing."""
        return (1,) if self.right is CausalAttention else (1, NUM_HEADS)

    @property
    def head_width(self) -> str:
        """What the width of one head is called."""
        return "head_dim" if self.right is MultiHeadAttention else "d_out"

    def d_in(self, num_heads: int | None = None) -> int:
        """Return the width of the tokens."""
        return self.width(num_heads or self.head_counts[-1]) if self.one_width else D_IN

    def sizes(self, num_heads: int = NUM_HEADS) -> dict[str, int]:
        """Return the names of the sizes, for sentences about shapes."""
        sizes = {
            "b": B,
            "num_tokens": NUM_TOKENS,
            "d_in": self.d_in(num_heads),
            "context_length": CONTEXT_LENGTH,
        }
        if self.right is not CausalAttention:
            sizes["num_heads"] = num_heads
        if self.right is MultiHeadAttention:
            return sizes | {"head_dim": HEAD_DIM, "d_out": num_heads * HEAD_DIM}
        return sizes | {"d_out": HEAD_DIM}

    def width(self, num_heads: int = NUM_HEADS) -> int:
        """Return how many columns the result has."""
        return HEAD_DIM if self.right is CausalAttention else num_heads * HEAD_DIM

    def arguments(
        self,
        num_heads: int = NUM_HEADS,
        context_length: int = CONTEXT_LENGTH,
        dropout: float = 0.0,
        qkv_bias: bool = False,
    ) -> dict[str, Any]:
        """Return what a module is made with."""
        sizes = self.sizes(num_heads) | {"context_length": context_length}
        taken = inspect.signature(self.right).parameters
        arguments: dict[str, Any] = {name: sizes[name] for name in sizes if name in taken}
        arguments["dropout"] = dropout
        if qkv_bias:  # not handed over otherwise: False must be the default
            arguments["qkv_bias"] = True
        return arguments

    def build(
        self,
        num_heads: int = NUM_HEADS,
        context_length: int = CONTEXT_LENGTH,
        dropout: float = 0.0,
        qkv_bias: bool = False,
    ) -> tuple[nn.Module, nn.Module]:
        """Return a module of the learner's class and one of ours, both in eval."""
        arguments = self.arguments(num_heads, context_length, dropout, qkv_bias)
        mine = self.make(**arguments)
        set_mode(mine, training=False)
        for name in ("train", "eval", "half", "double", "to"):
            if name in vars(mine):
                self.note(f"self.{name} hides nn.Module's method of that name.")
        return mine, self.right(**arguments).eval()

    def weights(self, num_heads: int = NUM_HEADS, **matrices: Tensor) -> dict[str, Tensor]:
        """Return the three projections, under the names of this class; out_proj does nothing.

        Each is (num_heads * head_dim, d_in), and random where it is not given.
        """
        named = {}
        for seed, name in enumerate(PROJECTIONS, start=10):
            random = draw(num_heads * HEAD_DIM, self.d_in(num_heads), seed=seed) / 3
            matrix = matrices.get(name, random)
            if self.right is MultiHeadAttentionWrapper:
                for h, rows in enumerate(matrix.chunk(num_heads)):
                    named[f"heads.{h}.{name}.weight"] = rows
            else:
                named[f"{name}.weight"] = matrix
        if self.right is MultiHeadAttention:
            named["out_proj.weight"] = torch.eye(num_heads * HEAD_DIM)
            named["out_proj.bias"] = torch.zeros(num_heads * HEAD_DIM)
        return named

    def random_weights(self, ours: nn.Module) -> dict[str, Tensor]:
        """Return random weights for every parameter of ours."""
        return {
            name: draw(*parameter.shape, seed=seed) / 3
            # not the seeds of x: rows of x in W_key would give numbers that occur twice
            for seed, (name, parameter) in enumerate(ours.named_parameters(), start=100)
        }

    def run(
        self,
        mine: nn.Module,
        x: Tensor,
        weights: Mapping[str, Tensor] = NO_WEIGHTS,
        num_heads: int = NUM_HEADS,
        before: str = "",
    ) -> Tensor:
        """Run the learner's module; a result of another shape or dtype is a Diagnosis too."""
        sizes = self.sizes(num_heads) | {"b": x.shape[0], "num_tokens": x.shape[1]}
        result = run(mine, x, self.make.fit(mine, weights), sizes, before)
        have, want = tuple(result.shape), (*x.shape[:2], self.width(num_heads))
        if have != want:
            place = "makes context_vec" if self.right is CausalAttention else "joins the heads"
            if (cut := self._fewer_tokens(mine, x, result)) is not None:
                raise Diagnosis(f"{before}{cut.cause}", cut.code, cut.line)
            raise Diagnosis(
                f"{before}The result is {name_shape(have, sizes)} where {name_shape(want, sizes)} "
                f"is right: look at the line that {place}.",
                "result.shape",
                self._line_of_the_result(mine, x),
            )
        if result.dtype != x.dtype:
            raise Diagnosis(
                f"{before}The result is {result.dtype} for x of {x.dtype}: a line makes numbers of "
                "another dtype. Give new tensors dtype=x.dtype, and bring results back by "
                ".to(x.dtype).",
                "result.dtype",
                self._line_of_the_dtype(mine, x) or self._line_of_the_result(mine, x),
            )
        return result

    def _fewer_tokens(self, mine: nn.Module, x: Tensor, result: Tensor) -> Departure | None:
        """Return what is to be said of a line that leaves out tokens, if one does."""
        num_tokens = x.shape[1]
        whole = result.ndim == 3 and result.shape[1] < num_tokens
        if num_tokens == 1 or (not whole and result.shape != (x.shape[0], self.width())):
            return None
        recording, _ = self.record(mine, x)
        start = recording.number_of(x) or 0
        operations = recording.operations
        cuts = {"__getitem__", "narrow", "select"}
        lines: dict[Line | None, set[int]] = {}
        for made in operations[start + 1 :]:
            if made.name in cuts and made.values.ndim > 1:
                lines.setdefault(made.line, set()).add(made.values.shape[1])
        for operation in operations[start + 1 :]:
            if operation.name not in cuts or operation.line is None:
                continue
            rounds = [o for o in operations if o.line == operation.line and o.name in cuts]
            if len(lines.get(operation.line, ())) > 1 or (not whole and len(rounds) > 1):
                continue  # a loop over the tokens
            before = next((operations[n].values for n in operation.parents if n >= start), None)
            if before is None or before.shape[1:2] != (num_tokens,) or before.ndim != 3:
                continue
            left = operation.values.shape[1:2] if operation.values.ndim == 3 else ()
            if left == result.shape[1:2] and whole:
                said = f"{num_tokens} tokens come in here, and {left[0]} go on"
            elif not whole and operation.values.shape == before[:, 0].shape:
                said = f"{num_tokens} tokens come in here, and one goes on"
            else:
                continue
            return Departure(
                "result.tokens",
                f"{said}: each token needs a result of its own.",
                operation.line,
            )
        return None

    def attn_weights_of(
        self, mine: nn.Module, x: Tensor, num_heads: int, before: str = "", **matrices: Tensor
    ) -> Tensor:
        """Return the attention weights, read off the result: (b, num_heads, num_tokens, head_dim).

        The tokens of x carry marks: token t is 1 in column t and 0 in the columns of the others.
        Every head's values copy the marks. So column j of a result says how much token j weighs
        in it; the last two columns repeat the first two.
        """
        marks = torch.eye(NUM_TOKENS, self.d_in(num_heads))
        copies = torch.cat([marks, marks[: HEAD_DIM - NUM_TOKENS]])
        weights = self.weights(num_heads, W_value=copies.repeat(num_heads, 1), **matrices)
        weights = {name: weight.to(x.dtype) for name, weight in weights.items()}
        return split_heads(self.run(mine, x, weights, num_heads, before).detach(), num_heads)

    def marked_tokens(self, b: int = B, num_tokens: int = NUM_TOKENS, num_heads: int = 1) -> Tensor:
        """Return tokens that carry their marks, (b, num_tokens, d_in); the rest is random."""
        x = draw(b, NUM_TOKENS, self.d_in(num_heads), seed=1)
        x[:, :, :NUM_TOKENS] = torch.eye(NUM_TOKENS)
        return x[:, :num_tokens].contiguous()

    def record(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor] = NO_WEIGHTS
    ) -> tuple[Recording, Tensor | None]:
        """Run forward once more and return all its operations; on an error, those before it."""
        _, recording = self._constructed.get(id(mine), (mine, Recording()))
        given = {name: weight.clone() for name, weight in self.make.fit(mine, weights).items()}
        parameters = dict(mine.named_parameters())
        recording.give({"x": x, **parameters, **given})
        result = None
        try:
            with recording:
                result = run(mine, x, given)
        except Diagnosis:
            pass
        return recording, result

    def recorded_build(self, num_heads: int, **options: Any) -> tuple[nn.Module, nn.Module]:
        """Build as build does, and remember the operations of the constructor."""
        recording = Recording()
        with recording:
            mine = self.make(**self.arguments(num_heads, **options))
        self._constructed[id(mine)] = mine, recording
        set_mode(mine, training=False)
        return mine, self.right(**self.arguments(num_heads, **options)).eval()

    def note(self, text: str, code: str = "") -> None:
        """Keep what is worth a word and no fault; with a code it stays out of the sentence."""
        if text not in self.notes:
            self.notes.append(Note(text, code))

    def returns_weights(self, mine: nn.Module) -> bool:
        """Return whether forward can return the attention weights too."""
        return returns_weights(mine.forward)

    def _line_of_the_result(self, mine: nn.Module, x: Tensor) -> Line | None:
        """Return the last line that shaped the result."""
        recording, result = self.record(mine, x)
        if result is None:
            return None
        number = recording.number_of(result)
        while number is not None:
            operation = recording.operations[number]
            if operation.name != "linear" and operation.line is not None:
                return operation.line
            number = operation.parents[0] if operation.parents else None
        return None

    def _line_of_the_dtype(self, mine: nn.Module, x: Tensor) -> Line | None:
        """Return the first line that makes a floating tensor of another dtype out of x."""
        recording, _ = self.record(mine, x)
        start = recording.number_of(x)
        for operation in recording.operations[start or 0 :]:
            if (
                operation.line is not None
                and operation.values.is_floating_point()
                and operation.values.dtype != x.dtype
            ):
                return operation.line
        return None


def set_mode(module: nn.Module, training: bool) -> None:
    """Put a module and its parts into training or eval, also where an attribute is named so."""
    for part in module.modules():
        part.training = training


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> bool:
    """Return whether two tensors of one shape agree; NaN agrees with nothing."""
    return bool((a - b).abs().max() <= tolerance)
