"""Typical wrong answers to the exercises of lesson 09, and what each must be told."""

from __future__ import annotations

from support.exercise_tools import Answers

ANSWERS = {
    "rotate": Answers(
        "Right: every pair is turned, and keeps its length.",
        {
            "the other way": (
                {"cos - second": "cos + second", "cos + first": "cos - first"},
                "It turns the other way",
            ),
            "halves": (
                {
                    "x[..., 0::2], x[..., 1::2]": "x.chunk(2, dim=-1)",
                    "torch.stack(turned, dim=-1).flatten(-2)": "torch.cat(turned, dim=-1)",
                },
                "It turns number i with number i + 32",
            ),
            "not put back": (
                {"torch.stack(turned, dim=-1).flatten(-2)": "torch.cat(turned, dim=-1)"},
                "The pairs are turned, but not put back",
            ),
            "two sums": ({"cos - second": "cos + second"}, "Both products are added in both"),
            "nothing": ({"torch.stack(turned, dim=-1).flatten(-2)": "x"}, "Nothing has turned"),
            "in place": (
                {
                    "return torch.stack(turned, dim=-1).flatten(-2)": (
                        "x[..., 0::2], x[..., 1::2] = turned\n    return x"
                    )
                },
                "It changes x in place",
            ),
            "not flat": ({".flatten(-2)": ""}, "The shape is (2, 3, 7, 32, 2), not"),
        },
    ),
    "LlamaAttention": Answers(
        "Right: positions turn queries and keys, and three query heads share a key.",
        {
            "nothing turns": (
                {"rotate(queries, *cos_sin), rotate(keys, *cos_sin)": "queries, keys"},
                "Nothing turns",
            ),
            "keys do not turn": ({"rotate(keys, *cos_sin)": "keys"}, "only the queries do here"),
            "queries do not turn": (
                {"rotate(queries, *cos_sin)": "queries"},
                "only the keys do here",
            ),
            "values turn": (
                {"values = values": "values = rotate(values, *cos_sin)"},
                "The values turn, too.",
            ),
            "another base": ({", 100_000.0": ""}, "The angles have another base"),
            "in turns": (
                {"repeat_interleave(3, dim=1)": "repeat(1, 3, 1, 1)"},
                "The key heads take turns",
            ),
            "values in turns": (
                {"values.repeat_interleave(3, dim=1)": "values.repeat(1, 3, 1, 1)"},
                "but the values take turns",
            ),
            "keys in turns": (
                {"keys.repeat_interleave(3, dim=1)": "keys.repeat(1, 3, 1, 1)"},
                "but the keys take turns",
            ),
            "not shared": (
                {"keys = keys.repeat_interleave(3, dim=1)": ""},
                "Every query head needs a key and a value",
            ),
            "no mask": (
                {"values, is_future)": "values, None)"},
                "Nothing hides the future",
            ),
            "no out_proj": (
                {
                    "self.mix(queries, keys, values, is_future)": "attnlib.merge_heads("
                    "attnlib.attention(queries, keys, values, is_future)[0])"
                },
                "out_proj is missing",
            ),
            "a tuple": (
                {"self.mix(queries": "attnlib.attention(queries"},
                "forward returns a tuple",
            ),
            "positions one late": (
                {"torch.arange(x.shape[1])": "1 + torch.arange(x.shape[1]) ** 2"},
                "Of a text of one token the output is right",
            ),
            "heads turned round": (
                {"self.mix(queries, keys, values": "self.mix(queries, keys, values.flip(1)"},
                "Even of one token",
            ),
        },
    ),
    "block": Answers(
        "Right: two readers of the stream, and both add to it.",
        {
            "attention not added": ({"x = x + layer": "x = layer"}, "What attention wrote is not"),
            "mlp not added": ({"return x + layer": "return layer"}, "What the MLP wrote is not"),
            "nothing added": ({"x + layer": "layer"}, "Neither of the two adds to x"),
            "side by side": (
                {"x = x + layer.attention": "a = x + layer.attention", "return x": "return a"},
                "The MLP reads the stream as it was before",
            ),
            "attention lost": (
                {"x = x + layer.attention": "a = x + layer.attention", "norm_2(x)": "norm_2(a)"},
                "so that what attention wrote is lost",
            ),
            "the other gate": ({"gate, up =": "up, gate ="}, "The wrong half is the gate"),
            "no gate": ({"nn.functional.silu(gate)": "gate"}, "silu round the first one is mis"),
            "a sum": ({"silu(gate) * up": "silu(gate) + up"}, "The halves are added"),
            "gelu": ({"silu(gate)": "gelu(gate)"}, "another function than silu"),
            "no norm_1": ({"layer.norm_1(x)": "x"}, "Attention reads x without norm_1."),
            "no norm_2": ({"layer.norm_2(x)": "x"}, "The MLP reads the stream without norm_2."),
            "one norm": ({"norm_2": "norm_1"}, "The two norms are not one"),
            "no mlp": (
                {"return x + layer.narrow(nn.functional.silu(gate) * up)": "return x"},
                "Attention is added, and the MLP is missing.",
            ),
            "in place": ({"x = x + layer": "x += layer"}, "It changes x in place"),
            "not narrowed": (
                {"layer.narrow(nn.functional.silu(gate) * up)": "nn.functional.silu(gate) * up"},
                "Stopped in block, line 4",
            ),
            "not cut": ({".chunk(2, dim=-1)": ""}, "Stopped in block, line 4"),
            "scaled": ({"x + layer.narrow": "x + 2 * layer.narrow"}, "The numbers are not those"),
        },
    ),
    "CachedAttention": Answers(
        "Right: the past is kept, and nothing forgotten.",
        {
            "from position 0": (
                {"arange(past, total)": "arange(total - past)"},
                "The new tokens turn as if they were the first ones.",
            ),
            "never kept": (
                {'cache["keys"], cache["values"] = keys, values': ""},
                "nothing is kept in cache, or it is not read",
            ),
            "not read": (
                {
                    "        if cache:": "        if False:",
                    "(total)[past:]": "(total)[past:, past:]",
                },
                "The new tokens see each other alone",
            ),
            "new ones first": (
                {
                    '(cache["keys"], keys)': '(keys, cache["keys"])',
                    '(cache["values"], values)': '(values, cache["values"])',
                },
                "The new tokens come last",
            ),
            "along the heads": ({"dim=2": "dim=1"}, "Stopped in CachedAttention.forward"),
            "whole mask": (
                {"causal_mask(total)[past:]": "causal_mask(total)"},
                "of the mask of all tokens, the last rows",
            ),
            "no mask": (
                {"values, is_future": "values, None"},
                "With an empty cache the output is not that of the class without one.",
            ),
            "no mask after the first": (
                {"(total)[past:]": "(total)[past:] if not past else None"},
                "Of two new tokens the first sees the second",
            ),
            "kept the first time only": (
                {
                    '        cache["keys"], cache["values"] = keys, values': (
                        '        if not past: cache["keys"], cache["values"] = keys, values'
                    ),
                },
                "After 5 tokens",
            ),
            "keys for values": (
                {'torch.cat((cache["values"], values)': 'torch.cat((cache["keys"], values)'},
                "Where the values of earlier tokens belong are their keys.",
            ),
            "shared, then kept": (
                {
                    "        if cache:": (
                        "        keys = keys.repeat_interleave(3, dim=1)\n        if cache:"
                    )
                },
                "Every query head needs a key and a value",
            ),
            "x kept, all computed anew": (
                {
                    "        queries, keys, values = self.heads(x)\n"
                    '        past = cache["keys"].shape[2] if cache else 0\n'
                    "        total = past + x.shape[1]\n": (
                        '        past = cache["x"].shape[1] if cache else 0\n'
                        "        total = past + x.shape[1]\n"
                        '        x = torch.cat((cache["x"], x), dim=1) if cache else x\n'
                        "        queries, keys, values = self.heads(x)\n"
                    ),
                    "arange(past, total)": "arange(total)",
                    "        if cache:\n"
                    '            keys = torch.cat((cache["keys"], keys), dim=2)\n'
                    '            values = torch.cat((cache["values"], values), dim=2)\n'
                    '        cache["keys"], cache["values"] = keys, values\n': (
                        '        cache["x"] = x\n'
                    ),
                    "(total)[past:]": "(total)",
                    "values, is_future)": "values, is_future)[:, past:]",
                },
                "W_key is given 5 tokens where 1 came: the past is computed again.",
            ),
            "more kept, in a list": (
                {
                    'cache["keys"], cache["values"] = keys, values': (
                        'cache["keys"], cache["values"] = keys, values\n'
                        '        cache["parts"] = [(keys, values), keys]'
                    )
                },
                "The output is right, but cache keeps 960 numbers for each token, and 384 are",
            ),
            "a cache of its own": (
                {"forward(self, x, cache)": "forward(self, x, _, cache={})"},
                "A second, empty cache still finds the tokens of the first",
            ),
            "only the last row": (
                {"values, is_future)": "values, is_future)[:, -1:]"},
                "The shape is (2, 1, 576), not (2, 4, 576): one row for each new token.",
            ),
        },
    ),
}
