"""Causal attention as many people write it, and each way gone wrong: what a check must say then.

A style is a right class. A slip replaces some of its text; the check must find its kind and quote
the line that holds the words given.
"""

# ruff: noqa: E501  # a table: one slip on a line

from typing import NamedTuple

from attncourse.checks import check_causal_attention, check_stacked_heads, check_weight_split
from support.wrong_classes import LAYERS


class Slip(NamedTuple):
    """One mistake: its text before and after, the kind to be found, words of the line to quote."""

    right: str
    wrong: str
    kind: str
    line: str = ""  # empty: the replaced text itself must be on the line; "-": none is asked


INIT = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.d_out, self.n_head, self.size = d_out, num_heads, d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
"""
EINSUM = f"""{INIT}
    def forward(self, x):
        B, T, _ = x.shape
        q = self.W_query(x).reshape(B, T, self.n_head, self.size)
        k = self.W_key(x).reshape(B, T, self.n_head, self.size)
        v = self.W_value(x).reshape(B, T, self.n_head, self.size)
        att = torch.einsum("bihd,bjhd->bhij", q, k)
        att = att * self.size ** -0.5
        keep = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        att = torch.where(keep, att, float("-inf"))
        att = self.dropout(att.softmax(-1))
        y = torch.einsum("bhij,bjhd->bihd", att, v)
        y = y.reshape(B, T, self.d_out)
        return self.out_proj(y)
"""
HEADS_LAST = f"""{INIT}
    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = (f(x).unflatten(2, (self.n_head, self.size)) for f in (self.W_query, self.W_key, self.W_value))
        att = torch.einsum("bihd,bjhd->bijh", q, k) / math.sqrt(self.size)
        pos = torch.arange(T)
        hide = pos[None, :] > pos[:, None]
        att = att.masked_fill(hide[None, :, :, None], -torch.inf)
        att = torch.softmax(att, dim=2)
        att = self.dropout(att)
        y = torch.einsum("bijh,bjhd->bihd", att, v)
        return self.out_proj(y.flatten(2))
"""
LOOP = f"""{INIT}
    def forward(self, x):
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        T = x.size(1)
        outs = []
        for h in range(self.n_head):
            cols = slice(h * self.size, (h + 1) * self.size)
            qh = q[:, :, cols]
            kh = k[:, :, cols]
            vh = v[:, :, cols]
            s = qh @ kh.transpose(-2, -1)
            s = s / self.size ** 0.5
            s = s + torch.full((T, T), float("-inf"), dtype=s.dtype).triu(1)
            a = self.dropout(torch.softmax(s, -1))
            outs.append(a @ vh)
        y = torch.cat(outs, -1)
        return self.out_proj(y)
"""
FLAT = f"""{INIT}
    def fold(self, t):
        B, T, _ = t.shape
        t = t.view(B, T, self.n_head, self.size)
        t = t.permute(0, 2, 1, 3)
        return t.reshape(B * self.n_head, T, self.size)

    def forward(self, x):
        B, T, _ = x.shape
        q = self.fold(self.W_query(x))
        k = self.fold(self.W_key(x))
        v = self.fold(self.W_value(x))
        q = q * self.size ** -0.5
        mask = torch.triu(torch.full((T, T), -torch.inf, dtype=x.dtype), diagonal=1)
        w = torch.baddbmm(mask.expand(len(q), T, T), q, k.transpose(1, 2))
        w = nn.functional.softmax(w, dim=-1)
        w = nn.functional.dropout(w, self.dropout.p, self.training)
        y = torch.bmm(w, v)
        y = y.view(B, self.n_head, T, self.size)
        y = y.transpose(1, 2).contiguous().view(B, T, -1)
        return self.out_proj(y)
"""
NANO = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0
        self.W_qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.attn_dropout = nn.Dropout(dropout)
        self.n_head, self.n_embd = num_heads, d_out
        self.register_buffer("tri", torch.tril(torch.ones(context_length, context_length))
                                    .view(1, 1, context_length, context_length))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.W_qkv(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, self.n_embd // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, self.n_embd // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, self.n_embd // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.tri[:, :, :T, :T] == 0, float("-inf"))
        att = torch.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, self.n_embd)
        y = self.out_proj(y)
        return y
"""
FUNCTION = f"""{INIT}
    def forward(self, x):
        B, T, _ = x.shape
        heads = [f(x).view(B, T, self.n_head, -1).transpose(1, 2)
                 for f in (self.W_query, self.W_key, self.W_value)]
        may_attend = torch.tril(torch.ones(T, T, dtype=torch.bool))
        p = self.dropout.p if self.training else 0.0
        y = nn.functional.scaled_dot_product_attention(*heads, attn_mask=may_attend, dropout_p=p)
        y = y.transpose(1, 2)
        y = y.flatten(-2)
        return self.out_proj(y)
"""
BY_HAND = f"""\
{LAYERS.format("")}        self.p = dropout

    def soft(self, s):
        e = torch.exp(s - s.max(dim=-1, keepdim=True).values)
        return e / e.sum(dim=-1, keepdim=True)

    def forward(self, x):
        Q = self.W_query(x)
        K = self.W_key(x)
        V = self.W_value(x)
        S = torch.matmul(Q, K.permute(0, 2, 1))
        S = S / (Q.shape[-1] ** 0.5)
        n = x.shape[1]
        for i in range(n):
            S[:, i, i + 1:] = -torch.inf
        A = self.soft(S)
        if self.training and self.p > 0:
            A = A * (torch.rand_like(A) >= self.p) / (1 - self.p)
        return torch.matmul(A, V)
"""
BROADCAST = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.d_out = d_out
        self.W_query = nn.Linear(d_in, d_out, qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, qkv_bias)
        self.drop = nn.Dropout(dropout)
        future = torch.ones(context_length, context_length).triu(1).bool()
        self.register_buffer("future", future, persistent=False)

    def forward(self, inputs):
        n = inputs.shape[-2]
        query = self.W_query(inputs) * self.d_out ** -0.5
        key = self.W_key(inputs)
        value = self.W_value(inputs)
        score = (query[:, :, None, :] * key[:, None, :, :]).sum(dim=-1)
        score[:, self.future[:n, :n]] = float("-inf")
        alpha = self.drop(score.softmax(dim=2))
        out = (alpha[..., None] * value[:, None, :, :]).sum(dim=2)
        return out
"""
ROW_BY_ROW = f"""\
{LAYERS.format("")}        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        result = torch.zeros_like(values)
        for t in range(x.shape[1]):
            past = slice(0, t + 1)
            score = torch.einsum("bd,bsd->bs", queries[:, t], keys[:, past])
            score = score * queries.shape[-1] ** -0.5
            weight = self.drop(score.softmax(dim=1))
            result[:, t] = torch.einsum("bs,bsd->bd", weight, values[:, past])
        return result
"""
OWN_HEADS = """\
class Head(nn.Module):
    def __init__(self, d_in, d_out, length, dropout, bias):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=bias)
        self.W_key = nn.Linear(d_in, d_out, bias=bias)
        self.W_value = nn.Linear(d_in, d_out, bias=bias)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        s = q @ k.mT * k.size(-1) ** -0.5
        ahead = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        w = self.drop(s.masked_fill(ahead, -math.inf).softmax(-1))
        return w @ v


class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.heads = nn.ModuleList()
        for _ in range(num_heads):
            self.heads.append(Head(d_in, d_out, context_length, dropout, qkv_bias))

    def forward(self, x):
        parts = []
        for head in self.heads:
            parts.append(head(x))
        joined = torch.cat(parts, dim=2)
        return joined
"""
MATRICES = """\
class Mine(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout):
        super().__init__()
        self.d_out = d_out
        self.W_query = nn.Parameter(torch.randn(d_in, d_out) / d_in ** 0.5)
        self.W_key = nn.Parameter(torch.randn(d_in, d_out) / d_in ** 0.5)
        self.W_value = nn.Parameter(torch.randn(d_in, d_out) / d_in ** 0.5)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        q = x @ self.W_query
        k = x @ self.W_key
        v = x @ self.W_value
        omega = q @ k.transpose(1, 2)
        omega = omega.masked_fill(torch.ones(x.shape[1], x.shape[1]).triu(1) == 1, -torch.inf)
        alpha = torch.softmax(omega / self.d_out ** 0.5, dim=-1)
        alpha = self.drop(alpha)
        return alpha @ v
"""


class Style(NamedTuple):
    """A right class, the check that it must pass, and how the check is called."""

    check: object
    text: str
    options: dict
    slips: dict[str, Slip]


STYLES: dict[str, Style] = {
    "einsum": Style(check_weight_split, EINSUM, {}, {
        "scores over the wrong letter": Slip('"bihd,bjhd->bhij", q, k', '"bihd,bjhd->bhji", q, k', "scores.transposed"),
        "queries with queries": Slip('->bhij", q, k)', '->bhij", q, q)', "scores.pair"),
        "summed over heads": Slip('"bihd,bjhd->bhij", q, k)', '"bihd,bjgd->bhij", q, k)', "scores.wrong", "bjgd"),
        "no scale": Slip("        att = att * self.size ** -0.5\n", "", "scale.none", "bihd,bjhd->bhij"),
        "multiplied": Slip("self.size ** -0.5", "self.size ** 0.5", "scale.times"),
        "sigmoid": Slip("att.softmax(-1)", "att.sigmoid()", "softmax.other"),
        "values wrong": Slip('"bhij,bjhd->bihd", att, v', '"bhij,bihd->bjhd", att, v', "weights.transposed"),
        "keys mixed": Slip("->bihd\", att, v)", "->bihd\", att, k)", "values.other"),
        "heads scrambled": Slip("y = y.reshape(B, T, self.d_out)", "y = y.transpose(1, 2).reshape(B, T, self.d_out)", "merge.mixed"),
        "residual": Slip("return self.out_proj(y)", "return self.out_proj(y) + y", "context.changed"),
        "dropout on result": Slip("return self.out_proj(y)", "return self.dropout(self.out_proj(y))", "dropout.twice"),
        "no dropout": Slip("self.dropout(att.softmax(-1))", "att.softmax(-1)", "dropout.none"),
        "default p": Slip("nn.Dropout(dropout)", "nn.Dropout()", "dropout.share", "nn.Dropout()"),
        "normed x": Slip("B, T, _ = x.shape", "B, T, _ = x.shape; x = nn.functional.layer_norm(x, x.shape[-1:])", "x.changed", "layer_norm"),
        "centered": Slip("        q = self", "        x = x - x.mean(dim=1, keepdim=True)\n        q = self", "x.changed", "mean"),
        "noise": Slip('bhij", q, k)', 'bhij", q, k) + 1e-3 * torch.randn(1)', "random"),
    }),
    "heads last": Style(check_weight_split, HEADS_LAST, {}, {
        "window": Slip("pos[None, :] > pos[:, None]", "(pos[None, :] > pos[:, None]) | (pos[:, None] - pos[None, :] > 2)", "mask.too-much"),
        "twice": Slip("/ math.sqrt(self.size)", "/ math.sqrt(self.size) / math.sqrt(self.size)", "scale.no-root"),
        "queries and keys": Slip("q, k, v = (f", "k, q, v = (f", "parts.swapped"),
        "mask not kept": Slip("att = att.masked_fill(", "att.masked_fill(", "mask.unused"),
        "averaged heads": Slip("self.out_proj(y.flatten(2))", "self.out_proj(y.mean(2).repeat(1, 1, self.n_head))", "merge.added"),
    }),
    "loop over heads": Style(check_weight_split, LOOP, {}, {
        "same head": Slip("slice(h * self.size, (h + 1) * self.size)", "slice(0, self.size)", "merge.repeated"),
        "every third": Slip("slice(h * self.size, (h + 1) * self.size)", "slice(h, None, self.n_head)", "split.columns"),
        "values shifted": Slip("vh = v[:, :, cols]", "vh = v[:, :, cols].roll(1, dims=1)", "order"),
        "reversed": Slip("torch.cat(outs, -1)", "torch.cat(outs[::-1], -1)", "merge.order"),
        "sums": Slip("torch.cat(outs, -1)", "torch.stack(outs).sum(0).repeat(1, 1, self.n_head)", "merge.added"),
        "value heads one off": Slip("outs.append(a @ vh)", "outs.append(a @ v[:, :, :self.size])", "scores.apart", "v[:, :, :self.size]"),
        "additive -10": Slip('float("-inf"), dtype', "-10.0, dtype", "mask.fill", "s = s +"),
        "mask added after": Slip("a = self.dropout(torch.softmax(s, -1))", "a = self.dropout(torch.softmax(s, -1)) * 2", "multiplied"),
        "first key only": Slip("kh = k[:, :, cols]", "kh = k[:, :1, cols].expand_as(qh)", "softmax.axis", "-"),
    }),
    "flattened heads": Style(check_weight_split, FLAT, {}, {
        "view across": Slip("t = t.view(B, T, self.n_head, self.size)\n        t = t.permute(0, 2, 1, 3)", "t = t.view(B, self.n_head, T, self.size)", "split.mixed"),
        "heads before texts": Slip("y = y.view(B, self.n_head, T, self.size)", "y = y.view(self.n_head, B, T, self.size).transpose(0, 1)", "merge.texts"),
        "scale of d_out": Slip("q * self.size ** -0.5", "q * self.d_out ** -0.5", "scale.width"),
        "both scaled": Slip("k = self.fold(self.W_key(x))", "k = self.fold(self.W_key(x)) * self.size ** -0.5", "scale.no-root", "-"),
        "mask of zeros": Slip("-torch.inf, dtype=x.dtype", "0.0, dtype=x.dtype", "mask.empty", "-"),
        "query for key": Slip("k = self.fold(self.W_key(x))", "k = self.fold(self.W_query(x))", "parts.swapped"),
        "detached": Slip("k.transpose(1, 2))", "k.transpose(1, 2).detach())", "gradient"),
    }),
    "fused": Style(check_weight_split, NANO, {}, {
        "order": Slip("q, k, v = self.W_qkv(x)", "k, v, q = self.W_qkv(x)", "parts.swapped"),
        "tri inverted": Slip("[:, :, :T, :T] == 0", "[:, :, :T, :T] == 1", "mask.inverted"),
        "triu": Slip("torch.tril(torch.ones", "torch.triu(torch.ones", "mask.past"),
        "positive": Slip('float("-inf")', 'float("inf")', "mask.fill"),
        "wrong axis": Slip("math.sqrt(k.size(-1))", "math.sqrt(k.size(1))", "scale.width"),
        "v by columns": Slip("v = v.view(B, T, self.n_head, self.n_embd // self.n_head).transpose(1, 2)", "v = v.view(B, T, self.n_embd // self.n_head, self.n_head).permute(0, 3, 1, 2)", "split.columns"),
        "log": Slip("torch.softmax(att, dim=-1)", "torch.log_softmax(att, dim=-1)", "softmax.other"),
        "twice softmax": Slip("att = self.attn_dropout(att)", "att = self.attn_dropout(att).softmax(-1)", "weights.changed"),
        "projected twice": Slip("        return y\n", "        return self.out_proj(y)\n", "out_proj.twice"),
        "relu result": Slip("y = self.out_proj(y)", "y = self.out_proj(y).relu()", "result.changed"),
        "y not moved": Slip("y.transpose(1, 2).contiguous().view", "y.contiguous().view", "merge.mixed"),
    }),
    "torch's function": Style(check_weight_split, FUNCTION, {}, {
        "mask the wrong way": Slip("torch.tril(torch.ones(T, T, dtype=torch.bool))", "torch.triu(torch.ones(T, T, dtype=torch.bool), 1)", "mask.inverted", "scaled_dot"),
        "no mask": Slip("attn_mask=may_attend", "attn_mask=None", "mask.none"),
        "scale": Slip("dropout_p=p)", "dropout_p=p, scale=1.0)", "scale.none"),
        "scale d_out": Slip("dropout_p=p)", "dropout_p=p, scale=self.d_out ** -0.5)", "scale.width"),
        "drops in eval": Slip("self.dropout.p if self.training else 0.0", "self.dropout.p", "dropout.eval", "scaled_dot"),
        "order": Slip("(self.W_query, self.W_key, self.W_value)", "(self.W_key, self.W_query, self.W_value)", "parts.twice", "scaled_dot"),
        "upper": Slip("torch.tril(torch", "torch.triu(torch", "mask.past"),
        "one late": Slip("dtype=torch.bool))", "dtype=torch.bool), 1)", "mask.late"),
        "tril -1": Slip("dtype=torch.bool))", "dtype=torch.bool), -1)", "mask.diagonal"),
        "float mask": Slip("dtype=torch.bool))", "dtype=x.dtype))", "mask.added"),
    }),
    "by hand": Style(check_causal_attention, BY_HAND, {}, {
        "sum over the queries": Slip("e.sum(dim=-1, keepdim=True)", "e.sum(dim=-2, keepdim=True)", "softmax.by-hand", ""),
        "no sum": Slip("return e / e.sum(dim=-1, keepdim=True)", "return e", "softmax.unfinished", "exp"),
        "loop one late": Slip("i + 1:]", "i + 2:]", "mask.late"),
        "loop from i": Slip("i + 1:]", "i:]", "mask.diagonal"),
        "columns": Slip("S[:, i, i + 1:]", "S[:, i + 1:, i]", "mask.past"),
        "scale": Slip("(Q.shape[-1] ** 0.5)", "(x.shape[-1] ** 0.5)", "scale.width"),
        "keeps p": Slip(">= self.p", "< self.p", "dropout.share"),
        "one text": Slip("torch.rand_like(A) >=", "torch.rand_like(A[:1]) >=", "dropout.together"),
        "in eval": Slip("if self.training and self.p > 0", "if self.p > 0", "dropout.eval", "rand_like"),
        "K": Slip("torch.matmul(A, V)", "torch.matmul(A, K)", "values.other"),
        "transposed": Slip("torch.matmul(Q, K.permute(0, 2, 1))", "torch.matmul(K, Q.permute(0, 2, 1))", "scores.transposed"),
        "squares": Slip("torch.matmul(Q, K.permute(0, 2, 1))", "torch.matmul(Q, K.permute(0, 2, 1)) ** 2", "scores.changed"),
        "cosine": Slip("Q = self.W_query(x)", "Q = nn.functional.normalize(self.W_query(x), dim=-1)", "parts.changed"),
        "abs": Slip("S = S / (Q", "S = S.abs() / (Q", "scores.changed"),
        "negative": Slip("torch.matmul(Q, K.permute(0, 2, 1))", "-torch.matmul(Q, K.permute(0, 2, 1))", "scale.sign"),
    }),
    "broadcast": Style(check_causal_attention, BROADCAST, {}, {
        "softmax": Slip("score.softmax(dim=2)", "score.softmax(dim=1)", "softmax.axis"),
        "mean for sum": Slip("key[:, None, :, :]).sum(dim=-1)", "key[:, None, :, :]).mean(dim=-1)", "scale.wrong", "query = "),
        "swapped axes": Slip("query[:, :, None, :] * key[:, None, :, :]", "query[:, None, :, :] * key[:, :, None, :]", "scores.transposed"),
        "over the queries": Slip("value[:, None, :, :]).sum(dim=2)", "value[:, :, None, :]).sum(dim=1)", "context.wrong"),
        "value for key": Slip("key = self.W_key(inputs)", "key = self.W_value(inputs)", "parts.swapped"),
        "zero": Slip('float("-inf")', "0", "mask.fill"),
        "future inverted": Slip("self.future[:n, :n]", "~self.future[:n, :n]", "mask.inverted"),
        "triu 2": Slip(".triu(1)", ".triu(2)", "mask.late"),
        "d_out once more": Slip("self.d_out ** -0.5", "self.d_out ** -1", "scale.no-root"),
    }),
    "row by row": Style(check_causal_attention, ROW_BY_ROW, {}, {
        "all": Slip("slice(0, t + 1)", "slice(0, None)", "mask.rows", "-"),
        "without itself": Slip("slice(0, t + 1)", "slice(0, max(t, 1))", "mask.rows", "-"),
        "window of two": Slip("slice(0, t + 1)", "slice(max(0, t - 1), t + 1)", "mask.rows", "-"),
        "no scale": Slip("            score = score * queries.shape[-1] ** -0.5\n", "", "scale.none", "einsum"),
        "scale by t": Slip("queries.shape[-1] ** -0.5", "(t + 1) ** -0.5", "scale.wrong", ""),
        "batch": Slip("score.softmax(dim=1)", "score.softmax(dim=0)", "softmax.axis", ""),
        "queries": Slip('->bd", weight, values', '->bd", weight, queries', "values.other"),
    }),
    "own heads": Style(check_stacked_heads, OWN_HEADS, {}, {
        "last head only": Slip("parts.append(head(x))", "parts.append(self.heads[-1](x))", "merge.repeated"),
        "no scale": Slip(" * k.size(-1) ** -0.5", "", "scale.none", "q @ k.mT"),
        "scale by tokens": Slip("k.size(-1) ** -0.5", "k.size(-2) ** -0.5", "scale.width"),
        "leaks": Slip(".triu(1)", ".triu(2)", "mask.late"),
        "tied keys": Slip("self.W_key = nn.Linear(d_in, d_out, bias=bias)", "self.W_key = self.W_query", "parameters.shared", "-"),
    }),
    "matrices": Style(check_causal_attention, MATRICES, {"skip": ("qkv_bias",)}, {
        "no root": Slip("self.d_out ** 0.5", "self.d_out", "scale.no-root"),
        "precedence": Slip("self.d_out ** 0.5", "self.d_out ** 1 / 2", "scale.half"),
        "axis": Slip("dim=-1", "dim=1", "softmax.axis"),
        "twice the same": Slip("v = x @ self.W_value", "v = x @ self.W_key", "parts.swapped"),
        "mask after": Slip("alpha = self.drop(alpha)", "alpha = self.drop(alpha.tril(-1))", "weights.changed"),
        "not dropped": Slip("        alpha = self.drop(alpha)\n", "", "dropout.none", "softmax"),
        "zeros": Slip("torch.randn(d_in, d_out) / d_in ** 0.5)\n        self.W_key", "torch.zeros(d_in, d_out))\n        self.W_key", "init.values", "zeros"),
    }),
}  # fmt: skip
