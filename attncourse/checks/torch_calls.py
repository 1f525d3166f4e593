"""Checks of what a learner writes around PyTorch's attention: its masks, and two texts at once."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncourse.checks.attempt import draw
from attncourse.checks.exercises import exercise_check
from attncourse.compare import at_most
from attncourse.examples import seeded
from attnlib.functional import attention, causal_mask, merge_heads, split_heads
from attnlib.modules import MultiHeadAttention

NEAR = 1e-5  # as close as this, an answer is right, or one of the usual mistakes
MODULE, SDPA = "The module's", "SDPA's"  # whose mask it is, as a sentence begins


@exercise_check
def check_both_masks(both_masks: Callable[[int], tuple[Tensor, Tensor]]) -> str:
    """Check a causal mask for nn.MultiheadAttention, and one for scaled_dot_product_attention.

    Args:
        both_masks: takes num_tokens and returns two masks, (num_tokens, num_tokens), boolean or
            of numbers that are added to the scores: for the module, and for SDPA.

    Returns:
        A sentence.

    >>> print(check_both_masks(lambda n: (causal_mask(n), causal_mask(n))))
    SDPA's mask shows each token its future and nothing else: there True means may look.
    """
    for num_tokens in (7, 5):
        masks = both_masks(num_tokens)
        if not isinstance(masks, (tuple, list)) or len(masks) != 2:
            return "It must return two masks, the module's and SDPA's, in this order."
        for owner, mask in zip((MODULE, SDPA), masks, strict=True):
            if tuple(mask.shape) != (num_tokens, num_tokens):
                return f"{owner} mask is {tuple(mask.shape)}, not {(num_tokens, num_tokens)}."
            if mask.dtype != torch.bool and not mask.is_floating_point():
                return f"{owner} mask is {mask.dtype}: make it boolean, or of floats."
        for (owner, weights), mask in zip(_looks(num_tokens, *masks).items(), masks, strict=True):
            problem = _not_causal(owner, weights, mask.is_floating_point())
            if problem:
                return problem
    numbers = [mask.is_floating_point() for mask in masks]
    if all(numbers):
        return "Right, for both: a mask of numbers is added to the scores, and means one thing."
    return "Right: the module's True hides, SDPA's True shows."


def _looks(num_tokens: int, for_module: Tensor, for_function: Tensor) -> dict[str, Tensor]:
    """Return who looks where with each mask; a query that sees nothing has NaN or zeros."""
    with seeded(1):
        module = nn.MultiheadAttention(6, 1, bias=False, batch_first=True)
        x = torch.randn(1, num_tokens, 6)
    with torch.no_grad():
        _, weights = module(x, x, x, attn_mask=for_module)
        eye = torch.eye(num_tokens)[None]
        if for_function.is_floating_point():
            for_function = for_function.to(x.dtype)
        shown = F.scaled_dot_product_attention(x, x, eye, attn_mask=for_function)
    return {MODULE: weights[0], SDPA: shown[0]}


def _not_causal(owner: str, weights: Tensor, added: bool) -> str | None:
    """Return what is wrong with weights that should be causal, or None."""
    num_tokens = len(weights)
    seen = weights.nan_to_num(0.0) > 0
    is_future = causal_mask(num_tokens)
    means = "hide" if owner == MODULE else "may look"
    with_mask = f"With {'the module' if owner == MODULE else 'SDPA'}'s mask"
    if seen.equal(~is_future):
        return None
    if seen.equal(is_future):
        return (
            f"{owner} mask shows each token its future and nothing else: there True means {means}."
        )
    if seen.equal(~is_future & ~torch.eye(num_tokens, dtype=torch.bool)):
        return f"{with_mask} no token sees itself, and token 0 sees nothing at all."
    if seen.equal(~is_future.mT):
        return f"{with_mask} tokens look ahead: rows are queries, columns are keys."
    if seen.all():
        why = " Its numbers are added to the scores: 0 shows, -inf hides." if added else ""
        return f"{owner} mask hides nothing.{why}"
    query = int((seen != ~is_future).any(dim=-1).nonzero()[0])
    columns = seen[query].nonzero().flatten().tolist()
    return f"{with_mask} token {query} sees {columns}, not {list(range(query + 1))}."


@exercise_check
def check_cross_attention(
    cross_attention: Callable[[MultiHeadAttention, Tensor, Tensor], Tensor],
) -> str:
    """Check attention from one text to another, written with a causal module's own layers.

    Args:
        cross_attention: takes a MultiHeadAttention, the text that looks, (b, num_queries, d_in),
            and the text that is looked at, (b, num_keys, d_in); returns (b, num_queries, d_out).

    Returns:
        A sentence.

    >>> print(check_cross_attention(lambda module, x, memory: module(x)))
    This is the causal self-attention of x: memory is not looked at.
    """
    for lengths in ((4, 4), (3, 5), (5, 3)):  # at 4 and 4 every usual mistake has its shape
        with seeded(1):
            module = MultiHeadAttention(7, 6, 11, 0.0, num_heads=3, qkv_bias=True)
        x, memory = draw(2, lengths[0], 7, seed=2), draw(2, lengths[1], 7, seed=3)
        with torch.no_grad():
            mine = cross_attention(module, x, memory)
            if isinstance(mine, tuple):
                return "It returns a tuple. attention returns two things: go on with the first."
            wanted = (2, lengths[0], 6)
            if tuple(mine.shape) != wanted:
                return (
                    f"The shape is {tuple(mine.shape)}, not {wanted}: "
                    "one row for each token that looks."
                )
            right = _cross(module, x, memory, memory)
            if torch.allclose(mine, right, rtol=0, atol=NEAR):
                continue
            for sentence, wrong in _usual_crossings(module, x, memory).items():
                if mine.shape == wrong.shape and torch.allclose(mine, wrong, rtol=0, atol=NEAR):
                    return sentence
        difference = at_most((mine - right).abs().max().item(), floor=1e-6)
        return f"Right shape, wrong numbers: off by up to {difference:.0e}."
    return "Right: for 4 tokens that look at 4, for 3 that look at 5, and for 5 that look at 3."


def _cross(
    module: MultiHeadAttention,
    x: Tensor,
    keys_from: Tensor,
    values_from: Tensor,
    is_hidden: Tensor | None = None,
    out: bool = True,
    merge: Callable[[Tensor], Tensor] = merge_heads,
) -> Tensor:
    """Return what x sees in a text; keys and values may come from different ones."""
    queries = split_heads(module.W_query(x), module.num_heads)
    keys = split_heads(module.W_key(keys_from), module.num_heads)
    values = split_heads(module.W_value(values_from), module.num_heads)
    context_vec = merge(attention(queries, keys, values, is_hidden)[0])
    result: Tensor = module.out_proj(context_vec) if out else context_vec
    return result


def _swapped(module: MultiHeadAttention) -> MultiHeadAttention:
    """Return the module with W_key in the place of W_value, and the other way round."""
    swapped = deepcopy(module)
    swapped.W_key, swapped.W_value = swapped.W_value, swapped.W_key
    return swapped


def _usual_crossings(module: MultiHeadAttention, x: Tensor, memory: Tensor) -> dict[str, Tensor]:
    """Return what the usual mistakes compute, by what to say of them."""

    def without_transpose(heads: Tensor) -> Tensor:
        b, num_heads, num_tokens, head_dim = heads.shape
        return heads.reshape(b, num_tokens, num_heads * head_dim)

    num_queries, num_keys = x.shape[1], memory.shape[1]
    place = torch.arange(max(num_queries, num_keys))
    is_future = place[None, :num_keys] > place[:num_queries, None]
    one = module.W_query(x)
    alone = attention(one, module.W_key(memory), module.W_value(memory))[0]
    found: dict[str, Tensor] = {
        "This is the causal self-attention of x: memory is not looked at.": module(x),
        "Both keys and values come from the text that looks: nothing of memory arrives.": _cross(
            module, x, x, x
        ),
        "The future is hidden, but memory is there as a whole: take the mask away.": _cross(
            module, x, memory, memory, is_future
        ),
        "out_proj is missing.": _cross(module, x, memory, memory, out=False),
        "The heads are merged without the transpose: use merge_heads.": _cross(
            module, x, memory, memory, merge=without_transpose
        ),
        "There is one wide head: split queries, keys and values into heads.": module.out_proj(
            alone
        ),
        "Keys and values have each other's matrix: W_key makes keys, W_value values.": (
            _cross(_swapped(module), x, memory, memory)
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


@exercise_check
def check_new_queries(new_queries_mask: Callable[[int, int], Tensor]) -> str:
    """Check a causal mask for the last tokens of a text, as a cache needs it.

    Args:
        new_queries_mask: takes num_new and num_keys, and returns a boolean mask for
            scaled_dot_product_attention, (num_new, num_keys), True where a query may look. The
            queries are the last num_new of num_keys tokens.

    Returns:
        A sentence.

    >>> print(check_new_queries(lambda num_new, num_keys: ~causal_mask(num_keys)[:num_new]))
    The first new token sees keys [0]: this is the upper left. It is token 4, and may see 0 to 4.
    """
    for num_new, num_keys in ((3, 7), (1, 6), (5, 5)):
        mask = new_queries_mask(num_new, num_keys)
        if isinstance(mask, Tensor) and type(mask) is not Tensor:  # as of causal_lower_right
            mask = _seen_with(mask, num_new, num_keys)
        if mask.dtype != torch.bool or tuple(mask.shape) != (num_new, num_keys):
            return (
                f"It is {mask.dtype}, {tuple(mask.shape)}; "
                f"it must be torch.bool, {(num_new, num_keys)}."
            )
        right = torch.ones(num_new, num_keys, dtype=torch.bool).tril(num_keys - num_new)
        if mask.equal(right):
            continue
        if mask.equal(~right):
            return "Your True hides. In SDPA's mask True means: may look."
        first = num_keys - num_new
        seen = mask[0].nonzero().flatten().tolist()
        if mask.equal(torch.ones_like(mask).tril()):
            return (
                f"The first new token sees keys {seen}: this is the upper left. "
                f"It is token {first}, and may see 0 to {first}."
            )
        row = int((mask != right).any(dim=-1).nonzero()[0])
        seen = mask[row].nonzero().flatten().tolist()
        return (
            f"New token {row} of {num_new} is token {first + row} of {num_keys}: it sees {seen}, "
            f"and may see 0 to {first + row}."
        )
    return "Right: for 3 new tokens of 7, for 1 of 6, and for a whole text of 5."


def _seen_with(bias: Tensor, num_new: int, num_keys: int) -> Tensor:
    """Return which keys queries see with a mask that only scaled_dot_product_attention can read."""
    queries, keys = torch.zeros(1, 1, num_new, num_keys), torch.zeros(1, 1, num_keys, num_keys)
    eye = torch.eye(num_keys)[None, None]
    with torch.no_grad():
        return F.scaled_dot_product_attention(queries, keys, eye, attn_mask=bias)[0, 0] > 0


@exercise_check
def check_padded(padded_mask: Callable[[Tensor], Tensor]) -> str:
    """Check a mask for texts that are padded on the left, with no row that hides everything.

    Args:
        padded_mask: takes is_padding, bool, (b, num_tokens), and returns a boolean mask,
            (b, num_tokens, num_tokens), True where a query may not look.

    Returns:
        A sentence.

    >>> print(check_padded(lambda is_padding: causal_mask(8) | is_padding[:, None]))
    In text 1 query 0 sees no key: its row becomes NaN.
    """
    for num_tokens, paddings in ((8, (0, 2, 5)), (7, (3, 1))):
        mask = padded_mask(torch.arange(num_tokens) < torch.tensor(paddings)[:, None])
        shape = (len(paddings), num_tokens, num_tokens)
        if mask.dtype != torch.bool or tuple(mask.shape) != shape:
            return f"It is {mask.dtype}, {tuple(mask.shape)}; it must be torch.bool, {shape}."
        is_future = causal_mask(num_tokens)
        if mask.any() and not mask[:, is_future].any():
            return "Your True shows. In the module's mask True means: hide."
        for text, num_padding in enumerate(paddings):
            problem = _not_padded(mask[text], num_padding)
            if problem:
                return f"In text {text} {problem}"
        if not _as_if_alone(mask, paddings):
            return "The right number of keys, but not the right ones: a word's output moved."
    return "Right: no NaN, and the words of 5 texts come out as if each text were alone."


def _not_padded(mask: Tensor, num_padding: int) -> str | None:
    """Return what is wrong with one text's mask for padding on the left, or None."""
    num_tokens = len(mask)
    ahead = (causal_mask(num_tokens) & ~mask).nonzero().tolist()
    if ahead:
        return f"query {ahead[0][0]} sees token {ahead[0][1]}: that is its future."
    seen = mask.logical_not().sum(dim=-1).tolist()
    if 0 in seen:
        return f"query {seen.index(0)} sees no key: its row becomes NaN."
    wanted = [1] * num_padding + list(range(1, num_tokens - num_padding + 1))
    if seen != wanted:
        return (
            f"the queries see {seen} keys, not {wanted}. "
            "Is padding still seen? It hides columns: is_padding[:, None]."
        )
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
            if not torch.allclose(padded[text, num_padding:], alone[0], rtol=0, atol=NEAR):
                return False
    return True
