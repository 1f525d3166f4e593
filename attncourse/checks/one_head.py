"""Checks of what a learner writes about one head: its weights, its mask, where it looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Tensor

from attncourse.checks.answers import (
    FINITE,
    FailedCall,
    first_near,
    first_wrong_row,
    is_near,
    noted,
    remedied,
    require,
    require_mask,
    require_shape,
)
from attncourse.checks.attempt import draw
from attncourse.checks.exercises import exercise_check
from attncourse.checks.verdict import Verdict
from attncourse.compare import at_most
from attnlib.functional import attention, causal_mask
from attnlib.modules import CausalAttention

ROUNDING = 2e-7  # between attention weights in 32 bits and in 64
FAR, FARTHER = 1e6, 1e12  # taken from all scores, they change no attention weight


def _causal_weights(scores: Tensor) -> Tensor:
    is_future = causal_mask(scores.shape[-1], device=scores.device)
    return torch.softmax((scores / 8).masked_fill(is_future, -torch.inf), dim=-1)


def check_causal_weights(
    written: Callable[[Tensor], Tensor], scores: Tensor, used: Tensor
) -> Verdict:
    """Compare a learner's attention weights with those that a real model used.

    Args:
        written: takes raw scores, (..., num_tokens, num_tokens), and returns attention weights.
        scores: queries times keys, (num_layers, num_heads, num_tokens, num_tokens), of heads of
            width 64, neither scaled nor masked.
        used: of the same shape, the attention weights that the model made of them.

    >>> scores = torch.tensor([[[[0.0, 9.0], [8.0, 8.0]]]])
    >>> used = torch.tensor([[[[1.0, 0.0], [0.5, 0.5]]]])
    >>> print(check_causal_weights(lambda scores: scores / 8, scores, used))
    These are still scores: softmax, along each row, comes last.
    """
    exact = scores.double()  # so that every right way to round is within the tolerance

    @exercise_check(ours=_causal_weights)
    def check(causal_weights: Callable[[Tensor], Tensor]) -> Verdict | str:
        with remedied(_of_scores):
            mine = causal_weights(exact.clone()).double()
        require_shape(mine, wanted := tuple(used.shape))
        off = (mine - used).abs().max().item()
        if not off <= ROUNDING:
            return (
                _usual_weights(mine, exact)
                or _odd_rows(mine)
                or f"Nothing leaks, but an attention weight is off by {at_most(off, 1e-6):.0e}."
            )
        count = f"all {wanted[0] * wanted[1]} heads, {used.numel():,} attention weights"
        notes = _limits(causal_weights, exact, used.double())
        return noted(f"Right: {count}, are those that GPT-2 used.", *notes)

    return check(written)


def _of_scores(error: BaseException, _call: FailedCall) -> str | None:
    if isinstance(error, (NameError, AttributeError)) and error.name in ("inf", "Inf", "Infinity"):
        return "In PyTorch infinity is torch.inf: write -torch.inf."
    if isinstance(error, IndexError):
        return "The mask is as wide as the last two dimensions of the scores: [..., is_future]."
    return None


def _limits(causal_weights: Callable[[Tensor], Tensor], exact: Tensor, used: Tensor) -> list[str]:
    """Return what is worth a note of an answer that is right on ordinary scores."""
    is_future = causal_mask(exact.shape[-1], device=exact.device)
    lower, lowest = (causal_weights(exact - less).double() for less in (FAR, FARTHER))
    above = causal_weights(exact.masked_fill(is_future, FAR)).double()
    require(
        not (lower[..., is_future] > ROUNDING).any(),
        "Right for these scores, but not for every score: one lower than the number that hides "
        "lets the future be seen. Which number is below every other?",
    )
    notes = {
        "Where all scores of a row are very low, yours is 0 / 0: NaN. torch.softmax takes away the "
        "largest first.": bool(lower.isnan().any()),
        FINITE: bool((lowest[..., is_future] > ROUNDING).any()),
        "Where a hidden score is far above those that are seen, the row is 0 / 0: NaN. Hidden "
        "before softmax, with -torch.inf, it leaves no trace.": not is_near(above, used),
    }
    return [note for note, applies in notes.items() if applies]


def _usual_weights(mine: Tensor, exact: Tensor) -> str | None:
    """Name a usual mistake that makes these attention weights."""
    is_future = causal_mask(exact.shape[-1], device=exact.device)
    hidden = exact.masked_fill(is_future, -torch.inf)
    factor = _factor(mine[..., -1, :], exact[..., -1, :])  # 1/8, or another
    divisors = {
        1: "The scores are not divided by 8, the root of the width.",
        64: "The scores are divided by 64, the width, not by its root.",
        8**0.5: "The scores are divided by √8. The heads are 64 wide: √64 is 8.",
        128: "The scores are divided by 128. In 64**1/2 the ** comes first: write 64**0.5.",
    }
    divided = _divided_by(factor, divisors, "They must be divided by 8, the root of 64.")
    leak, scaled = mine[..., is_future].max().item(), exact * factor
    usual = {
        f"No score is hidden: the largest weight on the future is {leak:.2f}, not 0. masked_fill "
        "returns a new tensor: is its result kept?": scaled.softmax(dim=-1),
        "The future is hidden after softmax, so the rows no longer sum to 1.": (
            scaled.softmax(dim=-1).masked_fill(is_future, 0)
        ),
        divided: scaled.masked_fill(is_future, -torch.inf).softmax(dim=-1),
        "The mask hides the past: is True on the wrong side of the diagonal?": (
            exact.masked_fill(is_future.mT, -torch.inf) / 8
        ).softmax(dim=-1),
        "Softmax runs over the layers: it must run along each row.": (hidden / 8).softmax(dim=0),
        "Softmax runs over the heads: it must run along each row.": (hidden / 8).softmax(dim=1),
        "Softmax runs down the columns: each row must sum to 1.": (hidden / 8).softmax(dim=2),
        "These are still scores: softmax, along each row, comes last.": exact / 8,
    }
    return first_near(mine, usual)


def _odd_rows(mine: Tensor) -> str | None:
    """Say what is wrong with rows that are not finite, do not sum to 1, or see the future."""
    if mine.isinf().any() and not mine.isnan().any():
        return "An infinite score is still there: softmax, along each row, comes last."
    is_future = causal_mask(mine.shape[-1], device=mine.device)
    empty = mine.isnan().any(dim=-1).flatten(0, -2).any(dim=0)
    if empty[:-1].all() and not empty[-1]:  # only the last row has no future
        if mine[..., :-1, 0].isnan().all():
            return "Every row with a future is NaN: the future must be hidden with minus infinity."
        return "Minus infinity divided by itself is NaN: e to the power of each score comes first."
    if empty[-1] and not empty[:-1].any() and not mine[..., ~is_future].nan_to_num().any():
        return "The past is hidden, and the future is not: True must mean future."
    if empty.any():
        row = int(empty.nonzero()[0])
        return f"Row {row} is NaN: every score in it is hidden. Does each token still see itself?"
    sums = mine.sum(dim=-1)
    if is_near(sums, sums.mean().expand_as(sums)) and not is_near(sums, torch.ones_like(sums)):
        return f"Each row must sum to 1, not {sums.mean():.3g}: is it divided after softmax?"
    if (leak := mine[..., is_future].max()) > ROUNDING:
        return f"A weight on the future is {leak:.2f}: which score gives exactly 0?"
    return None


def _factor(weights: Tensor, scores: Tensor) -> float:
    """Return by what scores were multiplied, from two attention weights of each row."""
    logs = weights[..., 0].log() - weights[..., -1].log()
    factors = logs / (scores[..., 0] - scores[..., -1])
    return factors[factors.isfinite()].nanmedian().item()


def _divided_by(factor: float, usual: Mapping[float, str], must: str) -> str:
    """Say by what scores are divided that are multiplied by a wrong factor."""
    for divisor, said in usual.items():
        if abs(factor * divisor - 1) < 1e-3:
            return said
    if not factor:
        return "Each token looks at all that it sees evenly: the scores play no part."
    if abs(factor) > 1:
        return f"The scores are multiplied by {factor:.4g}. {must}"
    return f"The scores are divided by {1 / factor:.4g}. {must}"


def _look_back(num_tokens: int) -> Tensor:
    return 10 * num_tokens**0.5 * torch.eye(num_tokens).roll(-1, dims=0)


@exercise_check(ours=_look_back)
def check_look_back(look_back: Callable[[int], Tensor]) -> Verdict | str:
    """Check a W_query that makes a head look one token back.

    Args:
        look_back: takes num_tokens and returns W_query.weight, (num_tokens, num_tokens), of a
            head whose tokens are the rows of the identity, and whose W_key is the identity.

    >>> print(check_look_back(lambda num_tokens: 20 * torch.eye(num_tokens)))
    Each token looks at itself: its query is its own key. Move the ones by a row.
    """
    largest = {}
    for num_tokens in (6, 5, 60):
        mine = look_back(num_tokens)
        require_shape(mine, (num_tokens, num_tokens))
        require(mine.isfinite().all(), "0 times infinity is NaN: the number must be finite.")
        largest[num_tokens] = mine.max().item()
        attn_weights = _weights_of_places(mine)
        looked_at = attn_weights.argmax(dim=-1).tolist()  # by token, the one it looks at most
        one_back = [0, *range(num_tokens - 1)]
        if looked_at == list(range(num_tokens)):
            return "Each token looks at itself: its query is its own key. Move the ones by a row."
        if looked_at != one_back:
            if _weights_of_places(mine.mT).argmax(dim=-1).tolist() == one_back:
                return (
                    "Each token asks for the one after it, which is hidden. nn.Linear multiplies "
                    "by the transpose: swap rows and columns."
                )
            token = next(i for i, key in enumerate(looked_at) if key != one_back[i])
            wrong = f"token {token} looks most at token {looked_at[token]}, not {one_back[token]}"
            return f"Of {num_tokens} tokens, {wrong}."
        lowest = attn_weights.diagonal(-1).min().item()
        more = "Larger numbers in W_query make larger scores."
        if num_tokens == 60 and largest[60] == largest[6]:
            grow = "the scores are divided by √num_tokens, so your number must grow with it"
            more = f"{largest[6]:.4g} is enough for 6 tokens and too small for 60: {grow}."
        softly = f"of {num_tokens} tokens one gives only {lowest:.2f} of its attention"
        require(lowest > 0.99, f"Right way, but softly: {softly} to the one before. {more}")
    return noted("Right: of 6 tokens, of 5 and of 60, each looks one back with more than 0.99.")


def _weights_of_places(W_query: Tensor) -> Tensor:
    """Return the attention weights of a head whose tokens and keys are one-hot places."""
    num_tokens = len(W_query)
    places = torch.eye(num_tokens)
    queries = places @ W_query.detach().float().mT
    return attention(queries, places, places, causal_mask(num_tokens))[1]


def _context_without_mask(queries: Tensor, keys: Tensor, values: Tensor, i: int) -> Tensor:
    return attention(queries[i : i + 1], keys[: i + 1], values[: i + 1])[0][0]


@exercise_check(ours=_context_without_mask)
def check_without_mask(context_without_mask: Callable[..., Tensor]) -> Verdict | str:
    """Check a context vector that is computed from the past alone, with no mask.

    Args:
        context_without_mask: takes queries, keys, values, each (num_tokens, width), and the
            place of a token, and returns the token's context vector, (width of the values).

    >>> print(check_without_mask(lambda queries, keys, values, i: values[0] * 0))
    Token 0 gets nothing: which keys are in keys[:0]?
    """
    queries, keys, values = draw(7, 5, seed=1), draw(7, 5, seed=2), draw(7, 3, seed=3)
    with remedied(_of_a_prefix):
        made = [context_without_mask(queries, keys, values, i) for i in range(7)]
    for vector in made:
        require_shape(vector, (3,), ", the width of the values")
    mine, right = torch.stack(made), attention(queries, keys, values, causal_mask(7))[0]
    require(mine[0].any(), "Token 0 gets nothing: which keys are in keys[:0]?")
    off = (mine - right).abs().max().item()
    if not is_near(mine, right):
        found = first_near(mine, _usual_prefixes(mine, queries, keys, values))
        return found or f"None of the usual mistakes: a number is off by {off:.2g}."
    keys[4:], values[4:] = torch.nan, torch.nan  # which a mask lets through, as 0 * NaN
    said = (
        "Right numbers, but later tokens are computed and then hidden: leave them out, [: i + 1]."
    )
    require(context_without_mask(queries, keys, values, 3).isfinite().all(), said)
    return noted("Right, for seven tokens: the prefix needs no mask.")


def _of_a_prefix(_error: BaseException, call: FailedCall) -> str | None:
    """Return which of the two is not cut, where scores of token 0 meet values of seven tokens."""
    cut = {(1, 7): ("scores", "values"), (7, 1): ("values", "keys")}
    if len(call.shapes) != 2 or (met := (call.shapes[0][-1], call.shapes[1][0])) not in cut:
        return None
    few, many = cut[met]
    return f"The {few} are those of the tokens that token i sees: cut the {many} too, [: i + 1]."


def _usual_prefixes(
    mine: Tensor, queries: Tensor, keys: Tensor, values: Tensor
) -> dict[str, Tensor]:
    """Return what the usual mistakes compute, by what to say of them."""
    is_future, products = causal_mask(7), (queries @ keys.mT).tril()
    num_seen = torch.arange(1.0, 8)[:, None]
    step = values[1] - values[0]  # token 1 is on the line from value 0 to value 1
    share = (mine[1] - values[0]) @ step / (step @ step)
    factor = _factor(torch.stack((1 - share, share)), queries[1] @ keys[:2].mT)
    divisors = {
        1: "The scores are not divided by the root of the width.",
        5: "The scores are divided by the width, not by its root.",
        7**0.5: "The scores are divided by the root of the number of tokens, not of the width.",
    }
    must = "They must be divided by the root of the width, here 5: keys.shape[-1] ** 0.5."
    divided, root = _divided_by(factor, divisors, must), 5**0.5
    return {
        "Every token sees all keys. Cut them after token i.": attention(queries, keys, values)[0],
        "Every token sees one key too many: keys[: i + 1] ends with token i.": (
            attention(queries, keys, values, is_future.triu(diagonal=2))[0]
        ),
        "The values are mixed by scores: softmax is missing.": products / root @ values,
        "The values are mixed by undivided scores: softmax is missing.": products @ values,
        "Every value that token i sees counts the same: a plain mean.": (
            values.cumsum(dim=0) / num_seen
        ),
        "The scores are divided by the root of the number of keys, not of the width.": (
            attention(queries * root / num_seen**0.5, keys, values, is_future)[0]
        ),
        "The attention weights are divided by the root of the width: divide the scores.": (
            attention(queries * root, keys, values, is_future)[0] / root
        ),
        divided: attention(queries * factor * root, keys, values, is_future)[0],
    }


def _of_masks(_error: BaseException, call: FailedCall) -> str | None:
    if call.name != "__bool__":
        return None
    one = "`or`, `and`, `not`, `if` and a < b < c want one True or False, not a table of them"
    return f"{one}: join two tables with |, each in parentheses."


def _window_mask(num_tokens: int, window: int) -> Tensor:
    distance = torch.arange(num_tokens)[:, None] - torch.arange(num_tokens)
    return (distance < 0) | (distance >= window)


@exercise_check(ours=_window_mask)
def check_window(window_mask: Callable[[int, int], Tensor]) -> Verdict | str:
    """Check a mask that hides the future, and what is too long ago.

    Args:
        window_mask: takes num_tokens and window, and returns the mask, bool, (num_tokens,
            num_tokens), True for hidden.

    >>> print(check_window(lambda num_tokens, window: causal_mask(num_tokens)))
    With window=3 token 3 must see keys [1, 2, 3], not [0, 1, 2, 3].
    """
    for num_tokens, window in ((6, 3), (5, 1)):
        with remedied(_of_masks):
            mine = window_mask(num_tokens, window)
        require_mask(mine, (num_tokens, num_tokens))
        distance = torch.arange(num_tokens)[:, None] - torch.arange(num_tokens)
        is_past, right = distance >= window, _window_mask(num_tokens, window)
        usual = {
            "Your True means visible. It must mean hidden.": ~right,
            "It is transposed: the distance is i - j, place[:, None] - place[None, :].": right.mT,
            "Nothing is hidden. Are the two joined with &? No distance is both negative and too "
            "large: take |.": torch.zeros_like(right),
            "Every token must see itself, where the distance i - j is 0.": right | (distance == 0),
            "The future must be hidden too, where the distance i - j is negative.": is_past,
        }
        if not mine.equal(right):
            token, seen, wanted = first_wrong_row(~mine, ~right)
            other = f"With window={window} token {token} must see keys {wanted}, not {seen}."
            return first_near(mine, usual) or other
    return noted("Right, for windows of 3 and of 1.")


def _depends(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    jacobian = torch.autograd.functional.jacobian(function, x)
    return cast(Tensor, jacobian.abs().sum(dim=(1, 3)) != 0)


@exercise_check(ours=_depends)
def check_depends(
    depends: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor],
) -> Verdict | str:
    """Check a function that tells by the Jacobian which outputs depend on which inputs.

    Args:
        depends: takes a function from x, (num_tokens, d_in), to (num_tokens, d_out), and x, and
            returns bool, (num_tokens, num_tokens): outputs down, inputs across.

    >>> print(check_depends(lambda function, x: torch.ones(len(x), len(x), dtype=torch.bool)))
    It says that output 0 of a causal head depends on token 1.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        head = CausalAttention(d_in=5, d_out=3, context_length=7, dropout=0.0)
    shift = torch.ones(3, 5)
    shift[:, 1::2] = -1  # derivatives of both signs, whose sum over x would hide some
    shift[:, 4] = 0
    is_past, itself = ~causal_mask(7), torch.eye(7, dtype=torch.bool)
    tiny = "A derivative may be tiny: compare with 0."
    functions: dict[str, tuple[Callable[[Tensor], Tensor], Tensor, str]] = {
        "a causal head": (lambda x: head(x[None])[0], is_past, tiny),
        "a head that returns a millionth": (lambda x: head(x[None])[0] / 1e6, is_past, tiny),
        "a shift by one token (the last one comes first)": (
            lambda x: x.roll(1, dims=0) @ shift.mT,
            itself.roll(1, dims=0),
            "Derivatives of both signs cancel in a sum.",
        ),
        "-x": (torch.neg, itself, "A derivative may be negative: what counts is its size, abs()."),
    }
    for name, (function, right, why) in functions.items():
        mine = depends(function, draw(7, 5))
        require_shape(mine, (7, 7), ": sum over the widths, dims 1 and 3")
        require(mine.dtype == torch.bool, f"It is {mine.dtype}, not bool: compare with 0.")
        if mine.equal(right):
            continue
        output, token = mine.ne(right).nonzero()[0].tolist()
        verb, why = ("depends", "") if mine[output, token] else ("does not depend", f" {why}")
        usual = {
            "True and False are the wrong way round: True must mean that it depends.": ~right,
            "It is transposed: outputs go down, inputs across.": right.mT,
        }
        other = f"It says that output {output} of {name} {verb} on token {token}.{why}"
        return first_near(mine, usual) or other
    return noted(
        "Right: the triangle of a causal head, and the shifted line of a shift by one token."
    )
