"""What a learner writes around PyTorch's attention: a class of its own, masks, and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.checks.answers import (
    first_near,
    is_near,
    noted,
    require,
    require_mask,
    require_shape,
)
from attncourse.checks.exercises import exercise_check
from attncourse.checks.safe_run import draw
from attncourse.checks.verdict import Verdict
from attncourse.compare import at_most
from attncourse.examples import seeded
from attnlib.convert import split_to_torch
from attnlib.functional import attention, causal_mask, merge_heads, split_heads
from attnlib.modules import MultiHeadAttention

# A class around SDPA


class FusedAttention(MultiHeadAttention):
    """MultiHeadAttention that lets PyTorch's function do the middle, on one text or two."""

    def forward(self, x: Tensor, memory: Tensor | None = None, **mask: Any) -> Tensor:  # type: ignore[override]
        memory = x if memory is None else memory
        queries, keys, values = _parts(self, x, memory, memory)
        mask["dropout_p"] = self.dropout.p * self.training
        context_vec = F.scaled_dot_product_attention(queries, keys, values, **mask)
        output: Tensor = self.out_proj(merge_heads(context_vec))
        return output


def _parts(module: MultiHeadAttention, *texts: Tensor) -> list[Tensor]:
    """Return queries, keys and values, each of its own text, split into heads."""
    layers = zip((module.W_query, module.W_key, module.W_value), texts, strict=True)
    return [split_heads(layer(text), module.head_dim) for layer, text in layers]


def check_fused(cls: type[MultiHeadAttention]) -> Verdict:
    """Check a class around scaled_dot_product_attention: one text, two texts, masks, dropout.

    Args:
        cls: made as MultiHeadAttention is; its forward takes x, memory (x itself if there is none)
            and the masks of scaled_dot_product_attention by keyword.

    >>> print(check_fused(FusedAttention))
    Right: one text or two, with attn_mask or is_causal, and dropout in training only.
    """

    def forward(dropout: float, training: bool, *texts: Tensor, **mask: Any) -> Tensor:
        with seeded(1):
            module = cls(7, 6, 11, dropout, num_heads=3, qkv_bias=True)
        if training:  # what is dropped must be seen: out_proj passes on what it gets
            nn.init.eye_(module.out_proj.weight)
            nn.init.zeros_(module.out_proj.bias)
        run: Callable[..., Tensor] = module.train(training)
        with seeded(2), torch.no_grad():
            return run(*texts, **mask)

    return replace(_fused(forward), answer=cls)


@exercise_check(reference=FusedAttention)
def _fused(forward: Callable[..., Tensor]) -> Verdict:
    with seeded(1):
        right = MultiHeadAttention(7, 6, 11, 0.0, num_heads=3, qkv_bias=True).requires_grad_(False)
    x = draw(2, 4, 7, seed=2)
    mine = forward(0.0, False, x)
    require(not isinstance(mine, tuple), "forward returns a tuple: SDPA has no weights to return.")
    require_shape(mine, (2, 4, 6), ": one row for each token that looks")
    _require_near(mine, _cross(right, x, x, x), _usual(right, x, x))
    for lengths in ((4, 4), (3, 5), (5, 3)):  # at 4 and 4 every usual mistake has its shape
        x, memory = draw(2, lengths[0], 7, seed=2), draw(2, lengths[1], 7, seed=3)
        mine = forward(0.0, False, x, memory)
        require_shape(mine, (2, lengths[0], 6), ": one row for each token that looks")
        _require_near(mine, _cross(right, x, memory, memory), _usual(right, x, memory))
    is_future = causal_mask(lengths[0])[:, : lengths[1]]
    hidden, open_ = (_cross(right, x, memory, memory, each) for each in (is_future, None))
    mine = forward(0.0, False, x, memory, attn_mask=~is_future)
    said = "attn_mask does not arrive: pass **mask on to SDPA."
    _require_near(mine, hidden, {said: open_})
    mine = forward(0.0, False, x, is_causal=True)
    causal = _cross(right, x, x, x, causal_mask(5))
    _require_near(mine, causal, {"is_causal does not arrive: pass **mask on to SDPA.": mine})
    said = "It drops in eval mode too: SDPA does not know the mode. There dropout_p must be 0.0."
    require(is_near(forward(0.5, False, x), _cross(right, x, x, x)), said)
    _require_dropped_weights(forward, right)
    return noted(
        "Right: one text or two, with attn_mask or is_causal, and dropout in training only."
    )


def _require_dropped_weights(forward: Callable[..., Tensor], right: MultiHeadAttention) -> None:
    """Require that dropout hits attention weights, with the share that the class was made with.

    Of one key each head's weight is 1. So what a head gives is its value, or nothing if the weight
    was dropped, and the value is stretched by 1 / (1 - p) if it was not.
    """
    x, memory = draw(8, 11, 7, seed=2), draw(8, 1, 7, seed=3)
    values = split_heads(right.W_value(memory), right.head_dim)
    for p in (0.5, 0.2):
        left = split_heads(forward(p, True, x, memory), right.head_dim) / values
        said = "In training no weight is dropped: SDPA needs dropout_p=self.dropout.p there."
        require(not is_near(left, torch.ones_like(left)), said)
        said = "Single numbers are dropped, not attention weights: leave the dropout to SDPA alone."
        require(is_near(left[..., 0], left[..., 1], near=1e-3), said)
        said = f"Made with dropout {p}, it drops another share: which one is in self.dropout.p."
        require(is_near(left.max(), torch.tensor(1 / (1 - p)), near=1e-3), said)


def _require_near(mine: Tensor, right: Tensor, usual: Mapping[str, Tensor]) -> None:
    """Require that an answer is right, or else say which usual mistake gives it."""
    off = at_most((mine - right).abs().max().item(), floor=1e-6)
    other = f"Right shape, wrong numbers: off by up to {off:.0e}."
    require(is_near(mine, right), first_near(mine, usual) or other)


def _cross(
    module: MultiHeadAttention,
    x: Tensor,
    keys_from: Tensor,
    values_from: Tensor,
    is_masked: Tensor | None = None,
    merge: Callable[[Tensor], Tensor] = merge_heads,
    stretch: float = 1.0,
) -> Tensor:
    """Return what x sees in a text; keys and values may come from different ones."""
    queries, keys, values = _parts(module, x, keys_from, values_from)
    result: Tensor = module.out_proj(
        merge(attention(stretch * queries, keys, values, is_masked)[0])
    )
    return result


def _changed(module: MultiHeadAttention, **parts: object) -> MultiHeadAttention:
    """Return a copy of a module with some of its parts replaced."""
    changed = deepcopy(module)
    for name, part in parts.items():
        setattr(changed, name, part)
    return changed


def _usual(module: MultiHeadAttention, x: Tensor, memory: Tensor) -> dict[str, Tensor]:
    """Return what the usual mistakes compute, by what to say of them."""
    num_queries, num_keys = x.shape[1], memory.shape[1]
    place = torch.arange(max(num_queries, num_keys))
    is_future = place[None, :num_keys] > place[:num_queries, None]
    swapped = _changed(module, W_key=module.W_value, W_value=module.W_key)
    bare, wide = _changed(module, out_proj=nn.Identity()), _changed(module, head_dim=module.d_out)
    found: dict[str, Tensor] = {
        "memory is not looked at: keys and values come from x.": _cross(module, x, x, x),
        "The future is hidden, and nobody asked for it: only **mask says what is.": _cross(
            module, x, memory, memory, is_future
        ),
        "Divided twice: SDPA divides by the root of head_dim itself.": _cross(
            module, x, memory, memory, stretch=module.head_dim**-0.5
        ),
        "out_proj is missing.": _cross(bare, x, memory, memory),
        "The heads are merged without the transpose: use merge_heads.": _cross(
            module, x, memory, memory, merge=lambda heads: heads.reshape(*x.shape[:2], -1)
        ),
        "There is one wide head: split queries, keys and values into heads.": _cross(
            wide, x, memory, memory
        ),
        "Keys and values have each other's matrix: W_key makes keys, W_value values.": (
            _cross(swapped, x, memory, memory)
        ),
    }
    if num_queries == num_keys:
        found |= {
            "Queries come from memory: it is x that looks.": _cross(module, memory, x, x),
            "Values come from x: what is looked at is also what is read.": _cross(
                module, x, memory, x
            ),
            "Keys come from x: it is memory that is looked at.": _cross(module, x, x, memory),
        }
    return found


# Masks


def _padded_mask(is_padding: Tensor) -> Tensor:
    num_tokens = is_padding.shape[1]
    may_attend = ~causal_mask(num_tokens) & ~is_padding[:, None]
    return (may_attend | torch.eye(num_tokens, dtype=torch.bool))[:, None]


@exercise_check(reference=_padded_mask)
def check_padded(padded_mask: Callable[[Tensor], Tensor]) -> Verdict | str:
    """Check a mask for SDPA and texts that are padded on the left, with a True in every row.

    Args:
        padded_mask: takes is_padding, bool, (b, num_tokens), and returns a boolean mask,
            (b, 1, num_tokens, num_tokens), True where a query may look. What padding sees, if it
            sees something, is free.

    >>> print(check_padded(lambda is_padding: (~causal_mask(8) & ~is_padding[:, None])[:, None]))
    In text 1 query 0 may look at nothing: an average over nothing.
    """
    for num_tokens, paddings in ((8, (0, 2, 5)), (7, (3, 1))):
        is_padding = torch.arange(num_tokens) < torch.tensor(paddings)[:, None]
        mask, b = padded_mask(is_padding), len(paddings)
        said = f"Where SDPA has its heads, it would find your {b} texts: put a 1 there, [:, None]."
        require(mask.shape != (b, num_tokens, num_tokens), said)
        require_mask(mask, (b, 1, num_tokens, num_tokens))
        mask = mask[:, 0]
        is_future, itself = causal_mask(num_tokens), torch.eye(num_tokens, dtype=torch.bool)
        said = "Your True hides. In SDPA's mask True means: may look."
        require(not mask[:, is_future].all() or mask.all(), said)
        of_queries = ~is_future & ~is_padding[:, :, None]
        said = "The padding's queries are hidden. Its keys must be, columns: is_padding[:, None]."
        require(not mask.equal(of_queries) and not mask.equal(of_queries | itself), said)
        for text, num_padding in enumerate(paddings):
            if (problem := _not_padded(mask[text], num_padding)) is not None:
                return f"In text {text} {problem}"
        said = "The right number of keys, but not the right ones: a word's output moved."
        require(_as_if_alone(mask[:, None], paddings), said)
    return noted("Right: no row is empty, and the words of 5 texts come out as if each were alone.")


def _not_padded(mask: Tensor, num_padding: int) -> str | None:
    """Return what is wrong with one text's mask for padding on the left, or None."""
    num_tokens = len(mask)
    for query, token in (causal_mask(num_tokens) & mask).nonzero().tolist():
        if query >= num_padding:
            return f"query {query} sees token {token}: that is its future."
    seen = mask.sum(dim=-1).tolist()
    if 0 in seen:
        return f"query {seen.index(0)} may look at nothing: an average over nothing."
    of_words, wanted = seen[num_padding:], list(range(1, num_tokens - num_padding + 1))
    if of_words != wanted:
        return f"the words see {of_words} keys, not {wanted}. Are the padding's keys still seen?"
    return None


@torch.no_grad()
def _as_if_alone(mask: Tensor, paddings: tuple[int, ...]) -> bool:
    """Return whether each text's words come out as without padding."""
    with seeded(1):
        module = FusedAttention(4, 4, 8, 0.0, num_heads=2)
        x = torch.rand(len(paddings), mask.shape[2], 4)
    padded = module(x, attn_mask=mask)
    return all(
        is_near(padded[text, start:], module(x[text : text + 1, start:], is_causal=True)[0])
        for text, start in enumerate(paddings)
    )


Shape = tuple[int, int, int, int]


def _for_module(may_attend: Tensor, shape: Shape) -> Tensor:
    return ~may_attend.expand(shape).flatten(0, 1)


@exercise_check(reference=_for_module)
def check_for_module(written: Callable[[Tensor, Shape], Tensor]) -> Verdict:
    """Check how a mask for SDPA becomes one for nn.MultiheadAttention.

    Args:
        written: takes a boolean mask that SDPA would stretch, True where a query may look, and
            the shape to which it stretches, (b, num_heads, num_queries, num_keys); returns a
            boolean mask, (b * num_heads, num_queries, num_keys), True where it may not.

    >>> print(check_for_module(lambda may_attend, shape: may_attend.expand(shape).flatten(0, 1)))
    Your True shows. In the module's mask True means: hide.
    """
    for b, num_heads in ((3, 2), (2, 3), (2, 2)):
        shape = (b, num_heads, 5, 5)
        for may_attend in _masks(b, 5):
            mask, right = written(may_attend, shape), _for_module(may_attend, shape)
            require_mask(mask, tuple(right.shape))
            said = "Your True shows. In the module's mask True means: hide."
            require(not mask.equal(~right), said)
            by_head = ~may_attend.expand(shape).transpose(0, 1).flatten(0, 1)
            said = "The heads take turns with the texts the wrong way round: the module wants all "
            require(
                mask.equal(right) or not mask.equal(by_head),
                f"{said}heads of text 0 first, then those of text 1.",
            )
            said = (
                f"Wrong for a mask of shape {tuple(may_attend.shape)}: not every text has its own."
            )
            require(mask.equal(right), said)
    return noted("Right: three shapes of mask, for 3 texts and 2 heads, 2 and 3, 2 and 2.")


# The table


def _masks(b: int, num_tokens: int) -> Iterator[Tensor]:
    """Return a mask of each shape that the table allows, True where a query may look.

    (n, n), causal; (b, 1, 1, n), padding on the right and on the left; (b, 1, n, n), both of it
    and causal, where a padding token sees itself.
    """
    may_see, itself = ~causal_mask(num_tokens), torch.eye(num_tokens, dtype=torch.bool)
    yield may_see
    lengths = num_tokens - 2 * torch.arange(b)[:, None] % (num_tokens - 1)
    on_the_right = torch.arange(num_tokens) < lengths
    for is_word in (on_the_right, on_the_right.flip(1)):
        yield is_word[:, None, None]
        yield ((may_see & is_word[:, None]) | itself)[:, None]


def alone(module: MultiHeadAttention, x: Tensor, memory: Tensor, may_attend: Tensor) -> Tensor:
    """Return what attention gives without any mask: each query meets only the keys it may see.

    Args:
        module: its layers are used, not its forward.
        x: the texts that look, (b, num_queries, d_in).
        memory: the texts that are looked at, (b, num_keys, d_in).
        may_attend: bool, (b, num_queries, num_keys).
    """
    queries, keys, values = _parts(module, x, memory, memory)
    rows = torch.zeros(*x.shape[:2], module.d_out, dtype=x.dtype)
    for text, query in ((i, q) for i in range(len(x)) for q in range(x.shape[1])):
        seen = may_attend[text, query].nonzero().flatten()
        scores = (queries[text, :, query, None] * keys[text][:, seen]).sum(dim=-1)
        weights = torch.softmax(scores / module.head_dim**0.5, dim=-1)
        rows[text, query] = (weights[..., None] * values[text][:, seen]).sum(dim=1).flatten()
    output: Tensor = module.out_proj(rows)
    return output


@torch.no_grad()
def run_calls(
    calls: Iterable[str], cls: type[MultiHeadAttention], **names: Any
) -> dict[str, tuple[int, int]]:
    """Run each call on every input that fits it, and compare with attention without any mask.

    A call that names may_attend gets every shape of mask, with as many texts as heads and with
    more; one that names memory looks at another text; one that names new has one or three new
    tokens; all others are causal.

    Args:
        calls: code, with the names mine, module, x, memory, may_attend, new, text, n, m, shape,
            is_future and sdpa, and those of names.
        cls: the learner's class, or FusedAttention.
        names: what else the calls name.

    Returns:
        For each call on how many inputs it was right, and how many there were.

    >>> run_calls(["mine(x, attn_mask=may_attend)", "mine(x)"], FusedAttention)
    {'mine(x, attn_mask=may_attend)': (10, 10), 'mine(x)': (0, 2)}
    """
    found = {}
    for call in calls:
        cases = [case for b in (2, 3) for case in _cases(call, b, cls)]
        found[call] = (sum(_is_right(call, case, names) for case in cases), len(cases))
    return found


def _cases(call: str, b: int, cls: type[MultiHeadAttention]) -> Iterator[dict[str, Any]]:
    """Return the inputs that fit a call, with what must come out."""
    with seeded(1):
        mine, plain = (kind(4, 4, 7, 0.0, num_heads=2).eval() for kind in (cls, MultiHeadAttention))
        plain.load_state_dict(mine.state_dict())
        x, memory = torch.randn(b, 5, 4), torch.randn(b, 7, 4)
    space = {"mine": mine, "module": split_to_torch(plain), "x": x, "is_future": causal_mask(5)}
    space |= {"shape": (b, 2, 5, 5), "text": x, "sdpa": F.scaled_dot_product_attention}
    causal = ~causal_mask(5).expand(b, 5, 5)
    if "may_attend" in call:
        for may_attend in _masks(b, 5):
            seen = may_attend.expand(b, 1, 5, 5)[:, 0]
            yield {**space, "may_attend": may_attend, "right": alone(mine, x, x, seen)}
    elif "memory" in call:
        seen = torch.ones(b, 5, 7, dtype=torch.bool)
        yield {**space, "memory": memory, "right": alone(mine, x, memory, seen)}
    elif "new" in call:
        for n in (1, 3):
            right = alone(mine, x[:, -n:], x, causal[:, -n:])
            yield {**space, "new": x[:, -n:], "n": n, "m": 5, "right": right}
    else:
        yield {**space, "right": alone(mine, x, x, causal)}


def _is_right(call: str, case: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    from torch.nn.attention.bias import causal_lower_right  # it loads torch's compiler, in seconds

    made = eval(call, {"causal_lower_right": causal_lower_right, **names, **case})
    return is_near(made, case["right"])
