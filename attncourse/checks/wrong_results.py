"""Why weights that are right give another result, and results that are not finished."""

from __future__ import annotations

from collections.abc import Mapping

from attncourse.checks.explained import ASSIGNS, Departure, Explained, are, does, has, the
from attncourse.checks.quantities import Found
from attncourse.tracing.operations import Operation


class Results(Explained):
    """What goes wrong from the weights and the values to the result."""

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
                    f"this line changes the attention weights after softmax ({does(operation)}), "
                    "so that a row no longer sums to 1.",
                )
            return self._at(
                operation,
                "weights.wrong",
                "the attention weights are right before this line, which should multiply them with "
                f"the values, but it {does(operation)}.",
                sure=False,
            )
        other = next(iter(names - {"attn_weights"}))
        if other in {"queries", "keys", "x"}:
            what = {"keys": "keys", "queries": "queries", "x": "x itself"}[other]
            return self._at(
                operation,
                f"values.{other}",
                f"the attention weights multiply {what} here, and must multiply the values: are "
                "keys and values swapped?"
                if other == "keys"
                else f"the attention weights multiply {what} here, and must multiply the values.",
            )
        if other == "values":
            for n, found in parents.items():
                if found is not None and found.name == "values" and not self._by_head(found):
                    return self._at(
                        self.operations[n],
                        "split.missing",
                        "this takes other columns of the values than those of one head.",
                    )
            if letters := self._summed_letters(operation, "context"):
                return letters
            v = self.named["values"][0].values
            if has(values, weights.mT @ v):
                return self._at(
                    operation,
                    "weights.transposed",
                    "the attention weights are used the other way round: attn_weights @ values, "
                    "without a transpose.",
                )
        if other == "values" and len(parents) == 2:
            two = sorted(
                parents, key=lambda n: (f := parents[n]) is not None and f.name == "values"
            )
            held_by, given_by = two
            apart = None if "einsum" in operation.name else self._apart(held_by, given_by)
            if apart is not None:
                axis, one, second = apart
                what = {"h": "head", "b": "text"}[axis]
                cut = self._cut_at(given_by, axis) or self._made_at(given_by)
                paired = cut.name in {"chunk", "split", "unbind", "tensor_split", "__iter__"}
                return self._at(
                    operation if paired and operation.line != cut.line else cut,
                    "values.apart",
                    f"the attention weights of {what} {one} multiply the values of {what} "
                    f"{second}: both must come from the same {what}. Split and order them alike.",
                )
        return self._at(
            operation,
            "context.wrong",
            "attention weights and values are right before this line, which should make "
            f"attn_weights @ values, head by head, but it {does(operation)}.",
            sure=False,
        )

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
            if right.shape[1] > 1 and has(values, made):
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
            f"{does(operation)}.",
        )

    def of_shape(self) -> Departure | None:
        """Return why a result has another shape, where its numbers are context vectors."""
        operation, found = self.operations[self.result], self.found.get(self.result)
        right = self.named["context_vec"][0].values
        if right.shape[1] > 1:
            for made, how in ((right.mean(dim=1), "averaged"), (right.sum(dim=1), "added")):
                if has(operation.values, made):
                    return self._at(
                        operation,
                        "merge.added",
                        f"the heads are {how} here: each head writes {right.shape[-1]} columns of "
                        "its own, and these go side by side, head 0 first.",
                    )
        if found is None or found.layout is None:
            return None
        if found.name not in ("context_vec", "result"):
            return self._at(
                operation,
                f"result.{found.name}",
                f"{the(found.name)} {are(found.name)} returned, not the context vectors.",
            )
        side_by_side = (
            f"Each head writes {right.shape[-1]} columns; side by side, along the last dimension, "
            f"{right.shape[1]} heads make {right.shape[1] * right.shape[-1]}."
        )
        heads = found.index["h"].numel() if "h" in found.index else right.shape[1]
        if found.name == "context_vec" and 1 < heads < right.shape[1] * right.shape[-1]:
            out = len(set(found.index["h"].flatten().tolist()))
            if out < right.shape[1]:
                return self._at(
                    operation,
                    "merge.some-heads",
                    f"only {out} of {right.shape[1]} heads come out. {side_by_side}",
                )
        order = "".join(axes for axes in found.layout)
        if right.shape[1] == 1 and order not in ("btd", "btc"):
            names = {"b": "texts", "t": "tokens", "d": "columns", "c": "columns", "h": ""}
            said = ", ".join(" and ".join(names[a] for a in axes) for axes in found.layout)
            return self._at(
                operation,
                "result.axes",
                f"the dimensions of the result are ({said}), and (texts, tokens, columns) are "
                "right.",
            )
        for dim, axes in enumerate(found.layout):
            if "h" not in axes or "d" in axes:
                continue
            if axes == "h":
                how = f"have a dimension of their own here, dimension {dim}, counted from 0"
            else:
                like = "texts" if "b" in axes else "tokens"
                how = f"are joined along dimension {dim} here, counted from 0, like more {like}"
            return self._at(operation, "merge.axis", f"the heads {how}. {side_by_side}")
        if found.name == "context_vec" and right.shape[1] > 1 and found.index["h"].numel() == 1:
            head = int(found.index["h"])
            return self._at(
                operation, "merge.one-head", f"only head {head} comes out. {side_by_side}"
            )
        return None

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
        if found.name == "values" and (cut := self._one_value()):
            return cut
        return self._at(
            operation,
            f"result.{found.name}",
            f"{the(found.name)} {are(found.name)} returned, not the "
            f"{'result of out_proj' if target == 'result' else 'context vectors'}.",
        )

    def _one_value(self) -> Departure | None:
        """Tell weights of several keys that meet the value of one token alone, row by row."""
        for number in sorted(self.leads_here & self.from_x):
            operation = self.operations[number]
            held = [self.found.get(n) for n in self._parents(operation)]
            names = [found.name for found in held if found is not None]
            if "attn_weights" not in names or "values" not in names:
                continue
            weights = next(f for f in held if f is not None and f.name == "attn_weights")
            values = next(f for f in held if f is not None and f.name == "values")
            keys, tokens = weights.index["j"].numel(), values.index["t"].flatten().tolist()
            if keys > 1 and len(tokens) == 1:
                of_values = next(n for n in self._parents(operation) if self.found[n] is values)
                return self._at(
                    self._cut_at(of_values, "t") or operation,
                    "values.one",
                    f"the attention weights of {keys} keys meet the value of token {tokens[0]} "
                    "alone, cut here: for token i, keys and values are cut to [: i + 1].",
                )
        return None

    def _unwritten(self) -> Departure | None:
        """Tell rows or columns of the result into which nothing was ever written."""
        writes = [
            number
            for number in sorted(self.leads_here & self.from_x)
            if self.operations[number].name in ASSIGNS
        ]
        again = {self.operations[number].parents[0] for number in writes}
        return next(
            (
                unwritten
                for number in writes[::-1]
                if number not in again and (unwritten := self._never_written(number))
            ),
            None,
        )

    def _never_written(self, number: int) -> Departure | None:
        chain = [self.operations[number]]
        while chain[-1].name in ASSIGNS and chain[-1].parents:
            chain.append(self.operations[chain[-1].parents[0]])
        begun, end = chain[-1], chain[0]
        if len(chain) < 2 or begun.number in self.from_x or begun.values.shape != end.values.shape:
            return None
        same = (begun.values == end.values) | (begun.values.isnan() & end.values.isnan())
        if same.ndim not in (3, 4) or not same.any() or same.all():
            return None
        context = self.named["context_vec"][0].values
        words = dict(zip(reversed(context.shape), ("column", "token", "head", "text"), strict=True))
        axes = sorted(range(same.ndim), key=lambda axis: words.get(same.shape[axis]) != "token")
        for axis in axes:
            what = words.get(same.shape[axis], "column")
            never = same.movedim(axis, 0).flatten(1).all(dim=1).nonzero().flatten().tolist()
            if never and (same.ndim == 3 or what == "token"):
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
