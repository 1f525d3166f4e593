"""Checks as a learner writes them, each a few lines, and what is said of a learner's own.

These take a module of the weight split and its tokens, and answer True or False, so that a page can
show them whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.checks.answers import is_near, noted, require
from attncourse.checks.exercises import exercise_check
from attncourse.checks.verdict import Verdict
from attncourse.examples import journey
from attncourse.variants.mistakes import BY_NAME, MASK, MISTAKES, Mistake, OnePageAttention, make
from attnlib.functional import merge_heads, split_heads
from attnlib.modules import MultiHeadAttention

# Both take a module and x, (b, num_tokens, d_in)
Check = Callable[[MultiHeadAttention, Tensor], bool]
Look = Callable[[MultiHeadAttention, Tensor], Tensor]  # the outputs, or a part of them

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
def ask(module: MultiHeadAttention, x: Tensor) -> dict[str, str]:
    """Ask the four checks: each "passes" or is "CAUGHT", or all are NaN, or the module stops.

    >>> ask(make(OnePageAttention), journey().inputs[None])["causality"]
    'passes'
    """
    try:
        if module(x).isnan().any():
            return dict.fromkeys(CHECKS, "NaN")
    except RuntimeError:
        return dict.fromkeys(CHECKS, "stops")
    return {name: "passes" if check(module, x) else "CAUGHT" for name, check in CHECKS.items()}


# Probes: inputs and parameters at which some part of a class cannot matter


def _huge_scores(module: MultiHeadAttention, x: Tensor) -> Tensor:
    module.W_key.weight.mul_(1e6)
    outputs: Tensor = module(x)
    return outputs


def _open_door(module: MultiHeadAttention, x: Tensor) -> Tensor:
    module.out_proj.weight.copy_(torch.eye(module.d_out))
    module.out_proj.bias.zero_()
    outputs: Tensor = module(x)
    return outputs


PROBES: dict[str, Look] = {
    "one head": lambda module, x: module(x),  # made with one
    "one token": lambda module, x: module(x[:, :1]),  # its one weight is 1
    "first query": lambda module, x: module(x)[:, 0],  # it may see one token
    "the weights": lambda module, x: module(x, return_weights=True)[1],
    "huge scores": _huge_scores,  # softmax picks the largest, whatever the scale
    "no out_proj": _open_door,  # it passes on what it gets
}


RIGHT, WRONG, NAN = "right", "wrong", "NaN"


@torch.no_grad()
def answer(cls: type[MultiHeadAttention], probe: str) -> str:
    """Return what one probe finds of a class, beside the right one with the same parameters.

    >>> answer(OnePageAttention, "one token")
    'right'
    """
    right, found = _right_looks()[probe], _look(cls, probe)
    return NAN if found.isnan().any() else RIGHT if is_near(found, right) else WRONG


@cache
@torch.no_grad()
def _right_looks() -> dict[str, Tensor]:
    return {probe: _look(OnePageAttention, probe) for probe in PROBES}


def _look(cls: type[MultiHeadAttention], probe: str) -> Tensor:
    """Return what one probe sees of a class."""
    return PROBES[probe](make(cls, 1 if probe == "one head" else 2), _x())


# What is said of a learner's check

NO_NUMBER = ("mask with the diagonal", "mask inverted")  # NaN, whatever is asked
LEAKS = {
    "mask one too late": "in which every token sees the next one",
    "mask thrown away": "that throws its mask away",
    "mask of the past": "that hides the past and shows the future",
    "softmax over queries": (
        "whose softmax runs over the queries: later queries move earlier outputs"
    ),
    "merge without transpose": "that joins its heads in the wrong order",
    "split without transpose": "that cuts its heads out of several tokens",
}
CAUSAL = (
    *("no scale", "scale by d_out", "keys and values swapped", "no output projection"),
    "both without transpose",
)


class _BehindNorm(BY_NAME["mask one too late"].cls):  # type: ignore[misc]
    """Leak behind a LayerNorm, which hides what moves all numbers of a token alike."""

    def forward(self, x: Tensor, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        found: Tensor | tuple[Tensor, Tensor]
        found = super().forward(F.layer_norm(x, x.shape[-1:]), return_weights)
        return found


def _x() -> Tensor:
    """Return the six tokens as a batch of one text."""
    return journey().inputs[None]


def _never_hidden(token: int) -> Mistake:
    """Return the mistake of a mask that shows one token to all: one key is never hidden."""
    shown = f"{MASK} & (torch.arange(num_tokens) != {token})"
    return Mistake(f"token {token} shown", MASK, shown)


@exercise_check(reference=is_causal)
def check_is_causal(written: Check) -> Verdict | str:
    """Check a learner's check of causality.

    >>> print(check_is_causal(lambda module, x: True))
    It lets a class through in which every token sees the next one.
    """
    x = _x()
    right = written(make(OnePageAttention), x)
    require(x.equal(_x()), "It changes the x that it was given. Change a clone.")
    said = "It rejects the right class. When token t changes, outputs t and later may move"
    require(right, f"{said}: which rows must not?")
    later = range(1, x.shape[1])
    missed = [t for t in later if written(make(_never_hidden(t).cls), x)]
    require(
        missed != [*later[1:]],
        "Only token 1 is ever changed, and a class goes through in which token 2 is seen too "
        "early. Does a return inside the loop end it in its first round?",
    )
    if 0 < len(missed) < len(later):
        early = f"in which token {missed[0]} is seen too early"
        return f"It lets a class through {early}. Does every token change?"
    for name, told in LEAKS.items():
        through = written(make(BY_NAME[name].cls), x)
        require(not through, f"It lets a class through {told}.")
    require(
        not written(make(_BehindNorm), x),
        "It lets a class through that leaks behind a LayerNorm, which hides what moves all "
        "numbers of a token alike. Change one of them.",
    )
    for name in CAUSAL:
        through = written(make(BY_NAME[name].cls), x)
        require(through, f"It rejects the mistake '{name}', which is causal, though wrong.")
    said = "It lets a class through that returns NaN: no comparison with NaN is true. Use allclose."
    require(not written(make(BY_NAME["mask with the diagonal"].cls), x), said)
    count = len(LEAKS) + 1 + len(later)
    return noted(f"Right: it finds {count} classes that leak, and lets {len(CAUSAL)} others pass.")


@exercise_check(reference=_huge_scores)
def check_any_scale(written: Look) -> Verdict:
    """Check a probe at which the scale cannot matter, but mask, split and merge can.

    >>> print(check_any_scale(lambda module, x: module(x[:, :1])))
    It does not notice the mistake 'mask one too late': are all six tokens there, as they were?
    """
    hidden = ("no scale", "scale by d_out")
    seen = ("mask one too late", "both without transpose", "merge without transpose")
    module = make(OnePageAttention)
    _looked(written, module)
    for name in ("W_value", "out_proj"):
        same = f"With {name} at 0 all tokens get the same output, whatever else is wrong"
        said = f"{same}. Which parameters make nothing but scores?"
        require(module.state_dict()[f"{name}.weight"].any(), said)
    for name in hidden:
        reason = "the scores still decide how evenly weights are shared"
        said = f"It also notices the mistake '{name}': {reason}."
        require(not _told_apart(written, name), said)
    for name in seen:
        question = "are all six tokens there, as they were?"
        said = f"It does not notice the mistake '{name}': {question}"
        require(_told_apart(written, name), said)
    names, others = (", ".join(f"'{name}'" for name in some) for some in (seen, hidden))
    return noted(f"Right: it notices {names}, and is blind to {others}.")


def _told_apart(written: Look, name: str) -> bool:
    right, wrong = (_looked(written, make(cls)) for cls in (OnePageAttention, BY_NAME[name].cls))
    return not is_near(wrong, right)


@torch.no_grad()
def _looked(written: Look, module: MultiHeadAttention) -> Tensor:
    """Return what a look sees, if it asks the module itself."""
    asked: list[int] = []

    def note(_layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        asked.append(given[0].ndim)
        require(
            given[0].ndim == 3,
            f"The module was given {given[0].ndim} dimensions, not (b, num_tokens, d_in). "
            "x[:, :1] keeps the dimension of tokens, x[:, 0] drops it.",
        )

    with module.register_forward_pre_hook(note):
        found = written(module, _x())
    require(asked, "It never calls the module itself. Call module(...), so its lines run.")
    said = "Return the outputs alone, one tensor: what module(...) returns by itself."
    require(isinstance(found, Tensor), said)
    return found


@exercise_check(reference=same_on_prefixes)
def check_prefixes(written: Check) -> Verdict | str:
    """Check a learner's fifth check: the first t tokens alone give the first t rows.

    >>> print(check_prefixes(lambda module, x: True))
    It misses all 9 classes that it must reject, for example 'split without transpose'.
    """
    said = "It rejects the right class. Which rows belong to the first t tokens? And is there room"
    require(written(make(OnePageAttention), _x()), f"{said} for rounding, as allclose leaves it?")
    tried = [mistake.name for mistake in MISTAKES if mistake.name != "view without contiguous"]
    leaks = [name for name in tried if name in {"both without transpose", *LEAKS, *NO_NUMBER}]
    passed = [name for name in tried if written(make(BY_NAME[name].cls), _x())]
    if missed := [name for name in leaks if name in passed]:
        count = "all" if missed == leaks else f"{len(missed)} of"
        classes = f"{count} {len(leaks)} classes that it must reject"
        return f"It misses {classes}, for example '{missed[0]}'."
    for t in range(1, _x().shape[1]):
        said = f"It lets a class through that goes wrong only for t = {t}. Is every t asked, and"
        through = written(make(_wrong_on_prefix(t)), _x())
        require(not through, f"{said} must each of them be the same?")
    for name in tried:
        through = name in leaks or name in passed
        require(through, f"It rejects the mistake '{name}', which is the same on every prefix.")
    return noted(
        f"Right: it rejects {len(leaks)} of the mistakes and {_x().shape[1] - 1} classes that go "
        f"wrong for one t each, and lets {len(passed)} others through."
    )


def _wrong_on_prefix(t: int) -> type[MultiHeadAttention]:
    """Return a class whose outputs are wrong for texts of t tokens, and right for all others."""

    class WrongOnPrefix(OnePageAttention):
        def forward(self, x: Tensor, return_weights: bool = False) -> Any:
            made: Any = super().forward(x, return_weights)
            return made + 1.0 if x.shape[1] == t else made

    return WrongOnPrefix
