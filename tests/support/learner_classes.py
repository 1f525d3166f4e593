"""Classes as learners write them, right and wrong, and what the checks must say of them.

Whoever wrote the wrong ones knew attnlib and the lessons, and not the checks. A base is right as
it stands; a wrong class is a base with one fault put in.
"""

# ruff: noqa: E501  # a table

import linecache
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.checks import check_causal_attention, check_stacked_heads, check_weight_split
from attnlib import CausalAttention

ONE_HEAD, STACKED, SPLIT = check_causal_attention, check_stacked_heads, check_weight_split


def write(text: str, **outside: object) -> type[nn.Module]:
    """Return the class Mine of a text, as if it stood in a cell, beside variables of a notebook."""
    file = f"<cell {hash(text)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    space = {"__name__": "cell", "torch": torch, "nn": nn, "math": math, "F": F}
    space |= {"CausalAttention": CausalAttention} | outside
    exec(compile(text, file, "exec", dont_inherit=True), space)
    return space["Mine"]


def several(text: str, pairs: dict[str, str]) -> str:
    """Return the text of a class with some pieces replaced, each of which stands in it once."""
    for right, wrong in pairs.items():
        assert text.count(right) == 1, right
        text = text.replace(right, wrong)
    return text


class Wrong(NamedTuple):
    """A base with a fault: the check's code, and the line that it must quote."""

    name: str
    base: tuple
    code: str
    pairs: dict[str, str]
    line: str | None = None  # None: one of the lines that the base does not have; "": none

    @property
    def text(self) -> str:
        return several(self.base[1], self.pairs)

    def lines(self) -> set[str]:
        """Return the lines that may be quoted."""
        if self.line is not None:
            return {self.line}
        known = {line.strip() for line in self.base[1].splitlines()}
        return {line.strip() for line in self.text.splitlines()} - known


# fmt: off
ONE_INIT = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        self.context_length = context_length
"""
SPLIT_INIT = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "d_out must be divisible by num_heads"
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.context_length = context_length
"""
ONE_BUFFER = ONE_HEAD, ONE_INIT + """\
        mask = torch.triu(torch.ones(context_length, context_length), diagonal=1)
        self.register_buffer("mask", mask.bool())

    def forward(self, x):
        b, num_tokens, d_in = x.shape
        if num_tokens > self.context_length:
            raise ValueError("too many tokens")
        keys = self.W_key(x)
        queries = self.W_query(x)
        values = self.W_value(x)

        attn_scores = queries @ keys.transpose(1, 2)
        attn_scores.masked_fill_(self.mask[:num_tokens, :num_tokens], -torch.inf)
        attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
        attn_weights = self.dropout(attn_weights)

        context_vec = attn_weights @ values
        return context_vec
"""
ONE_TRIL = ONE_HEAD, ONE_INIT + """
    def forward(self, x):
        B, T, C = x.shape
        k = self.W_key(x)
        q = self.W_query(x)
        v = self.W_value(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        tril = torch.tril(torch.ones(T, T, device=x.device))
        wei = wei.masked_fill(tril == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        wei = self.dropout(wei)
        out = wei @ v
        return out
"""
ONE_EINSUM = ONE_HEAD, ONE_INIT + """\
        self.d_k = d_out

    def future(self, n, device):
        i = torch.arange(n, device=device)
        return i[None, :] > i[:, None]

    def forward(self, x):
        Q, K, V = self.W_query(x), self.W_key(x), self.W_value(x)
        S = torch.einsum("bid,bjd->bij", Q, K) / math.sqrt(self.d_k)
        S = S.masked_fill(self.future(x.size(1), x.device), float("-inf"))
        A = self.dropout(S.softmax(dim=-1))
        return torch.einsum("bij,bjd->bid", A, V)
"""
ONE_SDPA = ONE_HEAD, ONE_INIT + """
    def forward(self, x):
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        p = self.dropout.p if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
"""
ONE_BADDBMM = ONE_HEAD, ONE_INIT + """\
        self.p = dropout

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        scale = 1.0 / math.sqrt(q.size(-1))
        bias = torch.full((n, n), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        e = torch.baddbmm(bias.expand(b, n, n), q, k.transpose(1, 2), alpha=scale)
        a = torch.softmax(e, dim=-1)
        a = F.dropout(a, self.p, self.training)
        return torch.bmm(a, v)
"""
ONE_LOOP = ONE_HEAD, ONE_INIT + """
    def forward(self, x):
        rows = []
        for t in range(x.shape[1]):
            past = x[:, : t + 1]
            query = self.W_query(x[:, t : t + 1])
            key, value = self.W_key(past), self.W_value(past)
            score = (query * key).sum(dim=2, keepdim=True) / key.shape[2] ** 0.5
            weight = self.dropout(torch.softmax(score, dim=1))
            rows.append((weight * value).sum(dim=1))
        return torch.stack(rows, dim=1)
"""
STACK_LINE = STACKED, """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        sizes = d_in, d_out, context_length, dropout, qkv_bias
        heads = [CausalAttention(*sizes) for _ in range(num_heads)]
        self.heads = nn.ModuleList(heads)

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)
"""
STACK_LOOP = STACKED, """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.heads = nn.ModuleList()
        for i in range(num_heads):
            self.heads.append(CausalAttention(d_in, d_out, context_length, dropout, qkv_bias))

    def forward(self, x):
        outs = []
        for i in range(self.num_heads):
            out = self.heads[i](x)
            outs.append(out)
        result = torch.cat(outs, dim=2)
        return result
"""
SPLIT_COURSE = SPLIT, SPLIT_INIT + """
    def forward(self, x):
        b, num_tokens, d_in = x.shape
        keys = self.W_key(x)
        queries = self.W_query(x)
        values = self.W_value(x)

        keys = keys.view(b, num_tokens, self.num_heads, self.head_dim)
        queries = queries.view(b, num_tokens, self.num_heads, self.head_dim)
        values = values.view(b, num_tokens, self.num_heads, self.head_dim)
        keys = keys.transpose(1, 2)
        queries = queries.transpose(1, 2)
        values = values.transpose(1, 2)

        attn_scores = queries @ keys.transpose(2, 3)
        mask = torch.triu(torch.ones(num_tokens, num_tokens, device=x.device), diagonal=1)
        attn_scores.masked_fill_(mask.bool(), -torch.inf)
        attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
        attn_weights = self.dropout(attn_weights)

        context_vec = (attn_weights @ values).transpose(1, 2)
        context_vec = context_vec.contiguous().view(b, num_tokens, self.d_out)
        context_vec = self.out_proj(context_vec)
        return context_vec
"""
SPLIT_GPT = SPLIT, SPLIT_INIT + """\
        bias = torch.tril(torch.ones(context_length, context_length))
        self.register_buffer("bias", bias.view(1, 1, context_length, context_length))

    def forward(self, x):
        B, T, C = x.size()
        assert T <= self.context_length
        k = self.W_key(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        q = self.W_query(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(B, T, self.num_heads, self.head_dim).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.dropout(att)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, self.d_out)
        y = self.out_proj(y)
        return y
"""
SPLIT_HELPERS = SPLIT, SPLIT_INIT + """
    def split(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.num_heads, self.head_dim).permute(0, 2, 1, 3)

    def merge(self, t):
        b, h, n, d = t.shape
        return t.permute(0, 2, 1, 3).reshape(b, n, h * d)

    def forward(self, x):
        n = x.shape[1]
        q = self.split(self.W_query(x))
        k = self.split(self.W_key(x))
        v = self.split(self.W_value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        future = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
        weights = self.dropout(scores.softmax(-1))
        return self.out_proj(self.merge(weights @ v))
"""
SPLIT_FOLD = SPLIT, SPLIT_INIT + """
    def forward(self, x):
        h = self.num_heads
        Q = torch.cat(self.W_query(x).chunk(h, dim=2), dim=0)
        K = torch.cat(self.W_key(x).chunk(h, dim=2), dim=0)
        V = torch.cat(self.W_value(x).chunk(h, dim=2), dim=0)
        S = torch.bmm(Q, K.transpose(1, 2)) / self.head_dim**0.5
        bias = torch.full_like(S[0], -math.inf).triu(1)
        A = F.softmax(S + bias, dim=2)
        A = self.dropout(A)
        Y = torch.bmm(A, V)
        Y = torch.cat(Y.chunk(h, dim=0), dim=2)
        return self.out_proj(Y)
"""
SPLIT_LOOP = SPLIT, SPLIT_INIT + """
    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        seen = torch.tril(torch.ones(n, n, device=x.device)).bool()
        outputs = []
        for h in range(self.num_heads):
            cols = slice(h * self.head_dim, (h + 1) * self.head_dim)
            e = q[..., cols] @ k[..., cols].mT / self.head_dim**0.5
            e = torch.where(seen, e, float("-inf"))
            a = self.dropout(torch.softmax(e, dim=-1))
            outputs.append(a @ v[..., cols])
        out = torch.cat(outputs, dim=-1)
        return self.out_proj(out)
"""
SPLIT_EINSUM = SPLIT, SPLIT_INIT + """
    def forward(self, x):
        projections = self.W_query, self.W_key, self.W_value
        q, k, v = [w(x).unflatten(-1, (self.num_heads, self.head_dim)) for w in projections]
        dots = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.head_dim**-0.5
        position = torch.arange(x.shape[1], device=x.device)
        dots = dots.masked_fill(position[None, :] > position[:, None], -torch.inf)
        probs = self.dropout(dots.softmax(dim=-1))
        mixed = torch.einsum("bhqk,bkhd->bqhd", probs, v)
        return self.out_proj(mixed.flatten(2))
"""
SPLIT_SDPA = SPLIT, SPLIT_INIT + """
    def forward(self, x):
        B, T, _ = x.shape
        q = self.W_query(x).view(B, T, self.num_heads, -1).transpose(1, 2)
        k = self.W_key(x).view(B, T, self.num_heads, -1).transpose(1, 2)
        v = self.W_value(x).view(B, T, self.num_heads, -1).transpose(1, 2)
        p = self.dropout.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        y = y.transpose(1, 2).reshape(B, T, -1)
        return self.out_proj(y)
"""
ONE_INIT_CACHE = ONE_HEAD, ONE_INIT + """\
        self.seen = None

    def forward(self, x):
        n = x.shape[1]
        if self.seen is None or self.seen.device != x.device or len(self.seen) != n:
            self.seen = torch.ones(n, n, device=x.device).tril().bool()
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        logits = q.matmul(k.transpose(1, 2)).div(math.sqrt(k.shape[2]))
        logits = torch.where(self.seen, logits, -torch.inf)
        return self.dropout(logits.softmax(2)).matmul(v)
"""
SPLIT_CHUNK = SPLIT, SPLIT_INIT + """
    def one_head(self, q, k, v):
        i = torch.arange(q.shape[1], device=q.device)
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[2])
        weights = torch.softmax(scores.masked_fill(i > i[:, None], -torch.inf), dim=-1)
        return self.dropout(weights) @ v

    def forward(self, x):
        h = self.num_heads
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        parts = zip(q.chunk(h, dim=-1), k.chunk(h, dim=-1), v.chunk(h, dim=-1))
        return self.out_proj(torch.cat([self.one_head(*part) for part in parts], dim=-1))
"""

WRONG = [
    Wrong("mask booleans added", SPLIT_HELPERS, "wrong",
      {'scores = scores.masked_fill(future, float("-inf"))': "scores = scores + future"}),
    Wrong("mask plain attribute", ONE_BUFFER, "mask.no-buffer",
      {'self.register_buffer("mask", mask.bool())': "self.mask = mask.bool()"}),
    Wrong("divide not checked", SPLIT_CHUNK, "",
      {'        assert d_out % num_heads == 0, "d_out must be divisible by num_heads"\n': ""}, ""),
    Wrong("num heads as length", STACK_LINE, "size.wrong",
      {"sizes = d_in, d_out, context_length, dropout":
       "sizes = d_in, d_out, num_heads, dropout"}, ""),
    Wrong("split head dim first", SPLIT_HELPERS, "wrong",
      {"t.reshape(b, n, self.num_heads, self.head_dim).permute(0, 2, 1, 3)\n\n":
       "t.reshape(b, n, self.head_dim, self.num_heads).permute(0, 3, 1, 2)\n\n"}),
    Wrong("scale context length", ONE_BUFFER, "scale.width",
      {"keys.shape[-1] ** 0.5": "self.context_length**0.5"}),
    Wrong("mask off by one arange", SPLIT_EINSUM, "mask.late",
      {"position[None, :] > position[:, None]": "position[None, :] > position[:, None] + 1"}),
    Wrong("mask after softmax", SPLIT_COURSE, "mask.after-softmax",
      {"        attn_scores.masked_fill_(mask.bool(), -torch.inf)\n": "",
       "attn_weights = self.dropout(attn_weights)":
       "attn_weights = self.dropout(attn_weights.masked_fill(mask.bool(), 0.0))"}),
    Wrong("dropout on output", SPLIT_GPT, "dropout.values",
      {"        att = self.dropout(att)\n": "",
       "y = self.out_proj(y)": "y = self.dropout(self.out_proj(y))"}),
    Wrong("dropout seeded", ONE_BUFFER, "dropout.fixed",
      {"attn_weights = self.dropout(attn_weights)":
       "torch.manual_seed(1)\n        attn_weights = self.dropout(attn_weights)"},
      "attn_weights = self.dropout(attn_weights)"),
    Wrong("dropout of whole heads", SPLIT_COURSE, "dropout.together",
      {"self.dropout(attn_weights)": "F.dropout2d(attn_weights, self.dropout.p, self.training)"}),
    Wrong("rows beyond the mask leak", ONE_BUFFER, "length.leaks",
      {'raise ValueError("too many tokens")': "num_tokens = self.context_length",
       "attn_scores.masked_fill_(self.mask[:num_tokens, :num_tokens], -torch.inf)":
       "attn_scores[:, :num_tokens, :num_tokens].masked_fill_(self.mask[:num_tokens, :num_tokens], -torch.inf)"}, ""),
    Wrong("dropout always functional", ONE_BADDBMM, "dropout.eval",
      {"F.dropout(a, self.p, self.training)": "F.dropout(a, self.p)"}),
    Wrong("mask cached first length", ONE_INIT_CACHE, "error.shapes",
      {" or len(self.seen) != n:": ":"}, "return self.dropout(logits.softmax(2)).matmul(v)"),
    Wrong("output nothing", SPLIT_LOOP, "result.none",
      {"return self.out_proj(out)": "out = self.out_proj(out)"}),
    Wrong("device mask on cpu", SPLIT_LOOP, "",
      {"torch.ones(n, n, device=x.device)": "torch.ones(n, n)"}, ""),
    Wrong("bias ignored", SPLIT_FOLD, "parameters.bias-always",
      {"self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)":
       "self.W_value = nn.Linear(d_in, d_out, bias=True)"}),
    Wrong("out proj follows qkv bias", SPLIT_GPT, "parameters.missing",
      {"nn.Linear(d_out, d_out)": "nn.Linear(d_out, d_out, bias=qkv_bias)"}),
    Wrong("mask zero times inf", ONE_BADDBMM, "mask.nan",
      {'torch.full((n, n), float("-inf"), device=x.device, dtype=x.dtype).triu(1)':
       'torch.ones(n, n, device=x.device, dtype=x.dtype).triu(1) * float("-inf")'}),
    Wrong("mask polarity tril", ONE_TRIL, "mask.inverted", {"tril == 0": "tril == 1"}),
    Wrong("bias never", ONE_TRIL, "parameters.bias-never",
      {"self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)":
       "self.W_key = nn.Linear(d_in, d_out, bias=False)"}),
    Wrong("dtype mask float32", ONE_BADDBMM, "",
      {", device=x.device, dtype=x.dtype).triu(1)": ", device=x.device).triu(1)"}, ""),
    Wrong("dropout on values", SPLIT_FOLD, "dropout.values",
      {"        A = self.dropout(A)\n": "        V = self.dropout(V)\n"}),
    Wrong("dropout missing", SPLIT_COURSE, "dropout.none",
      {"        attn_weights = self.dropout(attn_weights)\n": ""},
      "attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)"),
    Wrong("dropout keep probability", ONE_TRIL, "dropout.share",
      {"nn.Dropout(dropout)": "nn.Dropout(1 - dropout)"}),
    Wrong("x zeroed after use", SPLIT_LOOP, "x.in-place",
      {"        outputs = []\n": "        outputs = []\n        x.zero_()\n"}),
    Wrong("length truncated", ONE_TRIL, "length.cropped",
      {"B, T, C = x.shape": "x = x[:, : self.context_length]\n        B, T, C = x.shape"}),
    Wrong("init argument order", ONE_SDPA, "given.order",
      {"context_length, dropout, qkv_bias": "dropout, context_length, qkv_bias"}, ""),
    Wrong("softmax over heads", SPLIT_GPT, "softmax.axis",
      {"F.softmax(att, dim=-1)": "F.softmax(att, dim=1)"}),
    Wrong("first head only", STACK_LOOP, "order", {"self.heads[i](x)": "self.heads[0](x)"}),
    Wrong("loop full scores", SPLIT_LOOP, "wrong",
      {"e = q[..., cols] @ k[..., cols].mT": "e = q @ k.mT"}),
    Wrong("values from keys swapped", ONE_EINSUM, "scores.pair",
      {"Q, K, V = self": "Q, V, K = self"}),
    Wrong("merge plain reshape", SPLIT_SDPA, "merge.mixed",
      {"y.transpose(1, 2).reshape(B, T, -1)": "y.reshape(B, T, -1)"}),
    Wrong("dropout on scores", ONE_TRIL, "dropout.place",
      {"        wei = F.softmax(wei, dim=-1)\n        wei = self.dropout(wei)\n":
       "        wei = self.dropout(wei)\n        wei = F.softmax(wei, dim=-1)\n"},
      "wei = self.dropout(wei)"),
    Wrong("scores from x", ONE_TRIL, "wrong",
      {"wei = q @ k.transpose(-2, -1)": "wei = x @ x.transpose(-2, -1)"}),
    Wrong("dropout module made in forward", ONE_EINSUM, "dropout.eval",
      {"self.dropout(S.softmax(dim=-1))": "nn.Dropout(self.dropout.p)(S.softmax(dim=-1))"}),
    Wrong("bias not passed", STACK_LOOP, "parameters.bias-never",
      {"context_length, dropout, qkv_bias))": "context_length, dropout))"}),
    Wrong("mask of heads", SPLIT_SDPA, "split.no-transpose",
      {"q = self.W_query(x).view(B, T, self.num_heads, -1).transpose(1, 2)":
       "q = self.W_query(x).view(B, T, self.num_heads, -1)",
       "k = self.W_key(x).view(B, T, self.num_heads, -1).transpose(1, 2)":
       "k = self.W_key(x).view(B, T, self.num_heads, -1)",
       "v = self.W_value(x).view(B, T, self.num_heads, -1).transpose(1, 2)":
       "v = self.W_value(x).view(B, T, self.num_heads, -1)",
       "y.transpose(1, 2).reshape": "y.reshape"}),
    Wrong("mask missing one", ONE_TRIL, "mask.none",
      {'        wei = wei.masked_fill(tril == 0, float("-inf"))\n': ""},
      "wei = F.softmax(wei, dim=-1)"),
    Wrong("split head dim from d in", SPLIT_COURSE, "size.wrong",
      {"self.head_dim = d_out // num_heads": "self.head_dim = d_in // num_heads"}),
    Wrong("loop scores accumulate", SPLIT_LOOP, "wrong",
      {"        outputs = []\n": "        outputs = []\n        e = 0.0\n",
       "e = q[..., cols] @": "e = e + q[..., cols] @"}),
    Wrong("dropout twice", SPLIT_GPT, "dropout.twice",
      {"y = self.out_proj(y)": "y = self.dropout(self.out_proj(y))"}),
    Wrong("mask tril scores", SPLIT_HELPERS, "mask.fill",
      {'scores = scores.masked_fill(future, float("-inf"))': "scores = scores.tril()"}),
    Wrong("dtype cast float32", SPLIT_GPT, "",
      {"F.softmax(att, dim=-1)": "F.softmax(att.float(), dim=-1)"}, ""),
    Wrong("past one short", ONE_LOOP, "wrong", {"x[:, : t + 1]": "x[:, :t]"}),
    Wrong("out proj forgotten", SPLIT_COURSE, "out_proj.missing",
      {"        context_vec = self.out_proj(context_vec)\n": ""}, "return context_vec"),
    Wrong("mask sliced from end", ONE_BUFFER, "mask.none",
      {"self.mask[:num_tokens, :num_tokens]": "self.mask[-num_tokens:, :num_tokens]"}),
    Wrong("extra cosine", ONE_EINSUM, "wrong",
      {"\n        S = torch.einsum":
       "\n        Q, K = F.normalize(Q, dim=-1), F.normalize(K, dim=-1)\n        S = torch.einsum"}),
    Wrong("scale precedence", ONE_BUFFER, "scale.half",
      {"keys.shape[-1] ** 0.5": "keys.shape[-1] ** 1 / 2"}),
    Wrong("split no transpose", SPLIT_HELPERS, "split.no-transpose",
      {"t.reshape(b, n, self.num_heads, self.head_dim).permute(0, 2, 1, 3)\n\n":
       "t.reshape(b, n, self.num_heads, self.head_dim)\n\n"}),
    Wrong("extra residual", SPLIT_GPT, "error.shapes",
      {"        return y\n": "        return x + y\n"}),
    Wrong("split values not transposed", SPLIT_COURSE, "split.no-transpose",
      {"        values = values.transpose(1, 2)\n": ""},
      "values = values.view(b, num_tokens, self.num_heads, self.head_dim)"),
    Wrong("mask result dropped", ONE_BUFFER, "mask.unused",
      {"attn_scores.masked_fill_(": "attn_scores.masked_fill("}),
    Wrong("dropout then renormalised", SPLIT_FOLD, "dropout.place",
      {"A = self.dropout(A)":
       "A = self.dropout(A)\n        A = A / A.sum(dim=2, keepdim=True)"}),
    Wrong("scale missing one", ONE_BUFFER, "scale.none",
      {"torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)":
       "torch.softmax(attn_scores, dim=-1)"}, ""),
    Wrong("scale missing", SPLIT_FOLD, "scale.none", {" / self.head_dim**0.5": ""}),
    Wrong("mask missing", SPLIT_SDPA, "mask.none", {", is_causal=True": ""}),
    Wrong("last head only", STACK_LOOP, "result.shape",
      {"            outs.append(out)\n": "        outs.append(out)\n"}, ""),
    Wrong("scale total width", SPLIT_HELPERS, "scale.width",
      {"math.sqrt(self.head_dim)": "math.sqrt(self.d_out)"}),
    Wrong("mask diagonal zero", ONE_BUFFER, "mask.diagonal", {"diagonal=1": "diagonal=0"}),
    Wrong("out proj per head", SPLIT_HELPERS, "error.shapes",
      {"self.out_proj(self.merge(weights @ v))": "self.merge(self.out_proj(weights @ v))"}),
    Wrong("x scaled in place", SPLIT_COURSE, "x.in-place",
      {"keys = self.W_key(x)": "x *= d_in**-0.5\n        keys = self.W_key(x)"}),
    Wrong("scores queries as keys", SPLIT_FOLD, "scores.pair",
      {"self.W_key(x).chunk": "self.W_query(x).chunk"}),
]
RIGHT = {
    "queries in blocks of two": (SPLIT, SPLIT_INIT + """
    def heads_of(self, t):
        return t.view(*t.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.heads_of(w(x)) for w in (self.W_query, self.W_key, self.W_value))
        place, blocks = torch.arange(x.shape[1], device=x.device), []
        for start in range(0, x.shape[1], 2):
            rows, end = place[start : start + 2], start + 2
            e = q[:, :, rows] @ k[:, :, :end].mT / math.sqrt(self.head_dim)
            e = e.masked_fill(place[None, :end] > rows[:, None], -torch.inf)
            blocks.append(self.dropout(F.softmax(e, -1)) @ v[:, :, :end])
        return self.out_proj(torch.cat(blocks, dim=2).transpose(1, 2).flatten(2))
"""),
    "padded to full length": (ONE_HEAD, ONE_INIT + """
    def forward(self, x):
        T, L = x.shape[1], self.context_length
        if T > L:
            raise ValueError(f"{T} tokens, but context_length is {L}")
        x = F.pad(x, (0, 0, 0, L - T))
        att = self.W_query(x) @ self.W_key(x).mT / self.W_key.out_features**0.5
        att = att + att.new_ones(L, L).tril().log()
        att = att.log_softmax(dim=-1).exp()
        return (self.dropout(att) @ self.W_value(x))[:, :T]
"""),
    "stacked with loop": STACK_LOOP,
    "head method and chunks": SPLIT_CHUNK,
    "token by token": ONE_LOOP,
    "scores transposed throughout": (ONE_HEAD, ONE_INIT + """
    def forward(self, x):
        E = self.W_key(x) @ self.W_query(x).mT / self.W_key.out_features**0.5
        E = E.masked_fill(torch.ones_like(E[0]).tril(-1).bool(), -torch.inf)
        return self.dropout(E.softmax(dim=1)).mT @ self.W_value(x)
"""),
    "reversed loop then turned back": (SPLIT, SPLIT_INIT + """
    def forward(self, x):
        T, h = x.shape[1], self.num_heads
        q, k, v = [w(x).tensor_split(h, -1) for w in (self.W_query, self.W_key, self.W_value)]
        low = torch.ones(T, T, device=x.device).tril().bool()
        heads = []
        while len(heads) < h:
            i = h - 1 - len(heads)
            wei = (q[i] @ k[i].transpose(-1, -2)).mul(self.head_dim**-0.5)
            wei = F.softmax(wei.masked_fill(low.logical_not(), -torch.inf), dim=-1)
            heads.append(self.dropout(wei) @ v[i])
        return self.out_proj(torch.cat(heads[::-1], dim=-1))
"""),
    "movedim helpers": (SPLIT_HELPERS[0], several(SPLIT_HELPERS[1],
    {"t.reshape(b, n, self.num_heads, self.head_dim).permute(0, 2, 1, 3)\n\n":
     "t.unflatten(2, (self.num_heads, -1)).movedim(2, 1)\n\n",
     "t.permute(0, 2, 1, 3).reshape(b, n, h * d)": "t.movedim(1, 2).flatten(start_dim=2)"})),
    "log of tril added": (SPLIT_COURSE[0], several(SPLIT_COURSE[1],
    {"torch.triu(torch.ones(num_tokens, num_tokens, device=x.device), diagonal=1)":
     "torch.ones_like(attn_scores[0, 0]).tril().log()",
     "attn_scores.masked_fill_(mask.bool(), -torch.inf)": "attn_scores = attn_scores + mask"})),
    "heads folded into batch": SPLIT_FOLD,
    "fused product": (ONE_HEAD, ONE_INIT + """
    def forward(self, x):
        layers = [self.W_query, self.W_key, self.W_value]
        weight = torch.cat([layer.weight for layer in layers])
        bias = None
        if layers[0].bias is not None:
            bias = torch.cat([layer.bias for layer in layers])
        q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)
        see = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        p = self.dropout.p * self.training
        return F.scaled_dot_product_attention(q, k, v, attn_mask=see, dropout_p=p)
"""),
    "softmax by hand": (ONE_HEAD, ONE_INIT + """
    def forward(self, x):
        n = x.size(1)
        s = torch.bmm(self.W_query(x), self.W_key(x).permute(0, 2, 1))
        s = s / s.new_tensor(self.W_key.out_features).sqrt()
        s = s - torch.triu(torch.full_like(s, math.inf), diagonal=1)
        p = torch.exp(s - s.max(dim=-1, keepdim=True).values)
        p = p / p.sum(dim=-1, keepdim=True)
        return torch.bmm(self.dropout(p), self.W_value(x))
"""),
    "split sdpa": SPLIT_SDPA,
    "stacked one line": STACK_LINE,
    "text by text": (ONE_HEAD, ONE_INIT + """
    def forward(self, x):
        return torch.stack([self.one_text(text) for text in x])

    def one_text(self, text):
        scores = self.W_query(text) @ self.W_key(text).T
        scores /= scores.new_tensor(self.W_key.weight.shape[0]) ** 0.5
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores[hidden] = -torch.inf
        return self.dropout(scores.softmax(-1)) @ self.W_value(text)
"""),
    "loop over heads": SPLIT_LOOP,
    "stacked grown result": (STACK_LOOP[0], several(STACK_LOOP[1],
    {"        outs = []\n": "        result = x[:, :, :0]\n",
     "            outs.append(out)\n        result = torch.cat(outs, dim=2)\n":
     "            result = torch.cat((result, out), dim=-1)\n"})),
    "block diagonal queries": (SPLIT, SPLIT_INIT + """
    def forward(self, x):
        b, n, _ = x.shape
        h, d = self.num_heads, self.head_dim
        own = torch.eye(h, device=x.device, dtype=x.dtype).repeat_interleave(d, dim=1)
        q = self.W_query(x).unsqueeze(1) * own[:, None]
        s = q @ self.W_key(x).unsqueeze(1).transpose(2, 3) / math.sqrt(d)
        s = s.masked_fill(s.new_ones(n, n).triu(1).bool(), -torch.inf)
        y = self.dropout(s.softmax(-1)) @ self.W_value(x).unsqueeze(1)
        return self.out_proj((y * own[:, None]).sum(dim=1))
"""),
    "quarter root on both": (SPLIT_GPT[0], several(SPLIT_GPT[1],
    {"(q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))":
     "(q * self.head_dim**-0.25) @ (k * self.head_dim**-0.25).mT"})),
    "heads as last axis": (SPLIT, SPLIT_INIT + """
    def forward(self, x):
        b, n, _ = x.shape
        shape = b, n, self.num_heads, self.head_dim
        q, k = self.W_query(x).view(shape), self.W_key(x).view(shape)
        v = self.W_value(x).view(shape)
        s = (q[:, :, None] * k[:, None, :]).sum(dim=-1) / self.head_dim**0.5
        seen = torch.ones(n, n, 1, dtype=torch.bool, device=x.device)
        seen = seen[:, :, 0].tril()[None, :, :, None]
        w = self.dropout(torch.where(seen, s, -torch.inf).softmax(dim=2))
        return self.out_proj((w[..., None] * v[:, None]).sum(dim=2).reshape(b, n, -1))
"""),
}
# fmt: on
