"""Typical wrong answers to the exercises of lesson 07, and what each must be told."""

# ruff: noqa: E501  # tables: one case on a line

from support.exercise_tools import Answers

ANSWERS = {
    "attend_in_tiles": Answers(
        "Right: equal within 1e-12 with tiles of 1, 2, 3 and 7 keys, and with 61 tokens no "
        "query meets more keys at a time than a tile has.",
        {
            "not scaled": ({" / queries.shape[1] ** 0.5": ""}, "The scores are not divided by the"),
            "no mask": ({".masked_fill_(position[tile] > of_query, -torch.inf)": ""}, "Nothing is hidden"),
            "the mask the wrong way round": ({"] > of": "] < of"}, "each query sees its future and itself"),
            "only the future": ({"] > of": "] <= of"}, "NaN for the last query,"),
            "hidden by 0": ({"query, -torch.inf": "query, 0"}, "Hidden scores are 0, and"),
            "float32": ({"zeros_like(values[-len(queries) :]": "zeros_like(values[-len(queries) :]).float(", "mixed = corr": "mixed[:] = corr"}, "Note: The queries are float64, and a new tensor is float32: zeros_like"),
            "queries changed": ({"largest = torch": ("queries /= queries.shape[1] ** 0.5\n    largest = torch"), " / queries.shape[1] ** 0.5": ""}, "It changes queries:"),
            "a tuple": ({"mixed / total": "mixed / total, largest"}, "It returns a tuple, not a"),
            "one key at a time": ({"len(keys), tile_size": "len(keys), 1", "start + tile_size": "start + 1"}, "Equal, but tile_size makes"),
            "not divided": ({"mixed / total": "mixed"}, "The result must be divided by the total,"),
            "places of the tile": ({"position[tile]": "torch.arange(len(keys[tile]))"}, "A query sees its future: count keys from the start of the text, not of the tile."),
            "the last tile left out": ({"len(keys), tile_size": "7 // tile_size * tile_size, tile_size"}, "Only the last query is wrong: the last tile is smaller, and its"),
            "divided in every tile": ({"values[tile]": "values[tile] / powers.sum(1, keepdim=True)"}, ("With one tile of all 7 keys it is off by 5e-01. First get this right: scores, mask, largest, powers, total, mixed, and one division at")),
            "an average in every tile": (
                {
                    "total = correction * total + powers.sum(dim=1, keepdim=True": (
                        "seen = powers.sum(dim=1, keepdim=True); total = total + (seen > 0"
                    ),
                    "values[tile]": "values[tile] / seen.clamp(min=1e-9)",
                },
                "are total and mixed added up over all tiles, and divided once, at the end?",
            ),
            "total not corrected": ({"correction * total": "total"}, "total keeps what it summed"),
            "mixed not corrected": ({"correction * mixed": "mixed"}, "mixed keeps what it summed"),
            "nothing corrected": ({"correction * total": "total", "correction * mixed": "mixed"}, "Neither total nor mixed is"),
            "corrected the wrong way": ({"largest - larger": "(larger - largest).clamp(max=700)"}, "The correction is the wrong way"),
            "the correction upside down": ({"largest - larger": "larger - largest"}, "NaN for every query, in the first tile already: is the correction the wrong way"),
            "its own key hidden": ({"] > of": "] >= of"}, "does the mask hide a"),
            "softmax in every tile": ({"correction * total + powers.sum(dim=1, keepdim=True)": "total + 1", "correction * mixed + powers": "mixed + torch.softmax(scores, dim=1)"}, "softmax divides every tile by a total of its own"),
            "one maximum for all queries": ({"amax(dim=1, keepdim=True": "max("}, "every query needs a largest score of its own"),
            "a whole row at a time": (
                {
                    "for start ": (
                        "return torch.stack([\n"
                        "        torch.softmax(keys[: i + 1] @ query / len(query) ** 0.5, dim=0)\n"
                        "        @ values[: i + 1]\n"
                        "        for i, query in enumerate(queries)\n"
                        "    ])\n"
                        "    for start "
                    )
                },
                "with a tile_size of 4 a query still meets more keys than that at a time",
            ),
            "the maximum of the tile": ({"torch.maximum(largest, scores.amax(dim=1, keepdim=True)": ("scores.amax(1, True")}, "Subtract the largest score of all tiles so far."),
            "the maximum forgotten": ({"        largest = larger\n": ""}, "is largest = larger"),
            "no maximum": ({"        larger = ": "        larger = 0 * "}, "exp of scores about a"),
            "a maximum from 0": ({"full_like(queries[:, :1], -torch.inf": "zeros_like(queries[:, :1]"}, "must begin at minus infinity,"),
            "a mask of all pairs": ({"position[tile] > of_query": "causal_mask(len(queries))[:, tile]"}, "Equal, but the mask is made for all pairs, (61, 61)"),
            "rows of all keys": ({"] > of_query": "] > position[:, None]"}, "Right while every token is a query. Of the last three alone"),
            "all scores at once": ({"queries @ keys[tile].T": "(queries @ keys.T)[:, tile]"}, "Equal, but a tensor of (61, 61) was made"),
            "no keepdim": ({"amax(dim=1, keepdim=True)": "amax(dim=1)"}, "is keepdim=True missing in"),
            "hidden by -1e9": ({"query, -torch.inf": "query, -1e9"}, "Note: A score could be"),
        },
    ),
    "join": Answers(
        "Right: in either order, and with scores of a thousand.",
        {
            "only added": ({"c_0 * total_0 + c_1 *": "total_0 +"}, "The totals are added as they"),
            "mixtures only added": ({"c_0 * mixed_0 + c_1 *": "mixed_0 +"}, "The mixtures are added as they"),
            "one factor": ({"c_1 * total_1": "total_1", "c_1 * mixed_1": "mixed_1"}, "Only the first is corrected, but in some rows"),
            "the other factor": ({"c_0 * total_0": "total_0", "c_0 * mixed_0": "mixed_0"}, "Only the second is corrected, but in some rows"),
            "upside down": ({"exp(m_0 - largest)": "exp(largest - m_0)", "exp(m_1 - largest)": "exp(largest - m_1)"}, "The factors are upside down"),
            "exchanged": ({"c_0, c_1 =": "c_1, c_0 ="}, "The factors are exchanged: each of the"),
            "corrected twice": ({"c_0 * total_0": "c_0**2 * total_0"}, "total is wrong: correct"),
            "the first maximum": ({"torch.maximum(m_0, m_1)": "m_0"}, "largest is not the larger"),
            "powers without a maximum": ({"m_0 - largest": "m_0) / torch.exp(largest", " - largest": ") / torch.exp(largest"}, "A number is infinite or NaN: take the larger"),
            "divided": ({"c_0 * mixed_0 + c_1 * mixed_1": ("(c_0 * mixed_0 + c_1 * mixed_1) / total_0")}, "mixed is wrong: correct each by its own factor, and do not"),
            "two of three": ({"largest, c_0 * total_0": "c_0 * total_0"}, "join returns three"),
        },
    ),
}  # fmt: skip
