"""Checks of what a learner writes about one head: its weights, where it looks, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
from attncourse.checks.exercises import exercise_check, value_check
from attncourse.checks.verdict import Verdict
from attncourse.compare import at_most
from attnlib.functional import attention, causal_mask

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

    @exercise_check(reference=_causal_weights)
    def check(causal_weights: Callable[[Tensor], Tensor]) -> Verdict | str:
        with remedied(_of_scores):
            mine = causal_weights(exact.clone()).double()
        require_shape(mine, wanted := tuple(used.shape))
        off = (mine - used).abs().max().item()
        if not off <= ROUNDING:
            return (
                _usual_weights(mine, exact)
                or _odd_rows(mine)
                or f"Nothing leaks, but an attention weight is off by up to {at_most(off, 1e-6):g}."
            )
        count = f"all {wanted[0] * wanted[1]} heads, {used.numel():,} attention weights"
        notes = _limits(causal_weights, exact, used.double())
        return noted(f"Right: {count}, are those that the model used.", *notes)

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
        "returns a new tensor: is it called, and its result kept?": scaled.softmax(dim=-1),
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
    if (sums - 1).abs().max() > 0.01:  # more than rounding
        ends = f"{sums.min():.2g} to {sums.max():.2g}"
        return f"Each row must sum to 1; yours sum to {ends}. Along which axis does softmax run?"
    if (leak := mine[..., is_future].max()) > ROUNDING:
        return f"A weight on the future is {leak:.2f}: which score gives exactly 0?"
    return None


def _factor(weights: Tensor, scores: Tensor) -> float:
    """Return by what scores were multiplied, from two attention weights of each row."""
    logs = weights[..., 0].log() - weights[..., -1].log()
    factors = logs / (scores[..., 0] - scores[..., -1])
    return factors[factors.isfinite()].nanmedian().item()


def _divided_by(factor: float, usual: Mapping[float, str], must: str) -> str:
    for divisor, said in usual.items():
        if abs(factor * divisor - 1) < 1e-3:
            return said
    if not factor:
        return "Each token looks at all that it sees evenly: the scores play no part."
    if abs(factor) > 1:
        return f"The scores are multiplied by {factor:.4g}. {must}"
    return f"The scores are divided by {1 / factor:.4g}. {must}"


def _look_back(num_tokens: int) -> Tensor:
    n: float = 10 * num_tokens**0.5
    return n * torch.eye(num_tokens).roll(1, dims=0)


@exercise_check(reference=_look_back)
def check_look_back(look_back: Callable[[int], Tensor]) -> Verdict | str:
    """Check queries that make a head look one token back.

    Args:
        look_back: takes num_tokens and returns the queries, (num_tokens, num_tokens), of a head
            whose keys are the rows of the identity.

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
                    "Each token asks for the one after it, which is hidden: row i is the query of "
                    "token i, and its large number belongs in column i - 1."
                )
            token = next(i for i, key in enumerate(looked_at) if key != one_back[i])
            wrong = f"token {token} looks most at token {looked_at[token]}, not {one_back[token]}"
            return f"Of {num_tokens} tokens, {wrong}."
        lowest = attn_weights.diagonal(-1).min().item()
        more = "Larger numbers in a query make larger scores."
        if num_tokens == 60 and largest[60] == largest[6]:
            grow = "the scores are divided by √num_tokens, so your number must grow with it"
            more = f"{largest[6]:.4g} is enough for 6 tokens and too small for 60: {grow}."
        softly = f"of {num_tokens} tokens one gives only {lowest:.2f} of its attention"
        require(lowest > 0.99, f"Right way, but softly: {softly} to the one before. {more}")
    return noted("Right: of 6 tokens, of 5 and of 60, each looks one back with more than 0.99.")


def _weights_of_places(queries: Tensor) -> Tensor:
    """Return the attention weights of a head whose keys are one-hot positions."""
    keys = torch.eye(len(queries))
    return attention(queries.detach().float(), keys, keys, causal_mask(len(queries)))[1]


# Where a head should look, and an experiment

TEXTS = ("abcxbcab", "aabababb")  # two texts of a batch; letters as they occur in them
Rule = Callable[[str, int, int], bool]


def _letters() -> Tensor:
    return torch.tensor([[ord(letter) - ord("a") for letter in text] for text in TEXTS])


def _marked(rule: Rule) -> Tensor:
    size = range(len(TEXTS[0]))
    return torch.tensor([[[rule(text, q, k) for k in size] for q in size] for text in TEXTS])


def _problem(mine: Tensor, right: Rule, usual: dict[str, Rule]) -> str | None:
    """Return what is wrong with a pattern, or None: a usual mistake, or the first wrong row."""
    expected = _marked(right)
    require_mask(mine, tuple(expected.shape))
    if mine.equal(expected):
        return None
    for sentence, rule in usual.items():
        if mine[:, 1:].equal(_marked(rule)[:, 1:]):  # query 0 may hold what roll brings
            return sentence
    text = 0 if not mine[0].equal(expected[0]) else 1
    query, keys, wanted = first_wrong_row(mine[text], expected[text])
    return f"{TEXTS[text]}: query {query} must mark keys {wanted}, not {keys}."


def _induction(tokens: Tensor) -> Tensor:
    return (tokens[:, :, None] == tokens[:, None, :]).tril(-1).roll(1, dims=-1)


@exercise_check(reference=_induction)
def check_induction(induction: Callable[[Tensor], Tensor]) -> Verdict | str:
    """Check a detector of the keys right after an earlier occurrence of the query's token.

    Args:
        induction: takes tokens, int64, (b, num_tokens), and returns bool, (b, num_tokens,
            num_tokens), True at those keys.

    >>> print(check_induction(lambda tokens: tokens[:, :, None] == tokens[:, None, :]))
    It marks every key with the query's own letter, later ones and itself included.
    """
    problem = _problem(
        induction(_letters()),
        lambda text, q, k: 0 < k <= q and text[k - 1] == text[q],
        {
            "It marks every key with the query's own letter, later ones and itself included.": (
                lambda text, q, k: text[k] == text[q]
            ),
            "It marks the earlier letter itself; the key that counts comes right after it.": (
                lambda text, q, k: k < q and text[k] == text[q]
            ),
            "It marks the letter right before the earlier one: move the marks the other way.": (
                lambda text, q, k: (k + 1) % 8 < q and text[(k + 1) % 8] == text[q]
            ),
            "It also marks the key after the query: a letter is not earlier than itself.": (
                lambda text, q, k: (k - 1) % 8 <= q and text[(k - 1) % 8] == text[q]
            ),
            "It marks keys in the future too: after which earlier letters may the query look?": (
                lambda text, q, k: k > 0 and text[k - 1] == text[q]
            ),
            "It marks keys in the future too, and what roll brings in at key 0: cut first, to the "
            "earlier letters.": lambda text, q, k: text[(k - 1) % 8] == text[q],
            "It misses the key at the query itself, when the same letter came right before.": (
                lambda text, q, k: 0 < k < q and text[k - 1] == text[q]
            ),
            "It moves first, then cuts: marks of the last key come in at key 0. Cut first.": (
                lambda text, q, k: k < q and text[(k - 1) % 8] == text[q]
            ),
            "Key 0 comes after no letter: what roll brings in there must not count. Cut first.": (
                lambda text, q, k: k <= q and text[(k - 1) % 8] == text[q]
            ),
            "It moves the marks from query to query; the keys are the last dimension, -1.": (
                lambda text, q, k: k < (q - 1) % 8 and text[k] == text[(q - 1) % 8]
            ),
        },
    )
    return problem or noted("Right: this marks what an induction head should look at.")


KEYS, QUERIES = range(25), range(25, 48)  # of the places of the lesson's texts


@value_check(reference=lambda: (0, 1, slice(25, 48)))
def check_refuting(design: Any) -> Verdict | str:
    """Check an experiment on the lesson's two layers: could it refute that two letters match?

    L0H1 is silent at places 0 to 24 already. The claim: queries after 24 find their key because
    L0H0 told it the letter two back, and L0H1 tells the query the letter one back.

    Args:
        design: (layer, head, places): the head that falls silent as well, and a slice of places.

    >>> check_refuting((0, 1, slice(25)))
    L0H1 is silent at those places already: nothing can change.
    """
    match design:
        case (0 | 1 as layer, 0 | 1 as head, slice() as places):
            silent = set(range(48)[places])
        case _:
            return "It must be (layer, head, slice(first, after)), such as (1, 0, slice(25, 48))."
    if layer == 1:
        return (
            "Layer 1 names the answers. Silent, it names fewer, whoever told it where to look: no "
            "claim about layer 0 can lose by that."
        )
    if head == 0 and silent & set(KEYS):
        return (
            "This takes from the keys what the claim needs, and what its rival needs, too: by both "
            "the answers fall. What must the queries know by the one story, and not by the other?"
        )
    if head == 0:
        return (
            "The claim gives L0H0 nothing to do there, so it says that nothing falls; so does "
            "nearly every other claim. It is a control. What must the queries know, and from whom?"
        )
    if not silent & set(QUERIES):
        return "L0H1 is silent at those places already: nothing can change."
    if not silent >= set(QUERIES):
        return "Some queries after 24 still hear L0H1, and are right for that reason: silence all."
    return noted(
        "Right: this could refute it. The claim says that the answers must fall now. If they "
        "stay, it is wrong."
    )
