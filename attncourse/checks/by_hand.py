"""The four checks as a learner writes them, each a few lines, and what is said of a learner's own.

verdicts has them with sentences, for any module. These here take a module of the weight split and
its tokens, and answer True or False, so that a page can show them whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from attncourse.checks.attempt import Diagnosis
from attncourse.checks.exercises import exercise_check
from attncourse.checks.mistakes import MASK, MISTAKES, Mistake, OnePageAttention
from attncourse.examples import journey, seeded
from attnlib.modules import MultiHeadAttention, MultiHeadAttentionWrapper

Check = Callable[[MultiHeadAttention, Tensor], bool]
Look = Callable[[MultiHeadAttention, Tensor], Tensor]

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
        changed[:, t] += 1
        if not torch.allclose(module(changed)[:, :t], before[:, :t], atol=1e-5):
            return False
    return True


@torch.no_grad()
def has_full_rows(module: MultiHeadAttention, x: Tensor) -> bool:
    """Let every value be 1: then each output is the sum of its weights."""

    def all_ones(_layer: nn.Module, _given: tuple[Tensor], values: Tensor) -> Tensor:
        return torch.ones_like(values)

    def untouched(_layer: nn.Module, given: tuple[Tensor], _output: Tensor) -> Tensor:
        return given[0]

    with (
        module.W_value.register_forward_hook(all_ones),
        module.out_proj.register_forward_hook(untouched),
    ):
        sums = module(x)
    return torch.allclose(sums, torch.ones_like(sums), atol=1e-5)


@torch.no_grad()
def equals_stacked(module: MultiHeadAttention, x: Tensor) -> bool:
    """Copy the parameters into stacked heads, and compare."""
    (_, num_tokens, d_in), head_dim = x.shape, module.head_dim
    stacked = MultiHeadAttentionWrapper(
        d_in, head_dim, num_tokens, dropout=0.0, num_heads=module.num_heads
    )
    for h, head in enumerate(stacked.heads):
        rows = slice(h * head_dim, (h + 1) * head_dim)
        for name in ("W_query", "W_key", "W_value"):
            getattr(head, name).weight.copy_(getattr(module, name).weight[rows])
    return torch.allclose(module(x), module.out_proj(stacked(x)), atol=1e-5)


CHECKS: dict[str, Check] = {
    "shape": keeps_shape,
    "causality": is_causal,
    "rows": has_full_rows,
    "equality": equals_stacked,
}


def make(
    cls: type[MultiHeadAttention],
    num_heads: int = 2,
    dropout: float = 0.0,
    context_length: int = 6,
) -> MultiHeadAttention:
    """Make a module in eval, 3 numbers to 8, its parameters normal numbers from one seed.

    Args:
        cls: OnePageAttention, or a class that is wrong by a line.
        num_heads: 1, 2, 4 or 8.
        dropout: of the attention weights.
        context_length: the most tokens; OnePageAttention itself takes any number.

    >>> make(OnePageAttention).head_dim
    4
    """
    with seeded(1), torch.no_grad():
        module = cls(3, 8, context_length, dropout, num_heads)
        for parameter in module.parameters():
            parameter.normal_()
    return module.eval()


@torch.no_grad()
def ask(module: MultiHeadAttention, x: Tensor) -> dict[str, str]:
    """Ask the four checks.

    Returns:
        By the name of the check "passes" or "CAUGHT". Where no check is needed, since the module
        returns NaN or stops with an error, "NaN" or "stops" under all four.

    >>> ask(make(OnePageAttention), journey().inputs[None])["causality"]
    'passes'
    """
    try:
        if module(x).isnan().any():
            return dict.fromkeys(CHECKS, "NaN")
    except RuntimeError:
        return dict.fromkeys(CHECKS, "stops")
    return {name: "passes" if check(module, x) else "CAUGHT" for name, check in CHECKS.items()}


# What is said of a learner's check

SPEAKS_UP = ("view without contiguous",)  # it needs no check
NO_NUMBER = ("mask with the diagonal", "mask inverted")  # NaN, whatever is asked
BY_NAME = {mistake.name: mistake for mistake in MISTAKES}
LEAK = (
    "mask one too late",
    "mask thrown away",
    "mask of the past",
    "softmax over queries",
    "merge without transpose",
    "split without transpose",
)
ONE_LEAK = Mistake(
    "one column",
    "One key is never hidden.",
    MASK,
    "is_future = torch.ones(num_tokens, num_tokens).triu(1).bool().logical_and("
    "torch.arange(num_tokens) != 1)",
)
CAUSAL = ("no scale", "scale by d_out", "keys and values swapped", "no output projection")


def _x() -> Tensor:
    """Return the six tokens as a batch of one text."""
    return journey().inputs[None]


@exercise_check
def check_is_causal(written: Check) -> str:
    """Check a learner's check of causality.

    Args:
        written: takes a module and x, (b, num_tokens, d_in), and returns True or False.

    Returns:
        A sentence.

    >>> print(check_is_causal(lambda module, x: True))
    It lets a class through in which every token sees the next one.
    """
    x = _x()
    right = written(make(OnePageAttention), x)
    if not torch.equal(x, _x()):
        return "It changes the x that it was given. Change a clone."
    if not right:
        return (
            "It rejects the right class. When token t changes, outputs t and later may move: "
            "which rows must not?"
        )
    told = (
        "in which every token sees the next one",
        "that throws its mask away",
        "that hides the past and shows the future",
        "whose softmax runs over the queries: later queries move earlier outputs",
        "that joins its heads in the wrong order",
        "that cuts its heads out of several tokens",
    )
    for name, sentence in zip(LEAK, told, strict=True):
        if written(make(BY_NAME[name].cls), x):
            return f"It lets a class through {sentence}."
    if written(make(ONE_LEAK.cls), x):
        return (
            "It lets a class through in which one token is seen too early. Does every token change?"
        )
    for name in CAUSAL:
        if not written(make(BY_NAME[name].cls), x):
            return f"It rejects the mistake '{name}', which is causal, though wrong."
    if written(make(BY_NAME["mask with the diagonal"].cls), x):
        return (
            "It lets a class through that returns NaN: no comparison with NaN is true. "
            "Use allclose."
        )
    return f"Right: it finds {len(LEAK) + 1} classes that leak, and lets {len(CAUSAL)} others pass."


# Inputs that leave only one part of a class to matter


def one_token(module: MultiHeadAttention, x: Tensor) -> Tensor:
    """Look at a text of one token: its one weight is 1."""
    found: Tensor = module(x[:, :1])
    return found


def first_query(module: MultiHeadAttention, x: Tensor) -> Tensor:
    """Look at the first output: it may see one token."""
    found: Tensor = module(x)[:, 0]
    return found


def equal_scores(module: MultiHeadAttention, x: Tensor) -> Tensor:
    """Look at the outputs where all scores are 0: each is a plain mean of the past."""
    module.W_key.weight.zero_()
    found: Tensor = module(x)
    return found


def the_weights(module: MultiHeadAttention, x: Tensor) -> Tensor:
    """Look at the attention weights themselves."""
    found: Tensor = module(x, return_weights=True)[1]
    return found


PROBES: dict[str, Look] = {
    "one token": one_token,
    "first query": first_query,
    "equal scores": equal_scores,
    "the weights": the_weights,
}


@torch.no_grad()
def differs(cls: type[MultiHeadAttention], look: Look, num_heads: int = 2) -> bool:
    """Return whether a class differs from the right one, looked at in one way.

    Args:
        cls: a class that is wrong by a line; both get the same weights.
        look: takes a module and x, and returns what to compare. It may change the module.
        num_heads: 1, 2, 4 or 8.

    >>> differs(OnePageAttention, one_token)
    False
    """
    right, wrong = (look(make(made, num_heads), _x()) for made in (OnePageAttention, cls))
    return right.shape != wrong.shape or not torch.allclose(wrong, right, atol=1e-5)


@exercise_check
def check_only_values(written: Look) -> str:
    """Check an input at which only W_value and out_proj can matter.

    Args:
        written: takes a module and x, and returns the outputs to look at.

    Returns:
        A sentence.

    >>> print(check_only_values(lambda module, x: module(x)))
    It also notices the mistake 'no scale': some token still has a choice of keys.
    """
    hidden = {
        "no scale": "some token still has a choice of keys",
        "mask one too late": "there is still a later token",
        "merge without transpose": "there is still more than one token to mix up",
    }
    values_gone = "are the numbers of the token still there"
    seen = {"keys and values swapped": values_gone, "no output projection": values_gone}
    return _probed(written, seen, hidden)


@exercise_check
def check_equal_scores(written: Look) -> str:
    """Check an input at which scores cannot matter, but mask, split and merge can.

    Args:
        written: takes a module, which it may change, and x; returns the outputs to look at.

    Returns:
        A sentence.

    >>> print(check_equal_scores(lambda module, x: module(x[:, :1])))
    It does not notice the mistake 'mask one too late': are all six tokens there, as they were?
    """
    hidden = {
        "no scale": "the scores of a row still differ",
        "scale by d_out": "the scores of a row still differ",
    }
    names = "mask one too late", "both without transpose", "merge without transpose"
    return _probed(written, dict.fromkeys(names, "are all six tokens there, as they were"), hidden)


def _probed(written: Look, seen: dict[str, str], hidden: dict[str, str]) -> str:
    """Say whether a look tells these classes from the right one, and does not tell the others."""
    module = make(OnePageAttention)
    _looked(written, module)
    for name in ("W_value", "out_proj"):
        if not module.state_dict()[f"{name}.weight"].any():
            return (
                f"With {name} at 0 all tokens get the same output, whatever else is wrong. Which "
                "parameters make nothing but scores?"
            )
    for name, reason in hidden.items():
        if _told_apart(written, BY_NAME[name]):
            return f"It also notices the mistake '{name}': {reason}."
    for name, question in seen.items():
        if not _told_apart(written, BY_NAME[name]):
            return f"It does not notice the mistake '{name}': {question}?"
    return f"Right: it notices {_quoted(seen)}, and is blind to {_quoted(hidden)}."


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _told_apart(written: Look, mistake: Mistake) -> bool:
    right, wrong = (_looked(written, make(cls)) for cls in (OnePageAttention, mistake.cls))
    return right.shape != wrong.shape or not torch.allclose(wrong, right, atol=1e-5)


@torch.no_grad()
def _looked(written: Look, module: MultiHeadAttention) -> Tensor:
    """Return what a look sees, or raise a Diagnosis where it does not ask the module itself."""
    asked: list[tuple[int, ...]] = []

    def note(_layer: nn.Module, given: tuple[Tensor, ...]) -> None:
        asked.append(tuple(given[0].shape))
        if given[0].ndim != 3:
            raise Diagnosis(
                f"The module was given {given[0].ndim} dimensions, not (b, num_tokens, d_in). "
                "x[:, :1] keeps the dimension of tokens, x[:, 0] drops it."
            )

    with module.register_forward_pre_hook(note):
        found = written(module, _x())
    if not asked:
        raise Diagnosis("It never calls the module itself. Call module(...), so its lines run.")
    if not isinstance(found, Tensor):
        raise Diagnosis("Return the outputs alone, one tensor: what module(...) returns by itself.")
    return found


@exercise_check
def check_prefixes(written: Check) -> str:
    """Check a learner's fifth check: the first t tokens alone give the first t rows.

    Args:
        written: takes a module and x, (b, num_tokens, d_in), and returns True or False.

    Returns:
        A sentence.

    >>> print(check_prefixes(lambda module, x: True))
    It misses all 9 classes that it must reject, for example 'split without transpose'.
    """
    if not written(make(OnePageAttention), _x()):
        return (
            "It rejects the right class. Which rows belong to the first t tokens? And is there "
            "room for rounding, as allclose leaves it?"
        )
    tried = [mistake for mistake in MISTAKES if mistake.name not in SPEAKS_UP]
    leaks = {"both without transpose", *LEAK, *NO_NUMBER}
    passed = [mistake.name for mistake in tried if written(make(mistake.cls), _x())]
    missed = [mistake.name for mistake in tried if mistake.name in leaks & set(passed)]
    if missed:
        count = (
            f"all {len(leaks)}" if len(missed) == len(leaks) else f"{len(missed)} of {len(leaks)}"
        )
        return f"It misses {count} classes that it must reject, for example '{missed[0]}'."
    for t in range(1, _x().shape[1]):
        if written(make(_wrong_on_prefix(t)), _x()):
            few = "the first token" if t == 1 else f"the first {t} tokens"
            return (
                f"It lets a class through that goes wrong only for {few} alone. Is every t asked, "
                "and must each of them be the same?"
            )
    if len(passed) < len(tried) - len(leaks):
        wrongly = next(m.name for m in tried if m.name not in leaks and m.name not in passed)
        return f"It rejects the mistake '{wrongly}', which is the same on every prefix."
    return (
        f"Right: it rejects {len(leaks)} of the mistakes and {_x().shape[1] - 1} classes that go "
        f"wrong for one t each, and lets {len(passed)} others through."
    )


def _wrong_on_prefix(t: int) -> type[MultiHeadAttention]:
    """Return a class whose outputs are wrong for texts of t tokens, and right for all others."""

    class WrongOnPrefix(OnePageAttention):
        def forward(
            self, x: Tensor, return_weights: bool = False
        ) -> Tensor | tuple[Tensor, Tensor]:
            context_vec, attn_weights = super().forward(x, return_weights=True)
            context_vec = context_vec + 1.0 if x.shape[1] == t else context_vec
            return (context_vec, attn_weights) if return_weights else context_vec

    return WrongOnPrefix
