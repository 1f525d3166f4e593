"""Classes as learners write them, right and wrong, and what the checks must find in them."""

from __future__ import annotations

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

ONE_HEAD = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.drop = nn.Dropout(dropout)
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
SDPA = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.n, self.p = num_heads, dropout
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)

    def cut(self, part):
        return part.unflatten(-1, (self.n, -1)).transpose(1, 2)

    def forward(self, x):
        queries, keys, values = map(self.cut, (self.W_query(x), self.W_key(x), self.W_value(x)))
        p = self.p if self.training else 0.0
        context = nn.functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, dropout_p=p
        )
        return self.out_proj(context.transpose(1, 2).flatten(2))
"""
WITHOUT_MASK = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        rows = []
        for i in range(x.shape[1]):
            scores = queries[:, i : i + 1] @ keys[:, : i + 1].mT / math.sqrt(keys.shape[-1])
            rows.append(self.drop(scores.softmax(dim=-1)) @ values[:, : i + 1])
        return torch.cat(rows, dim=1)
"""


def write(text: str, head: type[nn.Module] = CausalAttention, **outside: object) -> type[nn.Module]:
    """Return the class Mine of a text, as if it stood in a cell.

    There head is CausalAttention, and other variables of the notebook are outside.
    """
    file = f"<cell {hash(text)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    space = {"__name__": "cell", "torch": torch, "nn": nn, "math": math}
    space |= outside | {"CausalAttention": head}
    exec(compile(text, file, "exec", dont_inherit=True), space)
    return space["Mine"]


def several(text: str, *pairs: tuple[str, str]) -> str:
    """Return the text of a class with some pieces replaced, each of which stands in it once."""
    for right, wrong in pairs:
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    return text


def change(text: str, right: str, wrong: str) -> type[nn.Module]:
    assert right in text
    return write(text.replace(right, wrong))


# Wrong classes: what was changed, and what the sentence says

LEAK = "Outputs before the changed token moved: your mask lets token 1 see token 2. "
WRONG_HEADS = {
    # the mask
    "fill with 0": (
        "-torch.inf",
        "0.0",
        "The scores that the mask hides are set to 0, and softmax still gives them "
        "weight: they must be -torch.inf.",
    ),
    "result not kept": (
        "masked_fill_",
        "masked_fill",
        "The future is hidden here, but the result is not kept: masked_fill returns a new"
        " tensor, masked_fill_ changes ",
    ),
    "mask of the past": (
        "torch.triu(torch.ones(context_length, context_length), diagonal=1)",
        "torch.tril(torch.ones(context_length, context_length), diagonal=-1)",
        "Outputs before the changed token moved: your mask lets token 0 see token 1. Is "
        "the triangle the upper one, ",
    ),
    "mask inverted": (
        "self.mask.bool()",
        "(self.mask == 0)",
        "Each token sees only what comes after it: the mask is the wrong way round. ",
    ),
    "no diagonal=1": (
        ", diagonal=1",
        "",
        "Your mask hides each token from itself too, and token 0 has nothing else to see:"
        " its result is NaN. Leave the ",
    ),
    "no diagonal=1, a number for -inf": (
        ', diagonal=1)\n        self.register_buffer("mask", mask)',
        ')\n        self.register_buffer("mask", mask * 2)',
        "Your mask hides each token from itself too, ",
    ),
    "-inf times 0": (
        "scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)",
        "scores = scores + self.mask[:num_tokens, :num_tokens] * -torch.inf",
        "NaN arises here. Is a mask multiplied by -inf? 0 * inf is NaN: use "
        "masked_fill(is_future, -torch.inf).",
    ),
    "hides too much": (
        "        scores.masked",
        "        scores[:, 3:4, :1] = -torch.inf\n        scores.masked",
        "Token 3 does not see token 0, which is not in its future: your mask hides too "
        "much. It is True above the ",
    ),
    "no triangle": (
        "        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)\n",
        "        scores[:, 2:3, 4:] = -torch.inf\n        scores[:, 1:2, :1] = -torch.inf\n",
        "The mask lets token 0 see token 1, which comes later. It must hide all that "
        "comes later: it is True above the ",
    ),
    "mask not cut": (
        "[:num_tokens, :num_tokens]",
        "",
        "Stopped in Mine.forward, line 8: scores.masked_fill_(self.mask.bool(), -torch.inf) | "
        "RuntimeError: The size of tensor a (5) must match the size of tensor b (13) at "
        "non-singleton dimension 2. | Shapes there: scores (b, num_tokens, num_tokens) = "
        "(2, 5, 5), self.mask (context_length, context_length) = (13, 13). Cut the mask to the "
        "tokens that there are: [:num_tokens, :num_tokens].",
    ),
    # the scores
    "transpose forgotten": (
        "keys.transpose(1, 2)",
        "keys",
        "Stopped in Mine.forward, line 6: scores = queries @ keys | RuntimeError: Expected size "
        "for first two dimensions of batch2 tensor to be: [2, 7] but got: [2, 5]. | Shapes there: "
        "queries (b, num_tokens, d_out) = (2, 5, 7), keys (b, num_tokens, d_out) = (2, 5, 7). Two "
        "axes meet that do not fit: is a transpose missing, or does one swap the wrong axes?",
    ),
    "keys on the left": (
        "queries @ keys.transpose(1, 2)",
        "keys @ queries.transpose(1, 2)",
        "The scores are keys times queries: row i of them must belong to query i. They are "
        "queries @ keys.transpose(-2, -1).",
    ),
    "keys from W_query": (
        "self.W_key(x), self.W_query(x)",
        "self.W_query(x), self.W_query(x)",
        "Here keys holds the queries: it is made by W_query.",
    ),
    "queries from W_key": (
        "self.W_key(x), self.W_query(x)",
        "self.W_key(x), self.W_key(x)",
        "Here queries holds the keys: it is made by W_key.",
    ),
    "scores are something else": (
        "queries @ keys.transpose(1, 2)",
        "queries @ keys.transpose(1, 2) + (queries @ keys.transpose(1, 2)) ** 3",
        "The scores are right before this line, which changes them: it applies pow. Only "
        "the scale and the mask come ",
    ),
    # the scale
    "not at all": (
        " / keys.shape[-1] ** 0.5",
        "",
        "The scores are multiplied by 1, and 1 / sqrt(d_out) = 0.378 is right: they are not "
        "scaled at all. ",
    ),
    "no root": (
        " ** 0.5",
        "",
        "The scores are multiplied by 0.1429, and 1 / sqrt(d_out) = 0.378 is right: you divide by "
        "d_out itself, or twice by its root. ",
    ),
    "** 1 / 2": (
        "** 0.5",
        "** 1 / 2",
        "The scores are multiplied by 0.07143, and 1 / sqrt(d_out) = 0.378 is right: d_out**1/2 "
        "is half of d_out, since ** binds before /. ",
    ),
    "the root of num_tokens": (
        "keys.shape[-1]",
        "num_tokens",
        "The scores are multiplied by 0.4472, and 1 / sqrt(d_out) = 0.378 is right: you "
        "divide by the root of ",
    ),
    "the root of context_length": (
        "keys.shape[-1]",
        "len(self.mask)",
        "The scores are multiplied by 0.2774, and 1 / sqrt(d_out) = 0.378 is right: you divide by "
        "the root of context_length. ",
    ),
    "the root of d_in": (
        "keys.shape[-1]",
        "x.shape[-1]",
        "The scores are multiplied by 0.3015, and 1 / sqrt(d_out) = 0.378 is right: you divide by "
        "the root of d_in, the width of the embedding. Divide them by keys.shape[-1]**0.5, the "
        "root of the width of one query.",
    ),
    "times": (
        "scores / keys",
        "scores * keys",
        "The scores are multiplied by 2.646, and 1 / sqrt(d_out) = 0.378 is right: they are "
        "multiplied by the root, not divided. ",
    ),
    "a number": (
        "keys.shape[-1] ** 0.5",
        "8.0",
        "8 here is a fixed number, and this head is 7 wide: take the width from the tensor, "
        "keys.shape[-1].",
    ),
    "another length": (
        "return context",
        "return context + 0.125 * (num_tokens == len(self.mask))",
        "Each step is right alone, but for 2 x 13 tokens the results differ by 0.125: The"
        " context vectors are right ",
    ),
    # softmax
    "over the queries": (
        "dim=-1",
        "dim=1",
        "The columns of the attention weights sum to 1, not the rows: softmax runs over the "
        "queries. Use dim=-1, the keys.",
    ),
    "over the batch": (
        "dim=-1",
        "dim=0",
        "Softmax runs over the texts of the batch. It must run over the keys, so that "
        "each row sums to 1.",
    ),
    "no softmax": (
        "torch.softmax(scores, dim=-1)",
        "scores",
        "The scores meet the values here as they are: softmax over the keys is missing before.",
    ),
    "0 after softmax": (
        "        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)\n"
        "        weights = torch.softmax(scores, dim=-1)",
        "        weights = torch.softmax(scores, dim=-1)\n"
        "        weights = weights * (1 - self.mask[:num_tokens, :num_tokens])",
        "The future is hidden only after softmax, so the rows that softmax made still "
        "counted it. Hide the scores with ",
    ),
    "weights scaled": (
        "weights = self.drop(weights)",
        "weights = self.drop(weights) / (1 + torch.arange(num_tokens)[:, None])",
        "This line changes the attention weights after softmax (divides by something), so that a "
        "row no longer sums to 1.",
    ),
    # the values
    "weights @ keys": (
        "weights @ values",
        "weights @ keys",
        "The attention weights multiply keys here, and must multiply the values: are keys and "
        "values swapped?",
    ),
    "weights @ queries": (
        "weights @ values",
        "weights @ queries",
        "The attention weights multiply queries here, and must multiply the values.",
    ),
    "values squared": (
        "weights @ values",
        "weights @ values**2",
        "This line changes the values (applies pow); the values go into attention as the "
        "projection made them.",
    ),
    "weights @ x": (
        "weights @ values",
        "weights @ x",
        "The result is (b, num_tokens, d_in) = (2, 5, 11) where (b, num_tokens, d_out) = "
        "(2, 5, 7) is right: look at the line that makes context_vec.",
    ),
    "weights transposed": (
        "weights @ values",
        "weights.mT @ values",
        "The attention weights are used the other way round: attn_weights @ values, without a "
        "transpose.",
    ),
    # __init__
    "Linear the wrong way": (
        "self.W_query = nn.Linear(d_in, d_out",
        "self.W_query = nn.Linear(d_out, d_in",
        "W_query.weight is (d_in, d_out) = (11, 7) where (d_out, d_in) = (7, 11) is right: "
        "nn.Linear takes the width that it gets first, nn.Linear(d_in, d_out).",
    ),
    "a bias always": (
        ", bias=qkv_bias",
        "",
        "The projections have a bias though qkv_bias=False: nn.Linear(bias=qkv_bias).",
    ),
    "a bias by default": (
        "qkv_bias=False",
        "qkv_bias=True",
        "The projections have a bias though qkv_bias=False: nn.Linear(bias=qkv_bias).",
    ),
    "a bias never": (
        "bias=qkv_bias",
        "bias=False",
        "With qkv_bias=True the projections have no bias: pass qkv_bias on to them.",
    ),
    "another name": (
        "W_value",
        "W_v",
        "The class has no parameter W_value.weight; it has W_query.weight, W_key.weight, "
        "W_v.weight.",
    ),
    "a layer too many": (
        "        self.drop =",
        "        self.out_proj = nn.Linear(d_out, d_out)\n        self.drop =",
        "The class has a parameter too many: out_proj.weight.",
    ),
    "no super": (
        "        super().__init__()\n",
        "",
        "Stopped in Mine.__init__, line 2: self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias) | "
        "AttributeError: cannot assign module before Module.__init__() call. Begin __init__ with "
        "super().__init__().",
    ),
    "another argument": (
        "d_out, context_length, dropout, qkv_bias",
        "d_model, context_length, dropout, qkv_bias",
        "Stopped outside its lines: the call itself | TypeError: Mine.__init__() got an unexpected "
        "keyword argument 'd_out'. The class is made with d_in, d_out, context_length, dropout, ",
    ),
    # dropout
    "none": (
        "        weights = self.drop(weights)\n",
        "",
        "In training nothing is dropped: is dropout passed on, and are the attention weights put "
        "through it, attn_weights = self.dropout(attn_weights)?",
    ),
    "twice": (
        "return context",
        "return self.drop(context)",
        "In training with p = 0.25 an attention weight of 1 may become 0 or 1.33, not 1.78: "
        "dropout is applied twice; once is ",
    ),
    "another p": (
        "nn.Dropout(dropout)",
        "nn.Dropout(0.5)",
        "With dropout=0.0 something is dropped in training: pass dropout on as it is.",
    ),
    "on the result": (
        "        weights = self.drop(weights)\n        context = weights @ values",
        "        context = self.drop(weights @ values)",
        "In training dropout falls on single numbers of the values or the result: it belongs on "
        "attn_weights, right after softmax.",
    ),
    # the rest
    "two results": (
        "return context",
        "return context, weights",
        "forward(x) returns a tuple of 2, not a tensor: return context_vec alone.",
    ),
    "mean over the tokens": (
        "return context",
        "return context.mean(dim=1)",
        "The result is (b, d_out) = (2, 7) where (b, num_tokens, d_out) = (2, 5, 7) is right: "
        "look at the line that makes context_vec.",
    ),
    "a name mistyped": (
        "weights @ values",
        "weights @ value",
        "Stopped in Mine.forward, line 11: context = weights @ value | NameError: name 'value' is "
        "not defined. | Shapes there: weights (b, num_tokens, num_tokens) = (2, 5, 5).",
    ),
    "detached": (
        "weights @ values",
        "weights.detach() @ values",
        "The results are right, but the gradient of x is not: does .detach() or no_grad cut part "
        "of it?",
    ),
    "no gradient at all": (
        "return context",
        "return context.detach()",
        "The results are right, but no parameter gets a gradient: ",
    ),
    "x changed": (
        "        num_tokens = x.shape[1]",
        "        num_tokens = x.shape[1]\n        x *= 1.0",
        "forward changes x itself: use x = x * 2 and not x *= 2 or x.mul_(2).",
    ),
    "depends on the batch": (
        "return context",
        "return context * (1 if len(x) == 1 else (2.0 if num_tokens > 5 else 1))",
        "Each step is right alone, but for 2 x 13 tokens the results differ by ",
    ),
}
WRONG_STACKS = {
    "joined along the tokens": (
        "dim=-1",
        "dim=1",
        "The result is (b, num_tokens * num_heads, d_out) = (2, 15, 7) where (b, num_tokens, "
        "num_heads * d_out) = (2, 5, 21) is right. The heads are joined along dimension 1 here, "
        "counted from 0, like more tokens. Each head writes 7 columns; side by side, along the "
        "last dimension, 3 heads make 21.",
    ),
    "joined along the batch": (", dim=-1", "", "The result is (b * num_heads, num_tokens, d_out)"),
    "stacked": ("torch.cat", "torch.stack", "The result is (b, num_tokens, d_out, num_heads) = "),
    "added": (
        "torch.cat([head(x) for head in self.heads], dim=-1)",
        "sum(head(x) for head in self.heads)",
        "The result is (b, num_tokens, d_out) = (2, 5, 7) where ",
    ),
    "alternating": (
        "torch.cat([head(x) for head in self.heads], dim=-1)",
        "torch.stack([head(x) for head in self.heads], dim=-1).flatten(2)",
        "The columns of the heads alternate: all columns of head 0 come first, then all of head 1.",
    ),
    "reversed": (
        "in self.heads]",
        "in reversed(self.heads)]",
        "The heads come out in reverse order: head 0 belongs in the first columns.",
    ),
    "the first head each time": (
        "head(x) for head",
        "self.heads[0](x) for head",
        "Columns 7 to 13 are head 0 again, where head 1 belongs: does each round use a head of its "
        "own?",
    ),
    "one head repeated": (
        "[CausalAttention(*sizes) for _ in range(num_heads)]",
        "[CausalAttention(*sizes)] * num_heads",
        "All heads are one and the same module: [head] * num_heads repeats it. Make a new one for "
        "each head: [... for _ in range(num_heads)].",
    ),
    "a plain list": (
        "nn.ModuleList(",
        "list(",
        "self.heads is a plain list, and PyTorch sees no parameters in it: make it an "
        "nn.ModuleList.",
    ),
    "too few heads": ("range(num_heads)", "range(2)", "The class has no parameter heads.2.W_query"),
    "d_out shared out": (
        "sizes = d_in, d_out,",
        "sizes = d_in, d_out // num_heads,",
        "heads.0.W_query.weight is (2, d_in) = (2, 11) where (d_out, d_in) = (7, 11) is right: "
        "d_out is the width of one head, here 7.",
    ),
    "bias not passed on": (
        "dropout, qkv_bias\n",
        "dropout\n",
        "With qkv_bias=True the projections ",
    ),
    "dropout not passed on": (
        "context_length, dropout, qkv_bias\n",
        "context_length, 0.0, qkv_bias\n",
        "In training nothing is dropped: is dropout passed on, ",
    ),
    "one head after the other": (
        "        return torch.cat([head(x) for head in self.heads], dim=-1)",
        "        for head in self.heads:\n            x = head(x)\n        return x",
        "Each head takes x as the head before has left it: all heads take the same x, and their "
        "results go side by side.",
    ),
    "a loop that breaks the values": (
        "head(x) for head in self.heads",
        "head(x) * (1 if len(self.heads) == 1 or x.shape[1] == 1 else h) "
        "for h, head in enumerate(self.heads)",
        "The context vectors are right before this line, which changes them: it "
        "multiplies by something.",
    ),
}
WRONG_SPLITS = {
    "split by view": (
        "view(b, t, self.n, self.width).transpose(1, 2)",
        "view(b, self.n, t, self.width)",
        "The split mixes tokens and heads of the queries. First view(b, num_tokens, "
        "num_heads, head_dim), then ",
    ),
    "only the queries split by view": (
        "self.W_query(x).view(b, t, self.n, self.width).transpose(1, 2)",
        "self.W_query(x).view(b, self.n, t, self.width)",
        "The split mixes tokens and heads of the queries. First view(b, num_tokens, "
        "num_heads, head_dim), then ",
    ),
    "only the values split by view": (
        "self.W_value(x).view(b, t, self.n, self.width).transpose(1, 2)",
        "self.W_value(x).view(b, self.n, t, self.width)",
        "The split mixes tokens and heads of the values. First view(b, num_tokens, "
        "num_heads, head_dim), then ",
    ),
    "merged by view": (
        ".transpose(1, 2).flatten(2)",
        ".reshape(b, t, -1)",
        "The merge mixes tokens and heads. First transpose(1, 2), then view.",
    ),
    "merged in another order": (
        ".transpose(1, 2).flatten(2)",
        ".permute(0, 2, 3, 1).flatten(2)",
        "The columns of the heads alternate: all columns of head 0 come first, then all of head 1.",
    ),
    "heads rolled": (
        ".transpose(1, 2).flatten(2)",
        ".transpose(1, 2).roll(1, dims=2).flatten(2)",
        "The heads of the context vectors are shifted by one here; they must keep their places.",
    ),
    "no transpose": (
        "view(b, t, self.n, self.width).transpose(1, 2)",
        "view(b, t, self.n, self.width)",
        "The queries come from here with the tokens before the heads, so that the product compares "
        "the heads of one token: bring the heads forward first, transpose(1, 2). So it stops in "
        "Mine.forward, line 7: scores = scores + torch.full((t, t), -torch.inf, dtype=x.dtype)"
        ".triu(1) | RuntimeError: The size of tensor a (3) must match the size of "
        "tensor b (5) at non-singleton dimension 3. | Shapes there: scores (b, num_tokens, "
        "num_heads, num_heads) = (2, 5, 3, 3), x (b, num_tokens, d_in) = (2, 5, 11).",
    ),
    "not merged": (
        ".transpose(1, 2).flatten(2)",
        ".transpose(1, 2)",
        "Stopped in Mine.forward, line 10: return self.out_proj(context) | RuntimeError: mat1 and "
        "mat2 shapes cannot be multiplied (30x7 and 21x21). | Shapes there: context (b, "
        "num_tokens, num_heads, head_dim) = (2, 5, 3, 7). The last axis of the left one must be as "
        "wide as the right one expects: is a merge, a split or a transpose missing before this "
        "line?",
    ),
    "neither merged nor projected": (
        ".transpose(1, 2).flatten(2)\n        return self.out_proj(context)",
        ".transpose(1, 2)\n        return context",
        "The result is (b, num_tokens, num_heads, head_dim) = (2, 5, 3, 7) where (b, num_tokens, "
        "d_out) = (2, 5, 21) is right. The heads have a dimension of their own here, dimension 2, "
        "counted from 0.",
    ),
    "head_dim is d_out": (
        "d_out // num_heads",
        "d_out",
        "Stopped in Mine.forward, line 3: queries = self.W_query(x).view(b, t, self.n, "
        "self.width).transpose(1, 2) | RuntimeError: shape '[2, 5, 3, 21]' is invalid for input of "
        "size 210. | Shapes there: x (b, num_tokens, d_in) = (2, 5, 11). view keeps the number of "
        "elements, and the sizes asked for must multiply to it. Is head_dim d_out // num_heads, "
        "and num_heads the module's own, self.num_heads?",
    ),
    "num_heads of the page": (
        "view(b, t, self.n, self.width)",
        "view(b, t, 2, self.width)",
        "Stopped in Mine.forward, line 3: queries = self.W_query(x).view(b, t, 2, "
        "self.width).transpose(1, 2) | RuntimeError: shape '[2, 5, 2, 7]' is invalid for input of "
        "size 210. | Shapes there: x (b, num_tokens, d_in) = (2, 5, 11). view keeps the number of "
        "elements, and the sizes asked for must multiply to it. Is head_dim d_out // num_heads, "
        "and num_heads the module's own, self.num_heads?",
    ),
    "head_dim is a float": (
        "d_out // num_heads",
        "d_out / num_heads",
        "Stopped in Mine.forward, line 3: ",
    ),
    "out_proj thrown away": (
        "return self.out_proj(context)",
        "self.out_proj(context)\n        return context",
        "The context vectors are returned without out_proj: end with self.out_proj(context_vec).",
    ),
    "out_proj twice": (
        "self.out_proj(context)",
        "self.out_proj(self.out_proj(context))",
        "out_proj is applied here a second time: once is right.",
    ),
    "out_proj without a bias": (
        "nn.Linear(d_out, d_out)",
        "nn.Linear(d_out, d_out, bias=False)",
        "The class has no parameter out_proj.bias; it has ",
    ),
    "scale by d_out": (
        "self.width**-0.5",
        "(self.n * self.width) ** -0.5",
        "The scores are multiplied by 0.2182, and 1 / sqrt(head_dim) = 0.378 is right: you divide "
        "by the root of the width of all heads. ",
    ),
    "d_out for each head": (
        "nn.Linear(d_in, d_out, bias",
        "nn.Linear(d_in, d_out * num_heads, bias",
        "W_query.weight is (num_heads * d_out, d_in) = (63, 11) where (d_out, d_in) = (21, 11) is "
        "right: d_out is the total width, here 21.",
    ),
    "one head at a quarter": (
        "self.drop(scores.softmax(dim=-1))",
        "scores.softmax(dim=-1) * torch.tensor([1.0, 0.25, 1.0])[: self.n, None, None]",
        "This line changes the attention weights after softmax (multiplies by something), so "
        "that a row no longer sums to 1.",
    ),
    "softmax over the heads": (
        "softmax(dim=-1)",
        "softmax(dim=1)",
        "Softmax runs over the heads. It must run over the keys, so that each row sums to 1.",
    ),
    "a float32 mask": (
        ", dtype=x.dtype",
        "",
        "This tensor is torch.float32 whatever x is: give it dtype=x.dtype. So in half precision "
        "it stops in Mine.forward, line 9: ",
    ),
    "NaN in the values": (
        "weights @ values",
        "weights @ (values / 0 * 0)",
        "This line changes the values (divides by something); the values go into "
        "attention as the projection made them.",
    ),
}
CASES = [
    (check, text, what, *case)
    for check, text, wrong in (
        (check_causal_attention, ONE_HEAD, WRONG_HEADS),
        (check_stacked_heads, STACKED, WRONG_STACKS),
        (check_weight_split, SPLIT, WRONG_SPLITS),
    )
    for what, case in wrong.items()
]


# attncourse.checks.mistakes: which module check catches which of them, at dropout 0

CAUGHT = {  # by its shape, causality, rows, equality
    "split without transpose": (False, True, False, True),
    "merge without transpose": (False, True, False, True),
    "both without transpose": (False, False, False, True),
    "mask of the past": (False, True, False, True),
    "mask one too late": (False, True, False, True),
    "mask with the diagonal": (False, True, True, True),
    "mask inverted": (False, True, True, True),
    "mask thrown away": (False, True, False, True),
    "mask of the context": (False, False, False, False),
    "minus 1e4": (False, False, False, False),
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
