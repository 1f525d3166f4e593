"""A learner's class beside the right one: the line at which a run leaves the path, and others."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from attncourse.checks.attempt import (
    Diagnosis,
    draw,
    run,
)
from attncourse.checks.departure import RANDOM, Departures, misnamed
from attncourse.checks.explained import Departure
from attncourse.checks.mask_sizes import mask_for_other_tokens, wrong_size_of_a_mask
from attncourse.checks.origins import Origins
from attncourse.checks.own_code import named_classes, named_functions, own_functions
from attncourse.checks.pair import (
    CONTEXT_LENGTH,
    HEAD_DIM,
    NUM_TOKENS,
    B,
    Pair,
)
from attncourse.checks.path import CONSTANTS
from attncourse.checks.quantities import quantities
from attncourse.tracing.operations import Line
from attncourse.tracing.tracer import statements_of
from attnlib.convert import PROJECTIONS
from attnlib.functional import causal_mask


class Trial(Pair):
    """A learner's class beside the class that is right, and the line at which they part."""

    _text: Origins | None = None

    def departure(
        self,
        mine: nn.Module,
        x: Tensor,
        weights: Mapping[str, Tensor],
        num_heads: int,
    ) -> Departure | None:
        """Return the line at which the learner's forward leaves the path on this input."""
        try:
            path = self._path(mine, x, weights, num_heads)
            if path is None:
                return None
            found, named = path.departure(), path.named
        except (
            RuntimeError,
            LookupError,
            TypeError,
            ValueError,
        ):  # tensors too odd to be looked up
            return None
        if found is not None and found.code.startswith(("scores.", "values.", "parts.")):
            mine_named = self.make.fit(mine, weights)
            with torch.no_grad():
                for name, parameter in mine.named_parameters():
                    if name in mine_named:
                        parameter.copy_(mine_named[name])
            found = misnamed(mine, x, named) or found
        return found

    def _path(
        self,
        mine: nn.Module,
        x: Tensor,
        weights: Mapping[str, Tensor],
        num_heads: int,
        stopped: bool = False,
    ) -> Departures | None:
        recording, result = self.record(mine, x, weights)
        number = recording.number_of(result) if result is not None else None
        start = recording.number_of(x)
        if result is None and stopped and recording.operations:
            number = len(recording.operations) - 1
        if number is None or start is None:
            return None
        called = self.make.parameter_names(mine, weights)
        first, second = (called.get(f"{name}.weight") for name in PROJECTIONS[:2])
        fused = first is not None and first == second
        named = quantities(x, weights, num_heads, fused)
        widths = scale_suspects(self, num_heads, x.shape[1])
        return Departures(recording, number, start, named, widths, self.head_width)

    def usual_departure(self) -> Departure | None:
        """Return the line at which forward leaves the path on the usual random input."""
        num_heads = self.head_counts[-1]
        mine, ours = self.recorded_build(num_heads)
        x = draw(B, NUM_TOKENS, self.d_in(num_heads), seed=1)
        return self.departure(mine, x, self.random_weights(ours), num_heads)

    def departure_before_an_error(self) -> Departure | None:
        """Return the line at which forward had left the path when an error stopped it."""
        num_heads = self.head_counts[-1]
        try:
            mine, ours = self.recorded_build(num_heads)
            x = draw(B, NUM_TOKENS, self.d_in(num_heads), seed=1)
            path = self._path(mine, x, self.random_weights(ours), num_heads, stopped=True)
            found = path.before_an_error() if path is not None else None
        except (Diagnosis, RuntimeError, LookupError, TypeError, ValueError):
            return None
        return found if found is not None and found.sure else None

    def mask_of_another_size(self, said: str) -> Departure | None:
        """Return the line that gave a mask a size that does not fit, so that forward stops so."""
        num_heads = self.head_counts[-1]
        for length, num_tokens in ((CONTEXT_LENGTH, NUM_TOKENS), (CONTEXT_LENGTH,) * 2, (67, 67)):
            try:
                mine, _ = self.recorded_build(num_heads, context_length=length)
                x = draw(B, num_tokens, self.d_in(), seed=1)
                recording, result = self.record(mine, x)
            except Diagnosis:
                return None
            start = recording.number_of(x)
            if result is None and start is not None:
                sizes = self.sizes(num_heads) | {"context_length": length, "num_tokens": num_tokens}
                return wrong_size_of_a_mask(
                    recording, start, sizes, (num_tokens, num_tokens)
                ) or mask_for_other_tokens(recording, start, num_tokens, said)
        return None

    def departure_of_shape(self) -> Departure | None:
        """Return why the result has another shape."""
        try:
            path = self.usual_path()
            return path.of_shape() if path is not None else None
        except (Diagnosis, RuntimeError, LookupError, TypeError, ValueError):
            return None

    def kept_by_forward(self) -> tuple[str, Line | None] | None:
        """Return what to say of a tensor that forward keeps on self, if it does."""
        try:
            mine, _ = self.build()
            before = {**vars(mine), **mine._buffers}
            run(mine, draw(B, NUM_TOKENS, self.d_in(), seed=1))
        except Diagnosis:
            return None
        for name, value in {**vars(mine), **mine._buffers}.items():
            if isinstance(value, Tensor) and before.get(name) is not value:
                cause = (
                    f"self.{name} is kept from one call to the next, which may have other tokens, "
                    "more or fewer: make it anew in forward, or cut it to the tokens that there "
                    "are."
                )
                functions = tuple(f.__name__ for f in own_functions(self.make.make))
                inside = tuple(name for name in functions if name != "__init__")
                line = self.line_with(rf"self\.{name}\b[^=(\[]*=(?!=)", inside)
                return cause, line or self.line_with(rf"[\"']{name}[\"']", inside)
        return None

    def text(self) -> Origins:
        """Return the text of the class, and of the modules inside that the learner wrote too."""
        if self._text is None:
            kinds: list[Any] = [self.make.make, *named_classes(self.make.make)]
            with contextlib.suppress(Diagnosis):
                mine, _ = self.build()
                kinds += dict.fromkeys(type(part) for part in mine.modules())
            functions = [function for kind in kinds for function in own_functions(kind)]
            self._text = Origins([*functions, *named_functions(self.make.make)])
        return self._text

    def kept_list(self) -> tuple[str, Line | None] | None:
        """Return what to say of a list on self that still holds what an earlier call put in."""
        try:
            mine, _ = self.build()
            run(mine, draw(B, NUM_TOKENS, self.d_in(), seed=1))
        except Diagnosis:
            return None
        for name, value in vars(mine).items():
            if isinstance(value, list) and any(isinstance(one, Tensor) for one in value):
                cause = (
                    f"self.{name} still holds the tensors of earlier calls when the next one "
                    "appends to it: make the list in forward."
                )
                return cause, self.line_with(rf"self\.{name}\b", ("forward",))
        return None

    def line_in_init(self, part: str) -> Line | None:
        """Return the line of __init__ that makes a part, by its name or what it is called."""
        called = self.make.names.get(part, part)
        line = self.line_with(rf"self\.{re.escape(called)}\b[^=]*=(?!=)")
        if line is None:  # for name in ("W_query", ...): setattr(self, name, ...)
            line = self.line_with(rf"[\"']{re.escape(called)}[\"']")
            if line is not None and line.text.startswith("for "):
                line = self.line_with(r"^setattr\(self, \w+, ") or line
        return line

    def line_that_filled(self, name: str) -> Line | None:
        """Return the line of the constructor that last wrote the numbers of a parameter."""
        part = re.escape(self.make.names.get(name.split(".")[0], name.split(".")[0]))
        if line := self.line_with(rf"\.{part}\b\S*\.\w+_\(|_\(.*\.{part}\b"):
            return line
        try:
            mine, _ = self.recorded_build(self.head_counts[-1])
        except Diagnosis:
            return None
        _, recording = self._constructed[id(mine)]
        number = recording.number_of(dict(mine.named_parameters()).get(name, torch.empty(0)))
        return recording.operations[number].line if number is not None else None

    def line_with(self, pattern: str, functions: tuple[str, ...] = ()) -> Line | None:
        """Return the first line of the class, or of some functions, whose text fits a pattern."""
        for function in own_functions(self.make.make):
            if functions and function.__name__ not in functions:
                continue
            name, statements = statements_of(function.__code__)
            for statement in dict.fromkeys(statements[key] for key in sorted(statements)):
                if statement.text.startswith("def "):
                    continue
                if re.search(pattern, statement.text):
                    return Line(name, statement.line, statement.text)
        return None

    def usual_path(self) -> Departures | None:
        """Return the operations of the usual run, with what each of them made."""
        num_heads = self.head_counts[-1]
        mine, ours = self.recorded_build(num_heads)
        x = draw(B, NUM_TOKENS, self.d_in(num_heads), seed=1)
        return self._path(mine, x, self.random_weights(ours), num_heads)

    def softmax_before_mask(self) -> Line | None:
        """Return the line that hides the future, if softmax has run over it before."""
        path = self.usual_path()
        if path is None:
            return None
        seen = False
        future = causal_mask(NUM_TOKENS)
        for operation in path.operations:
            if operation.number not in path.from_x or operation.number not in path.leads_here:
                continue
            values = operation.values
            if values.ndim < 2 or values.shape[-2:] != future.shape:
                continue
            hides = bool((values[..., future] == 0).all())
            if "softmax" in operation.name and not hides:
                seen = True
            elif seen and hides:
                return operation.line
        return None

    def line_of_the_weights(self) -> Line | None:
        """Return the line after which the attention weights are there."""
        path = self.usual_path()
        for number, found in path.found.items() if path else ():
            if found is not None and found.name == "attn_weights" and path is not None:
                return path.operations[number].line
        if path is not None:
            for number, found in path.found.items():
                if found is not None and found.name == "context_vec":
                    return path.operations[number].line
        return None

    def line_of_dropout(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor]
    ) -> Line | None:
        """Return the line that drops something, the last one if there are several."""
        recording, _ = self.record(mine, x, weights)
        lines = [
            operation.line
            for operation in recording.operations[recording.number_of(x) or 0 :]
            if RANDOM.search(operation.name) or (operation.name == "scaled_dot_product_attention")
        ]
        named = [line for line in lines if line is not None]
        return named[-1] if named else None

    def line_that_drops(self) -> Line | None:
        """Return the line of forward, or of a helper, that calls dropout, if one does."""
        names = {f.__name__ for f in own_functions(self.make.make)} - {"__init__"}
        return self.line_with(r"dropout\w*\(.*training", tuple(sorted(names))) if names else None

    def line_of_another_p(self) -> Line | None:
        """Return the line of __init__ that makes dropout of something else than dropout."""
        return self.line_with(r"[Dd]ropout\w*\((?!\s*(p\s*=\s*)?dropout\s*[,)])[^)]", ("__init__",))

    def line_of_the_fill(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor]
    ) -> Line | None:
        """Return the line at which very negative numbers first reach the scores."""
        recording, _ = self.record(mine, x, weights)
        start = recording.number_of(x) or 0
        for operation in recording.operations[start:]:
            values = operation.values
            if (
                operation.parents
                and values.is_floating_point()
                and values.numel()
                and float(values.min()) < -15
                and any(
                    float(recording.operations[n].values.min()) > -15
                    for n in operation.parents
                    if recording.operations[n].values.numel()
                    and recording.operations[n].values.is_floating_point()
                )
            ):
                return operation.line
        return None

    def line_of_the_mask(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor]
    ) -> Departure | None:
        """Return the line that draws a triangle."""
        line = self.line_with(r"tri[ul]|arange")
        return Departure("mask", "", line) if line else None

    def line_of_the_cutting(self, mine: nn.Module, x: Tensor) -> Line | None:
        """Return the first line that makes fewer tokens of x."""
        recording, _ = self.record(mine, x)
        start = recording.number_of(x) or 0
        for operation in recording.operations[start + 1 :]:
            if start in operation.parents and operation.values.shape[1:2] < x.shape[1:2]:
                return operation.line
        return None

    def line_of_the_cut(
        self, mine: nn.Module, x: Tensor, weights: Mapping[str, Tensor]
    ) -> Line | None:
        """Return the first line through which no gradient flows."""
        recording, _ = self.record(mine, x, weights)
        operations = recording.operations
        for operation in operations[recording.number_of(x) or 0 :]:
            if (
                operation.line is not None
                and operation.line.function in self.text().trees
                and operation.parents
                and operation.values.is_floating_point()
                and not operation.grad
                and not CONSTANTS.search(operation.name)
                and any(operations[n].grad for n in operation.parents)
            ):
                return operation.line
        return self.line_with(r"detach|grad|\.data\b|tensor\(|numpy")

    def line_of_another_dtype(self) -> Line | None:
        """Return the first line that makes a tensor of another dtype in a float64 or half run."""
        for turn, dtype in ((nn.Module.double, torch.float64), (nn.Module.half, torch.float16)):
            try:
                mine, _ = self.build()
                turn(mine)
                line = self._line_of_the_dtype(mine, draw(B, NUM_TOKENS, self.d_in()).to(dtype))
            except (Diagnosis, RuntimeError):
                continue
            if line is not None:
                return line
        return None

    def line_of_the_seed(self) -> Line | None:
        """Return the line that sets a seed."""
        return self.line_with(r"manual_seed|seed\(")


def scale_suspects(
    trial: Trial, num_heads: int, num_tokens: int
) -> tuple[tuple[float, str, str], ...]:
    """Return factors that scores are multiplied by in error, with a code and what to say."""
    width, d_in = trial.head_width, trial.d_in(num_heads)
    all_heads = num_heads * HEAD_DIM
    same = d_in // num_heads == num_heads
    heads = f"{num_heads}: num_heads, or d_in // num_heads" if same else "num_heads"
    return (
        (1.0, "scale.none", "they are not scaled at all."),
        (HEAD_DIM**0.5, "scale.times", "they are multiplied by the root, not divided."),
        (1 / HEAD_DIM, "scale.no-root", f"you divide by {width} itself, or twice by its root."),
        (
            1 / (2 * HEAD_DIM),
            "scale.half",
            f"{width}**1/2 is half of {width}, since ** binds before /.",
        ),
        (
            2 / HEAD_DIM,
            "scale.half",
            f"{width}**1/2 is half of {width}, since ** binds before /.",
        ),
        *(
            ((all_heads**-0.5, "scale.d-out", "you divide by the root of the width of all heads."),)
            if num_heads > 1
            else ()
        ),
        (d_in**-0.5, "scale.d-in", "you divide by the root of d_in, the width of the embedding."),
        *(
            (
                (num_heads**-0.5, "scale.num-heads", f"you divide by the root of {heads}."),
                (1 / num_heads, "scale.num-heads", f"you divide by {heads}."),
            )
            if num_heads > 1
            else ()
        ),
        (num_tokens**-0.5, "scale.num-tokens", "you divide by the root of num_tokens."),
        (
            CONTEXT_LENGTH**-0.5,
            "scale.context-length",
            "you divide by the root of context_length.",
        ),
        (B**-0.5, "scale.batch", "you divide by the root of the number of texts."),
        (1 / d_in, "scale.d-in", "you divide by d_in, the width of the embedding."),
        (HEAD_DIM**-0.25, "scale.one-side", "only one of queries and keys is scaled."),
    )
