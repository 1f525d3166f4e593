"""The patterns known in advance, and how a head is scored on them."""

from functools import partial

import pytest
import torch

from attncourse.learning import patterns
from head_patterns import k_back, score, two_letters

TOKENS = torch.tensor([[3, 1, 4, 1, 3, 1, 4], [2, 2, 2, 0, 1, 0, 2]])
RULES = {
    "1 back": lambda tokens, q, k: k == q - 1,
    "2 back": lambda tokens, q, k: k == q - 2,
    "induction": lambda tokens, q, k: 0 < k <= q and tokens[k - 1] == tokens[q],
    "two letters": lambda tokens, q, k: (
        1 < k <= q and tokens[k - 1] == tokens[q] and tokens[k - 2] == tokens[q - 1]
    ),
}
PATTERNS = {
    "1 back": partial(k_back, k=1),
    "2 back": partial(k_back, k=2),
    "induction": patterns.induction,
    "two letters": two_letters,
}


def random_weights(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(*shape, 7, 7, generator=generator, dtype=torch.float64)
    return scores.masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf).softmax(-1)


@pytest.mark.parametrize("name", RULES)
def test_each_pattern_means_what_its_name_says(name):
    rule, rows = RULES[name], TOKENS.tolist()
    expected = [[[rule(row, q, k) for k in range(7)] for q in range(7)] for row in rows]
    found = PATTERNS[name](TOKENS)
    assert found.dtype == torch.bool
    assert found.tolist() == expected
    assert found.any()


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=list(PATTERNS))
def test_the_score_is_the_mean_share_over_the_queries_that_have_a_pattern(pattern):
    attn_weights, is_target = random_weights(2, 3, 5), pattern(TOKENS)
    scores = score(attn_weights, is_target)
    assert scores.shape == (3, 5)
    for layer in range(3):
        for head in range(5):
            shares = [
                attn_weights[b, layer, head, q][is_target[b, q]].sum().item()
                for b in range(2)
                for q in range(7)
                if is_target[b, q].any()
            ]
            assert scores[layer, head].item() == pytest.approx(sum(shares) / len(shares))


def test_a_place_is_ambiguous_if_its_token_was_followed_by_different_ones():
    expected = [
        [
            len({row[k + 1] for k in range(place) if row[k] == row[place]}) > 1
            for place in range(len(row))
        ]
        for row in TOKENS.tolist()
    ]
    assert patterns.is_ambiguous(TOKENS).tolist() == expected
    assert any(map(any, expected))


def test_a_place_is_ambiguous_for_a_pattern_if_its_keys_hold_different_tokens():
    is_target = random_weights(2, 1, 1)[:, 0, 0] > 0.2
    expected = [
        [len(set(row[marks].tolist())) > 1 for marks in text]
        for row, text in zip(TOKENS, is_target, strict=True)
    ]
    assert patterns.is_ambiguous(TOKENS, is_target).tolist() == expected
    assert {True, False} <= {one for row in expected for one in row}


def test_heads_with_a_share_are_all_of_them_the_largest_first():
    shares = torch.tensor([[0.2, 0.7, 0.1], [0.69, 0.9, 0.8]])
    assert patterns.heads_above(shares, 0.7) == "L1H1 0.900   L1H2 0.800   L0H1 0.700"
