"""Questions with degenerate inputs, each of which leaves one step of attention that can matter.

Like every question, each returns None if the learner's class is right there, or else a sentence
that names the line that is likely wrong. They are asked in order: each assumes that everything
asked before it is right.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from attnlib.checks.attempt import draw, run
from attnlib.checks.trial import (
    CONTEXT_LENGTH,
    D_IN,
    HEAD_DIM,
    NUM_HEADS,
    NUM_TOKENS,
    B,
    Trial,
    close,
    marked_tokens,
)
from attnlib.functional import causal_mask, merge_heads, split_heads
from attnlib.modules import MultiHeadAttention, MultiHeadAttentionWrapper


def one_token(trial: Trial) -> str | None:
    """One token has no choice, its weight is 1: only the values and out_proj matter."""
    for num_heads in trial.head_counts[::-1]:
        mine, ours = trial.build(num_heads)
        weights = {
            name: draw(*parameter.shape, seed=seed)
            for seed, (name, parameter) in enumerate(ours.named_parameters())
        }
        x = draw(B, 1, D_IN, seed=1)
        result = trial.run(mine, x, weights, num_heads)
        if result.isnan().any():
            return _what_the_mask_hides(trial) or "One token alone gives NaN."
        if close(result, run(ours, x, weights)):
            continue
        for suspect, sentence in _suspects(weights, x, num_heads):
            if close(result, suspect):
                return sentence
        alone = trial.read(mine, marked_tokens(num_tokens=1), num_heads)[..., 0]
        if not close(alone, torch.ones_like(alone)):
            worst = alone.flatten()[(alone - 1).abs().argmax()]
            return (
                f"The only token gets weight {worst:.3g} instead of 1: is there a "
                "softmax, and does it run over the keys, dim=-1?"
            )
        last = " and out_proj" if trial.right is MultiHeadAttention else ""
        return (
            f"With one token only the values{last} matter, and the result is wrong: look at the "
            f"lines that make values and context_vec{last and ', and at out_proj'}."
        )
    return None


def _suspects(weights: Mapping[str, Tensor], x: Tensor, num_heads: int) -> list[tuple[Tensor, str]]:
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
            finish(project("W_key")),
            "With one token the result must come from its value, and yours comes from its key: "
            "are keys and values swapped? The weights multiply the values.",
        ),
        (
            finish(project("W_query")),
            "With one token the result must come from its value, and yours comes from its query: "
            "the weights multiply the values.",
        ),
        (
            values,
            "With one token the result is its value, and out_proj is missing: end with "
            "self.out_proj(context_vec).",
        ),
        (
            finish(torch.cat(heads[::-1], dim=-1)),
            "The heads come out in reverse order: head 1 belongs in the first columns.",
        ),
        (
            finish(torch.stack(heads, dim=-1).flatten(-2)),
            "The columns of the heads alternate: all of head 1 come first, then all of head 2.",
        ),
        (
            finish(torch.cat([heads[0]] * num_heads, dim=-1)),
            "Every head returns what head 1 returns: does the loop use its own head each time?",
        ),
        (
            finish(finish(values)),
            "out_proj is applied twice.",
        ),
    ]


def the_mask(trial: Trial) -> str | None:
    """The first token sees only itself, with whatever scores: only the mask matters."""
    return _what_the_mask_hides(trial)


def _what_the_mask_hides(trial: Trial) -> str | None:
    mine, _ = trial.build(num_heads=1)
    zero = torch.zeros(HEAD_DIM, D_IN)
    read = trial.read(mine, marked_tokens(), 1, W_key=zero)[:, 0, :, :NUM_TOKENS]
    sees = (read.nan_to_num(0.0).abs() > 1e-6).any(dim=0)
    may_attend = ~causal_mask(NUM_TOKENS)
    broken = read.isnan().any(dim=(0, 2))
    if sees.equal(may_attend) and not broken.any():
        return None
    if broken.all():
        return (
            "Every result is NaN. Is a mask multiplied by -inf? 0 * inf is NaN: use "
            "masked_fill(is_future, -torch.inf). If not, which line divides by 0?"
        )

    if sees.equal(may_attend.T) and close(read.sum(dim=1), torch.ones(B, NUM_TOKENS)):
        return (
            "The weights are used the other way round: attn_weights @ values, without a transpose."
        )
    inner = sees[1:-1]  # the first and the last row may be hidden altogether
    ones = torch.ones(NUM_TOKENS, NUM_TOKENS)
    if inner.all():
        return _what_shows_the_future(trial, mine)
    if inner.equal(ones.tril(-1)[1:-1].bool()):
        return (
            "Your mask hides each token from itself too, and token 1 has nothing else to see"
            f"{': its result is NaN' if broken[0] else ''}. Leave the diagonal visible: "
            "triu(..., diagonal=1)."
        )
    if inner.equal(ones.triu(1)[1:-1].bool()):
        return (
            "Each token sees only what comes after it: the mask is the wrong way round. What is "
            "True in masked_fill is hidden, so True must mean future."
        )
    leaks = (sees & ~may_attend).nonzero()
    if not len(leaks):
        i, j = ((~sees & may_attend).nonzero()[0] + 1).tolist()
        return (
            f"Token {i} does not see token {j}, which is not in its future: your mask hides too "
            "much. It is True above the diagonal only: triu(..., diagonal=1)."
        )
    i, j = (leaks[0] + 1).tolist()
    said = f"Outputs before the changed token moved: your mask lets token {i} see token {j}."
    if inner.equal(ones.triu()[1:-1].bool()):
        return f"{said} Is the triangle the upper one, above the diagonal?"
    if inner.equal(ones.tril(1)[1:-1].bool()) or inner.equal(ones.tril(2)[1:-1].bool()):
        return f"{said} Does the triangle begin right above the diagonal, triu(..., diagonal=1)?"
    return (
        f"{said} What is hidden is no triangle: is the mask True where the key comes after the "
        "query, and do all later lines keep the tokens in their places?"
    )


def _what_shows_the_future(trial: Trial, mine: nn.Module) -> str:
    read = trial.read(mine, marked_tokens(), 1)[:, 0, :, :NUM_TOKENS]
    future = read[:, 0, 1:]
    said = "Outputs before the changed token moved: your mask lets token 1 see token 2."
    if close(future, future[:, :1].expand_as(future)):
        return (
            f"{said} All future tokens get the same weight: were their scores set to a number "
            "such as 0? They must be -torch.inf."
        )
    return (
        f"{said} Nothing is hidden at all: does the mask put -torch.inf into attn_scores before "
        "softmax, and is the result kept? masked_fill returns a new tensor, masked_fill_ changes "
        "the old one."
    )


def equal_keys(trial: Trial) -> str | None:
    """With W_key at 0 all scores are 0: each result is the mean of the values so far."""
    mine, _ = trial.build(num_heads=1)
    zero = torch.zeros(HEAD_DIM, D_IN)
    read = trial.read(mine, marked_tokens(), 1, W_key=zero)[:, 0, :, :NUM_TOKENS]
    mean = mean_so_far(NUM_TOKENS)
    if close(read, mean.expand_as(read)):
        return None
    ones = torch.ones(B, NUM_TOKENS)
    if close(read.sum(dim=1), ones):
        return (
            "The columns of the weights sum to 1, not the rows: softmax runs over the queries. "
            "Use dim=-1, the keys."
        )
    if close(read, (mean > 0).float() / NUM_TOKENS):
        return (
            f"The weights of token 1 sum to {1 / NUM_TOKENS:g}, not 1: the future was set to 0 "
            "after softmax. Hide the scores with -torch.inf before softmax."
        )
    sums = read.sum(dim=2)
    if not close(sums, ones):
        token = int((sums - 1).abs().amax(dim=0).argmax())
        return (
            f"The weights of token {token + 1} sum to {sums[0, token]:.3g}, not 1: look at softmax "
            "and at what happens to attn_weights after it."
        )
    return (
        "With W_key at 0 all keys are equal, so the weights of a row must be equal, and yours are "
        "not: do the keys come from W_key, and the scores from queries @ keys?"
    )


def mean_so_far(num_tokens: int) -> Tensor:
    """Return the weights of equal keys: each token shares itself out over what it sees."""
    seen = torch.ones(num_tokens, num_tokens).tril()
    return seen / seen.sum(dim=1, keepdim=True)


def two_tokens_one_head(trial: Trial) -> str | None:
    """Token 2 chooses between two keys: how strongly shows the scale."""
    return _how_it_scales(trial, 1)


def equal_keys_several_heads(trial: Trial) -> str | None:
    """One head is right, and all scores are 0: only splitting the values and merging matter."""
    num_heads = trial.head_counts[-1]
    if num_heads == 1:
        return None
    mine, ours = trial.build()
    weights = trial.weights(W_key=torch.zeros(num_heads * HEAD_DIM, D_IN))
    x = draw(B, NUM_TOKENS, D_IN, seed=1)
    result = trial.run(mine, x, weights)
    if close(result, run(ours, x, weights)):
        return None
    said = f"With one head all is right, with {num_heads} it is not: "
    if trial.right is MultiHeadAttentionWrapper:
        return f"{said}look at the line that joins the results of the heads."
    values = x @ weights["W_value.weight"].T
    view, after = "view(b, num_tokens, num_heads, head_dim)", "then transpose(1, 2)"
    for at_split, at_merge, sentence in (
        (False, True, f"the split mixes tokens and heads. First {view}, {after}."),
        (True, False, "the merge mixes tokens and heads. First transpose(1, 2), then view."),
        (
            False,
            False,
            f"split and merge mix tokens and heads. Split by {view}, {after}; merge by "
            "transpose(1, 2), then view.",
        ),
    ):
        if close(result, _merged_means(values, at_split, at_merge)):
            return said + sentence
    return f"{said}look at the lines that split values and that merge the heads."


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
    """The values are split and merged rightly: the queries, the keys and the scale remain."""
    return _how_it_scales(trial, trial.head_counts[-1])


def _how_it_scales(trial: Trial, num_heads: int) -> str | None:
    mine, _ = trial.build(num_heads)
    x = marked_tokens(b=3, num_tokens=2)
    W_query, W_key = (draw(num_heads * HEAD_DIM, D_IN, seed=seed) / 3 for seed in (10, 11))
    read = trial.read(mine, x, num_heads, W_query=W_query, W_key=W_key)
    chosen = (read[:, :, 1, 1] / read[:, :, 1, 0]).log()
    queries, keys = (split_heads(x @ W.T, num_heads) for W in (W_query, W_key))
    for left, right, suspicion in (
        (queries, keys, ""),
        (keys, queries, "keys times queries: row i of attn_scores must belong to query i."),
        (queries, queries, "queries times queries."),
        (keys, keys, "keys times keys."),
    ):
        scores = left @ right.mT
        differences = scores[:, :, 1, 1] - scores[:, :, 1, 0]
        scale = ((chosen * differences).sum() / differences.square().sum()).item()
        if close(chosen, scale * differences, 1e-4):
            if suspicion:
                return f"The scores are {suspicion} They are queries @ keys.transpose(-2, -1)."
            return _wrong_scale(trial, scale, num_heads)
    if num_heads > 1:
        return (
            f"With one head the scores are right, with {num_heads} they are not, though the "
            "values are: queries and keys must be split as the values are, head 1 first."
        )
    return (
        "With two tokens the scores are not queries times keys: look at the line that makes them, "
        "and at what is done to queries and keys before it."
    )


def _wrong_scale(trial: Trial, scale: float, num_heads: int) -> str | None:
    right = HEAD_DIM**-0.5
    if abs(scale - right) < 1e-4:
        return None
    width = "head_dim" if trial.right is MultiHeadAttention else "d_out"
    suspects = (
        (1.0, "they are not scaled at all."),
        (HEAD_DIM**0.5, "they are multiplied by the root, not divided."),
        (1 / HEAD_DIM, f"you divide by {width} itself, or twice by its root."),
        (1 / (2 * HEAD_DIM), f"{width}**1/2 is half of {width}, since ** binds before /."),
        ((num_heads * HEAD_DIM) ** -0.5, "you divide by the root of the width of all heads."),
        (D_IN**-0.5, "you divide by the root of d_in, the width of the embedding."),
        (num_heads**-0.5, "you divide by the root of num_heads."),
        (2**-0.5, "you divide by the root of num_tokens."),
        (CONTEXT_LENGTH**-0.5, "you divide by the root of context_length."),
    )
    found = (sentence for factor, sentence in suspects if abs(scale - factor) < 1e-4)
    return (
        f"The scores are multiplied by {scale:.4g}, and 1 / sqrt({width}) = {right:.4g} is right: "
        f"{next(found, 'look at what you divide them by.')} Divide them by {width}**0.5, the root "
        "of the width of one query."
    )
