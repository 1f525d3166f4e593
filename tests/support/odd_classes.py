"""Classes that misbehave, or go wrong where one usual run does not look, and right ones that look odd.

Each is one of the styles with some text replaced: what, by what, and the beginning of the code.
"""

# ruff: noqa: E501  # a table: one slip on a line

from support.many_styles import (
    BROADCAST,
    BY_HAND,
    EINSUM,
    FLAT,
    FUNCTION,
    LOOP,
    MATRICES,
    NANO,
    OWN_HEADS,
)
from support.wrong_classes import ONE_HEAD, SPLIT, STACKED

# name: (text, [(right, wrong), ...], code, words of the line to quote; "" where none is known)
HIDDEN_FAULTS = {
    "relu of the queries": (SPLIT, [("self.W_query(x).view", "self.W_query(x).relu().view")], "parts.changed", "relu()"),
    "exp without the largest": (BY_HAND, [("torch.exp(s - s.max(dim=-1, keepdim=True).values)", "torch.exp(s)")], "softmax.largest", "torch.exp(s)"),
    "heads by name": (STACKED, [("head(x) for head in self.heads", "head(x) for _, head in sorted(self.heads.named_children())")], "heads.many", "sorted("),
    # from call to call
    "a counter": (SPLIT, [("        b, t, _ = x.shape\n", "        b, t, _ = x.shape\n        self.calls = getattr(self, 'calls', 0) + 1\n        x = x if self.calls < 2 else x * 1.5\n")], "state", "x * 1.5"),
    "weights decay": (ONE_HEAD, [("        num_tokens = x.shape[1]\n", "        num_tokens = x.shape[1]\n        self.W_key.weight.data.mul_(0.97)\n")], "parameters.in-place", ""),
    "x in place": (SPLIT, [("        b, t, _ = x.shape\n", "        b, t, _ = x.shape\n        x.add_(0.0)\n")], "x.in-place", "x.add_"),
    # masks that are not -inf
    "buffer of -1e5": (NANO, [('att.masked_fill(self.tri[:, :, :T, :T] == 0, float("-inf"))', "att + (1 - self.tri[:, :, :T, :T]) * -1e5")], "mask.not-low", "-1e5"),
    "additive -1000": (LOOP, [('float("-inf"), dtype', "-1e3, dtype")], "mask.not-low", "s = s +"),
    "clamped": (EINSUM, [("        keep = torch", "        att = att.clamp(-50, 50)\n        keep = torch")], "scores.large", "clamp"),
    # dropout
    "rows": (SPLIT, [("self.drop(scores.softmax(dim=-1))", "nn.functional.dropout1d(scores.softmax(dim=-1).flatten(0, 1), self.drop.p, self.training).view_as(scores)")], "dropout.together", "dropout1d"),
    "heads": (SPLIT, [("nn.Dropout(dropout)", "nn.Dropout2d(dropout)")], "dropout.together", "nn.Dropout2d("),
    "one pattern": (SPLIT, [("weights = self.drop(scores.softmax(dim=-1))", "weights = scores.softmax(dim=-1) * self.drop(torch.ones(t, t))")], "dropout.together", "self.drop"),
    "a seed": (SPLIT, [("        weights = self.drop", "        torch.manual_seed(0)\n        weights = self.drop")], "dropout.fixed", ""),
    "dropout or 0.1": (ONE_HEAD, [("nn.Dropout(dropout)", "nn.Dropout(dropout or 0.1)")], "dropout.share", "dropout or 0.1"),
    "mask lost in training": (ONE_HEAD, [("        scores.masked_fill_", "        if not self.training: scores.masked_fill_")], "mask.training", "masked_fill_"),
    "hotter in training": (ONE_HEAD, [("        scores = scores / keys.shape[-1] ** 0.5", "        scores = scores / (1.0 if self.training else keys.shape[-1] ** 0.5)")], "training", "scores"),
    # dtype
    "float64 out": (SPLIT, [("return self.out_proj(context)", "return self.out_proj(context).double()")], "result.dtype", "double"),
    # lengths
    "mask of 16": (ONE_HEAD, [("torch.ones(context_length, context_length)", "torch.ones(16, 16)"), ("if num_tokens > len(self.mask)", "if False")], "mask.length", "torch.ones(16, 16)"),
    "window of 16": (EINSUM, [(".tril()", ".tril().triu(-16)")], "length", "triu(-16)"),
    # initial values
    "frozen": (SPLIT, [("        self.drop", "        self.W_query.weight.requires_grad_(False)\n        self.drop")], "parameters.frozen", "W_query"),
    "frozen by detach": (MATRICES, [("self.W_key = nn.Parameter(torch.randn(d_in, d_out) / d_in ** 0.5)", "self.W_key = nn.Parameter(torch.randn(d_in, d_out) / d_in ** 0.5, requires_grad=False)")], "parameters.frozen", "W_key"),
    "equal": (SPLIT, [("        self.drop", "        self.W_key.load_state_dict(self.W_query.state_dict())\n        self.drop")], "init.equal", "W_key"),
    "a seed inside": (SPLIT, [("        super().__init__()\n", "        super().__init__()\n        torch.manual_seed(42)\n")], "init.seed", "manual_seed"),
    "tied": (SPLIT, [("        self.out_proj", "        self.W_key = self.W_query\n        self.out_proj")], "parameters.shared", "W_key"),
    "default dtype": (SPLIT, [("        super().__init__()\n", "        super().__init__()\n        torch.set_default_dtype(torch.float64)\n")], "settings", "set_default"),
    # names
    "run": (SPLIT, [("def forward", "def attend")], "forward.name", ""),
    # noise and state in one head
    "jitter": (SPLIT, [("return self.out_proj(context)", "return self.out_proj(context + torch.randn_like(context) * 1e-6)")], "random", "randn_like"),
    "drops always": (ONE_HEAD, [("weights = self.drop(weights)", "weights = nn.functional.dropout(weights)")], "dropout.eval", "dropout(weights)"),
    # misbehaving
    "endless": (SPLIT, [("        b, t, _ = x.shape\n", "        b, t, _ = x.shape\n        while True:\n            t = t + 0\n")], "time", ""),
    "endless in init": (SPLIT, [("        super().__init__()\n", "        super().__init__()\n        while True:\n            pass\n")], "time", ""),
    "sleeps": (SPLIT, [("        b, t, _ = x.shape\n", "        b, t, _ = x.shape\n        import time; time.sleep(60)\n")], "time", ""),
    "exits": (SPLIT, [("        b, t, _ = x.shape\n", "        b, t, _ = x.shape\n        raise SystemExit(1)\n")], "error.exit", "SystemExit"),
    "recursion": (SPLIT, [("return self.out_proj(context)", "return self(context)")], "error.projected", ""),
    "numpy": (SPLIT, [("return self.out_proj(context)", "return self.out_proj(context).detach().numpy()")], "result.type", "numpy"),
    "integers": (SPLIT, [("return self.out_proj(context)", "return self.out_proj(context).long()")], "result.type", "long"),
    "no grad": (SPLIT, [("    def forward", "    @torch.no_grad()\n    def forward")], "gradient", ""),
    "grad off for all": (SPLIT, [("        b, t, _ = x.shape\n", "        b, t, _ = x.shape\n        torch.set_grad_enabled(False)\n")], "gradient", ""),
    "a wrong base": (SPLIT, [("class Mine(nn.Module)", "class Mine"), ("        super().__init__()\n", "")], "not.a-class", ""),
    "raises a string": (SPLIT, [("        b, t, _ = x.shape\n", "        b, t, _ = x.shape\n        raise 'no'\n")], "error.refused", "raise"),
}  # fmt: skip

# Right classes that look odd: what is replaced in a style, and how the check is called
RIGHT = {
    "softmax in float32": (SPLIT, [("scores.softmax(dim=-1)", "torch.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)")], {}),
    "a float tensor as root": (SPLIT, [("* self.width**-0.5", "/ torch.sqrt(torch.FloatTensor([self.width])).to(x.dtype)")], {}),
    "lowest number": (SPLIT, [("-torch.inf, dtype=x.dtype).triu(1)", "torch.finfo(x.dtype).min / 2, dtype=x.dtype).triu(1)")], {}),
    "minus 1e9": (LOOP, [('float("-inf"), dtype', "-1e9, dtype")], {}),
    "no limit on tokens": (ONE_HEAD, [("if num_tokens > len(self.mask)", "if False")], {}),
    "a frozen scale": (SPLIT, [("        self.drop", "        self.scale = nn.Parameter(torch.tensor(self.width**-0.5), requires_grad=False)\n        self.drop"), ("self.width**-0.5\n        scores", "self.scale\n        scores")], {}),
    "other names": (SPLIT, [("W_query", "to_q"), ("W_key", "to_k"), ("W_value", "to_v"), ("out_proj", "to_out")], {"names": {"W_query": "to_q", "W_key": "to_k", "W_value": "to_v", "out_proj": "to_out"}}),
    "other arguments": (SPLIT, [("d_in, d_out, context_length, dropout, num_heads, qkv_bias", "n_in, n_out, block_size, p, n_head, bias"), ("nn.Linear(d_in, d_out, bias=qkv_bias)", "nn.Linear(n_in, n_out, bias=bias)"), ("num_heads, d_out // num_heads", "n_head, n_out // n_head"), ("nn.Linear(d_out, d_out)", "nn.Linear(n_out, n_out)"), ("nn.Dropout(dropout)", "nn.Dropout(p)")], {"names": {"d_in": "n_in", "d_out": "n_out", "context_length": "block_size", "dropout": "p", "num_heads": "n_head", "qkv_bias": "bias"}}),
    "one width": (NANO, [("d_in, d_out, context_length", "d_in, d_out, context_length"), ("        assert d_out % num_heads == 0\n", "        assert d_in == d_out\n")], {}),
    "one argument for both widths": (NANO, [("self, d_in, d_out, context_length", "self, n_embd, context_length"), ("        assert d_out % num_heads == 0\n", "        d_in = d_out = n_embd\n")], {"names": {"d_in": "n_embd", "d_out": "n_embd"}}),
    "c_attn": (NANO, [("W_qkv", "c_attn"), ("out_proj", "c_proj")], {"names": {"W_qkv": "c_attn", "out_proj": "c_proj"}}),
    "no context_length": (FUNCTION, [("context_length, ", "")], {"skip": ("context_length",)}),
    "no bias": (BROADCAST, [(", qkv_bias=False):", "):"), ("d_out, qkv_bias)", "d_out, bias=False)")], {"skip": ("qkv_bias",)}),
    "no dropout": (EINSUM, [("context_length, dropout, num_heads", "context_length, num_heads"), ("        self.dropout = nn.Dropout(dropout)\n", ""), ("self.dropout(att.softmax(-1))", "att.softmax(-1)")], {"skip": ("dropout",)}),
    "returns weights on request": (SPLIT, [("def forward(self, x)", "def forward(self, x, return_weights=False)"), ("return self.out_proj(context)", "context = self.out_proj(context)\n        return (context, weights) if return_weights else context")], {}),
    "chunks of queries": (ONE_HEAD, [("        scores = queries @ keys.transpose(1, 2)", "        scores = torch.cat([part @ keys.transpose(1, 2) for part in queries.split(2, dim=1)], dim=1)")], {}),
    "views of x": (SPLIT, [("self.W_query(x).view", "self.W_query(x.view(b * t, -1)).view")], {}),
    "a list of heads, reversed twice": (OWN_HEADS, [("in self.heads:", "in reversed(self.heads):"), ("torch.cat(parts, dim=2)", "torch.cat(parts[::-1], dim=2)")], {}),
    "softmax over the first dimension": (BY_HAND, [("A = self.soft(S)", "A = S.permute(2, 0, 1).softmax(0).permute(1, 2, 0)")], {}),
    "scaled keys": (FLAT, [("q = q * self.size ** -0.5", "k = k * self.size ** -0.5")], {}),
    "both by the fourth root": (FLAT, [("q = q * self.size ** -0.5", "q, k = q * self.size ** -0.25, k * self.size ** -0.25")], {}),
    "jit of softmax": (SPLIT, [("scores.softmax(dim=-1)", "torch.exp(torch.log_softmax(scores, dim=-1))")], {}),
    "a mask kept from call to call": (SPLIT, [("torch.full((t, t), -torch.inf, dtype=x.dtype).triu(1)", "self.cached(t, x)"), ("    def forward", "    def cached(self, t, x):\n        if getattr(self, 'm', None) is None or len(self.m) != t or self.m.dtype != x.dtype:\n            self.m = torch.full((t, t), -torch.inf, dtype=x.dtype).triu(1)\n        return self.m\n\n    def forward")], {}),
    "mask of the first length": (ONE_HEAD, [("        scores.masked_fill_(self.mask", "        if not hasattr(self, 'cut'): self.cut = num_tokens\n        scores.masked_fill_(self.mask")], {}),
    "eval is a number": (SPLIT, [("        self.drop", "        self.eval = 1\n        self.half = self.double = self.train = self.n // 2\n        self.drop")], {}),
    "prints": (SPLIT, [("        b, t, _ = x.shape\n", "        b, t, _ = x.shape\n        print('shape', x.shape)\n")], {}),
    "warns": (SPLIT, [("        b, t, _ = x.shape\n", "        b, t, _ = x.shape\n        import warnings; warnings.warn('slow')\n")], {}),
    "train without return": (SPLIT, [("    def forward", "    def train(self, mode=True):\n        self.training = mode\n\n    def eval(self):\n        self.training = False\n\n    def forward")], {}),
}  # fmt: skip
