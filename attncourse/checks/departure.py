"""The line at which a learner's forward leaves the path.

Every tensor that forward makes is looked up among the quantities of attention. The result is not
the right one; so, going back from it, there is a first operation whose inputs are right and whose
result is not. Its line is the answer. What relates its result to the right one is the cause:
explained, wrong_masks, wrong_scores, whole_attention and wrong_results know the relations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from attncourse.checks.explained import ASSIGNS, PARTS, Departure, are, does, the
from attncourse.checks.quantities import Quantity, find_any
from attncourse.checks.text import ROLES
from attncourse.checks.whole_attention import Whole
from attncourse.checks.wrong_results import Results
from attncourse.tracing.operations import Line, Operation
from attncourse.tracing.tracer import trace

RANDOM = re.compile(r"dropout|bernoulli|^rand|normal_|^normal$|multinomial|uniform_|poisson")

JOINS = {"cat", "concat", "stack", "hstack", "reshape", "view", "flatten"}
BEFORE = ("split", "scores", "values", "parts", "merge")  # an error


def dropout_remedy(line: Line | None) -> str:
    """Return how a line that drops in eval learns of the mode."""
    text = line.text if line is not None else ""
    if "scaled_dot_product_attention" in text or "dropout_p" in text:
        return (
            "scaled_dot_product_attention does not know the mode, so pass dropout_p=p if "
            "self.training else 0.0."
        )
    if re.search(r"Dropout\w*\(", text):
        return (
            "a layer that is made here is new in each call, and a new one is in training: make it "
            "once, in __init__, and eval() reaches it."
        )
    return "nn.Dropout knows the mode, F.dropout must be told by training=self.training."


class Departures(Whole, Results):
    """A path, the operation that leaves it, and why."""

    def departure(self) -> Departure | None:
        """Return the first line that leaves the path; None if nothing can be said."""
        if self._good(self.result) and not self._repeats(self.result):
            return self._ends_too_early()
        if unwritten := self._unwritten():
            return unwritten
        self.found = {n: None if self._repeats(n) else found for n, found in self.found.items()}
        bad, new = {self.result}, [self.result]
        while new:
            for parent in self._parents(self.operations[new.pop()]):
                if parent not in bad and not self._good(parent) and parent in self.found:
                    bad.add(parent)
                    new.append(parent)
        partly = {number for number in bad if self._is_partly_filled(number)}
        first = [
            number
            for number in sorted(bad - partly)
            if not (bad - partly).intersection(self.operations[number].parents)
        ]
        for number in first:
            found = self._explain(self.operations[number])
            if found is not None:
                return found
        return None

    def before_an_error(self) -> Departure | None:
        """Return the same of a run that an error stopped: the result is what was made last."""
        if cut := self._cut_into_tokens():
            return cut
        begun = [n for n in self.leads_here & self.from_x if n in self.found]
        last = [n for n in sorted(self.from_x) if self.operations[n].line is not None]
        if not begun and not last:
            return None
        for number in last[::-1][:3]:
            self.result = number
            self.leads_here = self._lead_to(number)
            for n in sorted(self.leads_here & self.from_x):
                if n not in self.found:
                    self.found[n] = self._look(self.operations[n])
            if self._good(number):
                held = self.found[number]
                joined = number == last[-1] and self.operations[number].name in JOINS
                if joined and held is not None and held.name == "context_vec":
                    shape = self.of_shape()
                    if shape is not None and shape.code.startswith("merge"):
                        return shape
                continue
            found = self.departure()
            if found is not None and found.sure and found.code.startswith(BEFORE):
                return found
        return None

    def _repeats(self, number: int) -> bool:
        """Return whether a result or context vectors hold the same numbers for several tokens."""
        found, values = self.found.get(number), self.operations[number].values
        if found is None or found.layout is None:
            return False
        if found.name == "values":  # values may be repeated on purpose, but not by a product
            before = number
            while not re.search(r"matmul|bmm|einsum|sum", self.operations[before].name):
                parents = self._parents(self.operations[before])
                if len(parents) != 1:
                    return False
                (before,) = parents
        elif found.name not in ("context_vec", "result"):
            return False
        return any(
            not axes and size > 1 for axes, size in zip(found.layout, values.shape, strict=True)
        )

    def _is_partly_filled(self, number: int) -> bool:
        """Return whether parts of a tensor are set here that begins empty."""
        operation = self.operations[number]
        return (
            operation.name in ASSIGNS
            and number != self.result
            and not any(self._good(n) for n in operation.parents[:1])
            and (operation.parents[0] not in self.from_x or self._begins_empty(operation))
        )

    def _begins_empty(self, operation: Operation) -> bool:
        while operation.name in ASSIGNS and operation.parents:
            operation = self.operations[operation.parents[0]]
        return operation.number not in self.from_x

    def _explain(self, operation: Operation) -> Departure | None:
        parents = {n: self.found[n] for n in self._parents(operation) if self._good(n)}
        names = {found.name for found in parents.values() if found is not None}
        made = self.found.get(operation.number)
        if not parents:
            return None
        if random := self._random(operation):
            return random
        if nan := self._nan_of_a_mask(operation):
            return nan
        if "projections" in names:
            mixed = next(n for n, f in parents.items() if f and f.name == "projections")
            return self._parts_mixed(mixed, operation)
        if operation.name == "scaled_dot_product_attention" and len(names) == 2 <= len(parents):
            return self._twice(operation)
        if (
            made is not None
            and made.name in names - {"scores", "attn_weights", "steps of softmax"}
            and not made.in_order
        ):
            return self._mixed(operation, made)
        if made is not None and made.in_order and made.name in names - {"steps of softmax"}:
            return self._at(
                operation,
                f"{made.name}.scaled",
                f"{the(made.name)} {are(made.name)} multiplied by {made.factor:.4g} here, and "
                "nothing in attention does that.",
            )
        scores = [n for n, found in parents.items() if found is not None and found.name == "scores"]
        if scores:
            return self._after_scores(operation, scores[0])
        if "steps of softmax" in names:
            return self._by_hand(operation, parents, names)
        if {"queries", "keys", "values"} <= names:
            return self._fused(operation, parents)
        if "attn_weights" in names:
            return self._after_weights(operation, parents, names)
        if names <= set(PARTS):
            return self._scores(operation, parents, names)
        if "context_vec" in names:
            return self._after_context(operation, names)
        if "result" in names and any("out_proj" in self._given_name(n) for n in operation.parents):
            return self._at(
                operation,
                "out_proj.twice",
                "out_proj is applied here a second time: once is right.",
            )
        if "result" in names:
            return self._at(
                operation,
                "result.changed",
                "the result was complete before this line, which changes it: it "
                f"{does(operation)}.",
            )
        if names == {"x"}:
            return self._after_x(operation)
        return None

    def _parts_mixed(self, number: int, operation: Operation) -> Departure:
        """Tell the line that takes one projection of all three apart in another order."""
        chain = [self.operations[number]]
        while True:
            before = [
                n
                for n in self._parents(chain[-1])
                if (found := self.found.get(n)) is not None and found.name == "projections"
            ]
            if not before:
                break
            chain.append(self.operations[before[0]])
        first = chain[-2] if len(chain) > 1 else operation
        width = self.named["queries"][0].values.shape[-1] * self.num_heads
        return self._at(
            first,
            "split.parts",
            f"the projection makes {width} columns of queries first, then {width} of keys, then "
            f"{width} of values, each head by head; here they are taken apart in another order.",
        )

    def _cut_into_tokens(self) -> Departure | None:
        """Tell one projection of all three that is cut along the tokens."""
        if "projections" not in self.named:
            return None
        size = self.named["x"][0].values.shape[1]
        for number in sorted(self.from_x):
            operation = self.operations[number]
            if operation.name not in {"chunk", "split", "tensor_split", "unbind"}:
                continue
            found = self._look(operation)
            if found is None or found.name != "projections" or "t" not in found.index:
                continue
            if found.index["t"].numel() < size:
                return self._at(
                    operation,
                    "split.parts",
                    "the tokens are taken apart here, and not queries, keys and values: those are "
                    "side by side along the last dimension, dim=-1.",
                )
        return None

    def _random(self, operation: Operation) -> Departure | None:
        """Tell an operation that draws random numbers, or takes some in."""
        if RANDOM.search(operation.name):
            return self._at(
                operation,
                "dropout.active",
                f"numbers are dropped here, though in eval: {dropout_remedy(operation.line)}",
            )
        start = min(self.from_x)
        others = [n for n in operation.parents if n > start and n not in self.from_x]
        for n in others:
            others.extend(
                p
                for p in self.operations[n].parents
                if p > start and p not in others and p not in self.from_x
            )
            if RANDOM.search(self.operations[n].name):
                return self._at(operation, "random", "random numbers come in here, though in eval.")
        return None

    def _nan_of_a_mask(self, operation: Operation) -> Departure | None:
        """Tell a tensor without x that holds NaN: 0 * inf, in most cases."""
        number = next(
            (
                n
                for n in operation.parents
                if n not in self.from_x and bool(self.operations[n].values.isnan().any())
            ),
            None,
        )
        if number is None:
            return None
        while True:
            made = self.operations[number]
            before = [n for n in made.parents if bool(self.operations[n].values.isnan().any())]
            if not before:
                break
            number = before[0]
        if "empty" in made.name:
            return self._at(
                operation,
                "result.unwritten",
                f"torch.{made.name} holds whatever numbers are in memory, and this line "
                "computes with them: begin with zeros.",
            )
        return self._at(
            made,
            "mask.nan",
            "NaN arises here. Is a mask multiplied by -inf? 0 * inf is NaN: use "
            "masked_fill(is_future, -torch.inf).",
        )

    def _after_x(self, operation: Operation) -> Departure:
        weights = [n for n in operation.parents if self._given_name(n).endswith("weight")]
        if weights:
            layer = self._given_name(weights[0]).rpartition(".")[0]
            if self._lacks_its_bias(operation, weights[0], layer):
                return self._at(
                    operation,
                    "projection.bias",
                    f"x times the transpose of {layer}.weight is only half of {layer}: its bias is "
                    f"missing here. self.{layer}(x) adds it, F.linear(x, weight, bias) does too.",
                )
            return self._at(
                operation,
                "projection.wrong",
                f"this is not x times the transpose of {layer}.weight: call self.{layer}(x).",
                sure=False,
            )
        return self._at(
            operation,
            "x.changed",
            f"x is changed before it is projected: this line {does(operation)}. Queries, keys and "
            "values come from x itself.",
        )

    def _lacks_its_bias(self, operation: Operation, weight: int, layer: str) -> bool:
        """Return whether a projection is right but for a bias that its layer has."""
        if f"{layer}.bias" not in {made.name for made in self.operations if made.given}:
            return False
        x = next((n for n in operation.parents if n in self.from_x and n != weight), None)
        if x is None:
            return False
        for matrix in (self.operations[weight].values.mT, self.operations[weight].values):
            try:
                plain = self.operations[x].values @ matrix
            except RuntimeError:
                continue
            if plain.shape == operation.values.shape and torch.allclose(
                plain, operation.values, atol=1e-5
            ):
                return True
        return False


def misnamed(
    module: nn.Module, x: Tensor, named: Mapping[str, tuple[Quantity, ...]]
) -> Departure | None:
    """Return the line where a variable named like queries, keys or values holds another of them."""
    roles: dict[str, str] = {}
    last: dict[str, Line] = {}
    for step in trace(module, x, depth=2).steps:
        role = next((r for r, names in ROLES.items() if re.search(names, step.name.lower())), None)
        if role is None or not step.values.is_floating_point():
            continue
        found = find_any(step.values, named, PARTS)
        if found is not None and found.name != role and step.change != "given":
            roles.setdefault(step.name, found.name)
            last.setdefault(step.name, Line(step.function, step.line, step.source))
    if not roles:
        return None
    name, holds = next(iter(roles.items()))
    W = {"queries": "W_query", "keys": "W_key", "values": "W_value"}[holds]
    if len(roles) > 1 and len(set(roles.values())) == 1:
        cause = f"Here {' and '.join(roles)} hold the {holds}: each is made by {W}."
    elif len(roles) > 1:
        first, second = list(roles.items())[:2]
        cause = (
            f"Here {first[0]} holds the {first[1]} and {second[0]} the {second[1]}: they have "
            "changed places."
        )
    else:
        cause = f"Here {name} holds the {holds}: it is made by {W}."
    return Departure("parts.swapped", cause, last[name])
