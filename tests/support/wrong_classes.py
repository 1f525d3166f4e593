"""Classes as learners write them, right and wrong, and what the checks must find in them."""

# ruff: noqa: E501  # tables: one case on a line

import linecache
import math

import torch
from torch import nn

from attncourse.checks.exercises import (
    check_causal_attention,
    check_stacked_heads,
    check_weight_split,
)
from attnlib import CausalAttention

# What learners write: other private parts than ours, the same names of parameters

LAYERS = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, {}qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
"""
ONE_HEAD = f"""\
{LAYERS.format("")}        self.drop = nn.Dropout(dropout)
        mask = torch.triu(torch.ones(context_length, context_length), diagonal=1)
        self.register_buffer("mask", mask)

    def forward(self, x):
        num_tokens = x.shape[1]
        if num_tokens > len(self.mask):
            raise ValueError("too many tokens")
        keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)
        scores = queries @ keys.transpose(1, 2)
        scores = scores / keys.shape[-1] ** 0.5
        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        weights = self.drop(weights)
        context = weights @ values
        return context
"""
STACKED = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        sizes = d_in, d_out, context_length, dropout, qkv_bias
        self.heads = nn.ModuleList([CausalAttention(*sizes) for _ in range(num_heads)])

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)
"""
SPLIT = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.n, self.width = num_heads, d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        b, t, _ = x.shape
        queries = self.W_query(x).view(b, t, self.n, self.width).transpose(1, 2)
        keys = self.W_key(x).view(b, t, self.n, self.width).transpose(1, 2)
        values = self.W_value(x).view(b, t, self.n, self.width).transpose(1, 2)
        scores = queries @ keys.transpose(2, 3) * self.width**-0.5
        scores = scores + torch.full((t, t), -torch.inf, dtype=x.dtype).triu(1)
        weights = self.drop(scores.softmax(dim=-1))
        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.out_proj(context)
"""
WITHOUT_MASK = f"""\
{LAYERS.format("")}        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        rows = []
        for i in range(x.shape[1]):
            scores = queries[:, i : i + 1] @ keys[:, : i + 1].mT / math.sqrt(keys.shape[-1])
            rows.append(self.drop(scores.softmax(dim=-1)) @ values[:, : i + 1])
        return torch.cat(rows, dim=1)
"""


def write(
    text: str, head: type[nn.Module] = CausalAttention, named: str = "Mine", **outside: object
) -> type[nn.Module]:
    """Return the class Mine of a text, as if it stood in a cell.

    There head is CausalAttention, and other variables of the notebook are outside.
    """
    file = f"<cell {hash(text)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    space = {"__name__": "cell", "torch": torch, "nn": nn, "math": math}
    space |= outside | {"CausalAttention": head}
    exec(compile(text, file, "exec", dont_inherit=True), space)
    return space[named]


def several(text: str, *pairs: tuple[str, str]) -> str:
    """Return the text of a class with some pieces replaced, each of which stands in it once."""
    for right, wrong in pairs:
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    return text


def change(text: str, right: str, wrong: str) -> type[nn.Module]:
    assert right in text
    return write(text.replace(right, wrong))


# Wrong classes: what was changed, the kind that must be found, and in which line of which method

WRONG_HEADS = {
    "result not kept": (("masked_fill_", "masked_fill"), "mask.unused", "forward 8"),
    "mask of the past": (("torch.triu(torch.ones(context_length, context_length), diagonal=1)", "torch.tril(torch.ones(context_length, context_length), diagonal=-1)"), "mask.past", "__init__ 7"),
    "mask inverted": (("self.mask.bool()", "(self.mask == 0)"), "mask.inverted", "forward 8"),
    "no diagonal=1": ((", diagonal=1", ""), "mask.diagonal", "__init__ 7"),
    "-inf times 0": (("scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)", "scores = scores + self.mask[:num_tokens, :num_tokens] * -torch.inf"), "mask.nan", "forward 8"),
    "hides too much": (("        scores.masked", "        scores[:, 3:4, :1] = -torch.inf\n        scores.masked"), "mask.too-much", "forward 8"),
    "no triangle": (("        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)\n", "        scores[:, 2:3, 4:] = -torch.inf\n        scores[:, 1:2, :1] = -torch.inf\n"), "mask.leaks", "forward 9"),
    "mask not cut": (("[:num_tokens, :num_tokens]", ""), "error.mask-cut", "forward 8"),
    "transpose forgotten": (("keys.transpose(1, 2)", "keys"), "error.sizes", "forward 6"),
    "not at all": ((" / keys.shape[-1] ** 0.5", ""), "scale.none", "forward 6"),
    "no root": ((" ** 0.5", ""), "scale.no-root", "forward 7"),
    "** 1 / 2": (("** 0.5", "** 1 / 2"), "scale.half", "forward 7"),
    "times": (("scores / keys", "scores * keys"), "scale.times", "forward 7"),
    "another length": (("return context", "return context + 0.125 * (num_tokens == len(self.mask))"), "context.changed", "forward 12"),
    "over the queries": (("dim=-1", "dim=1"), "softmax.axis", "forward 9"),
    "no softmax": (("torch.softmax(scores, dim=-1)", "scores"), "softmax.none", "forward 11"),
    "0 after softmax": (("        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)\n        weights = torch.softmax(scores, dim=-1)", "        weights = torch.softmax(scores, dim=-1)\n        weights = weights * (1 - self.mask[:num_tokens, :num_tokens])"), "mask.after-softmax", "forward 9"),
    "weights scaled": (("weights = self.drop(weights)", "weights = self.drop(weights) / (1 + torch.arange(num_tokens)[:, None])"), "weights.changed", "forward 10"),
    "values squared": (("weights @ values", "weights @ values**2"), "parts.changed", "forward 11"),
    "weights @ x": (("weights @ values", "weights @ x"), "values.other", "forward 11"),
    "weights transposed": (("weights @ values", "weights.mT @ values"), "weights.transposed", "forward 11"),
    "Linear the wrong way": (("self.W_query = nn.Linear(d_in, d_out", "self.W_query = nn.Linear(d_out, d_in"), "parameters.turned", "__init__ 3"),
    "a bias always": ((", bias=qkv_bias", ""), "parameters.bias-always", "__init__ 3"),
    "a bias by default": (("qkv_bias=False", "qkv_bias=True"), "parameters.bias-always", "__init__ 3"),
    "a bias never": (("bias=qkv_bias", "bias=False"), "parameters.bias-never", "__init__ 3"),
    "another name": (("W_value", "W_v"), "parameters.missing", "__init__ 5"),
    "a layer too many": (("        self.drop =", "        self.out_proj = nn.Linear(d_out, d_out)\n        self.drop ="), "parameters.extra", "__init__ 6"),
    "no super": (("        super().__init__()\n", ""), "error.super", "__init__ 2"),
    "another argument": (("d_out, context_length, dropout, qkv_bias", "d_model, context_length, dropout, qkv_bias"), "error.arguments", "__init__ 1"),
    "none": (("        weights = self.drop(weights)\n", ""), "dropout.none", "forward 9"),
    "twice": (("return context", "return self.drop(context)"), "dropout.twice", "forward 12"),
    "on the result": (("        weights = self.drop(weights)\n        context = weights @ values", "        context = self.drop(weights @ values)"), "dropout.values", "forward 10"),
    "two results": (("return context", "return context, weights"), "result.type", "forward 12"),
    "mean over the tokens": (("return context", "return context.mean(dim=1)"), "result.shape", "forward 12"),
    "a name mistyped": (("weights @ values", "weights @ value"), "error", "forward 11"),
    "detached": (("weights @ values", "weights.detach() @ values"), "gradient", "forward 11"),
    "x changed": (("        num_tokens = x.shape[1]", "        num_tokens = x.shape[1]\n        x *= 1.0"), "x.in-place", "forward 3"),
    "depends on the batch": (("return context", "return context * (1 if len(x) == 1 else (2.0 if num_tokens > 5 else 1))"), "multiplied", "forward 12"),
}  # fmt: skip
WRONG_STACKS = {
    "stacked": (("torch.cat", "torch.stack"), "merge.axis", "forward 2"),
    "added": (("torch.cat([head(x) for head in self.heads], dim=-1)", "sum(head(x) for head in self.heads)"), "merge.added", "forward 2"),
    "alternating": (("torch.cat([head(x) for head in self.heads], dim=-1)", "torch.stack([head(x) for head in self.heads], dim=-1).flatten(2)"), "merge.alternating", "forward 2"),
    "reversed": (("in self.heads]", "in reversed(self.heads)]"), "merge.order", "forward 2"),
    "the first head each time": (("head(x) for head", "self.heads[0](x) for head"), "merge.repeated", "forward 2"),
    "one head repeated": (("[CausalAttention(*sizes) for _ in range(num_heads)]", "[CausalAttention(*sizes)] * num_heads"), "parameters.repeated-head", "__init__ 4"),
    "a plain list": (("nn.ModuleList(", "list("), "parameters.plain-list", "__init__ 4"),
    "too few heads": (("range(num_heads)", "range(2)"), "heads.count", "__init__ 4"),
    "d_out shared out": (("sizes = d_in, d_out,", "sizes = d_in, d_out // num_heads,"), "heads.argument", "__init__ 4"),
    "dropout not passed on": (("context_length, dropout, qkv_bias\n", "context_length, 0.0, qkv_bias\n"), "heads.argument", "__init__ 4"),
    "a loop that breaks the values": (("head(x) for head in self.heads", "head(x) * (1 if len(self.heads) == 1 or x.shape[1] == 1 else h) for h, head in enumerate(self.heads)"), "context.changed", "forward 2"),
}  # fmt: skip
WRONG_SPLITS = {
    "only the values split by view": (("self.W_value(x).view(b, t, self.n, self.width).transpose(1, 2)", "self.W_value(x).view(b, self.n, t, self.width)"), "split.mixed", "forward 5"),
    "merged in another order": ((".transpose(1, 2).flatten(2)", ".permute(0, 2, 3, 1).flatten(2)"), "merge.alternating", "forward 9"),
    "heads rolled": ((".transpose(1, 2).flatten(2)", ".transpose(1, 2).roll(1, dims=2).flatten(2)"), "order", "forward 9"),
    "no transpose": (("view(b, t, self.n, self.width).transpose(1, 2)", "view(b, t, self.n, self.width)"), "split.no-transpose", "forward 3"),
    "not merged": ((".transpose(1, 2).flatten(2)", ".transpose(1, 2)"), "error.widths", "forward 10"),
    "neither merged nor projected": ((".transpose(1, 2).flatten(2)\n        return self.out_proj(context)", ".transpose(1, 2)\n        return context"), "merge.axis", "forward 9"),
    "head_dim is d_out": (("d_out // num_heads", "d_out"), "error.view-asked", "__init__ 3"),
    "num_heads of the page": (("view(b, t, self.n, self.width)", "view(b, t, 2, self.width)"), "error.view-asked", "forward 3"),
    "head_dim is a float": (("d_out // num_heads", "d_out / num_heads"), "error.float-size", "__init__ 3"),
    "out_proj thrown away": (("return self.out_proj(context)", "self.out_proj(context)\n        return context"), "out_proj.missing", "forward 11"),
    "out_proj twice": (("self.out_proj(context)", "self.out_proj(self.out_proj(context))"), "out_proj.twice", "forward 10"),
    "out_proj without a bias": (("nn.Linear(d_out, d_out)", "nn.Linear(d_out, d_out, bias=False)"), "parameters.missing", "__init__ 7"),
    "scale by d_out": (("self.width**-0.5", "(self.n * self.width) ** -0.5"), "scale.width", "forward 6"),
    "d_out for each head": (("nn.Linear(d_in, d_out, bias", "nn.Linear(d_in, d_out * num_heads, bias"), "parameters.shape", "__init__ 4"),
    "one head at a quarter": (("self.drop(scores.softmax(dim=-1))", "scores.softmax(dim=-1) * torch.tensor([1.0, 0.25, 1.0])[: self.n, None, None]"), "weights.changed", "forward 8"),
    "softmax over the heads": (("softmax(dim=-1)", "softmax(dim=1)"), "softmax.axis", "forward 8"),
    "NaN in the values": (("weights @ values", "weights @ (values / 0 * 0)"), "parts.changed", "forward 9"),
}  # fmt: skip
CASES = [
    (check, text, what, *case)
    for check, text, wrong in (
        (check_causal_attention, ONE_HEAD, WRONG_HEADS),
        (check_stacked_heads, STACKED, WRONG_STACKS),
        (check_weight_split, SPLIT, WRONG_SPLITS),
    )
    for what, case in wrong.items()
]


# attncourse.variants.mistakes: which module check catches which of them, at dropout 0

CAUGHT = {  # by its shape, causality, rows, equality
    "split without transpose": (False, True, False, True),
    "merge without transpose": (False, True, False, True),
    "both without transpose": (False, False, False, True),
    "mask of the past": (False, True, False, True),
    "mask one too late": (False, True, False, True),
    "mask with the diagonal": (False, True, True, True),
    "mask inverted": (False, True, True, True),
    "mask thrown away": (False, True, False, True),
    "minus 1e4": (False, False, False, False),
    "minus 1e9": (False, False, False, False),
    "no scale": (False, False, False, True),
    "scale by d_out": (False, False, False, True),
    "scale by d_in": (False, False, False, True),
    "softmax over queries": (False, True, True, True),
    "dropout before softmax": (False, False, False, False),
    "dropout in eval": (False, False, False, False),
    "keys and values swapped": (False, False, True, True),
    "view without contiguous": (True, True, True, True),
    "heads in reverse": (False, False, False, True),
    "no output projection": (False, False, False, True),
}
