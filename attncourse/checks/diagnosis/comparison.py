"""A learner's class beside the right one: their sizes, their parameters, and runs of both."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, cached_property
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.checks.diagnosis.first_difference import first_difference
from attncourse.checks.diagnosis.labeled_run import RANDOM, LabeledRun
from attncourse.checks.diagnosis.quantities import quantities
from attncourse.checks.findings import Finding
from attncourse.checks.module_factory import ModuleFactory
from attncourse.checks.safe_run import FaultFound, draw, run
from attncourse.tracing.class_text import ClassText, functions_used_by, own_functions
from attncourse.tracing.operations import Operation, Recording, SourceLine
from attnlib.convert import PROJECTIONS
from attnlib.functional import split_heads
from attnlib.modules import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper

# Distinct primes: a wrong axis cannot pass by coincidence, and a product tells its factors. None
# is a size that a lesson shows for the same thing, such as 2 sequences, 2 heads or 6 tokens, and
# none is d_in // num_heads, head_dim // num_heads or the whole part of the root of head_dim.
B, NUM_HEADS, NUM_TOKENS, HEAD_DIM, D_IN, CONTEXT_LENGTH = 3, 5, 7, 23, 31, 13
DROPOUT = 0.25
NO_WEIGHTS: Mapping[str, Tensor] = {}


class Comparison:
    """A learner's class beside the class that is right.

    Args:
        make: makes modules of the learner's class.
        right: CausalAttention, MultiHeadAttentionWrapper or MultiHeadAttention.
    """

    def __init__(self, make: ModuleFactory, right: type[nn.Module]) -> None:
        self.make, self.right = make, right
        self.notes: list[Finding] = []
        self._recordings: dict[nn.Module, Recording] = {}  # of constructors, then of runs
        self._ours = cache(lambda sizes: right(**dict(sizes)).eval())  # they stay as they are

    # Sizes

    @property
    def num_heads(self) -> int:
        """How many heads the usual run has."""
        return 1 if self.right is CausalAttention else NUM_HEADS

    @property
    def width(self) -> int:
        """How many columns the result has."""
        return self.num_heads * HEAD_DIM

    def sizes(self, num_tokens: int = NUM_TOKENS) -> dict[str, int]:
        """Return the sizes by name."""
        sizes = {"b": B, "num_tokens": num_tokens, "d_in": D_IN, "context_length": CONTEXT_LENGTH}
        if self.right is not CausalAttention:
            sizes["num_heads"] = self.num_heads
        if self.right is MultiHeadAttention:
            return sizes | {"head_dim": HEAD_DIM, "d_out": self.width}
        return sizes | {"d_out": HEAD_DIM}

    # Modules and their parameters

    def arguments(self, **options: Any) -> dict[str, Any]:
        """Return what a module is made with."""
        sizes = self.sizes() | {"dropout": 0.0}
        taken = inspect.signature(self.right).parameters
        arguments = {name: sizes[name] for name in sizes if name in taken}
        return arguments | options  # no qkv_bias: False must be the default

    def build(self, training: bool = False, **options: Any) -> tuple[nn.Module, nn.Module]:
        """Return a module of the learner's class, and one of ours in eval."""
        arguments = self.arguments(**options)
        with Recording() as recording:
            mine = self.make(**arguments)
        self._recordings[mine] = recording
        for part in mine.modules():  # not train(), which a class may overwrite
            part.training = training
        return mine, self._ours(tuple(arguments.items()))

    def weights(self, **matrices: Tensor) -> dict[str, Tensor]:
        """Return the three projections, under the names of this class; out_proj does nothing.

        Each is (num_heads * head_dim, d_in), and random where it is not given.
        """
        named = {}
        for seed, name in enumerate(PROJECTIONS, start=10):
            random = draw(self.width, D_IN, seed=seed) / 3
            matrix = matrices.get(name, random)
            if self.right is MultiHeadAttentionWrapper:
                for h, rows in enumerate(matrix.chunk(self.num_heads)):
                    named[f"heads.{h}.{name}.weight"] = rows
            else:
                named[f"{name}.weight"] = matrix
        if self.right is MultiHeadAttention:
            named["out_proj.weight"] = torch.eye(self.width)
            named["out_proj.bias"] = torch.zeros(self.width)
        return named

    def random_weights(self, ours: nn.Module) -> dict[str, Tensor]:
        """Return random weights for every parameter of ours."""
        return {
            name: draw(*parameter.shape, seed=seed) / 3
            # not the seeds of x: rows of x in W_key would give numbers that occur twice
            for seed, (name, parameter) in enumerate(ours.named_parameters(), start=100)
        }

    def note(self, code: str, **facts: Any) -> None:
        """Keep what is worth a word and no fault."""
        if code not in [note.code for note in self.notes]:
            self.notes.append(Finding(code, None, facts))

    # Runs

    def run(
        self,
        mine: nn.Module,
        x: Tensor,
        weights: Mapping[str, Tensor] = NO_WEIGHTS,
    ) -> Tensor:
        """Run the learner's module; a result of another shape or dtype is FaultFound too."""
        sizes = self.sizes(x.shape[1]) | {"b": x.shape[0]}
        result = run(mine, x, self.make.fit(mine, weights), sizes)
        have, want = tuple(result.shape), (*x.shape[:2], self.width)
        if have != want:
            facts = {"have": have, "want": want, "sizes": sizes}
            raise FaultFound(Finding("result.shape", self._line_of_the_result(mine, x), facts))
        if result.dtype != x.dtype:
            line = self.line_of_dtype(mine, x) or self._line_of_the_result(mine, x)
            dtypes = {"dtype": result.dtype, "x_dtype": x.dtype}
            raise FaultFound(Finding("result.dtype", line, dtypes))
        return result

    def usual_x(self, num_tokens: int = NUM_TOKENS) -> Tensor:
        """Return random tokens for the most heads."""
        return draw(B, num_tokens, D_IN, seed=1)

    def marked_tokens(self, b: int = B) -> Tensor:
        """Return tokens that carry their marks, (b, num_tokens, d_in); the rest is random."""
        x = draw(b, NUM_TOKENS, D_IN, seed=1)
        x[:, :, :NUM_TOKENS] = torch.eye(NUM_TOKENS)
        return x

    def attn_weights_of(self, mine: nn.Module, x: Tensor, **matrices: Tensor) -> Tensor:
        """Return the attention weights, read off the result: (b, num_heads, num_tokens, head_dim).

        The tokens of x carry marks: token t is 1 in column t and 0 in the columns of the others.
        Every head's values copy the marks, over and over. So column j of a result says how much
        token j % num_tokens weighs in it.
        """
        marks = torch.eye(NUM_TOKENS, D_IN)
        copies = marks.repeat(4, 1)[:HEAD_DIM].repeat(self.num_heads, 1)
        weights = self.weights(W_value=copies, **matrices)
        return split_heads(self.run(mine, x, weights).detach(), HEAD_DIM)

    def record(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor] = NO_WEIGHTS
    ) -> tuple[Recording, Tensor | None]:
        """Run forward once more and return all its operations; on an error, those before it."""
        recording = self._recordings[mine]
        given = {name: weight.clone() for name, weight in self.make.fit(mine, weights).items()}
        recording.name_tensors({"x": x, **dict(mine.named_parameters()), **given})
        result = None
        with suppress(FaultFound), recording:
            result = run(mine, x, given)
        return recording, result

    def operations(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor] = NO_WEIGHTS
    ) -> list[Operation]:
        """Return the operations of forward that have a line."""
        before = len(self._recordings[mine].operations)  # of earlier runs too
        recording, _ = self.record(mine, x, weights)
        return [made for made in recording.operations[before:] if made.line is not None]

    def first_line(
        self,
        mine: nn.Module,
        x: Tensor,
        is_it: Callable[[Operation], object],
        weights: Mapping[str, Tensor] = NO_WEIGHTS,
    ) -> SourceLine | None:
        """Return the line of the first operation of forward of which something holds."""
        return next((made.line for made in self.operations(mine, x, weights) if is_it(made)), None)

    def labeled_run(
        self,
        mine: nn.Module,
        x: Tensor,
        weights: Mapping[str, Tensor],
        stopped: bool = False,
    ) -> LabeledRun | None:
        """Return a run's operations, stopped or not, with what each of them made."""
        recording, result = self.record(mine, x, weights)
        number = recording.number_of(result) if result is not None else None
        start = recording.number_of(x)
        if result is None and stopped and recording.operations:
            number = len(recording.operations) - 1
        if number is None or start is None:
            return None
        named = quantities(x, weights, self.num_heads)
        sizes = self.sizes(num_tokens=x.shape[1])
        return LabeledRun(recording.operations, number, start, named, sizes)

    def first_difference(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor]
    ) -> Finding | None:
        """Return the first line at which the learner's forward differs on this input."""
        labeled = self.labeled_run(mine, x, weights)
        return first_difference(labeled) if labeled is not None else None

    def usual_run(self, stopped: bool = False) -> LabeledRun | None:
        """Return the labelled usual run."""
        mine, ours = self.build()
        weights = self.random_weights(ours)
        return self.labeled_run(mine, self.usual_x(), weights, stopped)

    @cached_property
    def usual_difference(self) -> Finding | None:
        """The first line at which forward differs on the usual random input."""
        mine, ours = self.build()
        return self.first_difference(mine, self.usual_x(), self.random_weights(ours))

    # Lines

    @cached_property
    def text(self) -> ClassText:
        """The text of the class, and of all that the learner wrote beside it."""
        return ClassText(functions_used_by(own_functions(self.make.make)))

    def line_of_parameter(self, name: str) -> SourceLine | None:
        """Return the line of the constructor that last wrote a parameter, or that sets a part."""
        mine, _ = self.build()
        recording = self._recordings[mine]
        parameters = dict(mine.named_parameters(remove_duplicate=False))
        number = recording.number_of(parameters[name]) if name in parameters else None
        if number is not None and recording.operations[number].line is not None:
            return recording.operations[number].line
        part = [part for part in name.split(".") if part not in ("weight", "bias")][-1]
        return self.text.line_with(rf"self\.{re.escape(part)}\b[^=]*=(?!=)")

    def line_of_dtype(self, mine: nn.Module, x: Tensor) -> SourceLine | None:
        """Return the first line of forward that makes floating numbers of another dtype than x."""
        other = x.dtype
        return self.first_line(
            mine, x, lambda o: o.values.is_floating_point() and o.values.dtype != other
        )

    def _line_of_the_result(self, mine: nn.Module, x: Tensor) -> SourceLine | None:
        recording, result = self.record(mine, x)
        number = recording.number_of(result) if result is not None else None
        while number is not None:
            operation = recording.operations[number]
            if operation.name != "linear" and operation.line is not None:
                return operation.line
            number = operation.parents[0] if operation.parents else None
        return None

    def line_of_dropout(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor]
    ) -> SourceLine | None:
        """Return the line that drops something, the last one if there are several."""
        made = self.operations(mine, x, weights)
        drops = [o for o in made if RANDOM.search(o.name) or o.name.startswith("scaled_dot")]
        return drops[-1].line if drops else None


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> bool:
    """Return whether two tensors of one shape agree; NaN agrees with nothing."""
    return bool((a - b).abs().max() <= tolerance)
