"""Typical wrong answers to the exercises of lesson 09, and what each must be told."""

# ruff: noqa: E501  # tables: one case on a line

from support.exercise_tools import Answers

ANSWERS = {
    "cut": Answers(
        "Right: the queries, keys and values of each of three heads.",
        {
            "not transposed": ({"own].T": "own]"}, "The first of the three is (15, 5), as the"),
            "transposed, then the columns": ({"third[:, own].T": "third.T[:, own]"}, "The first of the three is (15, 5): after the transpose, what a head makes is"),
            "thirds of the rows": ({"chunk(3, dim=1)": "chunk(3, dim=0)"}, "The first of the three is (5, 5), cut along both sides: the three are side by"),
            "rows of the file": ({"third[:, own].T": "third[own]"}, "The first of the three is cut from the rows of c_attn: those are the inputs."),
            "counted from 1": ({"head * head_dim, (head + 1)": "(head - 1) * head_dim, head"}, "The first of the three is W_query of head 0, not W_query of head 1."),
            "the whole third": ({"third[:, own].T": "third.T"}, "The first of the three is (15, 15), not (5, 15): head_dim is width // num_heads."),
            "every third column": ({":, own].T": ":, head::num_heads].T"}, "The first of the three takes every third column. A head's columns are side by"),
            "three parts of each head": ({"[third[:, own].T for third in c_attn.chunk(3, dim=1)]": ("c_attn.T[3 * head_dim * head : 3 * head_dim * (head + 1)].chunk(3)")}, "The three are cut as if each head had its parts side by side. In c_attn come all"),
            "values before keys": ({"c_attn.chunk(3, dim=1)": "[c_attn.chunk(3, dim=1)[i] for i in (0, 2, 1)]"}, "The second of the three is W_value of head 1, not"),
            "two of them": ({"dim=1)]": "dim=1)[:2]]"}, "Return three matrices: of the queries,"),
        },
    ),
    "texts_that_fit": Answers(
        "Right: 28 texts of GPT-2 XL, 72 of the small one in half precision, and none in 5 GB.",
        {
            "keys only": ({"2 * num_layers": "num_layers"}, "For GPT-2 XL in 24 GB the answer is 28 texts, not 56. Both are kept, keys and"),
            "no parameters": ({" - num_parameters * size": ""}, "the answer is 28 texts, not 38."),
            "one layer": ({" * num_layers": ""}, ". Every layer has a cache of its own."),
            "parameters of one byte": ({"num_parameters * size": "num_parameters"}, ". A parameter has its bytes too."),
            "numbers for bytes": ({"num_tokens * size": "num_tokens"}, ". A number in the cache"),
            "tokens": ({" * num_tokens": ""}, ". That many tokens fit; a text has num_tokens"),
            "a part of a text": ({"//": "/"}, "For GPT-2 XL in 24 GB the answer is 28 texts, not 28.2439. A part of a text"),
            "fewer than none": ({"max(free // one_text, 0)": "free // one_text"}, "For GPT-2 XL in 5 GB, less than its parameters, it returns -2: the answer cannot"),
            "parameters for every text": ({"memory - num_parameters * size": "memory", "2 * num_layers * width * num_tokens": ("(2 * num_layers * width * num_tokens + num_parameters)")}, "the answer is 28 texts, not 3. All texts share the parameters."),
            "rounded to the nearest": ({"free // one_text": "round(free / one_text)"}, "For the small GPT-2 in 3 GB, in half precision the answer is 72 texts, not 73."),
            "rounded up": ({"free // one_text": "-(-free // one_text)"}, "the answer is 28 texts, not 29. There is no room for a part of a text: round"),
        },
    ),
    "device_part": Answers(
        "Right, with 4, 2 and 1 devices.",
        {
            "bias in every part": ({":, own].T": ":, own].T + module.out_proj.bias"}, "With 4 devices out_proj.bias is added 4 times: it comes after the sum."),
            "a share of the bias": ({":, own].T": ":, own].T + module.out_proj.bias / num_devices"}, "The parts add up to module(x), out_proj.bias included: leave it"),
            "projections without their biases": ({" + W.bias[own]": ""}, "W_query, W_key and"),
            "heads of the wrong width": ({"/ num_devices": "/ num_devices * 2"}, "Has each device whole heads, of the right width, and the mask?"),
            "all devices alike": ({"[device]": "[0]"}, "All devices make the same part: each has"),
            "no out_proj": ({" @ module.out_proj.weight[:, own].T": ""}, "The shape is (2, 7, 8),"),
            "rows of out_proj": ({"weight[:, own].T": "weight[own].T"}, "Stopped in device_part, line 8: return merge_"),
            "no mask": ({", causal_mask(x.shape[1])": ""}, "Each device needs the mask:"),
            "all heads": ({" // num_devices": ""}, "A device has num_heads // num_devices heads,"),
            "one wide head": ({"module.num_heads // num_devices": "1"}, "With 2 devices the parts"),
            "rows of out_proj, not transposed": ({"weight[:, own].T": "weight[own]"}, "Of out_proj.weight a device needs columns"),
            "the two rows of the page": ({"torch.arange(module.d_out).chunk(num_devices)[device]": ("slice(2 * device, 2 * device + 2)"), "module.num_heads // num_devices": "1"}, "On the page a head was 2 wide; here a device has d_out // num_devices rows."),
            "all of it": ({"merge_heads(context_vec) @ module.out_proj.weight[:, own].T": "module(x)"}, "Each part is the whole output already: a device computes its own"),
            "a part of x": ({"[x @": "[x[:, :, own] @"}, "Stopped in device_part, line "),
        },
    ),
}  # fmt: skip
