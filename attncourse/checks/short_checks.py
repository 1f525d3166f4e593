"""Checks as a learner writes them, each a few lines, and what is said of a learner's own.

These take a module of the weight split and its tokens, and answer True or False, so that a page can
show them whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse.checks.answers import call_on_copies, is_near, require
from attncourse.checks.exercises import exercise_check
from attncourse.checks.fault_table import Run, run_with_huge_scores
from attncourse.checks.verdict import Verdict
from attncourse.examples import journey
from attncourse.variants.mistakes import BY_NAME, OnePageAttention, make
from attnlib.functional import merge_heads, split_heads
from attnlib.modules import MultiHeadAttention

Check = Callable[[MultiHeadAttention, Tensor], bool]  # of a module and x, (b, num_tokens, d_in)

# The four checks


@torch.no_grad()
def keeps_shape(module: MultiHeadAttention, x: Tensor) -> bool:
    """Ask whether (b, num_tokens, d_in) becomes (b, num_tokens, d_out)."""
    b, num_tokens, _ = x.shape
    context_vec: Tensor = module(x)
    return context_vec.shape == (b, num_tokens, module.d_out)


@torch.no_grad()
def is_causal(module: MultiHeadAttention, x: Tensor) -> bool:
    """Change one token after the other: no output before it may move."""
    before = module(x)
    for t in range(1, x.shape[1]):
        changed = x.clone()
        changed[:, t, 0] += 1
        if not torch.allclose(module(changed)[:, :t], before[:, :t], atol=1e-5):
            return False
    return True


@torch.no_grad()
def equals_sdpa(module: MultiHeadAttention, x: Tensor) -> bool:
    """Take the module's own layers around PyTorch's function, and compare."""
    layers = module.W_query, module.W_key, module.W_value
    queries, keys, values = (split_heads(layer(x), module.head_dim) for layer in layers)
    context_vec = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    right = module.out_proj(merge_heads(context_vec))
    return torch.allclose(module(x), right, atol=1e-5)


@torch.no_grad()
def same_on_prefixes(module: MultiHeadAttention, x: Tensor) -> bool:
    """Ask whether the first t tokens alone give the first t rows, for every t."""
    whole = module(x)
    return all(
        torch.allclose(module(x[:, :t]), whole[:, :t], atol=1e-5) for t in range(1, x.shape[1])
    )


CHECKS: dict[str, Check] = {
    "shape": keeps_shape,
    "causality": is_causal,
    "prefixes": same_on_prefixes,
    "equality": equals_sdpa,
}


@torch.no_grad()
def run_checks(module: MultiHeadAttention, x: Tensor) -> dict[str, str]:
    """Run the four checks: each "passes" or is "CAUGHT", or all are NaN, or the module stops."""
    try:
        if module(x).isnan().any():
            return dict.fromkeys(CHECKS, "NaN")
    except RuntimeError:
        return dict.fromkeys(CHECKS, "stops")
    return {name: "passes" if check(module, x) else "CAUGHT" for name, check in CHECKS.items()}


# Checks of a learner's own checks

NO_NUMBER = ("mask with the diagonal", "mask inverted")  # NaN, whatever is asked
LEAKS = (
    *("mask one too late", "mask thrown away", "mask of the past", "softmax over queries"),
    *("merge without transpose", "split without transpose"),
)
CAUSAL = (
    *("no scale", "scale by d_out", "keys and values swapped", "no output projection"),
    "both without transpose",  # the last: its outputs depend on the number of tokens
)


def _x() -> Tensor:
    """Return the six tokens as a batch of one sequence."""
    return journey().inputs[None]


def _made(name: str) -> MultiHeadAttention:
    return make(BY_NAME[name].cls)


def _require_all(written: Check, wanted: bool, modules: dict[str, MultiHeadAttention]) -> None:
    """Require what a learner's check answers for modules, each with the end of its sentence."""
    verb = "It rejects" if wanted else "It accepts"
    for which, module in modules.items():
        require(bool(written(module, _x())) == wanted, f"{verb} {which}.")


def _wrong_at(change: Callable[[Tensor, Tensor], Tensor]) -> MultiHeadAttention:
    """Return a module whose outputs are what change makes of x and the right ones."""

    class WrongAt(OnePageAttention):
        def forward(self, x: Tensor, return_weights: bool = False) -> Any:
            outputs, attn_weights = super().forward(x, return_weights=True)
            made = change(x, outputs)
            return (made, attn_weights) if return_weights else made

    return make(WrongAt)


def _leak(query: int, key: int) -> MultiHeadAttention:
    """Return a module of which one output depends on one token, but not the output's mean."""

    def change(x: Tensor, outputs: Tensor) -> Tensor:
        if x.shape[1] > key:
            outputs[:, query, 0] += x[:, key, 0]
            outputs[:, query, 1] -= x[:, key, 0]
        return outputs

    return _wrong_at(change)


@exercise_check(reference=is_causal)
def check_is_causal(written: Check) -> Verdict:
    """Check a learner's check of causality."""
    x = _x()
    right = written(make(OnePageAttention), x)
    require(x.equal(_x()), "It changes the x that it was given. Change a clone.")
    said = "It rejects the right class. When token t changes, outputs t and later may change too."
    require(right, said)
    pairs = [(i, j) for j in range(1, x.shape[1]) for i in range(j)]
    said = "a class in which output {} depends on token {}, which is in its future"
    _require_all(written, False, {said.format(*pair): _leak(*pair) for pair in pairs})
    leaks = {f"the mistake '{name}'": _made(name) for name in LEAKS}
    nan = ", whose outputs are NaN: a comparison with NaN is never true"
    leaks[f"the mistake '{NO_NUMBER[0]}'{nan}"] = _made(NO_NUMBER[0])
    _require_all(written, False, leaks)
    wrong = ", which is causal, though wrong"
    _require_all(written, True, {f"the mistake '{name}'{wrong}": _made(name) for name in CAUSAL})
    count = len(LEAKS) + len(pairs) + 1
    said = f"Right: it finds {count} classes that leak, and accepts {len(CAUSAL)} others."
    return Verdict(True, said)


@exercise_check(reference=run_with_huge_scores)
def check_any_scale(written: Run) -> Verdict:
    """Check a test input at which the scale cannot matter, but mask, split and merge can."""
    unnoticed = ("no scale", "scale by d_out")
    noticed = ("mask one too late", "both without transpose", "merge without transpose")
    right = call_on_copies(written, (make(OnePageAttention), _x()))
    for name in (*unnoticed, *noticed):
        is_same = is_near(call_on_copies(written, (_made(name), _x())), right)
        said = "It does not notice" if is_same else "It also notices"
        must = f"the result is {'' if is_same else 'not '}that of the right class."
        require(is_same == (name in unnoticed), f"{said} the mistake '{name}': {must}")
    names, others = (", ".join(f"'{name}'" for name in some) for some in (noticed, unnoticed))
    return Verdict(True, f"Right: it notices {names}, and does not notice {others}.")


@exercise_check(reference=same_on_prefixes)
def check_prefixes(written: Check) -> Verdict | str:
    """Check a learner's check that the first t tokens alone give the first t rows."""
    said = "It rejects the right class. Compare the rows of the first t tokens, with allclose."
    require(written(make(OnePageAttention), _x()), said)
    names = (*LEAKS, CAUSAL[-1], *NO_NUMBER)
    leaks = {f"the mistake '{name}', and must reject it": _made(name) for name in names}
    lengths = range(1, _x().shape[1])
    for t in lengths:
        said = f"a class that is wrong for the first t = {t} tokens alone"
        leaks[said] = _wrong_at(lambda x, outputs, t=t: outputs + float(x.shape[1] == t))  # type: ignore[misc]
    _require_all(written, False, leaks)
    same = "which is the same on every prefix"
    others = {f"the mistake '{name}', {same}": _made(name) for name in CAUSAL[:-1]}
    _require_all(written, True, others)
    more = f"{len(lengths)} classes that are wrong for one t each, and accepts {len(others)} others"
    return Verdict(True, f"Right: it rejects {len(names)} of the mistakes and {more}.")
