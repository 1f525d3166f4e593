"""Questions with degenerate inputs, each of which leaves one step of attention that can matter.

They are asked in order: each assumes that everything asked before it is right. What the path shows
of the usual run is said first; these findings stand where the path shows nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from attncourse.checks.attempt import draw, run
from attncourse.checks.diagnosis.quantities import HIDDEN
from attncourse.checks.diagnosis.scores import scale_finding
from attncourse.checks.diagnosis.trial import HEAD_DIM, NUM_TOKENS, B, Trial, close
from attncourse.checks.findings import Finding, Kind
from attnlib.functional import causal_mask, split_heads
from attnlib.modules import MultiHeadAttention


def one_token(trial: Trial) -> Finding | None:
    """A single token has weight 1, so only the values and out_proj matter."""
    for num_heads in trial.head_counts[::-1]:
        mine, ours = trial.build(num_heads)
        weights = {
            name: draw(*parameter.shape, seed=seed)
            for seed, (name, parameter) in enumerate(ours.named_parameters())
        }
        x = draw(B, 1, trial.d_in(num_heads), seed=1)
        result = trial.run(mine, x, weights, num_heads)
        if result.isnan().any():
            return the_mask(trial) or Finding(Kind.RESULT_NAN)
        if not close(result, run(ours, x, weights)):
            several = trial.right is MultiHeadAttention
            return Finding(Kind.OUT_PROJ_WRONG if several else Kind.CONTEXT_WRONG, sure=False)
    return None


def the_mask(trial: Trial) -> Finding | None:
    """With all scores at 0 a weight above 0 shows who sees whom: only the mask matters."""
    mine, _ = trial.build(num_heads=1)
    x, zero = trial.marked_tokens(), torch.zeros(HEAD_DIM, trial.d_in(1))
    attn_weights = trial.attn_weights_of(mine, x, 1, W_key=zero)[:, 0, :, :NUM_TOKENS]
    sees = (attn_weights.nan_to_num(0.0).abs() > 1e-6).any(dim=0)
    may_attend = ~causal_mask(NUM_TOKENS)
    is_nan = attn_weights.isnan().any(dim=(0, 2))
    if sees.equal(may_attend) and not is_nan.any():
        return None
    if (hidden := _rows_that_are_hidden(trial, mine, x)) is not None:
        return hidden
    if is_nan.all():
        return Finding(Kind.RESULT_NAN)
    ones = torch.ones(NUM_TOKENS, NUM_TOKENS)
    for pattern, kind in (
        (ones.tril(-1), Kind.MASK_DIAGONAL),
        (ones.triu(1), Kind.MASK_INVERTED),
        (ones.triu(), Kind.MASK_PAST),
        (ones.tril(1), Kind.MASK_LATE),
        (ones, Kind.MASK_NONE),
    ):
        if sees[1:-1].equal(pattern[1:-1].bool()):  # the first and last row may be hidden
            return Finding(kind, None, {"shows": False, "nan": bool(is_nan.any())})
    leaks = (sees & ~may_attend).nonzero()
    kind = Kind.MASK_LEAKS if len(leaks) else Kind.MASK_TOO_MUCH
    i, j = (leaks if len(leaks) else (~sees & may_attend).nonzero())[0].tolist()
    return Finding(kind, None, {"token": i, "other": j, "shows": False})


def _rows_that_are_hidden(trial: Trial, mine: nn.Module, x: Tensor) -> Finding | None:
    """Return the line that hides scores of 0 as it hides the future, by their number."""
    if trial.usual_departure is not None:
        return None
    weights = trial.weights(1, W_key=torch.zeros(HEAD_DIM, trial.d_in(1)))
    made = trial.first(mine, x, _hides_a_row, weights)
    if made is None:
        return None
    return Finding(Kind.MASK_ZEROS, made.line, {"nan": bool(made.values.isneginf().any())})


def _hides_a_row(operation: object) -> bool:
    values: Tensor = operation.values  # type: ignore[attr-defined]
    square = values.ndim > 1 and values.shape[-1] == values.shape[-2] == NUM_TOKENS
    return square and bool((values < HIDDEN).all(dim=-1).any())


def equal_keys(trial: Trial) -> Finding | None:
    """With W_key at 0 all scores are 0: each result is the mean of the values so far."""
    mine, _ = trial.build(num_heads=1)
    x, zero = trial.marked_tokens(), torch.zeros(HEAD_DIM, trial.d_in(1))
    attn_weights = trial.attn_weights_of(mine, x, 1, W_key=zero)[:, 0, :, :NUM_TOKENS]
    visible = torch.ones(NUM_TOKENS, NUM_TOKENS).tril()
    mean = visible / visible.sum(dim=1, keepdim=True)
    if close(attn_weights, mean.expand_as(attn_weights)):
        return None
    ones = torch.ones(B, NUM_TOKENS)
    if close(attn_weights.sum(dim=1), ones):
        return Finding(Kind.SOFTMAX_AXIS, None, {"axes": "i"})
    if close(attn_weights, visible / NUM_TOKENS):
        return Finding(Kind.MASK_AFTER_SOFTMAX)
    sums = attn_weights.sum(dim=2)
    if not close(sums, ones):
        token = int((sums - 1).abs().amax(dim=0).argmax())
        return Finding(Kind.SOFTMAX_SUMS, None, {"token": token, "sum": float(sums[0, token])})
    return Finding(Kind.SOFTMAX_ROWS)


def two_tokens_one_head(trial: Trial) -> Finding | None:
    """Token 1 chooses between two keys: how strongly shows the scale."""
    return _how_it_scales(trial, 1)


def equal_keys_several_heads(trial: Trial) -> Finding | None:
    """One head is right, and all scores are 0: only splitting the values and merging matter."""
    num_heads = trial.most_heads
    if num_heads == 1:
        return None
    mine, ours = trial.build()
    weights = trial.weights(W_key=torch.zeros(num_heads * HEAD_DIM, trial.d_in()))
    x = trial.usual_x()
    if close(trial.run(mine, x, weights), run(ours, x, weights)):
        return None
    return Finding(Kind.MERGE_MIXED, None, {"order": ()}, sure=False)


def two_tokens_several_heads(trial: Trial) -> Finding | None:
    """The values are split and merged correctly: the queries, the keys and the scale remain."""
    return _how_it_scales(trial, trial.most_heads)


def _how_it_scales(trial: Trial, num_heads: int) -> Finding | None:
    mine, _ = trial.build(num_heads)
    x = trial.marked_tokens(b=3, num_tokens=2, num_heads=num_heads)
    W_query, W_key = (
        draw(num_heads * HEAD_DIM, trial.d_in(num_heads), seed=seed) / 3 for seed in (10, 11)
    )
    attn_weights = trial.attn_weights_of(mine, x, num_heads, W_query=W_query, W_key=W_key)
    log_odds = (attn_weights[:, :, 1, 1] / attn_weights[:, :, 1, 0]).log()
    # log(w1 / w0) = scale * (s1 - s0), with w the weights that token 1 gives to the two tokens and
    # s its scores before they are scaled. So the scale is the slope of a line through the origin,
    # fitted here by least squares; if the points lie on no such line, the scores are others.
    queries, keys = (split_heads(x @ W.T, num_heads) for W in (W_query, W_key))
    named = {"queries": queries, "keys": keys}
    for pair in (("queries", "keys"), ("keys", "queries"), ("queries",) * 2, ("keys",) * 2):
        scores = named[pair[0]] @ named[pair[1]].mT
        differences = scores[:, :, 1, 1] - scores[:, :, 1, 0]
        scale = ((log_odds * differences).sum() / differences.square().sum()).item()
        if close(log_odds, scale * differences, 1e-4):
            if pair != ("queries", "keys"):
                return Finding(Kind.SCORES_PAIR, None, {"pair": pair})
            if abs(scale - HEAD_DIM**-0.5) < 1e-4:
                return None
            wrong = scale_finding(scale, HEAD_DIM**-0.5, trial.wrong_scales(num_heads, 2))
            return wrong.knowing(width=trial.head_width)
    if num_heads > 1:
        facts = {"name": "queries or the keys", "width": trial.head_width}
        return Finding(Kind.SPLIT_COLUMNS, None, facts, sure=False)
    return Finding(Kind.SCORES_WRONG, sure=False)
