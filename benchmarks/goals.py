"""The goals that `bench.py` measures: each a number with its limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import linear_regression
from typing import Any, NamedTuple

from attncourse.speed.clock import BOTH, FORWARD, MATRIX_PRODUCT, Quartiles, quartiles, ratio

FUSED, OURS, PUBLISHED = "FusedMultiHeadAttention", "weight split", "weight split, as published"
SPLIT_GOAL = "weight split / as published"
HOLDS, MISSES, OPEN = "holds", "DOES NOT HOLD", "cannot be told"
NOISE = 0.03  # two runs of the same code differ by as much
SCORES_AGAIN = {  # these keep no scores for the backward pass
    "SDPA, is_causal",
    "SDPA, explicit mask",
    "FlexAttention, compiled",
    "nn.MultiheadAttention, need_weights=False",
    FUSED,
}


def projection_flops(b: int, num_tokens: int, width: int) -> int:
    """Return the FLOPs of the four projections (queries, keys, values, out_proj) of one width.

    Equation:
        flops = 4 * 2 * b * num_tokens * width^2

    >>> projection_flops(b=1, num_tokens=10, width=3)
    720
    """
    return 4 * 2 * b * num_tokens * width**2


def causal_flops(b: int, num_tokens: int, width: int) -> int:
    """Return the FLOPs of attention for the pairs of tokens that a causal mask leaves.

    Equation:
        flops = 2 * 2 * b * width * num_tokens * (num_tokens + 1) / 2

    Query i meets i keys, in two products. The number of heads does not matter: more heads are
    each narrower. A product that computes all pairs and hides half of them takes up to twice as
    many.

    >>> causal_flops(b=1, num_tokens=10, width=3)
    660
    """
    return 2 * b * width * num_tokens * (num_tokens + 1)


def align(rows: Sequence[Sequence[str]]) -> str:
    """Return a table as text: cells start below each other, two spaces after the widest.

    >>> print(align([["a", "b"], ["long", "c"]]))
    a     b
    long  c
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [map(str.ljust, row, widths) for row in rows]
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


class Goal(NamedTuple):
    """A measured number and the largest value allowed.

    least is for a number over a floor: far below it, what is slow is the floor.
    """

    what: str
    where: str
    measured: Quartiles
    limit: float
    noise: float = 0.0
    least: float = 0.0

    @property
    def verdict(self) -> str:
        """Whether it holds, as far as the spread lets us tell: by the middle half of the rounds."""
        limit = self.limit * (1 + self.noise)
        if self.measured.lower < self.least:
            return OPEN
        if self.measured.upper <= limit:
            return HOLDS
        return MISSES if self.measured.lower > limit else OPEN


def goals(result: dict[str, Any]) -> list[Goal]:
    """Return every goal that a result has measured."""
    return [
        *speed_goals(result["speed"], on_gpu=result["machine"]["gpu"] is not None),
        *half_goals(result["speed"]),
        *cache_goals(result["cache"]),
        *memory_goals(result["memory"]),
        *language_goals(result.get("language", {})),
    ]


def speed_goals(entries: list[dict[str, Any]], on_gpu: bool) -> Iterator[Goal]:
    """Yield the goals of the fused class, against the others and the floor, and of the split."""
    for entry in (entry for entry in entries if entry["set"] == "fastest"):
        others = {name: s for name, s in medians(entry).items() if name != FUSED}
        best = min(others, key=lambda name: others[name])
        fused = ratio(entry["samples"], FUSED, best)
        yield Goal(f"fused / {best}", place(entry), fused, 1.0, NOISE)
        if not on_gpu and not entry["compiled"]:
            yield Goal("fused / floor", place(entry), over_floor(entry, FUSED), 1.25, least=0.5)
    for entry in (entry for entry in entries if entry["set"] == "all"):
        ours = ratio(entry["samples"], OURS, PUBLISHED)
        if entry["num_tokens"] == 1024:
            yield Goal(SPLIT_GOAL, place(entry), ours, 0.90)
        else:
            yield Goal(SPLIT_GOAL, place(entry), ours, 1.0, NOISE)


def medians(entry: dict[str, Any]) -> dict[str, float]:
    """Return each variant's median seconds, without the matrix product's."""
    samples = entry["samples"].items()
    return {name: quartiles(some).median for name, some in samples if name != MATRIX_PRODUCT}


def over_floor(entry: dict[str, Any], name: str) -> Quartiles:
    """Return the quartiles of a variant's time over the floor, paired round by round."""
    sizes = entry["b"], entry["num_tokens"], entry["width"], entry["product_size"]
    products = products_of_floor(*sizes, entry["pass"], name in SCORES_AGAIN)
    found = ratio(entry["samples"], name, MATRIX_PRODUCT)
    return Quartiles(*(share / products for share in found))


def products_of_floor(
    b: int,
    num_tokens: int,
    width: int,
    size: int,
    passes: str = FORWARD,
    scores_again: bool = False,
) -> float:
    """Return how many square matrix products take the FLOPs that every version needs.

    The floor is the time that these products take. A version that visits all pairs of tokens is
    faster only if it multiplies matrices faster than the machine's library does.

    Equation:
        (projection_flops + causal_flops) / (2 * size^3), three times that with the backward pass,
        which has two products for each one

    Args:
        b: texts in the batch.
        num_tokens: in each.
        width: d_in and d_out.
        size: rows and columns of the square matrices.
        passes: "forward" or "forward + backward".
        scores_again: whether the backward pass makes the scores again, as a kernel must that does
            not keep them: then attention has five products in it, not four.
    """
    pairs = causal_flops(b, num_tokens, width)
    flops = float(projection_flops(b, num_tokens, width) + pairs)
    if passes == BOTH:
        flops = 3 * flops + scores_again * pairs / 2
    return flops / (2 * size**3)


def half_goals(entries: list[dict[str, Any]]) -> Iterator[Goal]:
    """Yield what the fused class takes in bfloat16, over its time in float32."""
    fastest = [entry for entry in entries if entry["set"] == "fastest" and not entry["compiled"]]
    whole = {place(entry): entry for entry in fastest if entry["dtype"] == "float32"}
    for entry in (entry for entry in fastest if entry["dtype"] == "bfloat16"):
        same = whole.get(place({**entry, "dtype": "float32"}))
        if same is not None:
            single = medians(same)[FUSED]
            half = [sample / single for sample in entry["samples"][FUSED]]
            yield Goal("fused, bfloat16 / float32", place(entry), quartiles(half), 1.0, NOISE)


def place(entry: dict[str, Any]) -> str:
    """Return the shape, passes and dtype of a measurement."""
    words = [f"({entry['b']}, {entry['num_tokens']})", entry["pass"]]
    words += [entry["dtype"]] if entry["dtype"] != "float32" else []
    return " ".join(words + (["compiled"] if entry["compiled"] else []))


def cache_goals(entries: list[dict[str, Any]]) -> Iterator[Goal]:
    """Yield the goals of a token with the cache: against recomputing, and a straight line."""
    times = {}
    most = max((entry["num_kv_heads"] for entry in entries), default=0)
    for entry in (entry for entry in entries if entry["num_kv_heads"] == most):
        times[entry["num_tokens"]] = quartiles(entry["alone"]).median
        if entry["num_tokens"] == 1024:
            share = ratio(entry["samples"], "with cache", "without")
            yield Goal("next token, with cache / without", "1024 tokens", share, 1 / 20)
    if len(times) > 2:
        spread = quartiles([flat_spread(times)])
        where = f"{min(times)} to {max(times)} tokens"
        yield Goal("next token, largest / smallest, t - slope * T", where, spread, 2.0)


def flat_spread(times: Mapping[int, float]) -> float:
    """Return the largest over the smallest of what times have beside a part for each token.

    Reading the cache takes time in proportion to its tokens, which least squares find. What remains
    should be constant.
    """
    slope, _ = linear_regression(list(times), list(times.values()))
    left = [seconds - slope * num_tokens for num_tokens, seconds in times.items()]
    return max(left) / min(left) if min(left) > 0 else float("inf")


def memory_goals(entries: dict[str, list[float]]) -> Iterator[Goal]:
    """Yield the goals of bytes and seconds."""
    for what, (where, unit, limit) in MEMORY.items():
        if what in entries:
            found = quartiles([value / unit for value in entries[what]])
            yield Goal(what, where, found, limit)


def language_goals(found: dict[str, Any]) -> Iterator[Goal]:
    """Yield the goals of the language model: against transformers', and of its loads."""
    for where, samples in found.get("samples", {}).items():
        share = ratio(samples, "ours", "transformers")
        yield Goal("language model / transformers", where, share, 1.0, NOISE)
    for what, limit in LANGUAGE.items():
        if what in found:
            yield Goal(what, "language model", quartiles(found[what]), limit)


LANGUAGE = {
    "first load, s": 8.0,
    "later load, s": 2.0,
    "270 heads muted in turn, s": 12.0,
    "peak, MB": 900.0,
}
MEMORY = {
    "12 stacked heads, MB added to peak": ("context_length 8192", 1e6, 100.0),
    "fused forward, GB added to peak": ("(1, 16384)", 1e9, 1.0),
    "import attnlib over torch, ms": ("", 1e-3, 50.0),
}


def table(found: list[Goal]) -> str:
    """Return a line for each goal, and a last line that counts those that hold."""
    rows = [("goal", "where", "measured (quartiles)", "limit", "")]
    for goal in found:
        lower, median, upper = goal.measured
        measured = f"{median:.3g} ({lower:.3g} to {upper:.3g})"
        noise = f" + {goal.noise:.0%}" if goal.noise else ""
        rows.append((goal.what, goal.where, measured, f"{goal.limit:.3g}{noise}", goal.verdict))
    verdicts = [goal.verdict for goal in found]
    held, open_ = verdicts.count(HOLDS), verdicts.count(OPEN)
    return f"{align(rows)}\n\n{held} of {len(found)} goals hold, {open_} cannot be told."


def times(result: dict[str, Any]) -> str:
    """Return the medians of all variants in milliseconds, a column for each measurement."""
    entries = [entry for entry in result["speed"] if entry["set"] == "all"]
    names = list(dict.fromkeys(name for entry in entries for name in entry["samples"]))
    lines = ["median milliseconds"]
    for i, entry in enumerate(entries, 1):
        rounds = len(entry["samples"][MATRIX_PRODUCT])
        lines.append(f"[{i}] {place(entry)}, {rounds} rounds")
    rows = [["", *(f"{f'[{i}]':>8}" for i in range(1, len(entries) + 1))]]
    for name in names:
        cells = [entry["samples"].get(name) for entry in entries]
        shown = [f"{1e3 * quartiles(s).median:8.2f}" if s else f"{'-':>8}" for s in cells]
        rows.append([name, *shown])
    return "\n".join([*lines, align(rows)])
