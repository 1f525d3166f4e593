"""Why queries, keys and values that are right give another attention, all in one operation."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

from attncourse.checks.explained import LEAK, PARTS, Departure, has
from attncourse.checks.quantities import Found
from attncourse.checks.text import FUTURE, VISIBLE
from attncourse.checks.wrong_scores import Scores, scale_sentence
from attncourse.tracing.operations import Operation


class Whole(Scores):
    """What goes wrong in PyTorch's own attention, or in another that does all at once."""

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

    def _fused(self, operation: Operation, parents: Mapping[int, Found | None]) -> Departure | None:
        by_name = {found.name: found for found in parents.values() if found is not None}
        if beside := self._not_over_tokens(list(parents)):
            return beside
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
                "means that a token may look, so pass ~is_future.",
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
                    if not any(has(operation.values, made) for made in (context, weights)):
                        continue
                    if order != "q,k,v":
                        return self._at(
                            operation,
                            "parts.swapped",
                            f"queries, keys and values come here in the order {order}: it must be "
                            "queries, keys, values.",
                        )
                    if code == "mask.inverted" and not self._drawn_for(operation):
                        return self._at(operation, code, cause)
                    if code:
                        return self._at(self._mask_maker(operation) or operation, code, cause)
                    said = scale_sentence(factor, self.root, self.width, self.widths)
                    return self._at(self._scaler(parents) or operation, *said)
        for mask in (ones.tril(), ones.triu(1), ones.triu()):
            weights = (self.root * q @ k.mT + mask).softmax(dim=-1)
            if has(operation.values, weights @ v):
                return self._at(
                    self._mask_maker(operation) or operation,
                    "mask.added",
                    "a mask of 0 and 1 is added to the scores here, which hides nothing: pass a "
                    "bool mask, True where a token may look, or -inf where it may not.",
                )
        return self._at(
            operation,
            "attention.wrong",
            "queries, keys and values are right before this line, and its result is not their "
            "causal attention.",
            sure=False,
        )

    def _drawn_for(self, operation: Operation) -> bool:
        """Return whether a mask was drawn for this call, to say what may be seen."""
        maker, line = self._mask_maker(operation), operation.line
        if maker is None or maker.line is None or line is None:
            return False
        given = re.search(r"attn_mask=([\w.]+)", line.text)
        name = given[1] if given else ""
        if FUTURE.search(name) or VISIBLE.search(name):
            return not FUTURE.search(name)
        return maker.line.function == line.function

    def _scaler(self, parents: Mapping[int, Found | None]) -> Operation | None:
        """Return the operation that scales the queries or the keys, before PyTorch does."""
        for number in sorted(self.leads_here & self.from_x):
            found = self.found.get(number)
            if found is None or found.name not in PARTS or abs(found.factor - 1) < 1e-4:
                continue
            if number <= max(parents):
                return self.operations[number]
        return None
