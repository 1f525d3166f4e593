"""Why a mask does not hide the future, and where it was drawn."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnlib.checks.explained import ASSIGNS, LEAK, Departure, Explained, does
from attnlib.checks.path import divided
from attnlib.checks.quantities import Found, find, find_any
from attnlib.functional import causal_mask
from attnlib.tracing.operations import Operation

HIDES = {"masked_fill", "where", "add", "iadd", "radd", "baddbmm", "addbmm"}
FILLERS = {"full", "full_like", "ones", "zeros", "mul", "__mul__", "rmul", "__rmul__", "new_full"}
MASKS = {"triu", "tril", "triu_", "tril_", "gt", "lt", "ge", "le", "__gt__", "__lt__"}


class Masks(Explained):
    """What goes wrong between the scores and softmax where something is hidden."""

    def _hidden(self, scores: Found) -> Tensor:
        assert scores.hidden is not None
        return scores.hidden

    def _future(self, scores: Found) -> Tensor:
        assert scores.hidden is not None
        return (scores.index["j"] > scores.index["i"]).expand(scores.hidden.shape)

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

    def _row(self, scores: Found) -> tuple[int, set[int]] | None:
        """Return the one query whose scores these are, and the keys that it sees."""
        hidden = self._hidden(scores)
        if scores.index["i"].numel() != 1 or scores.index["j"].numel() < 1:
            return None
        keys = scores.index["j"].expand(hidden.shape)[~hidden]
        return int(scores.index["i"]), set(keys.tolist())

    def _wrong_rows(self, number: int, before: Found) -> Departure | None:
        """Tell a loop over the tokens in which one meets other keys than those up to itself."""
        row = self._row(before)
        if row is None:
            return None
        i, seen = row
        first = self._first_scores(number)
        rows = [
            made
            for n, found in self.found.items()
            if found is not None
            and found.name == "scores"
            and self.operations[n].line == first.line
            and (made := self._row(found)) is not None
        ]
        if len({query for query, _ in rows}) == 1 and len({len(keys) for _, keys in rows}) > 1:
            queries = [
                n
                for n in self._parents(first)
                if (found := self.found.get(n)) is not None and found.name == "queries"
            ]
            return self._at(
                (queries and self._cut_at(queries[0], "t")) or first,
                "scores.one-query",
                f"each round of the loop takes the query of token {i} here: round i needs the "
                "query of token i.",
            )
        cut = self._cut_of_keys(first)
        low, high = min(seen), max(seen)
        meets = f"the keys {low} to {high}" if low < high else f"key {low} alone"
        may = f"the tokens 0 to {i}" if i else "token 0 alone"
        return self._at(
            cut or first,
            "mask.rows",
            f"token {i} meets {meets} here, and may see {may}: for token i, keys and values are "
            "cut to [: i + 1].",
        )

    def _cut_of_keys(self, operation: Operation) -> Operation | None:
        """Return the operation that took some tokens of the keys."""
        new, seen = list(self._parents(operation)), set[int]()
        while new:
            number = new.pop()
            if number in seen:
                continue
            seen.add(number)
            found = self.found.get(number)
            if found is None or found.name != "keys":
                if found is None:
                    new.extend(self._parents(self.operations[number]))
                continue
            tokens = set(found.index["t"].flatten().tolist())
            for parent in self._parents(self.operations[number]):
                before = self.found.get(parent)
                if before is not None and before.name == "keys":
                    if set(before.index["t"].flatten().tolist()) != tokens:
                        return self.operations[number]
                    new.append(parent)
        return None

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

    def _filler(self, operation: Operation) -> Operation | None:
        """Return the operation that put the numbers into a mask that is added."""
        new, seen = [n for n in operation.parents if n not in self.from_x], set[int]()
        while new:
            number = max(new)
            new.remove(number)
            made = self.operations[number]
            if made.name in FILLERS and made.line is not None:
                return made
            if number not in seen:
                seen.add(number)
                new.extend(made.parents)
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
                (added_up and (self._mask_writer(operation) or self._filler(operation)))
                or operation,
                "mask.fill",
                f"the scores that the mask hides {said}, and softmax still gives them weight: they "
                "must be -torch.inf.",
            )
        return self._at(
            operation,
            "scores.changed",
            f"the scores are right before this line, which changes them: it {does(operation)}.",
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
