"""Why scores, their scale or their softmax go wrong."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

import torch

from attncourse.checks.explained import PARTS, Departure, does
from attncourse.checks.path import MAY_BE_SCALED, close_or_nan
from attncourse.checks.quantities import Found
from attncourse.checks.wrong_masks import Masks
from attncourse.tracing.operations import Operation
from attnlib.functional import causal_mask

NOTHING = Found("", 1.0, None)
SOFTMAX = re.compile(r"softmax|exp|^a?max|^sub|^__sub__|sigmoid|tanh|relu")


class Scores(Masks):
    """What goes wrong from queries and keys to the attention weights."""

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
                f"this line changes the {name} ({does(operation)}); the {name} go into attention "
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
        if names == {"queries", "keys"} and (why := self._wrong_operands(operation, parents)):
            return why
        if names == {"queries", "keys"}:
            return self._at(
                operation,
                "scores.wrong",
                "the scores should be made here, queries @ keys.transpose(-2, -1), head by head, "
                f"but this line {does(operation)}.",
                sure=False,
            )
        pair = " times ".join(sorted(names) if len(names) > 1 else [*names, *names])
        return self._at(
            operation,
            f"scores.{'-'.join(sorted(names))}",
            f"the scores are {pair}. They are queries @ keys.transpose(-2, -1).",
        )

    def _wrong_operands(
        self, operation: Operation, parents: Mapping[int, Found | None]
    ) -> Departure | None:
        """Tell queries and keys that are right by themselves and do not fit each other."""
        if letters := self._summed_letters(operation, "scores"):
            return letters
        if "einsum" in operation.name or len(parents) != 2:
            return None
        if added := self._with_a_mask(operation):
            return added
        numbers = sorted(parents, key=lambda n: (self.found[n] or NOTHING).name == "keys")
        if beside := self._not_over_tokens(numbers):
            return beside
        apart = self._apart(*numbers)
        if apart is None:
            return None
        axis, one, other = apart
        what = {"h": "head", "b": "text"}[axis]
        constant = self._the_constant_one(operation, numbers, axis)
        wrong = self._cut_at(constant, axis) or self._made_at(constant)
        return self._at(
            wrong if wrong.line is not None else operation,
            "scores.apart",
            f"the queries of {what} {one} meet the keys of {what} {other} in the scores: both must "
            f"come from the same {what}. Split and order the two alike.",
        )

    def _the_constant_one(self, operation: Operation, numbers: list[int], axis: str) -> int:
        """Return which of two operands is not ordered as it should be, or does not change."""
        laid = [(self.found[n] or NOTHING).layout or () for n in numbers]
        leading = ["".join(axes[:-2]) for axes in laid]
        for number, order in zip(numbers, leading, strict=True):
            if order == "hb" and leading != ["hb", "hb"]:
                return number
        rounds = [
            other
            for other in self.operations
            if other.line == operation.line
            and other.name == operation.name
            and len(self._parents(other)) == 2
        ]
        places = []
        for which in range(2):
            at = set()
            for other in rounds:
                by_name = {
                    found.name: found for n in self._parents(other) if (found := self.found.get(n))
                }
                found = by_name.get(("queries", "keys")[which])
                if found is not None:
                    at.add(tuple(found.index[axis].flatten().tolist()))
            places.append(len(at))
        return numbers[0] if places[0] < places[1] else numbers[1]

    def _not_over_tokens(self, numbers: list[int]) -> Departure | None:
        """Tell queries or keys whose product would not compare tokens with tokens."""
        for number in numbers:
            found = self.found[number]
            if found is None or found.layout is None or len(found.layout) != 4:
                continue
            *leading, last, columns = found.layout
            if {last, columns} == {"h", "d"} and "t" in leading:
                made = self._turned_at(number) or self._made_at(number)
                return self._at(
                    made,
                    "split.no-transpose",
                    f"the {found.name} come from here with the tokens before the heads, so that "
                    "the product compares the heads of one token: bring the heads forward first, "
                    "transpose(1, 2).",
                )
        return None

    def _with_a_mask(self, operation: Operation) -> Departure | None:
        """Tell what is added to the scores in the operation that makes them, as baddbmm does."""
        plain = self.named["scores"][0].values
        values = operation.values.double()
        others = [n for n in operation.parents if n not in self.from_x]
        if values.numel() != plain.numel() or not others:
            return None
        values = values.reshape(plain.shape)
        future = causal_mask(plain.shape[-1])
        for factor in (self.root, 1.0, *(factor for factor, *_ in self.widths)):
            off = values - factor * plain
            if off.isnan().any() or float((off - off[:1, :1]).abs().max()) > 1e-4:
                continue
            added = off[0, 0]
            number = float(added[0, -1])
            if close_or_nan(added, number * future):
                maker = self._mask_maker(operation) or operation
                return self._at(
                    maker,
                    "mask.fill",
                    f"the scores that the mask hides get {number:+.4g}, and softmax still gives "
                    "them weight: they must be -torch.inf.",
                )
        return None

    def _leaves_one_key(self, scores: Operation) -> bool:
        """Return whether each query has one score only that is not hidden."""
        num_tokens = self.named["scores"][0].values.shape[-1]
        visible = int(scores.values.isfinite().sum())
        return visible * num_tokens == scores.values.numel()

    def _after_scores(self, operation: Operation, number: int) -> Departure | None:
        scores, before = self.operations[number], self.found[number]
        assert before is not None
        if before.layout is None:
            return None
        if self._leaves_one_key(scores) and "j" not in "".join(before.layout):
            hides = [made for made in self._chain(number) if self._hides(made)]
            maker = self._mask_maker(hides[-1]) or hides[-1]
            return self._at(
                maker,
                "mask.too-much",
                "the mask leaves one key for all tokens to see: it is True above the diagonal "
                f"only, {self._above(maker)}, and as tall as it is wide.",
            )
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
            "the scores are right before this line, which changes them: it "
            f"{does(operation)}. Only the scale and the mask come before softmax.",
            sure=not SOFTMAX.search(operation.name),
        )

    def _after_softmax(
        self, operation: Operation, number: int, before: Found, axes: str
    ) -> Departure | None:
        if axes != "j":
            if axes == "i" and self._transposed(before):
                return self._scores_transposed(number)
            over = {
                "i": "the columns of the attention weights sum to 1, not the rows: softmax runs "
                "over the queries. Use dim=-1, the keys.",
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
        if "log_softmax" in {self.operations[n].name for n in parents}:
            step = next(n for n in parents if self.operations[n].name == "log_softmax")
            return self._at(
                self.operations[step],
                "softmax.log",
                "log_softmax gives the logarithms of the attention weights: use softmax.",
            )
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
            f"softmax by hand goes wrong here, where it {does(operation)}: {rule}.",
        )

    def _state(self, scores: Found) -> str | None:
        """Return what is wrong with scores that go into softmax."""
        row = self._row(scores)
        if row is not None and row[1] != set(range(row[0] + 1)):
            return "rows"
        if not self._hidden(scores).equal(self._future(scores)):
            return "mask"
        if abs(scores.factor / self.root - 1) > 1e-4:
            return "scale"
        return None

    def _transposed(self, scores: Found) -> bool:
        """Return whether the rows of the last two dimensions are keys."""
        layout = scores.layout or ()
        return "j" in layout and "i" in layout and layout.index("j") < layout.index("i")

    def _scores_transposed(self, number: int) -> Departure:
        return self._at(
            self._first_scores(number),
            "scores.transposed",
            "the scores are keys times queries: row i of them must belong to query i. They "
            "are queries @ keys.transpose(-2, -1).",
        )

    def _blame_state(self, operation: Operation, number: int, before: Found) -> Departure | None:
        wrong = self._state(before)
        if wrong == "rows":
            return self._wrong_rows(number, before)
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
                for later, earlier in itertools.pairwise(list(self._chain(number)))
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

    def _wrong_scale(self, operation: Operation, number: int, before: Found) -> Departure:
        factor = before.factor
        code, cause = scale_sentence(factor, self.root, self.width, self.widths)
        if by_row := self._scale_by_row(number, before):
            code, cause = by_row
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

    def _scale_by_row(self, number: int, before: Found) -> tuple[str, str] | None:
        """Return what to say of a factor that grows with the number of keys, row by row."""
        if (row := self._row(before)) is None:
            return None
        line = self.operations[number].line
        factors = {
            made[0] + 1: found.factor
            for n, found in self.found.items()
            if found is not None
            and found.name == "scores"
            and self.operations[n].line == line
            and (made := self._row(found)) is not None
        }
        if len(factors) < 3 or any(
            abs(factor * keys**0.5 - 1) > 1e-4 for keys, factor in factors.items()
        ):
            return None
        return "scale.num-keys", (
            f"The scores of token {row[0]} are multiplied by {before.factor:.4g}, and each row by "
            "another number: you divide by the root of the number of keys, which grows from row "
            f"to row. Divide all of them by {self.width}**0.5, the root of the width of one query."
        )

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


def scale_sentence(
    factor: float, root: float, width: str, widths: tuple[tuple[float, str, str], ...]
) -> tuple[str, str]:
    """Return the code and the sentence of scores that are multiplied by a wrong factor."""
    if factor < 0:
        return "scale.sign", (
            f"The scores are multiplied by {factor:.4g}, a negative number: the best key gets the "
            "least attention. Nothing in attention turns their sign."
        )
    code, said = next(
        ((code, said) for wrong, code, said in widths if abs(factor - wrong) < 1e-4),
        ("scale.wrong", "look at what you divide them by."),
    )
    # forward of one head knows no d_out: that of a notebook around it may be another
    divisor = "keys.shape[-1]" if width == "d_out" else width
    return code, (
        f"The scores are multiplied by {factor:.4g}, and 1 / sqrt({width}) = {root:.4g} is right: "
        f"{said} Divide them by {divisor}**0.5, the root of the width of one query."
    )
