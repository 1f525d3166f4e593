"""The hidden tests of the nbgrader course, by exercise.

A hidden test is an expression in the names of the lesson, of `attnlib`, `checks`, `torch` and
`randomize`, which draws the parameters of a module in the order of their names. Its value is
numbers, or a word, that are the same for every right answer. Each is worth a point. An exercise
that is not listed here gives one point, for its check.
"""

SPLIT, STACK = "attnlib.MultiHeadAttention", "attnlib.MultiHeadAttentionWrapper"
BOTH = (
    "[{}(checks.make(checks.random_faulty_class(seed)), torch.randn(1, 6, 3)) "
    "for seed in range({}, {})]"
)
BLIND = "(checks.make(c), torch.arange(18.0).view(1, 6, 3).sin()) for c in (checks.class_a, m.cls)"
HIDDEN_TESTS: dict[str, list[str]] = {
    "causal_weights": [
        "causal_weights(20 * torch.randn(2, 5, 5))",
        "causal_weights(torch.randn(7, 7) - 500)",
    ],
    "CausalAttention": [
        "randomize(CausalAttention(5, 3, 11, 0.0))(torch.randn(2, 7, 5))",
        "randomize(CausalAttention(3, 2, 7, 0.3, True))(torch.randn(1, 5, 3))",
    ],
    "look_back": [
        "(look_back(13) / 13**0.5).masked_fill(attnlib.causal_mask(13), -torch.inf)"
        ".softmax(-1).diagonal(-1) > 0.99"
    ],
    "MultiHeadAttentionWrapper": [
        f"randomize(MultiHeadAttentionWrapper(5, 2, 7, 0.0, {n}))(torch.randn(2, 7, 5))"
        for n in (2, 3)
    ],
    "without_head": [
        f"without_head(randomize({STACK}(5, 2, 7, 0.0, 3)), {h})(torch.randn(2, 7, 5))"
        for h in (0, 1)
    ],
    "MultiHeadAttention": [
        f"randomize(MultiHeadAttention(5, 6, 7, 0.0, {n}))(torch.randn(2, 7, 5))" for n in (2, 3)
    ],
    "copy_weights": [
        f"copy_weights(randomize({STACK}(5, 2, 7, 0.0, {n})), {SPLIT}(5, {2 * n}, 7, 0.0, {n}))"
        "(torch.randn(2, 7, 5))"
        for n in (2, 3)
    ],
    "swap_heads": [
        f"swap_heads(randomize({SPLIT}(5, 6, 7, 0.0, 2))).{name}.weight"
        for name in ("W_key", "out_proj")
    ],
    **{
        f"Broken{i}": [
            f"randomize(Broken{i}(5, 6, 7, 0.0, {n}))(torch.randn(2, 7, 5))" for n in (2, 3)
        ]
        for i in range(1, 10)
    },
    "MyAttention": [
        "randomize(MyAttention(5, 6, 7, 0.3, 2))(torch.randn(2, 7, 5), is_causal=True)",
        "randomize(MyAttention(5, 6, 7, 0.0, 3))(torch.randn(2, 3, 5), torch.randn(2, 7, 5))",
    ],
    "padded_mask": [
        "(p := torch.arange(7) < torch.randint(1, 5, (3, 1)), padded_mask(p)[:, 0][~p])[1]",
        "padded_mask(torch.arange(7) < torch.randint(1, 5, (3, 1))).diagonal(0, -2, -1)",
    ],
    "for_module": [
        f"for_module(torch.rand({sizes}) > 0.5, (3, 2, 5, 5))" for sizes in ("5, 5", "3, 1, 5, 5")
    ],
    "is_causal": [BOTH.format("is_causal", i, i + 10) for i in (100, 200)],
    "same_on_prefixes": [BOTH.format("same_on_prefixes", i, i + 10) for i in (100, 200)],
    "any_scale": [
        f"[torch.allclose(*(any_scale{BLIND}), atol=1e-4) for m in checks.ALL_MISTAKES "
        f"if m.name in ({names!r},)]"
        for names in ("no scale", "mask one too late")
    ],
    "found": ["found[2]", "found[3]", "found[4]"],
    "part": ["[part] == list(set(checks.fault_table()) - set(checks.excluded_parts(case)))"],
    "attend_in_tiles": [
        "attend_in_tiles(torch.randn(4, 3), *torch.randn(2, 7, 3), 2)",
        *(
            f"attend_in_tiles({far} * torch.randn(7, 3), *torch.randn(2, 7, 3), {size})"
            for far, size in ((1, 2), (300, 3))
        ),
    ],
    "join": [
        "(lambda largest, total, mixed: mixed / total)(*join(*((each[:, :1], each[:, 1:2].exp(), "
        f"each[:, 2:]) for each in {far} * torch.randn(2, 5, 4))))"
        for far in (1, 5)
    ],
    "induction": [f"induction(torch.randint({letters}, (2, 13)))" for letters in (3, 7)],
    "design": [
        "[design[0], set(range(48)[design[2]]) >= set((range(25), range(25, 48))[design[1]])]"
    ],
    "rotate": [
        f"rotate(torch.randn({b}, 2, {n}, 64), *torch.randn(2, {n}, 32))[..., ::7]"
        for b, n in ((1, 3), (2, 2))
    ],
    "LlamaAttention": [
        f"randomize(LlamaAttention())(0.1 * torch.randn({b}, {n}, 576))[..., ::97] / 500"
        for b, n in ((1, 5), (2, 3))
    ],
    "block": [
        "block(torch.randn(1, 3, 4), type('', (), dict(zip(('attention', 'norm_1', 'norm_2', "
        f"'gate_proj', 'up_proj', 'down_proj'), (torch.sin, {norms}, lambda x: x.cumsum(-1), "
        "lambda x: 2 - x.cumsum(-1), torch.erf)))))"
        for norms in ("torch.tanh, torch.cos", "torch.exp, torch.sigmoid")
    ],
    "CachedAttention": [
        "(c := {}, m := randomize(CachedAttention()), m(0.1 * torch.randn(1, 3, 576), c), "
        f"m(0.1 * torch.randn(1, {n}, 576), c)[..., ::97] / 500)[3]"
        for n in (1, 2)
    ]
    + [  # that W_key has met each token once
        "(lambda c, n, m: (m.W_key.register_forward_pre_hook(lambda _, x: n.append(x[0].numel())), "
        "[m(torch.randn(1, i, 576), c) for i in (3, 1)], [sum(n) <= 4 * 576]))({}, [], "
        "randomize(CachedAttention()))[-1]"
    ],
    "scores_row": ["scores_row"],
    "weights_row": ["[round(10 * weight) for weight in weights_row]"],
    "broken": ["sorted(broken)"],
}
