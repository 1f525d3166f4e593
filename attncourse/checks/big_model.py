"""Checks of what a learner writes about a large model: cut its matrices, plan its memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attncourse.checks.answers import first_near, is_near, noted, require, require_shape
from attncourse.checks.attempt import draw
from attncourse.checks.exercises import exercise_check
from attncourse.checks.verdict import Verdict
from attncourse.examples import seeded
from attnlib.functional import attention, causal_mask, merge_heads, split_heads
from attnlib.modules import MultiHeadAttention

WIDTH, NUM_HEADS, HEAD_DIM = 15, 3, 5
THIRDS = ("W_query", "W_key", "W_value")


def _cut(c_attn: Tensor, num_heads: int, head: int) -> list[Tensor]:
    own = slice(head * len(c_attn) // num_heads, (head + 1) * len(c_attn) // num_heads)
    return [third[:, own].T for third in c_attn.chunk(3, dim=1)]


@exercise_check(ours=_cut)
def check_cut(cut: Callable[[Tensor, int, int], Sequence[Tensor]]) -> Verdict | str:
    """Check a function that cuts one head out of GPT-2's c_attn.

    Args:
        cut: takes c_attn, (width, 3 * width), num_heads and a head, counted from 0. It returns the
            head's rows of W_query.weight, W_key.weight and W_value.weight, (head_dim, width) each.

    >>> check_cut(lambda c_attn, num_heads, head: c_attn.chunk(3, dim=1))
    The first of the three is (15, 15), not (5, 15): head_dim is width // num_heads.
    """
    c_attn = draw(WIDTH, 3 * WIDTH)
    for head in (1, 2, 0):
        mine = cut(c_attn.clone(), NUM_HEADS, head)
        said = "Return three matrices: of the queries, of the keys and of the values."
        require(isinstance(mine, (tuple, list, Tensor)) and len(mine) == 3, said)
        by_head = c_attn.mT[head * 3 * HEAD_DIM :][: 3 * HEAD_DIM].chunk(3)
        require(
            not all(found.equal(part) for found, part in zip(mine, by_head, strict=True)),
            "The three are cut as if each head had its parts side by side. In c_attn come all "
            "queries, then all keys, then all values.",
        )
        for place, found in enumerate(mine):
            if problem := _not_the_rows(found, c_attn, place, head):
                return f"The {('first', 'second', 'third')[place]} of the three {problem}"
    return noted("Right: the queries, keys and values of each of three heads.")


def _not_the_rows(found: Tensor, c_attn: Tensor, place: int, head: int) -> str | None:
    """Return what one of the three matrices is instead of the rows of a head, or None."""
    own = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
    thirds = [third.mT for third in c_attn.chunk(3, dim=1)]
    if found.equal(thirds[place][own]):
        return None
    shape, wanted = tuple(found.shape), (HEAD_DIM, WIDTH)
    usual = {
        f"is {shape}: after the transpose, what a head makes is rows. Cut first, or cut the "
        "rows.": thirds[place][:, own],
        "takes every third column. A head's columns are side by side.": (
            thirds[place][head::NUM_HEADS]
        ),
        "is cut from the rows of c_attn: those are the inputs. What a head makes is columns.": (
            c_attn.chunk(3, dim=1)[place][own]
        ),
    }
    usual |= {
        f"is {other} of head {h}, not {THIRDS[place]} of head {head}.": rows
        for other, third in zip(THIRDS, thirds, strict=True)
        for h, rows in enumerate(third.chunk(NUM_HEADS))
    }
    of_shape: dict[tuple[int, ...], str] = {
        (WIDTH, HEAD_DIM): "as the file has it. nn.Linear computes x @ weight.T: turn it",
        (HEAD_DIM, HEAD_DIM): "cut along both sides: the three are side by side, along dim=1",
        wanted: f"not {THIRDS[place]} of head {head}, nor of another head",
    }
    other = of_shape.get(shape, f"not {wanted}: head_dim is width // num_heads")
    return first_near(found, usual) or f"is {shape}, {other}."


def _texts_that_fit(
    memory: int, num_parameters: int, num_layers: int, width: int, num_tokens: int, size: int
) -> int:
    one = 2 * num_layers * width * num_tokens * size
    return max((memory - num_parameters * size) // one, 0)


@exercise_check(ours=_texts_that_fit)
def check_texts_that_fit(texts_that_fit: Callable[..., int]) -> Verdict | str:
    """Check a function that plans the memory of a model that writes with a cache.

    Args:
        texts_that_fit: takes memory, in bytes, num_parameters, num_layers, width, num_tokens and
            size, the bytes of a number; returns how many texts have room beside the parameters.

    >>> check_texts_that_fit(lambda *sizes: 0)
    For GPT-2 XL in 24 GB the answer is 28 texts, not 0.
    """
    cases = {  # memory, parameters, layers, width, tokens, bytes of a number
        "GPT-2 XL in 24 GB": (24 * 10**9, 1_557_611_200, 48, 1600, 1024, 4),
        "the small GPT-2 in 3 GB, in half precision": (3 * 10**9, 124_439_808, 12, 768, 1024, 2),
        "GPT-2 XL in 5 GB, less than its parameters,": (
            5 * 10**9, 1_557_611_200, 48, 1600, 1024, 4,
        ),
    }  # fmt: skip
    for name, case in cases.items():
        memory, num_parameters, num_layers, width, num_tokens, size = case
        mine, right = texts_that_fit(*case), _texts_that_fit(*case)
        one = 2 * num_layers * width * num_tokens * size
        free = memory - num_parameters * size
        if mine == right:
            continue
        require(mine >= 0, f"For {name} it returns {mine}: the answer cannot be below 0.")
        usual = {
            free // (one // 2): "Both are kept, keys and values.",
            memory // one: "The parameters need memory too.",
            free // (one // num_layers): "Every layer has a cache of its own.",
            free // (one // num_tokens): "That many tokens fit; a text has num_tokens of them.",
            (memory - num_parameters) // one: "A parameter has its bytes too.",
            free // (one // size): "A number in the cache has its bytes too.",
            memory // (one + num_parameters * size): "All texts share the parameters.",
            right + 1: "There is no room for a part of a text: round down.",
            free / one: "A part of a text cannot be written: round down.",
        }
        answer = f"For {name} the answer is {right} texts, not {mine:,.6g}."
        return f"{answer} {usual[mine]}" if mine in usual else answer
    return noted(
        "Right: 28 texts of GPT-2 XL, 72 of the small one in half precision, and none in 5 GB."
    )


def _device_part(module: MultiHeadAttention, x: Tensor, device: int, num_devices: int) -> Tensor:
    own = torch.arange(module.d_out).chunk(num_devices)[device]
    queries, keys, values = (
        split_heads(x @ W.weight[own].T + W.bias[own], module.num_heads // num_devices)
        for W in (module.W_query, module.W_key, module.W_value)
    )
    context_vec, _ = attention(queries, keys, values, causal_mask(x.shape[1]))
    return merge_heads(context_vec) @ module.out_proj.weight[:, own].T


@exercise_check(ours=_device_part)
def check_device_part(device_part: Callable[..., Tensor]) -> Verdict | str:
    """Check a function that computes what one of several devices adds to the output.

    Args:
        device_part: takes a MultiHeadAttention whose projections have biases, x, a device, counted
            from 0, and num_devices; returns the device's part, (b, num_tokens, d_out). All parts
            and out_proj.bias, once, add up to what the module returns.

    >>> check_device_part(lambda module, x, device, num_devices: module(x))
    Each part is the whole output already: a device computes its own heads alone.
    """
    with seeded():
        module = MultiHeadAttention(3, 32, 7, dropout=0.0, num_heads=4, qkv_bias=True)
    x = draw(2, 7, 3)
    with torch.no_grad():
        right, bias = module(x), module.out_proj.bias
        for n in (4, 2, 1):
            parts = [device_part(module, x, device, n) for device in range(n)]
            require_shape(parts[0], (2, 7, 32), ", the full shape")
            total = torch.stack(parts).sum(dim=0)
            if is_near(total + bias, right):
                continue
            of_parts = {
                "Each part is the whole output already: a device computes its own heads alone.": (
                    n * right if n > 1 and is_near(parts[0], right) else total + 1
                ),
                "The parts add up to module(x), out_proj.bias included: leave it out. It comes "
                "after the sum.": right,
                f"With {n} devices out_proj.bias is added {n} times: it comes after the sum.": (
                    right + (n - 1) * bias
                ),
                "All devices make the same part: each has rows of its own.": n * parts[-1],
            }
            slips = {said: _part(module, x, n, slip) for slip, said in SLIPS.items()}
            off = (total + bias - right).abs().max()
            why = first_near(parts[0], slips) or (
                "Has each device whole heads, of the right width, and the mask?"
            )
            return first_near(total, of_parts) or (
                f"With {n} devices the parts do not add up: a number is off by {off:.2g}. {why}"
            )
    return noted("Right, with 4, 2 and 1 devices.")


SLIPS = {
    "no bias": "W_query, W_key and W_value have biases: a device needs its own part of each.",
    "no mask": "Each device needs the mask: causal_mask(num_tokens).",
    "one head": "A device with several heads must split its columns into them.",
    "all heads": "A device has num_heads // num_devices heads, not all of them.",
    "rows": "Of out_proj.weight a device needs columns, [:, own]: they meet what its heads made.",
    "two rows": "On the page a head was 2 wide; here a device has d_out // num_devices rows.",
}


def _part(module: MultiHeadAttention, x: Tensor, num_devices: int, slip: str) -> Tensor:
    own = slice(0, 2 if slip == "two rows" else module.d_out // num_devices)
    num_heads = {"one head": 1, "two rows": 1, "all heads": module.num_heads}.get(
        slip, module.num_heads // num_devices
    )
    projections = (module.W_query, module.W_key, module.W_value)
    biases = 0.0 if slip == "no bias" else 1.0
    queries, keys, values = (
        split_heads(x @ W.weight[own].T + biases * W.bias[own], num_heads) for W in projections
    )
    mask = None if slip == "no mask" else causal_mask(x.shape[1])
    context_vec = merge_heads(attention(queries, keys, values, mask)[0])
    out = module.out_proj.weight
    return context_vec @ (out[own] if slip == "rows" else out[:, own].T)
