"""Checks of what stands between the class and a model that speaks: rotation, sharing, a cache."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attncourse.checks.answers import first_near, is_near, noted, require, require_shape
from attncourse.checks.attempt import draw
from attncourse.checks.exercises import exercise_check
from attncourse.checks.verdict import Verdict
from attnlib.rotary import rotary_angles, rotate_halves, rotate_pairs

B, HEADS, TOKENS, HEAD_DIM, GROUPS = 2, 3, 7, 10, 5  # GROUPS: query heads for each key head


@exercise_check(ours=rotate_pairs)
def check_rotate(rotate: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Verdict | str:
    """Check a function that turns neighboring numbers of queries or keys by their angles.

    Args:
        rotate: takes x, (b, num_heads, num_tokens, head_dim), and cos and sin of the angles,
            (num_tokens, head_dim / 2), and returns the turned x.

    >>> check_rotate(lambda x, cos, sin: x)
    Nothing has turned: token 0 may stay as it is, its angle is 0, but no other.
    """
    x = draw(B, HEADS, TOKENS, HEAD_DIM)
    cos, sin = rotary_angles(torch.arange(TOKENS), HEAD_DIM)
    mine = rotate(x.clone(), cos, sin)
    right = rotate_pairs(x, cos, sin)
    require_shape(mine, tuple(x.shape))
    if is_near(mine, right):
        return noted("Right: every pair is turned, and keeps its length.")
    first, second = x[..., 0::2], x[..., 1::2]
    halves = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    usual = {
        "Nothing has turned: token 0 may stay as it is, its angle is 0, but no other.": x,
        "It turns the other way: which of the two products with sin is taken away?": (
            rotate_pairs(x, cos, -sin)
        ),
        "It turns number i with number i + head_dim / 2, as other files are stored. In this one "
        "the two numbers of a pair are neighbors, 2i and 2i + 1.": rotate_halves(x, cos, sin),
        "The pairs are turned, but not put back in their places: first all first numbers, then "
        "all second ones. They must take turns again.": halves,
        "Both products are added in both lines: one of the two is a difference.": torch.stack(
            (first * cos + second * sin, second * cos + first * sin), dim=-1
        ).flatten(-2),
        "The second number is computed from the first one when that has already turned.": (
            _one_after_the_other(x, cos, sin)
        ),
    }
    return first_near(mine, usual) or (
        "The numbers are not those of the rule: number 2i becomes x[2i] cos - x[2i + 1] sin."
    )


def _one_after_the_other(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first = x[..., 0::2] * cos - x[..., 1::2] * sin
    return torch.stack((first, x[..., 1::2] * cos + first * sin), dim=-1).flatten(-2)


def _share(x: Tensor, num_heads: int) -> Tensor:
    return x.repeat_interleave(num_heads // x.shape[1], dim=1)


@exercise_check(ours=_share)
def check_share(share: Callable[[Tensor, int], Tensor]) -> Verdict | str:
    """Check a function that gives each query head the keys of its group.

    Args:
        share: takes keys or values, (b, num_kv_heads, num_tokens, head_dim), and num_heads, and
            returns (b, num_heads, num_tokens, head_dim).

    >>> check_share(lambda x, num_heads: x)
    The shape is (2, 3, 7, 10), not (2, 15, 7, 10).
    """
    x = draw(B, HEADS, TOKENS, HEAD_DIM)
    num_heads = HEADS * GROUPS
    mine = share(x.clone(), num_heads)
    require_shape(mine, (B, num_heads, TOKENS, HEAD_DIM))
    usual = {
        "The key heads take turns: query heads 0, 1, 2 get key heads 0, 1, 2. But the first query "
        "heads all share key head 0, as in `[0, 0, 0, 1, 1, 1]`.": x.repeat(1, GROUPS, 1, 1)
    }
    if told := first_near(mine, usual):
        return told
    require(is_near(mine, _share(x, num_heads)), "Query head i must get key head i // group.")
    return noted("Right: neighboring query heads share a key head.")


Cache = dict[str, Tensor]


def _remember(cache: Cache, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    if cache:
        keys = torch.cat((cache["keys"], keys), dim=2)
        values = torch.cat((cache["values"], values), dim=2)
    cache.update(keys=keys, values=values)
    return keys, values


@exercise_check(ours=_remember)
def check_remember(
    remember: Callable[[Cache, Tensor, Tensor], tuple[Tensor, Tensor]],
) -> Verdict | str:
    """Check a function that puts new keys and values into a cache, and returns all of them.

    Args:
        remember: takes a dict, empty at first, and keys and values of new tokens, (b,
            num_kv_heads, num_new, head_dim); it returns those of all tokens so far.

    >>> check_remember(lambda cache, keys, values: (keys, values))
    After 4 tokens cache["keys"] must be one tensor, all keys: the class below reads it there.
    """
    keys, values = draw(B, HEADS, TOKENS, HEAD_DIM), draw(B, HEADS, TOKENS, HEAD_DIM) + 1
    for again in (False, True):  # two caches, one after the other
        cache: Cache = {}
        for old, new in ((0, 4), (4, 5), (5, 7)):
            new_keys = keys[:, :, old:new]
            found = remember(cache, new_keys, values[:, :, old:new])
            said = "Return two tensors: all keys and all values."
            require(isinstance(found, (tuple, list)) and len(found) == 2, said)
            all_keys, all_values = keys[:, :, :new], values[:, :, :new]
            if old and is_near(found[0], new_keys):
                return "It returns the new tokens alone: return all that the cache holds now."
            if not old and not is_near(found[0], all_keys):
                return (
                    "A second, empty cache still finds the tokens of the first: keep them in cache "
                    "alone."
                    if again
                    else "The first keys are not returned as they are."
                )
            for each in found:
                require_shape(each, tuple(all_keys.shape), ": tokens are dimension 2")
            newest_first = torch.cat((new_keys, keys[:, :, :old]), dim=2)
            require(not old or not is_near(found[0], newest_first), "The new tokens come last.")
            require(not is_near(found[1], all_keys), "Those are the keys twice.")
            require(is_near(found[0], all_keys), "The keys are not those of all tokens.")
            require(is_near(found[1], all_values), "The values are not those of all tokens.")
            for name, all_ in (("keys", all_keys), ("values", all_values)):
                kept = cache.get(name)
                if not (isinstance(kept, Tensor) and is_near(kept, all_)):
                    return (
                        f'After {new} tokens cache["{name}"] must be one tensor, all {name}: the '
                        "class below reads it there."
                    )
    return noted("Right: nothing is computed twice, and nothing forgotten.")
