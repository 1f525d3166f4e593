"""Why a mask does not hide the future, and where it was drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import Tensor

from attncourse.checks.explained import ASSIGNS, LEAK, Departure, Explained, does
from attncourse.checks.path import divided
from attncourse.checks.quantities import Found, find, find_any
from attncourse.checks.text import FUTURE, VISIBLE
from attncourse.tracing.operations import Operation
from attnlib.functional import causal_mask

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

    def _number_at(self, operation: Operation, number: float) -> Operation | None:
        """Return the operation that made a tensor of one number, such as full_like."""
        for n in operation.parents:
            made = self.operations[n]
            values = made.values
            if (
                made.line is not None
                and made.line != operation.line
                and values.is_floating_point()
                and values.numel()
                and bool(((values - number).abs() <= 1e-4 * max(1.0, abs(number))).all())
            ):
                return made
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
        shows = self._shows(maker, pattern)
        triangle = (
            "True on and below the diagonal, where the key does not come after the query."
            if shows
            else f"True above the diagonal only: {self._above(maker)}."
        )
        if pattern.equal(ones.tril()) or pattern[1:-1].equal(ones.tril()[1:-1]):
            return self._inverted(operation, shows)
        visible = "What is drawn here is what may be seen"
        drawn = maker.line.text if maker.line is not None else ""
        compares = re.search(r"[<>](?==)", drawn) if "tri" not in drawn else None
        strict = compares and f"{compares[0]}, not {compares[0]}="
        for wrong, code, cause in (
            (
                ones.triu(),
                "mask.diagonal",
                "your mask hides each token from itself too, and token 0 has nothing else to see"
                ": its result is NaN. "
                + (
                    f"{visible}, and the diagonal belongs to it: key <= query, or tril(...)."
                    if shows
                    else f"Leave the diagonal visible: {strict or self._above(maker)}."
                ),
            ),
            (
                ones.tril(-1),
                "mask.past",
                f"{LEAK} {visible}: the key must not come after the query, key <= query, or "
                "tril(...)."
                if shows
                else f"{LEAK} Is the triangle the upper one, above the diagonal?",
            ),
            *(
                (
                    ones.triu(late),
                    "mask.late",
                    f"{LEAK} {visible}, and it ends with the diagonal: key <= query, or tril(...)."
                    if shows
                    else f"{LEAK} Does the triangle begin right above the diagonal, "
                    f"{self._above(maker)}?",
                )
                for late in (2, 3)
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

    def _above(self, maker: Operation) -> str:
        """Return how to draw the future, and no more, where a line draws a triangle."""
        text = maker.line.text if maker.line is not None else ""
        return "triu(..., diagonal=1)" if "tri" in text else "key > query"

    def _shows(self, maker: Operation, hidden: Tensor) -> bool:
        """Return whether what was drawn is what may be seen, and not what is hidden."""
        drawn = maker.values
        n = len(hidden)
        if drawn.ndim < 2 or min(drawn.shape[-2:]) < n or maker.number in self.from_x:
            return False
        truth = drawn[(0,) * (drawn.ndim - 2)][:n, :n] != 0
        return truth.equal(~hidden) and not truth.equal(hidden)

    def _inverted(self, operation: Operation, shows: bool) -> Departure:
        """Tell a mask that is used the other way round than it was drawn.

        Where its name says what was drawn, the line that uses it is wrong, not the one that draws.
        """
        text = operation.line.text if operation.line is not None else ""
        if "where(" in text:
            remedy = (
                "where takes its first number where the condition is True, and its second where "
                "it is False: -inf belongs where the key comes after the query."
            )
        elif "masked_fill" in text or not text:
            remedy = "What is True in masked_fill is hidden, so True must mean future."
        else:
            remedy = "What is hidden must be the future, where the key comes after the query."
        drawn_as_named = (
            VISIBLE.search(text)
            and not FUTURE.search(text)
            and not shows
            and "~" not in text
            and "where(" in text
        )
        return self._at(
            operation,
            "mask.swapped" if drawn_as_named else "mask.inverted",
            f"each token sees only what comes after it: the mask is the wrong way round. {remedy}",
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
                or self._number_at(operation, number_)
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

    def _counts_the_future(self, operation: Operation) -> bool:
        """Return whether the numbers that are hidden here are no weights yet, but exp of scores.

        They may be hidden here as well as before, if the sum of their row comes later.
        """
        later = [
            made
            for made in self.operations[operation.number + 1 :]
            if operation.number in made.parents and "sum" in made.name
        ]
        parents = [self.operations[n].values for n in self._parents(operation)]
        ones = [p.sum(dim=-1) for p in parents if p.shape == operation.values.shape]
        return bool(later) and not any(torch.allclose(s, torch.ones_like(s)) for s in ones)

    def _early_sum(self, operation: Operation) -> Departure | None:
        """Tell a softmax by hand whose sum is taken before the future is hidden."""
        for n in self._parents(operation):
            sums = [
                made
                for made in self.operations[n + 1 : operation.number]
                if n in made.parents and "sum" in made.name and made.line is not None
            ]
            if sums and "exp" in self.operations[n].name:
                return self._at(
                    sums[0],
                    "softmax.early-sum",
                    "the sum is taken here before the future is hidden, so that it counts the "
                    "future too and the rows do not sum to 1: hide first, then sum.",
                )
        return None

    def _weak_mask(self, operation: Operation, masks: list[int]) -> Departure | None:
        """Tell a mask that is added, and either holds no -inf or does not arrive."""
        size = self.named["scores"][0].values.shape[-1]
        future = causal_mask(size)
        for n in masks:
            values = self.operations[n].values
            if values.ndim < 2 or values.shape[-2:] != future.shape:
                continue
            if not values.is_floating_point():
                continue
            above, below = values[..., future], values[..., ~future]
            if bool((above < -1000).all()) and bool((below == 0).all()):
                return self._at(
                    operation,
                    "mask.lost",
                    f"{LEAK} The mask that comes into this line hides the future, and what comes "
                    "out hides nothing: is it added, and not multiplied by 0 (beta=1)?",
                )
            number = float(above.flatten()[0])
            if bool((above == number).all()) and bool((below != number).all()):
                return self._at(
                    self._number_writer(n) or operation,
                    "mask.fill",
                    f"{LEAK} The scores that the mask should hide get {number:+.4g}, and softmax "
                    "still gives them weight: they must be -torch.inf.",
                )
        return None

    def _number_writer(self, number: int) -> Operation | None:
        """Return the operation that wrote the numbers of a mask, through cuts of it."""
        made = self.operations[number]
        while made.name in {"__getitem__", "expand", "to", "unsqueeze", "contiguous", "view"}:
            before = [n for n in made.parents if n not in self.from_x]
            if not before:
                return None
            made = self.operations[before[0]]
        return made if made.line is not None else None

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
        by_hand = None
        for other in self.operations[operation.number + 1 :]:
            if other.number not in self.leads_here or other.number not in self.from_x:
                continue
            values = other.values
            size = values.shape[-1] if values.ndim > 1 else 0
            if size > 1 and values.shape[-2] == size:
                future = causal_mask(size)
                hidden = values[..., future]
                over_queries = values.sum(dim=-2)
                if bool((values >= 0).all()) and torch.allclose(
                    over_queries, torch.ones_like(over_queries), atol=1e-4
                ):
                    return self._at(
                        other,
                        "softmax.axis",
                        "the columns of the attention weights sum to 1, not the rows: the sum runs "
                        "over the queries. Use dim=-1, the keys.",
                    )
                if not bool(((hidden == 0) | hidden.isinf() | hidden.isnan()).all()):
                    continue
                if self._counts_the_future(other):
                    by_hand = by_hand or other
                    continue
                if early := self._early_sum(other):
                    return early
                if by_hand is None:
                    return self._at(
                        other,
                        "mask.after-softmax",
                        "the future is hidden only after softmax, so the rows that softmax made "
                        "still counted it. Hide the scores with -torch.inf before softmax.",
                    )
        if by_hand is not None:
            return self._at(
                by_hand,
                "softmax.by-hand",
                "softmax by hand is exp of the scores, 0 where they are hidden, divided by the sum "
                "of its row: one of these steps is another here.",
            )
        for later in self._chain(number):
            masks = [n for n in later.parents if n not in self.from_x]
            if weak := self._weak_mask(later, masks):
                return weak
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
            f"{LEAK} Nothing is hidden when softmax comes: put -torch.inf into the scores before "
            "softmax, where the key comes after the query.",
        )
