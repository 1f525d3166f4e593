"""Classes whose fault shows elsewhere than where it is: in a loop, a helper, a name, the notebook.

Each is a right class with some text replaced, what must be found, and words of the line to quote.
"""

# ruff: noqa: E501  # a table: one slip on a line

import torch
from torch import nn

from attnlib import CausalAttention, causal_mask
from support.many_styles import BY_HAND, EINSUM, FLAT, LOOP, NANO, ROW_BY_ROW
from support.wrong_classes import LAYERS, ONE_HEAD, SPLIT, STACKED, WITHOUT_MASK, several

PRIOR = SPLIT.replace(
    "        context = (weights @ values).transpose(1, 2).flatten(2)\n",
    "        rows, at = torch.zeros_like(values), 0\n"
    "        while at < t:\n"
    "            rows[:, :, at] = (weights[:, :, at : at + 1] @ values).squeeze(2)\n"
    "            at += 1\n"
    "        context = rows.transpose(1, 2).flatten(2)\n",
)
LINEAR = SPLIT.replace(
    "self.W_value(x).view", "nn.functional.linear(x, self.W_value.weight, self.W_value.bias).view"
)
BUFFER = ONE_HEAD.replace(
    "        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)\n",
    "        hide = self.mask.bool()[:num_tokens, :num_tokens]\n"
    "        scores = scores.masked_fill(hide, -torch.inf)\n",
)
SUMMED = BY_HAND.replace(
    "        for i in range(n):\n            S[:, i, i + 1:] = -torch.inf\n        A = self.soft(S)\n",
    "        past = torch.ones(n, n, dtype=S.dtype).tril()\n"
    "        powers = (S - S.amax(-1, True)).exp()\n"
    "        powers = powers * past\n"
    "        whole = powers.sum(-1, keepdim=True)\n"
    "        A = powers / whole\n",
)


TRIANGLE = "        mask = torch.triu(torch.ones(context_length, context_length), diagonal=1)\n"
MASK_LOOP = """\
        mask = torch.zeros(context_length, context_length)
        for i in range(context_length):
            for j in range(i + 1, context_length):
                mask[i, j] = -torch.inf
"""
FILL = "scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)"
BY_LOOP = ONE_HEAD.replace(TRIANGLE, MASK_LOOP).replace(
    FILL, "scores = scores + self.mask[:num_tokens, :num_tokens].to(x.dtype)"
)
LOOP_OVER_HEADS = STACKED.replace(
    "        return torch.cat([head(x) for head in self.heads], dim=-1)\n",
    "        parts = []\n"
    "        for head in self.heads:\n"
    "            made = head(x)\n"
    "            parts.append(made)\n"
    "        return torch.cat(parts, dim=-1)\n",
)
WRITTEN = STACKED.replace(
    "        return torch.cat([head(x) for head in self.heads], dim=-1)\n",
    "        result = x.new_zeros(*x.shape[:2], 19 * len(self.heads))\n"
    "        for h in range(len(self.heads)):\n"
    "            result[:, :, 19 * h : 19 * h + 19] = self.heads[h](x)\n"
    "        return result\n",
)


SDPA_HEAD = several(
    ONE_HEAD,
    (
        ONE_HEAD[ONE_HEAD.index("        scores = queries") : ONE_HEAD.index("        return con")],
        "        p = self.drop.p if self.training else 0.0\n"
        "        context = nn.functional.scaled_dot_product_attention(\n"
        "            queries, keys, values, is_causal=True, dropout_p=p\n"
        "        )\n",
    ),
)
# What the notebooks have when the class is written
NOTEBOOK = {
    "d_out": 2,
    "b": 1,
    "num_tokens": 6,
    "num_heads": 2,
    "head_dim": 2,
    "batch": torch.ones(2, 6, 3),
    "place": torch.arange(6),
    "is_future": causal_mask(6),
    "causal_mask": causal_mask,
    "W_query": nn.Linear(3, 2, bias=False),
    "attn_weights": torch.full((6, 6), 1 / 6),
    "context_vec": torch.ones(2, 6, 4),
    "head_0": CausalAttention(3, 2, 6, 0.0),
    "Z0": torch.ones(2, 6, 2),
    "Z1": torch.ones(2, 6, 2),
}
HEAD = f"""{LAYERS.format("")}        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = queries @ keys.transpose(-2, -1) / keys.shape[-1] ** 0.5
        place = torch.arange(x.shape[1])
        is_future = place[None, :] > place[:, None]
        hidden = scores.masked_fill(is_future, -torch.inf)
        weights = self.dropout(torch.softmax(hidden, dim=-1))
        return weights @ values
"""
OWN_SPLIT = f"""{LAYERS.format("num_heads, ")}        self.dropout = nn.Dropout(dropout)
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.out_proj = nn.Linear(d_out, d_out)

    def split(self, made):
        b, num_tokens, _ = made.shape
        return made.view(b, num_tokens, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x):
        num_tokens = x.shape[1]
        queries = self.split(self.W_query(x))
        keys = self.split(self.W_key(x))
        values = self.split(self.W_value(x))
        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        is_future = causal_mask(num_tokens)
        scores = scores.masked_fill(is_future, -torch.inf)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        return self.out_proj((weights @ values).transpose(1, 2).flatten(2))
"""

BASES = (PRIOR, LINEAR, BUFFER, SUMMED, BY_LOOP, LOOP_OVER_HEADS, WRITTEN, SDPA_HEAD)
BASES += (HEAD, OWN_SPLIT)

# name: (text, [(right, wrong), ...], kind, words of the line, variables of the notebook)
BEHIND = {
    "columns dealt out": (NANO, [("k.view(B, T, self.n_head, self.n_embd // self.n_head)", "k.view(B, T, self.n_embd // self.n_head, self.n_head).transpose(2, 3)")], "split.columns", "k = k.view(", {}),
    "columns that overlap": (LOOP, [("slice(h * self.size, (h + 1) * self.size)", "slice(h, h + self.size)")], "split.missing", "slice(", {}),
    "heads like tokens": (LOOP, [("y = torch.cat(outs, -1)", "y = torch.cat(outs, 1).view(*x.shape[:2], -1)")], "merge.axis", "torch.cat(outs, 1)", {}),
    "a loop without the last head": (LOOP, [("outs = []", "y = torch.zeros_like(q)"), ("outs.append(a @ vh)", "y[..., cols] = a @ vh"), ("        y = torch.cat(outs, -1)\n", ""), ("range(self.n_head)", "range(self.n_head - 1)")], "result.unwritten", "range(self.n_head - 1)", {}),
    "columns written apart": (LOOP, [("y = torch.cat(outs, -1)", "y = torch.zeros_like(x[..., :1]).repeat(1, 1, 57)\n        for h, out in enumerate(outs):\n            y[..., h::3] = out")], "merge.alternating", "y[..., h::3]", {}),
    "a slice of x": (STACKED, [("head(x) for head in self.heads", "head(part) for head, part in zip(self.heads, x.chunk(3, -1))")], "heads.part", "x.chunk(3, -1)", {}),
    "the last head first": (LOOP_OVER_HEADS, [("for head in self.heads:", "for i in range(len(self.heads)):"), ("head(x)", "self.heads[i - 1](x)")], "merge.order", "self.heads[i - 1](x)", {}),
    "heads sorted by name": (LOOP_OVER_HEADS, [("for head in self.heads:", "for _, head in sorted(self.heads.named_children()):")], "heads.many", "sorted(", {}),
    "texts one after the other": (FLAT, [("t = t.view(B, T, self.n_head, self.size)\n        t = t.permute(0, 2, 1, 3)\n        return t.reshape(B * self.n_head, T, self.size)", "return t.view(B * T, self.n_head, self.size).transpose(0, 1)"), ("mask.expand(len(q), T, T)", "torch.zeros(len(q), B * T, B * T)")], "split.texts", "B * T", {}),
    "x is added": (SPLIT, [("self.out_proj(context)", "self.out_proj(context) + x")], "error.residual", "+ x", {}),
    "a layer called as it is made": (ONE_HEAD, [("torch.softmax(scores, dim=-1)", "nn.Softmax(scores, dim=-1)")], "error.layer-made", "nn.Softmax(", {}),
    "a text that is cropped": (ONE_HEAD, [("        num_tokens = x.shape[1]\n", "        x = x[:, : len(self.mask)]\n        num_tokens = x.shape[1]\n")], "length.cropped", "x = x[:, : len(self.mask)]", {}),
    "a mask cut for good": (ONE_HEAD, [("        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)\n", "        self.mask = self.mask[:num_tokens, :num_tokens]\n        scores.masked_fill_(self.mask.bool(), -torch.inf)\n"), ("if num_tokens > len(self.mask)", "if False")], "state.kept", "self.mask = self.mask[:num_tokens", {}),
    "a loop without the last": (WRITTEN, [("range(len(self.heads))", "range(len(self.heads) - 1)")], "heads.not-run", "range(len(self.heads) - 1)", {}),
    "a step of two": (PRIOR, [("at += 1", "at += 2")], "result.unwritten", "rows[:, :, at]", {}),
    "a mask cut once": (BUFFER, [("self.mask.bool()[:num_tokens, :num_tokens]", "self.mask.bool()[:, :num_tokens]")], "mask.cut", "hide = self.mask.bool()[:, :num_tokens]", {}),
    "texts instead of tokens": (BUFFER, [("num_tokens = x.shape[1]", "num_tokens, texts, _ = x.shape"), ("if num_tokens > len(self.mask)", "if False")], "size.other", "texts, _ = ", {}),
    "no bias": (LINEAR, [("self.W_value.weight, self.W_value.bias", "self.W_value.weight")], "projection.bias", "nn.functional.linear(x, self.W_value.weight)", {}),
    "no bias, which changes no weight": (SPLIT, [("self.W_key(x).view", "nn.functional.linear(x, self.W_key.weight).view")], "gradient.bias", "nn.functional.linear(x, self.W_key.weight)", {}),
    "summed over the queries": (SUMMED, [("powers.sum(-1, keepdim=True)", "powers.sum(1, keepdim=True)")], "softmax.axis", "A = powers / whole", {}),
    "summed before": (SUMMED, [("        powers = powers * past\n        whole = powers.sum(-1, keepdim=True)\n", "        whole = powers.sum(-1, keepdim=True)\n        powers = powers * past\n")], "mask.after-softmax", "powers * past", {}),
    "eval in forward": (SPLIT, [("        b, t, _ = x.shape\n", "        b, t, _ = x.shape\n        self.train(False)\n")], "mode.changed", "self.train(False)", {}),
    "a new layer in each call": (SPLIT, [("self.drop(scores.softmax(dim=-1))", "nn.Dropout(self.drop.p)(scores.softmax(dim=-1))")], "dropout.eval", "nn.Dropout(self.drop.p)", {}),
    "sums after dropout": (NANO, [("        y = att @ v\n", "        att = att / (att.sum(-1, keepdim=True) + 1e-9)\n        y = att @ v\n")], "dropout.undone", "att.sum(-1", {}),
    "in place": (SPLIT, [("nn.Dropout(dropout)", "nn.Dropout(dropout, True)")], "gradient.in-place", "", {}),
    "no buffer": (ONE_HEAD, [('self.register_buffer("mask", mask)', "self.mask = mask")], "mask.no-buffer", "self.mask = mask", {}),
    "zeros are padding": (SPLIT, [("        weights = self.drop", "        empty = (x == 0).all(-1)[:, None, None]\n        scores = scores.masked_fill(empty, -1e30)\n        weights = self.drop")], "mask.too-much", "masked_fill(empty", {}),
    "copied heads": (STACKED, [("for _ in range(num_heads)])", "for _ in range(num_heads)])\n        for head in self.heads[1:]:\n            head.load_state_dict(self.heads[0].state_dict())")], "init.equal", "load_state_dict", {}),
    "zeros at the beginning": (SPLIT, [("        self.drop = ", "        self.W_key.weight.data.fill_(0)\n        self.drop = ")], "init.values", "self.W_key.weight.data.fill_(0)", {}),
    "an assertion the other way round": (NANO, [("assert d_out % num_heads == 0", "assert num_heads % d_out == 0")], "error", "assert num_heads", {}),
    "refuses what is shorter": (ONE_HEAD, [("if num_tokens > len(self.mask)", "if num_tokens < len(self.mask)")], "error.refused", "raise ValueError", {}),
    "an argument too many": (ONE_HEAD, [("def forward(self, x):", "def forward(self, x, padding):")], "error.arguments", "def forward(self, x, padding", {}),
    "less comes out": (SPLIT, [("        b, t, _ = x.shape\n", "        x = x[:, 1:]\n        b, t, _ = x.shape\n")], "result.cropped", "x = x[:, 1:]", {}),
    "a loop that begins early": (BY_LOOP, [("range(i + 1,", "range(i,")], "mask.diagonal", "mask[i, j]", {}),
    "one row for all": (BY_LOOP, [("[:num_tokens, :num_tokens].to", "[num_tokens - 1, :num_tokens].to")], "mask.empty", "[num_tokens - 1", {}),
    "a scale from the constructor": (ONE_HEAD, [(TRIANGLE, TRIANGLE + "        self.scale = d_in**-0.5\n"), ("scores / keys.shape[-1] ** 0.5", "scores * self.scale")], "scale.width", "self.scale = d_in**-0.5", {}),
    "a root of scores": (ONE_HEAD, [("scores / keys.shape[-1] ** 0.5", "(scores / keys.shape[-1]) ** 0.5")], "mask.nan", "** 0.5", {}),
    "values changed": (ONE_HEAD, [("self.W_query(x), self.W_value(x)", "self.W_query(x), self.W_value(x).relu()")], "parts.changed", "relu", {}),
    "a return in the loop": (LOOP_OVER_HEADS, [("        return torch.cat(parts", "            return torch.cat(parts")], "loop.return", "return torch.cat(parts, dim=-1)", {}),
    "a list made anew": (LOOP_OVER_HEADS, [("        parts = []\n", ""), ("            made =", "            parts = []\n            made =")], "merge.some-heads", "", {}),
    "a list on self": (LOOP_OVER_HEADS, [("sizes = d_in,", "self.parts = []\n        sizes = d_in,"), ("        parts = []\n        for", "        parts = self.parts\n        for")], "state.kept", "parts = self.parts", {}),
    "columns never written": (WRITTEN, [("result[:, :, 19 * h : 19 * h + 19]", "result[:, :, :19]")], "result.unwritten", "result[:, :, :19]", {}),
    "heads in a chain of modules": (STACKED, [("nn.ModuleList([", "nn.Sequential(*["), ("torch.cat([head(x) for head in self.heads], dim=-1)", "self.heads(x)")], "heads.chained", "self.heads(x)", {}),
    "one tensor twice": (SDPA_HEAD, [("queries, keys, values, is", "queries, keys, keys, is")], "parts.twice", "keys, keys", {}),
    "scaled before": (SDPA_HEAD, [("queries, keys, values, is", "queries / 19**0.5, keys, values, is")], "scale.twice", "/ 19**0.5", {}),
    "a sum without keepdim": (BY_HAND, [("e.sum(dim=-1, keepdim=True)", "e.sum(dim=-1)")], "error.keepdim", "return e / e.sum(dim=-1)", {}),
    "a helper without return": (BY_HAND, [("        return e / e.sum", "        e / e.sum")], "error.none", "", {}),
    "a number that is called": (ONE_HEAD, [("self.drop = nn.Dropout(dropout)", "self.drop = dropout")], "error.number-called", "self.drop(weights)", {}),
    "arguments that changed places": (STACKED, [("CausalAttention(*sizes)", "CausalAttention(d_in, d_out, dropout, context_length)")], "error", "CausalAttention(d_in, d_out, dropout, context_length)", {}),
    "a share for all heads": (STACKED, [("CausalAttention(*sizes)", "CausalAttention(d_in, d_out, context_length, dropout / num_heads, qkv_bias)")], "heads.argument", "dropout / num_heads", {}),
    "a share for each token": (ONE_HEAD, [("nn.Dropout(dropout)", "nn.Dropout(dropout / 5)")], "dropout.share", "dropout / 5", {}),
    "an argument not passed on": (STACKED, [("CausalAttention(*sizes)", "CausalAttention(d_in, d_out, context_length, dropout)")], "parameters.bias-never", "context_length, dropout)", {}),
    "three parts in another order": (NANO, [("split(self.n_embd, dim=2)", "unflatten(2, (self.n_head, 3, -1)).unbind(3)")] + [(f"{n} = {n}.view(B, T, self.n_head, self.n_embd // self.n_head).tr", f"{n} = {n}.tr") for n in "kqv"], "split.parts", "q, k, v =", {}),
    "a row that sees no token": (ROW_BY_ROW, [("slice(0, t + 1)", "slice(0, t)")], "mask.empty-row", "keys[:, past]", {}),
    "keys of another head": (LOOP, [("kh = k[:, :, cols]", "kh = k[:, :, : self.size]")], "scores.apart", "kh = k[:, :, : self.size]", {}),
    "a mask kept for the first length": (ONE_HEAD, [("self.mask.bool()[:num_tokens, :num_tokens]", "self.cut"), ("        scores = queries @", "        if not hasattr(self, 'cut'):\n            self.cut = self.mask.bool()[:num_tokens, :num_tokens]\n        scores = queries @")], "state.kept", "self.cut =", {}),
    "scores that are 0 hidden": (ONE_HEAD, [("scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)", "scores = scores.masked_fill(scores.tril() == 0, -torch.inf)")], "mask.zeros", "tril() == 0", {}),
    "everything hidden": (ONE_HEAD, [("self.mask.bool()[", "(self.mask >= 0)[")], "mask.everything", ">= 0", {}),
    "divided after softmax": (ONE_HEAD, [("        scores = scores / keys.shape[-1] ** 0.5\n", ""), ("weights = torch.softmax(scores, dim=-1)", "weights = torch.softmax(scores, dim=-1) / keys.shape[-1] ** 0.5")], "scale.after-softmax", "softmax(scores, dim=-1) /", {}),
    "scores of heads added": (EINSUM, [('->bhij", q, k)', '->bij", q, k)[:, None].expand(B, self.n_head, T, T)')], "scores.summed", "bihd,bjhd->bij", {}),
    "a view for a transpose": (ONE_HEAD, [("keys.transpose(1, 2)", "keys.view(len(x), -1, num_tokens)")], "parts.changed", "keys.view", {}),
    "relu after the merge": (SPLIT, [(".transpose(1, 2).flatten(2)\n", ".transpose(1, 2).flatten(2).relu()\n")], "context.changed", "relu()", {}),
    "a reshape after the merge": (SPLIT, [("self.out_proj(context)", "self.out_proj(context.reshape(b, -1, t).transpose(1, 2))")], "context.changed", "reshape(b, -1, t)", {}),
    "a mask for each text": (SPLIT, [("torch.full((t, t)", "torch.full((b, t, t)")], "error.mask-dims", "torch.full((b, t, t)", {}),
    "new heads in forward": (STACKED, [("head(x) for head", "CausalAttention(head.d_in, head.d_out, 64, 0.0)(x) for head")], "random.layers", "64, 0.0", {}),
    "the notebook's width": (HEAD, [("keys.shape[-1] ** 0.5", "d_out**0.5")], "outside", "d_out**0.5", NOTEBOOK),
    "the notebook's width under a name": (HEAD, [("        scores = queries", "        root = d_out**0.5\n        scores = queries"), ("keys.shape[-1] ** 0.5", "root")], "outside", "root = d_out**0.5", NOTEBOOK),
    "the notebook's mask": (HEAD, [("        place = torch.arange(x.shape[1])\n        is_future = place[None, :] > place[:, None]\n", "")], "outside", "masked_fill", NOTEBOOK),
    "the notebook's result": (HEAD, [("return weights @ values", "return context_vec")], "outside", "return context_vec", NOTEBOOK),
    "the notebook's results": (STACKED, [("[head(x) for head in self.heads]", "(Z0, Z1)")], "outside", "(Z0, Z1)", NOTEBOOK),
    "the notebook's texts": (STACKED, [("head(x) for", "head(batch) for")], "outside", "head(batch)", NOTEBOOK),
    "the notebook's head width": (OWN_SPLIT, [("/ self.head_dim**0.5", "/ head_dim**0.5")], "outside", "/ head_dim**0.5", NOTEBOOK),
    "the notebook's number of heads": (OWN_SPLIT, [("self.num_heads, self.head_dim)", "num_heads, self.head_dim)")], "outside", "num_heads, self.head_dim)", NOTEBOOK),
    "the notebook's number of tokens": (OWN_SPLIT, [("        num_tokens = x.shape[1]\n", "")], "outside", "", NOTEBOOK),
    "a mask for 6": (HEAD, [("arange(x.shape[1])", "arange(6)")], "mask.length", "arange(6)", {}),
    "a mask for six tokens of the notebook": (OWN_SPLIT, [("causal_mask(num_tokens)", "causal_mask(6)")], "mask.length", "causal_mask(6)", NOTEBOOK),
    "a change before the mask": (SPLIT, [("* self.width**-0.5", "* self.width**-0.5\n        scores = scores.relu()")], "scores.changed", "relu", {}),
    "a penalty for distance": (SPLIT, [("* self.width**-0.5", "* self.width**-0.5\n        scores = scores - 0.1 * torch.arange(t, dtype=x.dtype)")], "scores.changed", "0.1", {}),
    "two pieces for three heads": (LOOP, [("range(self.n_head):", "range(2):"), ("slice(h * self.size, (h + 1) * self.size)", "slice(h * 29, h * 29 + 29)")], "split.missing", "slice(", {}),
    "tokens for columns": (LOOP, [("qh = q[:, :, cols]", "qh = q.chunk(self.n_head, 1)[h]"), ("kh = k[:, :, cols]", "kh = k.chunk(self.n_head, 1)[h]")], "split.tokens", "qh = q", {}),
    "a last column left out": (LOOP, [("outs = []", "y = torch.zeros_like(q)"), ("outs.append(a @ vh)", "y[..., cols] = a @ vh"), ("        y = torch.cat(outs, -1)\n", ""), ("(h + 1) * self.size)", "(h + 1) * self.size - 1)")], "split.missing", "slice(", {}),
    "x.shape in another order": (SPLIT, [("b, t, _ = x.shape", "t, b, _ = x.shape")], "split.swapped", "t, b, _ = x.shape", {}),
    "x added where it fits": (SPLIT, [("return self.out_proj(context)", "result = self.out_proj(context)\n        return result + x if result.shape == x.shape else result")], "result.changed", "+ x", {}),
    "x overwritten where it fits": (SPLIT, [("return self.out_proj(context)", "result = self.out_proj(context)\n        if result.shape == x.shape and not x.requires_grad:\n            x.copy_(result)\n        return result")], "x.in-place", "x.copy_", {}),
    "dropout not kept": (ONE_HEAD, [("weights = self.drop(weights)", "self.drop(weights)")], "dropout.unused", "self.drop(weights)", {}),
    "divided by what is dropped": (BY_HAND, [("/ (1 - self.p)", "/ self.p")], "dropout.not-grown", "/ self.p", {}),
    "dropout for bias": (SPLIT, [("self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)", "self.W_key = nn.Linear(d_in, d_out, dropout)")], "parameters.dropout", "d_out, dropout", {}),
    "a plain dict": (SPLIT, [("self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)", "self.layers = {'q': nn.Linear(d_in, d_out, bias=qkv_bias)}"), ("self.W_query(x)", "self.layers['q'](x)")], "parameters.plain-list", "self.layers =", {}),
    "~ of whole numbers": (ONE_HEAD, [(FILL, "scores.masked_fill_((~self.mask.int())[:num_tokens, :num_tokens].bool(), -torch.inf)")], "mask.turned", "~self.mask", {}),
    "0 times inf in the constructor": (ONE_HEAD, [(TRIANGLE, TRIANGLE + "        mask = mask * -torch.inf\n"), (FILL, "scores = scores + self.mask[:num_tokens, :num_tokens]")], "mask.nan", "mask = mask * -torch.inf", {}),
    "a mask in training": (ONE_HEAD, [("        scores.masked_fill_", "        if self.training:\n            scores.masked_fill_")], "mask.training", "if self.training", {}),
    "keys of the head before": (LOOP, [("outs = []", "outs, pieces = [], k.chunk(self.n_head, -1)"), ("kh = k[:, :, cols]", "kh = pieces[h - 1]")], "scores.apart", "qh @ kh", {}),
    "out_proj without its transpose": (SPLIT, [("self.out_proj(context)", "context @ self.out_proj.weight + self.out_proj.bias")], "projection.wrong", "context @ self.out_proj", {}),
    "a bias for each head": (LOOP, [("outs = []", "y = 0"), ("outs.append(a @ vh)", "y = y + nn.functional.linear(a @ vh, self.out_proj.weight[:, cols], self.out_proj.bias)"), ("        y = torch.cat(outs, -1)\n        return self.out_proj(y)\n", "        return y\n")], "out_proj.bias", "self.out_proj.bias", {}),
    "each token's own value": (SPLIT, [("(weights @ values)", 'torch.einsum("bhij,bhid->bhid", weights, values)')], "context.own", "einsum", {}),
    "a dimension that squeeze takes": (SPLIT, [("self.out_proj(context)", "self.out_proj(context).squeeze()")], "result.squeezed", "squeeze", {}),
    "a return in the loop over tokens": (WITHOUT_MASK, [("        return torch.cat(rows, dim=1)", "            return torch.cat(rows, dim=1)")], "loop.return", "return torch.cat(rows", {}),
    "a number that grows": (ONE_HEAD, [(TRIANGLE, TRIANGLE + "        self.scale = 1.0\n"), ("scores = scores / keys.shape[-1] ** 0.5", "self.scale = self.scale / keys.shape[-1] ** 0.5\n        scores = scores * self.scale")], "state.kept", "self.scale = self.scale /", {}),
    "softmax of another dimension in the constructor": (ONE_HEAD, [(TRIANGLE, TRIANGLE + "        self.soft = nn.Softmax(dim=1)\n"), ("torch.softmax(scores, dim=-1)", "self.soft(scores)")], "softmax.axis", "nn.Softmax(dim=1)", {}),
    "x itself split": (SPLIT, [("self.W_value(x).view", "x.view")], "error.view-of-x", "x.view", {}),
    "keys made of queries": (SPLIT, [("keys = self.W_key(x)", "made = self.W_query(x)\n        keys = self.W_key(made)")], "error.projected", "self.W_key(made)", {}),
    "eval in __init__": (SPLIT, [("        self.drop = nn.Dropout(dropout)\n", "        self.drop = nn.Dropout(dropout)\n        self.eval()\n")], "mode.init", "self.eval()", {}),
    "softmax of minus the scores": (SPLIT, [("self.drop(scores.softmax(dim=-1))", "self.drop(nn.functional.softmin(scores, dim=-1))")], "scale.sign", "softmin", {}),
    "texts and tokens exchanged": (ONE_HEAD, [("        keys, queries, values =", "        x = x.transpose(0, 1)\n        keys, queries, values =")], "split.turned", "x = x.transpose(0, 1)", {}),
    "one text for all": (ONE_HEAD, [("        return context\n", "        return torch.stack([context[0] for _ in x])\n")], "x.text", "context[0]", {}),
    "shares of the scores": (SPLIT, [("self.drop(scores.softmax(dim=-1))", "self.drop(scores / scores.sum(dim=-1, keepdim=True))")], "softmax.no-exp", "scores.sum", {}),
    "tokens that hold heads": (SPLIT, [("        context = (weights @ values).transpose(1, 2).flatten(2)\n", "        context = weights @ values\n        b, t, h, d = context.shape\n        context = context.transpose(1, 2).reshape(b, t, h * d)\n")], "size.other", "b, t, h, d =", {}),
    "a dtype made above": (SPLIT, [("        scores = scores + torch", "        root = torch.ones(1, dtype=torch.float64)\n        scores = scores * root\n        scores = scores + torch")], "error.dtype", "root = ", {}),
    "values left unsplit": (SPLIT, [("self.W_value(x).view(b, t, self.n, self.width).transpose(1, 2)", "self.W_value(x).view(b, t, self.n, self.width)")], "split.no-transpose", "self.W_value(x)", {}),
    "keys kept from the first call": (SPLIT, [("        scores = queries", "        self.kept = keys if getattr(self, 'kept', keys).shape != keys.shape else getattr(self, 'kept', keys)\n        keys = self.kept\n        scores = queries")], "state.kept", "self.kept = ", {}),
    "a helper that is given queries": (OWN_SPLIT, [("    def forward(self, x):\n", "    def make(self, layer, x):\n        return layer(x)\n\n    def forward(self, x):\n"), ("queries = self.split(self.W_query(x))", "made = self.make(self.W_query, x)\n        queries = self.split(made)"), ("self.split(self.W_key(x))", "self.split(self.make(self.W_key, made))")], "error.projected", "self.make(self.W_key, made)", NOTEBOOK),
    "out_proj without its bias": (SPLIT, [("return self.out_proj(context)", "return context @ self.out_proj.weight.T")], "out_proj.bias", "context @ self.out_proj", {}),
    "another pair of dimensions": (SPLIT, [("keys.transpose(2, 3)", "keys.transpose(1, 2)")], "error.turned", "keys.transpose(1, 2)", {}),
    "a mask of numbers": (ONE_HEAD, [("self.mask.bool()", "self.mask")], "error.mask-bool", "self.mask[", {}),
    "a name with a letter too many": (ONE_HEAD, [("self.W_value(x)", "self.W_values(x)")], "error.unknown", "W_values", {}),
    "sums that meet columns": (BY_HAND, [("A = self.soft(S)", "A = torch.stack([self.soft(s) for s in S])"), ("e.sum(dim=-1, keepdim=True)", "e.sum(dim=-1)")], "error.keepdim", "e / e.sum(dim=-1)", {}),
    "the number of texts": (HEAD, [("keys.shape[-1] ** 0.5", "x.shape[0] ** 0.5")], "scale.width", "x.shape[0] ** 0.5", {}),
}  # fmt: skip
