"""Checks of what a learner writes about one head: its weights, its mask, where it looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from attncourse.checks.attempt import draw
from attncourse.checks.exercises import exercise_check
from attncourse.checks.plain_words import in_plain_words
from attncourse.compare import at_most
from attnlib.functional import attention, causal_mask
from attnlib.modules import CausalAttention

NEAR = 1e-5  # as close as this, an answer is one of the usual mistakes
LOWER = 1_000_000  # taken from all scores, it changes no attention weight
OF_SCORES = {
    r"NameError: name '[iI]nf|has no attribute '(Inf|infinity|Infinity)'": (
        "In PyTorch infinity is torch.inf: write -torch.inf."
    ),
    r"IndexError: The shape of the mask \[\d+, \d+\]": (
        "The mask has two dimensions, which are the last two of the scores: index these with "
        "[..., is_future], or use masked_fill."
    ),
}
OF_A_PREFIX = {  # 7 tokens, values of width 3; the first that is asked for is token 0
    r"\(1x1 and 7x3\)": (
        "The scores are those of the tokens that token i sees, the values those of all: cut the "
        "values too, values[: i + 1]."
    ),
    r"\(1x7 and 1x3\)": (
        "The values are those of the tokens that token i sees, the scores those of all: cut the "
        "keys too, keys[: i + 1]."
    ),
}
OF_MASKS = {
    "Boolean value of Tensor": (
        "`or`, `and`, `not`, `if` and a < b < c want one True or False, and this is a table of "
        "them: join two tables with |, each in parentheses."
    ),
}


def check_causal_weights(written: Callable[[Tensor], Tensor], scores: Tensor, used: Tensor) -> str:
    """Compare a learner's attention weights with those that a real model used.

    Args:
        written: takes raw scores, (..., num_tokens, num_tokens), and returns attention weights.
        scores: queries times keys, (num_layers, num_heads, num_tokens, num_tokens), of heads of
            width 64, neither scaled nor masked.
        used: of the same shape, the attention weights that the model made of them.

    Returns:
        A sentence.

    >>> scores = torch.tensor([[[[0.0, 9.0], [8.0, 8.0]]]])
    >>> used = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])
    >>> print(check_causal_weights(lambda scores: scores / 8, scores, used))
    These are still scores: softmax, along each row, comes last.
    """
    exact = scores.double()  # so that every right way to round is within the tolerance

    def check(causal_weights: Callable[[Tensor], Tensor]) -> str:
        with in_plain_words(OF_SCORES):
            mine = causal_weights(exact.clone()).double()
        if mine.shape != used.shape:
            return f"The shape is {tuple(mine.shape)}, not {tuple(used.shape)}."
        difference = (mine - used).abs().max().item()
        is_future = causal_mask(exact.shape[-1], device=exact.device)
        if difference <= 2e-7:
            lowered = causal_weights(exact - LOWER).double()
            begin = (
                f"Right for these scores, but not for every score: lower all of them by {LOWER:,}"
            )
            if lowered.isnan().any():
                return (
                    f"{begin}, and your attention weights are NaN. torch.softmax knows how to "
                    "avoid that."
                )
            if (lowered[..., is_future] > 2e-7).any():  # in 32 bits the past may only be rounded
                return (
                    f"{begin}, and your attention weights change, because a hidden score is no "
                    "longer the lowest. Which number is below every other?"
                )
            heads = used.shape[0] * used.shape[1]
            return (
                f"Right: all {heads} heads, {used.numel():,} attention weights, "
                "are those that GPT-2 used."
            )
        if not torch.isfinite(mine).all() and not mine.isnan().any():
            return "An infinite score is still there: softmax, along each row, comes last."
        leak = mine[..., is_future].max().item()
        hidden = exact.masked_fill(is_future, -torch.inf)
        zeroed = torch.softmax(exact / 8, dim=-1).masked_fill(is_future, 0.0)
        of_past = torch.softmax(exact.masked_fill(is_future.mT, -torch.inf) / 8, dim=-1)
        late = "The future is hidden after softmax, so the rows no longer sum to 1."
        unhidden = (
            f"No score is hidden: the largest weight on the future is {leak:.2f}, not 0. "
            "masked_fill returns a new tensor: is its result kept?"
        )
        usual = {
            "The scores are not divided by 8, the root of the width.": hidden.softmax(dim=-1),
            "The scores are divided by 64, the width, not by its root.": (hidden / 64).softmax(-1),
            "The scores are divided by √8. The heads are 64 wide: divide by √64, which is 8.": (
                hidden / 8**0.5
            ).softmax(-1),
            unhidden: (exact / 8).softmax(dim=-1),
            late: zeroed,
            "The mask hides the past: is True on the wrong side of the diagonal?": of_past,
            "Softmax runs down the columns: it is each row that sums to 1.": (hidden / 8).softmax(
                dim=-2
            ),
        }
        for sentence, numbers in usual.items():
            if torch.allclose(mine, numbers, rtol=0, atol=NEAR):
                return sentence
        if torch.allclose(mine, hidden / 8) or torch.allclose(mine, exact / 8):
            return "These are still scores: softmax, along each row, comes last."
        for dim, wrong in enumerate(("layers", "heads")):
            if torch.allclose(mine, (hidden / 8).softmax(dim), rtol=0, atol=NEAR, equal_nan=True):
                return f"Softmax runs over the {wrong}, dim={dim}: it must run along each row."
        empty = mine.isnan().any(dim=-1).flatten(0, -2).any(dim=0).tolist()
        if empty == [*[True] * (len(empty) - 1), False]:  # only the last row has no future
            return (
                "Every row that has a future is NaN: e to the power of +inf is not a number you "
                "can divide by. Hide with minus infinity."
            )
        only_last = [*[False] * (len(empty) - 1), True]
        if empty == only_last and not mine[..., ~is_future].nan_to_num().any():
            return "The past is hidden, and the future is not: True must mean future."
        if mine.isnan().any():
            row = int(mine.isnan().any(dim=-1).flatten(0, -2).any(dim=0).nonzero()[0])
            return (
                f"Row {row} is NaN: every score in it is hidden. Does each token still see itself?"
            )
        sums = mine.sum(dim=-1)
        if torch.allclose(sums, sums.mean(), rtol=0, atol=NEAR) and abs(sums.mean() - 1) > NEAR:
            return (
                f"Each row sums to {sums.mean():.3g}, not to 1: is it divided after softmax? "
                "Divide before it."
            )
        factor = _factor(mine[..., -1, :], exact[..., -1, :])
        scaled = exact * factor
        if torch.allclose(mine, scaled.softmax(dim=-1), rtol=0, atol=NEAR):
            return unhidden
        if torch.allclose(mine, scaled.softmax(-1).masked_fill(is_future, 0), rtol=0, atol=NEAR):
            return late
        of_visible = scaled.masked_fill(is_future, -torch.inf).softmax(dim=-1)
        if torch.allclose(mine, of_visible, rtol=0, atol=NEAR):
            return _wrong_factor(factor)
        if leak > NEAR:
            return f"A weight on the future is {leak:.2f}: which score gives exactly 0?"
        off = at_most(difference, floor=1e-6)
        return f"Nothing leaks, but an attention weight is off by {off:.0e}."

    return exercise_check(check)(written)


def _factor(weights: Tensor, scores: Tensor) -> float:
    """Return by what scores were multiplied, from two attention weights of each row."""
    logs = weights[..., 0].log() - weights[..., -1].log()
    factors = logs / (scores[..., 0] - scores[..., -1])
    return factors[factors.isfinite()].nanmedian().item()


def _wrong_factor(factor: float) -> str:
    if not factor:
        return "Each token looks at all that it sees evenly: the scores play no part."
    if abs(factor) >= 1:
        return f"The scores are multiplied by {factor:.4g}. Divide them by 8, the root of 64."
    said = f"The scores are divided by {1 / factor:.4g}. Divide them by 8, the root of 64."
    if round(1 / factor) in (32, 128):
        said += " In 64**1/2 the ** comes first: write 64**0.5."
    return said


@exercise_check
def check_look_back(look_back: Callable[[int], Tensor]) -> str:
    """Check a W_query that makes a head look one token back.

    Args:
        look_back: takes num_tokens and returns W_query.weight, (num_tokens, num_tokens), of a
            head whose tokens are the rows of the identity, and whose W_key is the identity.

    Returns:
        A sentence.

    >>> print(check_look_back(lambda num_tokens: 20 * torch.eye(num_tokens)))
    Each token looks at itself: its query is its own key. Move the ones by a row.
    """
    for num_tokens in (6, 5, 60):
        mine = look_back(num_tokens)
        if mine.shape != (num_tokens, num_tokens):
            return f"The shape is {tuple(mine.shape)}, not {(num_tokens, num_tokens)}."
        if not mine.isfinite().all():
            return (
                "Your matrix holds infinity or NaN, and 0 times infinity is NaN. Take a large "
                "number that is finite."
            )
        attn_weights = _weights_of_places(mine)
        looked_at = attn_weights.argmax(dim=-1).tolist()  # by token, the one it looks at most
        if looked_at == list(range(num_tokens)):
            return "Each token looks at itself: its query is its own key. Move the ones by a row."
        one_back = [0, *range(num_tokens - 1)]
        transposed = _weights_of_places(mine.mT).argmax(dim=-1).tolist()
        if looked_at != one_back and transposed == one_back:
            return (
                "Each token asks for the one after it, which is hidden. "
                "nn.Linear multiplies by the transpose: swap rows and columns."
            )
        for query in range(1, num_tokens):
            if looked_at[query] != query - 1:
                return (
                    f"Of {num_tokens} tokens, token {query} looks most at token "
                    f"{looked_at[query]}, not {query - 1}."
                )
        lowest = attn_weights.diagonal(-1).min().item()
        if lowest <= 0.99:
            more = (
                "The scores are divided by √num_tokens: let your number grow with it."
                if num_tokens == 60
                else "Larger numbers in W_query make larger scores."
            )
            return (
                f"Right way, but softly: of {num_tokens} tokens one gives only {lowest:.2f} "
                f"of its attention to the one before. {more}"
            )
    return "Right: of 6 tokens, of 5 and of 60, each looks one back with more than 0.99."


def _weights_of_places(W_query: Tensor) -> Tensor:
    """Return the attention weights of a head whose tokens and keys are one-hot places."""
    num_tokens = len(W_query)
    places = torch.eye(num_tokens)
    queries = places @ W_query.detach().float().mT
    return attention(queries, places, places, causal_mask(num_tokens))[1]


@exercise_check
def check_without_mask(context_without_mask: Callable[..., Tensor]) -> str:
    """Check a context vector that is computed from the past alone, with no mask.

    Args:
        context_without_mask: takes queries, keys, values, each (num_tokens, width), and the
            place of a token, and returns the token's context vector, (width of the values).

    Returns:
        A sentence.

    >>> print(check_without_mask(lambda queries, keys, values, i: values[0] * 0))
    Token 0 gets nothing: which keys are in keys[:0]?
    """
    queries, keys, values = draw(7, 5, seed=1), draw(7, 5, seed=2), draw(7, 3, seed=3)
    is_future = causal_mask(7)
    with in_plain_words(OF_A_PREFIX):
        made = [context_without_mask(queries, keys, values, i) for i in range(7)]
    for i, vector in enumerate(made):
        if vector.shape != (3,):
            return (
                f"The context vector of token {i} has the shape {tuple(vector.shape)}, not (3,), "
                "the width of the values."
            )
    mine = torch.stack(made)
    if not mine[0].any():
        return "Token 0 gets nothing: which keys are in keys[:0]?"
    scaled = queries @ keys.mT / 5**0.5
    usual = {
        "Right, for seven tokens: the prefix needs no mask.": attention(
            queries, keys, values, is_future
        )[0],
        "Every token sees all keys. Cut them after token i.": attention(queries, keys, values)[0],
        "Every token sees one key too many: keys[: i + 1] ends with token i.": attention(
            queries, keys, values, torch.ones(7, 7).triu(diagonal=2).bool()
        )[0],
        "The scores are not divided by the root of the width.": attention(
            queries * 5**0.5, keys, values, is_future
        )[0],
        "The scores are divided by the width, not by its root.": attention(
            queries / 5**0.5, keys, values, is_future
        )[0],
        "The values are mixed by scores: softmax is missing.": scaled.tril() @ values,
        "The values are mixed by scores, not divided either: softmax is missing.": (
            (queries @ keys.mT).tril() @ values
        ),
        "Every value that token i sees counts the same: this is a plain mean, without scores.": (
            values.cumsum(dim=0) / torch.arange(1.0, 8)[:, None]
        ),
        "The scores are divided by the root of the number of tokens, not of the width.": attention(
            queries * (5 / 7) ** 0.5, keys, values, is_future
        )[0],
        "The scores are divided by the root of the number of keys, not of the width.": attention(
            queries * (5 / torch.arange(1.0, 8)[:, None]) ** 0.5, keys, values, is_future
        )[0],
        "The attention weights are divided by the root of the width: divide the scores.": (
            attention(queries * 5**0.5, keys, values / 5**0.5, is_future)[0]
        ),
    }
    if (said := _first_equal(usual, mine)) is not None:
        return said
    step = values[1] - values[0]  # token 1 is on the line from value 0 to value 1
    share = (mine[1] - values[0]) @ step / (step @ step)
    factor = _factor(torch.stack((1 - share, share)), queries[1] @ keys[:2].mT)
    scaled = attention(queries * factor * 5**0.5, keys, values, is_future)[0]
    if torch.allclose(mine, scaled, rtol=0, atol=NEAR):
        return (
            f"The scores are divided by {1 / factor:.4g}. Here the width is 5: divide them by its "
            "root, keys.shape[-1] ** 0.5."
        )
    right = next(iter(usual.values()))
    return f"None of the usual mistakes: a number is off by {(mine - right).abs().max():.2g}."


def _first_equal(usual: Mapping[str, Tensor], mine: Tensor) -> str | None:
    """Return the sentence of the first tensor that equals mine, if one does."""
    for sentence, numbers in usual.items():
        if torch.allclose(mine, numbers, rtol=0, atol=NEAR):
            return sentence
    return None


@exercise_check
def check_window(window_mask: Callable[[int, int], Tensor]) -> str:
    """Check a mask that hides the future, and what is too long ago.

    Args:
        window_mask: takes num_tokens and window, and returns the mask, bool, (num_tokens,
            num_tokens), True for hidden.

    Returns:
        A sentence.

    >>> print(check_window(lambda num_tokens, window: causal_mask(num_tokens)))
    With window=3 the tokens see [1, 2, 3, 4, 5, 6] keys; the last must see 3.
    """
    for num_tokens, window in ((6, 3), (5, 1)):
        with in_plain_words(OF_MASKS):
            mine = window_mask(num_tokens, window)
        wanted = (num_tokens, num_tokens)
        if mine.dtype != torch.bool or mine.shape != wanted:
            return (
                f"It is {mine.dtype}, {tuple(mine.shape)}; with num_tokens={num_tokens} it must be "
                f"bool, {wanted}."
            )
        distance = torch.arange(num_tokens)[:, None] - torch.arange(num_tokens)
        visible = (distance >= 0) & (distance < window)
        if torch.equal(mine, visible):
            return "Your True means visible. It must mean hidden."
        if torch.equal(mine, ~visible.mT) and window > 1:  # window=1: the same as transposed
            return "It is transposed: the distance is i - j, place[:, None] - place[None, :]."
        if not mine.any():
            return (
                "Nothing is hidden. Are the two joined with &? No distance is both negative and "
                "too large: take |."
            )
        if mine.diagonal().any():
            return "Some token does not see itself, where the distance i - j is 0."
        if not mine[causal_mask(num_tokens)].all():
            return "Some token sees the future, where the distance i - j is negative."
        seen = mine.logical_not().sum(dim=-1).tolist()
        if seen != [min(i + 1, window) for i in range(num_tokens)]:
            return f"With window={window} the tokens see {seen} keys; the last must see {window}."
    return "Right, for windows of 3 and of 1."


@exercise_check
def check_depends(depends: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]) -> str:
    """Check a function that tells by the Jacobian which outputs depend on which inputs.

    Args:
        depends: takes a function from x, (num_tokens, d_in), to (num_tokens, d_out), and x, and
            returns bool, (num_tokens, num_tokens): outputs down, inputs across.

    Returns:
        A sentence.

    >>> print(check_depends(lambda function, x: torch.ones(len(x), len(x), dtype=torch.bool)))
    It says that output 0 of a causal head depends on token 1.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        head = CausalAttention(d_in=5, d_out=3, context_length=7, dropout=0.0)
    x = draw(7, 5)
    shift = torch.ones(3, 5)
    shift[:, 1::2] = -1  # derivatives of both signs, whose sum over x would hide some
    shift[:, 4] = 0
    functions = {
        "a causal head": (lambda x: head(x[None])[0], ~causal_mask(7)),
        "a head that returns a millionth": (lambda x: head(x[None])[0] / 1e6, ~causal_mask(7)),
        "a shift by one token (the last one comes first)": (
            lambda x: x.roll(1, dims=0) @ shift.mT,
            torch.eye(7, dtype=torch.bool).roll(1, dims=0),
        ),
    }
    for name, (function, right) in functions.items():
        mine = depends(function, x)
        if mine.shape != (7, 7):
            return (
                f"The shape is {tuple(mine.shape)}, not (7, 7): sum over the widths, dims 1 and 3."
            )
        if mine.dtype != torch.bool:
            return f"It is {mine.dtype}, not bool: compare with 0."
        if torch.equal(mine, ~right):
            return "True and False are the wrong way round: True means depends."
        if not torch.equal(mine, right) and torch.equal(mine.mT, right):
            return "It is transposed: outputs go down, inputs across."
        if not torch.equal(mine, right):
            output, token = (int(i) for i in mine.ne(right).nonzero()[0])
            verb = "depends" if mine[output, token] else "does not depend"
            why = (
                ""
                if mine[output, token]
                else " Derivatives of both signs cancel in a sum."
                if name.startswith("a shift")
                else " A derivative may be tiny: compare with 0."
            )
            return f"It says that output {output} of {name} {verb} on token {token}.{why}"
    return "Right: the triangle of a causal head, and the shifted line of a shift by one token."
