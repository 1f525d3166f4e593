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
                "It turns number i with number i + head_dim / 2",
            ),
            "not put back": (
                {"torch.stack(turned, dim=-1).flatten(-2)": "torch.cat(turned, dim=-1)"},
                "The pairs are turned, but not put back",
            ),
            "two sums": ({"cos - second": "cos + second"}, "Both products are added in both"),
            "nothing": ({"torch.stack(turned, dim=-1).flatten(-2)": "x"}, "Nothing has turned"),
            "not flat": ({".flatten(-2)": ""}, "The shape is (2, 3, 7, 5, 2), not"),
        },
    ),
    "share": Answers(
        "Right: neighboring query heads share a key head.",
        {
            "in turns": (
                {"x.repeat_interleave(group, dim=1)": "x.repeat(1, group, 1, 1)"},
                "The key heads take turns",
            ),
            "along the tokens": ({"dim=1": "dim=2"}, "The shape is (2, 3, 35, 10), not"),
            "nothing": ({"x.repeat_interleave(group, dim=1)": "x"}, "The shape is (2, 3, 7, 10)"),
        },
    ),
    "remember": Answers(
        "Right: nothing is computed twice, and nothing forgotten.",
        {
            "never kept": (
                {'cache["keys"], cache["values"] = keys, values': ""},
                'After 4 tokens cache["keys"] must be one tensor',
            ),
            "the new ones alone": (
                {"    if": "    new = keys, values\n    if", "return keys, values": "return new"},
                "It returns the new tokens alone",
            ),
            "new ones first": (
                {'(cache["keys"], keys)': '(keys, cache["keys"])'},
                "The new tokens come last.",
            ),
            "along the heads": ({"dim=2": "dim=1"}, "Stopped in remember, line 3"),
            "kept the first time only": (
                {'    cache["keys"], cache["values"]': '    else: cache["keys"], cache["values"]'},
                'After 5 tokens cache["keys"] must be one tensor',
            ),
            "other names": (
                {'cache["keys"]': 'cache["k"]', 'cache["values"]': 'cache["v"]'},
                'cache["keys"] must be one tensor, all keys',
            ),
            "lists": (
                {
                    "= keys, values": "= [keys], [values]",
                    '(cache["keys"]': '(*cache["keys"]',
                    '(cache["values"]': '(*cache["values"]',
                },
                'After 4 tokens cache["keys"] must be one tensor',
            ),
            "a dictionary of its own": (
                {"remember(cache, keys, values)": "remember(_, keys, values, cache={})"},
                'After 4 tokens cache["keys"] must be one tensor',
            ),
            "one cache for all": (
                {
                    "remember(cache, keys, values)": "remember(given, keys, values, cache={})",
                    "    return": "    given.update(cache)\n    return",
                },
                "A second, empty cache still finds the tokens of the first",
            ),
            "keys twice": ({"return keys, values": "return keys, keys"}, "Those are the keys tw"),
        },
    ),
}
