"""Questions with degenerate inputs, each of which leaves one step of attention that can matter.

Like every question, each returns None if the learner's class is right there, or else a sentence
that names the line that is likely wrong. They are asked in order: each assumes that everything
asked before it is right.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from attncourse.checks.attempt import draw, run
from attncourse.checks.pair import HEAD_DIM, NUM_HEADS, NUM_TOKENS, B, close
from attncourse.checks.questions import Answer
from attncourse.checks.trial import Trial, scale_suspects
from attncourse.checks.verdict import Fault
from attncourse.checks.wrong_scores import scale_sentence
from attnlib.functional import causal_mask, merge_heads, split_heads
from attnlib.modules import MultiHeadAttention, MultiHeadAttentionWrapper


def one_token(trial: Trial) -> Answer:
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
            return the_mask(trial) or "One token alone gives NaN."
        if close(result, run(ours, x, weights)):
            continue
        for code, suspect, sentence in _suspects(weights, x, num_heads):
            if close(result, suspect):
                return Fault("", code, sentence)
        alone = trial.attn_weights_of(
            mine, trial.marked_tokens(num_tokens=1, num_heads=num_heads), num_heads
        )[..., 0]
        if not close(alone, torch.ones_like(alone)):
            worst = alone.flatten()[(alone - 1).abs().argmax()]
            one_factor = close(alone, worst.expand_as(alone))
            about = (
                ": is there a softmax over the keys, dim=-1?"
                if one_factor and 0 < worst < 1
                else ", the values alone: look at what happens between the values and the result."
            )
            return f"The only token gets attention weight {worst:.3g} instead of 1{about}"
        if trial.right is MultiHeadAttention:
            return (
                "With one token only the values and out_proj matter, and the result is wrong: look "
                "at the lines that make values and context_vec, and at out_proj."
            )
        return (
            "With one token only the values matter, and the result is wrong: look at the lines "
            "that make values and context_vec."
        )
    return None


def _suspects(
    weights: Mapping[str, Tensor], x: Tensor, num_heads: int
) -> list[tuple[str, Tensor, str]]:
    """Return what the result of one token is if a certain line is wrong."""

    def project(name: str) -> Tensor:
        return x @ torch.cat([w for key, w in weights.items() if f"{name}.weight" in key]).T

    def finish(context_vec: Tensor) -> Tensor:
        if "out_proj.weight" not in weights:
            return context_vec
        return context_vec @ weights["out_proj.weight"].T + weights["out_proj.bias"]

    values = project("W_value")
    heads = values.chunk(num_heads, dim=-1)
    return [
        (
            "values.keys",
            finish(project("W_key")),
            "With one token the result must come from its value, and yours comes from its key: "
            "are keys and values swapped? The attention weights multiply the values.",
        ),
        (
            "values.queries",
            finish(project("W_query")),
            "With one token the result must come from its value, and yours comes from its query: "
            "the attention weights multiply the values.",
        ),
        (
            "out_proj.missing",
            values,
            "With one token the result is its value, and out_proj is missing: end with "
            "self.out_proj(context_vec).",
        ),
        (
            "merge.order",
            finish(torch.cat(heads[::-1], dim=-1)),
            "The heads come out in reverse order: head 0 belongs in the first columns.",
        ),
        (
            "merge.alternating",
            finish(torch.stack(heads, dim=-1).flatten(-2)),
            "The columns of the heads alternate: all of head 0 come first, then all of head 1.",
        ),
        (
            "merge.repeated",
            finish(torch.cat([heads[0]] * num_heads, dim=-1)),
            "Every head returns what head 0 returns: does the loop use its own head each time?",
        ),
        (
            "out_proj.twice",
            finish(finish(values)),
            "out_proj is applied twice.",
        ),
    ]


def the_mask(trial: Trial) -> str | None:
    """With all scores at 0 a weight above 0 shows who sees whom: only the mask matters."""
    mine, _ = trial.build(num_heads=1)
    zero = torch.zeros(HEAD_DIM, trial.d_in(1))
    attn_weights = trial.attn_weights_of(mine, trial.marked_tokens(), 1, W_key=zero)[
        :, 0, :, :NUM_TOKENS
    ]
    sees = (attn_weights.nan_to_num(0.0).abs() > 1e-6).any(dim=0)
    may_attend = ~causal_mask(NUM_TOKENS)
    is_nan = attn_weights.isnan().any(dim=(0, 2))
    if sees.equal(may_attend) and not is_nan.any():
        return None
    if is_nan.all():
        return (
            "Every result is NaN. Is a mask multiplied by -inf? 0 * inf is NaN: use "
            "masked_fill(is_future, -torch.inf). If not, which line divides by 0?"
        )
    if sees.equal(may_attend.T) and close(attn_weights.sum(dim=1), torch.ones(B, NUM_TOKENS)):
        return (
            "The attention weights are used the other way round: attn_weights @ values, without a "
            "transpose."
        )
    if sees[1:-1].all():
        return _what_shows_the_future(trial, mine)
    return _wrong_mask(sees, ": its result is NaN" if is_nan[0] else "")


def _wrong_mask(sees: Tensor, first_result: str) -> str:
    """Return what is wrong with a mask, by the pattern of who sees whom."""
    may_attend = ~causal_mask(NUM_TOKENS)
    leaks = (sees & ~may_attend).nonzero()
    hidden = (~sees & may_attend).nonzero()
    leak = "Outputs before the changed token moved: your mask lets token {} see token {}."
    leak = leak.format(*leaks[0].tolist()) if len(leaks) else ""
    above = "key > query, or triu(..., diagonal=1)"
    late = f"Does the triangle begin right above the diagonal, {above}?"
    ones = torch.ones(NUM_TOKENS, NUM_TOKENS)
    for pattern, sentence in (
        (
            ones.tril(-1),
            "Your mask hides each token from itself too, and token 0 has nothing else to see"
            f"{first_result}. Leave the diagonal visible: {above}.",
        ),
        (
            ones.triu(1),
            "Each token sees only what comes after it: the mask is the wrong way round. What is "
            "True in masked_fill is hidden, so True must mean future.",
        ),
        (ones.triu(), f"{leak} Is the triangle the upper one, above the diagonal?"),
        (ones.tril(1), f"{leak} {late}"),
        (ones.tril(2), f"{leak} {late}"),
    ):
        # The first and the last row may be hidden altogether
        if sees[1:-1].equal(pattern[1:-1].bool()):
            return sentence
    if leak:
        return (
            f"{leak} What is hidden is not a triangle: is the mask True where the key comes after "
            "the query, and do all later lines keep the tokens in their places?"
        )
    i, j = hidden[0].tolist()
    return (
        f"Token {i} does not see token {j}, which is not in its future: your mask hides too "
        f"much. It is True above the diagonal only: {above}."
    )


def _what_shows_the_future(trial: Trial, mine: nn.Module) -> str:
    attn_weights = trial.attn_weights_of(mine, trial.marked_tokens(), 1)[:, 0, :, :NUM_TOKENS]
    future = attn_weights[:, 0, 1:]
    leak = "Outputs before the changed token moved: your mask lets token 0 see token 1."
    if close(future, future[:, :1].expand_as(future)):
        return (
            f"{leak} All future tokens get the same attention: were their scores set to a number "
            "such as 0? They must be -torch.inf."
        )
    return (
        f"{leak} Nothing is hidden at all: does the mask put -torch.inf into the scores before "
        "softmax, and is the result kept? masked_fill returns a new tensor, masked_fill_ changes "
        "the old one."
    )


def equal_keys(trial: Trial) -> str | None:
    """With W_key at 0 all scores are 0: each result is the mean of the values so far."""
    mine, _ = trial.build(num_heads=1)
    zero = torch.zeros(HEAD_DIM, trial.d_in(1))
    attn_weights = trial.attn_weights_of(mine, trial.marked_tokens(), 1, W_key=zero)[
        :, 0, :, :NUM_TOKENS
    ]
    mean = mean_so_far(NUM_TOKENS)
    if close(attn_weights, mean.expand_as(attn_weights)):
        return None
    ones = torch.ones(B, NUM_TOKENS)
    if close(attn_weights.sum(dim=1), ones):
        return (
            "The columns of the attention weights sum to 1, not the rows: softmax runs over the "
            "queries. Use dim=-1, the keys."
        )
    if close(attn_weights, (mean > 0).float() / NUM_TOKENS):
        return (
            f"The attention weights of token 0 sum to {1 / NUM_TOKENS:g}, not 1: the future was "
            "set to 0 after softmax. Hide the scores with -torch.inf before softmax."
        )
    sums = attn_weights.sum(dim=2)
    if not close(sums, ones):
        token = int((sums - 1).abs().amax(dim=0).argmax())
        return (
            f"The attention weights of token {token} sum to {sums[0, token]:.3g}, not 1: look at "
            "softmax and at what happens to attn_weights after it."
        )
    return (
        "With W_key at 0 all keys are equal, so the attention weights of a row must be equal, and "
        "yours are not: do the keys come from W_key, and the scores from queries @ keys?"
    )


def mean_so_far(num_tokens: int) -> Tensor:
    """Return the weights of equal keys: each token spreads its weight evenly over what it sees."""
    visible = torch.ones(num_tokens, num_tokens).tril()
    return visible / visible.sum(dim=1, keepdim=True)


def two_tokens_one_head(trial: Trial) -> str | None:
    """Token 1 chooses between two keys: how strongly shows the scale."""
    return _how_it_scales(trial, 1)


def equal_keys_several_heads(trial: Trial) -> str | None:
    """One head is right, and all scores are 0: only splitting the values and merging matter."""
    num_heads = trial.head_counts[-1]
    if num_heads == 1:
        return None
    mine, ours = trial.build()
    weights = trial.weights(W_key=torch.zeros(num_heads * HEAD_DIM, trial.d_in()))
    x = draw(B, NUM_TOKENS, trial.d_in(), seed=1)
    result = trial.run(mine, x, weights)
    if close(result, run(ours, x, weights)):
        return None
    begin = f"With one head all is right, with {num_heads} it is not: "
    if trial.right is MultiHeadAttentionWrapper:
        return f"{begin}look at the line that joins the results of the heads."
    values = x @ weights["W_value.weight"].T
    split_call, then_call = "view(b, num_tokens, num_heads, head_dim)", "then transpose(1, 2)"
    for at_split, at_merge, sentence in (
        (False, True, f"the split mixes tokens and heads. First {split_call}, {then_call}."),
        (True, False, "the merge mixes tokens and heads. First transpose(1, 2), then view."),
        (
            False,
            False,
            f"split and merge mix tokens and heads. Split by {split_call}, {then_call}; merge "
            "by transpose(1, 2), then view.",
        ),
    ):
        if close(result, _merged_means(values, at_split, at_merge)):
            return begin + sentence
    return f"{begin}look at the lines that split values and that merge the heads."


def _merged_means(values: Tensor, at_split: bool, at_merge: bool) -> Tensor:
    """Return the means of the values so far, with or without the transpose at split and merge."""
    b, num_tokens, width = values.shape
    if at_split:
        values = split_heads(values, NUM_HEADS)
    else:
        values = values.view(b, NUM_HEADS, num_tokens, width // NUM_HEADS)
    means = mean_so_far(num_tokens) @ values
    return merge_heads(means) if at_merge else means.reshape(b, num_tokens, width)


def two_tokens_several_heads(trial: Trial) -> str | None:
    """The values are split and merged correctly: the queries, the keys and the scale remain."""
    return _how_it_scales(trial, trial.head_counts[-1])


def _how_it_scales(trial: Trial, num_heads: int) -> str | None:
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
    for left, right, suspicion in (
        (queries, keys, None),
        (keys, queries, "keys times queries: row i of the scores must belong to query i."),
        (queries, queries, "queries times queries."),
        (keys, keys, "keys times keys."),
    ):
        scores = left @ right.mT
        differences = scores[:, :, 1, 1] - scores[:, :, 1, 0]
        scale = ((log_odds * differences).sum() / differences.square().sum()).item()
        if close(log_odds, scale * differences, 1e-4):
            if suspicion:
                return f"The scores are {suspicion} They are queries @ keys.transpose(-2, -1)."
            return _wrong_scale(trial, scale, num_heads)
    if num_heads > 1:
        return (
            f"With one head the scores are right, with {num_heads} they are not, though the "
            "values are: queries and keys must be split as the values are, head 0 first."
        )
    return (
        "With two tokens the scores are not queries times keys: look at the line that makes them, "
        "and at what is done to queries and keys before it."
    )


def _wrong_scale(trial: Trial, scale: float, num_heads: int) -> str | None:
    right = HEAD_DIM**-0.5
    if abs(scale - right) < 1e-4:
        return None
    return scale_sentence(scale, right, trial.head_width, scale_suspects(trial, num_heads, 2))[1]
