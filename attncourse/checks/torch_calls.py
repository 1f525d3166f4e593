"""Checks of what a learner writes around PyTorch's attention: its masks, and two texts at once."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.checks.answers import (
    FINITE,
    first_near,
    first_wrong_row,
    is_near,
    noted,
    require,
    require_mask,
    require_shape,
)
from attncourse.checks.attempt import draw
from attncourse.checks.exercises import exercise_check
from attncourse.checks.verdict import Verdict
from attncourse.compare import at_most
from attncourse.examples import seeded
from attnlib.functional import attention, causal_mask, merge_heads, split_heads
from attnlib.modules import MultiHeadAttention

MEANS = {"the module's": "hide", "SDPA's": "may look"}  # what True means, by whose mask it is


def _both_masks(num_tokens: int) -> tuple[Tensor, Tensor]:
    is_future = causal_mask(num_tokens)
    return is_future, ~is_future


@exercise_check(ours=_both_masks)
def check_both_masks(both_masks: Callable[[int], tuple[Tensor, Tensor]]) -> Verdict | str:
    """Check a causal mask for nn.MultiheadAttention, and one for scaled_dot_product_attention.

    Args:
        both_masks: takes num_tokens and returns two masks, (num_tokens, num_tokens), boolean or
            of numbers that are added to the scores: for the module, and for SDPA.

    >>> print(check_both_masks(lambda n: (causal_mask(n), causal_mask(n))))
    With SDPA's mask each token sees its future and nothing else: there True means may look.
    """
    for num_tokens in (7, 5):
        masks = both_masks(num_tokens)
        is_pair = isinstance(masks, (tuple, list)) and len(masks) == 2
        require(is_pair, "It must return two masks, the module's and SDPA's, in this order.")
        wanted = (num_tokens, num_tokens)
        for owner, mask in zip(MEANS, masks, strict=True):
            shape, is_bool = tuple(mask.shape), mask.dtype == torch.bool
            require(shape == wanted, f"The shape of {owner} mask is {shape}, not {wanted}.")
            said = f"The dtype of {owner} mask is {mask.dtype}: make it boolean, or of floats."
            require(is_bool or mask.is_floating_point(), said)
        for owner, seen in zip(MEANS, _seen(num_tokens, *masks), strict=True):
            if not seen.equal(~causal_mask(num_tokens)):
                return _not_causal(owner, seen)
    added = [mask for mask in masks if mask.is_floating_point()]
    finite = any(mask.isfinite().all() for mask in added)
    return noted(
        "Right, for both: a mask of numbers is added to the scores, and means one thing."
        if len(added) == 2
        else "Right: the module's True hides, SDPA's True shows.",
        *[FINITE] * finite,
    )


def _seen(num_tokens: int, for_module: Tensor, for_function: Tensor) -> tuple[Tensor, Tensor]:
    """Return who sees whom with each mask; a query that sees nothing has NaN or zeros."""
    with seeded(1):
        module = nn.MultiheadAttention(6, 1, bias=False, batch_first=True)
        x = torch.randn(1, num_tokens, 6)
    if for_function.is_floating_point():
        for_function = for_function.to(x.dtype)
    with torch.no_grad():
        _, weights = module(x, x, x, attn_mask=for_module)
        eye = torch.eye(num_tokens)[None]
        shown = F.scaled_dot_product_attention(x, x, eye, attn_mask=for_function)
    return weights[0].nan_to_num(0.0) > 0, shown[0].nan_to_num(0.0) > 0


def _not_causal(owner: str, seen: Tensor) -> str:
    """Return what is wrong with a mask, from who sees whom."""
    is_future, itself = causal_mask(len(seen)), torch.eye(len(seen), dtype=torch.bool)
    token, columns, wanted = first_wrong_row(seen, ~is_future)
    usual = {
        f"each token sees its future and nothing else: there True means {MEANS[owner]}.": is_future,
        "no token sees itself, and token 0 sees nothing at all.": ~is_future & ~itself,
        "tokens look ahead: rows are queries, columns are keys.": ~is_future.mT,
        "nothing is hidden. Numbers are added to the scores: 0 shows, -inf hides.": (
            torch.ones_like(seen)
        ),
    }
    other = f"token {token} must see {wanted}, not {columns}."
    return f"With {owner} mask {first_near(seen, usual) or other}"


@exercise_check(ours=lambda module, x, memory: _cross(module, x, memory, memory))
def check_cross_attention(
    cross_attention: Callable[[MultiHeadAttention, Tensor, Tensor], Tensor],
) -> Verdict | str:
    """Check attention from one text to another, written with a causal module's own layers.

    Args:
        cross_attention: takes a MultiHeadAttention, the text that looks, (b, num_queries, d_in),
            and the text that is looked at, (b, num_keys, d_in); returns (b, num_queries, d_out).

    >>> print(check_cross_attention(lambda module, x, memory: module(x)))
    This is the causal self-attention of x: memory is not looked at.
    """
    for lengths in ((4, 4), (3, 5), (5, 3)):  # at 4 and 4 every usual mistake has its shape
        with seeded(1):
            module = MultiHeadAttention(7, 6, 11, 0.0, num_heads=3, qkv_bias=True)
        x, memory = draw(2, lengths[0], 7, seed=2), draw(2, lengths[1], 7, seed=3)
        with torch.no_grad():
            mine = cross_attention(module, x, memory)
            said = "It returns a tuple. attention returns two things: go on with the first."
            require(not isinstance(mine, tuple), said)
            require_shape(mine, (2, lengths[0], 6), ": one row for each token that looks")
            right = _cross(module, x, memory, memory)
            if not is_near(mine, right):
                off = at_most((mine - right).abs().max().item(), floor=1e-6)
                other = f"Right shape, wrong numbers: off by up to {off:.0e}."
                return first_near(mine, _usual_crossings(module, x, memory)) or other
    return noted(
        "Right: for 4 tokens that look at 4, for 3 that look at 5, and for 5 that look at 3."
    )


def _cross(
    module: MultiHeadAttention,
    x: Tensor,
    keys_from: Tensor,
    values_from: Tensor,
    is_hidden: Tensor | None = None,
    merge: Callable[[Tensor], Tensor] = merge_heads,
) -> Tensor:
    """Return what x sees in a text; keys and values may come from different ones."""
    queries = split_heads(module.W_query(x), module.num_heads)
    keys = split_heads(module.W_key(keys_from), module.num_heads)
    values = split_heads(module.W_value(values_from), module.num_heads)
    result: Tensor = module.out_proj(merge(attention(queries, keys, values, is_hidden)[0]))
    return result


def _changed(module: MultiHeadAttention, **parts: object) -> MultiHeadAttention:
    """Return a copy of a module with some of its parts replaced."""
    changed = deepcopy(module)
    for name, part in parts.items():
        setattr(changed, name, part)
    return changed


def _usual_crossings(module: MultiHeadAttention, x: Tensor, memory: Tensor) -> dict[str, Tensor]:
    """Return what the usual mistakes compute, by what to say of them."""
    num_queries, num_keys = x.shape[1], memory.shape[1]
    place = torch.arange(max(num_queries, num_keys))
    is_future = place[None, :num_keys] > place[:num_queries, None]
    swapped = _changed(module, W_key=module.W_value, W_value=module.W_key)
    bare, wide = _changed(module, out_proj=nn.Identity()), _changed(module, num_heads=1)
    found: dict[str, Tensor] = {
        "This is the causal self-attention of x: memory is not looked at.": module(x),
        "Both keys and values come from the text that looks: nothing of memory arrives.": _cross(
            module, x, x, x
        ),
        "The future is hidden, but memory is there as a whole: take the mask away.": _cross(
            module, x, memory, memory, is_future
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


def _padded_mask(is_padding: Tensor) -> Tensor:
    is_hidden = causal_mask(is_padding.shape[1]) | is_padding[:, None]
    return is_hidden & ~torch.eye(is_padding.shape[1], dtype=torch.bool)


@exercise_check(ours=_padded_mask)
def check_padded(padded_mask: Callable[[Tensor], Tensor]) -> Verdict | str:
    """Check a mask for texts that are padded on the left, with no row that hides everything.

    Args:
        padded_mask: takes is_padding, bool, (b, num_tokens), and returns a boolean mask,
            (b, num_tokens, num_tokens), True where a query may not look.

    >>> print(check_padded(lambda is_padding: causal_mask(8) | is_padding[:, None]))
    In text 1 query 0 sees no key: its row becomes NaN.
    """
    for num_tokens, paddings in ((8, (0, 2, 5)), (7, (3, 1))):
        is_padding = torch.arange(num_tokens) < torch.tensor(paddings)[:, None]
        mask = padded_mask(is_padding)
        require_mask(mask, (len(paddings), num_tokens, num_tokens))
        is_future, itself = causal_mask(num_tokens), torch.eye(num_tokens, dtype=torch.bool)
        said = "Your True shows. In the module's mask True means: hide."
        require(mask[:, is_future].any() or not mask.any(), said)
        of_queries = is_future | is_padding[:, :, None]
        said = "The padding's queries are hidden. Its keys must be, columns: is_padding[:, None]."
        require(not mask.equal(of_queries) and not mask.equal(of_queries & ~itself), said)
        for text, num_padding in enumerate(paddings):
            if (problem := _not_padded(mask[text], num_padding)) is not None:
                return f"In text {text} {problem}"
        said = "The right number of keys, but not the right ones: a word's output moved."
        require(_as_if_alone(mask, paddings), said)
    return noted("Right: no NaN, and the words of 5 texts come out as if each text were alone.")


def _not_padded(mask: Tensor, num_padding: int) -> str | None:
    """Return what is wrong with one text's mask for padding on the left, or None."""
    num_tokens = len(mask)
    for query, token in (causal_mask(num_tokens) & ~mask).nonzero().tolist():
        return f"query {query} sees token {token}: that is its future."
    seen = mask.logical_not().sum(dim=-1).tolist()
    if 0 in seen:
        return f"query {seen.index(0)} sees no key: its row becomes NaN."
    wanted = [1] * num_padding + list(range(1, num_tokens - num_padding + 1))
    if seen != wanted:
        return f"the queries see {seen} keys, not {wanted}. Are the padding's keys still seen?"
    return None


def _as_if_alone(mask: Tensor, paddings: tuple[int, ...]) -> bool:
    """Return whether each text's words come out of the module as without padding."""
    with seeded(1), torch.no_grad():
        module = nn.MultiheadAttention(4, 2, batch_first=True)
        x = torch.rand(len(paddings), mask.shape[1], 4)
        padded, _ = module(x, x, x, attn_mask=mask.repeat_interleave(2, dim=0))
        for text, num_padding in enumerate(paddings):
            words = x[text : text + 1, num_padding:]
            alone, _ = module(words, words, words, attn_mask=causal_mask(words.shape[1]))
            if not is_near(padded[text, num_padding:], alone[0]):
                return False
    return True
