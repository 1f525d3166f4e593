"""A learner's class beside the right one: their sizes, their parameters, and runs of both."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncourse.checks.diagnosis.departure import departure, misnamed
from attncourse.checks.diagnosis.path import RANDOM, Path, Scale
from attncourse.checks.diagnosis.quantities import quantities
from attncourse.checks.findings import Finding, Kind
from attncourse.checks.module_factory import ModuleFactory
from attncourse.checks.safe_run import FaultFound, draw, run
from attncourse.tracing.class_text import ClassText, named_by, own_functions
from attncourse.tracing.operations import Operation, Recording, SourceLine
from attncourse.tracing.tracer import LIBRARIES, statements_of
from attnlib.convert import PROJECTIONS
from attnlib.functional import split_heads
from attnlib.modules import CausalAttention, MultiHeadAttention, MultiHeadAttentionWrapper

# Distinct primes: a wrong axis cannot pass by coincidence, and a product tells its factors. Nor
# does d_in // num_heads, head_dim // num_heads or the root of head_dim, cut, equal another size
B, NUM_HEADS, NUM_TOKENS, HEAD_DIM, D_IN, CONTEXT_LENGTH = 2, 3, 5, 19, 23, 11
DROPOUT = 0.25
NO_WEIGHTS: Mapping[str, Tensor] = {}
ODD = (FaultFound, RuntimeError, LookupError, TypeError, ValueError)  # tensors too odd to look up


class HeadCall(NamedTuple):
    """One call of one head of a stack."""

    head: int
    line: SourceLine | None
    takes_head: int | None  # the head whose result it takes
    takes: tuple[int, ...]  # the shape of what it takes
    is_x: bool


class Trial:
    """A learner's class beside the class that is right.

    Args:
        make: makes modules of the learner's class.
        right: CausalAttention, MultiHeadAttentionWrapper or MultiHeadAttention.
    """

    def __init__(self, make: ModuleFactory, right: type[nn.Module]) -> None:
        self.make, self.right = make, right
        self.one_width = len({make.names.get(name, name) for name in ("d_in", "d_out")}) == 1
        self.notes: list[Finding] = []
        self._made: dict[int, tuple[nn.Module, dict[str, Any], Tensor]] = {}
        self._recordings: dict[int, Recording] = {}
        self._ours = cache(lambda sizes: right(**dict(sizes)).eval())  # they stay as they are

    # Sizes

    @property
    def head_counts(self) -> tuple[int, ...]:
        """One head first: there, splitting and merging do nothing."""
        return (1,) if self.right is CausalAttention else (1, NUM_HEADS)

    @property
    def most_heads(self) -> int:
        """How many heads the usual run has."""
        return self.head_counts[-1]

    @property
    def head_width(self) -> str:
        """What the width of one head is called."""
        return "head_dim" if self.right is MultiHeadAttention else "d_out"

    def d_in(self, num_heads: int | None = None) -> int:
        """Return the width of the tokens."""
        return self.width(num_heads or self.most_heads) if self.one_width else D_IN

    def width(self, num_heads: int = NUM_HEADS) -> int:
        """Return how many columns the result has."""
        return HEAD_DIM if self.right is CausalAttention else num_heads * HEAD_DIM

    def sizes(self, num_heads: int = NUM_HEADS) -> dict[str, int]:
        """Return the names of the sizes, for sentences about shapes."""
        sizes = {"b": B, "num_tokens": NUM_TOKENS, "d_in": self.d_in(num_heads)}
        sizes["context_length"] = CONTEXT_LENGTH
        if self.right is not CausalAttention:
            sizes["num_heads"] = num_heads
        if self.right is MultiHeadAttention:
            return sizes | {"head_dim": HEAD_DIM, "d_out": num_heads * HEAD_DIM}
        return sizes | {"d_out": HEAD_DIM}

    def wrong_scales(self, num_heads: int, num_tokens: int) -> tuple[Scale, ...]:
        """Return factors that scores are multiplied by in error."""
        sizes = {"d_out": num_heads * HEAD_DIM, "d_in": self.d_in(num_heads)}
        sizes |= {"num_heads": num_heads, "num_tokens": num_tokens}
        sizes |= {"context_length": CONTEXT_LENGTH, "b": B}
        return (
            Scale(1.0, Kind.SCALE_NONE),
            Scale(HEAD_DIM**0.5, Kind.SCALE_TIMES),
            Scale(1 / HEAD_DIM, Kind.SCALE_NO_ROOT),
            Scale(1 / (2 * HEAD_DIM), Kind.SCALE_HALF),
            Scale(2 / HEAD_DIM, Kind.SCALE_HALF),
            Scale(1 / int(HEAD_DIM**0.5), Kind.SCALE_CUT),
            *(Scale(n**-0.5, Kind.SCALE_WIDTH, by) for by, n in sizes.items() if n > 1),
            *(Scale(1 / n, Kind.SCALE_WIDTH, by, False) for by, n in sizes.items() if n > 2),
        )

    # Modules and their parameters

    def arguments(self, num_heads: int = NUM_HEADS, **options: Any) -> dict[str, Any]:
        """Return what a module is made with."""
        sizes = self.sizes(num_heads) | {"dropout": 0.0}
        taken = inspect.signature(self.right).parameters
        arguments = {name: sizes[name] for name in sizes if name in taken}
        return arguments | options  # no qkv_bias: False must be the default

    def build(self, num_heads: int = NUM_HEADS, **options: Any) -> tuple[nn.Module, nn.Module]:
        """Return a module of the learner's class and one of ours, both in eval."""
        arguments = self.arguments(num_heads, **options)
        drawn = torch.default_generator.get_state()
        mine = self.make(**arguments)
        self._made[id(mine)] = mine, arguments, drawn
        set_mode(mine, training=False)
        return mine, self._ours(tuple(arguments.items()))

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

    def note(self, kind: Kind, **facts: Any) -> None:
        """Keep what is worth a word and no fault."""
        if kind not in [note.kind for note in self.notes]:
            self.notes.append(Finding(kind, None, facts))

    # Runs

    def run(
        self,
        mine: nn.Module,
        x: Tensor,
        weights: Mapping[str, Tensor] = NO_WEIGHTS,
        num_heads: int = NUM_HEADS,
        when: str = "",
    ) -> Tensor:
        """Run the learner's module; a result of another shape or dtype is FaultFound too."""
        sizes = self.sizes(num_heads) | {"b": x.shape[0], "num_tokens": x.shape[1]}
        result = run(mine, x, self.make.fit(mine, weights), sizes, when)
        have, want = tuple(result.shape), (*x.shape[:2], self.width(num_heads))
        if have != want:
            facts = {"have": have, "want": want, "sizes": sizes}
            squeezed = len(have) < 3 and math.prod(have) == math.prod(want)
            kind = Kind.RESULT_SQUEEZED if squeezed else Kind.RESULT_SHAPE
            raise FaultFound(Finding(kind, self._line_of_the_result(mine, x), facts))
        if result.dtype != x.dtype:
            line = self.line_of_dtype(mine, x) or self._line_of_the_result(mine, x)
            dtypes = {"dtype": result.dtype, "x_dtype": x.dtype}
            raise FaultFound(Finding(Kind.RESULT_DTYPE, line, dtypes))
        return result

    def usual_x(self, num_tokens: int = NUM_TOKENS) -> Tensor:
        """Return random tokens for the most heads."""
        return draw(B, num_tokens, self.d_in(), seed=1)

    def marked_tokens(self, b: int = B, num_heads: int = 1) -> Tensor:
        """Return tokens that carry their marks, (b, num_tokens, d_in); the rest is random."""
        x = draw(b, NUM_TOKENS, self.d_in(num_heads), seed=1)
        x[:, :, :NUM_TOKENS] = torch.eye(NUM_TOKENS)
        return x

    def attn_weights_of(
        self, mine: nn.Module, x: Tensor, num_heads: int, when: str = "", **matrices: Tensor
    ) -> Tensor:
        """Return the attention weights, read off the result: (b, num_heads, num_tokens, head_dim).

        The tokens of x carry marks: token t is 1 in column t and 0 in the columns of the others.
        Every head's values copy the marks, over and over. So column j of a result says how much
        token j % num_tokens weighs in it.
        """
        marks = torch.eye(NUM_TOKENS, self.d_in(num_heads))
        copies = marks.repeat(4, 1)[:HEAD_DIM].repeat(num_heads, 1)
        weights = self.weights(num_heads, W_value=copies, **matrices)
        weights = {name: weight.to(x.dtype) for name, weight in weights.items()}
        return split_heads(self.run(mine, x, weights, num_heads, when).detach(), HEAD_DIM)

    def record(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor] = NO_WEIGHTS
    ) -> tuple[Recording, Tensor | None]:
        """Run forward once more and return all its operations; on an error, those before it."""
        recording = self._recording_of(mine)
        given = {name: weight.clone() for name, weight in self.make.fit(mine, weights).items()}
        recording.give({"x": x, **dict(mine.named_parameters()), **given})
        result = None
        try:
            with recording:
                result = run(mine, x, given)
        except FaultFound:
            pass
        return recording, result

    def _recording_of(self, mine: nn.Module) -> Recording:
        """Return a recording that knows the constructor's lines: of a twin, made when asked for."""
        if id(mine) not in self._made:
            return Recording()
        _, arguments, drawn = self._made[id(mine)]
        if id(mine) not in self._recordings:
            recording = self._recordings[id(mine)] = Recording()
            with torch.random.fork_rng(devices=[]), suppress(FaultFound):
                torch.default_generator.set_state(drawn)
                with recording:
                    twin = self.make(**arguments)
                recording.take_for(*([vars(p) for p in m.modules()] for m in (twin, mine)))
        return self._recordings[id(mine)]

    def first(
        self, mine: nn.Module, x: Tensor, is_it: Any, weights: Mapping[str, Tensor] = NO_WEIGHTS
    ) -> Operation | None:
        """Return the first operation of forward with a line of which something holds."""
        return next(iter(self.all_of(mine, x, is_it, weights)), None)

    def all_of(
        self, mine: nn.Module, x: Tensor, is_it: Any, weights: Mapping[str, Tensor] = NO_WEIGHTS
    ) -> list[Operation]:
        """Return the operations of forward with a line of which something holds."""
        recording = self._recording_of(mine)
        before = len(recording.operations)  # of earlier runs too
        recording, _ = self.record(mine, x, weights)
        forward = recording.operations[before:]
        return [made for made in forward if made.line is not None and is_it(made)]

    # The path

    def path(
        self,
        mine: nn.Module,
        x: Tensor,
        weights: Mapping[str, Tensor],
        num_heads: int,
        stopped: bool = False,
    ) -> Path | None:
        """Return a run's operations, stopped or not, with what each of them made."""
        recording, result = self.record(mine, x, weights)
        number = recording.number_of(result) if result is not None else None
        start = recording.number_of(x)
        if result is None and stopped and recording.operations:
            number = len(recording.operations) - 1
        if number is None or start is None:
            return None
        named = quantities(x, weights, num_heads)
        scales = self.wrong_scales(num_heads, x.shape[1])
        return Path(recording.operations, number, start, named, scales, self.head_width)

    def departure(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor], num_heads: int
    ) -> Finding | None:
        """Return the line at which the learner's forward leaves the path on this input."""
        try:
            path = self.path(mine, x, weights, num_heads)
            found = departure(path) if path is not None else None
        except ODD:
            return None
        if path is not None and found is not None and found.kind.step in NAMED:
            fitted = self.make.fit(mine, weights)
            with torch.no_grad():
                for name, parameter in mine.named_parameters():
                    if name in fitted:
                        parameter.copy_(fitted[name])
            found = misnamed(mine, x, path.named) or found
        return found

    def apart(
        self,
        mine: nn.Module,
        ours: nn.Module,
        x: Tensor,
        num_heads: int = 0,
        when: str = "",
    ) -> Finding | None:
        """Return where forward leaves the path, if both results are not the same."""
        weights, num_heads = self.random_weights(ours), num_heads or self.most_heads
        if close(self.run(mine, x, weights, num_heads, when), run(ours, x, weights), 1e-4):
            return None
        where = self.departure(mine, x, weights, num_heads)
        return where or Finding(Kind.RESULT_DIFFERS)

    def usual_path(self, stopped: bool = False) -> Path | None:
        """Return the path of the usual run."""
        mine, ours = self.build(self.most_heads)
        weights = self.random_weights(ours)
        return self.path(mine, self.usual_x(), weights, self.most_heads, stopped)

    @cached_property
    def usual_departure(self) -> Finding | None:
        """The line at which forward leaves the path on the usual random input."""
        mine, ours = self.build(self.most_heads)
        weights = self.random_weights(ours)
        found = self.departure(mine, self.usual_x(), weights, self.most_heads)
        if found is not None and found.facts.get("by") == "b":  # or 2, which is b here
            x = draw(B + 1, NUM_TOKENS, self.d_in(), seed=1)
            again = self.departure(mine, x, weights, self.most_heads)
            if again is not None and again.facts.get("factor") == found.facts["factor"]:
                return replace(found, kind=Kind.SCALE_OTHER)
        return found

    def head_calls(self, num_heads: int) -> list[HeadCall]:
        """Return how forward calls the heads of a stack, as far as it comes."""
        mine, _ = self.build(num_heads)
        heads = list(getattr(mine, self.make.names.get("heads", "heads"), ()))
        calls: list[HeadCall] = []
        results: list[tuple[int, Tensor]] = []
        x = self.usual_x()

        def before(head: int) -> Any:
            def note(module: nn.Module, inputs: tuple[Any, ...]) -> None:
                takes = next((h for h, made in results if made is inputs[0]), None)
                shape, is_x = tuple(inputs[0].shape), torch.equal(inputs[0], x)
                calls.append(HeadCall(head, _own_line(), takes, shape, is_x))

            return note

        def after(head: int) -> Any:
            return lambda module, inputs, result: results.append((head, result))

        for head, module in enumerate(heads):
            module.register_forward_pre_hook(before(head))
            module.register_forward_hook(after(head))
        with suppress(FaultFound):
            run(mine, x)
        return calls

    # Lines

    @cached_property
    def text(self) -> ClassText:
        """The text of the class, and of all that the learner wrote beside it."""
        return ClassText(named_by(own_functions(self.make.make)))

    def line_of_parameter(self, name: str) -> SourceLine | None:
        """Return the line of the constructor that makes a parameter, or a part named so."""
        part = re.escape([part for part in name.split(".") if part not in ("weight", "bias")][-1])
        return (
            self.text.line_with(rf"self\.{part}\b[^=]*=(?!=)")
            or self.line_that_filled(name)
            or self.text.line_with(rf"[\"']{part}[\"']")
        )

    def line_that_filled(self, name: str) -> SourceLine | None:
        """Return the line of the constructor that last wrote the numbers of a parameter."""
        part = re.escape(name.split(".")[0])
        if line := self.text.line_with(rf"\.{part}\b\S*\.\w+_\("):
            return line
        mine, _ = self.build(self.most_heads)
        recording = self._recording_of(mine)
        parameters = dict(mine.named_parameters(remove_duplicate=False))
        number = recording.number_of(parameters[name]) if name in parameters else None
        return recording.operations[number].line if number is not None else None

    def line_of_dtype(self, mine: nn.Module, x: Tensor) -> SourceLine | None:
        """Return the first line of forward that makes floating numbers of another dtype than x."""
        made = self.first(
            mine, x, lambda o: o.values.is_floating_point() and o.values.dtype != x.dtype
        )
        return made and made.line

    def _line_of_the_result(self, mine: nn.Module, x: Tensor) -> SourceLine | None:
        recording, result = self.record(mine, x)
        number = recording.number_of(result) if result is not None else None
        while number is not None:
            operation = recording.operations[number]
            if operation.name != "linear" and operation.line is not None:
                return operation.line
            number = operation.parents[0] if operation.parents else None
        return None

    def line_in_place(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor] = NO_WEIGHTS
    ) -> SourceLine | None:
        """Return the line that overwrites what an operation before it needs for its gradient."""
        if line := self.text.line_with(r"inplace\s*=\s*True|[Dd]ropout\w*\(.*, True\)"):
            return line
        recording, _ = self.record(mine, x, weights)

        def overwrites(made: Operation) -> bool:
            before = [recording.operations[n].name for n in made.parents[:1]]
            return bool(IN_PLACE.search(made.name) and any(map(KEEPS_RESULT.search, before)))

        return next((o.line for o in recording.operations if o.line and overwrites(o)), None)

    def line_of_dropout(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor]
    ) -> SourceLine | None:
        """Return the line that drops something, the last one if there are several."""
        made = self.all_of(mine, x, lambda o: True, weights)
        drops = [o for o in made if RANDOM.search(o.name) or o.name.startswith("scaled_dot")]
        if not drops or not drops[-1].name.startswith(("rand", "bern")):
            return drops[-1].line if drops else None
        reached = {drops[-1].number}  # by hand: the line at which the weights meet the pattern
        for later in made:
            if reached.intersection(later.parents):
                if not reached.issuperset(later.parents):
                    return later.line
                reached.add(later.number)
        return drops[-1].line


IN_PLACE = re.compile(r"^__i[a-z]+__$|^i(add|sub|mul|truediv)$|[a-z]_$|^__setitem__$")
KEEPS_RESULT = re.compile(
    "softmax|exp|sigmoid|tanh|sqrt|relu|mul|div|linear|dropout|view|transpose"
)
NAMED = ("scores", "values", "parts")  # where a variable may hold what another should


def set_mode(module: nn.Module, training: bool) -> None:
    """Put a module and its parts into training or eval, also where an attribute is named so."""
    for part in module.modules():
        part.training = training


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> bool:
    """Return whether two tensors of one shape agree; NaN agrees with nothing."""
    return bool((a - b).abs().max() <= tolerance)


def _own_line() -> SourceLine | None:
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(LIBRARIES) and not code.co_name.startswith("<"):
            name, statements = statements_of(code)
            statement = statements.get(frame.f_lineno - code.co_firstlineno + 1)
            return SourceLine(name, statement.line, statement.text) if statement else None
        frame = frame.f_back  # type: ignore[assignment]
    return None
