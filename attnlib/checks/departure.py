"""The line at which a learner's forward leaves the path.

Every tensor that forward makes is looked up among the quantities of attention. The result is not
the right one; so, going back from it, there is a first operation whose inputs are right and whose
result is not. Its line is the answer. What relates its result to the right one is the cause.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnlib.checks.path import MAY_BE_SCALED, Path, close_or_nan, divided
from attnlib.checks.quantities import Found, Quantity, find, find_any
from attnlib.functional import causal_mask
from attnlib.tracing.operations import Line, Operation
from attnlib.tracing.tracer import trace

PARTS = ("queries", "keys", "values")
ASSIGNS = {"__setitem__", "copy_", "index_copy_", "index_put_", "scatter_", "narrow_copy"}
SOFTMAX = re.compile(r"softmax|exp|^a?max|^sub|^__sub__|sigmoid|tanh|relu")
RANDOM = re.compile(r"dropout|bernoulli|^rand|normal_|^normal$|multinomial|uniform_|poisson")
HIDES = {"masked_fill", "where", "add", "iadd", "radd"}
MASKS = {"triu", "tril", "triu_", "tril_", "gt", "lt", "ge", "le", "__gt__", "__lt__"}


@dataclass(frozen=True)
class Departure:
    """Where forward leaves the path, and why.

    Args:
        code: short and stable, for counting: "scale.none".
        cause: a sentence that a learner reads.
        line: the learner's own, if it is known.
        sure: whether one relation fits; otherwise the cause says only what should be there.
    """

    code: str
    cause: str
    line: Line | None
    sure: bool = True


class Departures(Path):
    """A path, the operation that leaves it, and why."""

    def departure(self) -> Departure | None:
        """Return the first line that leaves the path; None if nothing can be said."""
        if self._good(self.result):
            return self._ends_too_early()
        if unwritten := self._unwritten():
            return unwritten
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

    # Why

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
        if operation.name == "scaled_dot_product_attention" and len(names) == 2 <= len(parents):
            return self._twice(operation)
        if (
            made is not None
            and made.name in names - {"scores", "attn_weights"}
            and not made.in_order
        ):
            return self._mixed(operation, made)
        if made is not None and made.in_order and made.name in names:
            return self._at(
                operation,
                f"{made.name}.scaled",
                f"{_the(made.name)} {_are(made.name)} multiplied by {made.factor:.4g} here, and "
                "nothing in attention does that.",
            )
        if swapped := self._misnamed(operation, names):
            return swapped
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
        if "result" in names:
            return self._at(
                operation,
                "result.changed",
                "the result was complete before this line, which changes it: it "
                f"{_does(operation)}.",
            )
        if names == {"x"}:
            return self._after_x(operation)
        return None

    def _random(self, operation: Operation) -> Departure | None:
        """Tell an operation that draws random numbers, or takes some in."""
        if RANDOM.search(operation.name):
            return self._at(
                operation,
                "dropout.active",
                "numbers are dropped here, though in eval: nn.Dropout knows the mode, F.dropout "
                "must "
                "be told by training=self.training.",
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
        return self._at(
            made,
            "mask.nan",
            "NaN arises here. Is a mask multiplied by -inf? 0 * inf is NaN: use "
            "masked_fill(is_future, -torch.inf).",
        )

    def _twice(self, operation: Operation) -> Departure | None:
        """Tell what comes into PyTorch's attention, if one of the three comes twice."""
        given = [self.found.get(n) for n in operation.parents[:3]]
        names = [found.name for found in given if found is not None]
        if len(names) < 3 or not set(names) <= set(PARTS):
            return None
        return self._at(
            operation,
            "parts.twice",
            f"PyTorch's attention takes queries, keys and values, and here come {names[0]}"
            f", {names[1]} and {names[2]}.",
        )

    def _unwritten(self) -> Departure | None:
        """Tell rows or columns of the result into which nothing was ever written."""
        chain = [self.operations[self.result]]
        while chain[-1].name in ASSIGNS and chain[-1].parents:
            chain.append(self.operations[chain[-1].parents[0]])
        begun, end = chain[-1], chain[0]
        if len(chain) < 2 or begun.number in self.from_x or begun.values.shape != end.values.shape:
            return None
        same = (begun.values == end.values) | (begun.values.isnan() & end.values.isnan())
        if same.ndim != 3 or not same.any() or same.all():
            return None
        for axis, what in ((1, "token"), (2, "column"), (0, "text")):
            others = [i for i in range(3) if i != axis]
            never = same.all(dim=others[1]).all(dim=others[0]).nonzero().flatten().tolist()
            if never:
                places = f"{what} {never[0]}"
                if len(never) > 1:
                    places = f"{what}s {', '.join(map(str, never[:-1]))} and {never[-1]}"
                if len(never) > 3 and never == list(range(never[0], never[-1] + 1)):
                    places = f"{what}s {never[0]} to {never[-1]}"
                verb = "are" if len(never) > 1 else "is"
                return self._at(
                    end,
                    "result.unwritten",
                    f"{places} of the result {verb} never written, counted from 0: what "
                    f"{begun.name} put there is still there.",
                )
        return None

    def _at(self, operation: Operation, code: str, cause: str, sure: bool = True) -> Departure:
        begin = cause if cause.startswith("x ") else cause[0].upper() + cause[1:]
        return Departure(code, begin, self._line(operation), sure)

    def _line(self, operation: Operation) -> Line | None:
        """Return the line of an operation, or of the nearest one before it that has a line."""
        while operation.line is None and operation.parents:
            operation = self.operations[operation.parents[0]]
        return operation.line

    def _given_name(self, number: int) -> str:
        """Return the name of the parameter that an operation only copies or turns."""
        operation = self.operations[number]
        while operation.parents and number not in self.from_x:
            operation = self.operations[operation.parents[0]]
        return operation.name if operation.given else ""

    def _mixed(self, operation: Operation, made: Found) -> Departure:
        name = made.name
        if made.moved is None and name in PARTS and self._other_numbers(operation):
            return self._at(
                operation,
                f"{name}.changed",
                f"this line changes {_the(name)}: it {_does(operation)}.",
            )
        if made.moved is None and self.num_heads == 1:
            return self._at(
                operation, f"{name}.mixed", f"the numbers of {_the(name)} get mixed up here."
            )
        if made.moved is not None:
            what, how = made.moved
            if name == "context_vec" and what == "columns":
                code = f"merge.{'alternating' if how == 'alternating' else 'order'}"
                if how == "alternating":
                    cause = (
                        "the columns of the heads alternate: all columns of head 0 come first, "
                        "then all of head 1."
                    )
                elif how == "reversed":
                    cause = (
                        "the heads come out in reverse order: head 0 belongs in the first columns."
                    )
                elif "repeated" in how:
                    cause = (
                        "every head returns what one head returns: does the loop use its own head "
                        "each time?"
                    )
                else:
                    cause = (
                        "the heads come out in another order: head 0 belongs in the first columns."
                    )
                return self._at(operation, code, cause)
            return self._at(
                operation,
                f"{name}.order",
                f"the {what} of {_the(name)} are {how} here; they must keep their places.",
            )
        if name == "context_vec":
            return self._at(
                operation,
                "merge.mixed",
                "the merge mixes tokens and heads. First transpose(1, 2), then view.",
            )
        if name in PARTS:
            return self._at(
                operation,
                "split.mixed",
                f"the split mixes tokens and heads of the {name}. First view(b, num_tokens, "
                "num_heads, head_dim), then transpose(1, 2).",
            )
        if name == "scores":
            return self._at(
                operation, "scores.mixed", "the scores change places here and get mixed up."
            )
        return self._at(
            operation, f"{name}.mixed", f"the numbers of {_the(name)} get mixed up here."
        )

    def _other_numbers(self, operation: Operation) -> bool:
        """Return whether an operation on one tensor changes numbers, and not only their places."""
        (number, *more) = self._parents(operation)
        old, new = self.operations[number].values, operation.values
        if more or old.numel() != new.numel() or operation.name in ASSIGNS:
            return False
        return not torch.equal(old.flatten().sort().values, new.flatten().sort().values)

    def _misnamed(self, operation: Operation, names: set[str]) -> Departure | None:
        return None

    # The projections

    def _after_x(self, operation: Operation) -> Departure:
        given = [name for n in operation.parents if (name := self._given_name(n))]
        if any(name.endswith("weight") for name in given):
            name = given[0].rpartition(".")[0]
            return self._at(
                operation,
                "projection.wrong",
                f"this is not x times the transpose of {name}.weight: call self.{name}(x).",
                sure=False,
            )
        return self._at(
            operation,
            "x.changed",
            f"x is changed before it is projected: this line {_does(operation)}. Queries, keys and "
            "values come from x itself.",
        )

    # The scores

    def _scores(
        self, operation: Operation, parents: Mapping[int, Found | None], names: set[str]
    ) -> Departure:
        if (
            len(names) == 1
            and len(parents) == 1
            and operation.parents.count(next(iter(parents))) < 2
        ):
            (name,) = names
            return self._at(
                operation,
                f"{name}.changed",
                f"this line changes the {name} ({_does(operation)}); the {name} go into attention "
                f"as the projection made them.",
            )
        for number, found in parents.items():
            if found is not None and not self._by_head(found):
                return self._at(
                    self.operations[number],
                    "split.missing",
                    f"this takes other columns of the {found.name} than those of one head: head h "
                    f"owns columns h * {self.width} to (h + 1) * {self.width}.",
                )
        if names == {"queries", "keys"}:
            return self._at(
                operation,
                "scores.wrong",
                "the scores should be made here, queries @ keys.transpose(-2, -1), head by head, "
                f"but this line {_does(operation)}.",
                sure=False,
            )
        pair = " times ".join(sorted(names) if len(names) > 1 else [*names, *names])
        return self._at(
            operation,
            f"scores.{'-'.join(sorted(names))}",
            f"the scores are {pair}. They are queries @ keys.transpose(-2, -1).",
        )

    def _by_head(self, found: Found) -> bool:
        """Return whether all columns of a head, and of no other, lie along one dimension."""
        if self.num_heads == 1 or found.layout is None:
            return True
        columns = set(found.index["d"].flatten().tolist())
        if len(columns) < self.named["queries"][0].values.shape[-1]:
            return False
        for axes in found.layout:
            if "d" in axes:
                return "h" not in axes or bool(
                    (found.index["h"] == found.index["h"].flatten()[0]).all()
                )
        return True

    # From the scores to the weights

    def _after_scores(self, operation: Operation, number: int) -> Departure | None:
        scores, before = self.operations[number], self.found[number]
        assert before is not None
        if before.layout is None:
            return None
        values, old = operation.values.double(), scores.values.double()
        if values.shape == old.shape:
            for dim, axes in enumerate(before.layout):
                if close_or_nan(values, old.softmax(dim=dim)):
                    return self._after_softmax(operation, number, before, axes)
            if close_or_nan(values, old.flatten().softmax(0).view(old.shape)):
                return self._after_softmax(operation, number, before, "")
            if values.isnan().any() and not old.isnan().any():
                if old.isneginf().any() and self._state(before) is not None:
                    return self._blame_state(operation, number, before)
                if re.search(r"pow|sqrt|log", operation.name) and (old < 0).any():
                    return self._at(
                        operation,
                        "scores.root",
                        "scores are negative too, and a root or a logarithm of those is NaN. Only "
                        f"the number that divides them is a root: {self.width}**0.5.",
                    )
                return self._at(
                    operation,
                    "mask.nan",
                    "NaN arises here. Is a mask multiplied by -inf? 0 * inf is NaN: use "
                    "masked_fill(is_future, -torch.inf).",
                )
            changed = (values - old).abs() > 1e-5
            changed &= ~((values == -torch.inf) & (old == -torch.inf))
            if changed.any() and not changed.all() and bool((~changed & old.isfinite()).any()):
                return self._soft_mask(operation, number, before, changed)
        if SOFTMAX.search(operation.name) and self._state(before) is not None:
            return self._blame_state(operation, number, before)
        made = self.found.get(operation.number)
        if made is not None and not made.in_order and made.name == "scores":
            return self._mixed(operation, made)
        others = {
            found.name
            for n in self._parents(operation)
            if (found := self.found.get(n)) is not None and found.name in PARTS
        }
        if others:
            return self._at(
                operation,
                "softmax.none",
                f"the scores meet the {min(others)} here as they are: softmax over the keys is "
                "missing before.",
            )
        does = _does(operation)
        if "softmax" in operation.name:
            return self._at(
                operation,
                "softmax.wrong",
                "the scores are right before this line, and its result is not their softmax over "
                "the keys.",
            )
        return self._at(
            operation,
            "scores.changed",
            f"the scores are right before this line, which changes them: it {does}. Only the scale "
            "and the mask come before softmax.",
            sure=not SOFTMAX.search(operation.name),
        )

    def _after_softmax(
        self, operation: Operation, number: int, before: Found, axes: str
    ) -> Departure | None:
        if axes != "j":
            if axes == "i" and self._transposed(before):
                return self._scores_transposed(number)
            over = {
                "i": "the columns of the weights sum to 1, not the rows: softmax runs over the "
                "queries. Use dim=-1, the keys.",
                "h": "softmax runs over the heads. It must run over the keys, so that each row "
                "sums "
                "to 1.",
                "b": "softmax runs over the texts of the batch. It must run over the keys, so that "
                "each row sums to 1.",
            }
            return self._at(
                operation,
                "softmax.axis",
                over.get(
                    axes,
                    "softmax does not run over the keys alone, so that the rows do not sum to 1.",
                ),
            )
        return self._blame_state(operation, number, before)

    def _by_hand(
        self, operation: Operation, parents: Mapping[int, Found | None], names: set[str]
    ) -> Departure:
        rule = "softmax is exp, divided by the sum of its row: sum(dim=-1, keepdim=True)"
        if names & set(PARTS):
            step = next(n for n, f in parents.items() if f is not None and f.name not in PARTS)
            return self._at(
                self.operations[step],
                "softmax.unfinished",
                f"softmax by hand stops here, and its numbers meet the {min(names & set(PARTS))} "
                "as "
                f"they are: {rule}.",
            )
        return self._at(
            operation,
            "softmax.by-hand",
            f"softmax by hand goes wrong here, where it {_does(operation)}: {rule}.",
        )

    def _state(self, scores: Found) -> str | None:
        """Return what is wrong with scores that go into softmax."""
        if not self._hidden(scores).equal(self._future(scores)):
            return "mask"
        if abs(scores.factor / self.root - 1) > 1e-4:
            return "scale"
        return None

    def _hidden(self, scores: Found) -> Tensor:
        assert scores.hidden is not None
        return scores.hidden

    def _future(self, scores: Found) -> Tensor:
        assert scores.hidden is not None
        return (scores.index["j"] > scores.index["i"]).expand(scores.hidden.shape)

    def _transposed(self, scores: Found) -> bool:
        """Return whether the rows of the last two dimensions are keys."""
        layout = scores.layout or ()
        return "j" in layout and "i" in layout and layout.index("j") < layout.index("i")

    def _scores_transposed(self, number: int) -> Departure:
        return self._at(
            self._first_scores(number),
            "scores.transposed",
            "the scores are keys times queries: row i of attn_scores must belong to query i. They "
            "are queries @ keys.transpose(-2, -1).",
        )

    def _chain(self, number: int) -> Iterator[Operation]:
        """Yield the operations on scores that led here, the last one first."""
        current: int | None = number
        while current is not None:
            yield self.operations[current]
            current = next(
                (
                    n
                    for n in self._parents(self.operations[current])
                    if (found := self.found.get(n)) is not None and found.name == "scores"
                ),
                None,
            )

    def _first_scores(self, number: int) -> Operation:
        return list(self._chain(number))[-1]

    def _blame_state(self, operation: Operation, number: int, before: Found) -> Departure | None:
        wrong = self._state(before)
        if wrong == "scale":
            return self._wrong_scale(operation, number, before)
        if wrong == "mask":
            hidden, future = self._hidden(before), self._future(before)
            pattern = self._pattern(before, hidden)
            if pattern is not None and not hidden.any():
                return self._nothing_hidden(operation, number)
            if self._transposed(before) and hidden.equal(
                (before.index["j"] < before.index["i"]).expand(hidden.shape)
            ):
                return self._scores_transposed(number)
            maskers = [
                (later, earlier)
                for later, earlier in _pairs(list(self._chain(number)))
                if self._hides(later) != self._hides(earlier)
            ]
            last = maskers[0][0] if maskers else self.operations[number]
            for later, _ in reversed(maskers):
                found = self.found[later.number]
                if found is not None and bool((self._hidden(found) & ~self._future(found)).any()):
                    last = later
                    break
            return self._wrong_mask(last, pattern, hidden, future, before)
        return None

    def _hides(self, operation: Operation) -> int:
        found = self.found.get(operation.number)
        return int(found.hidden.sum()) if found is not None and found.hidden is not None else 0

    def _pattern(self, scores: Found, hidden: Tensor) -> Tensor | None:
        """Return what is hidden as queries by keys; None if texts or heads differ."""
        size = self.named["scores"][0].values.shape[-1]
        some, every = torch.zeros(size, size), torch.ones(size, size)
        rows = scores.index["i"].expand(hidden.shape).flatten()
        columns = scores.index["j"].expand(hidden.shape).flatten()
        flat = hidden.flatten().float()
        places = rows * size + columns
        some.view(-1).scatter_reduce_(0, places, flat, "amax")
        every.view(-1).scatter_reduce_(0, places, flat, "amin")
        seen = torch.zeros(size * size).scatter_(0, places, 1.0).view(size, size).bool()
        return some.bool() if bool((some == every)[seen].all()) else None

    def _mask_maker(self, operation: Operation, deep: int = 8) -> Operation | None:
        """Return the operation that drew the triangle that this one used."""
        numbers = [n for n in operation.parents if n not in self.from_x]
        for _ in range(deep):
            later: list[int] = []
            for n in numbers:
                if self.operations[n].name in MASKS and self.operations[n].line is not None:
                    return self.operations[n]
                later.extend(self.operations[n].parents)
            numbers = later
        return self._mask_writer(operation)

    def _mask_writer(self, operation: Operation) -> Operation | None:
        """Return the operation that last wrote into a mask that no triangle was drawn for."""
        numbers, seen = [n for n in operation.parents if n not in self.from_x], set[int]()
        while numbers:
            number = max(numbers)
            numbers.remove(number)
            if number in seen:
                continue
            seen.add(number)
            made = self.operations[number]
            if made.name in ASSIGNS and made.line is not None:
                return made
            numbers.extend(made.parents)
        return None

    def _wrong_mask(
        self,
        operation: Operation,
        pattern: Tensor | None,
        hidden: Tensor,
        future: Tensor,
        scores: Found,
    ) -> Departure:
        maker = self._mask_maker(operation) or operation
        if pattern is None:
            return self._at(
                operation,
                "mask.differs",
                "the mask hides other places in one head or text than in another: it must be the "
                "same triangle for all.",
            )
        n = len(pattern)
        ones = torch.ones(n, n, dtype=torch.bool)
        triangle = "True above the diagonal only: triu(..., diagonal=1)."
        if pattern.equal(ones.tril()) or pattern[1:-1].equal(ones.tril()[1:-1]):
            return self._at(
                operation,
                "mask.inverted",
                "each token sees only what comes after it: the mask is the wrong way round. What "
                "is True in masked_fill is hidden, so True must mean future.",
            )
        for wrong, code, cause in (
            (
                ones.triu(),
                "mask.diagonal",
                "your mask hides each token from itself too, and token 0 has nothing else to see"
                ": its result is NaN. Leave the diagonal visible: triu(..., diagonal=1).",
            ),
            (
                ones.tril(-1),
                "mask.past",
                f"{LEAK} Is the triangle the upper one, above the diagonal?",
            ),
            (
                ones.triu(2),
                "mask.late",
                f"{LEAK} Does the triangle begin right above the diagonal, triu(..., diagonal=1)?",
            ),
            (
                ones.triu(3),
                "mask.late",
                f"{LEAK} Does the triangle begin right above the diagonal, triu(..., diagonal=1)?",
            ),
        ):
            if pattern.equal(wrong):
                return self._at(maker, code, cause)
        causal = causal_mask(n)
        leaks, too_much = (~pattern & causal).nonzero(), (pattern & ~causal).nonzero()
        if len(leaks):
            i, j = leaks[0].tolist()
            return self._at(
                maker,
                "mask.leaks",
                f"the mask lets token {i} see token {j}, which comes later. It must hide all that "
                f"comes later: it is {triangle}",
            )
        i, j = too_much[0].tolist()
        return self._at(
            maker,
            "mask.too-much",
            f"token {i} does not see token {j}, which is not in its future: your mask hides too "
            f"much. It is {triangle}",
        )

    def _soft_mask(
        self, operation: Operation, number: int, before: Found, changed: Tensor
    ) -> Departure | None:
        values = operation.values.double()
        pattern = self._pattern(before, changed | self._hidden(before))
        fills = values[changed]
        finite = fills[fills.isfinite()]
        if fills.isposinf().any():
            return self._at(
                operation,
                "mask.fill",
                "what should be hidden is set to +inf, which wins softmax: it must be -torch.inf.",
            )
        old = self.operations[number].values.double()
        added = (values - old)[changed]
        number_ = None
        if len(finite) and float(finite.max() - finite.min()) < 1e-4:
            number_ = float(finite[0])
            said = f"are set to {number_:.4g}"
        elif len(finite) and float(added.max() - added.min()) < 1e-3 * max(
            1.0, float(added.abs().max())
        ):
            number_ = float(added[0])
            said = f"get {number_:+.4g}"
        if number_ is not None and (pattern is None or (pattern & causal_mask(len(pattern))).any()):
            added_up = operation.name.strip("_") in {"add", "iadd", "radd", "sub"}
            return self._at(
                (added_up and self._mask_writer(operation)) or operation,
                "mask.fill",
                f"the scores that the mask hides {said}, and softmax still gives them weight: they "
                "must be -torch.inf.",
            )
        return self._at(
            operation,
            "scores.changed",
            f"the scores are right before this line, which changes them: it {_does(operation)}.",
        )

    def _nothing_hidden(self, operation: Operation, number: int) -> Departure:
        for other in self.operations:
            if other.number in self.leads_here or other.number not in self.from_x:
                continue
            if other.number > number and other.number > operation.number:
                break
            found = find_any(other.values, self.named, ("scores",))
            if found is None:
                plain = self.found[number]
                if plain is not None and other.values.numel():
                    found = find(divided(other.values, plain.factor), self.named["scores"][0])
            if found is not None and found.hidden is not None and found.hidden.any():
                return self._at(
                    other,
                    "mask.unused",
                    "the future is hidden here, but the result is not kept: masked_fill returns a "
                    "new tensor, masked_fill_ changes the old one.",
                )
        for other in self.operations[operation.number + 1 :]:
            if other.number not in self.leads_here or other.number not in self.from_x:
                continue
            values = other.values
            size = values.shape[-1] if values.ndim > 1 else 0
            if size > 1 and values.shape[-2] == size:
                future = causal_mask(size)
                hidden = values[..., future]
                if bool(((hidden == 0) | hidden.isinf() | hidden.isnan()).all()):
                    return self._at(
                        other,
                        "mask.after-softmax",
                        "the future is hidden only after softmax, so the rows that softmax made "
                        "still counted it. Hide the scores with -torch.inf before softmax.",
                    )
        for later in self._chain(number):
            masks = [n for n in later.parents if n not in self.from_x]
            if later.name.strip("_") in HIDES and any(
                not self.operations[n].given and self.operations[n].values.numel() > 1
                for n in masks
            ):
                return self._at(
                    later,
                    "mask.empty",
                    f"{LEAK} The mask of this line hides nothing of these tokens: is it cut to "
                    "the rows and columns of the tokens that there are?",
                )
        return self._at(
            operation,
            "mask.none",
            f"{LEAK} Nothing is hidden when softmax comes: put -torch.inf into attn_scores before "
            "softmax, where the key comes after the query.",
        )

    def _wrong_scale(self, operation: Operation, number: int, before: Found) -> Departure:
        factor = before.factor
        code, cause = scale_sentence(factor, self.root, self.width, self.widths)
        scaler = None
        for later in sorted(self.leads_here & self.from_x):
            if later > number:
                break
            found = self.found.get(later)
            if found is None or not found.in_order or found.name not in MAY_BE_SCALED:
                continue
            product = 1.0
            for earlier in self._nearest_found(later):
                product *= earlier.factor
            if abs(found.factor / product - 1) > 1e-4:
                scaler = self.operations[later]
                if factor < 0 and found.factor / product < 0:
                    break
        return self._at(scaler or self._first_scores(number), code, cause)

    def _nearest_found(self, number: int) -> list[Found]:
        """Return the scaled quantities of which an operation is made, through unknown steps."""
        nearest: list[Found] = []
        for parent in self._parents(self.operations[number]):
            found = self.found.get(parent)
            if found is None and parent in self.found:
                nearest.extend(self._nearest_found(parent))
            elif found is not None and found.name in MAY_BE_SCALED:
                nearest.append(found)
        return nearest

    # PyTorch's own function, or all in one

    def _fused(self, operation: Operation, parents: Mapping[int, Found | None]) -> Departure | None:
        by_name = {found.name: found for found in parents.values() if found is not None}
        for n, found in parents.items():
            if found is not None and not self._by_head(found):
                return self._at(
                    self.operations[n],
                    "split.missing",
                    f"this takes other columns of the {found.name} than those of one head.",
                )
        q, k, v = (self.named[name][0].values for name in PARTS)
        size = q.shape[-2]
        ones = torch.ones(size, size, dtype=torch.bool)
        carried = by_name["queries"].factor * by_name["keys"].factor
        factors = [self.root, carried * self.root, carried, 1.0, *(f for f, _, _ in self.widths)]
        masks = {
            "mask.none": (~ones, f"{LEAK} Nothing is hidden: use is_causal=True."),
            "mask.inverted": (
                ones.tril(),
                "each token sees only what comes after it: in scaled_dot_product_attention True "
                "means that a token may look, so hand over ~is_future.",
            ),
            "mask.past": (ones.tril(-1), f"{LEAK} Is the triangle the right one?"),
            "mask.diagonal": (
                ones.triu(),
                "your mask hides each token from itself too. Leave the diagonal visible.",
            ),
            "mask.late": (
                ones.triu(2),
                f"{LEAK} Does the triangle begin right above the diagonal?",
            ),
        }
        orders = {
            "q,k,v": (q, k, v), "k,q,v": (k, q, v), "q,v,k": (q, v, k),
            "v,k,q": (v, k, q), "k,v,q": (k, v, q), "v,q,k": (v, q, k),
        }  # fmt: skip
        for order, (a, b, c) in orders.items():
            for factor in dict.fromkeys(factors):
                scores = factor * a @ b.mT
                for code, (mask, cause) in {"": (ones.triu(1), ""), **masks}.items():
                    weights = scores.masked_fill(mask, -torch.inf).softmax(dim=-1)
                    context = weights @ c
                    if not any(_has(operation.values, made) for made in (context, weights)):
                        continue
                    if order != "q,k,v":
                        return self._at(
                            operation,
                            "parts.swapped",
                            f"queries, keys and values come here in the order {order}: it must be "
                            "queries, keys, values.",
                        )
                    if code:
                        return self._at(self._mask_maker(operation) or operation, code, cause)
                    said = scale_sentence(factor, self.root, self.width, self.widths)
                    return self._at(self._scaler(parents) or operation, *said)
        for mask in (ones.tril(), ones.triu(1), ones.triu()):
            weights = (self.root * q @ k.mT + mask).softmax(dim=-1)
            if _has(operation.values, weights @ v):
                return self._at(
                    self._mask_maker(operation) or operation,
                    "mask.added",
                    "a mask of 0 and 1 is added to the scores here, which hides nothing: hand over "
                    "a "
                    "bool mask, True where a token may look, or -inf where it may not.",
                )
        return self._at(
            operation,
            "attention.wrong",
            "queries, keys and values are right before this line, and its result is not their "
            "causal attention.",
            sure=False,
        )

    def _scaler(self, parents: Mapping[int, Found | None]) -> Operation | None:
        """Return the operation that scales the queries or the keys, before PyTorch does."""
        for number in sorted(self.leads_here & self.from_x):
            found = self.found.get(number)
            if found is None or found.name not in PARTS or abs(found.factor - 1) < 1e-4:
                continue
            if number <= max(parents):
                return self.operations[number]
        return None

    # From the weights to the context vectors

    def _after_weights(
        self, operation: Operation, parents: Mapping[int, Found | None], names: set[str]
    ) -> Departure:
        values = operation.values
        weights = self.named["attn_weights"][0].values
        if names == {"attn_weights"}:
            held = next(f for f in parents.values() if f is not None)
            old = self.operations[next(iter(parents))].values
            if values.shape == old.shape and held.layout is not None:
                return self._at(
                    operation,
                    "weights.changed",
                    f"this line changes the weights after softmax ({_does(operation)}), so that a "
                    "row "
                    "no longer sums to 1.",
                )
            return self._at(
                operation,
                "weights.wrong",
                f"the weights are right before this line, which should multiply them with the "
                f"values, but it {_does(operation)}.",
                sure=False,
            )
        other = next(iter(names - {"attn_weights"}))
        if other in {"queries", "keys", "x"}:
            what = {"keys": "keys", "queries": "queries", "x": "x itself"}[other]
            return self._at(
                operation,
                f"values.{other}",
                f"the weights multiply {what} here, and must multiply the values: are keys and "
                "values "
                "swapped?"
                if other == "keys"
                else f"the weights multiply {what} here, and must multiply the values.",
            )
        if other == "values":
            for n, found in parents.items():
                if found is not None and found.name == "values" and not self._by_head(found):
                    return self._at(
                        self.operations[n],
                        "split.missing",
                        "this takes other columns of the values than those of one head.",
                    )
            v = self.named["values"][0].values
            if _has(values, weights.mT @ v):
                return self._at(
                    operation,
                    "weights.transposed",
                    "the weights are used the other way round: attn_weights @ values, without a "
                    "transpose.",
                )
        return self._at(
            operation,
            "context.wrong",
            "weights and values are right before this line, which should make attn_weights @ "
            f"values, head by head, but it {_does(operation)}.",
            sure=False,
        )

    # From the context vectors to the result

    def _after_context(self, operation: Operation, names: set[str]) -> Departure:
        values = operation.values
        right = self.named["context_vec"][0].values
        if "x" in names:
            return self._at(
                operation,
                "result.residual",
                "x is added here; attention alone returns no x. The sum with x belongs to the "
                "block around it.",
            )
        for made, how in ((right.mean(dim=1), "averaged"), (right.sum(dim=1), "added")):
            if right.shape[1] > 1 and _has(values, made):
                return self._at(
                    operation,
                    "merge.added",
                    f"the heads are {how} here; they belong side by side, head 0 in the first "
                    "columns.",
                )
        given = [self._given_name(n) for n in operation.parents]
        if any("out_proj" in name or "weight" in name for name in given):
            return self._at(
                operation,
                "out_proj.wrong",
                "this is not out_proj of the joined heads: each row must hold all heads of one "
                "token, head 0 first, and go through self.out_proj(context_vec).",
                sure=False,
            )
        return self._at(
            operation,
            "context.changed",
            f"the context vectors are right before this line, which changes them: it "
            f"{_does(operation)}.",
        )

    def _ends_too_early(self) -> Departure | None:
        found = self.found[self.result]
        operation = self.operations[self.result]
        target = "result" if "result" in self.named else "context_vec"
        if found is None or found.name == target:
            if found is not None and found.name == "result":
                return self._at(operation, "out_proj.bias", "the bias of out_proj is not added.")
            return None
        if target == "result" and found.name == "context_vec":
            return self._at(
                operation,
                "out_proj.missing",
                "the context vectors are returned without out_proj: end with "
                "self.out_proj(context_vec).",
            )
        return self._at(
            operation,
            f"result.{found.name}",
            f"{_the(found.name)} {_are(found.name)} returned, not the "
            f"{'result of out_proj' if target == 'result' else 'context vectors'}.",
        )


LEAK = "Outputs before the changed token moved: your mask lets token 0 see token 1."


def scale_sentence(
    factor: float, root: float, width: str, widths: tuple[tuple[float, str, str], ...]
) -> tuple[str, str]:
    """Return the code and the sentence of scores that are multiplied by a wrong factor."""
    if factor < 0:
        return "scale.sign", (
            f"The scores are multiplied by {factor:.4g}, a negative number: the best key gets the "
            "least weight. Nothing in attention turns their sign."
        )
    code, said = next(
        ((code, said) for wrong, code, said in widths if abs(factor - wrong) < 1e-4),
        ("scale.wrong", "look at what you divide them by."),
    )
    return code, (
        f"The scores are multiplied by {factor:.4g}, and 1 / sqrt({width}) = {root:.4g} is right: "
        f"{said} Divide them by {width}**0.5, the root of the width of one query."
    )


ROLES = {"queries": r"^q(uer\w*|s)?\d?$", "keys": r"^k(eys?|s)?\d?$", "values": r"^v(al\w*|s)?\d?$"}


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
    if len(roles) > 1:
        first, second = list(roles.items())[:2]
        cause = (
            f"Here {first[0]} holds the {first[1]} and {second[0]} the {second[1]}: they have "
            "changed places."
        )
    else:
        W = {"queries": "W_query", "keys": "W_key", "values": "W_value"}[holds]
        cause = f"Here {name} holds the {holds}: it is made by {W}."
    return Departure("parts.swapped", cause, last[name])


def _the(name: str) -> str:
    return {"x": "x", "attn_weights": "the weights", "context_vec": "the context vectors"}.get(
        name, f"the {name}"
    )


def _are(name: str) -> str:
    return "is" if name in {"x", "result"} else "are"


def _does(operation: Operation) -> str:
    """Return what an operation does, in words."""
    name = operation.name.strip("_").removeprefix("r")
    words = {
        "add": "adds something", "iadd": "adds something", "sub": "subtracts something",
        "mul": "multiplies by something", "imul": "multiplies by something",
        "div": "divides by something", "truediv": "divides by something",
        "matmul": "makes another product", "bmm": "makes another product",
        "einsum": "makes another product", "sum": "adds numbers up", "mean": "takes a mean",
        "getitem": "takes out a part", "setitem": "overwrites a part", "cat": "puts parts together",
        "stack": "puts parts together", "softmax": "applies softmax", "linear": "makes a product",
        "masked_fill": "overwrites a part",
    }  # fmt: skip
    return words.get(name, f"applies {operation.name}")


def _pairs(chain: list[Operation]) -> list[tuple[Operation, Operation]]:
    return list(itertools.pairwise(chain))


def _has(tensor: Tensor, right: Tensor) -> bool:
    """Return whether a tensor holds the numbers of another, in whatever layout."""
    if tensor.numel() > right.numel() or not tensor.numel():
        return False
    axes = "bhij" if right.shape[-1] == right.shape[-2] else "bhtd"
    axes = axes if right.ndim == 4 else "btd"
    found = find(tensor, Quantity("", axes, right.nan_to_num(0.0)))
    return found is not None
